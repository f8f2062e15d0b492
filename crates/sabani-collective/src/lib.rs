//! Collectives as data: what each rank sends, receives, copies and combines in a broadcast, a reduction,
//! an all-to-all, as a function of rank and round. Nothing here does input or output.
//!
//! - [`Schedule`] is what an algorithm is; [`ALGORITHMS`] lists them, a file for each.
//! - [`check`] proves that an algorithm does what it should, for one situation.
//! - [`choice`] says which algorithm is used, and lets programs and users want another one.
//! - [`execute`] runs one rank of it.
//! - [`agree`] is what survivors of a failure agree by.

#![forbid(unsafe_code)]

pub mod agree;
mod algorithms;
pub mod check;
pub mod choice;
mod context;
pub mod execute;
mod hosts;
mod round;
mod schedule;
mod step;

pub use algorithms::{ALGORITHMS, Algorithm, Collective};
pub use choice::{BadOverride, Choice, Override, Overrides, choose};
pub use context::{Context, Counts, Parameters};
pub use hosts::Hosts;
pub use round::Round;
pub use schedule::Schedule;
pub use step::{Action, After, Buffer, Mode, Repeat, Side, Span, Step};
