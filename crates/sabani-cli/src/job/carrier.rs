//! What collectives run over.

use std::time::Duration;

use anyhow::Result;
use sabani::Comm;
use sabani_collective::Hosts;

use super::{Buffers, Call, tcp::Tcp};
use crate::bench::transport::Transport;

/// What carries the messages of a collective.
pub enum Carrier<'a> {
    /// Sabani.
    Comm(&'a Comm),
    /// A stream between each pair of ranks.
    Tcp(Tcp<'a>),
}

impl<'a> Carrier<'a> {
    /// Connects all ranks, if `comm` is not what carries. `spin`: how long those that wait look before they sleep.
    ///
    /// # Errors
    /// As [`Tcp::connect`].
    pub fn open(
        transport: Transport,
        comm: &'a Comm,
        hosts: &'a Hosts,
        spin: Option<Duration>,
    ) -> Result<Self> {
        Ok(match transport.congestion() {
            Some(congestion) => Self::Tcp(Tcp::connect(comm, hosts, congestion, spin)?),
            None => Self::Comm(comm),
        })
    }

    /// Sets algorithms in place of what the rule chooses.
    ///
    /// # Errors
    /// If they can't be understood.
    pub fn set_algorithms(&mut self, wish: &str) -> Result<()> {
        match self {
            Self::Comm(comm) => comm.set_algorithms(wish)?,
            Self::Tcp(tcp) => tcp.set_algorithms(wish.parse()?),
        }
        Ok(())
    }

    /// Makes a call.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn call(&mut self, call: Call, buffers: &mut Buffers, root: usize) -> Result<()> {
        match self {
            Self::Comm(comm) => Ok(call.make(comm, buffers, root)?),
            Self::Tcp(tcp) => tcp.call(call, buffers, root),
        }
    }
}
