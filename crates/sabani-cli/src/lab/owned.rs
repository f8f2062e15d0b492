//! A lab that ends with the program that made it, even when that is killed.

use std::{
    io::{self, Read},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};

use super::{args::NameArgs, down, names::Lab, up::Plan};

/// A lab that is taken down when dropped. A guard process sees to that: it waits for its standard input
/// to end, as it does at the latest when this process is no more.
pub struct OwnedLab {
    /// What it is called.
    pub lab: Lab,
    guard: Child,
}

impl OwnedLab {
    /// Makes a lab.
    ///
    /// # Errors
    /// As [`Plan::make`].
    pub fn make(plan: &Plan) -> Result<Self> {
        crate::tools::need_root("")?;
        let guard = Command::new(std::env::current_exe()?)
            .args(["lab", "guard", "--name", &plan.lab.to_string()])
            .process_group(0)
            .stdin(Stdio::piped())
            .spawn()
            .context("cannot start the process that guards the lab")?;
        let lab = plan.lab.clone();
        let owned = Self { lab, guard };
        plan.make()?;
        Ok(owned)
    }
}

impl Drop for OwnedLab {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        // It says itself what goes wrong.
        let _ = self.guard.wait();
    }
}

/// Runs the guard.
///
/// # Errors
/// If the lab can't be taken down.
pub fn guard(args: &NameArgs) -> Result<()> {
    io::stdin().read_to_end(&mut Vec::new())?;
    down::end(&args.lab).map(|_| ())
}
