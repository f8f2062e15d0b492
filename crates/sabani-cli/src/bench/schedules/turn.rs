//! Two nodes whose layers share two cores.

use std::{
    collections::HashSet,
    fs,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use nix::{
    errno::Errno,
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use sabani::{Match, Node, PeerId, Schedule};
use sabani_ring::{cores, pin};

use crate::bench::transport::{Key, sabani::builder};

const SENDER: PeerId = PeerId(0);
const RECEIVER: PeerId = PeerId(1);
const TAG: u64 = 1;
/// Sent and not received yet: enough that every thread always has something to do, and little enough to stay in caches.
const AHEAD_BYTES: usize = 512 << 10;
const MOST_AHEAD: u64 = 1_000;
const PATIENCE: Duration = Duration::from_secs(10);
/// Fruitless looks between two looks at the clock.
const LOOKS: u32 = 1_000;

/// Both ends of a connection, in this process.
pub struct Ends {
    sender: Node,
    receiver: Node,
    /// Where the caller ran before.
    anywhere: CpuSet,
}

impl Drop for Ends {
    fn drop(&mut self) {
        // Else the next nodes would find one core.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.anywhere);
    }
}

impl Ends {
    /// Opens both, sealed if there is a key, and divides the cores: the caller is on the first, all threads of the nodes
    /// are on the second.
    ///
    /// # Errors
    /// If the schedule is none for a node, or the system refuses a socket.
    pub fn open(schedule: &Schedule, key: Option<Key>) -> Result<Self> {
        let anywhere = sched_getaffinity(Pid::from_raw(0))?;
        let before = threads()?;
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        // Nobody waits for those whose other end is gone.
        let linger = Duration::ZERO;
        let open = |id| {
            let builder = builder(id, any, key).layers(schedule.clone());
            builder.linger(linger).open()
        };
        let ends = Self {
            sender: open(SENDER)?,
            receiver: open(RECEIVER)?,
            anywhere,
        };
        divide_cores(&threads()?.difference(&before).copied().collect::<Vec<_>>())?;
        ends.sender.add_peer(RECEIVER, ends.receiver.local_addr())?;
        ends.receiver.add_peer(SENDER, ends.sender.local_addr())?;
        Ok(ends)
    }

    /// Sends messages of `size` bytes for that long; the megabytes (10⁶ bytes) that arrive in a second.
    ///
    /// # Errors
    /// If a message does not arrive whole and in its turn.
    pub fn turn(&self, size: usize, time: Duration) -> Result<f64> {
        let body = Arc::new(vec![1; size]);
        // They meet, and find out what the path carries.
        self.pass(&body, time / 10)?;
        let begun = Instant::now();
        let received = self.pass(&body, time)?;
        Ok((received * size as u64) as f64 / begun.elapsed().as_secs_f64() / 1e6)
    }

    /// Sends for that long, and takes all of it; how many messages that was.
    fn pass(&self, body: &Arc<Vec<u8>>, time: Duration) -> Result<u64> {
        let begun = Instant::now();
        let ahead = ((AHEAD_BYTES / body.len()) as u64).clamp(1, MOST_AHEAD);
        let (mut sent, mut received) = (0, 0);
        while begun.elapsed() < time {
            while sent < received + ahead && self.sender.is_writable(RECEIVER, body.len())? {
                self.sender.send_owned(RECEIVER, TAG, Arc::clone(body))?;
                sent += 1;
            }
            self.sender.progress()?;
            received += self.take(body.len())?;
        }
        self.take_rest(body.len(), sent - received)?;
        Ok(sent)
    }

    /// Takes what is there.
    fn take(&self, size: usize) -> Result<u64> {
        let mut taken = 0;
        while let Some(message) = self.receiver.try_recv(Match::any())? {
            ensure!(message.body().len() == size, "a message came in part");
            taken += 1;
        }
        Ok(taken)
    }

    fn take_rest(&self, size: usize, mut left: u64) -> Result<()> {
        let begun = Instant::now();
        while left > 0 {
            for _ in 0..LOOKS {
                self.sender.progress()?;
                left -= self.take(size)?;
            }
            if begun.elapsed() > PATIENCE {
                bail!("{left} messages have not come");
            }
        }
        Ok(())
    }
}

/// The threads of this process.
fn threads() -> Result<HashSet<Pid>> {
    fs::read_dir("/proc/self/task")?
        .map(|entry| Ok(Pid::from_raw(entry?.file_name().to_string_lossy().parse()?)))
        .collect()
}

/// Moves the caller to the first core, and others to the second, if there is one.
fn divide_cores(others: &[Pid]) -> Result<()> {
    let [first, second] = cores(2)[..] else {
        return Ok(());
    };
    pin(first);
    let mut set = CpuSet::new();
    set.set(second)?;
    for &thread in others {
        match sched_setaffinity(thread, &set) {
            // It has ended meanwhile.
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_arrives_under_every_schedule() {
        for schedule in ["inline", "background", "per-layer"] {
            let ends = Ends::open(&schedule.parse().unwrap(), Some(Key([1; 32]))).unwrap();
            for size in [1, 64 << 10, 1 << 20] {
                let rate = ends.turn(size, Duration::from_millis(5)).unwrap();
                assert!(rate > 0.0, "{schedule}");
            }
        }
    }
}
