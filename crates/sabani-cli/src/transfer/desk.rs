//! Who talks to the receiver, and who works for them.
//!
//! Each sender has a thread that listens to it alone: a receive from anybody would wait for the rest of
//! a message that a dead sender has begun. What it hears goes to the workers, each job always to
//! the same one, so that waiting for the disk holds up nobody else.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use sabani::{Error, Event, LinkState, Match, Message, PeerId, PeerLost};

use super::protocol::{Request, TAG_HELLO};
use super::worker::{Shared, Task, Worker};
use crate::interrupt::TICK;

/// Threads that write: several, because each waits for the disk at the end of each file.
const WORKERS: usize = 8;
/// Messages that wait for a worker before those behind them must wait as well.
const QUEUE: usize = 32;

/// The senders and the workers. All threads end with the process: what they leave behind is good
/// at any time.
#[derive(Clone)]
pub struct Desk {
    shared: Arc<Shared>,
    workers: Vec<SyncSender<Task>>,
    senders: Arc<Mutex<HashSet<PeerId>>>,
}

impl Desk {
    /// Starts the workers.
    ///
    /// # Errors
    /// If the system has no threads left.
    pub fn open(shared: &Arc<Shared>) -> Result<Self> {
        let start = |index| {
            let (sender, tasks) = mpsc::sync_channel(QUEUE);
            let shared = shared.clone();
            spawn(format!("writer {index}"), move || {
                Worker::new(&shared).run(tasks);
            })?;
            Ok(sender)
        };
        Ok(Desk {
            shared: shared.clone(),
            workers: (0..WORKERS).map(start).collect::<Result<_>>()?,
            senders: Arc::default(),
        })
    }

    /// Waits a little for somebody new.
    ///
    /// # Errors
    /// If the node fails.
    pub fn welcome(&self) -> Result<()> {
        let node = &self.shared.node;
        let hello = match node.recv_timeout(Match::any().tag(TAG_HELLO), TICK) {
            Err(Error::PeerLost { .. }) => None,
            received => received?,
        };
        while let Some(event) = self.shared.key_log.next_event(node)? {
            if let Event::Lost { why, .. } = event
                && why != PeerLost::Closed
            {
                let note = format!("a sender is gone: {why}");
                self.shared.progress.note(note);
            }
        }
        let Some(hello) = hello else { return Ok(()) };
        let sender = hello.source;
        if self.senders().insert(sender) {
            let desk = self.clone();
            spawn(format!("sender {sender}"), move || desk.listen(sender))?;
        }
        self.pass(hello);
        Ok(())
    }

    /// Hears a sender out.
    fn listen(&self, sender: PeerId) {
        let node = &self.shared.node;
        loop {
            match node.recv_timeout(Match::any().from(sender), TICK) {
                Ok(Some(message)) => self.pass(message),
                Ok(None) | Err(Error::PeerLost { .. }) if self.dismiss_if_gone(sender) => return,
                Ok(None) | Err(Error::PeerLost { .. }) => {}
                Err(_) => return,
            }
        }
    }

    /// Forgets a sender without a connection; whether it was one.
    fn dismiss_if_gone(&self, sender: PeerId) -> bool {
        // Held throughout: whoever says hello meanwhile is met by a new thread.
        let mut senders = self.senders();
        let stats = self.shared.node.peer_stats(sender);
        if stats.is_some_and(|stats| stats.state == LinkState::Open) {
            return false;
        }
        senders.remove(&sender);
        for worker in &self.workers {
            // Fails only when the program ends.
            let _ = worker.send(Task::Lost(sender));
        }
        true
    }

    fn pass(&self, message: Message) {
        let Ok((request, _)) = Request::decode(message.body()) else {
            return;
        };
        let worker = &self.workers[place(&(message.source, request.job))];
        let _ = worker.send(Task::Request(message));
    }

    fn senders(&self) -> std::sync::MutexGuard<'_, HashSet<PeerId>> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = thread::Builder::new().name(name).spawn(work);
    thread.map(drop).context("starting a thread")
}

fn place(job: &impl Hash) -> usize {
    let mut hasher = DefaultHasher::new();
    job.hash(&mut hasher);
    (hasher.finish() % WORKERS as u64) as usize
}
