//! Congestion control against a bottleneck of one queue.

use super::*;

const MS: u64 = 1_000_000;
const FULL: u32 = 2_304;
const BYTES: usize = 1_472;

/// A path that takes `packet_ns` for each packet, after a queue of `queue` packets.
struct Path {
    packet_ns: u64,
    trip_ns: u64,
    queue: f64,
}

/// What a flow had over a path.
struct Course {
    /// Of what the path carries, in the second half.
    share: f64,
    /// Packets that waited, in the second half on the average.
    queued: f64,
    losses: u32,
}

/// A flow alone on the path, round trip by round trip.
fn follow(kind: Congestion, path: &Path, trips: u32) -> Course {
    let mut governor = Governor::new(kind, None, BYTES, 0).unwrap();
    let holds = path.trip_ns as f64 / path.packet_ns as f64;
    let (mut now_ns, mut losses, mut sums) = (0, 0, (0.0, 0.0));
    let mut next = 0.0;
    for trip in 0..trips {
        // What is acknowledged now was sent a round trip ago.
        let window = std::mem::replace(&mut next, f64::from(governor.window()) / f64::from(FULL));
        let queued = (window - holds).max(0.0);
        let sent_ns = now_ns;
        let rtt_ns = path.trip_ns + (queued.min(path.queue) * path.packet_ns as f64) as u64;
        for _ in 0..4 {
            now_ns += rtt_ns / 4;
            governor.on_acked(&Acked {
                now_ns,
                charge: governor.window() / 4,
                in_flight: governor.window(),
                rtt_ns,
                smoothed_ns: rtt_ns,
            });
        }
        if queued > path.queue {
            losses += 1;
            governor.on_congestion(sent_ns, now_ns);
        }
        if trip >= trips / 2 {
            sums.0 += (window / holds).min(1.0);
            sums.1 += queued.min(path.queue);
        }
    }
    let count = f64::from(trips - trips / 2);
    Course {
        share: sums.0 / count,
        queued: sums.1 / count,
        losses,
    }
}

const LONG: Path = Path {
    packet_ns: 100_000,
    trip_ns: 20 * MS,
    queue: 200.0,
};

#[test]
fn cubic_fills_the_path_and_loses_now_and_then() {
    let course = follow(Congestion::Cubic, &LONG, 2_000);
    assert!(course.share > 0.95, "{}", course.share);
    assert!((3..100).contains(&course.losses), "{}", course.losses);
}

#[test]
fn copa_fills_the_path_and_hardly_its_queue() {
    let course = follow(Congestion::Copa, &LONG, 2_000);
    assert!(course.share > 0.9, "{}", course.share);
    assert!(course.queued < 25.0, "{} packets wait", course.queued);
}

#[test]
fn packets_lost_in_one_round_trip_are_one_event() {
    let mut governor = Governor::new(Congestion::Cubic, None, BYTES, 0).unwrap();
    let first = governor.window();
    governor.on_congestion(5 * MS, 10 * MS);
    let after = governor.window();
    assert!(after < first);
    governor.on_congestion(9 * MS, 12 * MS);
    assert_eq!(governor.window(), after, "that was known");
    governor.on_congestion(11 * MS, 30 * MS);
    assert!(governor.window() < after);
}

#[test]
fn marks_count_once_in_each_round_trip_and_old_news_not_at_all() {
    let mut governor = Governor::new(Congestion::Cubic, None, BYTES, 0).unwrap();
    let mut rtt = Rtt::default();
    rtt.on_sample(10 * MS, 0);
    let mut windows = vec![governor.window()];
    for (count, now_ns) in [
        (3, 20 * MS),
        (5, 25 * MS),
        (4, 50 * MS),
        (5, 60 * MS),
        (6, 70 * MS),
    ] {
        governor.on_marks(count, &rtt, now_ns);
        windows.push(governor.window());
    }
    let slower: Vec<_> = windows.windows(2).map(|pair| pair[1] < pair[0]).collect();
    assert_eq!(slower, [true, false, false, false, true]);
}

#[test]
fn who_does_not_use_the_window_does_not_widen_it() {
    for kind in [Congestion::Cubic, Congestion::Copa] {
        let mut governor = Governor::new(kind, None, BYTES, 0).unwrap();
        let first = governor.window();
        for trip in 1..100 {
            governor.on_acked(&Acked {
                now_ns: trip * MS,
                charge: FULL,
                in_flight: FULL,
                rtt_ns: MS,
                smoothed_ns: MS,
            });
        }
        assert_eq!(governor.window(), first, "{kind:?}");
    }
}

#[test]
fn silence_closes_the_window() {
    for kind in [Congestion::Cubic, Congestion::Copa] {
        let mut governor = Governor::new(kind, None, BYTES, 0).unwrap();
        governor.on_silence();
        assert_eq!(governor.window(), 2 * FULL, "{kind:?}");
    }
}

#[test]
fn the_pacer_spreads_a_window_over_a_round_trip() {
    let mut governor = Governor::new(Congestion::Copa, None, BYTES, 0).unwrap();
    let mut rtt = Rtt::default();
    rtt.on_sample(10 * MS, 0);
    let (mut sent, mut now_ns, mut largest) = (0, 0, 0);
    while now_ns < 100 * MS {
        let room = governor.room(0, &rtt, now_ns) / FULL * FULL;
        governor.on_sent(room);
        sent += room;
        largest = largest.max(room);
        let at_ns = governor.release_ns(0).expect("less than a packet is left");
        assert!(at_ns > now_ns);
        now_ns = at_ns;
    }
    let window = f64::from(governor.window());
    let windows = f64::from(sent) / window;
    assert!(
        (18.0..=21.0).contains(&windows),
        "{windows} in ten round trips, at twice the pace"
    );
    assert!(f64::from(largest) < window / 2.0);
}

#[test]
fn a_rate_of_the_programs_holds_with_and_without_a_controller() {
    let allowed = NonZeroU64::new(1_000_000).unwrap();
    for kind in [Congestion::None, Congestion::Cubic, Congestion::Copa] {
        let mut governor = Governor::new(kind, Some(allowed), BYTES, 0).unwrap();
        let mut rtt = Rtt::default();
        let (mut packets, mut now_ns) = (0, 0);
        while now_ns < 1_000 * MS {
            let room = governor.room(0, &rtt, now_ns) / FULL;
            assert!(
                room <= 2,
                "{room} packets at once, less than 1 ms of the rate"
            );
            governor.on_sent(room * FULL);
            packets += room;
            now_ns = governor.release_ns(0).expect("less than a packet is left");
            // From now on the controller has a rate, a hundred times the program's.
            rtt.on_sample(MS / 10, now_ns);
        }
        let bytes = u64::from(packets) * BYTES as u64;
        assert!(
            (990_000..=1_003_000).contains(&bytes),
            "{kind:?}: {bytes} bytes in a second"
        );
    }
}

/// What leaves at once at most, and the window, where a round trip takes 400 µs and a hundred timers come so late, in turn.
fn largest_at_once(late_ns: &[u64]) -> (u32, u32) {
    let mut governor = Governor::new(Congestion::Cubic, None, BYTES, 0).unwrap();
    let mut rtt = Rtt::default();
    rtt.on_sample(400_000, 0);
    let (mut now_ns, mut largest) = (0, 0);
    for late_ns in late_ns.iter().cycle().take(100) {
        // All that left before has arrived.
        let room = governor.room(0, &rtt, now_ns) / FULL * FULL;
        governor.on_sent(room);
        largest = largest.max(room);
        let at_ns = governor.release_ns(room).unwrap_or(now_ns + 400_000);
        now_ns = at_ns + late_ns;
    }
    (largest, governor.window())
}

#[test]
fn whose_timers_are_late_sends_at_once_what_the_window_has() {
    let (largest, window) = largest_at_once(&[MS]);
    assert!(largest > window / 2, "{largest} of {window}");
    assert!(largest <= window, "{largest} of {window}");
}

#[test]
fn whose_timers_are_late_now_and_then_sends_no_more_at_once() {
    for late_ns in [&[0][..], &[20_000], &[0, 0, 4 * MS], &[4 * MS, 10_000]] {
        let (largest, _) = largest_at_once(late_ns);
        assert!(largest <= 2 * FULL, "{largest}, {late_ns:?} ns late");
    }
}

#[test]
fn who_has_nothing_to_send_is_not_late() {
    let mut governor = Governor::new(Congestion::Cubic, None, BYTES, 0).unwrap();
    let mut rtt = Rtt::default();
    rtt.on_sample(MS, 0);
    for message in 0..100 {
        let at_ns = message * 20 * MS;
        let room = governor.room(0, &rtt, at_ns);
        assert!(room < 3 * FULL, "{room} at once, two packets are usual");
        governor.on_sent(2 * FULL);
        // Its answer.
        governor.room(0, &rtt, at_ns + MS);
    }
}

#[test]
fn what_late_timers_have_allowed_is_forgotten() {
    let mut governor = Governor::new(Congestion::Cubic, None, BYTES, 0).unwrap();
    let mut rtt = Rtt::default();
    rtt.on_sample(MS, 0);
    let mut now_ns = 0;
    let mut largest = [0, 0];
    for (part, late_ns) in [MS, 0].into_iter().enumerate() {
        for wake in 0..100 {
            let room = governor.room(0, &rtt, now_ns) / FULL * FULL;
            governor.on_sent(room);
            if wake >= 50 {
                largest[part] = largest[part].max(room);
            }
            let at_ns = governor.release_ns(0).unwrap_or(now_ns + MS);
            now_ns = at_ns + late_ns;
        }
    }
    assert!(largest[0] > 5 * FULL, "{largest:?}");
    assert!(largest[1] <= 2 * FULL, "{largest:?}");
}
