//! Making and ending labs takes turns.

use std::{
    fs::{File, OpenOptions},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use rustix::{
    fs::{FlockOperation, flock},
    io::{Errno, FdFlags, fcntl_setfd},
};

use crate::{exit::Interrupted, interrupt};

const PATH: &str = "/run/sabani-lab.lock";
/// How often it is looked whether the turn before is over.
const LOOK: Duration = Duration::from_millis(10);

/// A turn, over when dropped and when the tools started in it have ended: they inherit the
/// lock, so that what a killed program left running can't add to a lab that is being taken down.
pub struct Turn(#[expect(dead_code, reason = "held, not used")] File);

impl Turn {
    /// Waits for a turn.
    ///
    /// # Errors
    /// If the lock can't be had, or the user interrupts.
    pub fn wait() -> Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(PATH)
            .with_context(|| format!("cannot open {PATH}"))?;
        // A call that waits for the lock would go on after a signal.
        while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error != Errno::WOULDBLOCK {
                bail!("cannot lock {PATH}: {error}");
            }
            if interrupt::requested() {
                let what = "interrupted: nothing was done yet, another lab is being made or ended";
                bail!(Interrupted(what.into()));
            }
            thread::sleep(LOOK);
        }
        fcntl_setfd(&file, FdFlags::empty())?;
        Ok(Self(file))
    }
}
