//! A thread of the receiver: hears one sender out.

use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use sabani::{Error, Match, Message, PeerId, PeerLost};

use super::protocol::{Answer, Ask, REQUEST_MAX, Reply, Request};
use super::worker::{Shared, Workers};
use super::{Received, receive};
use crate::interrupt::TICK;

/// Those who are listened to, and whether they have taken their leave.
#[derive(Clone, Default)]
pub struct Senders(Arc<Mutex<HashMap<PeerId, bool>>>);

impl Senders {
    /// All of them, and nobody else comes or goes.
    pub fn lock(&self) -> MutexGuard<'_, HashMap<PeerId, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Listens to a sender. What it hears goes to workers of that sender's own, each job always to the same one:
/// whoever sends what takes long to check or to write keeps nobody else waiting.
pub struct Listener {
    /// Who is listened to.
    pub sender: PeerId,
    /// What all share.
    pub shared: Arc<Shared>,
    /// Who works for it.
    pub workers: Workers,
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
            match receive(&self.shared.node, wanted, REQUEST_MAX) {
                Ok(Received::Message(message)) => {
                    self.pass(message);
                    continue;
                }
                Ok(Received::TooLong(bytes)) => {
                    self.tell(format_args!("{bytes} bytes in one message"));
                    continue;
                }
                Ok(Received::Nothing) | Err(Error::PeerLost { .. }) => {}
                Err(Error::Closed) => return self.retire(),
                // What it said can't be taken, or this machine is short of something for now.
                Err(error) => {
                    self.tell(format_args!("{error}"));
                    thread::sleep(TICK);
                }
            }
            if self.dismiss_if_gone() {
                return;
            }
        }
    }

    fn pass(&mut self, message: Message) {
        let Ok((request, _)) = Request::decode(message.body()) else {
            return;
        };
        let says_bye = matches!(request.ask, Ask::Bye(_));
        if mem::replace(&mut self.said_bye, says_bye) != says_bye {
            self.senders.lock().insert(self.sender, says_bye);
        }
        let (job, attempt) = (request.job, request.attempt);
        if let Err(error) = self.workers.work(&self.shared, job, message) {
            let reply = Reply::Refused(format!("{error:#}: try again later"));
            let answer = Answer {
                job,
                attempt,
                reply,
            };
            self.shared.answer(self.sender, &answer);
        }
    }

    /// Forgets a sender without a connection; whether it was one.
    fn dismiss_if_gone(&mut self) -> bool {
        if self.shared.is_here(self.sender) {
            return false;
        }
        // Nothing is on its way any more, so this says why.
        let wanted = Match::any().from(self.sender);
        let why = match self.shared.node.recv_timeout(wanted, Duration::ZERO) {
            Ok(Some(message)) => {
                self.pass(message);
                return false;
            }
            Err(Error::PeerLost { why, .. }) => why,
            Err(Error::Closed) => return false,
            _ => None,
        };
        // Before anybody else listens to it: what it held must be free when it is back.
        self.workers.dismiss();
        let mut senders = self.senders.lock();
        // Whoever has come back meanwhile goes on being heard here.
        let is_gone = !self.shared.is_here(self.sender) && senders.remove(&self.sender).is_some();
        drop(senders);
        if is_gone {
            self.say_farewell(why);
        }
        is_gone
    }

    /// Ends with the node, once all has been done that was heard.
    fn retire(mut self) {
        self.workers.dismiss();
        self.senders.lock().remove(&self.sender);
    }

    fn tell(&mut self, what: fmt::Arguments<'_>) {
        if !mem::replace(&mut self.told, true) {
            let sender = self.shared.named(self.sender);
            let note = format_args!("something that {sender} sent can't be taken: {what}");
            self.shared.progress.note(note);
        }
    }

    fn say_farewell(&self, why: Option<PeerLost>) {
        if self.said_bye {
            return;
        }
        let sender = self.shared.named(self.sender);
        let end = match why {
            Some(PeerLost::Closed) => "has stopped".into(),
            Some(PeerLost::Silent { time, .. }) => {
                format!("has not been heard for {:.0} s", time.as_secs_f64())
            }
            Some(why) => format!("is gone ({why})"),
            None => "is gone".into(),
        };
        self.shared.progress.note(format_args!(
            "{sender} {end} before all was sent: what has come is kept, and the same command there goes on"
        ));
    }
}
