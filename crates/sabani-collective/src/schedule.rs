//! What an algorithm is.

use crate::context::Context;
use crate::round::Round;

/// An algorithm, as a function from rank and round to steps. It is asked for any round at any time, and
/// keeps and allocates nothing: a schedule costs the same for a barrier and for a gigabyte.
///
/// What holds for each one, and [`check`](crate::check) proves:
///
/// - Both ends of a message name each other, and have it in the round of the same number, in the same
///   lane, with the same length and mode. So nothing is received from just anybody, and nothing can be
///   mistaken for something else.
/// - It completes when each rank begins a round only when the one before is complete, even if each
///   send waits for its receive. To begin earlier, as far as [`After`](crate::After) allows, is faster
///   and can't block.
/// - Steps that `After` leaves unordered don't touch the same elements, unless both read.
pub trait Schedule: Sync {
    /// Whether it can do this: number of ranks, kind of counts, order of the operation, hosts.
    fn fits(&self, cx: &Context) -> bool {
        let _ = cx;
        true
    }

    /// Number of rounds, the same on all ranks; a rank may have nothing to do in some.
    fn rounds(&self, cx: &Context) -> usize;

    /// What `rank` does in round `k`.
    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round;

    /// A message of so many bytes or more counts as sent when it has arrived, and not when it has been handed over; for
    /// pairs that are to keep in step. By default none does.
    ///
    /// This can't block: what holds for sends that wait for their receive holds for those that wait for an
    /// acknowledgement. In the last round nobody waits any more.
    fn in_step_from_bytes(&self, cx: &Context) -> usize {
        let _ = cx;
        usize::MAX
    }

    /// Elements of scratch memory that `rank` needs.
    fn scratch(&self, cx: &Context, rank: usize) -> usize {
        let _ = (cx, rank);
        0
    }
}
