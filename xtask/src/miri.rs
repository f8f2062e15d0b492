//! `cargo xtask miri`: the interpreter that finds undefined behaviour, on what has unsafe code.

use anyhow::Result;

use crate::shell;

/// The driver has the only unsafe code. Its other tests, and its examples, use real sockets, which
/// the interpreter does not have.
const TESTS: &str = "+nightly miri test --package sabani-udp --lib";

/// Runs the tests under Miri.
///
/// # Errors
/// If one fails, or there is no nightly toolchain.
pub fn run() -> Result<()> {
    shell::run(&mut shell::cargo(TESTS))
}
