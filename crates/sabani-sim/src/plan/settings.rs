//! What a plan may say, field by field.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use sabani_proto::seal::{Checksum, Mode};
use sabani_proto::{Config, CreditPolicy, GrantOrder, Quality, Terms, Value, datagram_cost};
use serde::{Deserialize, Serialize};

use crate::units::as_text;
use crate::{Bug, Cost, Delay, Faults, Rate, Size, Stalls, Time, sealed};

/// Whether a field says nothing, so that it need not be written.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// How packets are protected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Seal {
    /// Encrypted and authenticated.
    #[default]
    Sealed,
    /// In the clear, with a checksum.
    Checked,
    /// In the clear: a damaged packet is believed.
    Plain,
}

impl Seal {
    /// As a node's configuration has it.
    pub fn mode(self) -> Mode {
        match self {
            Seal::Sealed => sealed(),
            Seal::Checked => Mode::Plain {
                checksum: Checksum::Crc32c,
            },
            Seal::Plain => Mode::Plain {
                checksum: Checksum::None,
            },
        }
    }
}

/// Some of the hosts: `all`, a number, or a range as in `1-40`, both ends included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Hosts {
    /// All of them.
    #[default]
    All,
    /// Those with these numbers.
    Range(RangeInclusive<u32>),
}

impl Hosts {
    /// One host.
    pub fn one(host: u32) -> Self {
        Hosts::Range(host..=host)
    }

    /// Their numbers, if there are `hosts` in all.
    pub fn numbers(&self, hosts: u32) -> RangeInclusive<u32> {
        match self {
            Hosts::All => 0..=hosts.saturating_sub(1),
            Hosts::Range(range) => range.clone(),
        }
    }

    /// Each of them with each other one of `to`, if there are `hosts` in all.
    pub fn paired_with(&self, to: &Hosts, hosts: u32) -> impl Iterator<Item = (u32, u32)> + use<> {
        let to = to.numbers(hosts);
        self.numbers(hosts)
            .flat_map(move |from| to.clone().map(move |to| (from, to)))
            .filter(|(from, to)| from != to)
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hosts::All => f.write_str("all"),
            Hosts::Range(range) if range.start() == range.end() => range.start().fmt(f),
            Hosts::Range(range) => write!(f, "{}-{}", range.start(), range.end()),
        }
    }
}

impl FromStr for Hosts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Hosts::All);
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Hosts::Range(first..=last)),
            _ => Err(format!(
                "`{text}` names no hosts: write a number, a range as in \"1-40\", or \"all\""
            )),
        }
    }
}

as_text!(Hosts, "a host's number, a range as in \"1-40\", or \"all\"");
as_text!(Bug, "the name of a bug in quotes");

/// How the hosts are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Each pair has two links of its own, one for each direction.
    #[default]
    Mesh,
    /// All are plugged into one switch.
    Star,
    /// The first half of the hosts is plugged into one switch, the others into another, and what goes
    /// from one to the other shares a link. The hosts' own cables are ten times as fast, without delay.
    Dumbbell,
}

/// What joins the hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Medium {
    /// Its shape.
    pub shape: Shape,
    /// Bits per second of each link, Ethernet's headers included.
    pub rate: Rate,
    /// One way, between two hosts.
    pub delay: Time,
    /// Largest datagram that passes, in bytes of UDP payload.
    pub mtu: Size,
    /// Bytes that may wait for a link, or at a port of the switch, headers included. Default: no
    /// limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Size>,
    /// Bytes that may wait in all of the switch. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Size>,
    /// A port may hold this many times what is free of the buffer. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// The switch silences a neighbour of whose bytes more than this wait in it, until half of them
    /// are gone (pause frames). Default: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_above: Option<Size>,
    /// The switch marks what finds more bytes than this before it (ECN). Default: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark_above: Option<Size>,
}

impl Default for Medium {
    fn default() -> Self {
        Medium {
            shape: Shape::Mesh,
            rate: Rate(10_000_000_000),
            delay: Time(25_000),
            mtu: Size(1_472),
            queue: None,
            buffer: None,
            alpha: None,
            pause_above: None,
            mark_above: None,
        }
    }
}

/// Names for values of the transport's: one enumeration, and what each of its names stands for.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident: $type:ty { $($(#[$variant_doc:meta])* $variant:ident => $value:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// As a node's configuration has it.
            pub fn policy(self) -> $type {
                match self {
                    $($name::$variant => $value,)*
                }
            }
        }
    };
}

names! {
    /// How credit is given to those who send.
    Credit: CreditPolicy {
        /// As much as the path holds, those first who have least left to send.
        ShortestFirst => CreditPolicy::Paced(GrantOrder::default()),
        /// As much as the path holds, in equal parts.
        Fair => CreditPolicy::Paced(GrantOrder::Fair),
        /// As much as the path holds, those first who came first.
        FirstCome => CreditPolicy::Paced(GrantOrder::FirstCome),
        /// Equal parts of the socket's buffer, without grants.
        Shares => CreditPolicy::Shares,
    }
}

names! {
    /// How a sender finds what was lost.
    Recovery: sabani_proto::Recovery {
        /// What gaps show to be missing goes again; a silent tail is asked for.
        Selective => sabani_proto::Recovery::Selective,
        /// From the first packet that is missing on, all goes again.
        GoBackN => sabani_proto::Recovery::GoBackN,
        /// Only time tells.
        Timeout => sabani_proto::Recovery::Timeout,
    }
}

names! {
    /// What keeps a sender to what paths carry, beside credit.
    Congestion: sabani_proto::Congestion {
        /// Nothing.
        None => sabani_proto::Congestion::None,
        /// CUBIC, paced.
        Cubic => sabani_proto::Congestion::Cubic,
        /// Copa, paced.
        Copa => sabani_proto::Congestion::Copa,
    }
}

/// One table gives the settings of nodes their fields, and writes them into a configuration.
macro_rules! settings {
    ($(
        #[doc = $doc:literal]
        $name:ident: $type:ty $(, $least:literal to $most:literal)? => |$config:ident, $value:ident| $set:expr;
    )*) => {
        /// What differs from the defaults of a node's configuration; the same for all hosts.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Settings {
            $(
                #[doc = $doc]
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $name: Option<$type>,
            )*
        }

        impl Settings {
            /// Their names, what they are, and the least and the most they can be, where not every value can work.
            pub const ALL: &[Setting] = &[$(Setting {
                name: stringify!($name),
                what: $doc.trim_ascii(),
                range: settings!(@range $($least, $most)?),
            },)*];

            /// The first that has a value with which nothing can work.
            pub(super) fn unfit(&self) -> Option<&'static Setting> {
                $($(
                    let (least, most): ($type, $type) = (limit($least), limit($most));
                    if self.$name.is_some_and(|value| !(least..=most).contains(&value)) {
                        return Self::named(stringify!($name));
                    }
                )?)*
                None
            }

            /// Writes what is set into a configuration.
            pub fn apply(&self, config: &mut Config) {
                $(if let Some($value) = self.$name {
                    let $config = &mut *config;
                    $set;
                })*
            }

            /// One for each field that is set: the same without it.
            pub(super) fn without_one(&self) -> Vec<Settings> {
                let mut all = Vec::new();
                $(if self.$name.is_some() {
                    all.push(Settings { $name: None, ..self.clone() });
                })*
                all
            }
        }
    };
    (@range) => { None };
    (@range $least:literal, $most:literal) => { Some(($least, $most)) };
}

/// One of the settings of nodes, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name in a plan.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// The least and the most that it can be, if not everything.
    pub range: Option<(&'static str, &'static str)>,
}

impl Setting {
    /// What to write in place of what can't be.
    pub(super) fn cure(&self) -> Option<String> {
        let (least, most) = self.range?;
        Some(format!("write {} = {least} to {most}", self.name))
    }

    /// The cure, at the end of a sentence.
    pub(super) fn ending(&self) -> String {
        self.cure()
            .map(|cure| format!(": {cure}"))
            .unwrap_or_default()
    }
}

/// One end of a range above, which a test has read.
fn limit<T: FromStr>(text: &str) -> T {
    let read = text.parse().ok();
    read.expect("limits are written as values are")
}

settings! {
    /// Bytes that the kernel may charge to the socket's receive buffer.
    socket_buffer: Size, "4KiB" to "1024GiB" => |c, v| c.socket_buffer_bytes = v.0;
    /// Largest window for one peer.
    window_max: Size, "1" to "2GiB" => |c, v| c.window_max = v.0 as u32;
    /// Largest datagram to send or take.
    max_datagram: Size, "1200" to "65507" => |c, v| c.max_datagram = v.0 as usize;
    /// Largest body sent without being asked for.
    eager_max: Size => |c, v| c.eager_max = v.0;
    /// Most bytes accepted for one peer and not acknowledged.
    send_queue: Size, "1" to "1024GiB" => |c, v| c.send_queue_bytes = v.0 as usize;
    /// First credit for small and eager messages of one peer.
    log_window: Size, "1" to "1024GiB" => |c, v| c.log_window = v.0;
    /// Largest such credit.
    log_window_max: Size, "4KiB" to "1024GiB" => |c, v| c.log_window_max = v.0;
    /// Memory for messages that nobody has asked for yet.
    memory: Size, "64KiB" to "1024GiB" => |c, v| c.memory_bytes = v.0;
    /// How much of it the large bodies of one peer may take.
    peer_memory: Size => |c, v| c.peer_memory_bytes = v.0;
    /// An acknowledgement for every so many packets, in place of when asked.
    ack_every: u32, "1" to "1000000" => |c, v| c.ack_policy = sabani_proto::AckPolicy::EveryPackets(v);
    /// How long an acknowledgement that was asked for may wait for data to ride on.
    ack_delay: Time, "0ns" to "10s" => |c, v| c.ack_delay_ns = v.0;
    /// How long an acknowledgement on which nothing depends may wait.
    late_ack: Time, "0ns" to "50ms" => |c, v| c.late_ack_ns = v.0;
    /// The longest delay of an acknowledgement that is announced to peers.
    max_ack_delay: Time, "0ns" to "10s" => |c, v| c.max_ack_delay_ns = v.0;
    /// How credit is given to those who send: shortest-first, fair, first-come or shares.
    credit: Credit => |c, v| c.credit = v.policy();
    /// How a sender finds what was lost: selective, go-back-n or timeout.
    recovery: Recovery => |c, v| c.recovery = v.policy();
    /// What keeps a sender to what paths carry, beside credit: none, cubic or copa.
    congestion: Congestion => |c, v| c.congestion = v.policy();
    /// Switches may mark what is sent to nodes (ECN), and they take notice.
    ecn: bool => |c, v| c.ecn = v;
    /// Packets are sealed and opened by a layer of its own.
    seal_below: bool => |c, v| (c.seal_below, c.open_below) = (v, v);
    /// A peer that is silent for so long is lost.
    dead_after: Time, "1ms" to "1000s" => |c, v| c.dead_after_ns = v.0;
    /// While one of two programs has disconnected, a peer that is silent for so long is lost.
    disconnected_max: Time, "1ms" to "10000s" => |c, v| c.disconnected_max_ns = v.0;
    /// An idle peer is asked for a sign of life after so long.
    keep_alive: Time, "1ms" to "1000s" => |c, v| c.keep_alive_ns = v.0;
    /// A handshake that brought no answer for so long has failed.
    connect_timeout: Time, "1ms" to "1000s" => |c, v| c.connect_timeout_ns = v.0;
}

impl Settings {
    /// One of them.
    pub(super) fn named(name: &str) -> Option<&'static Setting> {
        Self::ALL.iter().find(|setting| setting.name == name)
    }

    /// Whether nothing differs.
    pub fn is_default(&self) -> bool {
        *self == Settings::default()
    }

    /// How long peers may need to notice that one of them has gone, and to find each other again.
    pub(super) fn grief_ns(&self) -> u64 {
        let config = self.config();
        2 * (config.dead_after_ns + config.keep_alive_ns + config.connect_timeout_ns)
    }

    /// How long an acknowledgement may take that is not lost.
    pub(super) fn max_ack_delay_ns(&self) -> u64 {
        self.config().max_ack_delay_ns
    }

    /// How long a peer waits for one whose program has disconnected and then died.
    pub(super) fn disconnected_max_ns(&self) -> u64 {
        self.config().disconnected_max_ns
    }

    /// How long a program waits for a host that is not there.
    pub(super) fn connect_timeout_ns(&self) -> u64 {
        self.config().connect_timeout_ns
    }

    /// Bytes that may be under way to a host from one of `hosts`.
    pub(super) fn least_window(&self, hosts: u32) -> u64 {
        let config = self.config();
        let share = config.socket_buffer_bytes / 2 / u64::from(hosts);
        let two_packets = 2 * u64::from(datagram_cost(config.max_datagram));
        let window = share.min(config.window_max.into()).max(two_packets);
        let window = match config.congestion {
            sabani_proto::Congestion::None => window,
            _ => two_packets,
        };
        window
            .min(config.log_window_max)
            .min(self.unasked_room(hosts))
    }

    /// Bytes of messages that nobody has asked for for which a host has room from each of `hosts`.
    pub(super) fn unasked_room(&self, hosts: u32) -> u64 {
        let config = self.config();
        let half = config.memory_bytes / 2 / u64::from(hosts);
        half.min(config.memory_bytes / 4)
            .min(config.peer_memory_bytes)
    }

    /// Whether there is less memory than usual for messages that nobody has asked for.
    pub(super) fn is_memory_short(&self) -> bool {
        self.memory.is_some() || self.peer_memory.is_some()
    }

    pub(super) fn config(&self) -> Config {
        let mut config = Config::new(sabani_proto::PeerId(0), sealed());
        self.apply(&mut config);
        config
    }
}

/// Ways between hosts that differ from the network's. On a star they come before the cable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PathSettings {
    /// From each of these,
    pub from: Hosts,
    /// to each of these.
    pub to: Hosts,
    /// Bits per second, Ethernet's headers included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Time on the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Time>,
    /// Largest datagram that passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Size>,
    /// Bytes that may wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Size>,
}

/// Hosts and programs that differ from the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProgramSettings {
    /// Which.
    pub host: Hosts,
    /// Receives that are kept posted. Default: none, messages are taken when they are complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post: Option<u32>,
    /// Bytes of the buffer that each of them brings. Default: the node allocates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Size>,
    /// Messages of different senders are received for themselves.
    #[serde(skip_serializing_if = "is_default")]
    pub by_sender: bool,
    /// Messages that differ in so many of the low bits of their class are received for themselves.
    #[serde(skip_serializing_if = "is_default")]
    pub by_class_bits: u32,
    /// After receiving, it does not look at what comes for so long.
    #[serde(skip_serializing_if = "is_default")]
    pub nap: Time,
    /// Each time that it has looked so often, it withdraws all its receives, and posts them anew.
    /// Default: never.
    #[serde(skip_serializing_if = "is_default")]
    pub withdraws_every: u32,
    /// Each time that it has looked so often, and has no receive posted, it throws away the oldest
    /// message of each sort. Default: never.
    #[serde(skip_serializing_if = "is_default")]
    pub discards_every: u32,
    /// Time to read or to send a train of datagrams, whatever is in it: a call of the system.
    /// Default: none.
    #[serde(skip_serializing_if = "is_default")]
    pub call_cost: Time,
    /// Time to handle a datagram, and to send one. Default 200 ns, and none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet_cost: Option<Time>,
    /// How fast it handles the bytes of datagrams, in either direction. Default: without limit.
    #[serde(skip_serializing_if = "is_default")]
    pub byte_rate: Rate,
    /// Most datagrams that it takes in before it sends. Default: what 20 µs allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
    /// From an arrival or a deadline until a process that sleeps runs; may differ from time to
    /// time. Default 2 µs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake: Option<Delay>,
    /// When others have its processor, as in "~4ms every 50ms". Default: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
    /// What waits for its cable leaves in turn, peer by peer. Default: as it came, words first.
    #[serde(skip_serializing_if = "is_default")]
    pub fair_queue: bool,
    /// Words need not wait until all of a train has left, as with Linux's `cake`.
    #[serde(skip_serializing_if = "is_default")]
    pub cuts_trains: bool,
    /// Parts per million by which its clock is fast; slow if negative.
    #[serde(skip_serializing_if = "is_default")]
    pub drift_ppm: i64,
}

impl ProgramSettings {
    /// What it adds to a round trip, in the mean.
    pub(super) fn trip_ns(&self) -> u64 {
        let stall = self.stalls.as_ref().map(|stalls| &stalls.lasts);
        let delays = self.wake.iter().chain(stall);
        self.nap.0 + delays.map(Delay::mean_ns).sum::<u64>()
    }

    /// What a packet costs it that comes alone.
    pub(super) fn packet_ns(&self) -> u64 {
        self.call_cost.0 + self.packet_cost.map_or(0, |cost| cost.0)
    }

    /// What it does with the processor that it has, as the costs of one direction.
    pub(super) fn cost(&self, packet_ns: u64) -> Cost {
        const BIT_PS: u64 = 8_000_000_000_000;
        Cost {
            call_ns: self.call_cost.0,
            packet_ns: self.packet_cost.map_or(packet_ns, |cost| cost.0),
            byte_ps: BIT_PS.checked_div(self.byte_rate.0).unwrap_or(0),
        }
    }
}

/// What the network does to datagrams of some paths, for some time. Probabilities are per datagram.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fault {
    /// From when on.
    #[serde(skip_serializing_if = "is_default")]
    pub at: Time,
    /// Until when. Default: it lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// It comes again so many times more, as links do that flap,
    #[serde(skip_serializing_if = "is_default")]
    pub again: u32,
    /// beginning so long after the time before.
    #[serde(skip_serializing_if = "is_default")]
    pub every: Time,
    /// From each of these hosts,
    #[serde(skip_serializing_if = "is_default")]
    pub from: Hosts,
    /// to each of these.
    #[serde(skip_serializing_if = "is_default")]
    pub to: Hosts,
    /// Probability of loss.
    #[serde(skip_serializing_if = "is_default")]
    pub loss: f64,
    /// Probability that a burst of losses begins.
    #[serde(skip_serializing_if = "is_default")]
    pub burst: f64,
    /// Mean number of datagrams in a burst.
    #[serde(skip_serializing_if = "is_default")]
    pub burst_len: u64,
    /// Probability of a second copy.
    #[serde(skip_serializing_if = "is_default")]
    pub duplicate: f64,
    /// Probability of being late, so that others overtake.
    #[serde(skip_serializing_if = "is_default")]
    pub reorder: f64,
    /// Greatest lateness of duplicated, reordered and replayed datagrams.
    #[serde(skip_serializing_if = "is_default")]
    pub late: Time,
    /// Greatest lateness of every datagram.
    #[serde(skip_serializing_if = "is_default")]
    pub jitter: Time,
    /// Probability that bits are flipped.
    #[serde(skip_serializing_if = "is_default")]
    pub corrupt: f64,
    /// Probability that the end is cut off.
    #[serde(skip_serializing_if = "is_default")]
    pub truncate: f64,
    /// Probability that a datagram of the past comes again.
    #[serde(skip_serializing_if = "is_default")]
    pub replay: f64,
    /// Nothing passes.
    #[serde(skip_serializing_if = "is_default")]
    pub cut: bool,
    /// Largest datagram that passes meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Size>,
}

impl Fault {
    /// From when and until when it lasts, each time.
    pub(super) fn spells(&self) -> impl Iterator<Item = (Time, Option<Time>)> {
        let later = |time: Time, turn| Time(time.0 + turn * self.every.0);
        (0..=u64::from(self.again)).map(move |turn| {
            let until = self.until.map(|until| later(until, turn));
            (later(self.at, turn), until)
        })
    }

    /// Whether it does harm at this time.
    pub(super) fn is_active(&self, now: Time) -> bool {
        let mut spells = self.spells();
        spells.any(|(at, until)| at <= now && until.is_none_or(|until| now < until))
    }

    /// Adds it to what else goes wrong on a link: of each kind, the worse of the two.
    pub(super) fn worsen(&self, faults: &mut Faults) {
        for (field, mine) in [
            (&mut faults.loss, self.loss),
            (&mut faults.burst, self.burst),
            (&mut faults.duplicate, self.duplicate),
            (&mut faults.reorder, self.reorder),
            (&mut faults.corrupt, self.corrupt),
            (&mut faults.truncate, self.truncate),
            (&mut faults.replay, self.replay),
        ] {
            *field = field.max(mine);
        }
        faults.burst_len = faults.burst_len.max(self.burst_len);
        faults.late_ns = faults.late_ns.max(self.late.0);
        faults.jitter_ns = faults.jitter_ns.max(self.jitter.0);
        faults.cut |= self.cut;
    }

    /// Probability that a datagram does not come through as it was sent.
    pub(super) fn harm(&self) -> f64 {
        self.loss + self.burst * self.burst_len as f64 + self.corrupt + self.truncate
    }

    /// Whether peers may lose sight of each other: a burst that swallows data swallows as many
    /// requests for an answer.
    pub(super) fn is_severe(&self) -> bool {
        self.cut || self.mtu.is_some() || self.burst > 0.0 || self.harm() > 0.1
    }

    /// One for each kind of harm that it does: the same without it.
    pub(super) fn without_one(&self) -> Vec<Fault> {
        let mut all = Vec::new();
        for part in [
            Fault {
                loss: 0.0,
                ..self.clone()
            },
            Fault {
                burst: 0.0,
                burst_len: 0,
                ..self.clone()
            },
            Fault {
                duplicate: 0.0,
                ..self.clone()
            },
            Fault {
                reorder: 0.0,
                ..self.clone()
            },
            Fault {
                jitter: Time(0),
                ..self.clone()
            },
            Fault {
                corrupt: 0.0,
                ..self.clone()
            },
            Fault {
                truncate: 0.0,
                ..self.clone()
            },
            Fault {
                replay: 0.0,
                ..self.clone()
            },
            Fault {
                cut: false,
                ..self.clone()
            },
            Fault {
                mtu: None,
                ..self.clone()
            },
            Fault {
                again: 0,
                every: Time(0),
                ..self.clone()
            },
        ] {
            if part != *self {
                all.push(part);
            }
        }
        all
    }
}

/// What happens to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// Its process dies, and another one starts at once, which has never heard of what went before.
    Restart,
    /// Its process dies.
    Crash,
    /// Its program ends all connections.
    Close,
    /// Its process does not run for some time.
    Stall,
    /// Its program disconnects from all its peers for some time, and reconnects to them.
    Disconnect,
    /// It is reached at another address from now on.
    Move,
    /// Its program keeps what is lost for some time, and lets it go again once meanwhile.
    Hold,
    /// Its program wishes nothing more of what it sends to all its peers.
    Even,
    /// Its program wishes throughput.
    Throughput,
    /// Its program wishes response.
    Response,
    /// Its program wishes to have as little of everything as there is.
    Least,
}

impl What {
    /// The quality that the program wishes from then on.
    pub(super) fn quality(self) -> Option<Quality> {
        match self {
            What::Even => Some(Quality::Even),
            What::Throughput => Some(Quality::Throughput),
            What::Response => Some(Quality::Response),
            What::Least => Some(Quality::Own {
                terms: Terms {
                    window_bytes: Some(0),
                    allowance_bytes: Some(0),
                    memory_bytes: Some(0),
                    ack_every: Some(0),
                    ack_delay_us: Some(0),
                },
                prompt: false,
            }),
            _ => None,
        }
    }
}

/// Something that happens to a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mishap {
    /// When.
    pub at: Time,
    /// To which one.
    pub host: u32,
    /// What.
    pub what: What,
    /// For how long, if it is a stall, or the program disconnects or keeps what is lost.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lasts: Time,
}

impl Mishap {
    /// When it is over.
    pub(super) fn ends(&self) -> Time {
        Time(self.at.0 + self.lasts.0)
    }
}

/// A stream of messages: in each round, each of `from` sends to each of `to`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Traffic {
    /// What it is called in reports.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Senders.
    pub from: Hosts,
    /// Receivers; nobody sends to itself.
    pub to: Hosts,
    /// Bytes of each message.
    pub bytes: Size,
    /// Messages of each sender to each receiver in each round.
    #[serde(skip_serializing_if = "is_one")]
    pub messages: u32,
    /// Rounds.
    #[serde(skip_serializing_if = "is_one")]
    pub rounds: u32,
    /// When the first round begins.
    #[serde(skip_serializing_if = "is_default")]
    pub at: Time,
    /// A round begins so long after the one before. Default: when that has been delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<Time>,
    /// Rest between a round's delivery and the next one's beginning, if `every` is not given.
    #[serde(skip_serializing_if = "is_default")]
    pub pause: Time,
    /// Each message is worth something for so long. Default: it must arrive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<Time>,
    /// What is lost of a message is not sent again, and the message dropped.
    #[serde(skip_serializing_if = "is_default")]
    pub once: bool,
    /// Senders ask to be told of the arrival.
    #[serde(skip_serializing_if = "is_default")]
    pub tracked: bool,
    /// Receivers may tell it apart from others.
    #[serde(skip_serializing_if = "is_default")]
    pub class: u8,
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

impl Default for Traffic {
    fn default() -> Self {
        Traffic {
            name: String::new(),
            from: Hosts::All,
            to: Hosts::All,
            bytes: Size(0),
            messages: 1,
            rounds: 1,
            at: Time(0),
            every: None,
            pause: Time(0),
            within: None,
            once: false,
            tracked: false,
            class: 0,
        }
    }
}

impl Traffic {
    /// How far nodes are to go for its messages.
    pub(super) fn value(&self) -> Value {
        match self.within {
            Some(Time(within_ns)) => Value::Within(Duration::from_nanos(within_ns)),
            None if self.once => Value::BestEffort,
            None => Value::Reliable,
        }
    }

    /// Senders and receivers, two by two.
    pub fn pairs(&self, hosts: u32) -> impl Iterator<Item = (u32, u32)> + use<> {
        self.from.paired_with(&self.to, hosts)
    }

    /// Receivers, each once.
    pub(super) fn receivers(&self, hosts: u32) -> impl Iterator<Item = u32> {
        let from = self.from.numbers(hosts);
        let to = self.to.numbers(hosts);
        to.filter(move |to| from.clone().any(|from| from != *to))
    }

    /// Messages in all.
    pub fn messages(&self, hosts: u32) -> u64 {
        let pairs = self.pairs(hosts).count() as u64;
        let each = u64::from(self.messages) * u64::from(self.rounds);
        pairs.saturating_mul(each)
    }

    /// When the last round begins that has a time of its own.
    pub(super) fn last_start(&self) -> Time {
        let rounds = u64::from(self.rounds.saturating_sub(1));
        let later_ns = self.every.map_or(0, |every| every.0.saturating_mul(rounds));
        Time(self.at.0.saturating_add(later_ns))
    }
}

/// TCP flows that share the network with what programs send: CUBIC, with more to send at any time. One
/// from each of `from` to each of `to`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TcpFlows {
    /// Senders.
    pub from: Hosts,
    /// Receivers.
    pub to: Hosts,
    /// When they begin.
    #[serde(skip_serializing_if = "is_default")]
    pub at: Time,
    /// When they end. Default: when everything that programs send has been delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}
