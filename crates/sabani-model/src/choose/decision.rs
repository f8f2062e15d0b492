//! What is chosen: the best that is expected, if it is surely better than what the documented rule chooses.

use sabani_collective::Choice;

use super::ranking::{Ranked, TRIED, rank, survey};
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

/// Chooses among all ways to do a task: by a run in which everything is as usual; over connections that have to find out how much a queue
/// holds by the mean of some replicates, for a wait that is rare and long decides there.
///
/// # Cost
/// A run of each candidate, and some of the best ones: a second of computing for 64 ranks at most.
pub fn decide(network: &Network, transport: &Transport, task: &Task) -> Decision {
    let ranked = match transport.recovery.learned {
        true => rank(network, transport, task, TRIED),
        false => survey(network, transport, task),
    };
    let rule = ranked.iter().find(|one| one.is_rule);
    let rule = rule.expect("the rule's choice is a candidate");
    // What has no replicates where the rule's choice has some was left behind before.
    let comparable = ranked
        .iter()
        .filter(|one| one.prediction.is_some() == rule.prediction.is_some());
    let best = comparable.min_by(|one, other| mean_ns(one).total_cmp(&mean_ns(other)));
    let is_worth = |one: &&Ranked| mean_ns(one) < worth(network) * mean_ns(rule);
    let chosen = best.filter(is_worth).unwrap_or(rule);
    Decision {
        choice: chosen.choice,
        expected_ns: mean_ns(chosen),
        rule_ns: mean_ns(rule),
    }
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
    use crate::network::{Estimate, Fit};
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
    fn waits_that_are_not_usual_decide_where_connections_learn() {
        let mut network = switched(16);
        for host in &mut network.graph.hosts {
            host.into.queue_bytes = Some(Estimate::exact(20e3));
        }
        let task = Task::new(Collective::Gather, 16, 2 << 10, &network);
        let mut waits = |learned| {
            let tcp = network.transports.get_mut("tcp").unwrap();
            (tcp.recovery.learned, tcp.recovery.probe_ns) = (learned, None);
            let transport = &network.transports["tcp"];
            let decided = decide(&network, transport, &task);
            assert!(decided.expected_ns <= decided.rule_ns);
            let simulation = Simulation {
                network: &network,
                transport,
                task: &task,
                choice: &decided.choice,
            };
            simulation.predict(TRIED).timeout_probability
        };
        assert!(
            waits(false) > 0.9,
            "what overflows is more than the usual run loses"
        );
        assert_eq!(waits(true), 0.0);
    }
}
