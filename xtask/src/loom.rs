//! `cargo xtask loom`: the model checker that tries all interleavings, on what threads share without locks.

use anyhow::Result;

use crate::shell;

/// Optimised, for there are many interleavings; built apart, since the flag concerns all that is built.
const TESTS: &str = "test --package sabani-ring --lib --release --target-dir target/loom";

/// Runs the tests under loom.
///
/// # Errors
/// If one fails.
pub fn run() -> Result<()> {
    shell::run(shell::cargo(TESTS).env("RUSTFLAGS", "--cfg loom"))
}
