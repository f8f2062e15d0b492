//! What goes on while the program does something else.

mod message;
mod prepared;
mod started;
mod within;
mod workers;

pub use message::{Receiving, Sending};
pub use prepared::Prepared;
pub use started::Started;
pub(super) use workers::Workers;
