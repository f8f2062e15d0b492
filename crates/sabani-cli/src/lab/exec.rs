//! Running programs on a host.

use std::{ffi::OsStr, os::unix::process::CommandExt, path::Path, process::Command};

use anyhow::{Context, Result};
use nix::{
    sched::{CloneFlags, unshare},
    sys::{prctl, signal::Signal},
    unistd::sethostname,
};

use super::{
    args::ExecArgs,
    names::{Host, Lab},
};
use crate::{program, tools};

/// Becomes the command, on a host: with its network, its files of names, and its host name.
///
/// # Errors
/// Without root, if there is no such host, [`NotRun`](crate::exit::NotRun), or if the command can't be started.
pub fn run(args: &ExecArgs) -> Result<()> {
    tools::need_root("")?;
    args.name.lab.check(args.host)?;
    // `ip` would say it in its own words, and end as if it had failed itself.
    program::find(&args.command[0])?;
    if args.with_parent {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
    }
    unshare(CloneFlags::CLONE_NEWUTS).context("cannot have a host name of its own")?;
    sethostname(args.host.to_string())?;
    let error = Command::new("ip")
        .args(["netns", "exec", &args.name.lab.namespace(args.host)])
        .args(&args.command)
        .exec();
    Err(error).context("cannot run `ip`: install the package iproute2")
}

/// A command that runs a program on a host, in the process that is started, for as long as this one lives.
pub fn command(own: &Path, lab: &Lab, host: Host, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(own);
    let (lab, host) = (lab.to_string(), host.to_string());
    command.args(["lab", "exec", "--with-parent", "--name", &lab, &host, "--"]);
    command.arg(program);
    command
}
