//! The rings between two layers on different threads, and the thread of the lower one.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sabani_proto::Node;
use sabani_ring::{Inlet, Item, Outlet, Pool, ring};
use sabani_udp::{Counters, Waker};

use super::datagrams::{Arrivals, Datagrams, Load, Look, Report};
use super::doorbell::Doorbell;
use super::{Clock, News};

/// Loads, and batches of datagrams, that wait between two threads: enough that neither waits for the
/// other while both work, and no more than fit into a cache of 2 MiB.
const SLOTS: usize = 8;
/// Buffers that a pool allocates at a time.
const SLAB: usize = 2;

/// What goes up.
enum Up {
    Batch(Item<Arrivals>),
    Emptied,
    Report(Report),
}

/// What both threads know.
#[derive(Debug)]
struct Common {
    /// Where the upper thread sleeps.
    above: Arc<Doorbell>,
    /// Where the lower thread sleeps.
    below: Doorbell,
    /// Rung for everything that goes up, for those who wait in event loops of their own.
    poll: OnceLock<Arc<Waker>>,
    stop: AtomicBool,
    counters: Mutex<Counters>,
}

impl Common {
    fn counters(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The upper end of the rings.
pub(crate) struct Line {
    down: Outlet<Item<Load>>,
    up: Inlet<Up>,
    loads: Pool<Load>,
    /// What came last.
    batch: Option<Item<Arrivals>>,
    reports: Vec<Report>,
    common: Arc<Common>,
    thread: Option<JoinHandle<()>>,
}

impl Line {
    /// Gives the socket's layer a thread of its own, which spins for `spin` before it sleeps. `above` is
    /// where those sleep who wait for what it brings.
    ///
    /// # Errors
    /// If the system has no thread or no descriptor left.
    pub fn start(
        datagrams: Datagrams,
        above: Arc<Doorbell>,
        clock: Clock,
        spin: Duration,
    ) -> io::Result<Self> {
        let (down, from_above) = ring(SLOTS);
        let (to_above, up) = ring(SLOTS);
        let common = Arc::new(Common {
            above,
            below: Doorbell::new()?,
            poll: OnceLock::new(),
            stop: AtomicBool::new(false),
            counters: Mutex::new(datagrams.socket.counters()),
        });
        let worker = Worker {
            from_above,
            to_above,
            datagrams,
            batches: Pool::new(SLAB, Arrivals::new),
            load: None,
            clock,
            common: Arc::clone(&common),
        };
        let thread = thread::Builder::new().name("sabani-datagrams".into());
        let thread = thread.spawn(move || worker.run(spin))?;
        Ok(Line {
            down,
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
        if self.is_blocked() || !node.has_queued() {
            return false;
        }
        let mut any = false;
        let load = self.loads.take(|load| any = load.fill(node, now_ns));
        if !any {
            self.loads.give(load);
            return false;
        }
        let refused = self.down.put(load).is_err();
        debug_assert!(!refused, "there was room, and only this end takes it");
        self.common.below.ring();
        true
    }

    /// Takes what comes next.
    #[inline]
    pub fn receive(&mut self) -> News<'_> {
        loop {
            let news = match self.up.take() {
                None => return News::Nothing,
                Some(Up::Report(report)) => {
                    self.reports.push(report);
                    continue;
                }
                // Not if something has come since.
                Some(Up::Emptied) if self.up.waiting(1) > 0 => continue,
                Some(Up::Emptied) => return News::Emptied,
                Some(Up::Batch(batch)) => self.batch.insert(batch).get_mut(),
            };
            // The lower thread may have waited for room.
            self.common.below.ring();
            return News::Batch(&mut news.expect("nobody else refers to it").0);
        }
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

/// The lower thread.
struct Worker {
    from_above: Inlet<Item<Load>>,
    to_above: Outlet<Up>,
    datagrams: Datagrams,
    batches: Pool<Arrivals>,
    /// What the socket has not taken yet.
    load: Option<Item<Load>>,
    clock: Clock,
    common: Arc<Common>,
}

impl Worker {
    fn run(mut self, spin: Duration) {
        let spin_ns = crate::shared::nanos(spin);
        let (mut worked_ns, mut told) = (self.clock.read(), true);
        while !self.is_over() {
            if self.step() {
                (worked_ns, told) = (self.clock.now_ns, false);
                continue;
            }
            if !std::mem::replace(&mut told, true) {
                *self.common.counters() = self.datagrams.socket.counters();
            }
            if self.clock.read() < worked_ns + spin_ns {
                std::hint::spin_loop();
            } else {
                self.sleep();
            }
        }
        *self.common.counters() = self.datagrams.socket.counters();
    }

    /// Whether it is to end, and has sent what it can.
    fn is_over(&self) -> bool {
        self.common.stop.load(Relaxed) && (self.load.is_some() || self.from_above.waiting(1) == 0)
    }

    /// Moves a load down and a batch up, if there are any; whether there were.
    fn step(&mut self) -> bool {
        let mut worked = self.report();
        // What must be heard above goes first, so that it is bounded.
        if self.datagrams.reports.is_empty() {
            worked |= self.send() | self.receive();
        }
        if worked {
            self.common.above.ring();
        }
        worked
    }

    fn send(&mut self) -> bool {
        let fresh = self.load.is_none();
        if fresh {
            self.load = self.from_above.take();
        }
        let Some(load) = &mut self.load else {
            return false;
        };
        let load = load.get_mut().expect("nobody else refers to it");
        let now_ns = self.clock.read();
        let settled = self.datagrams.send(load, now_ns);
        if settled {
            self.load = None;
        }
        fresh || settled
    }

    fn receive(&mut self) -> bool {
        if self.to_above.room(1) == 0 {
            return false;
        }
        let (datagrams, clock) = (&mut self.datagrams, &mut self.clock);
        let mut look = Look::Nothing;
        let batch = self
            .batches
            .take(|Arrivals(batch)| look = datagrams.receive(batch, clock));
        let news = match look {
            Look::Filled => Up::Batch(batch),
            Look::Emptied | Look::Nothing => {
                self.batches.give(batch);
                if look == Look::Nothing {
                    return false;
                }
                Up::Emptied
            }
        };
        self.tell(news);
        true
    }

    /// Passes on what must be heard above.
    fn report(&mut self) -> bool {
        let room = self.to_above.room(1).min(self.datagrams.reports.len());
        for report in self.datagrams.reports.drain(..room).collect::<Vec<_>>() {
            self.tell(Up::Report(report));
        }
        room > 0
    }

    /// Puts something into the ring, which has room.
    fn tell(&mut self, news: Up) {
        let refused = self.to_above.put(news).is_err();
        debug_assert!(!refused, "there was room, and only this end takes it");
        if let Some(waker) = self.common.poll.get() {
            waker.wake();
        }
    }

    /// Sleeps until there may be something to do.
    fn sleep(&mut self) {
        let full = self.to_above.room(1) == 0;
        let blocked = self.load.is_some();
        let takes_more = !blocked && self.datagrams.reports.is_empty();
        let (from_above, to_above, common) = (&self.from_above, &self.to_above, &self.common);
        let found = common.below.retire(|| {
            (takes_more && from_above.waiting(1) > 0)
                || (full && to_above.room(1) > 0)
                || common.stop.load(Relaxed)
        });
        if found {
            return;
        }
        let retry_ns = self.datagrams.retry_ns();
        let pause = retry_ns.map(|at| Duration::from_nanos(at.saturating_sub(self.clock.now_ns)));
        let waker = common.below.waker();
        let outcome = match full {
            // What waits in the socket must not wake it over and over.
            true => waker.wait(pause),
            false => {
                let watch = self.datagrams.socket.watch();
                let room_to_send = blocked && pause.is_none();
                watch
                    .wait(room_to_send, Some(waker.as_fd()), pause)
                    .map(|_| ())
            }
        };
        if let Err(error) = outcome {
            tracing::error!(%error, "waiting failed");
        }
        self.common.below.rise();
        self.datagrams.socket.look_everywhere();
    }
}
