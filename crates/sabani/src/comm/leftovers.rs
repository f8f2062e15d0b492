//! Messages that nobody will ever receive: of communicators that have ended or are gone, and reminders of rows of
//! collectives that are over. Left where they are, they would use up their senders' credit for good.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::collective::REMEMBERED;
use super::lives::LOOK;
use super::tag::{Context, Kind, Kinds};
use super::{Error, Job, locked};

/// What to throw away if it comes.
#[derive(Default)]
pub(super) struct Leftovers(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Whole communicators, the latest last.
    contexts: VecDeque<Whole>,
    /// Single tags.
    tags: VecDeque<u64>,
}

/// What is unwanted of a communicator.
struct Whole {
    context: Context,
    /// From when on.
    from: Instant,
    kinds: Kinds,
}

/// What is unwanted now, all of it in order: there may be many messages to be looked at.
struct Unwanted {
    contexts: Vec<(u32, Kinds)>,
    tags: Vec<u64>,
    /// But these are wanted.
    answered: Vec<u64>,
}

/// Who waits when a communicator ends looks once more for what has come before, at the next look.
const LAST_LOOKS: Duration = LOOK.saturating_mul(4);

impl Leftovers {
    /// A communicator has ended: only what its survivors agree on is still of use.
    pub fn end(&self, context: Context) {
        let kinds = [Kind::Message, Kind::Collective, Kind::Ready, Kind::Revoked];
        self.add(context, Instant::now() + LAST_LOOKS, &kinds);
    }

    /// Nobody has a communicator any more. What its ranks have agreed on may still be asked for.
    pub fn close(&self, context: Context) {
        // Not those of a process that is lost, which go by the world's number, too.
        let kinds = [
            Kind::Message,
            Kind::Collective,
            Kind::Agreement,
            Kind::Ready,
            Kind::Revoked,
        ];
        self.add(context, Instant::now(), &kinds);
    }

    fn add(&self, context: Context, from: Instant, kinds: &[Kind]) {
        let contexts = &mut locked(&self.0).contexts;
        contexts.retain(|one| one.context != context);
        let whole = Whole {
            context,
            from,
            kinds: Kinds::of(kinds),
        };
        push(contexts, whole);
    }

    /// Something is over that had a tag of its own.
    pub fn over(&self, context: Context, kind: Kind, tag: u32) {
        push(&mut locked(&self.0).tags, context.tag(kind, tag));
    }

    fn unwanted(&self, mut answered: Vec<u64>) -> Unwanted {
        let known = locked(&self.0);
        let now = Instant::now();
        let contexts = known.contexts.iter().filter(|one| one.from <= now);
        let mut contexts: Vec<_> = contexts
            .map(|one| (one.context.number(), one.kinds))
            .collect();
        contexts.sort_unstable_by_key(|(number, _)| *number);
        let mut tags: Vec<_> = known.tags.iter().copied().collect();
        tags.sort_unstable();
        answered.sort_unstable();
        Unwanted {
            contexts,
            tags,
            answered,
        }
    }
}

impl Unwanted {
    fn has(&self, tag: u64) -> bool {
        let Some((number, kind)) = Context::of_tag(tag) else {
            return false;
        };
        let place = self.contexts.binary_search_by_key(&number, |(it, _)| *it);
        let is_of_these = place.is_ok_and(|place| self.contexts[place].1.have(kind));
        is_of_these && self.answered.binary_search(&tag).is_err()
            || self.tags.binary_search(&tag).is_ok()
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
    /// Throws away what is here of all that; whether there was anything. If whole communicators are among it, it looks once at
    /// all messages that wait.
    pub fn sweep(&self) -> Result<bool, Error> {
        let unwanted = self
            .decided
            .with_tags(|answered| self.leftovers.unwanted(answered));
        match unwanted.contexts.is_empty() {
            true => Ok(self.node.discard_tags(&unwanted.tags)?),
            false => Ok(self.node.discard_all(|_, tag| unwanted.has(tag))?),
        }
    }

    /// The same for what had a tag of its own, which costs no more the more waits.
    pub fn sweep_tags(&self) -> Result<bool, Error> {
        let tags: Vec<_> = locked(&self.leftovers.0).tags.iter().copied().collect();
        Ok(self.node.discard_tags(&tags)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unwanted_is_told_by_its_tag() {
        let leftovers = Leftovers::default();
        let contexts: Vec<_> = (0..REMEMBERED as u32 + 1)
            .rev()
            .map(|number| Context::numbered(number).unwrap())
            .collect();
        contexts.iter().for_each(|one| leftovers.close(*one));
        let [gone, answered] = [contexts[1], contexts[2]];
        let open = Context::numbered(1 << 20).unwrap();
        leftovers.over(open, Kind::Ready, 7);
        let unwanted = leftovers.unwanted(vec![answered.tag(Kind::Agreement, 3)]);
        assert!(unwanted.has(gone.tag(Kind::Agreement, 3)));
        assert!(unwanted.has(answered.tag(Kind::Message, u32::MAX)));
        assert!(unwanted.has(answered.tag(Kind::Agreement, 2)));
        assert!(!unwanted.has(answered.tag(Kind::Agreement, 3)));
        assert!(!unwanted.has(Context::WORLD.tag(Kind::Lost, 0)));
        assert!(unwanted.has(open.tag(Kind::Ready, 7)) && !unwanted.has(open.tag(Kind::Ready, 8)));
        assert!(!unwanted.has(7), "it is the program's own");
        // The oldest one is forgotten.
        assert!(!unwanted.has(contexts[0].tag(Kind::Message, 0)));
    }
}
