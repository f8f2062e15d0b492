//! Ways to end that are not plain failures, and the exit status of each.

use std::fmt;
use std::process::ExitCode;

/// A mistake on the command line: exit status 2.
#[derive(Debug)]
pub struct Usage(pub String);

/// The user stopped the program; says how to go on. Exit status 130, as a shell has it.
#[derive(Debug)]
pub struct Interrupted(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Usage {}
impl std::error::Error for Interrupted {}

/// The exit status for an error.
pub fn code(error: &anyhow::Error) -> ExitCode {
    if error.is::<Usage>() {
        ExitCode::from(2)
    } else if error.is::<Interrupted>() {
        ExitCode::from(130)
    } else {
        ExitCode::FAILURE
    }
}
