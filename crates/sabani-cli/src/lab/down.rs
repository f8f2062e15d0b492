//! Ending a lab.

use std::{fs, io, process, thread, time::Duration};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    args::NameArgs,
    names::{Lab, OVERLAYS, is_namespace},
    turn::Turn,
};
use crate::{exit::Interrupted, interrupt, tell::say, tools};

/// How often programs are looked for until they are gone, and the pause between.
const LOOKS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(10);

/// Runs `sabani lab down`.
///
/// # Errors
/// Without root, if something can't be removed, or if the user interrupts; the lab is down even so.
pub fn run(args: &NameArgs) -> Result<()> {
    interrupt::install()?;
    let lab = &args.lab;
    let done = match end(lab)? {
        true => format!("lab `{lab}` is down"),
        false => format!("there was no lab `{lab}`"),
    };
    match interrupt::requested() {
        true => Err(Interrupted(format!("interrupted, but not cut short: {done}")).into()),
        false => say(done),
    }
}

/// Ends a lab, finished or not; whether there was one.
///
/// # Errors
/// Without root, or if something can't be removed.
pub fn end(lab: &Lab) -> Result<bool> {
    tools::need_root("")?;
    let _turn = Turn::wait()?;
    remove(lab)
}

/// Removes all that there is of a lab, for somebody whose turn it is; whether there was anything. Half a lab
/// is of no use to anybody, so that a signal that ends a tool on the way does not end this.
///
/// # Errors
/// If something can't be removed.
pub fn remove(lab: &Lab) -> Result<bool> {
    let existed = lab.exists()?;
    loop {
        match remove_what_is_left(lab, existed) {
            Err(error) if error.is::<Interrupted>() => {}
            removed => return removed.map(|()| existed),
        }
    }
}

/// The switch goes last, since a lab without one is not taken for a running one.
fn remove_what_is_left(lab: &Lab, existed: bool) -> Result<()> {
    for host in lab.hosts()? {
        remove_namespace(&lab.namespace(host))?;
        let overlay = lab.overlay(host);
        match fs::remove_dir_all(&overlay) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => {
                removed.with_context(|| format!("cannot remove {}", overlay.display()))?;
            }
        }
    }
    remove_namespace(&lab.switch())?;
    if existed {
        // Made with the first lab, so it goes with the last; it stays while others have files there.
        let _ = fs::remove_dir(OVERLAYS);
    }
    Ok(())
}

/// A namespace lives as long as a program in it, so these go first.
fn remove_namespace(name: &str) -> Result<()> {
    if !is_namespace(name)? {
        return Ok(());
    }
    kill_programs(name)?;
    tools::run("ip", &format!("netns del {name}")).map(|_| ())
}

fn kill_programs(namespace: &str) -> Result<()> {
    for _ in 0..LOOKS {
        let programs = programs(namespace)?;
        if programs.is_empty() {
            return Ok(());
        }
        for program in programs {
            // It may have ended meanwhile.
            let _ = kill(program, Signal::SIGKILL);
        }
        thread::sleep(PAUSE);
    }
    bail!("programs in {namespace} do not end")
}

/// Programs in a namespace, other than this one. A name whose namespace was never finished has none.
///
/// # Errors
/// [`Interrupted`].
pub fn programs(namespace: &str) -> Result<Vec<Pid>> {
    let listed = match tools::run("ip", &format!("netns pids {namespace}")) {
        Err(error) if error.is::<Interrupted>() => return Err(error),
        listed => listed.unwrap_or_default(),
    };
    let numbers = listed.lines().filter_map(|line| line.trim().parse().ok());
    Ok(numbers
        .filter(|&pid: &i32| pid != process::id() as i32)
        .map(Pid::from_raw)
        .collect())
}
