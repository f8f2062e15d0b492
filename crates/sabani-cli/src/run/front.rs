//! The process that the user has started.

use std::env;
use std::io::{self, PipeWriter, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{self, Command};

use anyhow::Result;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, getpid};
use sabani_launch::Environment;

use super::args::RunArgs;
use super::descendants;
use super::end::End;
use super::signals::Signals;
use crate::exit::Usage;
use crate::program;
use crate::tell::note;
use crate::threads::Started;

/// Runs the job and ends with its exit status.
///
/// # Errors
/// [`NotRun`](crate::exit::NotRun), [`Usage`]; and if the keeper can't be started.
pub fn run(args: &RunArgs) -> Result<()> {
    if args.with_parent {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
    }
    check_size(args.ranks, &Environment::current())?;
    // Here, so that its absence is said once, and not by each rank.
    program::find(&args.command[0])?;
    prctl::set_child_subreaper(true)?;
    let signals = Signals::collect()?;
    let (orders, passed_on) = io::pipe().started("the process that keeps the ranks")?;
    // It closes here, after the keeper has a copy.
    fcntl(&orders, FcntlArg::F_SETFD(FdFlag::empty()))?;
    let keeper = Command::new(env::current_exe()?)
        .args(["run-keeper", "--front"])
        .arg(getpid().to_string())
        .arg("--orders")
        .arg(orders.as_raw_fd().to_string())
        .args(env::args_os().skip(2))
        .spawn()
        .started("the process that keeps the ranks")?;
    let keeper = Pid::from_raw(keeper.id() as i32);
    drop(orders);
    let end = watch(keeper, &signals, passed_on)?;
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

/// Fails if the user's environment speaks of another number of ranks. Where this is started by a rank,
/// that is the rank's job.
fn check_size(ranks: u32, environment: &Environment) -> Result<(), Usage> {
    if environment.path("SABANI_RUN_FD").is_some() {
        return Ok(());
    }
    let size: Option<u32> = environment.number("SABANI_SIZE").map_err(Usage::of)?;
    match size.filter(|&size| size != ranks) {
        None => Ok(()),
        Some(size) => Err(Usage(format!(
            "SABANI_SIZE is {size}, but `sabani run` is to start {ranks}: unset it, or say `-n {size}`"
        ))),
    }
}

/// Passes signals on until the keeper has ended. Not as signals: where the whole group is told, the keeper's own one
/// may be pending still, and two of a kind are one.
fn watch(keeper: Pid, signals: &Signals, mut passed_on: PipeWriter) -> Result<End> {
    loop {
        let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::NONE)?;
        while let Some(signal) = signals.next() {
            // If the keeper has ended, that is the next thing to hear.
            let mut pass_on = || drop(passed_on.write_all(&[signal as u8]));
            match signal {
                Signal::SIGCHLD => {
                    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
                    if let Some(end) = End::of(waitid(Id::Pid(keeper), flags)?) {
                        return Ok(end);
                    }
                }
                Signal::SIGTSTP => {
                    pass_on();
                    raise(Signal::SIGSTOP)?;
                    kill(keeper, Signal::SIGCONT)?;
                }
                _ => pass_on(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_the_user_has_set_must_be_that_of_the_job() {
        let check = |variables: &[(&str, &str)]| {
            let environment = variables.iter().copied().collect();
            check_size(4, &environment).map_err(|why| why.to_string())
        };
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&[("SABANI_SIZE", "4")]), Ok(()));
        assert!(
            check(&[("SABANI_SIZE", "8")])
                .unwrap_err()
                .contains("`-n 8`")
        );
        assert!(check(&[("SABANI_SIZE", "many")]).is_err());
        // A rank of a job of eight starts one of four.
        let nested = [("SABANI_SIZE", "8"), ("SABANI_RUN_FD", "5")];
        assert_eq!(check(&nested), Ok(()));
    }
}
