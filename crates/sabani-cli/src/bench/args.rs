//! What the user may ask `sabani bench` for.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    process::Command,
    str::FromStr,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum, builder::TypedValueParser};

use super::{
    breakdown::args::BreakdownArgs,
    coll::args::CollArgs,
    incast::args::{IncastArgs, MixArgs},
    layers::args::LayersArgs,
    measure::Limit,
    schedules::args::SchedulesArgs,
    task::{MAX_SIZE_BYTES, MIN_SIZE_BYTES},
    transport::Transport,
};
use crate::{
    address::parse_local, key_log::KeyLogArgs, layers::LayersOption, report::OutputArgs, units,
};

/// The port of `sabani bench serve` if none is said.
pub const DEFAULT_PORT: u16 = 7711;
/// Turns of each thing, if it is not said how many.
const ROUNDS: u32 = 5;

/// Measure Sabani on this machine or between two, against raw UDP and TCP.
///
/// Without a subcommand: a short overview of ping, burst and transactions. Two processes are started, each on
/// a core of its own, and the transports take short turns in them, round after round: ratios are
/// formed turn by turn and their median is shown, so that a machine which changes its speed every
/// few seconds does not decide the comparison. After Ctrl-Z and `fg`, what was measured meanwhile is
/// thrown away and measured again.
///
/// How Sabani is used. As any program would: a node with its default settings, except that a
/// waiting call spins for 1 s (default 50 µs) before it sleeps, since the baselines spin as well
/// (not with `--layers`: threads of the node's own need the cores).
/// Each message is sent by a call of its own and arrives as a message of its own. Up to 1 KiB it is
/// copied by the call; above, the node refers to the program's buffer.
///
/// How the baselines work. All of them spin, and nobody looks at the bytes that arrive: what is
/// compared is the way from a buffer of the sender to a buffer of the receiver. raw-udp is an
/// unconnected socket with GRO, what a socket for many peers has to be; raw-udp-connected a
/// connected one. Both send trains (GSO) of 1,472-byte segments, or of one message each where
/// messages are smaller, under a window of credit; nothing is resent. TCP has TCP_NODELAY; in ping
/// it writes one message at a time, and in transactions each gets a connection of its own. In burst
/// small messages wait in user space until there are 64 KiB of them, and are read as a stream in
/// which nobody looks for their ends: a bound on what TCP could do with messages, which it does not
/// have.
///
/// On what it was measured stands first: kernel, processor, cores, date and command. If others use more
/// than a tenth of the cores just before, a warning says so. In `--json` it is an object of its own,
/// `{"bench":"machine",…}`, with `kernel`, `processor`, `cores`, `date` (UTC), `command` and, where two
/// cores are measured on, `others`: the part of them that others used.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub bench: Option<BenchCommand>,
    #[command(flatten)]
    pub turns: TurnArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// One bench, or the other half of all of them.
#[derive(Subcommand, Debug)]
pub enum BenchCommand {
    /// Half of a round trip: p50, p99, p99.9 and a histogram.
    Ping(SizedArgs),
    /// One way, as fast as it goes: megabytes and messages per second.
    Burst(SizedArgs),
    /// A request of 128 B and an answer of 100 KiB, some number of times; TCP connects for each.
    Transactions(TransactionArgs),
    /// Many to one: all senders answer a request of one receiver at the same time (needs root).
    Incast(IncastArgs),
    /// A short message among long flows to the same receiver (needs root).
    Mix(MixArgs),
    Layers(LayersArgs),
    Coll(CollArgs),
    Breakdown(BreakdownArgs),
    Schedules(SchedulesArgs),
    /// Be the other half for a `sabani bench … --to ADDR` on another machine or in another namespace.
    ///
    /// Whoever can reach the port can make this machine send packets, to itself alone: let the
    /// port be reached by those who may.
    Serve(ServeArgs),
}

/// A bench over message sizes.
#[derive(Args, Debug)]
pub struct SizedArgs {
    /// Message sizes, as in `4,64,1k,64k,4M` (powers of 1,024), each between 4 B and 64 MiB.
    #[arg(long, value_delimiter = ',', value_parser = parse_message_size,
          default_value = "4,64,1k,4k,16k,64k,512k,4M")]
    pub sizes: Vec<usize>,
    /// Messages per turn, in place of a time.
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = parse_iterations)]
    pub iterations: Option<u64>,
    #[command(flatten)]
    pub turns: TurnArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

impl SizedArgs {
    /// How long a turn lasts.
    pub fn limit(&self) -> Limit {
        match self.iterations {
            Some(count) => Limit::Count(count),
            None => Limit::Time(self.turns.seconds),
        }
    }
}

/// The transaction bench.
#[derive(Args, Debug)]
pub struct TransactionArgs {
    /// Transactions per turn, however long they take.
    #[arg(long, value_delimiter = ',', default_value = "1,10,100,1000",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub counts: Vec<u64>,
    /// Turns for each transport, at each count.
    #[arg(long, default_value_t = ROUNDS, value_parser = parse_rounds())]
    pub rounds: u32,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// The other half. Takes who measures one after the other; who connects and does not say so within 10 s is turned away.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Where to wait for the machine that measures.
    #[arg(long, value_name = "ADDR", value_parser = parse_local,
          default_value_t = SocketAddr::from((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT)))]
    pub listen: SocketAddr,
    /// Core for the process that is measured. By default the scheduler has the choice.
    #[arg(long, value_name = "CORE")]
    pub pin: Option<usize>,
    #[command(flatten)]
    pub layers: LayersOption,
}

/// What all benches have in common.
#[derive(Args, Debug)]
pub struct CommonArgs {
    /// Baselines, as in `raw-udp,raw-udp-connected,tcp-cubic,tcp-bbr`; `tcp` is both TCPs, `none` is
    /// none.
    ///
    /// By default all that this system offers.
    #[arg(long, value_delimiter = ',')]
    pub against: Vec<Against>,
    #[command(flatten)]
    pub variants: VariantArgs,
    /// Where the two processes live.
    #[arg(long = "where", value_name = "WHERE", value_enum, default_value_t = Where::Loopback)]
    pub place: Where,
    /// Measure against `sabani bench serve` at this address: HOST or HOST:PORT; port 7711 if none is said.
    #[arg(long, conflicts_with = "place", value_name = "ADDR")]
    pub to: Option<String>,
    /// Cores of the two processes, as in `0,1`, or `none`. With `--to`, the core of the one process here, as in `0`.
    ///
    /// By default the first two cores this process may use; none if there is just one, or if `--layers` gives a process
    /// more than one thread.
    #[arg(long, value_name = "CORES")]
    pub pin: Option<Pin>,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// How often and how long each thing is measured that is compared with others.
#[derive(Args, Clone, Copy, Debug)]
pub struct TurnArgs {
    /// Turns for each thing that is compared, at each size.
    #[arg(long, default_value_t = ROUNDS, value_parser = parse_rounds())]
    pub rounds: u32,
    /// Length of a turn; a tenth as long is warm-up.
    #[arg(long, default_value = "0.2", value_parser = parse_seconds, allow_negative_numbers = true)]
    pub seconds: Duration,
}

/// How Sabani's nodes are opened.
#[derive(Args, Clone, Debug, Default)]
pub struct NodeArgs {
    #[command(flatten)]
    pub key_log: KeyLogArgs,
    #[command(flatten)]
    pub layers: LayersOption,
}

impl NodeArgs {
    /// Has a process that is started open its nodes so.
    pub fn pass(&self, command: &mut Command) {
        self.key_log.pass(command);
        self.layers.pass(command);
    }
}

/// Which variants of Sabani to measure.
#[derive(Args, Debug)]
pub struct VariantArgs {
    /// Measure Sabani encrypted, as by default; without `--plain` nothing else of it.
    #[arg(long)]
    pub sealed: bool,
    /// Measure Sabani without encryption; without `--sealed` nothing else of it.
    #[arg(long)]
    pub plain: bool,
}

impl VariantArgs {
    /// Sabani's variants to measure: both, unless one is asked for.
    pub fn transports(&self) -> Vec<Transport> {
        let both = self.sealed == self.plain;
        let mut variants = Vec::new();
        if both || self.sealed {
            variants.push(Transport::Sabani);
        }
        if both || self.plain {
            variants.push(Transport::SabaniPlain);
        }
        variants
    }
}

/// Where the two processes live.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// Both on the loopback interface.
    Loopback,
    /// Two network namespaces joined by a veth pair with an MTU of 1,500 (needs root).
    ///
    /// It hands a train of segments over as one large packet; a real network card would cut and
    /// join it.
    Veth,
    /// The same, where every packet pays its way: without UDP segmentation offload.
    VethNogso,
}

impl Where {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Veth => "veth",
            Self::VethNogso => "veth-nogso",
        }
    }
}

/// One word of `--against`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Against(pub Vec<Transport>);

impl FromStr for Against {
    type Err = anyhow::Error;

    fn from_str(word: &str) -> Result<Self> {
        if word == "tcp" {
            return Ok(Self(vec![Transport::TcpCubic, Transport::TcpBbr]));
        }
        if word == "none" {
            return Ok(Self(Vec::new()));
        }
        match Transport::BASELINES.iter().find(|t| t.name() == word) {
            Some(&transport) => Ok(Self(vec![transport])),
            None => bail!(
                "not a baseline; there are {}, tcp, none",
                Transport::BASELINES.map(Transport::name).join(", ")
            ),
        }
    }
}

/// The cores of the client's and the server's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// Leave it to the scheduler.
    None,
    /// Client; the server is elsewhere.
    Client(usize),
    /// Client, server.
    Cores(usize, usize),
}

impl Pin {
    /// The cores that are measured on.
    pub fn cores(self) -> Vec<usize> {
        match self {
            Self::None => sabani_ring::allowed(),
            Self::Client(client) => vec![client],
            Self::Cores(client, server) => vec![client, server],
        }
    }
}

impl FromStr for Pin {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "none" {
            return Ok(Self::None);
        }
        let cores: Option<Vec<usize>> = text
            .split(',')
            .map(|core| core.trim().parse().ok())
            .collect();
        match cores.as_deref() {
            Some(&[client]) => Ok(Self::Client(client)),
            Some(&[client, server]) => Ok(Self::Cores(client, server)),
            _ => bail!("two cores are needed, as in `0,1`, one with `--to`, or `none`"),
        }
    }
}

/// The process that is measured: started by `sabani bench` and `sabani bench serve`, driven by
/// lines of JSON on its standard input.
#[derive(Args, Debug)]
pub struct WorkerArgs {
    /// Core to run on.
    #[arg(long)]
    pub core: Option<usize>,
    /// The only address to send anything to.
    #[arg(long)]
    pub only: Option<IpAddr>,
    #[command(flatten)]
    pub key_log: KeyLogArgs,
}

/// The process that removes namespaces once `sabani bench` is gone.
#[derive(Args, Debug)]
pub struct GuardArgs {
    /// The namespaces.
    pub namespaces: Vec<String>,
}

/// What the user has listed, each once: what is measured twice would be told as if it had had more turns than the rest.
pub fn once<T: Clone + PartialEq>(listed: &[T]) -> Vec<T> {
    let mut values: Vec<T> = Vec::new();
    for value in listed {
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    values
}

/// Reads the size of a message.
pub fn parse_message_size(text: &str) -> Result<usize> {
    let size = units::parse_size(text)?;
    if !(MIN_SIZE_BYTES..=MAX_SIZE_BYTES).contains(&size) {
        bail!("sizes go from 4 B to 64 MiB");
    }
    Ok(size)
}

fn parse_rounds() -> impl TypedValueParser<Value = u32> {
    clap::value_parser!(u32).range(1..=10_000)
}

/// Reads how many messages a turn has.
fn parse_iterations(text: &str) -> Result<u64> {
    let count = text.parse().ok().filter(|&count| count > 0);
    count.context("a turn has one message or more")
}

/// Reads the length of a turn.
pub fn parse_seconds(text: &str) -> Result<Duration> {
    let seconds = text.parse().ok();
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|time| (Duration::from_millis(1)..=Limit::LONGEST).contains(time))
        .context("a turn lasts from 0.001 to 60 seconds")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arguments, Command as Sabani};
    use clap::{CommandFactory, Parser};

    #[test]
    fn definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn sizes_and_counts_have_defaults() {
        let bench = |line: &str| match Arguments::try_parse_from(line.split(' ')) {
            Ok(Arguments {
                command: Sabani::Bench(args),
            }) => args.bench,
            _ => None,
        };
        let Some(BenchCommand::Burst(burst)) = bench("sabani bench burst") else {
            panic!("no burst");
        };
        assert_eq!((burst.sizes[2], burst.sizes.len()), (1024, 8));
        let Some(BenchCommand::Transactions(transactions)) = bench("sabani bench transactions")
        else {
            panic!("no transactions");
        };
        assert_eq!(transactions.counts, [1, 10, 100, 1000]);
    }

    #[test]
    fn tcp_stands_for_both() {
        let both = Against(vec![Transport::TcpCubic, Transport::TcpBbr]);
        assert_eq!("tcp".parse::<Against>().unwrap(), both);
        assert!("tcp-reno".parse::<Against>().is_err());
    }

    #[test]
    fn pins() {
        assert_eq!("0,3".parse::<Pin>().unwrap(), Pin::Cores(0, 3));
        assert_eq!("none".parse::<Pin>().unwrap(), Pin::None);
        assert_eq!("3".parse::<Pin>().unwrap(), Pin::Client(3));
        assert!("0,1,2".parse::<Pin>().is_err());
        let error = "a,b".parse::<Pin>().unwrap_err().to_string();
        assert!(error.contains("as in `0,1`"), "{error}");
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        for line in [
            "sabani bench ping --sizes 3",
            "sabani bench ping --sizes 1G",
            "sabani bench ping --seconds 0",
            "sabani bench ping --seconds nan",
            "sabani bench ping --seconds 1 --iterations 5",
            "sabani bench ping --rounds 0",
            "sabani bench --to 10.0.0.1:7711 --where veth",
            "sabani bench transactions --counts 0",
            "sabani bench transactions --seconds 1",
            "sabani bench ping --iterations 0",
            "sabani bench --against carrier-pigeon",
        ] {
            assert!(
                Arguments::try_parse_from(line.split(' ')).is_err(),
                "{line}"
            );
        }
    }
}
