//! Running a schedule, without input or output of its own.
//!
//! - [`Executor`] says what a rank has to do next: a window of rounds, whatever the length of the
//!   schedule, and no data.
//! - [`Exchange`] adds the data: messages out, messages in, with a [`Header`] each that names the
//!   collective. It is what runs over anything that carries whole messages.

mod exchange;
mod executor;
mod header;
mod memory;

pub use exchange::{Exchange, Handled, Operation, Outgoing, Rejected};
pub use executor::{Command, Executor, MessageId, StepId, Unknown};
pub use header::{Fingerprint, HEADER_BYTES, Header, Kind, Mismatch, OPERATIONS};
pub use memory::Memory;
