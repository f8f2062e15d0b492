//! `sabani bench coll`: what collectives take.
//!
//! The same program does both parts. Started by a launcher, it is a rank: [`rank`] measures, and rank 0
//! tells. Started by the user, it has [`jobs`] start it as the ranks of `sabani run`, and puts together
//! what their rank 0 tells.

pub mod args;
mod cell;
mod jobs;
mod measure;
mod place;
mod rank;
mod report;

use anyhow::{Result, ensure};
use sabani::{Checksum, Comm, Launcher};

use super::transport::Transport;
use crate::exit::Usage;
use args::CollArgs;

/// Measures, and reports as the user wishes.
///
/// # Errors
/// If a job can't be started or fails, or a file can't be written.
pub fn run(args: &CollArgs) -> Result<()> {
    let transport = args.variants.transports()[0];
    let comm = Comm::init_with(|builder| {
        let builder = match args.spin() {
            Some(time) => builder.spin(time),
            None => builder,
        };
        let builder = args.layers.apply(builder);
        match transport {
            Transport::SabaniPlain => builder.plain(Checksum::None),
            _ => builder,
        }
    })?;
    if comm.launcher() == Launcher::Alone {
        drop(comm);
        return jobs::run(args);
    }
    let both = args.variants.sealed && args.variants.plain;
    let why =
        "ranks of a launcher measure one of --sealed and --plain: have it start them once for each";
    ensure!(!both, Usage(why.into()));
    rank::run(&comm, args, transport)
}
