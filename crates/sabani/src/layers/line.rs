//! The rings between two layers on different threads.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use sabani_proto::Node;
use sabani_ring::{Inlet, Item, Outlet, Pool, ring};
use sabani_udp::{Counters, Waker};

use super::datagrams::{Arrivals, Datagrams, Load, Report};
use super::doorbell::Doorbell;
use super::worker::{Group, Lower, SLAB, Worker};
use super::{Clock, News};
use crate::threads::Threads;
use crate::timing::Stage;

/// Loads, and batches of datagrams, that wait between two threads: enough that neither waits for the
/// other while both work, and no more than fit into a cache of 2 MiB.
const SLOTS: usize = 8;

/// What goes up.
pub(crate) enum Up {
    Batch(Item<Arrivals>),
    Emptied,
    Report(Report),
}

/// What both threads know.
#[derive(Debug)]
pub(crate) struct Common {
    /// Where the upper thread sleeps.
    pub above: Arc<Doorbell>,
    /// Where the lower thread sleeps.
    pub below: Arc<Doorbell>,
    /// Rung for everything that goes up, for those who wait in event loops of their own.
    pub poll: OnceLock<Arc<Waker>>,
    pub stop: AtomicBool,
    /// The lower thread holds a load that the system does not take now.
    pub stuck: AtomicBool,
    /// Loads that the lower thread has passed on.
    pub passed: AtomicU64,
    counters: Mutex<Counters>,
}

impl Common {
    fn counters(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the socket's counters are now.
    pub fn tell_counters(&self, counters: Counters) {
        *self.counters() = counters;
    }
}

/// The upper end of the rings.
pub(crate) struct Line {
    down: Outlet<Item<Load>>,
    /// Loads so far.
    put: u64,
    up: Inlet<Up>,
    loads: Pool<Load>,
    /// What came last.
    batch: Option<Item<Arrivals>>,
    reports: Vec<Report>,
    common: Arc<Common>,
    thread: Option<JoinHandle<()>>,
}

impl Line {
    /// Gives a group of layers a thread of their own, which passes on to `lower`. `above` is where those
    /// sleep who wait for what it brings.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn start(
        lower: impl Lower,
        group: Group,
        above: Arc<Doorbell>,
        threads: &Threads,
    ) -> io::Result<Self> {
        let (down, from_above) = ring(SLOTS);
        let (to_above, up) = ring(SLOTS);
        let common = Arc::new(Common {
            above,
            below: group.bell,
            poll: OnceLock::new(),
            stop: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
            passed: AtomicU64::new(0),
            counters: Mutex::new(lower.counters()),
        });
        let worker = Worker {
            from_above,
            to_above,
            keyring: group.keyring,
            seals: group.seals,
            lower,
            load: None,
            clock: group.clock,
            common: Arc::clone(&common),
        };
        let spin = threads.spin;
        let thread = threads.spawn(group.name, move || worker.run(spin))?;
        Ok(Line {
            down,
            put: 0,
            up,
            loads: Pool::new(SLAB, Load::new),
            batch: None,
            reports: Vec::new(),
            common,
            thread: Some(thread),
        })
    }

    /// Whether there is no room for another load.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.down.room(1) == 0
    }

    /// Passes on what may leave now; `false` if there is nothing, or no room.
    #[inline]
    pub fn pass(&mut self, node: &mut Node, now_ns: u64) -> bool {
        let load = self.fill(node, now_ns);
        load.map(|load| self.put_there(load)).is_some()
    }

    /// The same, but little leaves from here, unless it would overtake what is on its way below.
    #[inline]
    pub fn pass_beside(
        &mut self,
        node: &mut Node,
        clock: &mut Clock,
        here: &mut Datagrams,
    ) -> bool {
        let Some(mut load) = self.fill(node, clock.now_ns) else {
            return false;
        };
        clock.lap(Stage::ChannelOut);
        let trains = load.get_mut().expect("nobody else refers to it");
        let stays = self.is_idle() && trains.is_little();
        if stays && here.send_alone(trains, clock) {
            clock.lap(Stage::CallOut);
            self.loads.give(load);
        } else {
            self.put_there(load);
        }
        true
    }

    /// Whether all loads have been passed on below.
    fn is_idle(&self) -> bool {
        self.common.passed.load(Relaxed) == self.put
    }

    /// Fills a load with what may leave now, if there is anything, and room for it.
    #[inline]
    fn fill(&mut self, node: &mut Node, now_ns: u64) -> Option<Item<Load>> {
        if self.is_blocked() || !node.has_queued() {
            return None;
        }
        let mut any = false;
        let load = self.loads.take(|load| any = load.fill(node, now_ns));
        if !any {
            self.loads.give(load);
            return None;
        }
        Some(load)
    }

    #[inline]
    fn put_there(&mut self, load: Item<Load>) {
        let refused = self.put(load).is_err();
        debug_assert!(!refused, "there was room, and only this end takes it");
    }

    /// Passes a load on; gives it back if there is no room.
    #[inline]
    fn put(&mut self, load: Item<Load>) -> Result<(), Item<Load>> {
        self.down.put(load)?;
        self.put += 1;
        self.common.below.ring();
        Ok(())
    }

    /// Takes what comes next.
    #[inline]
    pub fn take(&mut self) -> Option<Up> {
        let news = self.up.take()?;
        // The lower thread may have waited for room.
        self.common.below.ring();
        Some(news)
    }

    /// Takes what comes next that is not a report.
    #[inline]
    pub fn receive(&mut self) -> News<'_> {
        loop {
            match self.take() {
                None => return News::Nothing,
                Some(Up::Report(report)) => self.reports.push(report),
                // Not if something has come since.
                Some(Up::Emptied) if self.up.waiting(1) > 0 => {}
                Some(Up::Emptied) => return News::Emptied,
                Some(Up::Batch(batch)) => {
                    let batch = self.batch.insert(batch).get_mut();
                    return News::Batch(batch.expect("nobody else refers to it"));
                }
            }
        }
    }

    /// Takes the reports of a thread that only sends.
    #[inline]
    pub fn hear(&mut self) {
        let none = matches!(self.receive(), News::Nothing);
        debug_assert!(none, "who only sends has nothing else to tell");
    }

    #[inline]
    pub fn has_reports(&self) -> bool {
        !self.reports.is_empty()
    }

    pub fn take_reports(&mut self, into: &mut Vec<Report>) {
        into.append(&mut self.reports);
    }

    /// Says that the caller is about to sleep, unless there is something to do: something has come, or
    /// there is room for what waits to leave. Whether there is.
    pub fn retire(&self, wants_room: bool) -> bool {
        let found = || self.up.waiting(1) > 0 || (wants_room && !self.is_blocked());
        self.common.above.retire(found)
    }

    /// What is rung from now on for everything that comes.
    pub fn poll_on(&self, waker: Arc<Waker>) {
        let _ = self.common.poll.set(waker);
    }

    /// The socket's counters, as of when its thread last had nothing to do.
    pub fn counters(&self) -> Counters {
        *self.common.counters()
    }

    /// Ends the thread once it has sent what waits, as far as the socket takes it.
    pub fn stop(&mut self) {
        self.common.stop.store(true, Relaxed);
        self.common.below.ring();
        if let Some(thread) = self.thread.take() {
            // A panic has been printed.
            let _ = thread.join();
        }
    }
}

/// As where the system has no thread left for the layers above.
impl Drop for Line {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Lower for Line {
    fn send(&mut self, load: Item<Load>, _clock: &mut Clock) -> Option<Item<Load>> {
        self.put(load).err()
    }

    fn receive(&mut self, _clock: &mut Clock) -> Option<Up> {
        self.take()
    }

    fn is_stuck(&self) -> bool {
        // Nor does a thread that has ended, by a panic, take anything.
        let ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        ended || self.common.stuck.load(Relaxed)
    }

    fn has_work(&self, blocked: bool, full: bool) -> bool {
        (blocked && !self.is_blocked()) || (!full && self.up.waiting(1) > 0)
    }

    fn sleep(
        &mut self,
        bell: &Waker,
        _blocked: bool,
        _full: bool,
        _clock: &Clock,
    ) -> io::Result<()> {
        bell.wait(None)
    }

    fn counters(&self) -> Counters {
        Line::counters(self)
    }

    fn stop(&mut self) {
        Line::stop(self);
    }
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
