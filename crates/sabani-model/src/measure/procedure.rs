//! The whole measurement, one probe after the other.

use std::collections::{BTreeMap, VecDeque};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::curve::{Curve, Round, Tries};
use super::distance::{self, Distances};
use super::patterns::{Pattern, Patterns, neighbours, shuffled};
use super::port::{Port, fill};
use super::probe::{Flow, Probe, Seen, Traffic, Trip};
use super::repairs::Repairs;
use super::statistics::median;
use crate::infer::{Inferred, Observation, infer};
use crate::network::{Capacity, Estimate, Fit, Latency, Network, Transport, VERSION};

/// Length of the messages of streams, at least and at most: a packet or more, and several go in each train.
const MESSAGE: (f64, f64) = (2048.0, 16384.0);
/// So many bytes a host that is alone should send in a stream.
const STREAM: f64 = 10e6;
/// Shortest and longest stream.
const LASTS_NS: (f64, f64) = (50e6, 1.5e9);
/// Messages of a flow that wait at its sender, at least: one that leaves, and the next one.
const AHEAD: f64 = 2.0;
/// What keeps a link busy is what it moves in a round trip, and so much longer: acknowledgements and processes are late.
const LATE_NS: f64 = 200e3;
/// Bytes that wait for a link: so many do no harm, and more than so many there never are. What keeps no link busy waits in
/// switches and makes shares uneven; where those pause their neighbours, what goes to others waits behind it.
const WAITS: (f64, f64) = (65536.0, 1048576.0);
/// Bytes of empty messages, as they are counted, that wait at a sender.
const EMPTY_AHEAD: usize = 128;
/// How long empty messages are sent for g(0).
const EMPTY_NS: u64 = 20_000_000;
/// Rounds of all lengths, at least and at most.
const ROUNDS: (usize, usize) = (3, 8);
/// Trips of one length in a round: so many, or as many as take so long.
const TRIPS: (usize, usize) = (3, 20);
const TRIPS_NS: f64 = 10e6;
/// Patterns that are held back at a time: so many, and with few hosts more, so that they have so many flows.
const HELD_BACK: (usize, usize) = (2, 4);
const HELD_BACK_FLOWS: usize = 32;
/// Trips through an empty port.
const QUIET_TRIPS: usize = 40;

/// How to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The hosts' names.
    pub names: Vec<String>,
    /// Whether they are processes of one host.
    pub one_host: bool,
    /// The transport's name.
    pub transport: String,
    /// How it repairs what is lost.
    pub repairs: Repairs,
    /// Where the order of probes comes from.
    pub seed: u64,
    /// Most patterns of simultaneous traffic, but for those held back last, 2 to 4. More than the usual 20 are tried
    /// only as long as those held back are not predicted as on a tree.
    pub patterns: usize,
    /// Most time on the network, in nanoseconds.
    pub network_ns: u64,
    /// How fast a process copies memory.
    pub copy_bytes_per_s: Estimate,
    /// How fast a process combines what came in with what it has.
    pub reduce_bytes_per_s: Estimate,
}

/// What a probe is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// g(0).
    Empty,
    /// One length of the current round.
    Length(usize),
    /// How far hosts are from each other.
    Apart,
    /// What short messages take of a link.
    Crowd,
    /// To make the graph from.
    Pattern,
    /// To check the graph with, once and again.
    HeldBack,
    Again,
    /// The way to a port that is empty, and one that is full.
    Quiet,
    Full,
}

/// The measurement's state.
#[derive(Debug)]
pub struct Procedure {
    settings: Settings,
    rng: ChaCha8Rng,
    planned: VecDeque<(Purpose, Probe)>,
    current: Option<Purpose>,
    curve: Curve,
    round: Round,
    rounds: usize,
    /// The time between empty messages of a stream.
    stream_ns: f64,
    distances: Distances,
    distances_planned: bool,
    patterns: Patterns,
    observed: Vec<Observation>,
    /// All that was ever held back. The first ones may have been used later; who keeps trying until some are
    /// predicted has shown nothing.
    held_back: Vec<Observation>,
    again: Vec<Observation>,
    /// How many of them have been used.
    used: usize,
    tried: usize,
    checked: Option<Inferred>,
    fit: Option<Fit>,
    quiet: Vec<Trip>,
    full: Vec<Trip>,
    /// Whether something was lost while it was full.
    port_overflowed: bool,
    port_done: bool,
    network_ns: u64,
}

/// What came of a probe.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Of each flow.
    pub seen: Vec<Seen>,
    /// Packets that all hosts together have found lost meanwhile.
    pub lost_packets: u64,
    /// Time on the network.
    pub took_ns: u64,
}

/// What was found, and what it rests on.
#[derive(Debug)]
pub struct Measured {
    /// For the file.
    pub network: Network,
    /// Rates that were held back: what the graph expected and what was seen, in bytes per second.
    pub held_back: Vec<(f64, f64)>,
    /// Rounds that did not count because something had changed meanwhile.
    pub unsteady_rounds: usize,
    /// Time spent on the network.
    pub network_ns: u64,
}

impl Procedure {
    /// Nothing has been tried.
    ///
    /// # Panics
    /// If there are fewer than two hosts.
    pub fn new(settings: Settings) -> Self {
        let hosts = settings.names.len();
        assert!(hosts > 1, "there is no network between less than two hosts");
        let mut procedure = Procedure {
            rng: ChaCha8Rng::seed_from_u64(settings.seed),
            patterns: Patterns::new(hosts, settings.seed),
            settings,
            planned: VecDeque::new(),
            current: None,
            curve: Curve::default(),
            round: Round::new(),
            rounds: 0,
            stream_ns: 0.0,
            distances: Distances::default(),
            distances_planned: false,
            observed: Vec::new(),
            held_back: Vec::new(),
            again: Vec::new(),
            used: 0,
            tried: 1,
            checked: None,
            fit: None,
            quiet: Vec::new(),
            full: Vec::new(),
            port_overflowed: false,
            port_done: false,
            network_ns: 0,
        };
        let traffic = Traffic::Stream {
            lasts_ns: EMPTY_NS,
            ahead_bytes: EMPTY_AHEAD,
            yields: true,
        };
        procedure.plan(Purpose::Empty, pair(0, traffic));
        procedure
    }

    /// What to try next; `None` when all is known, or the time is over.
    pub fn next_probe(&mut self) -> Option<Probe> {
        if self.network_ns > self.settings.network_ns {
            self.planned.clear();
        } else {
            while self.planned.is_empty() && self.plan_more() {}
        }
        let (purpose, probe) = self.planned.pop_front()?;
        self.current = Some(purpose);
        Some(probe)
    }

    /// What came of it.
    pub fn take(&mut self, probe: &Probe, outcome: Outcome) {
        let Outcome {
            seen,
            lost_packets,
            took_ns,
        } = outcome;
        self.network_ns += took_ns;
        let Some(purpose) = self.current.take() else {
            return;
        };
        let trips = || -> Vec<Trip> {
            let trips = seen.iter().filter_map(|seen| match seen {
                Seen::Trips(trips) => Some(trips),
                Seen::Arrivals(_) => None,
            });
            trips.flatten().copied().collect()
        };
        match purpose {
            Purpose::Empty => self.stream_ns = gap_of_empty(&seen),
            Purpose::Length(bytes) => {
                let tries = Tries {
                    trips: trips(),
                    lost_packets,
                };
                self.round.insert(bytes, tries);
            }
            Purpose::Apart => self.distances.add_apart(probe, &seen),
            Purpose::Crowd => self.distances.add_crowd(probe, &seen),
            Purpose::Pattern => self.observed.push(observation(probe, &seen)),
            Purpose::HeldBack => self.held_back.push(observation(probe, &seen)),
            Purpose::Again => self.again.push(observation(probe, &seen)),
            Purpose::Quiet => self.quiet = trips(),
            Purpose::Full => {
                self.full = trips();
                self.port_overflowed = lost_packets > 0;
            }
        }
    }

    /// What is being done, for people.
    pub fn doing(&self) -> &'static str {
        match self.current {
            None => "calculating",
            Some(Purpose::Empty | Purpose::Length(_) | Purpose::Apart | Purpose::Crowd) => {
                "messages between two hosts"
            }
            Some(Purpose::Pattern) => "many hosts at the same time",
            Some(Purpose::HeldBack | Purpose::Again) => "checking",
            Some(Purpose::Quiet | Purpose::Full) => "queues",
        }
    }

    /// The part that is done, from 0 to 1, about.
    pub fn progress(&self) -> f64 {
        let patterns = self.observed.len() + self.held_back.len();
        let checks = self.checks().saturating_sub(self.held_back.len());
        let left = self.patterns.left() + checks;
        let (done, all) = (
            self.rounds.min(ROUNDS.0) + patterns,
            ROUNDS.0 + patterns + left,
        );
        done as f64 / all as f64
    }

    /// Plans the next probes; whether something new is known or planned.
    fn plan_more(&mut self) -> bool {
        self.end_round();
        let precise = self.rounds >= ROUNDS.0 && self.curve.is_precise();
        let over = self.rounds > 0 && self.network_ns > self.settings.network_ns / 2;
        if !precise && !over && self.rounds < ROUNDS.1 {
            self.plan_round();
        } else if self.tried < self.settings.patterns && self.plan_pattern() {
            self.tried += 1;
        } else if !self.distances_planned {
            self.distances_planned = true;
            self.plan_distances();
        } else if self.checked.is_some() && !self.port_done {
            // Before more is held back, for which the time may not be enough.
            self.port_done = true;
            self.plan_port();
        } else if self.held_back.len() == self.used {
            self.plan_held_back();
        } else if self.fit.is_none() {
            self.check();
        } else {
            return false;
        }
        true
    }

    fn end_round(&mut self) {
        if !self.round.is_empty() {
            self.curve.add(std::mem::take(&mut self.round));
            self.rounds += 1;
        }
    }

    fn plan(&mut self, purpose: Purpose, probe: Probe) {
        self.planned.push_back((purpose, probe));
    }

    /// All lengths, in an order drawn.
    fn plan_round(&mut self) {
        let lengths = self.curve.lengths();
        for index in shuffled(lengths.len(), &mut self.rng) {
            let bytes = lengths[index];
            let expected_ns = 2.0 * self.curve.time_ns(bytes);
            let count = (TRIPS_NS / expected_ns.max(1.0)) as usize;
            let traffic = Traffic::Trips {
                count: count.clamp(TRIPS.0, TRIPS.1),
            };
            self.plan(Purpose::Length(bytes), pair(bytes, traffic));
        }
    }

    /// Short messages between pairs of hosts that are drawn, for the first two may be nearer than most, and
    /// around some.
    fn plan_distances(&mut self) {
        for probe in distance::apart(&mut self.patterns) {
            self.plan(Purpose::Apart, probe);
        }
        for probe in distance::crowds(self.settings.names.len()) {
            self.plan(Purpose::Crowd, probe);
        }
    }

    fn plan_pattern(&mut self) -> bool {
        let Some(pattern) = self.patterns.next(&self.observed) else {
            return false;
        };
        let probe = self.streams(&pattern, true);
        self.plan(Purpose::Pattern, probe);
        true
    }

    /// How many patterns are held back at a time.
    fn checks(&self) -> usize {
        let enough = HELD_BACK_FLOWS.div_ceil(self.settings.names.len());
        enough.clamp(HELD_BACK.0, HELD_BACK.1)
    }

    fn plan_held_back(&mut self) {
        for _ in 0..self.checks() {
            let pattern = self.patterns.permutation();
            let probe = self.streams(&pattern, true);
            self.plan(Purpose::HeldBack, probe.clone());
            self.plan(Purpose::Again, probe);
            self.tried += 1;
        }
    }

    /// Compares with what was held back. If that is not predicted as on a tree, it is used, and more is tried.
    fn check(&mut self) {
        let hosts = self.settings.names.len();
        let inferred = infer(hosts, &self.observed, &neighbours(hosts));
        let fit = inferred.check(&self.held_back, &self.again);
        self.checked = Some(inferred);
        if !fit.is_good() && self.tried < self.settings.patterns {
            self.observed
                .extend_from_slice(&self.held_back[self.used..]);
            self.used = self.held_back.len();
            self.patterns.again();
            return;
        }
        self.fit = Some(Fit {
            patterns: self.tried,
            ..fit
        });
    }

    /// Trips to a host whose port is empty, and then full: two others send to it without giving way.
    fn plan_port(&mut self) {
        const TO: usize = 0;
        let hosts = self.settings.names.len();
        let groups = self.checked.iter().flat_map(Inferred::groups);
        let near = groups.filter(|group| group.contains(&TO) && group.len() > 3);
        let near = near.min_by_key(|group| group.len());
        let others: Vec<usize> = match near {
            Some(group) => group.iter().copied().filter(|host| *host != TO).collect(),
            None => (1..hosts).collect(),
        };
        let [traveller, fillers @ ..] = &others[..] else {
            return;
        };
        let fillers: Pattern = fillers.iter().take(2).map(|host| (*host, TO)).collect();
        if fillers.len() < 2 {
            return;
        }
        let trips = Flow {
            from: *traveller,
            to: TO,
            bytes: 0,
            traffic: Traffic::Trips { count: QUIET_TRIPS },
        };
        self.plan(Purpose::Quiet, Probe { flows: vec![trips] });
        self.plan(Purpose::Full, fill(&fillers, *traveller, TO));
        self.tried += 1;
    }

    /// All flows of a pattern at once. The more of them share a link, the shorter their messages, for two of each flow wait.
    fn streams(&self, pattern: &[(usize, usize)], yields: bool) -> Probe {
        let from = degrees(pattern.iter().map(|(from, _)| *from));
        let to = degrees(pattern.iter().map(|(_, to)| *to));
        let most = from
            .values()
            .chain(to.values())
            .copied()
            .fold(1.0, f64::max);
        let empty_ns = self.curve.time_ns(0);
        let byte_ns = (self.curve.time_ns(MESSAGE.1 as usize) - empty_ns).max(1.0) / MESSAGE.1;
        let busy = ((2.0 * empty_ns + LATE_NS) / byte_ns).min(WAITS.1);
        let message = (busy.max(WAITS.0) / AHEAD / most).clamp(MESSAGE.0, MESSAGE.1);
        let ahead = |host: usize| (busy / from[&host] / message).max(AHEAD).ceil();
        let lasts_ns = (byte_ns * STREAM).clamp(LASTS_NS.0, LASTS_NS.1) as u64;
        let flow = |&(from, to): &(usize, usize)| Flow {
            from,
            to,
            bytes: message as usize,
            traffic: Traffic::Stream {
                lasts_ns,
                ahead_bytes: ahead(from) as usize * message as usize,
                yields,
            },
        };
        Probe {
            flows: pattern.iter().map(flow).collect(),
        }
    }

    /// What is known now; `None` if the time was over before each host had sent and received, or before there was a
    /// round that counts.
    pub fn finish(mut self) -> Option<Measured> {
        self.end_round();
        if self.fit.is_none() && !self.held_back.is_empty() {
            // The time is over: with what there is.
            self.settings.patterns = 0;
            self.check();
        }
        let hosts = self.settings.names.len();
        let inferred = self
            .checked
            .take()
            .unwrap_or_else(|| infer(hosts, &self.observed, &neighbours(hosts)));
        let mut graph = inferred.graph(&self.settings.names, &self.observed);
        graph.fit = self.fit;
        let was_used = |capacity: &Capacity| capacity.probed_bytes_per_s > 0.0;
        let hosts = &graph.hosts;
        if !hosts
            .iter()
            .all(|host| was_used(&host.out) && was_used(&host.into))
        {
            return None;
        }
        let speed = graph.hosts[0].into.bytes_per_s;
        let was_full = |port: &Port| speed.is_some_and(|speed| port.was_full(speed));
        let port = Port::of(&self.quiet, &self.full).filter(was_full);
        let overflowing = port.filter(|_| self.port_overflowed);
        for host in &mut graph.hosts {
            host.into.queue_bytes = overflowing
                .zip(host.into.bytes_per_s)
                .map(|(port, speed)| port.queue(speed));
        }
        let held_back = self.held_back.iter().flat_map(|seen| {
            let expected = inferred.predict(&seen.flows);
            expected.into_iter().zip(seen.rates.iter().copied())
        });
        let gaps = self.distances.gaps(&self.curve, self.stream_ns);
        let points = self.curve.points(gaps);
        if points.is_empty() {
            return None;
        }
        let mut transport = Transport {
            latencies: vec![Latency::constant(0, Estimate::exact(0.0))],
            points,
            noise: self.curve.noise(),
            recovery: {
                let round_ns = 2.0 * self.curve.time_ns(0);
                let seen = overflowing.and_then(|port| port.repair_ns);
                self.settings.repairs.recovery(round_ns, seen)
            },
        };
        let mut network = Network {
            version: VERSION,
            graph,
            one_host: self.settings.one_host,
            transports: BTreeMap::new(),
            copy_bytes_per_s: self.settings.copy_bytes_per_s,
            reduce_bytes_per_s: self.settings.reduce_bytes_per_s,
            choices: Vec::new(),
        };
        transport.latencies = self.distances.latencies(&self.curve, &network, &transport);
        network
            .transports
            .insert(self.settings.transport.clone(), transport);
        Some(Measured {
            held_back: held_back.collect(),
            unsteady_rounds: self.curve.unsteady(),
            network_ns: self.network_ns,
            network,
        })
    }
}

impl Measured {
    /// Adds what messages cost over another transport, with which the same hosts have been measured as well. Its queue is
    /// taken where the first one has found none: it may fill ports as that one never does.
    pub fn add(&mut self, other: Measured) {
        self.network.transports.extend(other.network.transports);
        let hosts = &mut self.network.graph.hosts;
        for (host, other) in hosts.iter_mut().zip(other.network.graph.hosts) {
            let found = other.into.queue_bytes;
            host.into.queue_bytes = host.into.queue_bytes.or(found);
        }
        self.network_ns += other.network_ns;
        self.unsteady_rounds += other.unsteady_rounds;
    }
}

/// The first two hosts, both ways at once.
fn pair(bytes: usize, traffic: Traffic) -> Probe {
    let flow = |from, to| Flow {
        from,
        to,
        bytes,
        traffic,
    };
    Probe {
        flows: vec![flow(0, 1), flow(1, 0)],
    }
}

/// The time between two messages of a stream that lasts [`EMPTY_NS`].
fn gap_of_empty(seen: &[Seen]) -> f64 {
    let gaps = seen.iter().filter_map(|seen| match seen {
        Seen::Arrivals(arrivals) => {
            let (first, last) = (arrivals.first()?, arrivals.last()?);
            Some((last - first) as f64 / (arrivals.len() as f64 - 1.0).max(1.0))
        }
        Seen::Trips(_) => None,
    });
    median(&gaps.collect::<Vec<_>>()).value
}

/// How many flows each host has at one of its ends.
fn degrees(ends: impl Iterator<Item = usize>) -> BTreeMap<usize, f64> {
    let mut degrees = BTreeMap::new();
    for host in ends {
        *degrees.entry(host).or_default() += 1.0;
    }
    degrees
}

fn observation(probe: &Probe, seen: &[Seen]) -> Observation {
    let flows = &probe.flows;
    Observation {
        flows: flows.iter().map(|flow| (flow.from, flow.to)).collect(),
        rates: flows
            .iter()
            .zip(seen)
            .map(|(flow, seen)| seen.rate(flow))
            .collect(),
    }
}
