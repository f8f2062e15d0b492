//! The smallest plan that still fails: parts are left out, and numbers made smaller, as long as
//! the same rule is broken.

use super::{Hosts, Medium, Plan, ProgramSettings, Settings, Shape, Traffic};
use crate::checker::Rule;
use crate::{Rate, Size, Time};

/// What came of shrinking.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smallest plan found that still breaks the rule.
    pub plan: Plan,
    /// Plans that were run for it.
    pub runs: u32,
}

/// The rule that a plan breaks first, if it breaks one.
fn broken_by(plan: &Plan) -> Option<Rule> {
    let failure = plan.run().failure?;
    failure.violations.first().map(|violation| violation.rule)
}

/// Makes a plan that breaks `rule` smaller, with at most `most_runs` runs, or until `is_enough`.
pub fn shrink(plan: &Plan, rule: Rule, most_runs: u32, is_enough: impl Fn() -> bool) -> Shrunk {
    let mut best = plan.clone();
    let mut runs = 0;
    let mut may_run = || {
        let may = runs < most_runs && !is_enough();
        runs += u32::from(may);
        may
    };
    loop {
        // Somebody will want to run what is found, and it must not fail for a reason of its own.
        let mut smaller = candidates(&best)
            .into_iter()
            .filter(|candidate| candidate.expect_sound().is_ok());
        match smaller.find(|candidate| may_run() && broken_by(candidate) == Some(rule)) {
            Some(plan) => best = plan,
            None => return Shrunk { plan: best, runs },
        }
    }
}

/// Plans that are a little smaller than this one, the boldest first.
fn candidates(plan: &Plan) -> Vec<Plan> {
    let mut all = Vec::new();
    drop_parts(plan, |plan| &mut plan.traffic, &mut all);
    drop_parts(plan, |plan| &mut plan.mishaps, &mut all);
    drop_parts(plan, |plan| &mut plan.faults, &mut all);
    drop_parts(plan, |plan| &mut plan.paths, &mut all);
    drop_parts(plan, |plan| &mut plan.programs, &mut all);
    drop_parts(plan, |plan| &mut plan.tcp, &mut all);
    if !plan.settings.is_default() {
        all.push(Plan {
            settings: Settings::default(),
            ..plan.clone()
        });
    }
    let settings = plan.settings.without_one().into_iter();
    all.extend(settings.map(|settings| Plan {
        settings,
        ..plan.clone()
    }));
    for (index, fault) in plan.faults.iter().enumerate() {
        for part in fault.without_one() {
            let mut smaller = plan.clone();
            smaller.faults[index] = part;
            all.push(smaller);
        }
    }
    for (index, stream) in plan.traffic.iter().enumerate() {
        for part in smaller_streams(stream) {
            let mut smaller = plan.clone();
            smaller.traffic[index] = part;
            all.push(smaller);
        }
    }
    for (index, program) in plan.programs.iter().enumerate() {
        for part in simpler_programs(program) {
            let mut smaller = plan.clone();
            smaller.programs[index] = part;
            all.push(smaller);
        }
    }
    all.extend(simpler_networks(plan));
    all.extend(fewer_hosts(plan));
    all
}

/// Leaves out half of a list, a quarter, … a single part.
fn drop_parts<T: Clone>(plan: &Plan, list: impl Fn(&mut Plan) -> &mut Vec<T>, all: &mut Vec<Plan>) {
    let len = list(&mut plan.clone()).len();
    let mut chunk = len;
    while chunk > 0 {
        for first in (0..len).step_by(chunk) {
            let mut smaller = plan.clone();
            list(&mut smaller).drain(first..(first + chunk).min(len));
            all.push(smaller);
        }
        chunk /= 2;
    }
}

fn smaller_streams(stream: &Traffic) -> Vec<Traffic> {
    let halved = |count: u32| if count > 1 { count / 2 } else { count };
    let changed = [
        Traffic {
            rounds: 1,
            every: None,
            ..stream.clone()
        },
        Traffic {
            rounds: halved(stream.rounds),
            ..stream.clone()
        },
        Traffic {
            pause: Time(0),
            ..stream.clone()
        },
        Traffic {
            messages: 1,
            ..stream.clone()
        },
        Traffic {
            messages: halved(stream.messages),
            ..stream.clone()
        },
        Traffic {
            bytes: Size(0),
            ..stream.clone()
        },
        Traffic {
            bytes: Size(stream.bytes.0 / 2),
            ..stream.clone()
        },
        Traffic {
            at: Time(0),
            ..stream.clone()
        },
        Traffic {
            from: first(&stream.from),
            ..stream.clone()
        },
        Traffic {
            to: first(&stream.to),
            ..stream.clone()
        },
        Traffic {
            from: Hosts::one(0),
            to: Hosts::one(1),
            ..stream.clone()
        },
        Traffic {
            tracked: false,
            ..stream.clone()
        },
        Traffic {
            within: None,
            once: false,
            ..stream.clone()
        },
        Traffic {
            class: 0,
            ..stream.clone()
        },
    ];
    changed.into_iter().filter(|part| part != stream).collect()
}

fn simpler_programs(program: &ProgramSettings) -> Vec<ProgramSettings> {
    let changed = [
        ProgramSettings {
            by_sender: false,
            by_class_bits: 0,
            ..program.clone()
        },
        ProgramSettings {
            nap: Time(0),
            ..program.clone()
        },
        ProgramSettings {
            withdraws_every: 0,
            ..program.clone()
        },
        ProgramSettings {
            discards_every: 0,
            ..program.clone()
        },
        ProgramSettings {
            call_cost: Time(0),
            packet_cost: None,
            byte_rate: Rate(0),
            batch: None,
            ..program.clone()
        },
        ProgramSettings {
            wake: None,
            ..program.clone()
        },
        ProgramSettings {
            stalls: None,
            ..program.clone()
        },
        ProgramSettings {
            fair_queue: false,
            ..program.clone()
        },
        ProgramSettings {
            drift_ppm: 0,
            ..program.clone()
        },
    ];
    changed.into_iter().filter(|part| part != program).collect()
}

/// The first one of several hosts.
fn first(hosts: &Hosts) -> Hosts {
    match hosts {
        Hosts::All => Hosts::one(0),
        Hosts::Range(range) => Hosts::one(*range.start()),
    }
}

fn simpler_networks(plan: &Plan) -> Vec<Plan> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Plan)| {
        let mut simpler = plan.clone();
        change(&mut simpler);
        if simpler != *plan {
            all.push(simpler);
        }
    };
    with(&|plan| plan.network = Default::default());
    // A mesh has no switch.
    with(&|plan| {
        plan.network = Medium {
            shape: Shape::Mesh,
            buffer: None,
            alpha: None,
            pause_above: None,
            mark_above: None,
            ..plan.network.clone()
        }
    });
    with(&|plan| plan.network.queue = None);
    with(&|plan| plan.network.buffer = None);
    with(&|plan| plan.network.alpha = None);
    with(&|plan| plan.network.pause_above = None);
    with(&|plan| plan.network.mark_above = None);
    all
}

/// One host less, if nobody speaks of the last one by its number.
fn fewer_hosts(plan: &Plan) -> Option<Plan> {
    let hosts = plan.hosts - 1;
    let named = plan.traffic.iter().flat_map(|part| [&part.from, &part.to]);
    let named = named.chain(plan.faults.iter().flat_map(|part| [&part.from, &part.to]));
    let named = named.chain(plan.paths.iter().flat_map(|part| [&part.from, &part.to]));
    let named = named.chain(plan.tcp.iter().flat_map(|part| [&part.from, &part.to]));
    let named = named.chain(plan.programs.iter().map(|part| &part.host));
    let mut last = named.filter_map(|hosts| match hosts {
        Hosts::All => None,
        Hosts::Range(range) => Some(*range.end()),
    });
    let free = last.all(|last| last < hosts) && plan.mishaps.iter().all(|part| part.host < hosts);
    (hosts >= 2 && free).then(|| Plan {
        hosts,
        ..plan.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Fault, Seal};
    use super::*;

    /// Nothing would tell that a packet was damaged, and the smaller plan would fail for that.
    #[test]
    fn what_damages_packets_keeps_what_tells() {
        let plan = Plan {
            hosts: 2,
            seal: Seal::Checked,
            faults: vec![Fault {
                corrupt: 0.1,
                loss: 0.1,
                ..Fault::default()
            }],
            traffic: vec![Traffic::default()],
            ..Plan::default()
        };
        assert_eq!(plan.expect_sound(), Ok(()));
        let smaller = candidates(&plan);
        assert!(smaller.iter().all(|plan| plan.seal == Seal::Checked));
    }

    #[test]
    fn a_star_with_a_full_switch_shrinks_to_a_mesh_that_can_be_run() {
        let plan = Plan {
            hosts: 2,
            network: Medium {
                shape: Shape::Star,
                rate: Rate(1_000_000),
                buffer: Some(Size(64 << 10)),
                mark_above: Some(Size(8 << 10)),
                ..Medium::default()
            },
            traffic: vec![Traffic::default()],
            ..Plan::default()
        };
        let smaller = candidates(&plan);
        let mut sound = smaller.iter().filter(|plan| plan.expect_sound().is_ok());
        assert!(sound.any(|other| {
            (other.network.shape, other.network.rate) == (Shape::Mesh, plan.network.rate)
        }));
    }

    #[test]
    fn a_plan_in_the_clear_damages_nothing() {
        let damages = |plan: &Plan| {
            let mut faults = plan.faults.iter();
            faults.any(|fault| fault.corrupt > 0.0 || fault.truncate > 0.0)
        };
        let drawn = (0..500).map(Plan::from_seed).filter(damages);
        let damaging: Vec<_> = drawn.collect();
        assert!(!damaging.is_empty());
        for mut plan in damaging {
            plan.unseal();
            assert_eq!(plan.expect_sound(), Ok(()), "{}", plan.to_toml());
            let smaller = candidates(&plan);
            assert!(!smaller.iter().any(damages), "{}", plan.to_toml());
        }
    }
}
