//! Scenarios with names: plans with a few numbers to choose.

use anyhow::{Error, Result, ensure};
use clap::Args;
use sabani_sim::plan::{
    Congestion, Credit, Fault, Hosts, Medium, ProgramSettings, Seal, Shape, TcpFlows, Traffic,
};
use sabani_sim::{Delay, Plan, Rate, Size, Stalls, Time};

use super::CommonArgs;

/// What comes first in each scenario: everybody meets everybody it will talk to. Not reported.
pub const WARM_UP: &str = "warm-up";
/// When what is measured begins, in nanoseconds and round trips.
const AFTER: (u64, u64) = (20_000_000, 10);

impl CommonArgs {
    /// A plan of `hosts` around a switch, with these streams once everybody has met.
    fn star(&self, hosts: u32, link: &LinkArgs, streams: Vec<Traffic>) -> Plan {
        let after = Time(AFTER.0 + AFTER.1 * link.rtt.0);
        let mut traffic = Vec::new();
        for stream in &streams {
            traffic.push(Traffic {
                name: WARM_UP.into(),
                from: stream.from.clone(),
                to: stream.to.clone(),
                bytes: Size(1),
                ..Traffic::default()
            });
        }
        traffic.extend(streams.into_iter().map(|stream| Traffic {
            at: Time(stream.at.0 + after.0),
            ..stream
        }));
        Plan {
            seed: self.seed,
            hosts,
            seal: if self.plain {
                Seal::Checked
            } else {
                Seal::Sealed
            },
            network: Medium {
                shape: Shape::Star,
                rate: link.link,
                delay: Time(link.rtt.0 / 2),
                queue: link.queue,
                ..Medium::default()
            },
            programs: self.host.programs(),
            traffic,
            ..Plan::default()
        }
    }
}

/// What hosts do with their processors, and others with them; the same for all hosts.
#[derive(Args)]
pub struct HostArgs {
    /// Time from an arrival until a process that sleeps runs: "20us" each time, "~20us" in the mean,
    /// or a sum as in "20us + 1% ~4ms". Default: 2us.
    #[arg(long, value_name = "DELAY")]
    host_delay: Option<Delay>,
    /// When others have a host's processor, as in "~4ms every 50ms". Default: never.
    #[arg(long, value_name = "STALLS")]
    host_stalls: Option<Stalls>,
    /// Most datagrams that a process takes in before it sends. Default: what 20 us allow.
    #[arg(long, value_name = "N")]
    batch: Option<u32>,
    /// Time to read or to send a train of datagrams, whatever is in it.
    #[arg(long, value_name = "TIME", default_value = "0us")]
    call_cost: Time,
    /// Time to handle a datagram, and to send one. Default: 200ns, and none.
    #[arg(long, value_name = "TIME")]
    packet_cost: Option<Time>,
    /// What waits for a host's own cable leaves in turn, peer by peer, as with Linux's `fq_codel` and `fq`; else as with
    /// `pfifo_fast`: as it came, but words about credit and lone short messages first.
    #[arg(long)]
    fair_queue: bool,
    /// How fast a process handles the bytes of datagrams, in either direction.
    #[arg(long, value_name = "RATE", default_value = "unlimited")]
    byte_rate: Rate,
}

impl HostArgs {
    fn programs(&self) -> Vec<ProgramSettings> {
        let program = self.program();
        let differs = program != ProgramSettings::default();
        differs.then_some(program).into_iter().collect()
    }

    fn program(&self) -> ProgramSettings {
        ProgramSettings {
            wake: self.host_delay.clone(),
            stalls: self.host_stalls.clone(),
            batch: self.batch,
            call_cost: self.call_cost,
            packet_cost: self.packet_cost,
            byte_rate: self.byte_rate,
            fair_queue: self.fair_queue,
            ..ProgramSettings::default()
        }
    }
}

/// The links from the hosts to their switch.
#[derive(Args)]
struct LinkArgs {
    /// Rate of every link, Ethernet's headers included.
    #[arg(long, value_name = "RATE", default_value = "1gbit")]
    link: Rate,
    /// Bytes that may wait at each port of the switch, headers included. Default: 64KiB in `incast`
    /// and `mix`, else unlimited.
    #[arg(long, value_name = "SIZE")]
    queue: Option<Size>,
    /// Round-trip time of an empty network.
    #[arg(long, value_name = "TIME", default_value = "50us")]
    rtt: Time,
}

/// Many send to one at the same moment, round after round.
#[derive(Args)]
pub struct Incast {
    /// Hosts that send.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    senders: u32,
    /// Bytes that each sends in each round.
    #[arg(long, value_name = "SIZE", default_value = "64KiB")]
    bytes: Size,
    /// Rounds; one begins 1 ms after the one before has been delivered.
    #[arg(long, default_value_t = 20)]
    rounds: u32,
    #[command(flatten)]
    link: LinkArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

impl Incast {
    pub fn plan(&self) -> Plan {
        let mut plan = self.common.star(
            self.senders + 1,
            &self.link,
            vec![Traffic {
                name: "incast".into(),
                from: Hosts::Range(1..=self.senders),
                to: Hosts::one(0),
                bytes: self.bytes,
                rounds: self.rounds,
                pause: Time(1_000_000),
                ..Traffic::default()
            }],
        );
        plan.network.queue.get_or_insert(Size(64 << 10));
        plan
    }
}

/// Random loss: a long flow from one host to another, and small messages beside it from a third.
#[derive(Args)]
pub struct Loss {
    /// Probability that a datagram is lost: 0 to below 1.
    #[arg(long, default_value_t = 0.01, value_parser = parse_probability)]
    loss: f64,
    /// Bytes of each message of the long flow.
    #[arg(long, value_name = "SIZE", default_value = "4MiB")]
    bytes: Size,
    /// Messages of the long flow, one after the other.
    #[arg(long, default_value_t = 20)]
    rounds: u32,
    #[command(flatten)]
    link: LinkArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

impl Loss {
    pub fn plan(&self) -> Plan {
        let long = Traffic {
            name: "long".into(),
            from: Hosts::one(0),
            to: Hosts::one(1),
            bytes: self.bytes,
            rounds: self.rounds,
            ..Traffic::default()
        };
        let short = Traffic {
            name: "1 KiB".into(),
            from: Hosts::one(2),
            to: Hosts::one(3),
            bytes: Size(1_024),
            rounds: 500,
            pause: self.link.rtt,
            ..Traffic::default()
        };
        let mut plan = self.common.star(4, &self.link, vec![long, short]);
        plan.faults = losses(self.loss, &[(Hosts::All, Hosts::All)]);
        plan
    }
}

/// One flow over a long path that loses packets: by default 600 ms, 1 Gb/s, 1 %.
///
/// Goodput counts from the moment at which the program begins to send: asking for credit, finding
/// the path's rate and mending the tail are part of it, and matter less the longer the flow is.
#[derive(Args)]
pub struct LongPath {
    /// Bytes of each message.
    #[arg(long, value_name = "SIZE", default_value = "4MiB")]
    bytes: Size,
    /// Messages, handed over all at once.
    #[arg(long, default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..))]
    messages: u32,
    /// Round-trip time.
    #[arg(long, value_name = "TIME", default_value = "600ms")]
    rtt: Time,
    /// Rate of the path, Ethernet's headers included.
    #[arg(long, value_name = "RATE", default_value = "1gbit")]
    link: Rate,
    /// Bytes that may wait in the path. Default: unlimited.
    #[arg(long, value_name = "SIZE")]
    queue: Option<Size>,
    /// Probability that a datagram is lost: 0 to below 1.
    #[arg(long, default_value_t = 0.01, value_parser = parse_probability)]
    loss: f64,
    #[command(flatten)]
    pub common: CommonArgs,
}

impl LongPath {
    pub fn plan(&self) -> Plan {
        let link = LinkArgs {
            link: self.link,
            queue: self.queue,
            rtt: self.rtt,
        };
        let flow = Traffic {
            name: "flow".into(),
            from: Hosts::one(0),
            to: Hosts::one(1),
            bytes: self.bytes,
            messages: self.messages,
            ..Traffic::default()
        };
        let mut plan = self.common.star(2, &link, vec![flow]);
        // What is sent and not acknowledged, lost packets' messages included: several round trips.
        let rate_bytes = self.link.0 / 8;
        let path_bytes = u128::from(rate_bytes) * u128::from(self.rtt.0) / 1_000_000_000;
        let queue = Size((4 * path_bytes as u64).max(4 << 20));
        plan.settings.send_queue.get_or_insert(queue);
        plan.faults = losses(self.loss, &[(Hosts::All, Hosts::All)]);
        plan
    }
}

/// Short messages among long flows to the same receiver.
///
/// Of the three streams reported, `unloaded` is the short messages alone, before the long flows begin, to compare with;
/// `long` is those flows, and `short` the short messages among them.
#[derive(Args)]
#[command(mut_arg("link", |link| link.value_parser(parse_limited)))]
pub struct Mix {
    /// Long flows, each from a host of its own.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    flows: u32,
    /// Bytes of each message of the long flows.
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    bytes: Size,
    /// Bytes of the short messages.
    #[arg(long, value_name = "SIZE", default_value = "1KiB")]
    short: Size,
    /// Short messages, one every 2 ms: as many before the long flows begin, and from 100 ms after
    /// that on.
    #[arg(long, default_value_t = 200)]
    count: u32,
    #[command(flatten)]
    link: LinkArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

impl Mix {
    /// The short messages, while nobody else sends.
    pub const UNLOADED: &str = "unloaded";
    /// The long flows.
    pub const LONG: &str = "long";
    /// The short messages among them.
    pub const SHORT: &str = "short";
    /// The long flows have found their shares when the short messages begin.
    const SETTLE_NS: u64 = 100_000_000;
    const EVERY_NS: u64 = 2_000_000;

    pub fn plan(&self) -> Plan {
        let lasts_ns = u64::from(self.count) * Self::EVERY_NS;
        let busy_ns = Self::SETTLE_NS + lasts_ns;
        let bits = u128::from(self.link.link.0) * u128::from(busy_ns) / 1_000_000_000;
        let bytes = (bits / 8) as u64;
        let long = Traffic {
            name: Self::LONG.into(),
            from: Hosts::Range(2..=self.flows + 1),
            to: Hosts::one(0),
            bytes: self.bytes,
            messages: messages(bytes.into(), self.bytes.0.saturating_mul(self.flows.into())),
            at: Time(lasts_ns),
            ..Traffic::default()
        };
        let short = |name: &str, at_ns| Traffic {
            name: name.into(),
            from: Hosts::one(1),
            to: Hosts::one(0),
            bytes: self.short,
            rounds: self.count,
            at: Time(at_ns),
            every: Some(Time(Self::EVERY_NS)),
            ..Traffic::default()
        };
        let streams = vec![
            short(Self::UNLOADED, 0),
            long,
            short(Self::SHORT, lasts_ns + Self::SETTLE_NS),
        ];
        let mut plan = self.common.star(self.flows + 2, &self.link, streams);
        plan.network.queue.get_or_insert(Size(64 << 10));
        // What is short must not wait for its turn behind what is long in the program that receives.
        plan.programs.push(ProgramSettings {
            host: Hosts::one(0),
            by_sender: true,
            ..self.common.host.program()
        });
        plan
    }
}

/// Video over a lossy path: frames that are worth something for some time only, and the same frames over
/// another such path, as messages that must arrive.
#[derive(Args)]
pub struct Video {
    /// Rate of the video.
    #[arg(long, value_name = "RATE", default_value = "30mbit", value_parser = parse_limited)]
    rate: Rate,
    /// Frames per second.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    frames: u32,
    /// How long a frame is worth something.
    #[arg(long, value_name = "TIME", default_value = "150ms")]
    within: Time,
    /// How long the video is.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    seconds: u32,
    /// Rate of each path, Ethernet's headers included.
    #[arg(long, value_name = "RATE", default_value = "50mbit")]
    link: Rate,
    /// Round-trip time.
    #[arg(long, value_name = "TIME", default_value = "20ms")]
    rtt: Time,
    /// Bytes that may wait in a path.
    #[arg(long, value_name = "SIZE", default_value = "256KiB")]
    queue: Size,
    /// Probability that a datagram is lost: 0 to below 1.
    #[arg(long, default_value_t = 0.02, value_parser = parse_probability)]
    loss: f64,
    #[command(flatten)]
    pub common: CommonArgs,
}

impl Video {
    pub fn plan(&self) -> Plan {
        let link = LinkArgs {
            link: self.link,
            queue: Some(self.queue),
            rtt: self.rtt,
        };
        let frames = |name: &str, from, to, within| Traffic {
            name: name.into(),
            from: Hosts::one(from),
            to: Hosts::one(to),
            bytes: Size(self.rate.0 / 8 / u64::from(self.frames)),
            rounds: self.seconds * self.frames,
            every: Some(Time(1_000_000_000 / u64::from(self.frames))),
            within,
            ..Traffic::default()
        };
        let streams = vec![
            frames("video", 0, 1, Some(self.within)),
            frames("reliable", 2, 3, None),
        ];
        let mut plan = self.common.star(4, &link, streams);
        let ways = [(0, 1), (2, 3)].map(|(from, to)| (Hosts::one(from), Hosts::one(to)));
        plan.faults = losses(self.loss, &ways);
        plan
    }
}

/// A flow of ours beside TCP (CUBIC) on a link in the middle, each between hosts of its own.
///
/// Ours uses CUBIC, and windows that are shares of the receiver's buffer; `--set congestion=copa` or
/// `none`, and `--set credit=shortest-first` to let the receiver decide as it does by default.
#[derive(Args)]
pub struct Rivals {
    /// TCP flows.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    flows: u32,
    /// How long our flow takes if it gets an equal part of the link.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    seconds: u32,
    /// Rate of the link, Ethernet's headers included.
    #[arg(long, value_name = "RATE", default_value = "50mbit", value_parser = parse_limited)]
    link: Rate,
    /// Round-trip time.
    #[arg(long, value_name = "TIME", default_value = "20ms")]
    rtt: Time,
    /// Bytes that may wait for the link. Default: as many as it carries in a round trip.
    #[arg(long, value_name = "SIZE")]
    queue: Option<Size>,
    #[command(flatten)]
    pub common: CommonArgs,
}

impl Rivals {
    /// Bytes of each message.
    const MESSAGE: u64 = 1 << 20;

    pub fn plan(&self) -> Plan {
        let carried_in = |ns: u64| u128::from(self.link.0) * u128::from(ns) / 8_000_000_000;
        let link = LinkArgs {
            link: self.link,
            queue: Some(self.queue.unwrap_or(Size(carried_in(self.rtt.0) as u64))),
            rtt: self.rtt,
        };
        let hosts = 2 * (self.flows + 1);
        let part = carried_in(u64::from(self.seconds) * 1_000_000_000) / u128::from(self.flows + 1);
        let ours = Traffic {
            name: "sabani".into(),
            from: Hosts::one(0),
            to: Hosts::one(hosts / 2),
            bytes: Size(Self::MESSAGE),
            messages: messages(part, Self::MESSAGE),
            ..Traffic::default()
        };
        let mut plan = self.common.star(hosts, &link, vec![ours]);
        plan.network.shape = Shape::Dumbbell;
        plan.settings.congestion = Some(Congestion::Cubic);
        plan.settings.credit = Some(Credit::Shares);
        let at = plan.traffic.last().map_or(Time(0), |ours| ours.at);
        let flow = |index| TcpFlows {
            from: Hosts::one(index),
            to: Hosts::one(hosts / 2 + index),
            at,
            until: None,
        };
        plan.tcp = (1..=self.flows).map(flow).collect();
        plan
    }
}

/// Everybody sends to everybody.
#[derive(Args)]
pub struct Exchange {
    /// Hosts.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=4_096))]
    hosts: u32,
    /// Bytes of each message.
    #[arg(long, value_name = "SIZE", default_value = "16KiB")]
    bytes: Size,
    /// Rounds; one begins when the one before has been delivered.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    #[command(flatten)]
    link: LinkArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

impl Exchange {
    pub fn plan(&self) -> Plan {
        let exchange = Traffic {
            name: "exchange".into(),
            bytes: self.bytes,
            rounds: self.rounds,
            ..Traffic::default()
        };
        self.common.star(self.hosts, &self.link, vec![exchange])
    }
}

/// Losses on these ways, each with this probability; no fault if there are none, since a plan has none
/// that does nothing.
fn losses(probability: f64, ways: &[(Hosts, Hosts)]) -> Vec<Fault> {
    let fault = |(from, to): &(Hosts, Hosts)| Fault {
        from: from.clone(),
        to: to.clone(),
        loss: probability,
        ..Fault::default()
    };
    let lossy = ways.iter().filter(|_| probability > 0.0);
    lossy.map(fault).collect()
}

/// How many messages of so many bytes have all these; what is more than a plan can hold is said when that is looked at.
fn messages(bytes: u128, each: u64) -> u32 {
    let messages = bytes.div_ceil(each.max(1).into());
    messages.try_into().unwrap_or(u32::MAX)
}

/// Reads a rate by which is known how much is to be sent.
fn parse_limited(text: &str) -> Result<Rate> {
    let rate = text.parse().map_err(Error::msg)?;
    ensure!(
        rate > Rate(0),
        "how much is sent follows from this rate: write one, as in `50mbit`"
    );
    Ok(rate)
}

fn parse_probability(text: &str) -> Result<f64> {
    let probability = text.parse().unwrap_or(f64::NAN);
    ensure!(
        (0.0..1.0).contains(&probability),
        "a part of the datagrams is a number from 0 to below 1, as in 0.01: with 1 nothing arrives"
    );
    Ok(probability)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_without_losses_has_no_fault() {
        let ways = [(Hosts::All, Hosts::All)];
        assert!(losses(0.0, &ways).is_empty());
        assert_eq!(losses(0.01, &ways).len(), 1);
    }

    #[test]
    fn messages_are_as_many_as_bytes_need() {
        assert_eq!(
            [0, 1, 1_000, 1_001].map(|bytes| messages(bytes, 1_000)),
            [0, 1, 1, 2]
        );
        assert_eq!(messages(5, 0), 5);
        assert_eq!(messages(1 << 40, 1), u32::MAX);
    }

    #[test]
    fn what_follows_from_a_rate_needs_one() {
        assert_eq!(parse_limited("50mbit").unwrap(), Rate(50_000_000));
        for text in ["unlimited", "0gbit", "50"] {
            assert!(parse_limited(text).is_err(), "{text}");
        }
    }

    #[test]
    fn some_datagrams_pass() {
        assert_eq!(parse_probability("0.02").unwrap(), 0.02);
        for text in ["1", "1.5", "-1", "nan", "1 %"] {
            assert!(parse_probability(text).is_err(), "{text}");
        }
    }
}
