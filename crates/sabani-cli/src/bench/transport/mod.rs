//! The transports, each behind the same small trait.

mod raw_udp;
pub mod sabani;
pub mod tcp;

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use ::sabani::Schedule;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::measure::{Limit, Stop, Tally};
use crate::key_log::KeyLog;

/// How long a transport that resends may take before the turn is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// The job key of one run's processes: random, and good for that run alone.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key(pub [u8; 32]);

impl Key {
    /// A new one.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn random() -> Result<Self> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).context("asking the system for randomness")?;
        Ok(Self(bytes))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// Sabani, encrypted and authenticated.
    Sabani,
    /// Sabani for trusted wires.
    SabaniPlain,
    /// An unconnected UDP socket with GRO.
    RawUdp,
    /// A connected UDP socket.
    RawUdpConnected,
    /// TCP with the congestion control CUBIC.
    TcpCubic,
    /// TCP with the congestion control BBR.
    TcpBbr,
}

impl Transport {
    /// Everything to compare with.
    pub const BASELINES: [Self; 4] = [
        Self::RawUdp,
        Self::RawUdpConnected,
        Self::TcpCubic,
        Self::TcpBbr,
    ];

    /// The name on the command line and in the output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sabani | Self::SabaniPlain => "sabani",
            Self::RawUdp => "raw-udp",
            Self::RawUdpConnected => "raw-udp-connected",
            Self::TcpCubic => "tcp-cubic",
            Self::TcpBbr => "tcp-bbr",
        }
    }

    /// The name that tells all of them apart, as in tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::SabaniPlain => "sabani-plain",
            other => other.name(),
        }
    }

    /// Whether it is raw UDP.
    pub fn is_raw_udp(self) -> bool {
        matches!(self, Self::RawUdp | Self::RawUdpConnected)
    }

    /// Whether it is TCP.
    pub fn is_tcp(self) -> bool {
        self.congestion().is_some()
    }

    /// Whether it encrypts.
    pub fn is_sealed(self) -> bool {
        self == Self::Sabani
    }

    /// TCP's congestion control, as the system calls it.
    pub fn congestion(self) -> Option<&'static str> {
        match self {
            Self::TcpCubic => Some("cubic"),
            Self::TcpBbr => Some("bbr"),
            Self::Sabani | Self::SabaniPlain | Self::RawUdp | Self::RawUdpConnected => None,
        }
    }

    /// What to tell of the schedule of a node's layers: nothing of what has no node.
    pub fn threads(self, schedule: &Schedule) -> Option<String> {
        matches!(self, Self::Sabani | Self::SabaniPlain).then(|| schedule.to_string())
    }

    /// Whether this system offers it.
    pub fn is_available(self) -> bool {
        self.congestion().is_none_or(tcp::is_available)
    }

    /// Opens one end on `bind`. The key, and the key log, are for a transport that encrypts.
    ///
    /// # Errors
    /// If the system refuses a socket or an option.
    pub fn open(
        self,
        role: Role,
        bind: IpAddr,
        key: Key,
        key_log: &KeyLog,
    ) -> Result<Box<dyn Endpoint>> {
        Ok(match self {
            Self::Sabani => Box::new(sabani::Sabani::open(role, bind, Some(key), key_log)?),
            Self::SabaniPlain => Box::new(sabani::Sabani::open(role, bind, None, key_log)?),
            Self::RawUdp => Box::new(raw_udp::RawUdp::open(role, bind, false)?),
            Self::RawUdpConnected => Box::new(raw_udp::RawUdp::open(role, bind, true)?),
            Self::TcpCubic => Box::new(tcp::Tcp::open(role, bind, "cubic")?),
            Self::TcpBbr => Box::new(tcp::Tcp::open(role, bind, "bbr")?),
        })
    }
}

/// Which end of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Sends first, and measures.
    Client,
    /// Answers.
    Server,
}

/// What came of waiting for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is here, whole.
    Message,
    /// A transport that doesn't resend has lost it.
    Lost,
    /// The turn is over.
    Stopped,
}

/// One end of a conversation between two processes, kept open from turn to turn.
///
/// Messages lie in buffers of the endpoint, written once before the turn, and end in buffers of the
/// other endpoint, where nobody looks at them: so it is for all transports. Both ends know the size
/// of the messages to come, since they are told the same task.
pub trait Endpoint {
    /// Where the other end can reach this one.
    fn local_addr(&self) -> Result<SocketAddr>;

    /// Meets the other end, which is doing the same at the same time.
    fn join(&mut self, peer: SocketAddr) -> Result<()>;

    /// Sends one message of `size` bytes without delay.
    fn send(&mut self, size: usize) -> Result<()>;

    /// Waits, spinning, for a message of `size` bytes.
    fn receive(&mut self, size: usize, stop: &Stop) -> Result<Delivery>;

    /// Sends messages of `size` bytes as fast as possible: as many as the limit says, if it counts them. Returns how many.
    fn burst_send(&mut self, size: usize, limit: Limit) -> Result<u64>;

    /// Counts messages of `size` bytes until the turn is over and all that can still arrive has.
    fn burst_receive(&mut self, size: usize, tally: &mut Tally, stop: &Stop) -> Result<()>;

    /// One transaction, asked: a request there, an answer back.
    fn ask(&mut self, request: usize, answer: usize, stop: &Stop) -> Result<Delivery> {
        self.send(request)?;
        self.receive(answer, stop)
    }

    /// One transaction, answered.
    fn answer(&mut self, request: usize, answer: usize, stop: &Stop) -> Result<Delivery> {
        let delivery = self.receive(request, stop)?;
        if delivery == Delivery::Message {
            self.send(answer)?;
        }
        Ok(delivery)
    }
}

/// Sends batches until the limit is reached: `batch` is told how many messages it may send at most, sends some, and
/// returns how many.
fn send_until(limit: Limit, mut batch: impl FnMut(u64) -> Result<u64>) -> Result<u64> {
    let start = Instant::now();
    let mut sent = 0;
    loop {
        sent += batch(limit.left(sent))?;
        if limit.reached(start, sent) {
            return Ok(sent);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc::channel, thread};

    use super::*;

    const TASKS: [(usize, u64); 3] = [(4, 1), (4, 700), (5_000, 3)];

    /// How many messages the client says that it has sent, for each task.
    fn sent(transport: Transport) -> Vec<u64> {
        let key = Key([7; 32]);
        let open = |role| transport.open(role, [127, 0, 0, 1].into(), key, &KeyLog::default());
        let stop = Stop::default();
        let ((tell_client, client_hears), (tell_server, server_hears)) = (channel(), channel());
        let (ready, go) = channel();
        let (stopped, open_here) = (&stop, &open);
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut server = open_here(Role::Server).unwrap();
                tell_client.send(server.local_addr().unwrap()).unwrap();
                server.join(server_hears.recv().unwrap()).unwrap();
                for (size, count) in TASKS {
                    stopped.lower();
                    ready.send(()).unwrap();
                    let mut tally = Tally::new(size, Limit::Count(count));
                    server.burst_receive(size, &mut tally, stopped).unwrap();
                }
            });
            let mut client = open(Role::Client).unwrap();
            tell_server.send(client.local_addr().unwrap()).unwrap();
            client.join(client_hears.recv().unwrap()).unwrap();
            let tasks = TASKS.into_iter().map(|(size, count)| {
                go.recv().unwrap();
                let sent = client.burst_send(size, Limit::Count(count)).unwrap();
                stop.raise(sent);
                sent
            });
            tasks.collect()
        })
    }

    /// Rates over different numbers of messages can't be compared.
    #[test]
    fn as_many_messages_are_sent_as_are_asked_for() {
        let ours = [Transport::Sabani, Transport::SabaniPlain].into_iter();
        for transport in ours.chain(Transport::BASELINES) {
            if transport.is_available() {
                let counts = TASKS.map(|(_, count)| count);
                assert_eq!(sent(transport), counts, "{}", transport.label());
            }
        }
    }
}
