//! Acknowledgements that others have overtaken.

use super::*;

/// Takes one in; returns the first number of each run that is lost by it.
fn lost_by(channel: &mut Channel<u64>, ack: &Ack, now_ns: u64) -> Vec<u64> {
    let mut lost = Vec::new();
    channel.on_ack(ack, now_ns, &mut |fate, number| {
        if fate == Fate::Lost {
            lost.push(number);
        }
    });
    lost
}

/// What waits only for its time was left to the POLL, which comes later.
#[test]
fn an_overtaken_acknowledgement_leaves_the_loss_timer_set() {
    let mut channel = channel(1 << 20);
    channel.on_sent(run(0, 3), &[0], 0);
    // The path reorders: who is one behind is not lost yet.
    lost_by(&mut channel, &ack([0, 2]), MS);
    lost_by(&mut channel, &ack(0..3), MS);
    channel.on_sent(run(3, 6), &[3], 10 * MS);
    lost_by(&mut channel, &ack((0..7).chain([8])), 11 * MS);
    assert!(channel.sent.loss_deadline().is_some(), "one is missing");
    lost_by(&mut channel, &ack(0..6), 11 * MS);
    assert!(channel.sent.loss_deadline().is_some(), "it still is");
    lost_by(&mut channel, &ack(0..9), 11 * MS);
    assert_eq!(channel.sent.loss_deadline(), None);
}

/// An acknowledgement has room for so many gaps; of what is below them only an older one tells, and of nothing above itself.
#[test]
fn an_overtaken_acknowledgement_says_nothing_of_what_is_above_it() {
    let mut channel = channel(1 << 20);
    channel.on_sent(run(0, 200), &[0], 0);
    let newer = ack((100..200).step_by(2));
    assert_eq!(newer.ranges.len(), Frame::MAX_ACK_RANGES);
    let lowest = 198 - 2 * newer.ranges.len() as u64;
    let lost = lost_by(&mut channel, &newer, MS);
    assert!(lost.iter().all(|&n| n % 2 == 1 && n > lowest), "{lost:?}");
    let older = ack((1..=100).chain([102, 104]));
    let lost = lost_by(&mut channel, &older, MS + 1);
    assert_eq!(lost, [0, 101, 103], "more than it names has come");
}

/// One event of reordering may have been the last: a long connection that once saw one needn't wait longer for each loss from then on.
#[test]
fn a_path_that_only_loses_from_then_on_is_not_waited_for_longer_for_ever() {
    for recovery in [Recovery::Selective, Recovery::GoBackN] {
        let mut channel = recovering(recovery, 1 << 30);
        channel.on_sent(run(0, 100), &[0], 0);
        lost_by(&mut channel, &ack(1..100), MS);
        lost_by(&mut channel, &ack(0..100), MS);
        // Each tenth packet is lost.
        let mut waited = Vec::new();
        for round in 0..10_000 {
            let (first, now_ns) = (100 + 10 * round, 10 * MS * (round + 1));
            channel.on_sent(run(first, 10), &[first], now_ns);
            let named = ack((first - 5..first + 10).filter(|number| number % 10 != 0));
            if lost_by(&mut channel, &named, now_ns + MS).is_empty() {
                channel.on_deadline(now_ns + 9 * MS, &mut |_, _| ());
                waited.push(round);
            }
        }
        assert!(!waited.is_empty(), "it has reordered");
        assert!(
            waited.iter().all(|&round| round < 1_000),
            "{:?}",
            waited.last()
        );
    }
}
