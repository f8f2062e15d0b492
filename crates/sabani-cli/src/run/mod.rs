//! `sabani run`: the ranks of a job on this machine.
//!
//! Three kinds of process, so that none is left behind whichever of them is killed:
//!
//! | | what it does | how it learns that the one above is gone |
//! |---|---|---|
//! | [`front`] | what the user has started: passes signals on, has the job's exit status | |
//! | [`keeper`] | starts the ranks, is the host of their rendezvous, carries their output | a signal when its parent dies |
//! | [`rank`] | becomes the program | killed when its parent dies |
//!
//! The first two adopt whatever descendant has lost its parent, and end all of them when they end.

mod args;
pub mod descendants;
mod end;
mod front;
mod input;
mod keeper;
mod output;
mod rank;
mod signals;

pub use args::{KeeperArgs, RankArgs, RunArgs};
pub use front::run;
pub use keeper::run as run_keeper;
pub use rank::run as run_rank;
