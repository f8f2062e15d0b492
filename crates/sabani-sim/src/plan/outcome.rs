//! What came of a plan, in figures.

use std::collections::BTreeMap;

use crate::checker::{Fate, Ledger, Rule, Violation};
use crate::{Failure, Network, Recording, TcpId, Time};

/// What came of a plan.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The rules that were broken, if any.
    pub failure: Option<Failure>,
    /// How long it took, in nanoseconds of virtual time.
    pub virtual_ns: u64,
    /// Events of the simulation.
    pub events: u64,
    /// A digest of everything that crossed the network.
    pub trace_hash: u64,
    /// Packets that nodes sent.
    pub packets_sent: u64,
    /// Packets that nodes found lost, whose content went again.
    pub packets_lost: u64,
    /// Requests for an answer because a tail went silent.
    pub polls: u64,
    /// Such requests, three or more in a row.
    pub timeouts: u64,
    /// The streams of traffic, in the plan's order.
    pub streams: Vec<StreamOutcome>,
    /// TCP flows, in the plan's order.
    pub tcp: Vec<TcpOutcome>,
    /// Series over time, if they were asked for.
    pub recording: Option<Recording>,
}

/// What came of a stream of traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamOutcome {
    /// Messages that nodes accepted.
    pub accepted: u64,
    /// Those of them that the receiving programs threw away.
    pub discarded: u64,
    /// Those of them that were dropped because they were worth something for some time only, or were sent once.
    pub expired: u64,
    /// Bytes of messages that programs received.
    pub delivered_bytes: u64,
    /// When each delivered message was first wished, and how long it took until then, in
    /// nanoseconds; in the order of wishing.
    pub times_ns: Vec<(u64, u64)>,
    /// Its rounds, in order of time.
    pub rounds: Vec<Round>,
}

/// What came of TCP flows, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOutcome {
    /// Bytes of payload that arrived.
    pub delivered_bytes: u64,
    /// Packets that were lost.
    pub lost: u64,
    /// Times at which everything was found lost because nothing had come for long.
    pub timeouts: u64,
    /// How long they lasted, in nanoseconds.
    pub lasted_ns: u64,
}

impl TcpOutcome {
    /// Bits of payload per second.
    pub fn goodput(&self) -> f64 {
        self.delivered_bytes as f64 * 8e9 / (self.lasted_ns as f64).max(1.0)
    }

    fn of(net: &Network, flows: &[TcpId]) -> Self {
        let mut all = Self::default();
        for flow in flows.iter().map(|&id| net.tcp(id)) {
            all.delivered_bytes += flow.delivered_bytes;
            all.lost += flow.lost;
            all.timeouts += flow.timeouts;
            all.lasted_ns = all.lasted_ns.max(flow.lasted_ns());
        }
        all
    }
}

/// Messages that were wished at the same moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// When, in nanoseconds.
    pub began_ns: u64,
    /// When the last one of them was delivered.
    pub ended_ns: u64,
    /// Bytes delivered.
    pub bytes: u64,
}

impl Round {
    /// How long it took.
    pub fn time_ns(&self) -> u64 {
        self.ended_ns - self.began_ns
    }
}

impl StreamOutcome {
    /// How long messages took, shortest first.
    pub fn sorted_ns(&self) -> Vec<u64> {
        let mut times: Vec<_> = self.times_ns.iter().map(|&(_, time_ns)| time_ns).collect();
        times.sort_unstable();
        times
    }

    /// How long rounds took, shortest first.
    pub fn sorted_rounds_ns(&self) -> Vec<u64> {
        let mut times: Vec<_> = self.rounds.iter().map(Round::time_ns).collect();
        times.sort_unstable();
        times
    }

    /// Messages that were delivered within this time.
    pub fn in_time(&self, within: Time) -> usize {
        let in_time = |&&(_, time_ns): &&(u64, u64)| time_ns <= within.0;
        self.times_ns.iter().filter(in_time).count()
    }

    /// Bits of messages per second, over the time in which rounds were under way.
    pub fn goodput(&self) -> f64 {
        let mut busy_ns = 0;
        let mut until_ns = 0;
        for round in &self.rounds {
            busy_ns += round.ended_ns.saturating_sub(round.began_ns.max(until_ns));
            until_ns = until_ns.max(round.ended_ns);
        }
        self.delivered_bytes as f64 * 8e9 / (busy_ns as f64).max(1.0)
    }

    fn of(ledger: &Ledger, streams: usize) -> Vec<StreamOutcome> {
        let mut all = vec![StreamOutcome::default(); streams];
        let mut rounds: Vec<BTreeMap<u64, Round>> = vec![BTreeMap::new(); streams];
        for (_, _, sent) in ledger.messages() {
            let index = sent.wish.stream as usize;
            let (stream, began_ns) = (&mut all[index], sent.wish.since_ns);
            stream.accepted += 1;
            let at_ns = match sent.fate {
                Fate::Delivered { at_ns } => at_ns,
                other => {
                    stream.discarded += u64::from(other == Fate::Discarded);
                    stream.expired += u64::from(other == Fate::Expired);
                    continue;
                }
            };
            stream.delivered_bytes += sent.wish.len as u64;
            stream.times_ns.push((began_ns, at_ns - began_ns));
            let round = rounds[index].entry(began_ns).or_default();
            round.began_ns = began_ns;
            round.ended_ns = round.ended_ns.max(at_ns);
            round.bytes += sent.wish.len as u64;
        }
        for (stream, rounds) in all.iter_mut().zip(rounds) {
            stream.times_ns.sort_unstable();
            stream.rounds = rounds.into_values().collect();
        }
        all
    }
}

/// The value below which this part of sorted values lies; zero if there are none.
pub fn quantile(sorted: &[u64], part: f64) -> u64 {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    let last = sorted.len().saturating_sub(1);
    sorted
        .get(rank.saturating_sub(1).min(last))
        .copied()
        .unwrap_or(0)
}

impl Outcome {
    /// The end of a run that panicked.
    pub(super) fn panicked(seed: u64, text: &str) -> Self {
        let violation = Violation {
            at_ns: 0,
            rule: Rule::Panic,
            what: text.into(),
        };
        Outcome {
            failure: Some(Failure {
                seed,
                violations: vec![violation],
                state: String::new(),
            }),
            ..Outcome::default()
        }
    }

    pub(super) fn of(
        net: &mut Network,
        streams: usize,
        tcp: &[Vec<TcpId>],
        failure: Option<Failure>,
    ) -> Self {
        let mut outcome = Outcome {
            failure,
            virtual_ns: net.now_ns(),
            events: net.events(),
            trace_hash: net.trace_hash(),
            streams: StreamOutcome::of(&net.checker.ledger, streams),
            tcp: tcp.iter().map(|flows| TcpOutcome::of(net, flows)).collect(),
            recording: net.recording().cloned(),
            ..Outcome::default()
        };
        for id in net.host_ids() {
            if let Some(node) = &net.host(id).node {
                let counters = node.stats().counters;
                outcome.packets_sent += counters.packets_sent;
                outcome.packets_lost += counters.packets_lost;
                outcome.polls += counters.polls;
                outcome.timeouts += counters.timeouts;
            }
        }
        outcome
    }

    /// Packets that took the place of others: of those found lost, and POLLs, which carry what the last one did.
    pub fn packets_again(&self) -> u64 {
        (self.packets_lost + self.polls).min(self.packets_sent)
    }

    /// The same, for each packet that was needed.
    pub fn extra_packets_ratio(&self) -> f64 {
        let needed = self.packets_sent - self.packets_again();
        self.packets_again() as f64 / (needed as f64).max(1.0)
    }
}
