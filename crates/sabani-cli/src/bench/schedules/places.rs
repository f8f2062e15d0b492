//! Which cores the threads of both ends run on.

use std::{collections::HashSet, fs};

use anyhow::Result;
use nix::{
    errno::Errno,
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};
use sabani::Schedule;
use sabani_ring::cores;

/// Groups that a node can be divided into, at most: messages and channel, seal, datagrams.
const GROUPS: usize = 3;

/// Which cores the threads of both ends run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Places {
    /// One thread calls both nodes, on the first; all threads that they have of their own share the second.
    Together(Vec<usize>),
    /// Each node is called by a thread of its own, on the first of its cores; each thread that it has of its own is
    /// on another.
    Apart([Vec<usize>; 2]),
}

impl Places {
    /// As this process's cores allow: a core for each thread if there are enough.
    pub fn find() -> Self {
        let mut cores = cores(2 * GROUPS);
        if cores.len() < 2 * GROUPS {
            cores.truncate(2);
            return Self::Together(cores);
        }
        let second = cores.split_off(GROUPS);
        Self::Apart([cores, second])
    }

    /// Of the first node or the second: the caller's core, and those of the node's own threads.
    pub fn of(&self, node: usize) -> (usize, &[usize]) {
        match self {
            Self::Together(cores) => (cores[0], &cores[cores.len() - 1..]),
            Self::Apart(cores) => (cores[node][0], &cores[node][1..]),
        }
    }

    /// How many cores the threads of both ends have under a schedule.
    pub fn count(&self, schedule: &Schedule) -> usize {
        let groups = match schedule {
            Schedule::Inline => 1,
            Schedule::Background => 2,
            Schedule::Groups(groups) => groups.len(),
            Schedule::PerCore | Schedule::PerLayer => GROUPS,
        };
        match self {
            Self::Together(cores) => groups.min(cores.len()),
            Self::Apart(_) => 2 * groups,
        }
    }
}

/// A thread of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thread(i32);

/// All there are.
///
/// # Errors
/// If the system does not tell.
pub fn threads() -> Result<HashSet<Thread>> {
    fs::read_dir("/proc/self/task")?
        .map(|entry| Ok(Thread(entry?.file_name().to_string_lossy().parse()?)))
        .collect()
}

impl Thread {
    /// Whether it only helps while nobody calls.
    pub fn is_helper(self) -> bool {
        let path = format!("/proc/self/task/{}/comm", self.0);
        fs::read_to_string(path).is_ok_and(|name| name.trim() == "sabani-helper")
    }

    /// Moves it to a core.
    ///
    /// # Errors
    /// If the system does not let it.
    pub fn pin(self, core: usize) -> Result<()> {
        let mut set = CpuSet::new();
        set.set(core)?;
        match sched_setaffinity(Pid::from_raw(self.0), &set) {
            // It has ended meanwhile.
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_cores_of_their_own_where_there_are_enough() {
        let together = Places::Together(vec![0, 1]);
        assert_eq!(together.of(0), (0, &[1][..]));
        assert_eq!(together.of(1), (0, &[1][..]));
        let apart = Places::Apart([vec![0, 2, 4], vec![6, 8, 10]]);
        assert_eq!(apart.of(1), (6, &[8, 10][..]));
        for (schedule, counts) in [
            ("inline", [1, 2]),
            ("background", [2, 4]),
            ("[messages+channel][seal+datagrams]", [2, 4]),
            ("per-layer", [2, 6]),
        ] {
            let schedule = schedule.parse().unwrap();
            assert_eq!(
                [&together, &apart].map(|places| places.count(&schedule)),
                counts
            );
        }
        assert_eq!(Places::Together(vec![3]).of(0), (3, &[3][..]));
    }
}
