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
