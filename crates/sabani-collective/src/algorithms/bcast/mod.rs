//! Broadcast: all get the root's vector. It lies in each rank's output, at the root from the begin.

pub(super) mod chain;
pub(super) mod scatter_allgather;
pub(super) mod split_binary;
pub(super) mod tree;
