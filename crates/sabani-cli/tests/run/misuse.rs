//! What programs should not do, and do: nobody waits for them in vain.

use crate::survivors;

#[test]
fn ranks_may_meet_while_they_unwind() {
    assert_eq!(survivors("2", "unwinding", 0), ["all have met"; 2]);
}

#[test]
fn who_waits_for_work_that_has_panicked_is_told_though_nobody_looks_at_it() {
    let expected = "rank 1 has ended the communicator: work that was started has panicked";
    assert_eq!(survivors("3", "unseen", 0), [expected; 3]);
}

#[test]
fn buffers_whose_access_is_leaked_can_be_used_again() {
    assert_eq!(survivors("2", "leaked", 0), ["all is right"; 2]);
}
