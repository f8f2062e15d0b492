//! Which cores the threads run on.

use std::fs;

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::{Pid, getpid},
};

/// The cores for threads that this one starts, one at least: those that it may use itself. If it is pinned to a single
/// one, that is not meant for others as well: then those of the process's main thread.
pub fn allowed() -> Vec<usize> {
    let mut cores = allowed_to(Pid::from_raw(0));
    if cores.len() <= 1 {
        cores = allowed_to(getpid());
    }
    match cores.is_empty() {
        true => vec![0],
        false => cores,
    }
}

fn allowed_to(thread: Pid) -> Vec<usize> {
    let set = sched_getaffinity(thread).unwrap_or_default();
    let is_set = |&core: &usize| set.is_set(core).unwrap_or(false);
    (0..CpuSet::count()).filter(is_set).collect()
}

/// Up to so many of the [`allowed`] cores, one at least: first one of each physical core, then others that share one.
pub fn cores(wanted: usize) -> Vec<usize> {
    let cores = allowed();
    let shares = |&core: &usize| {
        let siblings = siblings(core);
        cores
            .iter()
            .any(|other| *other < core && siblings.contains(other))
    };
    let (later, mut first): (Vec<_>, Vec<_>) = cores.iter().partition(|core| shares(core));
    first.extend(later);
    first.truncate(wanted.max(1));
    first
}

/// The logical cores of the same physical one, as far as the system tells.
fn siblings(core: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    parse_list(&fs::read_to_string(path).unwrap_or_default())
}

/// Reads a list as in `0,4` or `0-1`.
fn parse_list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

/// Keeps this thread on one core.
pub fn pin(core: usize) {
    keep_on(&[core]);
}

/// Keeps this thread on these cores. Where the system does not let it, it goes on as it was: slower, but right.
pub fn keep_on(cores: &[usize]) {
    let mut set = CpuSet::new();
    if cores.iter().all(|&core| set.set(core).is_ok()) {
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    }
}

#[cfg(test)]
#[cfg(not(any(loom, miri)))]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_read() {
        assert_eq!(parse_list("0,4\n"), [0, 4]);
        assert_eq!(parse_list("2-3"), [2, 3]);
        assert_eq!(parse_list("0-1,8-9"), [0, 1, 8, 9]);
        assert_eq!(parse_list(""), []);
    }

    #[test]
    fn a_pinned_thread_starts_others_where_the_process_runs() {
        let before = allowed();
        let last = before[before.len() - 1];
        std::thread::spawn(move || {
            pin(last);
            assert_eq!(allowed_to(Pid::from_raw(0)), [last]);
            assert_eq!(allowed(), allowed_to(getpid()));
            keep_on(&allowed());
            assert_eq!(allowed_to(Pid::from_raw(0)), allowed_to(getpid()));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn cores_are_those_allowed_each_once() {
        let mut all = cores(usize::MAX);
        assert_eq!(cores(0), all[..1]);
        all.sort_unstable();
        assert_eq!(all, allowed());
    }
}
