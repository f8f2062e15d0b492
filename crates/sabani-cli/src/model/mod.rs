//! `sabani model`: knowing a network.

mod measure;
mod page;
mod ranks;
mod simulated;
mod trial;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Know how a network carries messages: measure it.
///
/// See docs/model.md for what is measured, how, and when not to believe it.
#[derive(Args)]
pub struct ModelArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Measure(measure::MeasureArgs),
    Trial(trial::TrialArgs),
}

/// Runs `sabani model`.
///
/// # Errors
/// As its subcommands.
pub fn run(args: &ModelArgs) -> Result<()> {
    match &args.command {
        Command::Measure(args) => measure::run(args),
        Command::Trial(args) => trial::run(args),
    }
}
