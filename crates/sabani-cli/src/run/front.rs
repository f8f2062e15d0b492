//! The process that the user has started.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{self, Command};

use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, getpid};
use std::os::fd::AsFd;

use super::args::RunArgs;
use super::descendants;
use super::end::End;
use super::signals::Signals;
use crate::tell::note;

/// As a shell has it for programs that are not there, and for those that can't be run.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

/// Runs the job and ends with its exit status.
///
/// # Errors
/// If the keeper can't be started.
pub fn run(args: &RunArgs) -> Result<()> {
    if let Err((problem, status)) = find(&args.command[0]) {
        note(format_args!(
            "sabani: cannot run `{}`: {problem}",
            args.command[0].display()
        ));
        process::exit(status);
    }
    prctl::set_child_subreaper(true)?;
    let signals = Signals::collect()?;
    let keeper = Command::new(env::current_exe()?)
        .args(["run-keeper", "--front"])
        .arg(getpid().to_string())
        .args(env::args_os().skip(2))
        .spawn()
        .context("cannot start the process that keeps the ranks")?;
    let keeper = Pid::from_raw(keeper.id() as i32);
    let end = watch(keeper, &signals)?;
    // Nobody, unless the keeper was killed.
    descendants::kill_all();
    if let End::Killed(_) = end {
        note(format_args!(
            "sabani: the job is over: its keeper {}",
            end.why()
        ));
    }
    process::exit(end.status())
}

/// Passes signals on until the keeper has ended.
fn watch(keeper: Pid, signals: &Signals) -> Result<End> {
    loop {
        let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::NONE)?;
        while let Some((signal, _)) = signals.next() {
            match signal {
                Signal::SIGCHLD => {
                    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
                    if let Some(end) = End::of(waitid(Id::Pid(keeper), flags)?) {
                        return Ok(end);
                    }
                }
                Signal::SIGTSTP => {
                    kill(keeper, Signal::SIGTSTP)?;
                    raise(Signal::SIGSTOP)?;
                    kill(keeper, Signal::SIGCONT)?;
                }
                // If it has ended, that is the next thing to hear.
                signal => drop(kill(keeper, signal)),
            }
        }
    }
}

/// Looks for a program where the system would, so that its absence is said once, and not by each
/// rank.
fn find(program: &OsStr) -> Result<(), (&'static str, i32)> {
    let is_file = |path: &Path| path.metadata().is_ok_and(|data| data.is_file());
    let is_executable = |path: &Path| {
        let mode = path.metadata().map(|data| data.permissions().mode());
        is_file(path) && mode.is_ok_and(|mode| mode & 0o111 != 0)
    };
    let path = Path::new(program);
    if path.components().count() > 1 || program.as_encoded_bytes().contains(&b'/') {
        return match (is_file(path), is_executable(path)) {
            (_, true) => Ok(()),
            (true, false) => Err(("it is not executable", NOT_EXECUTABLE)),
            (false, false) => Err(("there is no such file", NOT_FOUND)),
        };
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders).any(|folder| is_executable(&folder.join(program)));
    found.then_some(()).ok_or((
        "no folder in PATH has it; write ./ before a program in this folder",
        NOT_FOUND,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_for() {
        for (program, outcome) in [
            ("sh", Ok(())),
            ("/bin/sh", Ok(())),
            ("sabani-no-such-program", Err(127)),
            ("./sabani-no-such-program", Err(127)),
            ("/etc/passwd", Err(126)),
            ("/etc", Err(127)),
        ] {
            let found = find(OsStr::new(program)).map_err(|(_, status)| status);
            assert_eq!(found, outcome, "{program}");
        }
    }
}
