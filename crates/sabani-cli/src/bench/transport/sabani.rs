//! Sabani, through its public interface alone.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Error, Result, anyhow, bail};
use sabani::{Builder, Checksum, JobKey, Match, Message, Node, PeerId, Schedule};

use super::{Delivery, Endpoint, Key, PATIENCE, Role, send_until};
use crate::bench::measure::{Idle, Limit, Stop, Tally};
use crate::key_log::KeyLog;

/// Longer than any wait of a turn, so that neither end ever sleeps in the kernel: the baselines
/// spin too.
const SPIN: Duration = Duration::from_secs(1);
/// How long a receiver waits before it looks whether the turn is over.
const LOOK: Duration = Duration::from_millis(5);
/// Up to here a message is copied when it is sent; above, the node refers to the source.
const COPY_BYTES: usize = 1 << 10;
/// Small messages of a burst between two looks at the clock.
const SMALL_PER_LOOK: u64 = 64;
/// Messages are told apart by nothing here.
const TAG: u64 = 1;

/// What a node is opened with, sealed under the run's key if there is one.
pub fn builder(id: PeerId, bind: SocketAddr, key: Option<Key>) -> Builder {
    let builder = Node::builder(id).bind(bind);
    match key {
        Some(Key(bytes)) => builder.job_key(JobKey::from_bytes(bytes)),
        None => builder.plain(Checksum::None),
    }
}

/// Lets waiting calls spin, unless the node has threads of its own: those need the cores.
fn spinning(builder: Builder) -> Result<Builder> {
    Ok(match builder.schedule()? {
        Schedule::Inline => builder.spin(SPIN),
        _ => builder,
    })
}

/// One node with one peer.
pub struct Sabani {
    node: Node,
    key_log: KeyLog,
    role: Role,
    peer: PeerId,
    source: Arc<Vec<u8>>,
}

impl Sabani {
    /// Opens a node, sealed under the run's key if there is one.
    pub fn open(role: Role, bind: IpAddr, key: Option<Key>, key_log: &KeyLog) -> Result<Self> {
        let (own, peer) = match role {
            Role::Client => (PeerId(0), PeerId(1)),
            Role::Server => (PeerId(1), PeerId(0)),
        };
        let builder = builder(own, SocketAddr::new(bind, 0), key);
        Ok(Self {
            node: spinning(key_log.apply(builder))?.open()?,
            key_log: key_log.clone(),
            role,
            peer,
            source: Arc::default(),
        })
    }

    fn prepare(&mut self, size: usize) {
        if self.source.len() != size {
            self.source = Arc::new(vec![1; size]);
        }
    }

    /// Sends the source.
    #[inline]
    fn send_source(&self) -> Result<()> {
        if self.source.len() <= COPY_BYTES {
            self.node.send(self.peer, TAG, &self.source)?;
        } else {
            let body = Arc::clone(&self.source);
            self.node.send_owned(self.peer, TAG, body)?;
        }
        Ok(())
    }

    /// What the node knows, for whoever wonders why nothing moves.
    fn stuck(&self, what: &str) -> Error {
        anyhow!(
            "{what} within {PATIENCE:?}: {:?}, {:?}",
            self.node.peer_stats(self.peer).unwrap_or_default(),
            self.node.stats()
        )
    }
}

impl Endpoint for Sabani {
    fn local_addr(&self) -> Result<SocketAddr> {
        Ok(self.node.local_addr())
    }

    fn join(&mut self, peer: SocketAddr) -> Result<()> {
        self.node.add_peer(self.peer, peer)?;
        if self.role == Role::Client {
            self.node.connect(self.peer, PATIENCE)?;
            while self.key_log.next_event(&self.node)?.is_some() {}
        }
        Ok(())
    }

    fn send(&mut self, size: usize) -> Result<()> {
        self.prepare(size);
        self.send_source()
    }

    fn receive(&mut self, size: usize, stop: &Stop) -> Result<Delivery> {
        for _ in 0..PATIENCE.as_millis() / LOOK.as_millis() {
            if let Some(message) = self.node.recv_timeout(Match::any(), LOOK)? {
                check(&message, size)?;
                return Ok(Delivery::Message);
            }
            if stop.is_raised() {
                return Ok(Delivery::Stopped);
            }
        }
        Err(self.stuck("nothing has come"))
    }

    fn burst_send(&mut self, size: usize, limit: Limit) -> Result<u64> {
        self.prepare(size);
        let at_once = if size <= COPY_BYTES {
            SMALL_PER_LOOK
        } else {
            1
        };
        let sent = send_until(limit, |left| {
            let count = at_once.min(left);
            for _ in 0..count {
                self.send_source()?;
            }
            Ok(count)
        })?;
        if !self.node.wait_acknowledged(PATIENCE)? {
            return Err(self.stuck("not everything was acknowledged"));
        }
        Ok(sent)
    }

    fn burst_receive(&mut self, size: usize, tally: &mut Tally, stop: &Stop) -> Result<()> {
        let mut idle = Idle::default();
        while stop.messages().is_none_or(|sent| tally.messages() < sent) {
            match self.node.try_recv(Match::any())? {
                Some(message) => {
                    check(&message, size)?;
                    idle = Idle::default();
                    tally.add(size as u64);
                }
                None => {
                    tally.pause();
                    if idle.longer_than(PATIENCE) {
                        return Err(self.stuck("nothing has come"));
                    }
                }
            }
        }
        Ok(())
    }
}

#[inline]
fn check(message: &Message, size: usize) -> Result<()> {
    if message.body().len() != size {
        bail!(
            "a message of {} bytes came in place of {size}",
            message.body().len()
        );
    }
    Ok(())
}
