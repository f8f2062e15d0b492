//! What is tried on a network to know it, and what is made of the times.
//!
//! [`Procedure`] says what to try next and takes what came of it; [`Part`] is what one host does of a
//! [`Probe`]. Neither does input or output, so that the same procedure runs between processes and in a
//! simulator.

mod curve;
mod distance;
mod part;
pub mod patterns;
mod port;
mod probe;
mod procedure;
#[cfg(test)]
mod procedure_tests;
mod repairs;
mod statistics;

pub use part::{Label, Part, Send};
pub use probe::{Flow, Probe, Seen, Traffic, Trip};
pub use procedure::{Measured, Outcome, Procedure, Settings};
pub use repairs::Repairs;
