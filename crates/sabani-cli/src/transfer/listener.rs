//! A thread of the receiver: hears one sender out.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use sabani::{Error, Match, Message, PeerId, PeerLost};

use super::protocol::{Ask, Request};
use super::receive;
use super::worker::{Shared, Task};
use crate::interrupt::TICK;

/// Those who are listened to.
#[derive(Clone, Default)]
pub struct Senders(Arc<Mutex<HashSet<PeerId>>>);

impl Senders {
    /// All of them, and nobody else comes or goes.
    pub fn lock(&self) -> MutexGuard<'_, HashSet<PeerId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Listens to a sender. What it hears goes to the workers, each job always to the same one.
pub struct Listener {
    /// Who is listened to.
    pub sender: PeerId,
    /// What all share.
    pub shared: Arc<Shared>,
    /// Who works.
    pub workers: Arc<[SyncSender<Task>]>,
    /// Where this one is struck off at the end.
    pub senders: Senders,
    /// It has taken its leave.
    pub said_bye: bool,
    /// The user knows that not all can be taken that it sends.
    pub told: bool,
}

impl Listener {
    /// Listens until the connection ends.
    pub fn run(mut self) {
        loop {
            let wanted = Match::any().from(self.sender);
            let why = match receive(&self.shared.node, wanted) {
                Ok(Some(message)) => {
                    self.pass(message);
                    continue;
                }
                Ok(None) => None,
                Err(Error::PeerLost { why, .. }) => why,
                Err(Error::Closed) => return,
                // What it said can't be taken, or this machine is short of something for now.
                Err(error) => {
                    self.tell(&error);
                    thread::sleep(TICK);
                    None
                }
            };
            if self.dismiss_if_gone() {
                return self.say_farewell(why);
            }
        }
    }

    fn pass(&mut self, message: Message) {
        let Ok((request, _)) = Request::decode(message.body()) else {
            return;
        };
        self.said_bye = matches!(request.ask, Ask::Bye(_));
        let at = place(&(message.source, request.job), self.workers.len());
        // Fails only when the program ends.
        let _ = self.workers[at].send(Task::Request(message));
    }

    /// Forgets a sender without a connection; whether it was one.
    fn dismiss_if_gone(&self) -> bool {
        if self.shared.is_here(self.sender) {
            return false;
        }
        // Before anybody else listens to it: what it asks for when it is back must not be forgotten, too.
        for worker in &*self.workers {
            let _ = worker.send(Task::Lost(self.sender));
        }
        let mut senders = self.senders.lock();
        // Whoever has come back meanwhile goes on being heard here.
        !self.shared.is_here(self.sender) && senders.remove(&self.sender)
    }

    fn tell(&mut self, error: &Error) {
        if !mem::replace(&mut self.told, true) {
            let note = format_args!("something that a sender sent can't be taken: {error}");
            self.shared.progress.note(note);
        }
    }

    fn say_farewell(&self, why: Option<PeerLost>) {
        const KEPT: &str = "before all was sent: what has come is kept";
        if self.said_bye {
            return;
        }
        let progress = &self.shared.progress;
        match why {
            Some(PeerLost::Closed) => progress.note(format_args!("a sender has stopped {KEPT}")),
            Some(why) => progress.note(format_args!("a sender is gone {KEPT} ({why})")),
            None => progress.note(format_args!("a sender is gone {KEPT}")),
        }
    }
}

fn place(job: &impl Hash, places: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    job.hash(&mut hasher);
    (hasher.finish() % places as u64) as usize
}
