//! What every part of a simulation needs: virtual time, chance, what is to happen, and what is
//! under way.

use crate::agenda::Agenda;
use crate::datagram::{DatagramId, Datagrams};
use crate::fabric::PortId;
use crate::{HostId, MS, Rng};

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
}

impl Engine {
    pub fn new(seed: u64) -> Self {
        Engine {
            now_ns: MS,
            rng: Rng::new(seed),
            agenda: Agenda::new(),
            datagrams: Datagrams::default(),
        }
    }

    /// Lets a datagram arrive at its next stop at this time.
    pub fn arrive(&mut self, at_ns: u64, id: DatagramId) {
        self.agenda.push(at_ns, Action::Arrive(id));
    }
}
