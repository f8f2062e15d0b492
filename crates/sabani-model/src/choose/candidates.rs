//! Which algorithms, with which parameters, are worth looking at.

use sabani_collective::{Choice, Mode, Parameters, Step, choose};

use crate::task::Task;

const RADICES: [usize; 3] = [2, 4, 8];
const SEGMENTS: [usize; 5] = [8 << 10, 32 << 10, 64 << 10, 128 << 10, 512 << 10];
const WINDOWS: [usize; 5] = [1, 2, 4, 8, 16];

/// How the names of algorithms begin that treat the ranks of a host apart.
const BY_HOST: &str = "by_host";

/// All ways to do a task that differ from each other; what the documented rule chooses comes first.
pub fn candidates(task: &Task) -> Vec<Choice> {
    let rule = rule(task);
    let mut found: Vec<(Choice, Sample)> = vec![(rule, Sample::new(task, &rule))];
    // Where each rank has a host of its own, what is done by host is what others do without.
    let all_alone = task.hosts().len() == task.ranks;
    let algorithms = task.collective.algorithms();
    for algorithm in algorithms.filter(|one| !(all_alone && one.name.starts_with(BY_HOST))) {
        for parameters in parameters(task) {
            let choice = Choice {
                algorithm,
                parameters: algorithm.own(parameters),
            };
            if !algorithm.schedule.fits(&task.context(parameters)) {
                continue;
            }
            let sample = Sample::new(task, &choice);
            let known = |(other, known): &(Choice, Sample)| {
                other.algorithm.id() == algorithm.id() && *known == sample
            };
            if !found.iter().any(known) {
                found.push((choice, sample));
            }
        }
    }
    found.into_iter().map(|(choice, _)| choice).collect()
}

/// What is chosen where nothing is known of the network.
pub fn rule(task: &Task) -> Choice {
    choose(task.collective, &task.context(Parameters::default()))
}

/// Parameters that may make a difference: one at a time, and windows with either mode.
fn parameters(task: &Task) -> Vec<Parameters> {
    let default = Parameters::default();
    let mut all = vec![default];
    all.extend(RADICES.map(|radix| Parameters { radix, ..default }));
    let windows = [others(task)].into_iter().chain(WINDOWS);
    all.extend(windows.map(|window| Parameters { window, ..default }));
    all.extend(SEGMENTS.map(|segment_bytes| Parameters {
        segment_bytes,
        window: 8,
        ..default
    }));
    let eager = all.clone().into_iter();
    let rendezvous = eager.filter(|parameters| parameters.segment_bytes == default.segment_bytes);
    all.extend(rendezvous.map(|parameters| Parameters {
        mode: Mode::Rendezvous,
        ..parameters
    }));
    all
}

fn others(task: &Task) -> usize {
    task.ranks.max(2) - 1
}

/// Some of a schedule's rounds, by which schedules are told apart: a parameter that an algorithm does not
/// use changes none.
#[derive(PartialEq)]
struct Sample {
    rounds: usize,
    steps: Vec<Step>,
}

impl Sample {
    fn new(task: &Task, choice: &Choice) -> Self {
        let mut parameters = choice.parameters;
        if choice.algorithm.parameters() == ["window"] {
            // Its rounds are one for each of the others: no more can be under way.
            parameters.window = parameters.window.min(others(task));
        }
        let cx = task.context(parameters);
        let schedule = choice.algorithm.schedule;
        let rounds = schedule.rounds(&cx);
        let last = task.ranks - 1;
        let ranks = [0, 1, task.ranks / 2, last].map(|rank| rank.min(last));
        // From the front, where short schedules differ, and all over a long one.
        let spread = (0..24).map(|sample| sample * rounds / 24);
        let places: Vec<_> = (0..rounds.min(24)).chain(spread).collect();
        let steps = places.iter().flat_map(|&k| {
            ranks
                .into_iter()
                .flat_map(move |rank| schedule.round(&cx, rank, k).to_vec())
                .map(move |step| waiting_for_rounds(step, k))
        });
        Sample {
            rounds,
            steps: if rounds == 0 {
                Vec::new()
            } else {
                steps.collect()
            },
        }
    }
}

/// The same step of this round, which waits for no round before the first one: windows that no schedule fills make no difference.
fn waiting_for_rounds(mut step: Step, round: usize) -> Step {
    if step.after.back as usize > round {
        step.after.back = 0;
    }
    step
}

#[cfg(test)]
mod tests {
    use sabani_collective::Collective;

    use super::*;
    use crate::testing::switched;

    fn names(collective: Collective, ranks: usize, bytes: usize) -> Vec<String> {
        let task = Task::new(collective, ranks, bytes, &switched(ranks));
        candidates(&task).iter().map(Choice::to_string).collect()
    }

    #[test]
    fn parameters_that_change_nothing_make_no_candidates() {
        let barrier = names(Collective::Barrier, 8, 0);
        let mode = |name: &str| [name.to_owned(), format!("{name}:mode=rendezvous")];
        assert_eq!(barrier, mode("dissemination"));
        let bcast = names(Collective::Bcast, 8, 100);
        let knomial = bcast.iter().filter(|name| name.starts_with("knomial"));
        let binomial = bcast.iter().filter(|name| name.starts_with("binomial"));
        // Radix 2, 4 and 8, and either mode.
        assert_eq!((knomial.count(), binomial.count()), (6, 2));
    }

    #[test]
    fn ranks_that_share_hosts_have_algorithms_by_host() {
        let task = Task::new(Collective::Barrier, 8, 0, &switched(4));
        let all = candidates(&task);
        assert!(all.iter().any(|choice| choice.algorithm.name == BY_HOST));
    }

    #[test]
    fn windows_that_nothing_fills_make_no_candidates() {
        let alltoall = names(Collective::Alltoall, 8, 1000);
        assert!(alltoall.contains(&"windowed:window=7".to_owned()));
        for more in ["windowed:window=8", "windowed:window=16"] {
            assert!(!alltoall.contains(&more.to_owned()), "{alltoall:?}");
        }
        // Of one segment, no window keeps anything back; of eight, those of up to seven do.
        let chains = |bytes: usize| {
            let all = names(Collective::Bcast, 8, bytes);
            let of_64_kib = all
                .iter()
                .filter(|name| name.starts_with("chain") && !name.contains("segment"));
            of_64_kib.cloned().collect::<Vec<_>>()
        };
        assert_eq!(chains(1000), ["chain", "chain:mode=rendezvous"]);
        let of_eight = chains(8 * 65_536);
        let has = |name: &str| of_eight.contains(&name.to_owned());
        assert!(
            has("chain:window=1") && has("chain:window=2"),
            "{of_eight:?}"
        );
        assert!(!has("chain:window=16"), "{of_eight:?}");
    }

    #[test]
    fn the_papers_algorithms_are_among_them() {
        let alltoall = names(Collective::Alltoall, 64, 1000);
        for name in [
            "windowed:window=63",
            "windowed:window=1:mode=rendezvous",
            "bruck",
        ] {
            assert!(alltoall.contains(&name.to_owned()), "{alltoall:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let ring = |commutative| {
            let network = switched(6);
            let mut task = Task::new(Collective::Allreduce, 6, 1000, &network);
            task.commutative = commutative;
            let all = candidates(&task);
            all.iter().any(|choice| choice.algorithm.name == "ring")
        };
        assert!(ring(true));
        assert!(!ring(false));
    }
}
