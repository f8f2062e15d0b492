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
