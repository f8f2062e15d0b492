//! Two nodes, one of which sends to the other.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use sabani::{Match, Node, PeerId, Schedule};
use sabani_ring::pin;

use super::places::{Places, Thread, threads};
use crate::bench::transport::{Key, sabani::builder};

const SENDER: PeerId = PeerId(0);
const RECEIVER: PeerId = PeerId(1);
const TAG: u64 = 1;
/// Sent and not received yet: enough that every thread always has something to do, and little enough to stay in caches.
const AHEAD_BYTES: usize = 512 << 10;
const MOST_AHEAD: u64 = 1_000;
const PATIENCE: Duration = Duration::from_secs(10);

/// Both ends of a connection, in this process.
pub struct Ends {
    sender: Node,
    receiver: Node,
    places: Places,
    /// Where the caller ran before.
    anywhere: CpuSet,
}

impl Drop for Ends {
    fn drop(&mut self) {
        // Else the next nodes would find one core.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.anywhere);
    }
}

/// How far a turn has come.
#[derive(Default)]
struct Flow {
    /// Messages that have arrived.
    taken: AtomicU64,
    /// All have.
    over: AtomicBool,
}

impl Ends {
    /// Opens both, sealed if there is a key, and divides the cores.
    ///
    /// # Errors
    /// If the schedule is none for a node, or the system refuses a socket.
    pub fn open(schedule: &Schedule, key: Option<Key>, places: &Places) -> Result<Self> {
        let anywhere = sched_getaffinity(Pid::from_raw(0))?;
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let open = |id: PeerId| -> Result<Node> {
            let before = threads()?;
            let builder = builder(id, any, key).layers(schedule.clone());
            // Threads of both nodes share a core there, and nobody waits for those whose other end is gone.
            let builder = builder.spin_yielding(matches!(places, Places::Together(_)));
            let node = builder.linger(Duration::ZERO).open()?;
            let own: Vec<_> = threads()?.difference(&before).copied().collect();
            divide(own, places.of(id.0 as usize).1)?;
            Ok(node)
        };
        let ends = Self {
            sender: open(SENDER)?,
            receiver: open(RECEIVER)?,
            places: places.clone(),
            anywhere,
        };
        pin(places.of(0).0);
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
        let (flow, size) = (Flow::default(), body.len());
        let Places::Apart(_) = self.places else {
            return self.send(body, time, &flow, || self.take(size, &flow));
        };
        thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                pin(self.places.of(1).0);
                while !flow.over.load(Relaxed) {
                    self.take(size, &flow)?;
                }
                Ok(())
            });
            let sent = self.send(body, time, &flow, || Ok(()));
            flow.over.store(true, Relaxed);
            let received = receiver.join().expect("the receiver does not panic");
            received.and(sent)
        })
    }

    /// Sends for that long, and until all of it has arrived; how many messages that was. Does something else in between.
    fn send(
        &self,
        body: &Arc<Vec<u8>>,
        time: Duration,
        flow: &Flow,
        between: impl Fn() -> Result<()>,
    ) -> Result<u64> {
        let begun = Instant::now();
        let ahead = ((AHEAD_BYTES / body.len()) as u64).clamp(1, MOST_AHEAD);
        let mut sent = 0;
        loop {
            let (elapsed, taken) = (begun.elapsed(), flow.taken.load(Relaxed));
            if elapsed >= time && taken == sent {
                return Ok(sent);
            }
            ensure!(
                elapsed < time + PATIENCE,
                "{} messages have not come",
                sent - taken
            );
            while elapsed < time
                && sent < taken + ahead
                && self.sender.is_writable(RECEIVER, body.len())?
            {
                self.sender.send_owned(RECEIVER, TAG, Arc::clone(body))?;
                sent += 1;
            }
            self.sender.progress()?;
            between()?;
        }
    }

    /// Takes what is there.
    fn take(&self, size: usize, flow: &Flow) -> Result<()> {
        while let Some(message) = self.receiver.try_recv(Match::any())? {
            ensure!(message.body().len() == size, "a message came in part");
            flow.taken.fetch_add(1, Relaxed);
        }
        Ok(())
    }
}

/// Gives each thread that works one of these cores, as far as they go; helpers, which sleep, share the last.
fn divide(mut threads: Vec<Thread>, cores: &[usize]) -> Result<()> {
    threads.sort_unstable();
    let last = cores.len() - 1;
    let (helpers, workers): (Vec<_>, Vec<_>) = threads.into_iter().partition(|t| t.is_helper());
    for (at, thread) in workers.into_iter().enumerate() {
        thread.pin(cores[at.min(last)])?;
    }
    helpers
        .into_iter()
        .try_for_each(|helper| helper.pin(cores[last]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_arrives_under_every_schedule() {
        let cores = sabani_ring::cores(2);
        let core = |at: usize| cores[at % cores.len()];
        let apart = Places::Apart([
            vec![core(0), core(1), core(1)],
            vec![core(1), core(0), core(0)],
        ]);
        for schedule in [
            "inline",
            "background",
            "[messages+channel+seal][datagrams]",
            "[messages+channel][seal+datagrams]",
            "[messages+channel+opening+receiving][sealing+sending]",
            "[messages+channel][opening+receiving][sealing+sending]",
            "per-layer",
        ] {
            for places in [Places::Together(cores.clone()), apart.clone()] {
                let key = Some(Key([1; 32]));
                let ends = Ends::open(&schedule.parse().unwrap(), key, &places).unwrap();
                for size in [1, 64 << 10, 1 << 20] {
                    let rate = ends.turn(size, Duration::from_millis(5)).unwrap();
                    assert!(rate > 0.0, "{schedule}");
                }
            }
        }
    }
}
