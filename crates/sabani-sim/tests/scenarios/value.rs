//! Messages that are worth something for some time only (U17).

use std::time::Duration;

use sabani_proto::{Event, Match, PeerId, RecvError, Value};
use sabani_sim::{MS, Network, Reading, SEC, Wish, sealed};

use crate::{A, B, peer_stats, sound, warm_pair};

const WITHIN: Duration = Duration::from_millis(100);

fn valued(net: &mut Network, len: usize, value: Value) {
    let wish = Wish {
        len,
        value,
        ..Wish::default()
    };
    net.send_wish(A, B, wish);
}

/// Events of this kind that B's program has seen.
fn told_expired(net: &mut Network) -> usize {
    let events = net.host(B).program.events.iter();
    let expired = events.filter(|event| matches!(event, Event::Expired { .. }));
    expired.count()
}

#[test]
fn what_is_in_time_arrives_whatever_its_size() {
    let mut net = warm_pair(1, &sealed());
    for len in [0, 1, 1_024, 1_025, 100_000, 2 << 20] {
        valued(&mut net, len, Value::Within(SEC_LONG));
        valued(&mut net, len, Value::BestEffort);
        net.send(A, B, len);
    }
    sound(net.settle(SEC));
    assert_eq!(net.checker.delivered, 8 + 18);
    assert_eq!(peer_stats(&mut net, A, B).expired_sent, 0);
    sound(net.close_all(SEC, SEC));
}

const SEC_LONG: Duration = Duration::from_secs(1);

#[test]
fn what_is_late_is_dropped_at_both_ends_and_holds_up_nothing() {
    let mut net = warm_pair(2, &sealed());
    net.links(|link| {
        link.bits_per_second = 10_000_000;
        link.queue_bytes = 32 << 10;
    });
    // 2 MiB take 1.7 s, one part eager, the other to be granted.
    for _ in 0..8 {
        valued(&mut net, 262_144, Value::Within(WITHIN));
    }
    net.send(A, B, 10);
    net.run_for(150 * MS);
    let late = peer_stats(&mut net, A, B).expired_sent;
    assert!(late >= 6, "{late}");
    assert_eq!(peer_stats(&mut net, B, A).expired_received, late);
    assert_eq!(told_expired(&mut net) as u64, late);
    assert_eq!(peer_stats(&mut net, A, B).queued_bytes, 0);
    sound(net.settle(SEC));
    assert_eq!(net.checker.delivered, 8 + 9 - late);
    sound(net.close_all(SEC, SEC));
}

/// A receive that had been given the message is told, and gets its buffer back; the next one is not
/// held up.
#[test]
fn the_receive_that_waits_is_told() {
    let mut net = warm_pair(3, &sealed());
    net.links(|link| {
        link.bits_per_second = 10_000_000;
        link.queue_bytes = 32 << 10;
    });
    net.host(B).program.reading = Reading::Nothing;
    let from = Match::any().from(PeerId(A.0));
    let node = net.host(B).node();
    let [first, second] = [(); 2].map(|()| node.post(from, Some(vec![0; 1 << 20])));
    valued(&mut net, 1 << 20, Value::Within(WITHIN));
    net.send(A, B, 100);
    net.run_for(150 * MS);
    let node = net.host(B).node();
    match node.take_received(first) {
        Some(Err(RecvError::Expired { envelope, buffer })) => {
            assert_eq!((envelope.source, envelope.len), (PeerId(A.0), 1 << 20));
            assert_eq!(buffer.map(|buffer| buffer.len()), Some(1 << 20));
        }
        other => panic!("{other:?}"),
    }
    let message = node.take_received(second).expect("it is here");
    let message = message.expect("it is whole");
    assert_eq!(message.body.len(), 100);
    assert_eq!(node.stats().posted_bytes, 0);
}

/// What is sent once is dropped with the first piece that is lost; what was not lost arrives.
#[test]
fn best_effort_is_never_sent_twice() {
    let mut net = warm_pair(4, &sealed());
    net.link(A, B).faults.loss = 0.05;
    for _ in 0..200 {
        valued(&mut net, 5_000, Value::BestEffort);
        net.run_for(MS);
    }
    sound(net.settle(SEC));
    let lost = peer_stats(&mut net, A, B).expired_sent;
    assert_eq!(peer_stats(&mut net, B, A).expired_received, lost);
    assert!((10..80).contains(&lost), "{lost}");
    assert_eq!(net.checker.delivered, 8 + 200 - lost);
}

/// Nothing is left of what expires while its entry can't leave, or has not arrived.
#[test]
fn what_expires_before_its_entry_is_there_is_told_afterwards() {
    let mut net = warm_pair(5, &sealed());
    net.link(A, B).faults.cut = true;
    valued(&mut net, 50_000, Value::Within(WITHIN));
    valued(&mut net, 50_000, Value::Within(20 * WITHIN));
    net.send(A, B, 10);
    net.run_for(200 * MS);
    assert_eq!(peer_stats(&mut net, A, B).expired_sent, 1);
    net.link(A, B).faults.cut = false;
    sound(net.settle(SEC));
    assert_eq!(told_expired(&mut net), 1);
    assert_eq!(net.checker.delivered, 8 + 2);
    sound(net.close_all(SEC, SEC));
}

/// Video of 30 Mb/s: 10 s of frames of 125,000 bytes, 30 a second, each worth something for 150 ms,
/// over a path of 20 ms there and back. Returns the share of frames that were in time.
fn video(seed: u64, bits_per_second: u64, loss: f64, value: Value) -> f64 {
    const FRAMES: u64 = 300;
    let mut net = Network::pair(seed, &sealed());
    net.links(|link| {
        link.bits_per_second = bits_per_second;
        link.delay_ns = 10 * MS;
        link.queue_bytes = 256 << 10;
    });
    net.send(A, B, 100);
    sound(net.settle(SEC));
    net.link(A, B).faults.loss = loss;
    for _ in 0..FRAMES {
        valued(&mut net, 125_000, value);
        net.run_for(SEC / 30);
    }
    sound(net.settle(20 * SEC));
    let messages = net.checker.ledger.messages();
    let frames = messages.filter(|(_, _, sent)| sent.wish.len == 125_000);
    let times = frames.filter_map(|(_, _, sent)| sent.time_ns());
    let in_time = times.filter(|&time_ns| time_ns <= 150 * MS);
    in_time.count() as f64 / FRAMES as f64
}

#[test]
fn video_keeps_its_deadlines_over_a_lossy_path() {
    let worth = Value::Within(Duration::from_millis(150));
    let lossy = video(10, 50_000_000, 0.02, worth);
    println!("50 Mb/s, 2 % loss: {lossy}");
    assert!(lossy >= 0.98, "{lossy}");
}

/// Over a path for five sixths of the frames, all of them would be late, if none were dropped.
#[test]
fn video_over_a_narrow_path_is_partly_in_time() {
    let worth = Value::Within(Duration::from_millis(150));
    let valued = video(11, 25_000_000, 0.01, worth);
    let reliable = video(11, 25_000_000, 0.01, Value::Reliable);
    println!("25 Mb/s, 1 % loss: {valued}, reliable {reliable}");
    assert!(valued >= 0.35, "{valued}");
    assert!(reliable < 0.05, "{reliable}");
}
