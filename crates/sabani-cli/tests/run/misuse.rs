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

#[test]
fn who_shrinks_where_others_agree_is_told_so_and_the_other_way_round() {
    let mut said = survivors("3", "muddled", 0);
    said.sort_unstable();
    let shrinks = |rank: u32| {
        format!("rank {rank} shrinks the communicator where others agree on bits: {SAME}")
    };
    let agrees = format!("rank 1 agrees on bits where others shrink the communicator: {SAME}");
    let ended = format!("rank 1 has ended the communicator: {agrees}");
    let expected = [agrees, ended.clone(), ended, shrinks(1), shrinks(2)];
    assert_eq!(said, expected);
}

const SAME: &str = "all must call the same, in the same order";

#[test]
fn a_rank_that_the_others_have_left_far_behind_finds_out() {
    let said = survivors("6", "overtaken", 0);
    let told = "rank 0 is in bcast binomial (1 elements of u8, root 2, call 1 ";
    assert!(said.iter().all(|line| line.contains(told)), "{said:?}");
    assert_eq!(said.len(), 6);
}

#[test]
fn two_that_are_roots_of_a_long_broadcast_find_out() {
    let mut said = survivors("2", "roots", 0);
    said.sort_unstable();
    assert_eq!(said.len(), 2, "{said:?}");
    for (line, [me, other]) in said.iter().zip([[0, 1], [1, 0]]) {
        assert!(line.starts_with(&format!("rank {me} is in ")), "{line}");
        let theirs = format!(
            "but rank {other} in bcast binomial (8388608 elements of u8, root {other}, call 1 "
        );
        assert!(line.contains(&theirs) && line.ends_with(SAME), "{line}");
    }
}

#[test]
fn what_nobody_takes_of_a_dropped_communicator_holds_up_nobody_though_its_ranks_had_agreed() {
    let mut said = survivors("3", "dropped", 0);
    said.sort_unstable();
    assert_eq!(
        said,
        [0, 1, 2].map(|rank| format!("rank {rank}: all have met"))
    );
}

#[test]
fn an_agreement_that_was_put_off_can_be_taken_up_after_many_others() {
    let mut said = survivors("3", "put-off", 0);
    said.sort_unstable();
    assert_eq!(
        said,
        [0, 1, 2].map(|rank| format!("rank {rank}: all have agreed"))
    );
}
