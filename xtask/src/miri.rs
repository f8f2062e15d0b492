//! `cargo xtask miri`: the interpreter that finds undefined behaviour, on what has unsafe code.

use anyhow::Result;

use crate::shell;

/// The driver's layout code is the only unsafe code; its tests with real sockets leave themselves
/// out under Miri, which has no system calls for batches.
const TESTS: &str = "+nightly miri test --package sabani-udp";

/// Runs the tests under Miri.
///
/// # Errors
/// If one fails, or there is no nightly toolchain.
pub fn run() -> Result<()> {
    shell::run(&mut shell::cargo(TESTS))
}
