//! Who works while the program does not, and what that costs.

use std::time::Duration;

use sabani_tests::{Command, Reply};

use crate::neighbours;

#[test]
fn a_program_that_computes_still_acknowledges() {
    let (mut left, mut right) = neighbours();
    left.track(1, 0, &[10]);
    right.tell(&Command::Compute { ms: 1_000 });
    left.track(1, 1, &[10; 20]);
    left.track(1, 21, &[60_000; 5]);
    assert!(right.is_busy(), "the answers came while it computed");
    right.done();
    right.receive(26, Duration::from_secs(20));
    left.lost_nobody();
}

#[test]
fn an_idle_node_costs_less_than_one_percent_of_a_core() {
    let (mut left, mut right) = neighbours();
    left.track(1, 0, &[10]);
    right.expect(0, 0, &[10]);
    let before = [left.cpu(), right.cpu()];
    // One waits in a receive, the other outside the library.
    left.tell(&Command::Receive {
        count: 1,
        timeout_ms: 2_000,
    });
    right.run(&Command::Sleep { ms: 2_000 });
    match left.reply() {
        Reply::Received(arrivals) => assert!(arrivals.is_empty()),
        other => panic!("{other:?}"),
    }
    let used = [left.cpu() - before[0], right.cpu() - before[1]];
    let one_percent = Duration::from_millis(20);
    assert!(used.iter().all(|&time| time < one_percent), "{used:?}");
}
