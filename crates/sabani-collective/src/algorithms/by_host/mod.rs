//! Hierarchical forms: what goes between hosts goes once for each host, not once for each rank. Each is
//! other algorithms one after the other, among the ranks of each host and among one leader for each
//! host. An operation that is not commutative needs hosts whose ranks follow each other.

mod allgather;
mod allreduce;
mod barrier;
mod bcast;
mod phase;
mod reduce;

pub(super) use self::allgather::Allgather;
pub(super) use self::allreduce::Allreduce;
pub(super) use self::barrier::Barrier;
pub(super) use self::bcast::Bcast;
pub(super) use self::phase::Phased;
pub(super) use self::reduce::Reduce;

use crate::{Context, Counts, Hosts};

/// Whether there are hosts, and, where the order of ranks matters, whether they keep it.
fn fits(cx: &Context, order_matters: bool) -> bool {
    let may = |hosts: &Hosts| hosts.ranks() == cx.size && (!order_matters || hosts.in_order());
    cx.hosts.is_some_and(may)
}

/// The same, for a vector: counts for each rank would mean another vector among fewer ranks.
fn fits_vector(cx: &Context, order_matters: bool) -> bool {
    matches!(cx.counts, Counts::Vector(_)) && fits(cx, order_matters)
}
