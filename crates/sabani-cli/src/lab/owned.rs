//! A lab that ends with the program that made it, even when that is killed.

use anyhow::Result;

use super::{args::NameArgs, down, names::Lab, up::Plan};
use crate::{
    guard::{self, Guard},
    tools,
};

/// A lab that is taken down when dropped.
pub struct OwnedLab {
    /// What it is called.
    pub lab: Lab,
    _guard: Guard,
}

impl OwnedLab {
    /// Makes a lab.
    ///
    /// # Errors
    /// As [`Plan::make`].
    pub fn make(plan: &Plan) -> Result<Self> {
        tools::need_root("")?;
        let lab = plan.lab.clone();
        let _guard = Guard::start(["lab", "guard", "--name", &lab.to_string()])?;
        let owned = Self { lab, _guard };
        plan.make()?;
        Ok(owned)
    }
}

/// Runs the guard.
///
/// # Errors
/// If the lab can't be taken down.
pub fn guard(args: &NameArgs) -> Result<()> {
    guard::wait()?;
    down::end(&args.lab).map(|_| ())
}
