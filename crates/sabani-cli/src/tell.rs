//! Standard output and standard error. Who reads them may leave early, as `head -1` does.

use std::fmt::Display;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{Result, anyhow};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::exit::Unread;

/// Has the node's warnings printed, as of a socket buffer that the system has clamped, and how to cure that.
pub fn show_warnings() {
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(io::stderr)
        .with_target(false)
        .without_time()
        .init();
}

/// Prints a line.
///
/// # Errors
/// As [`print`].
pub fn say(line: impl Display) -> Result<()> {
    print(format_args!("{line}\n"))
}

/// Prints text, which may be many lines.
///
/// # Errors
/// [`Unread`], or the system's.
pub fn print(text: impl Display) -> Result<()> {
    let mut output = io::stdout().lock();
    explained_stdout(write!(output, "{text}").and_then(|()| output.flush()))
}

/// Fails where nobody reads standard output any more: work whose results come later would be in vain.
///
/// # Errors
/// [`Unread`].
pub fn expect_reader() -> Result<()> {
    let stdout = io::stdout();
    let mut fds = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    poll(&mut fds, PollTimeout::ZERO)?;
    let events = fds[0].revents().unwrap_or(PollFlags::empty());
    match events.contains(PollFlags::POLLERR) {
        true => Err(Unread.into()),
        false => Ok(()),
    }
}

/// Tells the user something beside the results. If nobody hears it, the work goes on. All at once, for others may write
/// to the same place.
pub fn note(line: impl Display) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// What an error of writing results means.
///
/// # Errors
/// As the outcome.
pub fn explained(written: io::Result<()>) -> Result<()> {
    explained_at("", written)
}

/// What an error of writing results to standard output means: its file or device is named.
///
/// # Errors
/// As the outcome.
pub fn explained_stdout(written: io::Result<()>) -> Result<()> {
    if written.is_ok() {
        return Ok(());
    }
    let name = fs::read_link("/proc/self/fd/1").unwrap_or_default();
    // Pipes and connections have no name that says anything.
    let place = match name.is_absolute() {
        true => format!(" to {}", name.display()),
        false => String::new(),
    };
    explained_at(&place, written)
}

/// The same for a file of the command line, `-` being standard output.
///
/// # Errors
/// As the outcome.
pub fn explained_file(path: &Path, written: io::Result<()>) -> Result<()> {
    match path == Path::new("-") {
        true => explained_stdout(written),
        false => explained_at(&format!(" to {}", path.display()), written),
    }
}

fn explained_at(place: &str, written: io::Result<()>) -> Result<()> {
    written.map_err(|error| match error.kind() {
        // Where it is a connection, it may end in either way.
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Unread.into(),
        _ => anyhow!("the results can't be written{place}: {error}"),
    })
}
