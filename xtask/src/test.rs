//! `cargo xtask test`: everything that must pass.

use std::process::Command;

use anyhow::{Result, ensure};
use clap::Args;

use crate::report::{Counts, Reader, Shown};
use crate::{fuzz, shell};

/// How tests are run.
const HOW: &str = "--no-fail-fast --color never -- --show-output";

/// How the same sockets are driven by more than one thread.
const LAYERED: [(&str, &str); 2] = [
    ("each layer", "per-layer"),
    (
        "the way out",
        "[messages+channel+opening+receiving][sealing+sending]",
    ),
];

/// How much to test.
#[derive(Args)]
pub struct Options {
    /// Seconds for each fuzz target; 0 leaves the fuzzers out
    #[arg(long, value_name = "N", default_value_t = 5)]
    fuzz_seconds: u64,
}

/// Runs every test. The last line printed holds the counts.
///
/// # Errors
/// If anything fails.
pub fn run(options: &Options) -> Result<()> {
    let mut counts = cargo_test(shell::cargo(&format!("test --workspace {HOW}")))?;
    for (what, schedule) in LAYERED {
        println!("\nwith a thread for {what}:");
        let mut layered = shell::cargo(&format!(
            "test --package sabani --package sabani-tests {HOW}"
        ));
        layered.env("SABANI_LAYERS", schedule);
        counts.add(cargo_test(layered)?);
    }
    if options.fuzz_seconds > 0 {
        counts.add(fuzz::count(options.fuzz_seconds)?);
    }
    println!("\n{counts}");
    ensure!(counts.failed == 0, "not everything passed");
    Ok(())
}

fn cargo_test(command: Command) -> Result<Counts> {
    let mut reader = Reader::default();
    let status = shell::lines(command, |line| {
        reader.line(line).into_iter().for_each(show);
    })?;
    let (rest, counts) = reader.finish(status.success());
    rest.into_iter().for_each(show);
    Ok(counts)
}

fn show(shown: Shown) {
    match shown {
        // A target without tests.
        Shown::Suite(_, counts, _) if counts == Counts::default() => {}
        Shown::Suite(name, counts, time) => println!("{name}: {counts} in {time}"),
        Shown::Skipped(test, why) => println!("  {test} skipped: {why}"),
        Shown::Line(line) => println!("{line}"),
    }
}
