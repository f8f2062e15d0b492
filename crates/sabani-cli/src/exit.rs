//! Ways to end that are not plain failures, and the exit status of each.

use std::ffi::OsStr;
use std::fmt;
use std::process::ExitCode;

use sabani::comm;

/// A mistake on the command line, or in a file or variable that it relies on, found before anything was
/// begun: exit status 2.
#[derive(Debug)]
pub struct Usage(pub String);

impl Usage {
    /// What is wrong with something that the command line relies on.
    pub fn of(error: impl Into<anyhow::Error>) -> Self {
        Self(format!("{:#}", error.into()))
    }
}

/// The user stopped the program; says how to go on. Exit status 130, as a shell has it.
#[derive(Debug)]
pub struct Interrupted(pub String);

/// A program that the command line names can't be run. Exit status 127 if it is not there, 126 if it is, as a
/// shell has it.
#[derive(Debug)]
pub struct NotRun {
    /// The exit status.
    pub status: u8,
    problem: String,
}

impl NotRun {
    /// There is no such program.
    pub fn not_found(program: &OsStr, why: impl fmt::Display) -> Self {
        Self::new(127, program, why)
    }

    /// The system does not start it.
    pub fn not_executable(program: &OsStr, why: impl fmt::Display) -> Self {
        Self::new(126, program, why)
    }

    fn new(status: u8, program: &OsStr, why: impl fmt::Display) -> Self {
        let problem = format!("cannot run `{}`: {why}", program.display());
        Self { status, problem }
    }
}

/// Nobody reads standard output any more, and nobody wants to hear of that. Exit status 141, as a
/// shell has it.
#[derive(Debug)]
pub struct Unread;

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

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody reads standard output any more")
    }
}

impl std::error::Error for Usage {}
impl std::error::Error for Interrupted {}
impl std::error::Error for NotRun {}
impl std::error::Error for Unread {}

/// The exit status for an error.
pub fn code(error: &anyhow::Error) -> ExitCode {
    // What a node can't be opened with was named by the command line or a variable.
    let of_node = match error.downcast_ref() {
        Some(comm::Error::Node(error)) => Some(error),
        _ => error.downcast_ref(),
    };
    let of_variable = matches!(
        error.downcast_ref(),
        Some(comm::Error::Network(_) | comm::Error::Algorithms { .. })
    );
    let of_layers = matches!(of_node, Some(sabani::Error::Layers { .. }));
    if error.is::<Usage>() || of_variable || of_layers {
        ExitCode::from(2)
    } else if error.is::<Interrupted>() {
        ExitCode::from(130)
    } else if let Some(NotRun { status, .. }) = error.downcast_ref() {
        ExitCode::from(*status)
    } else if error.is::<Unread>() {
        ExitCode::from(141)
    } else {
        ExitCode::FAILURE
    }
}
