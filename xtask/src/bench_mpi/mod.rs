//! `cargo xtask bench-mpi`: collectives of Sabani and of MPI libraries, in turns on this machine.
//!
//! [`mpi`] installs the libraries and builds a twin of `sabani bench coll` with each, [`contest`] runs all of
//! them, [`statistics`] tells how sure figures are, and [`table`] shows them.

mod contest;
mod mpi;
mod statistics;
mod table;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use contest::Contest;

/// What to measure.
#[derive(Args)]
pub struct Options {
    /// Collectives, as `sabani bench coll` names them
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "bcast,gather,alltoall,allreduce"
    )]
    pub collectives: Vec<String>,
    /// Sizes in bytes, of the vector or of each rank's block
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "64,1024,16384,65536,524288"
    )]
    pub sizes: Vec<usize>,
    /// Numbers of ranks
    #[arg(long, value_delimiter = ',', default_value = "2,4,8")]
    pub ranks: Vec<usize>,
    /// Turns of each
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    pub turns: u32,
    /// Seconds for each collective and size in a turn
    #[arg(long, default_value_t = 0.05)]
    pub seconds: f64,
    /// Leave it to the system where ranks run; else those of all are bound, as many to each core
    #[arg(long)]
    pub unbound: bool,
    /// Also write a line of JSON for each cell and library
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Installs, builds, measures, and prints tables.
///
/// # Errors
/// If something can't be installed or built, or fails.
pub fn run(options: &Options) -> Result<()> {
    let mut contest = Contest::new(mpi::contestants(!options.unbound)?);
    for turn in 0..options.turns {
        for &ranks in &options.ranks {
            eprintln!("turn {} of {}: {ranks} ranks", turn + 1, options.turns);
            contest.turn(options, ranks, turn % 2 == 1)?;
        }
    }
    let bound = match options.unbound {
        true => "",
        false => "; all ranks bound to cores",
    };
    println!("{}{bound}", mpi::versions()?);
    print!("{}", table::render(&contest));
    if let Some(path) = &options.json {
        let written = fs::write(path, table::json(&contest));
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
