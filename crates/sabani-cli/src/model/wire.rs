//! What carries the messages of probes between ranks.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sabani::{Comm, Congestion, Error, PeerId, Posted};
use sabani_model::measure::Label;

use super::{any_probe, tag_of};
use crate::bench::transport::Transport;
use crate::counters::Counters;
use crate::job::Mesh;

/// What TCP keeps of a stream that has not left: what links of 1 Gbit/s carry in half a millisecond. The end of a probe waits
/// behind that.
const TCP_QUEUE_BYTES: usize = 64 << 10;
/// Messages of which more wait than any probe wants.
const MANY: usize = 1 << 20;

/// Sabani, or a stream between each pair of ranks.
pub enum Wire<'c> {
    Node { comm: &'c Comm, posted: Posted },
    Tcp(Mesh),
}

/// A message that has come.
pub struct Taken {
    pub label: Label,
    /// How long the call took that found it there; 0 for one that waited.
    pub took_ns: u64,
}

impl<'c> Wire<'c> {
    /// Connects all ranks, if `comm` is not what carries.
    ///
    /// # Errors
    /// As [`Mesh::connect`], or if the node is closed.
    pub fn open(transport: Transport, comm: &'c Comm) -> Result<Self> {
        match transport.congestion() {
            Some(congestion) => {
                let mesh = Mesh::connect(comm, congestion, None)?;
                mesh.keep_at_most(TCP_QUEUE_BYTES)?;
                Ok(Wire::Tcp(mesh))
            }
            None => Ok(Wire::Node {
                comm,
                posted: comm.node().post(any_probe(), None)?,
            }),
        }
    }

    /// Whether what goes to a rank gives way to others. TCP always does.
    ///
    /// # Errors
    /// None for ranks that are there.
    pub fn yield_to_others(&self, rank: usize, yields: bool) -> Result<()> {
        if let Wire::Node { comm, .. } = self {
            let kind = if yields {
                Congestion::Cubic
            } else {
                Congestion::None
            };
            comm.node()
                .set_congestion(PeerId(rank as u32), Some(kind))?;
        }
        Ok(())
    }

    /// How many messages wait here for a rank. TCP does not tell; it takes what its queue has room for.
    pub fn waiting(&self, rank: usize) -> usize {
        match self {
            Wire::Node { comm, .. } => {
                let stats = comm.node().peer_stats(PeerId(rank as u32));
                stats.map_or(0, |stats| stats.queued_messages as usize)
            }
            Wire::Tcp(mesh) if mesh.is_blocked(rank) => MANY,
            Wire::Tcp(_) => 0,
        }
    }

    /// Whether there was room for a message.
    ///
    /// # Errors
    /// If the rank is gone.
    pub fn send(&mut self, rank: usize, label: Label, body: &[u8]) -> Result<bool> {
        match self {
            Wire::Node { comm, .. } => {
                let sent = comm
                    .node()
                    .try_send(PeerId(rank as u32), tag_of(label), body);
                match sent {
                    Err(Error::Full { .. }) => Ok(false),
                    sent => Ok(sent.map(|()| true)?),
                }
            }
            Wire::Tcp(mesh) if mesh.is_blocked(rank) => Ok(false),
            Wire::Tcp(mesh) => {
                mesh.post(rank, [&label.0.to_le_bytes(), body])?;
                Ok(true)
            }
        }
    }

    /// Packets of this rank that were found lost so far; over TCP those of all its host's connections.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn lost_packets(&self) -> Result<u64> {
        match self {
            Wire::Node { comm, .. } => Ok(comm.node().stats().counters.packets_lost),
            Wire::Tcp(_) => Counters::snmp()?.figure("Tcp", "RetransSegs"),
        }
    }

    /// Whether something that was taken has still to be passed on, which only calls here do.
    pub fn is_blocked(&self) -> bool {
        match self {
            Wire::Node { .. } => false,
            Wire::Tcp(mesh) => mesh.is_any_blocked(),
        }
    }

    /// What has come, or comes within this time.
    ///
    /// # Errors
    /// If a rank is gone.
    pub fn next(&mut self, wait: Duration) -> Result<Option<Taken>> {
        let began = Instant::now();
        let found = self.look(Duration::ZERO)?;
        if let Some(label) = found {
            let took_ns = began.elapsed().as_nanos() as u64;
            return Ok(Some(Taken { label, took_ns }));
        }
        let label = self.look(wait)?;
        Ok(label.map(|label| Taken { label, took_ns: 0 }))
    }

    fn look(&mut self, wait: Duration) -> Result<Option<Label>> {
        match self {
            Wire::Node { comm, posted } => {
                let message = match wait {
                    Duration::ZERO => posted.test()?,
                    wait => posted.wait(Some(wait))?,
                };
                let Some(message) = message else {
                    return Ok(None);
                };
                *posted = comm.node().post(any_probe(), None)?;
                Ok(Some(Label(message.tag as u32)))
            }
            Wire::Tcp(mesh) => {
                let label = mesh.next(wait, |message| message.first_chunk().copied())?;
                match label {
                    Some(None) => bail!("a rank sends something else than a probe's message"),
                    label => Ok(label.flatten().map(u32::from_le_bytes).map(Label)),
                }
            }
        }
    }
}

/// A transport by its name in networks' files.
///
/// # Errors
/// If there is none of that name that probes run over.
pub fn transport(name: &str) -> Result<Transport> {
    let all = [Transport::Sabani, Transport::TcpCubic, Transport::TcpBbr];
    let found = all.into_iter().find(|one| one.name() == name);
    found.with_context(|| format!("there are {}", all.map(Transport::name).join(", ")))
}
