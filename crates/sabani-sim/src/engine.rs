//! What every part of a simulation needs: virtual time, chance, what is to happen, and what is
//! under way.

use std::sync::Arc;

use crate::agenda::Agenda;
use crate::datagram::{DatagramId, Datagrams};
use crate::fabric::PortId;
use crate::{HostId, MS, Rng, Watch};

/// Something that happens at its time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// A datagram comes to its next stop.
    Arrive(DatagramId),
    /// A port's wire is free for the next datagram.
    Free(PortId),
    /// A pause frame reaches a port: it must be silent, or may go on.
    Pause(PortId, bool),
    /// A host's process runs.
    Wake(HostId),
    /// The script goes on.
    Script(u32),
    /// The recording looks at the queues.
    Sample,
}

/// Time, chance, and everything under way.
#[derive(Debug)]
pub(crate) struct Engine {
    pub now_ns: u64,
    pub rng: Rng,
    pub agenda: Agenda<Action>,
    pub datagrams: Datagrams,
    /// Who is told how far the run is.
    pub watch: Option<Arc<Watch>>,
}

/// Whoever watches is told once for so many events.
const TELL_EVERY: u64 = 1_024;

impl Engine {
    pub fn new(seed: u64) -> Self {
        Engine {
            now_ns: MS,
            rng: Rng::new(seed),
            agenda: Agenda::new(),
            datagrams: Datagrams::default(),
            watch: None,
        }
    }

    /// Tells whoever watches now and then how far it is.
    pub fn tell(&self, events: u64, delivered: u64) {
        if events.is_multiple_of(TELL_EVERY)
            && let Some(watch) = &self.watch
        {
            watch.tell(self.now_ns, delivered);
        }
    }

    /// Lets a datagram arrive at its next stop at this time.
    pub fn arrive(&mut self, at_ns: u64, id: DatagramId) {
        self.agenda.push(at_ns, Action::Arrive(id));
    }
}
