//! Scan: each rank gets the combination of its own vector and those of the ranks before it. An exclusive
//! scan leaves out its own; rank 0's output then has no meaning.

pub(super) mod chain;
pub(super) mod doubling;

/// Whether a rank's own vector is part of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Inclusive,
    Exclusive,
}
