//! `cargo xtask fuzz`: a while of each fuzz target, on the stable compiler.

use anyhow::{Result, ensure};
use clap::Args;

use crate::report::Counts;
use crate::shell;

const TARGETS: [&str; 3] = ["packet", "sequence", "hostile"];

/// How long to fuzz, and from where.
#[derive(Args)]
pub struct Options {
    /// Seconds for each target
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Where the inputs begin: the same seed makes the same inputs
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

/// Runs the fuzz targets.
///
/// # Errors
/// If an input breaks one; the target has said how to replay it.
pub fn run(options: &Options) -> Result<()> {
    let counts = fuzz(options)?;
    ensure!(counts.failed == 0, "a fuzz target failed");
    Ok(())
}

/// Runs the fuzz targets for a while each, as so many tests.
///
/// # Errors
/// If they can't be built.
pub fn count(seconds: u64) -> Result<Counts> {
    fuzz(&Options { seconds, seed: 1 })
}

fn fuzz(options: &Options) -> Result<Counts> {
    let manifest = "--release --manifest-path fuzz/Cargo.toml";
    shell::run(&mut shell::cargo(&format!(
        "build --quiet {manifest} --bin sabani-fuzz"
    )))?;
    let mut counts = Counts::default();
    for target in TARGETS {
        let Options { seconds, seed } = options;
        let arguments = format!("{target} --seconds {seconds} --seed {seed}");
        let command = format!("run --quiet {manifest} -- {arguments}");
        match shell::run(&mut shell::cargo(&command)) {
            Ok(()) => counts.passed += 1,
            Err(error) => {
                println!("{error:#}");
                counts.failed += 1;
            }
        }
    }
    Ok(counts)
}
