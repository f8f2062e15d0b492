//! Making and ending labs takes turns.

use std::fs::{File, OpenOptions};

use anyhow::{Context, Result};
use rustix::{
    fs::{FlockOperation, flock},
    io::{FdFlags, fcntl_setfd},
};

const PATH: &str = "/run/sabani-lab.lock";

/// A turn, over when dropped and when the tools started in it have ended: they inherit the
/// lock, so that what a killed program left running can't add to a lab that is being taken down.
pub struct Turn(#[expect(dead_code, reason = "held, not used")] File);

impl Turn {
    /// Waits for a turn.
    ///
    /// # Errors
    /// If the lock can't be had.
    pub fn wait() -> Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(PATH)
            .with_context(|| format!("cannot open {PATH}"))?;
        flock(&file, FlockOperation::LockExclusive)?;
        fcntl_setfd(&file, FdFlags::empty())?;
        Ok(Self(file))
    }
}
