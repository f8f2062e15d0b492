//! Messages that nobody will ever receive: of communicators that have ended or are gone, and reminders of rows of
//! collectives that are over. Left where they are, they would use up their senders' credit for good.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::collective::REMEMBERED;
use super::lives::LOOK;
use super::tag::{Context, Kind};
use super::{Error, Job, locked};
use crate::Match;

/// What to throw away if it comes.
#[derive(Default)]
pub(super) struct Leftovers(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Whole communicators, the latest last.
    contexts: VecDeque<Whole>,
    /// Single tags.
    tags: VecDeque<Match>,
}

/// What is unwanted of a communicator.
struct Whole {
    context: Context,
    /// From when on.
    from: Instant,
    unwanted: Vec<Match>,
}

/// Who waits when a communicator ends looks once more for what has come before, at the next look.
const LAST_LOOKS: Duration = LOOK.saturating_mul(4);

impl Leftovers {
    /// A communicator has ended: only what its survivors agree on is still of use.
    pub fn end(&self, context: Context) {
        let unwanted = [
            context.of_kinds(Kind::Message, Kind::Collective),
            context.of_kind(Kind::Ready),
            context.of_kind(Kind::Revoked),
        ];
        self.add(context, Instant::now() + LAST_LOOKS, unwanted.into());
    }

    /// Nobody has a communicator any more.
    pub fn close(&self, context: Context) {
        // Not those of a process that is lost, which go by the world's number, too.
        let unwanted = [
            context.of_kinds(Kind::Message, Kind::Collective),
            context.of_kinds(Kind::Agreement, Kind::Revoked),
            context.of_kind(Kind::Ready),
        ];
        self.add(context, Instant::now(), unwanted.into());
    }

    fn add(&self, context: Context, from: Instant, unwanted: Vec<Match>) {
        let contexts = &mut locked(&self.0).contexts;
        contexts.retain(|one| one.context != context);
        let whole = Whole {
            context,
            from,
            unwanted,
        };
        push(contexts, whole);
    }

    /// Something is over that had a tag of its own.
    pub fn over(&self, context: Context, kind: Kind, tag: u32) {
        let unwanted = context.matching(kind, tag);
        push(&mut locked(&self.0).tags, unwanted);
    }
}

/// What is late by more than so much is not looked for any more.
fn push<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.len() == REMEMBERED {
        queue.pop_front();
    }
    queue.push_back(item);
}

impl Job {
    /// Throws away what is here of all that; whether there was anything. For each communicator it looks at all messages
    /// that wait.
    pub fn sweep(&self) -> Result<bool, Error> {
        let unwanted: Vec<_> = {
            let known = locked(&self.leftovers.0);
            let now = Instant::now();
            let contexts = known.contexts.iter().filter(|one| one.from <= now);
            let contexts = contexts.flat_map(|one| &one.unwanted);
            contexts.chain(&known.tags).copied().collect()
        };
        Ok(self.node.discard_all(&unwanted)?)
    }

    /// The same for what had a tag of its own, which costs no more the more waits.
    pub fn sweep_tags(&self) -> Result<bool, Error> {
        let unwanted: Vec<_> = locked(&self.leftovers.0).tags.iter().copied().collect();
        Ok(self.node.discard_all(&unwanted)?)
    }
}
