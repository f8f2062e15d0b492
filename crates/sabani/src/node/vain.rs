//! Receives that wait in vain.

use std::time::{Duration, Instant};

use sabani_proto::{Hindrance, RecvTicket};

use super::Node;
use crate::shared::Shared;
use crate::{Error, Match};

/// A receive looks this often whether it waits in vain. What is in its way counts once nothing has changed for
/// as long: another thread may be about to take messages, or to give memory back.
pub(crate) const IN_VAIN_EVERY: Duration = Duration::from_secs(1);

/// What is in the way of a receive, and since when.
#[derive(Default)]
pub(crate) struct Vain(Option<(Instant, Hindrance)>);

impl Vain {
    /// Takes note of what is in the way now.
    ///
    /// # Errors
    /// [`Error::Backlog`], [`Error::Starved`], if the same has been for long enough.
    pub fn check(&mut self, now: Option<Hindrance>) -> Result<(), Error> {
        let before = self.0.take();
        let Some(why) = now else { return Ok(()) };
        let same = before.filter(|(_, before)| before.is_same(&why));
        let since = same.map_or_else(Instant::now, |(since, _)| since);
        if since.elapsed() >= IN_VAIN_EVERY {
            return Err(why.into());
        }
        self.0 = Some((since, why));
        Ok(())
    }

    /// Takes note of what is in the way of a receive that is posted.
    ///
    /// # Errors
    /// As [`Vain::check`]; [`Error::Closed`], [`Error::Forked`].
    pub fn check_posted(&mut self, shared: &Shared, ticket: RecvTicket) -> Result<(), Error> {
        let hindrance = shared.lock()?.engine.node.hindrance_of(ticket);
        self.check(hindrance)
    }
}

impl Node {
    /// Whether a receive that needs a message that matches each of these waits in vain.
    pub(crate) fn check_in_vain(&self, wanted: &[Match], vain: &mut Vain) -> Result<(), Error> {
        let hindrance = {
            let node = &mut self.0.shared.lock()?.engine.node;
            wanted.iter().find_map(|wanted| node.hindrance(wanted))
        };
        vain.check(hindrance)
    }
}
