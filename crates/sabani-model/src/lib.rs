//! What is known of a network, and what follows from it: how long a collective will take with each
//! algorithm, and which one is fastest. Nothing here does input or output.
//!
//! - [`Network`] is what was measured, as kept in a file; [`Task`] is what is to be predicted.
//! - [`measure`] says what to try on a network; [`infer`] finds the graph that explains what came of it.
//! - [`price`] has models in closed form, the paper's PlogP-BR among them.
//! - [`simulate`] simulates the messages, with intervals.
//! - [`choose`] ranks algorithms, and compiles the table that a communicator looks up its choice in.
//! - [`share`] divides links among those who send.
//!
//! `docs/model.md` has the formulas and what they assume.

#![forbid(unsafe_code)]

mod cast;
pub mod choose;
pub mod infer;
pub mod measure;
pub mod network;
mod parallel;
pub mod price;
mod route;
pub mod share;
mod shorter;
pub mod simulate;
mod task;
#[cfg(test)]
mod testing;

pub use network::{Estimate, Network};
pub use task::{Task, has_blocks};
