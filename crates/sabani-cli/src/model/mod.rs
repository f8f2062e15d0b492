//! `sabani model`: knowing a network.

mod compare;
mod compile;
mod drawn;
mod measure;
mod page;
mod predict;
mod progress;
mod ranks;
mod simulated;
mod trial;
mod wire;

use std::path::Path;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use sabani::Match;
use sabani_model::Network;
use sabani_model::measure::Label;
use sabani_model::network::{self, Transport};

use crate::exit::Usage;
use crate::interrupt;
use crate::tell::note;

/// Ranks whose collectives are simulated at most: each may send to each at once, and these take minutes.
const MOST_RANKS: i64 = 512;

/// Know how a network carries messages: measure it, predict collectives, choose their algorithms.
///
/// See docs/model.md for what is measured and predicted, how, and when not to believe it.
#[derive(Args)]
pub struct ModelArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Measure(measure::MeasureArgs),
    Predict(predict::PredictArgs),
    Compile(compile::CompileArgs),
    Compare(compare::CompareArgs),
    Trial(trial::TrialArgs),
}

/// Runs `sabani model`.
///
/// # Errors
/// As its subcommands.
pub fn run(args: &ModelArgs) -> Result<()> {
    match &args.command {
        Command::Measure(args) => measure::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Predict(args) => alone(|| predict::run(args)),
        Command::Compile(args) => alone(|| compile::run(args)),
        Command::Trial(args) => alone(|| trial::run(args)),
    }
}

/// Runs what is no job of ranks.
fn alone(work: impl FnOnce() -> Result<()>) -> Result<()> {
    interrupt::install_end()?;
    work()
}

/// Reads a network's description.
fn load(path: &Path) -> Result<Network, Usage> {
    let named = || format!("cannot use {}", path.display());
    let text = network::read(path)
        .with_context(|| format!("{}; `sabani model measure` makes such a file", named()))
        .map_err(Usage::of)?;
    let network = Network::from_json(&text)
        .with_context(named)
        .map_err(Usage::of)?;
    if let Some(doubt) = network.doubt() {
        note(format_args!("{}: {doubt}", path.display()));
    } else if network.graph.fit.is_none() {
        note(format_args!(
            "{}: nothing was held back to check it when it was measured, so that what is made from it may be far off: \
             measure again with more `--seconds`",
            path.display()
        ));
    }
    Ok(network)
}

/// One of a network's transports.
fn transport<'n>(network: &'n Network, name: &str) -> Result<&'n Transport, Usage> {
    let found = network.transports.get(name);
    found.ok_or_else(|| {
        let known: Vec<&str> = network.transports.keys().map(String::as_str).collect();
        let known = known.join(",");
        let cure = match wire::transport(name) {
            Ok(_) => format!("`sabani model measure --transport {known},{name}` does"),
            Err(others) => others.to_string(),
        };
        Usage(format!(
            "nothing was measured over `{name}`, only over {known}: {cure}"
        ))
    })
}

/// The upper half of the tags of probes' messages; the lower one is the label.
const TAG: u64 = 0x5aba_0000 << 32;

/// The tag of a probe's message.
fn tag_of(label: Label) -> u64 {
    TAG | u64::from(label.0)
}

/// The messages of all probes.
fn any_probe() -> Match {
    Match::any().tag_mask(TAG, 0xffff_ffff << 32)
}
