//! Receives that wait in vain.

use std::time::{Duration, Instant};

use sabani_proto::RecvTicket;

use super::Node;
use crate::shared::Shared;
use crate::{Error, Match, Starvation};

/// A receive looks this often whether it waits in vain. What is in its way counts once it has been there for
/// as long: who holds memory may be about to give it back, in another thread.
pub(crate) const IN_VAIN_EVERY: Duration = Duration::from_secs(1);

/// What is in the way of a receive, and since when.
#[derive(Default)]
pub(crate) struct Vain(Option<(Instant, Starvation)>);

impl Vain {
    /// Takes note of what is in the way now.
    ///
    /// # Errors
    /// [`Error::Starved`], if the same has been for long enough.
    pub fn check(&mut self, now: Option<Starvation>) -> Result<(), Error> {
        let before = self.0.take();
        let Some(why) = now else { return Ok(()) };
        let same = before.filter(|(_, before)| before.is_by_same_holder(&why));
        let since = same.map_or_else(Instant::now, |(since, _)| since);
        if since.elapsed() >= IN_VAIN_EVERY {
            return Err(Error::Starved(why));
        }
        self.0 = Some((since, why));
        Ok(())
    }

    /// Takes note of what is in the way of a receive that is posted.
    ///
    /// # Errors
    /// As [`Vain::check`]; [`Error::Closed`], [`Error::Forked`].
    pub fn check_posted(&mut self, shared: &Shared, ticket: RecvTicket) -> Result<(), Error> {
        let starved = shared.lock()?.engine.node.starved_receive(ticket);
        self.check(starved)
    }
}

impl Node {
    /// Whether a receive that has just been withdrawn waited in vain.
    pub(super) fn check_in_vain(&self, wanted: &Match, vain: &mut Vain) -> Result<(), Error> {
        let backlogged = {
            let node = &self.0.shared.lock()?.engine.node;
            wanted.source().and_then(|_| node.backlogged(wanted))
        };
        if let Some((peer, bytes)) = backlogged {
            return Err(Error::Backlog { peer, bytes });
        }
        self.check_starved(wanted, vain)
    }

    /// Whether it waited in vain for memory.
    pub(crate) fn check_starved(&self, wanted: &Match, vain: &mut Vain) -> Result<(), Error> {
        let starved = self.0.shared.lock()?.engine.node.starved(wanted);
        vain.check(starved)
    }
}
