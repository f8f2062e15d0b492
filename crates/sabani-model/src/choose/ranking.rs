//! A ranking: each candidate runs once, those that are close some times more.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering as AtomicOrdering};

use sabani_collective::Choice;

use super::{candidates, pick};
use crate::network::{Network, Transport};
use crate::parallel;
use crate::simulate::{Outcome, Prediction, REPLICATES, Simulation};
use crate::task::Task;

/// A run that takes so many times as long as the best one so far is broken off.
const HOPELESS: f64 = 2.0;
/// What is within this factor of the best one in an ordinary run gets an interval.
const CLOSE: f64 = 1.5;
/// So many get an interval at most.
const MOST_CLOSE: usize = 6;
/// After so many replicates, what took longer in each of them than the best one did, on a network that was off in the same way, gets no
/// more, unless it is what is chosen: if both took the same, that would seldom be so, and make no difference. The choice goes by as many.
const TRIED: u64 = 7;

/// How many replicates come before that, and before the choice. Over connections that have to find out how much a queue holds it is waits that decide that come in one run of
/// five, and seven may have none: an all-to-all of 32 KiB by 16 hosts took 56 % more than the best one, and 3 % with all of them.
pub(super) fn tried(transport: &Transport) -> u64 {
    match transport.recovery.learned {
        true => REPLICATES,
        false => TRIED,
    }
}

/// How a candidate does.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// The algorithm and its parameters.
    pub choice: Choice,
    /// Whether the documented rule chooses it.
    pub is_rule: bool,
    /// What it takes as usual; at least, if it was given up.
    pub usual_ns: f64,
    /// Messages that all ranks send; infinite if it takes as long as those that were given up.
    pub messages: f64,
    /// The mean of its first replicates, as many as the choice goes by, however many it has in the end, if it is among the best.
    pub tried_ns: Option<f64>,
    /// What it takes with all that varies, if it is among the best.
    pub prediction: Option<Prediction>,
}

/// What a ranking is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// An ordinary run of each candidate.
    Survey,
    /// First replicates of those that are close.
    Tried,
    /// More replicates of those that are not surely slower.
    Replicates,
}

/// Is told after each run which part it belongs to, how many of that are done, and of how many.
pub type Told<'t> = &'t (dyn Fn(Part, usize, usize) + Sync);

/// Tells nobody.
pub(super) const UNTOLD: Told = &|_, _, _| {};

/// Ranks all ways to do a task, the best first. Those that are close get an interval from so many
/// replicates, and so does what the rule chooses.
pub fn rank(
    network: &Network,
    transport: &Transport,
    task: &Task,
    replicates: u64,
    told: Told,
) -> Vec<Ranked> {
    let ranked = survey(network, transport, task, told);
    replicated(network, transport, task, ranked, replicates, told)
}

/// The same, in which those that are close, and the rule's choice, have so many replicates.
pub(super) fn replicated(
    network: &Network,
    transport: &Transport,
    task: &Task,
    mut ranked: Vec<Ranked>,
    replicates: u64,
    told: Told,
) -> Vec<Ranked> {
    let surveyed = ranked.clone();
    let mut runners = runners(network, transport, task, &surveyed);
    let tried = tried(transport);
    replicate(&mut runners, 0..tried, &|done, of| {
        told(Part::Tried, done, of)
    });
    for runner in &runners {
        ranked[runner.place].tried_ns = Some(runner.mean_ns());
    }
    let picked = &pick(network, transport, &ranked).choice;
    go_on(
        &mut runners,
        picked,
        tried..replicates.max(1),
        &|done, of| told(Part::Replicates, done, of),
    );
    for runner in &runners {
        ranked[runner.place].prediction = Some(runner.simulation.prediction(&runner.outcomes));
    }
    ranked.sort_by(by_prediction);
    ranked
}

/// Somebody with replicates.
struct Runner<'s> {
    /// Where it is in the survey.
    place: usize,
    is_rule: bool,
    simulation: Simulation<'s>,
    outcomes: Vec<Outcome>,
}

impl Runner<'_> {
    /// The time that it took in the middle.
    fn median_ns(&self) -> f64 {
        let mut times: Vec<_> = self.outcomes.iter().map(|outcome| outcome.ns).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }

    fn mean_ns(&self) -> f64 {
        let times = self.outcomes.iter().map(|outcome| outcome.ns);
        times.sum::<f64>() / self.outcomes.len() as f64
    }

    /// Whether it took longer each time.
    fn is_slower(&self, best: &[f64]) -> bool {
        let mut times = self.outcomes.iter().zip(best);
        times.all(|(outcome, best)| outcome.ns > *best)
    }
}

/// Those that are close, and the rule's choice.
fn runners<'s>(
    network: &'s Network,
    transport: &'s Transport,
    task: &'s Task,
    ranked: &'s [Ranked],
) -> Vec<Runner<'s>> {
    close(ranked)
        .map(|(place, one)| Runner {
            place,
            is_rule: one.is_rule,
            simulation: Simulation {
                network,
                transport,
                task,
                choice: &one.choice,
            },
            outcomes: Vec::new(),
        })
        .collect()
}

/// Those that were tried have these replicates as well, but those that are surely slower and not picked.
fn go_on(
    runners: &mut Vec<Runner>,
    picked: &Choice,
    more: Range<u64>,
    done: &(dyn Fn(usize, usize) + Sync),
) {
    if !more.is_empty() {
        let best = times_of_best_ns(runners);
        let is_picked = |runner: &Runner| runner.simulation.choice == picked;
        runners.retain(|runner| runner.is_rule || is_picked(runner) || !runner.is_slower(&best));
        replicate(runners, more, done);
    } else {
        for runner in runners {
            runner.outcomes.truncate(more.end as usize);
        }
    }
}

/// What the one that is best in the middle took, in the order of replicates.
fn times_of_best_ns(runners: &[Runner]) -> Vec<f64> {
    let best = runners
        .iter()
        .min_by(|one, other| one.median_ns().total_cmp(&other.median_ns()));
    let times = best.map(|best| best.outcomes.iter().map(|outcome| outcome.ns));
    times.into_iter().flatten().collect()
}

/// Those within reach of the best one, and the rule's choice, with their places in the survey.
fn close(ranked: &[Ranked]) -> impl Iterator<Item = (usize, &Ranked)> {
    let best_ns = ranked.first().map_or(0.0, |best| best.usual_ns);
    let (mut count, mut last_ns) = (0, None);
    ranked.iter().enumerate().filter(move |(_, one)| {
        // What takes just as long does the same under another name, or with a parameter that changes nothing here.
        let is_same = last_ns.replace(one.usual_ns) == Some(one.usual_ns);
        let is_close = count < MOST_CLOSE && one.usual_ns <= CLOSE * best_ns && !is_same;
        count += usize::from(is_close || one.is_rule);
        is_close || one.is_rule
    })
}

/// Does some work for each item, side by side, and tells after each how many of them are done.
fn counted<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    told: impl Fn(usize, usize) + Sync,
) -> Vec<R> {
    let done = AtomicUsize::new(0);
    parallel::map(items, |item| {
        let result = work(item);
        told(done.fetch_add(1, AtomicOrdering::Relaxed) + 1, items.len());
        result
    })
}

/// Gives each of them these replicates.
fn replicate(runners: &mut [Runner], numbers: Range<u64>, told: &(dyn Fn(usize, usize) + Sync)) {
    let places = 0..runners.len();
    let runs: Vec<_> = numbers
        .flat_map(|number| places.clone().map(move |runner| (runner, number)))
        .collect();
    let simulations: Vec<_> = runners.iter().map(|runner| runner.simulation).collect();
    let run = |&(runner, number): &(usize, u64)| simulations[runner].replicate(number);
    let outcomes = counted(&runs, run, told);
    for ((runner, _), outcome) in runs.into_iter().zip(outcomes) {
        runners[runner].outcomes.push(outcome);
    }
}

/// Those with an interval come first.
fn by_prediction(one: &Ranked, other: &Ranked) -> Ordering {
    let key = |ranked: &Ranked| match &ranked.prediction {
        Some(prediction) => prediction.ns.value,
        None => ranked.usual_ns,
    };
    let is_without = |ranked: &Ranked| ranked.prediction.is_none();
    is_without(one)
        .cmp(&is_without(other))
        .then(key(one).total_cmp(&key(other)))
}

/// One ordinary run of each candidate, those that are hopeless given up early.
pub(super) fn survey(
    network: &Network,
    transport: &Transport,
    task: &Task,
    told: Told,
) -> Vec<Ranked> {
    // Times are positive, so their bits are ordered as they are.
    let best_bits = AtomicU64::new(f64::INFINITY.to_bits());
    let best_ns = || f64::from_bits(best_bits.load(AtomicOrdering::Relaxed));
    let run = |choice: &Choice| {
        let simulation = Simulation {
            network,
            transport,
            task,
            choice,
        };
        let outcome = simulation.usual(HOPELESS * best_ns());
        let unknown = [f64::INFINITY; 2];
        let [usual_ns, messages] =
            outcome.map_or(unknown, |outcome| [outcome.ns, outcome.messages]);
        best_bits.fetch_min(usual_ns.to_bits(), AtomicOrdering::Relaxed);
        [usual_ns, messages]
    };
    let candidates = candidates(task);
    let times = counted(&candidates, run, |done, of| told(Part::Survey, done, of));
    // Which ones were given up depends on who was faster here; what is told of them does not.
    let limit_ns = HOPELESS * best_ns();
    let timed = candidates.into_iter().zip(times).enumerate();
    let mut ranked: Vec<_> = timed
        .map(|(place, (choice, [usual_ns, messages]))| Ranked {
            choice,
            is_rule: place == 0,
            usual_ns: usual_ns.min(limit_ns),
            tried_ns: None,
            messages: match usual_ns > limit_ns {
                true => f64::INFINITY,
                false => messages,
            },
            prediction: None,
        })
        .collect();
    // The sort is stable: of equals, the rule's choice wins.
    ranked.sort_by(|one, other| one.usual_ns.total_cmp(&other.usual_ns));
    ranked
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use sabani_collective::Collective;

    use super::*;
    use crate::network::Estimate;
    use crate::testing::switched;

    fn best(network: &Network, collective: Collective, ranks: usize, bytes: usize) -> String {
        let task = Task::new(collective, ranks, bytes, network);
        let ranked = rank(network, &network.transports["tcp"], &task, 3, UNTOLD);
        assert_eq!(ranked.iter().filter(|one| one.is_rule).count(), 1);
        ranked[0].choice.algorithm.name.to_owned()
    }

    #[test]
    fn each_run_of_a_part_is_told_and_the_last_one_ends_it() {
        let network = switched(4);
        let task = Task::new(Collective::Alltoall, 4, 10_000, &network);
        let told = Mutex::new(Vec::new());
        let tell: Told = &|part, done, of| told.lock().unwrap().push((part, done, of));
        rank(&network, &network.transports["tcp"], &task, 30, tell);
        let told = told.into_inner().unwrap();
        for part in [Part::Survey, Part::Tried, Part::Replicates] {
            let of_it = told.iter().filter(|(one, _, _)| *one == part);
            let mut counts: Vec<_> = of_it.map(|(_, done, of)| (*done, *of)).collect();
            counts.sort_unstable();
            let all = counts.len();
            let expected: Vec<_> = (1..=all).map(|done| (done, all)).collect();
            assert_eq!(counts, expected, "{part:?}");
            assert!(all > 1, "{part:?}");
        }
    }

    #[test]
    fn what_is_surely_slower_gets_no_interval() {
        let network = switched(16);
        let task = Task::new(Collective::Alltoall, 16, 10_000, &network);
        let predicted = |replicates| {
            let transport = &network.transports["tcp"];
            let ranked = rank(&network, transport, &task, replicates, UNTOLD);
            let with = ranked.into_iter().filter(|one| one.prediction.is_some());
            with.collect::<Vec<_>>()
        };
        // Nothing varies here: each of them takes the same every time.
        let (few, many) = (predicted(TRIED), predicted(TRIED + 1));
        assert!(many.len() < few.len(), "{many:?}");
        assert_eq!(many[0].choice, few[0].choice);
        let best_ns = many[0].usual_ns;
        assert!(
            many.iter()
                .all(|one| one.is_rule || one.usual_ns <= best_ns * (1.0 + 1e-9))
        );
        assert!(many.iter().any(|one| one.is_rule));
    }

    #[test]
    fn what_is_chosen_goes_on_though_another_is_surely_faster() {
        let network = switched(16);
        let transport = &network.transports["tcp"];
        let task = Task::new(Collective::Alltoall, 16, 10_000, &network);
        let ranked = survey(&network, transport, &task, UNTOLD);
        let remain = |picked: &Choice| -> Vec<usize> {
            let mut runners = runners(&network, transport, &task, &ranked);
            replicate(&mut runners, 0..TRIED, &|_, _| {});
            go_on(&mut runners, picked, TRIED..TRIED + 1, &|_, _| {});
            runners.iter().map(|runner| runner.place).collect()
        };
        let others = close(&ranked).filter(|(_, one)| !one.is_rule);
        let (slowest, one) = others.last().unwrap();
        assert!(!remain(&ranked[0].choice).contains(&slowest), "{ranked:?}");
        assert!(remain(&one.choice).contains(&slowest), "{ranked:?}");
    }

    #[test]
    fn short_and_long_messages_have_the_winners_that_they_should_have() {
        let network = switched(64);
        assert_eq!(best(&network, Collective::Alltoall, 64, 1), "bruck");
        assert_ne!(best(&network, Collective::Alltoall, 16, 1 << 20), "bruck");
        let long = best(&network, Collective::Bcast, 16, 8 << 20);
        assert!(
            [
                "chain",
                "split_binary",
                "scatter_allgather",
                "by_host_chain"
            ]
            .contains(&&long[..]),
            "{long}"
        );
        let short = best(&network, Collective::Bcast, 16, 8);
        assert!(
            ["binomial", "knomial", "by_host"].contains(&&short[..]),
            "{short}"
        );
        let long = best(&network, Collective::Allreduce, 16, 16 << 20);
        assert!(long == "ring" || long.ends_with("rabenseifner"), "{long}");
    }

    #[test]
    fn shallow_queues_and_long_timeouts_speak_against_sending_all_at_once() {
        let mut network = switched(16);
        for host in &mut network.graph.hosts {
            host.into.queue_bytes = Some(Estimate::exact(40_000.0));
        }
        let tcp = network.transports.get_mut("tcp").unwrap();
        tcp.recovery.probe_ns = None;
        let transport = &network.transports["tcp"];
        let task = Task::new(Collective::Gather, 16, 60_000, &network);
        let ranked = rank(&network, transport, &task, 5, UNTOLD);
        let prediction = |one: &Ranked| one.prediction.clone().unwrap();
        assert_eq!(
            prediction(&ranked[0]).timeout_probability,
            0.0,
            "{ranked:?}"
        );
        let all_at_once = Choice::parse(Collective::Gather, "linear:window=16").unwrap();
        let simulation = Simulation {
            network: &network,
            transport,
            task: &task,
            choice: &all_at_once,
        };
        assert!(simulation.predict(5).timeout_probability > 0.5);
    }
}
