//! A stage for tests between real processes: [`Actor`] is a process with a node, under remote
//! control; [`Host`] is a network namespace to put it in.

mod actor;
mod body;
mod host;
mod protocol;

pub use actor::{Actor, PATIENCE};
pub use body::{fill, is_intact};
pub use host::{Host, Pair, Path};
pub use protocol::{Arrival, Command, Reply, Setup, Snapshot};
