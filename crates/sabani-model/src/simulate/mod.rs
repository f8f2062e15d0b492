//! What a collective takes, by simulating its messages: ranks run through the schedule each at its own
//! pace, their processors are busy, messages share what they pass, queues overflow and losses are
//! repaired. Phases drift apart, or don't, by themselves.
//!
//! Nothing of the protocol is in here, and no packets: flows and probabilities, so that sixty-four ranks
//! take milliseconds. And nothing of `sabani-sim`, against which it is tested.

mod agenda;
mod ahead;
mod chance;
mod loss;
mod traffic;
mod window;
mod words;

use std::collections::{HashMap, HashSet};

use sabani_collective::Choice;
use sabani_collective::execute::{MessageId, StepId};

use crate::cast::{Act, Cast};
use crate::network::{Estimate, Graph, Network, Recovery, Transport};
use crate::parallel;
use crate::route::Routes;
use crate::shorter::Shorter;
use crate::task::Task;
use agenda::Agenda;
use chance::Chance;
pub use loss::Repair;
use traffic::{Content, Message, Passed, Traffic};
use window::Windows;

/// So many replicates that the next run lies between the least and the largest of them with a
/// probability of 90 %.
pub const REPLICATES: u64 = 19;

/// How far runs are off what is simulated.
#[derive(Clone, Copy, Debug)]
struct Off {
    /// Hardly any took less than this part of the fastest replicate.
    least: f64,
    /// Hardly any took longer than this part of the slowest one.
    most: f64,
}

/// Of messages that are shorter than [`LONG_BYTES`], and of the others: more than 95 % of the runs lie between on trees
/// (docs/model.md), for other networks differ more.
const SHORT: Off = Off {
    least: 0.85,
    most: 1.4,
};
const LONG: Off = Off {
    least: 0.9,
    most: 1.25,
};
const LONG_BYTES: usize = 8 << 10;

impl Off {
    /// For messages of so many bytes.
    fn of(bytes: usize) -> Self {
        if bytes < LONG_BYTES { SHORT } else { LONG }
    }

    /// On a network of which the graph is not true. That is no uncertainty of each of its capacities: drawn for each apart,
    /// the least of many would make every run too slow.
    fn on(self, graph: &Graph) -> Self {
        let factor = graph.fit.map_or(1.0, |fit| fit.widening().exp());
        Off {
            least: self.least / factor,
            most: self.most * factor,
        }
    }
}

/// A sender hands messages to its link one after the other, and of a long one no more than this before
/// the next one has its turn: a train of datagrams, a segment that the kernel cuts.
const TURN_BYTES: usize = 64 << 10;
/// Where receivers grant credit, no more than so many packets: further ones leave when they are granted, and others' meanwhile. Broadcasts
/// from one rank to several at 64 KiB are within 2 % so.
const TURN_PACKETS: f64 = 8.0;

/// Of the runs of which the simulation says that they wait for a timeout so many do, where receivers grant no credit. Replicates vary by what was
/// measured, and not by what nobody knows of a connection: where all of them waited, 0.89 of the runs did in labs of 12 and 33 hosts, where most
/// of them did fewer; the mean of Brier's scores there is 0.120 without this, 0.106 with 0.8 to 0.85, and 0.108 with 0.9.
pub(crate) const TIMEOUTS_COME: f64 = 0.85;

/// The streams of random numbers of what came before a run.
const BEFORE: u64 = 1 << 63;

/// What one run took.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// From the moment at which all ranks begin until the last one is done.
    pub ns: f64,
    /// How many losses were repaired in each way, in the order of [`Repair::ALL`].
    pub repairs: [f64; Repair::ALL.len()],
    /// For each resource: the share of the time in which somebody would have been faster but for it.
    pub bound: Vec<f64>,
    /// For each resource: the most bytes in a nanosecond.
    pub peaks: Vec<f64>,
    /// Messages that were sent.
    pub messages: f64,
}

impl Outcome {
    /// Whether a tail has waited for a timeout. What TCP's senders probe for counts as well if the run took as long as one, for systems
    /// count a timeout for a single packet as a probe, too.
    fn has_waited(&self, recovery: &Recovery) -> bool {
        let probed = self.repairs[Repair::Probe as usize] > 0.0 && !recovery.granted;
        let is_long = self.ns >= recovery.timeout_ns.low;
        self.repairs[Repair::Timeout as usize] > 0.0 || probed && is_long
    }
}

/// What a collective is expected to take.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The median of the replicates; the least and the largest, stretched by what simulations are off.
    pub ns: Estimate,
    /// Repairs in a run on average, in the order of [`Repair::ALL`].
    pub repairs: [f64; Repair::ALL.len()],
    /// How likely it is that a tail waits for a timeout, or that TCP's sender probes for one and the run takes as long: the share of the
    /// replicates, of which not all come true over TCP: at most 0.85 there.
    pub timeout_probability: f64,
    /// The resource that limits most, and for which share of the time.
    pub bound_by: Option<(String, f64)>,
    /// Resources that are loaded harder than any measurement has loaded them.
    pub beyond: Vec<String>,
}

/// What is to be simulated: a collective, with an algorithm, over a transport of a network.
#[derive(Clone, Copy, Debug)]
pub struct Simulation<'s> {
    /// The network.
    pub network: &'s Network,
    /// One of its transports.
    pub transport: &'s Transport,
    /// The collective.
    pub task: &'s Task,
    /// How it is done.
    pub choice: &'s Choice,
}

impl Simulation<'_> {
    /// A run in which everything is as usual; `None` if it takes longer than this.
    pub fn usual(&self, limit_ns: f64) -> Option<Outcome> {
        self.outcome(None, limit_ns)
    }

    /// A run in which everything that was measured varies as much as is not known of it.
    pub fn replicate(&self, number: u64) -> Outcome {
        let outcome = self.outcome(Some(number), f64::INFINITY);
        outcome.expect("nothing takes forever")
    }

    /// What it takes, from so many replicates.
    pub fn predict(&self, replicates: u64) -> Prediction {
        let numbers: Vec<_> = (0..replicates.max(1)).collect();
        self.prediction(&parallel::map(&numbers, |&number| self.replicate(number)))
    }

    /// What it takes, from these replicates.
    pub fn prediction(&self, outcomes: &[Outcome]) -> Prediction {
        let routes = self.routes(&mut Chance::none());
        let off = Off::of(self.task.bytes).on(&self.network.graph);
        Prediction::new(outcomes, off, &routes, &self.transport.recovery)
    }

    fn outcome(&self, replicate: Option<u64>, limit_ns: f64) -> Option<Outcome> {
        let Some(shorter) = Shorter::new(self.task, self.choice) else {
            return self.whole(replicate, limit_ns);
        };
        let run = |task: &Task| Simulation { task, ..*self }.whole(replicate, limit_ns);
        let (half, whole) = (run(&shorter.half)?, run(&shorter.whole)?);
        let repair = |kind: usize| shorter.continued(half.repairs[kind], whole.repairs[kind]);
        let ns = shorter.continued(half.ns, whole.ns);
        (ns <= limit_ns).then(|| Outcome {
            ns,
            repairs: [0, 1, 2].map(repair),
            messages: shorter.continued(half.messages, whole.messages),
            ..whole
        })
    }

    fn routes(&self, chance: &mut Chance) -> Routes {
        let mut pick = |estimate| chance.pick(estimate);
        Routes::new(self.network, self.transport, self.task, &mut pick)
    }

    /// A run through all of the schedule. Connections that learn have been used before for the same.
    fn whole(&self, replicate: Option<u64>, limit_ns: f64) -> Option<Outcome> {
        // Independent streams for each replicate.
        let chance = |stream: u64| match replicate {
            Some(replicate) => Chance::seeded(3 * replicate + stream),
            None => Chance::none(),
        };
        let routes = self.routes(&mut chance(0));
        let learns = self.transport.recovery.learned && routes.can_overflow();
        let windows = if learns {
            let mut before = self.begin(
                &routes,
                Windows::new(),
                [BEFORE + 1, BEFORE + 2].map(chance),
            );
            // What is learned in it must not depend on how soon it is given up.
            before.ends_within(f64::INFINITY);
            before.traffic.into_windows()
        } else {
            Windows::new()
        };
        let mut run = self.begin(&routes, windows, [1, 2].map(chance));
        run.ends_within(limit_ns).then(|| run.outcome())
    }

    fn begin<'t>(&'t self, routes: &'t Routes, windows: Windows, chances: [Chance; 2]) -> Run<'t> {
        let [losses, noise] = chances;
        Run {
            cast: Cast::new(self.task, self.choice),
            routes,
            traffic: Traffic::new(routes, &self.transport.recovery, windows, losses),
            agenda: Agenda::new(),
            busy_until_ns: vec![0.0; self.task.ranks],
            link_until_ns: vec![0.0; self.task.ranks],
            owed: HashSet::new(),
            in_step: HashMap::new(),
            transport: self.transport,
            chance: noise,
            messages: 0.0,
        }
    }
}

impl Prediction {
    fn new(outcomes: &[Outcome], off: Off, routes: &Routes, recovery: &Recovery) -> Self {
        let count = outcomes.len() as f64;
        let mut times: Vec<_> = outcomes.iter().map(|outcome| outcome.ns).collect();
        times.sort_by(f64::total_cmp);
        let mean = |of: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(of).sum::<f64>() / count;
        let resources = routes.resources.iter().enumerate();
        let bound = resources.clone().map(|(index, resource)| {
            let share = mean(&|outcome: &Outcome| outcome.bound[index]);
            (resource.name.clone(), share)
        });
        let beyond = resources.filter(|(index, resource)| {
            let peak = mean(&|outcome: &Outcome| outcome.peaks[*index]);
            // Local links and those both ways may never have been tried on their own.
            resource.probed_bytes_per_ns > 0.0 && peak > BEYOND * resource.probed_bytes_per_ns
        });
        let come = if recovery.granted { 1.0 } else { TIMEOUTS_COME };
        Prediction {
            ns: Estimate {
                value: times[times.len() / 2],
                low: off.least * times[0],
                high: off.most * times[times.len() - 1],
            },
            repairs: [0, 1, 2].map(|kind| mean(&|outcome| outcome.repairs[kind])),
            timeout_probability: come * mean(&|outcome| f64::from(outcome.has_waited(recovery))),
            bound_by: bound
                .max_by(|one, other| one.1.total_cmp(&other.1))
                .filter(|(_, share)| *share > 0.0),
            beyond: beyond.map(|(_, resource)| resource.name.clone()).collect(),
        }
    }
}

/// A load is beyond what was tried if it is larger by this factor: less is noise.
const BEYOND: f64 = 1.1;

/// Something that happens to a rank.
enum Event {
    /// Its processor begins to send a message.
    Start(Message),
    /// A message is complete at its receiver.
    Arrive(Message),
    /// It hears that a message of its own has arrived.
    Hear(usize, StepId),
}

struct Run<'t> {
    cast: Cast<'t>,
    routes: &'t Routes,
    traffic: Traffic<'t>,
    agenda: Agenda<Event>,
    /// Until when each rank's processor is busy.
    busy_until_ns: Vec<f64>,
    /// Until when each rank leaves its link to the messages before.
    link_until_ns: Vec<f64>,
    /// Who has to acknowledge a message of whom: the next message that goes there does.
    owed: HashSet<(usize, usize)>,
    /// Messages that are to keep in step, by sender, receiver and name.
    in_step: HashMap<(usize, usize, MessageId), StepId>,
    transport: &'t Transport,
    chance: Chance,
    /// Those that were sent so far.
    messages: f64,
}

impl Run<'_> {
    /// Runs to the end; `false` if that takes longer than the limit.
    fn ends_within(&mut self, limit_ns: f64) -> bool {
        (0..self.busy_until_ns.len()).for_each(|rank| self.advance(rank, 0.0));
        while !self.cast.is_complete() {
            let now_ns = self.agenda.next_ns().min(self.traffic.next_ns());
            assert!(now_ns.is_finite(), "the checker proves that schedules end");
            if now_ns > limit_ns {
                return false;
            }
            while let Some(passed) = self.traffic.take_passed(now_ns) {
                self.arrive_later(now_ns, passed);
            }
            while let Some(event) = self.agenda.pop(now_ns) {
                self.handle(now_ns, event);
            }
            self.traffic.settle(now_ns);
        }
        true
    }

    fn outcome(&self) -> Outcome {
        let ns = self.busy_until_ns.iter().copied().fold(0.0, f64::max);
        let loads = self.traffic.loads();
        // A rank that is alone may have nothing to do.
        let share = |bound_ns: f64| (bound_ns / ns.max(1.0)).min(1.0);
        Outcome {
            ns,
            repairs: self.traffic.repairs().map(f64::from),
            bound: loads.iter().map(|load| share(load.bound_ns)).collect(),
            peaks: loads.iter().map(|load| load.peak).collect(),
            messages: self.messages,
        }
    }

    fn handle(&mut self, now_ns: f64, event: Event) {
        match event {
            Event::Start(message) => self.traffic.start(now_ns, message),
            Event::Hear(rank, step) => {
                self.cast.arrived(rank, step);
                self.advance(rank, now_ns);
            }
            Event::Arrive(message) => {
                let Message {
                    from,
                    to,
                    name,
                    content,
                    cost,
                } = message;
                // The processor was busy with it while the last of it came.
                let began_ns = now_ns - cost.receive_ns;
                let busy = &mut self.busy_until_ns[to];
                *busy = busy.max(began_ns) + cost.receive_ns;
                self.owed.insert((to, from));
                if let Content::Data = content
                    && let Some(step) = self.in_step.remove(&(from, to, name))
                {
                    let way_ns = self.routes.latency_ns(to, from, 0.0) + self.routes.cost(0).gap_ns;
                    self.agenda.push(now_ns + way_ns, Event::Hear(from, step));
                }
                match content {
                    Content::Data => self.cast.arrive(to, from, name),
                    Content::Ready => self.cast.peer_is_ready(to, from, name),
                }
                self.advance(to, now_ns);
            }
        }
    }

    /// The message's last byte is L from its receiver, and as much more or less as messages vary.
    fn arrive_later(&mut self, now_ns: f64, passed: Passed) {
        let Passed { message, late_ns } = passed;
        let Message { from, to, cost, .. } = &message;
        let latency_ns = self.routes.latency_ns(*from, *to, cost.bytes);
        let varies_ns = self.transport.deviation_ns(cost.bytes, self.chance.share());
        let way_ns = (latency_ns + varies_ns).max(0.0);
        self.agenda
            .push(now_ns + late_ns + way_ns, Event::Arrive(message));
    }

    fn message(
        &mut self,
        from: usize,
        to: usize,
        name: MessageId,
        content: Content,
        bytes: usize,
    ) -> Message {
        // All messages that were measured acknowledge others.
        let answers = self.owed.remove(&(from, to));
        let ack_bytes = self.transport.recovery.ack_bytes;
        let missing = if answers { 0 } else { ack_bytes };
        Message {
            from,
            to,
            name,
            content,
            cost: self.routes.cost(bytes.saturating_sub(missing)),
        }
    }

    /// How much of a message a sender's link takes at a time. Where receivers grant no credit, what is beyond a window waits for
    /// acknowledgements.
    fn turn_bytes(&self, from: usize, to: usize) -> usize {
        let recovery = &self.transport.recovery;
        if recovery.granted {
            (TURN_PACKETS * recovery.packet_bytes) as usize
        } else if self.traffic.losses.can_happen {
            TURN_BYTES.min(self.traffic.window((from, to)).bytes as usize)
        } else {
            TURN_BYTES
        }
    }

    /// A rank's processor begins to send; the link takes it when it has its turn.
    fn send(&mut self, begin_ns: f64, message: Message, bytes: usize) {
        let Message { from, to, cost, .. } = message;
        self.messages += 1.0;
        self.busy_until_ns[from] = begin_ns + cost.send_ns;
        let turn = self.routes.cost(bytes.min(self.turn_bytes(from, to)));
        let link = &mut self.link_until_ns[from];
        let leaves_ns = begin_ns.max(*link);
        *link = leaves_ns + self.routes.sending_ns(from, to, &turn);
        self.agenda.push(leaves_ns, Event::Start(message));
    }

    /// A rank does what it can. Its processor does one thing after the other.
    fn advance(&mut self, rank: usize, now_ns: f64) {
        while let Some(act) = self.cast.next(rank) {
            let begin_ns = self.busy_until_ns[rank].max(now_ns);
            match act {
                Act::Send {
                    to,
                    message,
                    bytes,
                    in_step,
                } => {
                    if let Some(step) = in_step {
                        self.in_step.insert((rank, to, message), step);
                    }
                    let message = self.message(rank, to, message, Content::Data, bytes);
                    self.send(begin_ns, message, bytes);
                }
                Act::Announce { to, message, bytes } => {
                    let message = self.message(rank, to, message, Content::Ready, bytes);
                    self.send(begin_ns, message, bytes);
                }
                Act::Copy(bytes) => {
                    self.busy_until_ns[rank] =
                        begin_ns + bytes as f64 * self.routes.copy_ns_per_byte;
                }
                Act::Reduce(bytes) => {
                    self.busy_until_ns[rank] =
                        begin_ns + bytes as f64 * self.routes.reduce_ns_per_byte;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sabani_collective::Collective;

    use super::*;
    use crate::network::Fit;
    use crate::network::Noise;
    use crate::price::{Model, Prices};
    use crate::testing::{LINK, switched};

    fn choice(collective: Collective, text: &str) -> Choice {
        Choice::parse(collective, text).unwrap()
    }

    fn usual(network: &Network, task: &Task, choice: &Choice) -> Outcome {
        let simulation = Simulation {
            network,
            transport: &network.transports["tcp"],
            task,
            choice,
        };
        simulation.usual(f64::INFINITY).unwrap()
    }

    /// What a simulation has on top of PlogP's closed form.
    fn ratio(task: &Task, network: &Network, text: &str) -> f64 {
        let choice = choice(task.collective, text);
        let prices = Prices::new(network, &network.transports["tcp"], task);
        let price = prices.price(Model::PLogP, task, &choice);
        usual(network, task, &choice).ns / price
    }

    #[test]
    fn without_contention_and_noise_it_is_plogp() {
        let network = switched(8);
        for bytes in [0, 100, 10_000, 30_000] {
            for (collective, name) in [
                (Collective::Bcast, "binomial"),
                (Collective::Barrier, "dissemination"),
                (Collective::Allgather, "ring"),
                (Collective::Alltoall, "pairwise"),
            ] {
                let task = Task::new(collective, 8, bytes, &network);
                let ratio = ratio(&task, &network, name);
                assert!((0.98..1.05).contains(&ratio), "{name}, {bytes} B: {ratio}");
            }
        }
    }

    #[test]
    fn alltoall_a_fills_its_port_and_b_waits_for_each_phase() {
        let network = switched(16);
        let task = Task::new(Collective::Alltoall, 16, 100_000, &network);
        let a = ratio(&task, &network, "windowed:window=15");
        assert!((0.99..1.03).contains(&a), "{a}");
        // In each phase, the receiver's word goes to the sender first, which (7) leaves out; and before it does, the receiver
        // hears that what it has sent in the phase before has arrived.
        let b = usual(
            &network,
            &task,
            &choice(task.collective, "windowed:window=1:mode=rendezvous"),
        );
        let tcp = &network.transports["tcp"];
        let latency_ns = tcp.latency(0, 0.0).value;
        let (gap_ns, empty_ns) = (tcp.at(1e5).gap_ns.value, tcp.at(0.0).gap_ns.value);
        let phase_ns = gap_ns + empty_ns + 2.0 * latency_ns;
        let expected = 15.0 * phase_ns + 14.0 * (empty_ns + latency_ns);
        assert!((b.ns / expected - 1.0).abs() < 0.02, "{} {expected}", b.ns);
    }

    /// Messages of a tree that a rank sends at once leave one after the other, or share its link.
    #[test]
    fn turns_are_short_where_receivers_grant_credit() {
        let mut network = switched(8);
        let task = Task::new(Collective::Bcast, 8, 60_000, &network);
        let binomial = choice(task.collective, "binomial");
        let one_after_the_other = usual(&network, &task, &binomial).ns;
        let tcp = network.transports.get_mut("tcp").unwrap();
        tcp.recovery.granted = true;
        let at_once = usual(&network, &task, &binomial).ns;
        assert!(
            at_once > 1.2 * one_after_the_other,
            "{at_once} {one_after_the_other}"
        );
    }

    #[test]
    fn a_pipeline_costs_its_segments_and_its_way() {
        let network = switched(8);
        let task = Task::new(Collective::Bcast, 8, 640_000, &network);
        let ns = usual(
            &network,
            &task,
            &choice(task.collective, "chain:segment=16000:window=64"),
        )
        .ns;
        let tcp = &network.transports["tcp"];
        let expected = 46.0 * tcp.at(16e3).gap_ns.value + 7.0 * tcp.latency(0, 0.0).value;
        assert!((ns / expected - 1.0).abs() < 0.03, "{ns} {expected}");
    }

    #[test]
    fn a_long_pipeline_is_the_continuation_of_a_shorter_one() {
        let network = switched(8);
        let chain = choice(Collective::Bcast, "chain:segment=1KiB:window=16");
        let task = Task::new(Collective::Bcast, 8, 10_000_000, &network);
        assert!(Shorter::new(&task, &chain).is_some());
        let whole = Simulation {
            network: &network,
            transport: &network.transports["tcp"],
            task: &task,
            choice: &chain,
        };
        let exact = whole.whole(None, f64::INFINITY).unwrap().ns;
        let continued = whole.usual(f64::INFINITY).unwrap().ns;
        assert!(
            (continued / exact - 1.0).abs() < 0.01,
            "{continued} {exact}"
        );
    }

    #[test]
    fn many_to_one_takes_the_receivers_port_and_says_so() {
        let network = switched(9);
        let task = Task::new(Collective::Gather, 9, 1_000_000, &network);
        let linear = choice(Collective::Gather, "linear:window=16");
        let outcome = usual(&network, &task, &linear);
        let least = 8.0 * 1e6 / LINK * 1e9;
        assert!(
            (1.0..1.02).contains(&(outcome.ns / least)),
            "{}",
            outcome.ns
        );
        assert_eq!(outcome.repairs, [0.0; 3], "no queue is known to end");
        let simulation = Simulation {
            network: &network,
            transport: &network.transports["tcp"],
            task: &task,
            choice: &linear,
        };
        let prediction = simulation.predict(REPLICATES);
        let (name, share) = prediction.bound_by.unwrap();
        assert_eq!(name, "host0 in");
        assert!(share > 0.98, "{share}");
        assert_eq!(prediction.beyond, Vec::<String>::new());
    }

    #[test]
    fn where_no_tree_fits_intervals_are_wider_and_values_the_same() {
        let predicted = |fit: Option<Fit>| {
            let mut network = switched(8);
            network.graph.fit = fit;
            let simulation = Simulation {
                network: &network,
                transport: &network.transports["tcp"],
                task: &Task::new(Collective::Alltoall, 8, 10_000, &network),
                choice: &choice(Collective::Alltoall, "xor"),
            };
            simulation.predict(3).ns
        };
        let fit = |error_p90| Fit {
            error_p90,
            ..Fit::default()
        };
        let (tree, hashed) = (predicted(Some(fit(0.2))), predicted(Some(fit(0.7))));
        assert_eq!(tree, predicted(None));
        assert_eq!(hashed.value, tree.value);
        let near = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-9;
        assert!(near(hashed.high, tree.high * 0.7_f64.exp()), "{hashed:?}");
        assert!(near(hashed.low, tree.low / 0.7_f64.exp()), "{hashed:?}");
    }

    /// Many to one, behind a queue for less than the windows of all.
    fn incast(bytes: usize, change: impl Fn(&mut Network)) -> Prediction {
        let mut network = switched(17);
        for host in &mut network.graph.hosts {
            host.into.queue_bytes = Some(Estimate::exact(100_000.0));
        }
        change(&mut network);
        let simulation = Simulation {
            network: &network,
            transport: &network.transports["tcp"],
            task: &Task::new(Collective::Gather, 17, bytes, &network),
            choice: &choice(Collective::Gather, "linear:window=16"),
        };
        simulation.predict(REPLICATES)
    }

    fn set_recovery(network: &mut Network, change: impl Fn(&mut crate::network::Recovery)) {
        let tcp = network.transports.get_mut("tcp").unwrap();
        change(&mut tcp.recovery);
    }

    #[test]
    fn queues_that_overflow_bring_timeouts_where_nothing_else_repairs() {
        let probed = incast(30_000, |_| {});
        assert!(probed.repairs[Repair::Probe as usize] > 1.0, "{probed:?}");
        let bare = incast(30_000, |network| {
            set_recovery(network, |recovery| recovery.probe_ns = None)
        });
        assert_eq!(bare.timeout_probability, TIMEOUTS_COME, "{bare:?}");
        assert!(bare.ns.value > 200e6);
        let narrow = |recovery: &mut crate::network::Recovery| {
            recovery.window_bytes = Estimate::exact(5_000.0);
        };
        let narrow = incast(30_000, |network| set_recovery(network, narrow));
        assert_eq!(narrow.repairs, [0.0; 3], "all windows fit in");
        let deep = incast(30_000, |network| {
            network.graph.hosts[0].into.queue_bytes = None
        });
        assert_eq!(deep.repairs, [0.0; 3]);
    }

    #[test]
    fn all_of_a_message_passes_however_much_of_it_is_lost() {
        let bytes = 1_000_000;
        for granted in [false, true] {
            let change = |recovery: &mut Recovery| {
                recovery.granted = granted;
                recovery.window_bytes = Estimate::exact(20_000.0);
            };
            let shallow = |network: &mut Network| {
                set_recovery(network, change);
                let queue = Some(Estimate::exact(5_000.0));
                network.graph.hosts[0].into.queue_bytes = queue;
            };
            let lossy = incast(bytes, shallow);
            assert!(lossy.repairs.iter().sum::<f64>() > 10.0, "{lossy:?}");
            let least_ns = 16.0 * bytes as f64 / LINK * 1e9;
            let off = Off::of(bytes);
            assert!(lossy.ns.low / off.least > least_ns, "{granted} {lossy:?}");
        }
    }

    #[test]
    fn connections_that_have_been_used_keep_what_losses_have_taught_them() {
        let mut network = switched(17);
        for host in &mut network.graph.hosts {
            host.into.queue_bytes = Some(Estimate::exact(100_000.0));
        }
        let fresh_bytes = 30_000.0;
        set_recovery(&mut network, |recovery| {
            recovery.window_bytes = Estimate::exact(fresh_bytes);
        });
        let simulation = Simulation {
            network: &network,
            transport: &network.transports["tcp"],
            task: &Task::new(Collective::Gather, 17, 30_000, &network),
            choice: &choice(Collective::Gather, "linear:window=16"),
        };
        let routes = simulation.routes(&mut Chance::none());
        let none = || [Chance::none(), Chance::none()];
        let mut before = simulation.begin(&routes, Windows::new(), none());
        assert_eq!(before.traffic.window((1, 0)).bytes, fresh_bytes);
        assert!(before.ends_within(f64::INFINITY));
        let windows = before.traffic.into_windows();
        let kept = windows[&(1, 0)];
        assert!(kept.bytes < 0.8 * fresh_bytes, "{kept:?}");
        let again = simulation.begin(&routes, windows, none());
        assert_eq!(again.traffic.window((1, 0)), kept);
        assert_eq!(again.traffic.window((0, 1)).bytes, fresh_bytes);
    }

    #[test]
    fn first_windows_are_all_that_piles_up_where_receivers_grant() {
        let timeouts = |granted| {
            let change = |network: &mut Network| {
                set_recovery(network, |recovery| {
                    recovery.granted = granted;
                });
            };
            incast(1_000_000, change).repairs.iter().sum::<f64>()
        };
        assert!(
            timeouts(true) < 0.7 * timeouts(false),
            "{} {}",
            timeouts(true),
            timeouts(false)
        );
    }

    #[test]
    fn only_a_message_that_goes_back_acknowledges_another() {
        let with_ack = |ack_bytes: usize, bytes: usize, text: &str| {
            let mut network = switched(2);
            set_recovery(&mut network, |recovery| recovery.ack_bytes = ack_bytes);
            let task = Task::new(Collective::Bcast, 2, bytes, &network);
            usual(&network, &task, &choice(Collective::Bcast, text)).ns
        };
        let shorter = with_ack(30, 1_000, "binomial") - with_ack(0, 970, "binomial");
        assert!(shorter.abs() < 1.0, "{shorter}");
        // The receiver's word goes first, and what follows it acknowledges it.
        let rendezvous = "binomial:mode=rendezvous";
        let shorter = with_ack(0, 1_000, rendezvous) - with_ack(30, 1_000, rendezvous);
        let word = with_ack(0, 1_000, "binomial") - with_ack(0, 970, "binomial");
        assert!((shorter - word).abs() < 1.0, "{shorter} {word}");
    }

    #[test]
    fn what_varies_widens_the_interval_and_the_same_replicate_is_the_same() {
        let task = |network: &Network| Task::new(Collective::Allreduce, 8, 1000, network);
        let doubling = choice(Collective::Allreduce, "recursive_doubling");
        let predict = |network: &Network| {
            let simulation = Simulation {
                network,
                transport: &network.transports["tcp"],
                task: &task(network),
                choice: &doubling,
            };
            assert_eq!(simulation.replicate(3), simulation.replicate(3));
            simulation.predict(REPLICATES).ns
        };
        let mut network = switched(8);
        let certain = predict(&network);
        let off = Off::of(1000);
        assert!((certain.low / certain.value - off.least).abs() < 1e-9);
        assert!((certain.high / certain.value - off.most).abs() < 1e-9);
        let tcp = network.transports.get_mut("tcp").unwrap();
        tcp.noise = vec![Noise {
            bytes: 0.0,
            ratios: vec![0.9, 1.0, 1.1, 2.0],
        }];
        tcp.latencies[0].empty_ns.high *= 1.2;
        tcp.latencies[0].packet_ns.high *= 1.2;
        let varied = predict(&network);
        assert!(varied.high > 1.05 * certain.high, "{varied:?}");
        assert!(varied.low > 0.8 * certain.low);
    }

    #[test]
    fn a_trunk_that_nothing_has_filled_is_named_when_it_is_loaded_harder() {
        let mut network = switched(8);
        let mut group = crate::network::Group::new("rack", vec![0, 1, 2, 3]);
        group.out.probed_bytes_per_s = 2.0 * LINK;
        network.graph.groups = vec![group];
        let beyond = |text| {
            let simulation = Simulation {
                network: &network,
                transport: &network.transports["tcp"],
                task: &Task::new(Collective::Alltoall, 8, 1_000_000, &network),
                choice: &choice(Collective::Alltoall, text),
            };
            simulation.predict(1).beyond
        };
        assert_eq!(beyond("xor"), ["trunk out of rack"]);
    }
}
