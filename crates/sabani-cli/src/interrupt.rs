//! Ctrl-C and termination: the first asks everybody to stop, the second ends the process.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::tell::note;
use crate::threads::Started;

/// How often those who wait look whether they are to stop.
pub const TICK: Duration = Duration::from_millis(100);

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Begins to watch for signals.
///
/// # Errors
/// If the system refuses a handler.
pub fn install() -> Result<()> {
    ctrlc::set_handler(|| {
        if REQUESTED.swap(true, Ordering::Relaxed) {
            process::exit(130);
        }
    })
    .or_else(refused)
}

/// The same for work that has nothing to clean up: the first one ends the process.
///
/// # Errors
/// As [`install`].
pub fn install_end() -> Result<()> {
    ctrlc::set_handler(|| {
        note(format_args!("sabani: interrupted"));
        process::exit(130)
    })
    .or_else(refused)
}

fn refused(why: ctrlc::Error) -> Result<()> {
    match why {
        // It has a thread.
        ctrlc::Error::System(why) => Err(why).started("watching for Ctrl-C"),
        other => Err(other).context("watching for Ctrl-C"),
    }
}

/// Whether the user wants to stop.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
