//! How examples end that can fail.

use std::process::ExitCode;

/// Tells what failed, without where in the program that was, which `main` itself would add.
pub fn of(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error:#}", env!("CARGO_CRATE_NAME"));
            ExitCode::FAILURE
        }
    }
}
