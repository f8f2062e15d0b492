//! What all ranks do together. Every rank must call the same things in the same order; ranks that don't
//! are told so, both sides named, instead of waiting forever.
//!
//! For each call a rule chooses an algorithm from the number of ranks, bytes and hosts, or the table of a
//! network that was measured ([`Comm::set_network`], `SABANI_NETWORK`); [`Comm::set_algorithms`] or the variable
//! `SABANI_ALGORITHMS` may choose another one. For a number of ranks and an algorithm, a reduction's
//! result is always the same. `SABANI_EXPLAIN=1` makes rank 0 say what is chosen, and why.

mod blocks;
mod chooser;
mod drive;
mod operation;
mod series;
mod setup;
mod task;
mod vectors;

use super::{Comm, Error, locked};
pub(super) use chooser::{Chooser, Explainer};
pub use operation::{And, Commutative, InOrder, Max, Min, Operation, Or, Product, Sum, Xor};
pub(super) use series::{REMEMBERED, Series};
pub(super) use setup::explainer;

impl Comm {
    /// Uses other algorithms than the rule or a network's table does from now on, where they fit, as in
    /// `bcast=chain:segment=128KiB,alltoall=pairwise`. All ranks must do so, at the same place among
    /// their collectives. [`Comm::init`] does this with rank 0's `SABANI_ALGORITHMS`.
    ///
    /// # Errors
    /// [`Error::Algorithms`], which names those there are.
    pub fn set_algorithms(&self, text: &str) -> Result<(), Error> {
        let by = "set_algorithms";
        let overrides = text.parse().map_err(|why| Error::Algorithms { by, why })?;
        locked(&self.series.chooser).overrides = overrides;
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
