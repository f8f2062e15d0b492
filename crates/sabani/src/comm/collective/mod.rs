//! What all ranks do together. Every rank must call the same things in the same order; ranks that don't
//! are told so, both sides named, instead of waiting forever.
//!
//! For each call a rule chooses an algorithm from the number of ranks, bytes and hosts;
//! [`Comm::set_algorithms`] or the variable `SABANI_ALGORITHMS` may choose another one. For a number of
//! ranks and an algorithm, a reduction's result is always the same.

mod blocks;
mod drive;
mod operation;
mod series;
mod task;
mod vectors;

use std::env;

use sabani_collective::Overrides;

use super::{Comm, Error, locked};
pub use operation::{And, Commutative, InOrder, Max, Min, Operation, Or, Product, Sum, Xor};
pub(super) use series::Series;

/// Chooses other algorithms than the rule does; see [`Comm::set_algorithms`].
const ALGORITHMS: &str = "SABANI_ALGORITHMS";

/// What the user wants instead of the rule.
///
/// # Errors
/// [`Error::Algorithms`].
pub(super) fn overrides_of_environment() -> Result<Overrides, Error> {
    let text = env::var(ALGORITHMS).unwrap_or_default();
    text.parse().map_err(Error::Algorithms)
}

impl Comm {
    /// Uses other algorithms than the rule does from now on, where they fit, as in
    /// `bcast=chain:segment=128KiB,alltoall=pairwise`. All ranks must do so, at the same place among
    /// their collectives.
    ///
    /// # Errors
    /// [`Error::Algorithms`], which names those there are.
    pub fn set_algorithms(&self, text: &str) -> Result<(), Error> {
        let overrides = text.parse().map_err(Error::Algorithms)?;
        *locked(&self.series.overrides) = overrides;
        Ok(())
    }
}

fn fits(len: usize, expected: usize) -> Result<(), Error> {
    if len == expected {
        Ok(())
    } else {
        Err(Error::Size { len, expected })
    }
}
