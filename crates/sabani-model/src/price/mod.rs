//! What a collective takes by models in closed form: Hockney, LogGP, PlogP and the paper's PlogP-BR.
//!
//! All of them see the schedule as [`Phases`] and add up what each phase takes. What they leave out
//! (phases that drift apart, shares that change, losses that are repaired) is simulated in
//! [`simulate`](crate::simulate).

mod phases;

pub use phases::{Pattern, Phases};

use sabani_collective::Choice;

use crate::network::{Network, Transport};
use crate::route::Routes;
use crate::share::{Demand, MaxMin};
use crate::shorter::Shorter;
use crate::task::Task;

/// A model in closed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// T = Σ (α + β m).
    Hockney,
    /// T = Σ (g + m G) + L times the depth.
    LogGp,
    /// T = Σ g(m) + L times the depth.
    PLogP,
    /// The paper's (4): T = Σ g(m, C) + L times the depth + E_q(m, n) T_RTO.
    PLogPBr,
}

impl Model {
    /// All there are.
    pub const ALL: [Model; 4] = [Model::Hockney, Model::LogGp, Model::PLogP, Model::PLogPBr];

    /// Its name, as in reports.
    pub fn name(self) -> &'static str {
        match self {
            Model::Hockney => "Hockney",
            Model::LogGp => "LogGP",
            Model::PLogP => "PlogP",
            Model::PLogPBr => "PlogP-BR",
        }
    }
}

/// Where g(m, C) comes from.
pub type PatternGap<'g> = dyn Fn(&Pattern) -> f64 + 'g;

/// The lines of LogGP and Hockney go through g(0) and g of this length.
const LONG_BYTES: usize = 1 << 20;

/// Prices schedules over one transport of a network.
pub struct Prices {
    routes: Routes,
    /// The queue before receivers' ports; infinite where nothing is lost.
    queue_bytes: f64,
    timeout_ns: f64,
    /// Between most hosts.
    trunks: usize,
}

impl Prices {
    /// With the medians of what was measured.
    pub fn new(network: &Network, transport: &Transport, task: &Task) -> Self {
        let routes = Routes::new(network, transport, task, &mut |estimate| estimate.value);
        let queues = routes.resources.iter().map(|resource| resource.queue_bytes);
        let least_bytes = queues.fold(f64::INFINITY, f64::min);
        Prices {
            // Credit is a flow control, as that of links.
            queue_bytes: match transport.recovery.granted {
                true => f64::INFINITY,
                false => least_bytes,
            },
            timeout_ns: transport.recovery.timeout_ns.value,
            trunks: routes.usual_trunks(),
            routes,
        }
    }

    /// What an algorithm with its parameters takes by a model, in nanoseconds.
    pub fn price(&self, model: Model, task: &Task, choice: &Choice) -> f64 {
        let price = |task: &Task| self.of_phases(model, &Phases::new(task, choice));
        match Shorter::new(task, choice) {
            Some(shorter) => shorter.continued(price(&shorter.half), price(&shorter.whole)),
            None => price(task),
        }
    }

    /// What phases take by a model, in nanoseconds.
    pub fn of_phases(&self, model: Model, phases: &Phases) -> f64 {
        let gap_ns = |bytes| self.routes.cost(bytes).gap_ns;
        let ns_per_byte = (gap_ns(LONG_BYTES) - gap_ns(0)) / LONG_BYTES as f64;
        let line_ns = |bytes: usize| gap_ns(0) + bytes as f64 * ns_per_byte;
        let sum = |of: &dyn Fn(usize) -> f64| {
            let lengths = phases.patterns.iter().map(Pattern::bytes);
            lengths.map(of).sum::<f64>()
        };
        let latencies_ns = self.latencies_ns(phases);
        match model {
            Model::Hockney => sum(&|bytes| self.latency_ns(bytes) + line_ns(bytes)),
            Model::LogGp => sum(&line_ns) + latencies_ns,
            Model::PLogP => sum(&gap_ns) + latencies_ns,
            Model::PLogPBr => self.plogp_br(phases, &|pattern| self.gap_ns(pattern)),
        }
    }

    /// The paper's (4) with g(m, C) from anywhere: from [`Prices::gap_ns`], or measured for each pattern as
    /// in the paper.
    pub fn plogp_br(&self, phases: &Phases, gap_ns: &PatternGap) -> f64 {
        let gaps_ns: f64 = phases.patterns.iter().map(gap_ns).sum();
        let timeouts = self.timeouts(phases.overlap_bytes, phases.overlap);
        gaps_ns + self.latencies_ns(phases) + timeouts * self.timeout_ns
    }

    /// d L, with L of the longest message.
    fn latencies_ns(&self, phases: &Phases) -> f64 {
        let bytes = phases.patterns.iter().map(Pattern::bytes).max();
        phases.depth as f64 * self.latency_ns(bytes.unwrap_or(0))
    }

    /// L between most hosts.
    fn latency_ns(&self, bytes: usize) -> f64 {
        self.routes.latency_over(self.trunks, bytes as f64)
    }

    /// Whether the paper's (1) expects a timeout of an algorithm.
    pub fn expects_timeout(&self, task: &Task, choice: &Choice) -> bool {
        let phases = Phases::new(task, choice);
        self.timeouts(phases.overlap_bytes, phases.overlap) > 0.0
    }

    /// The paper's (1): E_q(m, n). 0 where nothing is lost, which includes flow control of links and by receivers.
    pub fn timeouts(&self, bytes: usize, phases: usize) -> f64 {
        let piled_up = (phases.saturating_sub(1) * bytes) as f64;
        f64::from(u8::from(self.queue_bytes < piled_up))
    }

    /// g(m, C) from max-min shares: when the slowest message of a pattern has arrived, less L.
    pub fn gap_ns(&self, pattern: &Pattern) -> f64 {
        let messages = pattern.messages.iter().map(|&(from, to, bytes)| {
            let cost = self.routes.cost(bytes);
            (self.routes.uses(from, to, &cost), cost.wire_bytes)
        });
        let flows: Vec<_> = messages.collect();
        let mut max_min = MaxMin::default();
        let resources = self.routes.resources.len();
        let shares = max_min.solve(resources, flows.iter().map(|(uses, _)| Demand::all(uses)));
        let times = shares
            .iter()
            .zip(&flows)
            .map(|(share, (_, bytes))| bytes / share.rate);
        times.fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use sabani_collective::execute::HEADER_BYTES;
    use sabani_collective::{Collective, Mode, Parameters};

    use super::*;
    use crate::network::{Capacity, Estimate, Group};
    use crate::testing::{LINK, switched};

    const QUEUE: f64 = 65_536.0;

    /// All-to-all A of the paper: everything is posted at once.
    fn a(ranks: usize) -> Choice {
        windowed(ranks - 1, Mode::Eager)
    }

    /// All-to-all B: one pair at a time, and a message waits for its receiver.
    fn b() -> Choice {
        windowed(1, Mode::Rendezvous)
    }

    fn windowed(window: usize, mode: Mode) -> Choice {
        let parameters = Parameters {
            window,
            mode,
            ..Parameters::default()
        };
        Choice {
            algorithm: Collective::Alltoall.algorithm("windowed").unwrap(),
            parameters,
        }
    }

    /// Two halves behind trunks that let half of their hosts' traffic pass, and queues.
    fn halves(ranks: usize) -> Network {
        let mut network = switched(ranks);
        for half in 0..2 {
            let hosts = (0..ranks).filter(|host| host * 2 / ranks == half).collect();
            let mut group = Group::new(format!("half{half}"), hosts);
            (group.out, group.into) = (trunk(ranks), trunk(ranks));
            network.graph.groups.push(group);
        }
        for host in &mut network.graph.hosts {
            host.into.queue_bytes = Some(Estimate::exact(QUEUE));
        }
        network
    }

    fn trunk(ranks: usize) -> Capacity {
        Capacity::exact(LINK * ranks as f64 / 4.0)
    }

    struct Paper {
        latency_ns: f64,
        gap_ns: f64,
        /// Sum of g(m, C_k).
        gaps_ns: f64,
        timeouts: f64,
    }

    /// What the paper's formulas are made of, worked out by hand: in phase k, rank r talks to r xor k,
    /// and if that is in the other half, P/2 messages share a trunk for P/4 of them.
    fn by_hand(network: &Network, ranks: usize, payload: usize) -> Paper {
        let bytes = HEADER_BYTES + payload;
        let tcp = &network.transports["tcp"];
        let gap_ns = tcp.at(bytes as f64).gap_ns.value;
        let prices = Prices::new(network, tcp, &task(network, ranks, payload));
        let cost = prices.routes.cost(bytes);
        let full = 1448.0 / (1448.0 + 96.0);
        let across_ns = cost.wire_bytes * full * 2.0 / LINK * 1e9;
        let gap = |k: usize| {
            if k < ranks / 2 {
                gap_ns
            } else {
                gap_ns.max(across_ns)
            }
        };
        Paper {
            latency_ns: tcp.latency(0, 0.0).value,
            gap_ns,
            gaps_ns: (1..ranks).map(gap).sum(),
            timeouts: f64::from(u8::from(QUEUE < ((ranks - 2) * bytes) as f64)),
        }
    }

    fn task(network: &Network, ranks: usize, bytes: usize) -> Task {
        Task::new(Collective::Alltoall, ranks, bytes, network)
    }

    #[test]
    fn alltoall_a_and_b_cost_what_the_papers_formulas_say() {
        for ranks in [8, 64] {
            let network = halves(ranks);
            let tcp = &network.transports["tcp"];
            for bytes in [0, 64, 1000, 1040, 8192, 65_536, 1 << 20] {
                let task = task(&network, ranks, bytes);
                let prices = Prices::new(&network, tcp, &task);
                let price = |model, choice| prices.price(model, &task, &choice);
                let hand = by_hand(&network, ranks, bytes);
                let phases = (ranks - 1) as f64;
                let timeout_ns = hand.timeouts * tcp.recovery.timeout_ns.value;
                // (4), with which (11) agrees; (6) as printed has L in the sum.
                let a_br = hand.gaps_ns + hand.latency_ns + timeout_ns;
                for (what, got, expected) in [
                    (
                        "(5)",
                        price(Model::PLogP, a(ranks)),
                        phases * hand.gap_ns + hand.latency_ns,
                    ),
                    ("(4)", price(Model::PLogPBr, a(ranks)), a_br),
                    (
                        "(7)",
                        price(Model::PLogP, b()),
                        phases * (hand.gap_ns + hand.latency_ns),
                    ),
                    (
                        "(9)",
                        price(Model::PLogPBr, b()),
                        hand.gaps_ns + phases * hand.latency_ns,
                    ),
                ] {
                    let error = (got / expected - 1.0).abs();
                    assert!(
                        error < 1e-9,
                        "{what}, {ranks} ranks, {bytes} B: {got} {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_papers_inequalities_hold() {
        let ranks = 8;
        let network = halves(ranks);
        let below = (QUEUE / 6.0) as usize - HEADER_BYTES;
        for (bytes, timeout) in [
            (64, false),
            (below, false),
            (below + 1, true),
            (1 << 20, true),
        ] {
            let task = task(&network, ranks, bytes);
            let prices = Prices::new(&network, &network.transports["tcp"], &task);
            let faster_a =
                |model| prices.price(model, &task, &a(ranks)) < prices.price(model, &task, &b());
            assert!(faster_a(Model::PLogP), "(10)");
            assert_eq!(faster_a(Model::PLogPBr), !timeout, "(11), (12): {bytes} B");
        }
    }

    #[test]
    fn measured_gaps_may_take_the_place_of_shares() {
        let network = switched(8);
        let task = task(&network, 8, 1000);
        let prices = Prices::new(&network, &network.transports["tcp"], &task);
        let phases = Phases::new(&task, &a(8));
        let got = prices.plogp_br(&phases, &|pattern| pattern.messages.len() as f64);
        assert_eq!(got, 7.0 * 8.0 + prices.latency_ns(0));
    }

    #[test]
    fn depth_overlap_and_phases_are_those_of_the_textbooks() {
        let network = switched(16);
        let of = |collective: Collective, name, bytes, parameters| {
            let choice = Choice {
                algorithm: collective.algorithm(name).unwrap(),
                parameters,
            };
            let phases = Phases::new(&Task::new(collective, 16, bytes, &network), &choice);
            (phases.patterns.len(), phases.depth, phases.overlap)
        };
        let plain = Parameters::default();
        assert_eq!(of(Collective::Bcast, "binomial", 100, plain), (4, 4, 1));
        assert_eq!(
            of(Collective::Barrier, "dissemination", 0, plain),
            (4, 4, 1)
        );
        assert_eq!(of(Collective::Allgather, "ring", 100, plain), (15, 15, 1));
        assert_eq!(
            of(
                Collective::Gather,
                "linear",
                100,
                Parameters {
                    window: 16,
                    ..plain
                }
            ),
            (15, 1, 15)
        );
        let pipeline = Parameters {
            segment_bytes: 1000,
            window: 64,
            ..plain
        };
        // 20 segments along 15 edges.
        assert_eq!(
            of(Collective::Bcast, "chain", 20_000, pipeline),
            (34, 15, 1)
        );
    }

    #[test]
    fn the_slowest_message_of_a_pattern_takes_what_the_fullest_resource_is_given_to_do() {
        let network = halves(8);
        let task = task(&network, 8, 10_000);
        let prices = Prices::new(&network, &network.transports["tcp"], &task);
        let mut seed = 1_u32;
        let mut below = |limit: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as usize % limit
        };
        for _ in 0..200 {
            let from = below(8);
            let mut pattern = Pattern {
                messages: vec![(from, (from + 1) % 8, 10_000)],
            };
            for _ in 0..below(20) {
                let from = below(8);
                pattern
                    .messages
                    .push((from, (from + 1 + below(7)) % 8, 10_000));
            }
            let mut loads = vec![0.0; prices.routes.resources.len()];
            for &(from, to, bytes) in &pattern.messages {
                let cost = prices.routes.cost(bytes);
                for one in prices.routes.uses(from, to, &cost) {
                    loads[one.resource as usize] += one.part * cost.wire_bytes;
                }
            }
            let fullest = loads.into_iter().fold(0.0, f64::max);
            assert!(
                (prices.gap_ns(&pattern) / fullest - 1.0).abs() < 1e-9,
                "{pattern:?}"
            );
        }
    }
}
