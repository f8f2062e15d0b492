//! Which cores the processes that are measured run on.

use std::thread;

use anyhow::{Result, anyhow};
use nix::{
    errno::Errno,
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

use super::args::Pin;
use crate::exit::Usage;

/// The first two cores that this process may use, if there are as many.
pub fn default_pin() -> Pin {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    let mut cores = (0..CpuSet::count()).filter(|&core| allowed.is_set(core).unwrap_or(false));
    match (cores.next(), cores.next()) {
        (Some(client), Some(server)) => Pin::Cores(client, server),
        _ => Pin::None,
    }
}

/// Moves this thread to one core.
///
/// # Errors
/// If it can't be there.
pub fn pin(core: usize) -> Result<()> {
    let mut cores = CpuSet::new();
    cores
        .set(core)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &cores))
        .map_err(|error| match error {
            Errno::EINVAL => anyhow!(
                "cannot run on core {core}: the machine has no such core, or this process may not use it: \
                 choose others with `--pin` (`taskset -cp $$` lists them), or none"
            ),
            error => anyhow!("cannot run on core {core}: {error}"),
        })
}

/// Finds out whether processes can run on these cores before they are started.
///
/// # Errors
/// [`Usage`].
pub fn expect(cores: impl IntoIterator<Item = usize>) -> Result<()> {
    for core in cores {
        let tried = thread::scope(|scope| scope.spawn(|| pin(core)).join());
        tried.unwrap_or(Ok(())).map_err(Usage::of)?;
    }
    Ok(())
}
