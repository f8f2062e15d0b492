//! Known bugs are planted, and the checkers find each of them, by the rule that it breaks.

use sabani_proto::seal::Mode;
use sabani_sim::plan::{Plan, Traffic, What};
use sabani_sim::{Bug, MS, Network, Rule, SEC, sealed};

use crate::{A, B, plain, sound};

/// A little of all that a bug may hide in: both directions, small and large messages, a restart,
/// the end.
fn life(bug: Option<Bug>) -> Result<(), sabani_sim::Failure> {
    let in_packets = matches!(
        bug,
        Some(Bug::AckUnread | Bug::BreakFrame | Bug::ClaimCredit)
    );
    let mode: Mode = if in_packets { plain() } else { sealed() };
    let mut net = Network::mesh(1, 3, &mode, |config| {
        config.send_queue_bytes = 100_000;
        if bug == Some(Bug::IgnoreMemory) {
            config.memory_bytes = 64 << 10;
        }
    });
    if bug == Some(Bug::IgnoreMemory) {
        // What comes waits for it.
        net.host(B).program.nap_ns = 50 * MS;
    }
    if let Some(bug) = bug {
        net.plant(bug);
    }
    net.send(A, B, 10);
    net.run_for(20 * MS);
    // More than its queues have room for.
    let long = if bug == Some(Bug::IgnoreLimit) { 6 } else { 3 };
    let lengths = [10, 300, 5_000].into_iter();
    for len in lengths.chain(std::iter::repeat_n(90_000, long)) {
        net.send(A, B, len);
        net.send(B, A, len);
    }
    net.run_for(100 * MS);
    // Who restarts excuses much, and would hide the other bugs.
    if matches!(bug, None | Some(Bug::Resurrect)) {
        net.restart(B, true);
    }
    net.send(B, A, 10);
    net.run_for(20 * MS);
    net.send(A, B, 10);
    net.settle(2 * SEC)?;
    net.close_all(2 * SEC, 100 * MS)
}

/// One message after the other.
fn small_plan(bug: Bug) -> Plan {
    Plan {
        hosts: 2,
        traffic: vec![Traffic {
            rounds: 20,
            ..Traffic::default()
        }],
        canary: Some(bug),
        ..Plan::default()
    }
}

#[test]
fn without_a_bug_nothing_is_found() {
    sound(life(None));
}

/// The rule that each of them breaks, as the documentation has it.
fn broken_by(bug: Bug) -> Rule {
    match bug {
        Bug::DeliverTwice | Bug::Resurrect => Rule::Once,
        Bug::Swap => Rule::Order,
        Bug::FlipBit | Bug::CutShort => Rule::Bytes,
        Bug::Swallow | Bug::AckUnread | Bug::ForgetWake => Rule::Progress,
        Bug::KeepCredit | Bug::ClaimCredit => Rule::Credit,
        Bug::IgnoreLimit | Bug::IgnoreMemory => Rule::Bounds,
        Bug::SendAfterClose => Rule::Closed,
        Bug::Oversleep => Rule::Wait,
        Bug::Spin => Rule::Work,
        Bug::BreakFrame => Rule::Blame,
        Bug::Panic => Rule::Panic,
    }
}

#[test]
fn each_bug_is_found_by_the_rule_that_it_breaks() {
    for bug in Bug::ALL {
        let outcome = match bug {
            // Plans look for these.
            Bug::Panic | Bug::Oversleep => small_plan(bug).run().failure.map_or(Ok(()), Err),
            _ => life(Some(bug)),
        };
        let failure = outcome.expect_err(bug.name());
        let first = &failure.violations[0];
        assert_eq!(first.rule, broken_by(bug), "{bug}: {failure}");
    }
}

/// A bug that does something else as well, such as swallowing messages, would be found whatever the rule's checker
/// does. What a dead process was to get is held back for good where none dies, and missed.
#[test]
fn in_a_campaign_each_bug_breaks_its_own_rule_first() {
    let dies = |plan: &Plan| {
        plan.mishaps
            .iter()
            .any(|mishap| mishap.what == What::Restart)
    };
    for bug in Bug::ALL {
        let broken = (0..400).find_map(|seed| {
            let mut plan = Plan::from_seed(seed);
            plan.canary = Some(bug);
            plan.unseal();
            let is_idle = bug == Bug::Resurrect && !dies(&plan);
            let failure = (!is_idle).then(|| plan.run().failure)??;
            let rule = failure.violations[0].rule;
            let held_back = bug == Bug::Resurrect && rule == Rule::Progress;
            (!held_back).then_some((seed, rule))
        });
        let rule = broken.map(|(_, rule)| rule);
        assert_eq!(rule, Some(broken_by(bug)), "{bug}: {broken:?}");
    }
}
