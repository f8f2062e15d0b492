//! All-to-all: each rank has a block for each rank.

pub(super) mod bruck;
pub(super) mod direct;
