//! Which algorithm is fastest: a ranking of all there are, and a table of the best ones in which a
//! communicator looks up its choice.

mod candidates;
mod decision;
mod ranking;
mod table;

pub use candidates::{candidates, rule};
pub use decision::{Decision, decide, pick};
pub use ranking::{Part, Ranked, Told, rank};
pub use table::{BadRow, Found, Lookup, Row, compile, length, usual_ranks};
