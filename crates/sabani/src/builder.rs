//! Opening a node.

use std::env;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use sabani_proto::seal::{Checksum, JobKeys, Mode};
use sabani_proto::{AckPolicy, Config, Congestion, CreditPolicy, Recovery, datagram_cost};
use sabani_ring::Schedule;
use sabani_udp::{Options, Socket};
use zeroize::Zeroizing;

use crate::address::{self, canonical};
use crate::engine::Engine;
use crate::job_key::fill_random;
use crate::layers::{Below, Clock, Cuts, Doorbell};
use crate::node::Handle;
use crate::shared::{Shared, Spin};
use crate::threads::Threads;
use crate::timing::Stopwatch;
use crate::{AddressBook, Error, JobKey, Node, PeerId};

/// How long a waiting call spins before it sleeps: a round trip on a fast network is shorter.
const SPIN: Duration = Duration::from_micros(50);
const LINGER: Duration = Duration::from_secs(2);
/// Bytes of a datagram where all peers are on one host. With what the kernel puts around it, it fills 32 KiB,
/// which is what a socket is charged for, and a train holds two of them.
const LOCAL_DATAGRAM: usize = (32 << 10) - 384;
/// How long an acknowledgement may wait there: for many a call's data to ride on, and as long as the helper
/// of a program that computes stays away.
const LOCAL_LATE_ACK_NS: u64 = 5_000_000;
/// Bodies of ranks go unasked up to this: what one waits for has mostly been posted for, and a round trip
/// there is a turn for each rank that shares the core.
const LOCAL_EAGER_MAX: u64 = 1 << 20;
/// Of what a peer may have here before the program takes it, an eager body takes half at most. All peers together get
/// no more than an eighth of the node's memory.
const LOCAL_LOG_WINDOW: u64 = 4 << 20;
const LOCAL_CREDIT_PART: u64 = 8;
/// The environment variable that says which layers share a thread where the program does not:
/// [`Builder::layers`].
pub const LAYERS_VARIABLE: &str = "SABANI_LAYERS";
/// Silence of less says nothing of a peer: its process may only have been off its core.
const LEAST_SILENCE: Duration = Duration::from_millis(10);
/// As much of it is repeated to who has set it wrongly.
const SHOWN_CHARS: usize = 100;

/// What a node is opened with. Made by [`Node::builder`]. A value outside a setting's range is taken for the nearest in it.
#[derive(Clone, Debug)]
pub struct Builder {
    id: PeerId,
    bind: Option<SocketAddr>,
    addresses: Option<AddressBook>,
    mode: Option<Mode>,
    options: Options,
    config: Config,
    /// None: what suits where the peers are.
    credit: Option<CreditPolicy>,
    /// So many peers, all on this host.
    neighbours: Option<u32>,
    layers: Option<Schedule>,
    timed: bool,
    spin: Spin,
    linger: Duration,
}

impl Builder {
    pub(crate) fn new(id: PeerId) -> Self {
        let plain = Mode::Plain {
            checksum: Checksum::None,
        };
        Builder {
            id,
            bind: None,
            addresses: None,
            mode: None,
            options: Options::default(),
            config: Config::new(id, plain),
            credit: None,
            neighbours: None,
            layers: None,
            timed: false,
            spin: Spin {
                time: SPIN,
                yields: false,
            },
            linger: LINGER,
        }
    }

    /// The local address: `0.0.0.0` and `[::]` are all of this machine's, the second one those of both
    /// versions of IP; port 0 lets the system choose. Default: this process's entry in the address
    /// database; without a database `0.0.0.0:0`.
    pub fn bind(mut self, addr: SocketAddr) -> Self {
        self.bind = Some(canonical(addr));
        self
    }

    /// Where the peers are, and this process itself unless [`Builder::bind`] says it. More can be
    /// added while running ([`Node::add_peer`]).
    pub fn addresses(mut self, addresses: AddressBook) -> Self {
        self.addresses = Some(addresses);
        self
    }

    /// Encrypts and authenticates every packet under the job's key.
    pub fn job_key(mut self, key: JobKey) -> Self {
        self.mode = Some(Mode::Sealed(JobKeys::from(key.0)));
        self
    }

    /// Like [`Builder::job_key`], and accepts a second key while a job changes from one to the
    /// other: give every process the new key as `previous` first, then swap the two everywhere,
    /// then drop the old one.
    pub fn job_keys(mut self, current: JobKey, previous: JobKey) -> Self {
        self.mode = Some(Mode::Sealed(JobKeys {
            current: current.0,
            previous: Some(previous.0),
        }));
        self
    }

    /// Neither encrypts nor authenticates: for wires that nobody else can reach. The checksum
    /// guards against damage that the network's own checksums miss.
    pub fn plain(mut self, checksum: Checksum) -> Self {
        self.mode = Some(Mode::Plain { checksum });
        self
    }

    /// Largest datagram, in bytes of UDP payload (1,200…65,507). Default 1,472: Ethernet over IPv4.
    /// Larger ones are used only once a probe of that size has arrived, so 8,972 is safe to ask for
    /// where there may be jumbo frames.
    pub fn max_datagram(mut self, bytes: usize) -> Self {
        self.config.max_datagram = bytes.clamp(1_200, 65_507);
        self
    }

    /// Size of the socket's buffers in bytes (4 KiB…1 GiB). Default 4 MiB each; a warning names the sysctl to set
    /// if the system grants less.
    pub fn socket_buffers(mut self, bytes: usize) -> Self {
        let bytes = bytes.clamp(4 << 10, 1 << 30);
        self.options.recv_buffer_bytes = bytes;
        self.options.send_buffer_bytes = bytes;
        self
    }

    /// Use of segmentation offload (GSO and GRO). Default on, where the kernel has it.
    pub fn offload(mut self, on: bool) -> Self {
        self.options.gso = on;
        self.options.gro = on;
        self
    }

    /// Which of the node's layers (`messages+channel`, `seal`, `datagrams`) share a thread. Groups may also tell the two ways
    /// apart (`messages+channel`, `opening+receiving`, `sealing+sending`). Default: what
    /// the environment variable [`LAYERS_VARIABLE`] says, else [`Schedule::Inline`]: handing over to
    /// another thread takes longer than most messages do.
    ///
    /// What is in the uppermost group is done by the threads that call, and by a helper while none does;
    /// each other group has a thread of the node's own, which spins as waiting calls do
    /// ([`Builder::spin`]). [`Schedule::PerCore`] with two cores gives the way out a thread. [`Schedule::Background`] leaves everything to one thread of the node's own.
    /// With less than two cores for each thread, all of them yield while they spin ([`Builder::spin_yielding`]). None
    /// is pinned: they may run where the thread that opens the node may, or, where that is a single core,
    /// on all cores of the process's main thread.
    pub fn layers(mut self, schedule: Schedule) -> Self {
        self.layers = Some(schedule);
        self
    }

    /// Times what calls are at ([`Node::timings`]), for those who want to know where a message's time goes.
    /// Default no: it takes ten readings of the clock for each message. Tells most of an inline node: what
    /// other threads do is not timed.
    pub fn timed(mut self, on: bool) -> Self {
        self.timed = on;
        self
    }

    /// How long a waiting call spins before it sleeps in the kernel. Default 50 µs. Zero where
    /// there are more processes than cores.
    pub fn spin(mut self, time: Duration) -> Self {
        self.spin.time = time;
        self
    }

    /// Whether a call that spins lets others have its core between two looks at the socket. Default no,
    /// unless the node has threads of its own ([`Builder::layers`]), and with the calling one more than half as many as there are cores. Of
    /// use where there are more processes than cores: whoever has something to do does it, and what
    /// comes meanwhile finds this one awake. It costs a system call for each look. Where others
    /// compute, one look gives away their whole share: after one that took 1.2 ms the call sleeps instead, for 32
    /// times as long.
    pub fn spin_yielding(mut self, yields: bool) -> Self {
        self.spin.yields = yields;
        self
    }

    /// How long dropping the last handle waits for acknowledgements. Default 2 s.
    pub fn linger(mut self, time: Duration) -> Self {
        self.linger = time;
        self
    }

    /// Most bytes accepted for one peer and not yet acknowledged (1 at least). Default 4 MiB: more would only
    /// get cold; a larger single message is taken when nothing else is queued. Messages above [`Builder::eager_max`], and those that
    /// must be asked for because the peer's credit runs short, take no room from others nor from each other: there may
    /// be as many bytes of each.
    pub fn send_queue(mut self, bytes: usize) -> Self {
        self.config.send_queue_bytes = bytes.max(1);
        self
    }

    /// Largest body sent without being asked for. Default 256 KiB.
    pub fn eager_max(mut self, bytes: u64) -> Self {
        self.config.eager_max = bytes;
        self
    }

    /// Largest window for one peer, in bytes as the receiving kernel charges them (1 at least). Default 1 GiB: what
    /// the path holds decides.
    pub fn window_max(mut self, bytes: u32) -> Self {
        self.config.window_max = bytes.max(1);
        self
    }

    /// How credit is given to those who send to this process. Default:
    /// [`CreditPolicy::Paced`], those first who have least left to send; but see [`Builder::one_host`].
    pub fn credit(mut self, policy: CreditPolicy) -> Self {
        self.credit = Some(policy);
        self
    }

    /// Memory for messages that nobody has asked for, over all peers; receives without buffers may take
    /// as much again, and an eighth more that is kept for messages of at most that length. 64 KiB at least; default 1 GiB.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.config.memory_bytes = bytes.max(64 << 10);
        self
    }

    /// How much of it the large messages of one peer may take, in bytes: those that nobody has
    /// asked for, and as much again those on their way to receives. Default, and at most, a quarter
    /// of it: 256 MiB.
    pub fn peer_memory(mut self, bytes: u64) -> Self {
        self.config.peer_memory_bytes = bytes;
        self
    }

    /// Largest credit for small and eager messages that one peer may send before the program takes
    /// any; at least 4 KiB, what one of them takes and a few, and at most 1 GiB. Default 8 MiB.
    pub fn log_window_max(mut self, bytes: u64) -> Self {
        self.config.log_window_max = bytes.clamp(4 << 10, 1 << 30);
        self.config.log_window = self.config.log_window.min(self.config.log_window_max);
        self
    }

    /// All peers are on this host, and there are so many: paths without a queue, on which nothing is lost
    /// but in sockets' buffers. Datagrams have 32 KiB; bodies of up to 1 MiB go unasked; acknowledgements on which
    /// nothing depends wait for up to 5 ms, for data to ride on; and each peer has an equal share of the socket's
    /// buffer as credit from the start, if that is two datagrams and [`Builder::credit`] says nothing else.
    /// Communicators do this by themselves.
    pub fn one_host(mut self, peers: u32) -> Self {
        self.neighbours = Some(peers);
        self.max_datagram(LOCAL_DATAGRAM).eager_max(LOCAL_EAGER_MAX)
    }

    /// When acknowledgements are sent: when asked, the default, or for every so many packets (1 at least).
    pub fn ack_policy(mut self, policy: AckPolicy) -> Self {
        self.config.ack_policy = match policy {
            AckPolicy::EveryPackets(packets) => AckPolicy::EveryPackets(packets.max(1)),
            AckPolicy::WhenAsked => policy,
        };
        self
    }

    /// How this node finds what was lost of what it sends. Default: [`Recovery::Selective`]; the others
    /// are there for comparison.
    pub fn recovery(mut self, recovery: Recovery) -> Self {
        self.config.recovery = recovery;
        self
    }

    /// What keeps this node to what paths carry, beside the credit that receivers give. Default:
    /// [`Congestion::None`]: receivers know their own links. Where the bottleneck is elsewhere, and
    /// shared with others, take one, together with [`CreditPolicy::Shares`] at the receivers: what
    /// they would give otherwise keeps queues short, and leaves such a link to those who fill them.
    /// [`Node::set_congestion`] says it for one peer.
    pub fn congestion(mut self, kind: Congestion) -> Self {
        self.config.congestion = kind;
        self
    }

    /// Takes notice of packets that switches have marked because their queues were long (ECN, RFC 3168),
    /// and has peers send packets that may be marked: before a queue overflows, receivers give less
    /// credit, and congestion control slows down. Default no: it costs 0.1 to 0.2 µs for each datagram
    /// or train received, 0.4 µs for half a round trip of small messages, and few switches mark
    /// anything unless they are told to.
    pub fn ecn(mut self, on: bool) -> Self {
        self.options.ecn = on;
        self
    }

    /// A peer that is silent for this long, although asked to answer, is lost. 10 ms at least; default 10 s.
    pub fn dead_after(mut self, time: Duration) -> Self {
        self.config.dead_after_ns = crate::shared::nanos(time.max(LEAST_SILENCE));
        self.config.keep_alive_ns = self.config.keep_alive_ns.min(self.config.dead_after_ns / 3);
        self
    }

    /// While one of the two programs has disconnected ([`Node::disconnect`]), a peer that is silent
    /// for this long is lost, and what is kept for it. 10 ms at least; default 10 min; both sides should have the
    /// same.
    pub fn disconnected_max(mut self, time: Duration) -> Self {
        self.config.disconnected_max_ns = crate::shared::nanos(time.max(LEAST_SILENCE));
        self
    }

    /// A handshake without an answer for this long has failed; at once if the peer's address is of a version
    /// of IP that this node does not speak ([`Obstacle::is_lasting`](crate::Obstacle::is_lasting)). 1 ms at least; default 5 s.
    pub fn connect_timeout(mut self, time: Duration) -> Self {
        self.config.connect_timeout_ns = crate::shared::nanos(time.max(Duration::from_millis(1)));
        self
    }

    /// Accept peers that are not in the address book, if they know the job key. Default yes.
    pub fn accept_unknown(mut self, accept: bool) -> Self {
        self.config.accept_unknown = accept;
        self
    }

    /// Hand out traffic secrets as events, for decrypting captures. Default no.
    pub fn key_log(mut self, on: bool) -> Self {
        self.config.key_log = on;
        self
    }

    /// Opens the node.
    ///
    /// # Errors
    /// [`Error::NoJobKey`] if neither a key nor `plain` was chosen; [`Error::NotListed`] if neither the
    /// program nor the address book says where to bind; [`Error::BadAddress`] for a peer;
    /// [`Error::Socket`] if the address can't be bound; [`Error::Layers`]; [`Error::Io`] if the system
    /// has no threads, descriptors or randomness left.
    pub fn open(mut self) -> Result<Node, Error> {
        self.config.mode = self.mode.take().ok_or(Error::NoJobKey)?;
        let cores = sabani_ring::allowed();
        let (_, cuts) = self.layered(cores.len())?;
        let spin = self.spin.among(1 + cuts.own_threads(), cores.len());
        let threads = Threads { spin, cores };
        self.config.seal_below = cuts.above_seal || cuts.above_way_out;
        self.config.open_below = cuts.above_seal;
        let addr = self.local()?;
        let socket =
            Socket::bind(addr, &self.options).map_err(|source| Error::Socket { addr, source })?;
        let granted = socket.capabilities().recv_buffer.granted_bytes;
        self.config.ecn = socket.capabilities().reports_ecn;
        let own = socket.local_addr().ip();
        self.config.address = (!own.is_unspecified()).then_some(own);
        self.suit_paths(granted as u64);
        let mut seed = [0; 32];
        fill_random(&mut seed)?;
        let mut secrets = Zeroizing::new([0; 32]);
        fill_random(&mut secrets[..])?;
        let mut node = sabani_proto::Node::with_secrets(self.config, seed, &secrets);
        let listed = self.addresses.iter().flat_map(AddressBook::iter);
        for (peer, addr) in listed.filter(|&(peer, _)| peer != self.id) {
            node.add_peer(peer, address::of_peer(peer, addr)?);
        }
        let opening = || Error::io("opening a node");
        let mut clock = Clock::new();
        clock.watch = self.timed.then(|| Box::new(Stopwatch::new()));
        let bell = Arc::new(Doorbell::new().map_err(opening())?);
        let below = Below::new(socket, cuts, &bell, &clock, &threads).map_err(opening())?;
        let engine = Engine::new(node, below, clock);
        let shared = Arc::new(Shared::new(engine, bell, spin, cuts.above_messages));
        let helper = crate::helper::start(shared.clone(), &threads)?;
        Ok(Node::from(Handle::new(
            shared,
            helper,
            self.id,
            self.linger,
        )))
    }

    /// Which layers the node will have share a thread: what was said ([`Builder::layers`]), or else what the
    /// environment says.
    ///
    /// # Errors
    /// [`Error::Layers`], if they can't.
    pub fn schedule(&self) -> Result<Schedule, Error> {
        self.layered(1).map(|(schedule, _)| schedule)
    }

    /// The schedule, and where it cuts on a machine with so many cores.
    fn layered(&self, cores: usize) -> Result<(Schedule, Cuts), Error> {
        let variable = env::var_os(LAYERS_VARIABLE).filter(|text| !text.is_empty());
        let (asked, schedule) = match (&self.layers, variable) {
            (Some(schedule), _) => (schedule.to_string(), Ok(schedule.clone())),
            (None, Some(text)) => {
                // What can't be shown is no schedule either, and of what is long the beginning tells enough.
                let text = text.to_string_lossy();
                let asked = match text.char_indices().nth(SHOWN_CHARS) {
                    Some((end, _)) => format!("{LAYERS_VARIABLE}={} ...", &text[..end]),
                    None => format!("{LAYERS_VARIABLE}={text}"),
                };
                (asked, text.parse())
            }
            (None, None) => (String::new(), Ok(Schedule::default())),
        };
        schedule
            .and_then(|schedule| Cuts::of(&schedule, cores).map(|cuts| (schedule, cuts)))
            .map_err(|why| Error::Layers { asked, why })
    }

    /// Where to bind.
    fn local(&self) -> Result<SocketAddr, Error> {
        match (self.bind, &self.addresses) {
            (Some(addr), _) => Ok(addr),
            (None, None) => Ok((Ipv4Addr::UNSPECIFIED, 0).into()),
            (None, Some(book)) => book.get(self.id).ok_or(Error::NotListed(self.id)),
        }
    }

    /// Settles what depends on where the peers are, with so many bytes for the socket's receive buffer.
    fn suit_paths(&mut self, socket_bytes: u64) {
        self.config.socket_buffer_bytes = socket_bytes;
        if let Some(peers) = self.neighbours {
            stay_on_host(&mut self.config, peers);
        }
        if let Some(chosen) = self.credit {
            self.config.credit = chosen;
        }
    }
}

/// Takes the paths to so many peers for what the inside of a host is.
fn stay_on_host(config: &mut Config, peers: u32) {
    config.late_ack_ns = LOCAL_LATE_ACK_NS;
    let part = config.memory_bytes / LOCAL_CREDIT_PART / u64::from(peers.max(1));
    let most = LOCAL_LOG_WINDOW.min(config.log_window_max);
    config.log_window = part.min(most).max(config.log_window);
    config.expected_peers = peers;
    let least = 2 * u64::from(datagram_cost(config.max_datagram));
    if u64::from(peers) * least <= config.socket_buffer_bytes / 4 * 3 {
        config.credit = CreditPolicy::Shares;
    }
}

#[cfg(test)]
mod tests {
    use sabani_proto::GrantOrder;

    use super::*;

    #[test]
    fn every_setting_is_in_the_list_of_knobs() {
        let knobs = include_str!("../../../docs/tuning.md");
        let (knobs, _) = knobs.split_once("Only in `Config`").unwrap();
        let lines = include_str!("builder.rs").lines();
        let settings = lines.filter_map(|line| {
            let (name, _) = line
                .strip_prefix("    pub fn ")?
                .split_once("(mut self, ")?;
            Some(name)
        });
        let missing = settings.filter(|name| !knobs.contains(&format!("`{name}`")));
        assert_eq!(missing.collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn who_is_not_in_the_address_database_says_where_to_bind() {
        let addr = "127.0.0.1:7000".parse().unwrap();
        let book = AddressBook::parse("1 127.0.0.1:7001").unwrap();
        let builder = Builder::new(PeerId(0)).addresses(book.clone());
        let error = builder.local().unwrap_err();
        assert!(matches!(error, Error::NotListed(PeerId(0))), "{error}");
        assert_eq!(builder.bind(addr).local().unwrap(), addr);
        let listed = Builder::new(PeerId(1)).addresses(book);
        assert_eq!(listed.local().unwrap().port(), 7001);
        assert_eq!(Builder::new(PeerId(0)).local().unwrap().port(), 0);
        let empty = Builder::new(PeerId(0)).addresses(AddressBook::new());
        assert!(matches!(empty.local(), Err(Error::NotListed(PeerId(0)))));
    }

    #[test]
    fn what_can_not_work_is_taken_for_the_nearest_that_can() {
        let builder = Builder::new(PeerId(0))
            .socket_buffers(usize::MAX)
            .max_datagram(0)
            .send_queue(0)
            .window_max(0)
            .memory(0)
            .log_window_max(0)
            .ack_policy(AckPolicy::EveryPackets(0))
            .dead_after(Duration::ZERO)
            .disconnected_max(Duration::ZERO)
            .connect_timeout(Duration::ZERO);
        let Builder {
            config, options, ..
        } = builder;
        assert_eq!(options.recv_buffer_bytes, 1 << 30);
        assert_eq!((config.max_datagram, config.send_queue_bytes), (1_200, 1));
        assert_eq!((config.window_max, config.memory_bytes), (1, 64 << 10));
        assert_eq!(config.log_window_max, 4 << 10);
        assert!(matches!(config.ack_policy, AckPolicy::EveryPackets(1)));
        assert_eq!(config.dead_after_ns, 10_000_000);
        assert_eq!(config.disconnected_max_ns, 10_000_000);
        assert_eq!(config.connect_timeout_ns, 1_000_000);
    }

    fn credit_on_one_host(peers: u32, chosen: Option<CreditPolicy>) -> CreditPolicy {
        let mut builder = Builder::new(PeerId(0)).one_host(peers);
        if let Some(chosen) = chosen {
            builder = builder.credit(chosen);
        }
        builder.suit_paths(8 << 20);
        builder.config.credit
    }

    #[test]
    fn credit_suits_one_host_unless_the_program_chooses() {
        let paced = CreditPolicy::default();
        let order = GrantOrder::ShortestFirst { aging: 12 };
        assert_eq!(paced, CreditPolicy::Paced(order), "as docs/tuning.md says");
        assert_eq!(credit_on_one_host(7, None), CreditPolicy::Shares);
        assert_eq!(credit_on_one_host(1_000, None), paced);
        assert_eq!(credit_on_one_host(7, Some(paced)), paced);
        let shares = Some(CreditPolicy::Shares);
        assert_eq!(credit_on_one_host(1_000, shares), CreditPolicy::Shares);
    }
}
