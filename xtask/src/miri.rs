//! `cargo xtask miri`: the interpreter that finds undefined behaviour, on what has unsafe code.

use anyhow::Result;

use crate::shell;

/// The driver's other tests, and its examples, use real sockets, which the interpreter does not have.
const TESTS: [&str; 2] = [
    "+nightly miri test --package sabani-udp --lib",
    "+nightly miri test --package sabani-ring --lib --tests",
];

/// Runs the tests under Miri.
///
/// # Errors
/// If one fails, or there is no nightly toolchain.
pub fn run() -> Result<()> {
    TESTS.iter().try_for_each(|tests| {
        // Where threads are put depends on files of the system.
        shell::run(shell::cargo(tests).env("MIRIFLAGS", "-Zmiri-disable-isolation"))
    })
}
