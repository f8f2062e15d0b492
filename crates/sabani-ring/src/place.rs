//! Which cores the threads run on.

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

/// Up to so many of the cores that this process may use, one at least.
pub fn cores(wanted: usize) -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    let cores = (0..CpuSet::count()).filter(|&core| allowed.is_set(core).unwrap_or(false));
    let cores: Vec<_> = cores.take(wanted.max(1)).collect();
    match cores.is_empty() {
        true => vec![0],
        false => cores,
    }
}

/// Keeps this thread on one core. Where the system does not let it, it goes on unpinned: slower, but right.
pub fn pin(core: usize) {
    let mut set = CpuSet::new();
    if set.set(core).is_ok() {
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    }
}
