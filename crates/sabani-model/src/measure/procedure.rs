//! The whole measurement, one probe after the other.

use std::collections::{BTreeMap, VecDeque};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::curve::{Curve, Round};
use super::distance::{self, Distances};
use super::patterns::{Pattern, Patterns, neighbours, shuffled};
use super::probe::{Flow, Probe, Seen, Traffic, Trip};
use super::statistics::{median, quantiles};
use crate::infer::{Inferred, Observation, infer};
use crate::network::{Capacity, Estimate, Fit, Latency, Network, Recovery, Transport, VERSION};

/// Length of the messages of streams: several go in each packet train, and enough arrive to be counted.
const MESSAGE: usize = 16 << 10;
/// So many messages a host that is alone should send in a stream.
const MESSAGES: f64 = 640.0;
/// Shortest and longest stream.
const LASTS_NS: (f64, f64) = (50e6, 1.5e9);
/// Messages that wait at a sender for each of its flows, at least and for all together at most. More than what keeps the
/// link busy waits in switches, and makes shares uneven.
const AHEAD: (f64, f64) = (2.0, 64.0);
/// What keeps a link busy is what it moves in a round trip, and so much longer: acknowledgements and processes are late.
const LATE_NS: f64 = 200e3;
/// Bytes of empty messages, as they are counted, that wait at a sender.
const EMPTY_AHEAD: usize = 128;
/// How long empty messages are sent for g(0).
const EMPTY_NS: u64 = 20_000_000;
/// Rounds of all lengths, at least and at most.
const ROUNDS: (usize, usize) = (3, 8);
/// Trips of one length in a round: so many, or as many as take so long.
const TRIPS: (usize, usize) = (3, 20);
const TRIPS_NS: f64 = 10e6;
/// Patterns that are held back.
const HELD_BACK: usize = 2;
/// Trips through a port, empty or full.
const QUEUE_TRIPS: usize = 40;

/// How to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The hosts' names.
    pub names: Vec<String>,
    /// Whether they are processes of one host.
    pub one_host: bool,
    /// The transport's name.
    pub transport: String,
    /// Where the order of probes comes from.
    pub seed: u64,
    /// Most patterns of simultaneous traffic. More than the usual 24 are tried only as long as those
    /// held back are not predicted.
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
    held_back: Vec<Observation>,
    again: Vec<Observation>,
    tried: usize,
    checked: Option<Inferred>,
    fit: Option<Fit>,
    quiet: Vec<Trip>,
    full: Vec<Trip>,
    port_done: bool,
    network_ns: u64,
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
            tried: 1,
            checked: None,
            fit: None,
            quiet: Vec::new(),
            full: Vec::new(),
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

    /// What came of it: what was seen of each flow, and how long all took.
    pub fn take(&mut self, probe: &Probe, seen: Vec<Seen>, took_ns: u64) {
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
                self.round.insert(bytes, trips());
            }
            Purpose::Apart => self.distances.add_apart(probe, &seen),
            Purpose::Crowd => self.distances.add_crowd(probe, &seen),
            Purpose::Pattern => self.observed.push(observation(probe, &seen)),
            Purpose::HeldBack => self.held_back.push(observation(probe, &seen)),
            Purpose::Again => self.again.push(observation(probe, &seen)),
            Purpose::Quiet => self.quiet = trips(),
            Purpose::Full => self.full = trips(),
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
        let left = self.patterns.left() + HELD_BACK.saturating_sub(self.held_back.len());
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
        } else if self.held_back.is_empty() {
            self.plan_held_back();
        } else if self.fit.is_none() {
            self.check();
        } else if !self.port_done {
            self.port_done = true;
            self.plan_port();
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

    fn plan_held_back(&mut self) {
        for _ in 0..HELD_BACK {
            let pattern = self.patterns.permutation();
            let probe = self.streams(&pattern, true);
            self.plan(Purpose::HeldBack, probe.clone());
            self.plan(Purpose::Again, probe);
            self.tried += 1;
        }
    }

    /// Compares with what was held back. If that is not predicted, it is used, and more is tried.
    fn check(&mut self) {
        let hosts = self.settings.names.len();
        let inferred = infer(hosts, &self.observed, &neighbours(hosts));
        let fit = inferred.check(&self.held_back, &self.again);
        if !fit.is_good() && self.tried < self.settings.patterns {
            self.observed.append(&mut self.held_back);
            self.again.clear();
            self.patterns.again();
            return;
        }
        self.fit = Some(Fit {
            patterns: self.tried,
            ..fit
        });
        self.checked = Some(inferred);
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
            traffic: Traffic::Trips { count: QUEUE_TRIPS },
        };
        self.plan(Purpose::Quiet, Probe { flows: vec![trips] });
        let mut full = self.streams(&fillers, false);
        full.flows.push(trips);
        self.plan(Purpose::Full, full);
        self.tried += 1;
    }

    /// All flows of a pattern at once.
    fn streams(&self, pattern: &[(usize, usize)], yields: bool) -> Probe {
        let mut degree: BTreeMap<usize, f64> = BTreeMap::new();
        for (from, _) in pattern {
            *degree.entry(*from).or_default() += 1.0;
        }
        let empty_ns = self.curve.time_ns(0);
        let alone_ns = self.curve.time_ns(MESSAGE) - empty_ns;
        let busy = ((2.0 * empty_ns + LATE_NS) / alone_ns.max(1.0)).min(AHEAD.1);
        let ahead = |from: usize| (busy / degree[&from]).max(AHEAD.0).ceil() as usize;
        let lasts_ns = (alone_ns * MESSAGES).clamp(LASTS_NS.0, LASTS_NS.1) as u64;
        let flow = |&(from, to): &(usize, usize)| Flow {
            from,
            to,
            bytes: MESSAGE,
            traffic: Traffic::Stream {
                lasts_ns,
                ahead_bytes: ahead(from) * MESSAGE,
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
        let widening = self.fit.map_or(0.0, |fit| fit.widening());
        let mut graph = inferred.graph(&self.settings.names, &self.observed, widening);
        graph.fit = self.fit;
        let known = |capacity: &Capacity| capacity.bytes_per_s.is_some();
        let hosts = &graph.hosts;
        if !hosts
            .iter()
            .all(|host| known(&host.out) && known(&host.into))
        {
            return None;
        }
        let speed = graph.hosts[0].into.bytes_per_s;
        let was_full = |port: &Port| speed.is_some_and(|speed| port.was_full(speed));
        let port = Port::of(&self.quiet, &self.full).filter(was_full);
        for host in &mut graph.hosts {
            host.into.queue_bytes = port.and_then(|port| port.queue(host.into.bytes_per_s?));
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
            recovery: recovery(&self.curve, port),
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

/// What trips through a port tell of its queue.
#[derive(Clone, Copy, Debug)]
struct Port {
    /// By what trips take longer when it is full.
    delay_ns: Estimate,
    /// By what those take longer still whose message was lost there.
    repair_ns: Option<Estimate>,
    /// Whether most trips that passed took about as long: a queue that is always full, and not one that grows.
    is_steady: bool,
}

impl Port {
    /// A trip that takes so many times the usual one has met a loss.
    const LOST: f64 = 2.0;
    /// One such trip is chance: a queue that overflows loses more.
    const LEAST_LOST: usize = 2;
    /// The delays of a full queue, but for a tenth of them at either end, differ by no more than this part.
    const SPREAD: f64 = 0.5;

    fn of(quiet: &[Trip], full: &[Trip]) -> Option<Self> {
        let times = |trips: &[Trip]| -> Vec<f64> {
            trips.iter().map(|trip| trip.round_ns as f64).collect()
        };
        if quiet.is_empty() || full.is_empty() {
            return None;
        }
        let (quiet, all) = (median(&times(quiet)).value, times(full));
        let usual = median(&all).value;
        let (lost, passed): (Vec<f64>, Vec<f64>) =
            all.into_iter().partition(|time| *time > Self::LOST * usual);
        let full = median(&passed);
        let spread = quantiles(passed, 11);
        let later = |time: f64| (time - quiet).max(0.0);
        let repairs: Vec<f64> = lost.iter().map(|time| time - full.value).collect();
        Some(Port {
            delay_ns: Estimate {
                value: later(full.value),
                low: later(full.low),
                high: later(full.high),
            },
            repair_ns: (repairs.len() >= Self::LEAST_LOST).then(|| median(&repairs)),
            is_steady: spread[9] - spread[1] <= Self::SPREAD * later(full.value),
        })
    }

    /// Whether trips had to wait for as much as a message of those that fill the port, and all for as long. If
    /// they had not, the slow ones are those that met more of the queue, and not those that were lost.
    fn was_full(&self, speed: Estimate) -> bool {
        self.is_steady && self.delay_ns.value * speed.value / 1e9 >= MESSAGE as f64
    }

    /// The bytes that wait: the delay times what leaves meanwhile.
    fn queue(self, speed: Estimate) -> Option<Estimate> {
        let bytes = |ns: f64| ns * speed.value / 1e9;
        let queue = Estimate {
            value: bytes(self.delay_ns.value),
            low: bytes(self.delay_ns.low),
            high: bytes(self.delay_ns.high),
        };
        (self.repair_ns.is_some() && queue.value > 0.0).then_some(queue)
    }
}

/// What becomes of what is lost over Sabani, as far as it was seen; else as its timers are set: a packet
/// three behind shows a loss within a round trip, a probe comes after two and the longest delay of an
/// acknowledgement, and after 200 ms a connection begins anew.
fn recovery(curve: &Curve, port: Option<Port>) -> Recovery {
    const ACK_DELAY_NS: f64 = 2e6;
    const TIMEOUT_NS: f64 = 200e6;
    const ALLOWANCE: f64 = 65_536.0;
    const PACKET: f64 = 1_424.0;
    const ACK: usize = 28;
    let round_ns = 2.0 * curve.time_ns(0);
    let seen = port.and_then(|port| port.repair_ns);
    let probe = Estimate::exact(2.0 * round_ns + ACK_DELAY_NS);
    Recovery {
        window_bytes: Estimate::exact(ALLOWANCE),
        granted: true,
        packet_bytes: PACKET,
        ack_bytes: ACK,
        later_packets: 3,
        later_ns: Estimate::exact(round_ns.max(1.0)),
        probe_ns: Some(seen.unwrap_or(probe)),
        timeout_ns: Estimate::exact(TIMEOUT_NS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trip(round_ns: u64) -> Trip {
        Trip {
            round_ns,
            send_ns: 0,
            receive_ns: 0,
        }
    }

    #[test]
    fn one_slow_trip_is_no_sign_of_a_queue_that_overflows() {
        let seen = |slow: usize| {
            let full = |at| trip(if at < slow { 11_000_000 } else { 5_000_000 });
            let full: Vec<_> = (0..40).map(full).collect();
            let port = Port::of(&[trip(64_000); 10], &full).unwrap();
            port.queue(Estimate::exact(12.5e6)).is_some()
        };
        assert_eq!([0, 1, 2, 5].map(seen), [false, false, true, true]);
    }

    #[test]
    fn a_port_that_was_empty_most_of_the_time_tells_nothing_of_its_queue() {
        let quiet = [trip(64_000); 10];
        let speed = Estimate::exact(12.5e6);
        let was_full = |full: &[Trip]| Port::of(&quiet, full).unwrap().was_full(speed);
        // Some met a queue of 5 ms, most none.
        let mostly_empty: Vec<_> = (0..10)
            .map(|at| trip(if at < 3 { 5_064_000 } else { 65_000 }))
            .collect();
        assert!(!was_full(&mostly_empty));
        let growing: Vec<_> = (1..=10).map(|at| trip(at * 5_000_000)).collect();
        assert!(!was_full(&growing));
        assert!(was_full(&[trip(5_064_000); 10]));
    }
}
