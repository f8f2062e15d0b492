//! A job of ranks, one on each host.

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::args::RunArgs;
use super::exec;
use super::names::{Host, Lab};
use crate::exit::{Interrupted, Usage};
use crate::key::LentKey;
use crate::run::descendants;
use crate::tell::note;
use crate::threads::Started;
use crate::{interrupt, program, tools};

/// How often it is looked who has ended.
const LOOK: Duration = Duration::from_millis(20);
/// Ranks that are asked to end are killed after so long.
const GRACE: Duration = Duration::from_secs(5);

/// Runs the command as a rank on each host, and ends with the exit status of the first one that fails.
///
/// # Errors
/// Without root, if there is no such lab, [`NotRun`](crate::exit::NotRun); if a rank fails or the user interrupts.
pub fn run(args: &RunArgs) -> Result<()> {
    tools::need_root("")?;
    let lab = &args.name.lab;
    lab.check(Host(1))?;
    program::find(&args.command[0])?;
    let hosts = lab.hosts()?;
    let ranks = args.ranks.map_or(hosts.len(), usize::from);
    ensure!(
        ranks <= hosts.len(),
        Usage(format!(
            "each rank has a host of its own, and the lab `{lab}` has {} for {ranks}: ask for fewer ranks, or make the \
             lab anew with `sabani lab up --name {lab} --hosts {ranks}`, after `sabani lab down --name {lab}`",
            hosts.len()
        ))
    );
    interrupt::install()?;
    prctl::set_child_subreaper(true)?;
    let key = LentKey::make()?;
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let job = Job {
        own: &own,
        lab,
        ranks,
        key: &key.path(),
    };
    let mut running = Running(Vec::new());
    for (rank, &host) in hosts[..ranks].iter().enumerate() {
        let mut command = job.rank(rank, host, &args.command[0]);
        command.args(&args.command[1..]);
        if rank > 0 {
            command.stdin(Stdio::null());
        }
        running.0.push(command.spawn().started("a rank")?);
    }
    let failed = running.watch()?;
    drop(running);
    if interrupt::requested() {
        bail!(Interrupted("interrupted: all ranks have been ended".into()));
    }
    match failed {
        None => Ok(()),
        Some((rank, status)) => {
            note(format_args!(
                "sabani: rank {rank} on {}: {status}",
                hosts[rank]
            ));
            // As a shell has it.
            let of_signal = || 128 + status.signal().unwrap_or(0);
            process::exit(status.code().unwrap_or_else(of_signal))
        }
    }
}

/// What all ranks of a job on a lab's hosts have in common.
pub struct Job<'a> {
    /// This program.
    pub own: &'a Path,
    pub lab: &'a Lab,
    pub ranks: usize,
    /// The file with the job key.
    pub key: &'a Path,
}

impl Job<'_> {
    /// A command that runs a program as a rank, on a host; rank 0's is the first.
    pub fn rank(&self, rank: usize, host: Host, program: impl AsRef<OsStr>) -> Command {
        let mut command = exec::command(self.own, self.lab, host, program);
        command
            .env("SABANI_RENDEZVOUS", Host(1).address().to_string())
            .env("SABANI_RANK", rank.to_string())
            .env("SABANI_SIZE", self.ranks.to_string())
            .env("SABANI_IF", host.address().to_string())
            .env("SABANI_JOB_KEY_FILE", self.key);
        command
    }
}

/// Ranks that have been started; they and whatever they have started are killed if they outlive this.
struct Running(Vec<Child>);

impl Running {
    /// Waits until all have ended; those that are left are asked to when one fails, or the user interrupts. Which one
    /// failed first, and how.
    fn watch(&mut self) -> Result<Option<(usize, ExitStatus)>> {
        let mut failed = None;
        let mut asked: Option<Instant> = None;
        loop {
            let mut left = false;
            for (rank, child) in self.0.iter_mut().enumerate() {
                match child.try_wait()? {
                    Some(status) if failed.is_none() && asked.is_none() && !status.success() => {
                        failed = Some((rank, status));
                    }
                    Some(_) => {}
                    None => left = true,
                }
            }
            if !left {
                return Ok(failed);
            }
            if asked.is_none() && (failed.is_some() || interrupt::requested()) {
                asked = Some(Instant::now());
                self.tell(Signal::SIGTERM);
            }
            if asked.is_some_and(|asked| asked.elapsed() > GRACE) {
                self.tell(Signal::SIGKILL);
            }
            thread::sleep(LOOK);
        }
    }

    fn tell(&mut self, signal: Signal) {
        for child in &mut self.0 {
            if let Ok(None) = child.try_wait() {
                // It may have ended just now.
                let _ = kill(Pid::from_raw(child.id() as i32), signal);
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tell(Signal::SIGKILL);
        for child in &mut self.0 {
            let _ = child.wait();
        }
        descendants::kill_all();
    }
}
