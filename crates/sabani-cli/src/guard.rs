//! A process that cleans up after this one, even when that is killed.

use std::{
    io::{self, Read},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

use anyhow::Result;

use crate::threads::Started;

/// A second process of this program, out of reach of the terminal's Ctrl-C. It cleans up when this is
/// dropped, which waits for it; at the latest when this process is no more.
pub struct Guard(Child);

impl Guard {
    /// Starts the program with these arguments; it must begin with [`wait`].
    ///
    /// # Errors
    /// If it does not start.
    pub fn start<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        Command::new(std::env::current_exe()?)
            .args(arguments)
            .process_group(0)
            .stdin(Stdio::piped())
            .spawn()
            .map(Self)
            .started("the process that cleans up")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It says itself what goes wrong.
        let _ = self.0.wait();
    }
}

/// In a guard: waits until it is to clean up.
///
/// # Errors
/// If standard input can't be read.
pub fn wait() -> Result<()> {
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
