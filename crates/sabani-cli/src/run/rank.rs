//! The process that becomes a rank's program.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};

use super::args::RankArgs;
use super::signals;
use crate::exit::NotRun;

/// Becomes the program, which is killed when its keeper dies.
///
/// # Errors
/// If the keeper has died already, the cores can't be bound, or the system does not start the program.
pub fn run(args: &RankArgs) -> Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    // It may have died before that.
    ensure!(getppid().as_raw() == args.keeper, "the job is over");
    if !args.cores.is_empty() {
        bind(&args.cores).context("cannot bind to cores")?;
    }
    signals::let_through()?;
    // Where `sabani run` is started with `&`, it ignores them, but passes them on.
    sabani_launch::heed_interrupts()?;
    let error = Command::new(&args.command[0])
        .args(&args.command[1..])
        .env("SABANI_RUN_FD", args.fd.to_string())
        .exec();
    Err(NotRun::not_executable(&args.command[0], error).into())
}

fn bind(cores: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for &core in cores {
        set.set(core)?;
    }
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}
