//! Signals as something to wait for, instead of something that interrupts.

use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Those that are passed on to the ranks.
const PASSED_ON: [Signal; 7] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
];

/// Signals that have come.
pub struct Signals(SignalFd);

impl Signals {
    /// Begins to collect those that are passed on, and the ends of children. Threads and children
    /// that are started from now on don't get them.
    ///
    /// # Errors
    /// If the system has no more descriptors.
    pub fn collect() -> Result<Self> {
        let mut set: SigSet = PASSED_ON.into_iter().collect();
        set.add(Signal::SIGCHLD);
        set.thread_block()?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let signals = SignalFd::with_flags(&set, flags).context("watching for signals")?;
        Ok(Self(signals))
    }

    /// The next one.
    pub fn next(&self) -> Option<Signal> {
        let info = self.0.read_signal().ok()??;
        Signal::try_from(info.ssi_signo as i32).ok()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Lets all signals through again, for a program that is about to begin.
///
/// # Errors
/// None that is known.
pub fn let_through() -> Result<()> {
    Ok(SigSet::all().thread_unblock()?)
}

/// Whether a signal asks a program to end.
pub fn asks_to_end(signal: Signal) -> bool {
    matches!(
        signal,
        Signal::SIGHUP | Signal::SIGINT | Signal::SIGQUIT | Signal::SIGTERM
    )
}
