//! Paths that become others.

use super::*;

/// What was at the bottom, because the old path took no more, stayed there until the next search was due: for 600 s.
#[test]
fn another_path_is_searched_at_once_whatever_the_old_one_took() {
    let mut mtu = MtuSearch::new(BASE_DATAGRAM, 8_972);
    while let Some(bytes) = mtu.probe(0) {
        mtu.on_probe_lost(bytes, false, 0);
    }
    assert_eq!(mtu.probe(MS), None);
    mtu.on_new_path(MS);
    assert_eq!(mtu.probe(MS), Some(8_972));
    // So it is in the midst of a search: a probe that was on its way says nothing of the new path.
    mtu.on_new_path(2 * MS);
    mtu.on_probe_lost(8_972, false, 2 * MS);
    assert!(!mtu.is_again());
    assert_eq!(mtu.probe(2 * MS), Some(8_972));
}

/// Takes an answer each 100 ms to what left `trip_ns` before and waited `behind_ns` for others, for so many seconds.
fn answers(rtt: &mut Rtt, trip_ns: u64, behind_ns: u64, seconds: u64, now_ns: &mut u64) {
    for _ in 0..10 * seconds {
        *now_ns += 100 * MS;
        rtt.on_answer(*now_ns - trip_ns, *now_ns, 0, behind_ns);
    }
}

#[test]
fn a_path_that_has_become_longer_is_known_within_20_s() {
    let (mut rtt, mut now_ns) = (Rtt::default(), 1_000 * MS);
    answers(&mut rtt, MS, 0, 15, &mut now_ns);
    answers(&mut rtt, 50 * MS, 0, 9, &mut now_ns);
    assert_eq!(rtt.min_ns(), MS, "it may just be busy");
    answers(&mut rtt, 50 * MS, 0, 11, &mut now_ns);
    assert_eq!(rtt.min_ns(), 50 * MS);
    assert!(rtt.smoothed_ns() >= rtt.min_ns());
    answers(&mut rtt, 2 * MS, 0, 1, &mut now_ns);
    assert_eq!(rtt.min_ns(), 2 * MS, "what is shorter is believed at once");
}

#[test]
fn what_waits_behind_others_of_ours_makes_no_path_longer() {
    let (mut rtt, mut now_ns) = (Rtt::default(), 1_000 * MS);
    answers(&mut rtt, MS, 0, 1, &mut now_ns);
    answers(&mut rtt, 5 * MS, 4 * MS, 60, &mut now_ns);
    assert_eq!(rtt.min_ns(), MS);
    // Nor does what is reckoned with beyond that make it shorter.
    answers(&mut rtt, 5 * MS, 5 * MS, 60, &mut now_ns);
    assert_eq!(rtt.min_ns(), MS);
}
