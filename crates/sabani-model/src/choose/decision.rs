//! What is chosen: the best that is expected, if it is surely better than what the documented rule chooses.

use sabani_collective::Choice;

use super::ranking::{Ranked, TRIED, replicated, survey};
use crate::network::{Network, Transport};
use crate::task::Task;

/// What is not expected to take less than this part of what the rule's choice takes is not chosen: the simulation is
/// not exact enough to tell which one is faster. Smaller parts were tried on the networks that it was developed with: they
/// leave more to the rule than they save.
const WORTH: f64 = 0.97;

/// What is chosen for a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The algorithm and its parameters.
    pub choice: Choice,
    /// What it is expected to take.
    pub expected_ns: f64,
    /// What the documented rule's choice is expected to take; at least, if it was hopeless.
    pub rule_ns: f64,
}

/// Where everything takes at least so many times as long as a timeout, whether one more comes makes no difference.
const MANY_TIMEOUTS: f64 = 10.0;

/// Chooses among all ways to do a task: by a run in which everything is as usual, and where that may not be all, of those that
/// are close then by the mean of some replicates.
///
/// # Cost
/// A run of each candidate, and where that does not decide seven of the best ones: of computing for 64 ranks
/// some tenths of a second over Sabani, and up to some ten seconds over TCP.
pub fn decide(network: &Network, transport: &Transport, task: &Task) -> Decision {
    let worth = worth(network);
    let mut ranked = survey(network, transport, task);
    if needs_replicates(transport, &ranked, worth) {
        ranked = replicated(network, transport, task, ranked, TRIED);
    }
    let [chosen, rule] = chosen(&ranked, worth);
    Decision {
        choice: chosen.choice,
        expected_ns: mean_ns(chosen),
        rule_ns: mean_ns(rule),
    }
}

/// Whether the usual run may not be all. Where the rule's choice is best when everything is as usual, it stays; what is better may be so only
/// as long as all ranks keep in step, as `pairwise` is where nothing varies. Over connections that have to find out how much a queue holds,
/// a wait that is rare and long decides.
fn needs_replicates(transport: &Transport, ranked: &[Ranked], worth: f64) -> bool {
    let recovery = &transport.recovery;
    if recovery.learned {
        let best_ns = ranked.first().map_or(0.0, |best| best.usual_ns);
        best_ns < MANY_TIMEOUTS * recovery.timeout_ns.value
    } else {
        !chosen(ranked, worth)[0].is_rule
    }
}

/// What is chosen of these, and what the rule chooses. Where the rule's choice has replicates, what has none was not close.
fn chosen(ranked: &[Ranked], worth: f64) -> [&Ranked; 2] {
    let rule = ranked.iter().find(|one| one.is_rule);
    let rule = rule.expect("the rule's choice is a candidate");
    let comparable = ranked
        .iter()
        .filter(|one| one.prediction.is_some() == rule.prediction.is_some());
    let best = comparable.min_by(|one, other| mean_ns(one).total_cmp(&mean_ns(other)));
    let is_worth = |one: &&Ranked| mean_ns(one) < worth * mean_ns(rule);
    [best.filter(is_worth).unwrap_or(rule), rule]
}

/// Of its replicates, if there are any; else what is usual.
fn mean_ns(ranked: &Ranked) -> f64 {
    let predicted = ranked.prediction.as_ref();
    predicted.map_or(ranked.usual_ns, |prediction| prediction.mean_ns)
}

/// The part of what the rule's choice takes that another one has to stay below to be chosen: less where two measurements of the
/// same differed by more than that, for then nobody knows which one is faster, and nothing where they can't be believed.
fn worth(network: &Network) -> f64 {
    match network.graph.fit {
        Some(fit) if !fit.is_steady() => 0.0,
        Some(fit) => WORTH.min((-fit.noise).exp()),
        None => WORTH,
    }
}

#[cfg(test)]
mod tests {
    use sabani_collective::Collective;

    use super::*;
    use crate::network::{Estimate, Fit, Noise};
    use crate::simulate::Simulation;
    use crate::testing::switched;

    #[test]
    fn what_differs_by_less_than_two_measurements_do_is_left_to_the_rule() {
        let mut network = switched(4);
        let mut with_noise = |noise| {
            network.graph.fit = Some(Fit {
                noise,
                ..Fit::default()
            });
            worth(&network)
        };
        assert_eq!(with_noise(0.01), WORTH);
        assert!((with_noise(0.15) - 0.861).abs() < 0.001);
        assert_eq!(with_noise(0.4), 0.0, "nothing can be believed");
    }

    #[test]
    fn what_is_hardly_faster_does_not_replace_the_rules_choice() {
        let ranked = |name: &str, is_rule, usual_ns| Ranked {
            choice: Choice::parse(Collective::Bcast, name).unwrap(),
            is_rule,
            usual_ns,
            prediction: None,
        };
        let all = |chain_ns| {
            [
                ranked("chain", false, chain_ns),
                ranked("binomial", true, 100.0),
            ]
        };
        let is_rule = |chain_ns, worth| chosen(&all(chain_ns), worth)[0].is_rule;
        assert!(is_rule(98.0, WORTH));
        assert!(!is_rule(90.0, WORTH));
        assert!(is_rule(90.0, 0.85), "measurements differ by more");
        assert!(is_rule(10.0, 0.0), "nothing can be believed");
    }

    #[test]
    fn what_is_best_only_if_nobody_is_late_does_not_replace_the_rules_choice() {
        let mut network = switched(16);
        let task = Task::new(Collective::Gather, 16, 64, &network);
        // Of a tree each level waits for the last of those below it.
        let is_tree = |choice: Choice| choice.algorithm.name == "binomial";
        let decided = |network: &Network| decide(network, &network.transports["sabani"], &task);
        assert!(is_tree(decided(&network).choice), "nothing varies");
        let sabani = network.transports.get_mut("sabani").unwrap();
        sabani.noise = vec![Noise {
            bytes: 0.0,
            ratios: vec![0.8, 1.0, 1.0, 1.1, 6.0],
        }];
        let usual = survey(&network, &network.transports["sabani"], &task);
        let [best, rule] = chosen(&usual, WORTH);
        assert!(is_tree(best.choice) && !is_tree(rule.choice), "{usual:?}");
        assert_eq!(decided(&network).choice, rule.choice);
    }

    #[test]
    fn waits_that_are_not_usual_decide_where_connections_learn() {
        let mut network = switched(16);
        for host in &mut network.graph.hosts {
            host.into.queue_bytes = Some(Estimate::exact(20e3));
        }
        let tcp = network.transports.get_mut("tcp").unwrap();
        (tcp.recovery.learned, tcp.recovery.probe_ns) = (true, None);
        let transport = &network.transports["tcp"];
        let task = Task::new(Collective::Gather, 16, 2 << 10, &network);
        let waits = |choice| {
            let simulation = Simulation {
                network: &network,
                transport,
                task: &task,
                choice,
            };
            simulation.predict(TRIED).timeout_probability
        };
        let usual = survey(&network, transport, &task);
        assert!(waits(&chosen(&usual, WORTH)[0].choice) > 0.9);
        assert_eq!(waits(&decide(&network, transport, &task).choice), 0.0);
        // Whatever is best, nobody leaves the rule by a measurement that can't be believed.
        network.graph.fit = Some(Fit {
            noise: 0.4,
            ..Fit::default()
        });
        let decided = decide(&network, &network.transports["tcp"], &task);
        assert_eq!(
            decided.choice,
            usual.iter().find(|one| one.is_rule).unwrap().choice
        );
    }
}
