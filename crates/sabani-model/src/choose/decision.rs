//! What is chosen, if it is surely better than what the documented rule chooses: of those that may be as fast as the best one that with the fewest
//! messages, and over connections that have to find out how much a queue holds the best one.

use sabani_collective::Choice;

use super::ranking::{Ranked, UNTOLD, replicated, survey, tried};
use crate::network::{Network, Transport};
use crate::task::Task;

/// What is not expected to take less than this part of what the rule's choice takes is not chosen: the simulation is
/// not exact enough to tell which one is faster. Smaller parts were tried on the networks that it was developed with: they
/// leave more to the rule than they save.
const WORTH: f64 = 0.97;

/// What is expected to take no more than so many times as long as the best may be as fast, and whichever of them has the fewest messages
/// is chosen: what no simulation knows comes with each of them. (In a lab of 8 hosts a `split_binary` broadcast of 256 KiB, of some 200 messages, was
/// expected to take 2 % less than a flat one of 7, and took 20 % more. With 1.1 the choice of allgathers on trees is 0.6 % off the best, and not 0.0.)
/// Not over connections that have to find out how much a queue holds: there a word of the receiver's for each message keeps ranks in step, and
/// is what makes twice as many. (All-to-alls of 64 KiB over TCP in labs of 8 and 16 hosts: `xor` without such words, expected to be as fast, took
/// 60 to 75 % more. Of other collectives nothing was measured over TCP.)
const ALIKE: f64 = 1.05;

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
/// A run of each candidate, and where that does not decide seven of the best ones, 19 over TCP: of computing for 64 ranks
/// some tenths of a second over Sabani, and up to some ten seconds over TCP.
pub fn decide(network: &Network, transport: &Transport, task: &Task) -> Decision {
    let mut ranked = survey(network, transport, task, UNTOLD);
    let expected_ns = criterion(network, transport, &ranked);
    if ranked.iter().all(|one| expected_ns(one).is_none()) {
        let tried = tried(transport);
        ranked = replicated(network, transport, task, ranked, tried, UNTOLD);
    }
    let [chosen, rule] = chosen(&ranked, Margins::of(network, transport), expected_ns);
    Decision {
        choice: chosen.choice,
        expected_ns: expected_ns(chosen).unwrap_or(chosen.usual_ns),
        rule_ns: expected_ns(rule).unwrap_or(rule.usual_ns),
    }
}

/// What [`decide`] chooses, if these are all ways, and those that are close have replicates, however many.
pub fn pick<'r>(network: &Network, transport: &Transport, ranked: &'r [Ranked]) -> &'r Ranked {
    let expected_ns = criterion(network, transport, ranked);
    chosen(ranked, Margins::of(network, transport), expected_ns)[0]
}

/// By what they are compared, if that is known of one.
type ExpectedNs = fn(&Ranked) -> Option<f64>;

const USUAL: ExpectedNs = |one| Some(one.usual_ns);
const MEAN: ExpectedNs = |one| one.tried_ns;

/// The usual run may not be all. Where the rule's choice is best when everything is as usual, it stays; what is better may be so only
/// as long as all ranks keep in step, as `pairwise` is where nothing varies. Over connections that have to find out how much a queue holds,
/// a wait that is rare and long decides.
fn criterion(network: &Network, transport: &Transport, ranked: &[Ranked]) -> ExpectedNs {
    let recovery = &transport.recovery;
    let is_enough = if recovery.learned {
        let usual_ns = ranked.iter().map(|one| one.usual_ns);
        let best_ns = usual_ns.fold(f64::INFINITY, f64::min);
        best_ns >= MANY_TIMEOUTS * recovery.timeout_ns.value
    } else {
        chosen(ranked, Margins::of(network, transport), USUAL)[0].is_rule
    };
    if is_enough { USUAL } else { MEAN }
}

/// What is chosen of those of which is known what they are compared by, and what the rule chooses.
fn chosen(ranked: &[Ranked], margins: Margins, expected_ns: ExpectedNs) -> [&Ranked; 2] {
    let rule = ranked.iter().find(|one| one.is_rule);
    let rule = rule.expect("the rule's choice is a candidate");
    let Some(rule_ns) = expected_ns(rule) else {
        return [rule; 2];
    };
    let known = ranked
        .iter()
        .filter_map(|one| Some((expected_ns(one)?, one)));
    let worthy = known.filter(|(ns, _)| *ns < margins.worth * rule_ns);
    let best_ns = worthy
        .clone()
        .fold(f64::INFINITY, |best, (ns, _)| best.min(ns));
    let alike = worthy.filter(|(ns, _)| *ns <= margins.alike * best_ns);
    let simplest = alike.min_by(|(ns, one), (other_ns, other)| {
        let messages = one.messages.total_cmp(&other.messages);
        messages.then(ns.total_cmp(other_ns))
    });
    let is_rule_alike = rule_ns <= margins.alike * best_ns;
    let better = simplest.filter(|(_, one)| !is_rule_alike || one.messages < rule.messages);
    [better.map_or(rule, |(_, one)| one), rule]
}

/// What differences are worth.
#[derive(Clone, Copy)]
struct Margins {
    /// The part of what the rule's choice takes that another one has to stay below to be chosen.
    worth: f64,
    /// What takes no more than so many times as long as the best may be as fast.
    alike: f64,
}

impl Margins {
    fn of(network: &Network, transport: &Transport) -> Self {
        Margins {
            worth: worth(network),
            alike: if transport.recovery.learned {
                1.0
            } else {
                ALIKE
            },
        }
    }
}

/// Less where two measurements of the same differed by more than that, for then nobody knows which one is faster, and nothing where they
/// can't be believed.
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
    use crate::choose::rank;
    use crate::network::{Estimate, Fit, Noise};
    use crate::simulate::{Simulation, TIMEOUTS_COME};
    use crate::testing::switched;

    const USUAL_MARGINS: Margins = Margins {
        worth: WORTH,
        alike: ALIKE,
    };

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
            messages: 1.0,
            tried_ns: None,
            prediction: None,
        };
        let all = |chain_ns| {
            [
                ranked("chain", false, chain_ns),
                ranked("binomial", true, 100.0),
            ]
        };
        let is_rule = |chain_ns, worth| {
            let margins = Margins {
                worth,
                ..USUAL_MARGINS
            };
            chosen(&all(chain_ns), margins, USUAL)[0].is_rule
        };
        assert!(is_rule(98.0, WORTH));
        assert!(!is_rule(90.0, WORTH));
        assert!(is_rule(90.0, 0.85), "measurements differ by more");
        assert!(is_rule(10.0, 0.0), "nothing can be believed");
    }

    #[test]
    fn of_those_that_may_be_as_fast_the_one_with_the_fewest_messages_is_chosen() {
        let ranked = |name: &str, usual_ns, messages| Ranked {
            choice: Choice::parse(Collective::Bcast, name).unwrap(),
            is_rule: name == "chain",
            usual_ns,
            messages,
            tried_ns: None,
            prediction: None,
        };
        let name_by = |margins, flat_ns, rule_ns| {
            let all = [
                ranked("split_binary", 96.0, 100.0),
                ranked("knomial", flat_ns, 7.0),
                ranked("scatter_allgather", flat_ns, 20.0),
                ranked("chain", rule_ns, 7.0),
            ];
            chosen(&all, margins, USUAL)[0].choice.algorithm.name
        };
        let name = |flat_ns, rule_ns| name_by(USUAL_MARGINS, flat_ns, rule_ns);
        assert_eq!(name(100.0, 150.0), "knomial");
        assert_eq!(name(102.0, 150.0), "split_binary", "not as fast");
        assert_eq!(name(102.0, 102.0), "split_binary", "nor is the rule");
        assert_eq!(name(100.0, 100.0), "chain", "the rule is, with as few");
        let network = switched(4);
        let [sabani, tcp] = ["sabani", "tcp"].map(|name| {
            let mut transport = network.transports[name].clone();
            transport.recovery.learned = name == "tcp";
            Margins::of(&network, &transport)
        });
        assert_eq!(name_by(sabani, 100.0, 150.0), "knomial");
        assert_eq!(name_by(tcp, 100.0, 150.0), "split_binary", "the fastest");
    }

    #[test]
    fn of_a_ranking_with_more_replicates_the_same_is_picked() {
        let mut network = switched(8);
        // Messages vary, so that more replicates have another mean.
        for (name, varies) in &mut network.transports {
            varies.noise = vec![Noise {
                bytes: 0.0,
                ratios: vec![0.5, 0.8, 1.0, 1.5, 4.0],
            }];
            varies.recovery.learned = name == "tcp";
        }
        let [sabani, tcp] = ["sabani", "tcp"].map(|name| &network.transports[name]);
        assert_eq!([sabani, tcp].map(tried), [7, 19]);
        let mut ties = 0;
        for collective in [
            Collective::Bcast,
            Collective::Allgather,
            Collective::Alltoall,
        ] {
            for bytes in [1 << 10, 1 << 14, 1 << 18] {
                let task = Task::new(collective, 8, bytes, &network);
                for transport in [sabani, tcp] {
                    let decided = decide(&network, transport, &task);
                    for replicates in [1, 7, 19] {
                        let ranked = rank(&network, transport, &task, replicates, UNTOLD);
                        let picked = pick(&network, transport, &ranked);
                        assert_eq!(picked.choice, decided.choice, "{collective} {bytes}");
                        ties += u32::from(picked.choice != ranked[0].choice);
                    }
                }
            }
        }
        assert!(ties > 0, "what is picked is always the first");
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
        let usual = survey(&network, &network.transports["sabani"], &task, UNTOLD);
        let [best, rule] = chosen(&usual, USUAL_MARGINS, USUAL);
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
            simulation.predict(tried(transport)).timeout_probability
        };
        let usual = survey(&network, transport, &task, UNTOLD);
        assert!(waits(&chosen(&usual, USUAL_MARGINS, USUAL)[0].choice) > 0.9 * TIMEOUTS_COME);
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
