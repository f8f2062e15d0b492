//! Each seed chooses hosts, network, settings, faults, mishaps and traffic of its own. Long
//! campaigns are run with `sabani sim campaign`.

use sabani_sim::plan::{Hosts, Shrunk, Traffic, shrink};
use sabani_sim::{Bug, MS, Plan, Rule, Size};

#[test]
fn each_seed_a_world_of_its_own() {
    for seed in 0..60 {
        let plan = Plan::from_seed(seed);
        if let Some(failure) = plan.run().failure {
            panic!("{failure}\n{}", plan.to_toml());
        }
    }
}

/// Each plan says what went wrong with it.
#[test]
fn plans_that_once_failed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plans");
    let files = std::fs::read_dir(folder).expect("there is a folder of plans");
    for file in files {
        let path = file.expect("the folder can be read").path();
        let text = std::fs::read_to_string(&path).expect("the plan can be read");
        let plan = Plan::from_toml(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        if let Some(failure) = plan.run().failure {
            panic!("{path:?}: {failure}");
        }
    }
}

/// Credit that has rested is void to its holder, and not yet to its giver: neither has a reason to speak of it, however
/// much else the giver sends. The holder asks.
#[test]
fn a_sender_whose_credit_has_rested_does_not_wait_for_silence() {
    for text in [
        include_str!("../plans/credit-rests-while-apart.toml"),
        include_str!("../plans/credit-rests-while-held-back.toml"),
        include_str!("../plans/credit-rests-in-fixed-windows.toml"),
        include_str!("../plans/credit-rests-before-a-short-grant.toml"),
    ] {
        let plan = Plan::from_toml(text).expect("it is a plan");
        let big = plan.traffic.iter().position(|stream| stream.name == "big");
        let longest_ns = plan.run().streams[big.expect("it is in the plan")]
            .sorted_ns()
            .pop();
        assert!(longest_ns.is_some_and(|ns| ns < 400 * MS), "{longest_ns:?}");
    }
}

/// What the rules would let pass, for they know no more than rates and delays: the longest time of a stream, in
/// milliseconds.
#[test]
fn plans_that_were_slow() {
    for (text, stream, most_ms) in [
        (
            include_str!("../plans/log-windows-leave-memory-to-bodies.toml"),
            "big",
            500,
        ),
        (
            include_str!("../plans/small-messages-into-a-short-queue.toml"),
            "small",
            1_500,
        ),
        (
            include_str!("../plans/lost-entries-are-told-of-again.toml"),
            "small",
            2_000,
        ),
        (
            include_str!("../plans/a-long-path-and-a-short-queue.toml"),
            "flow",
            4_000,
        ),
        (
            include_str!("../plans/start-up-into-a-short-queue.toml"),
            "flow",
            3_000,
        ),
        (
            include_str!("../plans/nothing-puts-a-poll-off.toml"),
            "body",
            600,
        ),
        (
            include_str!("../plans/a-window-is-no-link.toml"),
            "big",
            600,
        ),
        (
            include_str!("../plans/granted-ones-that-are-older.toml"),
            "steady",
            600,
        ),
    ] {
        let plan = Plan::from_toml(text).expect("it is a plan");
        let at = plan.traffic.iter().position(|of| of.name == stream);
        let outcome = plan.run();
        let longest_ns = outcome.streams[at.expect("it is in the plan")]
            .sorted_ns()
            .pop();
        assert!(
            longest_ns.is_some_and(|ns| ns < most_ms * MS),
            "{text}: {longest_ns:?} ns"
        );
    }
}

#[test]
fn the_same_plan_gives_the_same_run() {
    for seed in [3, 14, 15] {
        let [one, other] = [(); 2].map(|()| Plan::from_seed(seed).run());
        assert_eq!(one.trace_hash, other.trace_hash, "seed {seed}");
        assert_eq!(one.streams, other.streams, "seed {seed}");
    }
}

#[test]
fn drawn_plans_find_planted_bugs() {
    for bug in [
        Bug::DeliverTwice,
        Bug::FlipBit,
        Bug::Swallow,
        Bug::AckUnread,
    ] {
        let found = |seed| {
            let mut plan = Plan::from_seed(seed);
            plan.unseal();
            plan.canary = Some(bug);
            plan.run().failure.is_some()
        };
        assert!((0..8).any(found), "{bug}");
    }
}

#[test]
fn a_failing_plan_shrinks_to_what_it_takes() {
    let bugged = |seed| Plan {
        canary: Some(Bug::DeliverTwice),
        ..Plan::from_seed(seed)
    };
    let mut plans = (0..8).map(bugged);
    let breaks_once = |plan: &Plan| {
        let failure = plan.run().failure;
        failure.is_some_and(|failure| failure.violations[0].rule == Rule::Once)
    };
    let plan = plans.find(breaks_once).expect("a bug is planted");
    let Shrunk { plan, runs } = shrink(&plan, Rule::Once, 500, || false);
    assert!(runs < 500, "{runs} runs");
    let one_message = Plan {
        seed: plan.seed,
        hosts: 2,
        seal: plan.seal,
        canary: plan.canary,
        traffic: vec![Traffic {
            bytes: Size(0),
            ..plan.traffic[0].clone()
        }],
        ..Plan::default()
    };
    assert_eq!(plan, one_message, "{}", plan.to_toml());
    assert_ne!(plan.traffic[0].from, Hosts::All);
}
