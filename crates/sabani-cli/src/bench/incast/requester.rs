//! The receiver's side of a transport: it asks senders for messages, and waits for them.

use std::{
    collections::VecDeque,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sabani::{Match, Node, PeerId, Posted};

use super::protocol::{Setup, address};
use crate::bench::transport::{Transport, sabani::builder, tcp};

/// How long a message may take before the turn is given up.
const PATIENCE: Duration = Duration::from_secs(20);
/// The receiver's node; the senders' are numbered after it.
pub const RECEIVER: PeerId = PeerId(0);
/// Requests are told from answers by where they go.
pub const TAG: u64 = 0;
/// What is read at once from a TCP connection.
const READ_BYTES: usize = 256 << 10;

/// Asks senders, which are numbered from 0, for messages.
pub trait Requester {
    /// Asks a sender for one more message.
    fn request(&mut self, sender: usize, bytes: usize) -> Result<()>;

    /// Whether the oldest message that a sender still owes is here whole, or comes within `timeout`. It
    /// is owed no longer then.
    fn arrives(&mut self, sender: usize, timeout: Duration) -> Result<bool>;

    /// Bytes that have come so far, with what the transport adds to messages, whole or not.
    fn arrived_bytes(&self) -> u64;

    /// Waits for the oldest message that a sender still owes.
    fn wait(&mut self, sender: usize) -> Result<()> {
        let here = self.arrives(sender, PATIENCE)?;
        ensure!(here, "nothing comes from sender {sender} for {PATIENCE:?}");
        Ok(())
    }
}

/// Meets all senders.
///
/// # Errors
/// If one of them can't be reached.
pub fn open(
    transport: Transport,
    setup: &Setup,
    senders: &[Ipv4Addr],
) -> Result<Box<dyn Requester>> {
    let senders = senders.iter().map(|&host| address(host, transport));
    Ok(match transport.congestion() {
        Some(congestion) => Box::new(Tcp::open(setup, senders, congestion)?),
        None => Box::new(Sabani::open(transport, setup, senders)?),
    })
}

/// One node. Each message has a receive posted for it before it is asked for, as a program that
/// knows what it waits for would do.
struct Sabani {
    node: Node,
    owed: Vec<VecDeque<(Posted, usize)>>,
}

impl Sabani {
    fn open(
        transport: Transport,
        setup: &Setup,
        senders: impl Iterator<Item = SocketAddr>,
    ) -> Result<Self> {
        let key = transport.is_sealed().then_some(setup.key);
        let own = address(setup.host, transport);
        let node = builder(RECEIVER, own, key).spin(Duration::ZERO).open()?;
        let mut owed = Vec::new();
        for (sender, addr) in senders.enumerate() {
            node.add_peer(peer(sender), addr)?;
            node.connect(peer(sender), PATIENCE)?;
            owed.push(VecDeque::new());
        }
        Ok(Self { node, owed })
    }
}

impl Requester for Sabani {
    fn request(&mut self, sender: usize, bytes: usize) -> Result<()> {
        let posted = self.node.post(Match::any().from(peer(sender)), None)?;
        self.owed[sender].push_back((posted, bytes));
        let request = (bytes as u64).to_le_bytes();
        Ok(self.node.send(peer(sender), TAG, &request)?)
    }

    fn arrives(&mut self, sender: usize, timeout: Duration) -> Result<bool> {
        let owed = self.owed[sender].front_mut();
        let (posted, bytes) = owed.context("nothing is owed")?;
        let Some(message) = posted.wait(Some(timeout))? else {
            return Ok(false);
        };
        let len = message.body().len();
        ensure!(len == *bytes, "{len} bytes came in place of {bytes}");
        self.owed[sender].pop_front();
        Ok(true)
    }

    fn arrived_bytes(&self) -> u64 {
        self.node.stats().counters.bytes_received
    }
}

/// The node of a sender.
pub fn peer(sender: usize) -> PeerId {
    PeerId(sender as u32 + 1)
}

/// A connection to each sender.
struct Tcp {
    connections: Vec<Connection>,
    buffer: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    arrived_bytes: u64,
    /// Where each owed message ends in the stream.
    owed: VecDeque<u64>,
    asked_bytes: u64,
}

impl Connection {
    fn open(setup: &Setup, sender: SocketAddr, congestion: &str) -> Result<Self> {
        let socket = tcp::socket(SocketAddr::new(setup.host.into(), 0), congestion)?;
        socket
            .connect(&sender.into())
            .with_context(|| format!("cannot connect to {sender}"))?;
        Ok(Self {
            stream: tcp::ready(socket)?,
            arrived_bytes: 0,
            owed: VecDeque::new(),
            asked_bytes: 0,
        })
    }

    fn take_oldest(&mut self) -> Result<bool> {
        let end = *self.owed.front().context("nothing is owed")?;
        let here = self.arrived_bytes >= end;
        if here {
            self.owed.pop_front();
        }
        Ok(here)
    }
}

impl Tcp {
    fn open(
        setup: &Setup,
        senders: impl Iterator<Item = SocketAddr>,
        congestion: &str,
    ) -> Result<Self> {
        let connect = |sender| Connection::open(setup, sender, congestion);
        Ok(Self {
            connections: senders.map(connect).collect::<Result<_>>()?,
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Sleeps until something is there to be read, and reads it.
    fn read(&mut self, timeout: Duration) -> Result<()> {
        let mut polled: Vec<PollFd<'_>> = self
            .connections
            .iter()
            .map(|connection| PollFd::new(&connection.stream, PollFlags::IN))
            .collect();
        poll(&mut polled, Some(&Timespec::try_from(timeout)?))?;
        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (connection, ready) in self.connections.iter_mut().zip(ready) {
            if ready && let Some(bytes) = tcp::read(&mut connection.stream, &mut self.buffer)? {
                connection.arrived_bytes += bytes as u64;
            }
        }
        Ok(())
    }
}

impl Requester for Tcp {
    fn request(&mut self, sender: usize, bytes: usize) -> Result<()> {
        let connection = &mut self.connections[sender];
        connection.asked_bytes += bytes as u64;
        connection.owed.push_back(connection.asked_bytes);
        tcp::write_all(&mut connection.stream, &(bytes as u64).to_le_bytes())
    }

    fn arrives(&mut self, sender: usize, timeout: Duration) -> Result<bool> {
        let start = Instant::now();
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            if self.connections[sender].take_oldest()? {
                return Ok(true);
            }
            self.read(left)?;
            if left.is_zero() {
                return self.connections[sender].take_oldest();
            }
        }
    }

    fn arrived_bytes(&self) -> u64 {
        let connections = self.connections.iter();
        connections.map(|connection| connection.arrived_bytes).sum()
    }
}
