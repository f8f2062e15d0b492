//! What is known of a network, and what follows from it: how long a collective will take with each
//! algorithm, and which one is fastest. Nothing here does input or output.
//!
//! - [`Network`] is what was measured, as kept in a file.
//!
//! `docs/model.md` has the formulas and what they assume.

#![forbid(unsafe_code)]

pub mod network;
#[cfg(test)]
mod testing;

pub use network::{Estimate, Network};
