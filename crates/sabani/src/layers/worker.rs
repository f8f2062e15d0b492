//! The thread of the layers at the lower end of a pair of rings.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use sabani_proto::Keyring;
use sabani_ring::{Inlet, Item, Outlet, Pool};
use sabani_udp::{Counters, Waker};

use super::Clock;
use super::datagrams::{Arrivals, Datagrams, Load, Look, Report};
use super::doorbell::Doorbell;
use super::line::{Common, Up};
use super::sending::Sending;
use crate::shared::Spin;

/// Buffers that a pool allocates at a time.
pub(crate) const SLAB: usize = 2;

/// Layers that share a thread below the channel.
pub(crate) struct Group {
    pub name: &'static str,
    /// If they open what comes: no keys yet.
    pub keyring: Option<Keyring>,
    /// Whether they seal what goes.
    pub seals: bool,
    /// Where the thread sleeps.
    pub bell: Arc<Doorbell>,
    pub clock: Clock,
}

impl Group {
    /// A group whose thread is to be started, without the seal.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn new(name: &'static str, clock: &Clock) -> io::Result<Self> {
        Ok(Group {
            name,
            keyring: None,
            seals: false,
            bell: Arc::new(Doorbell::new()?),
            clock: Clock {
                watch: None,
                ..clock.clone()
            },
        })
    }
}

/// What a thread passes loads on to: the socket's layer, or rings to the next thread.
pub(crate) trait Lower: Send + 'static {
    /// Passes a load on; gives back what is not taken yet.
    fn send(&mut self, load: Item<Load>, clock: &mut Clock) -> Option<Item<Load>>;

    /// Takes what comes next.
    fn receive(&mut self, clock: &mut Clock) -> Option<Up>;

    /// Whether a load that was given back just now has to wait for the system, and not for other threads
    /// of the node, which make room if they are let.
    fn is_stuck(&self) -> bool;

    /// Whether there is something to do that no descriptor tells. `blocked`: a load was given back; `full`:
    /// there is no room for what comes.
    fn has_work(&self, blocked: bool, full: bool) -> bool;

    /// Sleeps until there may be something to do, or the thread's bell rings.
    ///
    /// # Errors
    /// Those of ppoll(2), except for interruptions.
    fn sleep(&mut self, bell: &Waker, blocked: bool, full: bool, clock: &Clock) -> io::Result<()>;

    /// The socket's counters.
    fn counters(&self) -> Counters;

    /// Ends the threads below, after they have sent what waits as far as the socket takes it.
    fn stop(&mut self);
}

/// When those above are to look at what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heed {
    Now,
    /// When they run anyway: it is no reason to wake them.
    InTime,
}

/// The layers of one thread, and its ends of the rings.
pub(crate) struct Worker<L> {
    pub from_above: Inlet<Item<Load>>,
    pub to_above: Outlet<Up>,
    pub keyring: Option<Keyring>,
    pub seals: bool,
    pub lower: L,
    /// What has not been passed on yet.
    pub load: Option<Item<Load>>,
    pub clock: Clock,
    pub common: Arc<Common>,
}

impl<L: Lower> Worker<L> {
    pub fn run(mut self, spin: Spin) {
        let spin_ns = crate::shared::nanos(spin.time);
        let (mut worked, mut idle_ns) = (true, 0);
        while !self.is_over() {
            if self.step() {
                worked = true;
                continue;
            }
            if self.is_stopping() {
                // Nobody rings for what the thread below takes from now on.
                thread::yield_now();
                continue;
            }
            let now_ns = self.clock.read();
            if std::mem::take(&mut worked) {
                idle_ns = now_ns;
                self.common.tell_counters(self.lower.counters());
            }
            if spin.goes_on(now_ns, idle_ns + spin_ns) {
                spin.pause();
            } else {
                self.sleep();
            }
        }
        self.lower.stop();
        self.common.tell_counters(self.lower.counters());
    }

    fn is_stopping(&self) -> bool {
        self.common.stop.load(Relaxed)
    }

    /// Whether it is to end, and has sent what it can.
    fn is_over(&self) -> bool {
        let has_sent = match self.load {
            Some(_) => self.common.stuck.load(Relaxed),
            None => self.from_above.waiting(1) == 0,
        };
        self.is_stopping() && has_sent
    }

    /// Moves a load down and a batch up, if there are any; whether there were.
    fn step(&mut self) -> bool {
        let (sent, received) = (self.send(), self.receive());
        if sent || received == Some(Heed::Now) {
            self.common.above.ring();
        }
        sent || received.is_some()
    }

    fn send(&mut self) -> bool {
        let fresh = self.load.is_none();
        let load = self.load.take().or_else(|| self.take_load());
        let Some(load) = load else {
            return false;
        };
        self.load = self.lower.send(load, &mut self.clock);
        let stuck = self.load.is_some() && self.lower.is_stuck();
        self.common.stuck.store(stuck, Relaxed);
        if self.load.is_none() {
            self.common.passed.fetch_add(1, Relaxed);
        }
        fresh || self.load.is_none()
    }

    fn take_load(&mut self) -> Option<Item<Load>> {
        let mut load = self.from_above.take()?;
        let trains = load.get_mut().expect("nobody else refers to it");
        if let Some(keyring) = &mut self.keyring {
            trains.hand_keys_to(keyring);
        }
        if self.seals {
            trains.seal();
        }
        Some(load)
    }

    /// Passes on what comes next; `None` if there is nothing, or no room.
    fn receive(&mut self) -> Option<Heed> {
        let stopping = self.is_stopping();
        if !stopping && self.to_above.room(1) == 0 {
            return None;
        }
        let mut news = self.lower.receive(&mut self.clock)?;
        let heed = match news {
            Up::Report(Report::Unsent(_)) => Heed::InTime,
            _ => Heed::Now,
        };
        if stopping {
            // Nobody reads any more, and what is not read below keeps loads from leaving.
            return Some(heed);
        }
        if let (Up::Batch(batch), Some(keyring)) = (&mut news, &self.keyring) {
            let batch = batch.get_mut().expect("nobody else refers to it");
            batch.open(keyring);
        }
        let refused = self.to_above.put(news).is_err();
        debug_assert!(!refused, "there was room, and only this end takes it");
        if let Some(waker) = self.common.poll.get()
            && heed == Heed::Now
        {
            waker.wake();
        }
        Some(heed)
    }

    /// Sleeps until there may be something to do.
    fn sleep(&mut self) {
        let blocked = self.load.is_some();
        let full = self.to_above.room(1) == 0;
        let (from_above, to_above, common) = (&self.from_above, &self.to_above, &self.common);
        let lower = &mut self.lower;
        let found = common.below.retire(|| {
            (!blocked && from_above.waiting(1) > 0)
                || (full && to_above.room(1) > 0)
                || common.stop.load(Relaxed)
                || lower.has_work(blocked, full)
        });
        if found {
            return;
        }
        if let Err(error) = lower.sleep(common.below.waker(), blocked, full, &self.clock) {
            tracing::error!(%error, "waiting failed");
        }
        common.below.rise();
        common.below.waker().drain();
    }
}

/// Batches of datagrams that are on their way up.
pub(crate) struct Intake {
    batches: Pool<Arrivals>,
}

impl Intake {
    pub fn new() -> Self {
        Intake {
            batches: Pool::new(SLAB, Arrivals::new),
        }
    }

    /// What has come; `None` if nothing has.
    pub fn next(&mut self, datagrams: &mut Datagrams, clock: &mut Clock) -> Option<Up> {
        let mut look = Look::Nothing;
        let batch = self
            .batches
            .take(|arrivals| look = datagrams.receive(&mut arrivals.batch, clock));
        if look == Look::Filled {
            return Some(Up::Batch(batch));
        }
        self.batches.give(batch);
        (look == Look::Emptied).then_some(Up::Emptied)
    }
}

/// The socket's layer, on the lowest thread.
pub(crate) struct Lowest {
    sending: Sending,
    intake: Intake,
}

impl Lowest {
    pub fn new(datagrams: Datagrams) -> Self {
        Lowest {
            sending: Sending { datagrams },
            intake: Intake::new(),
        }
    }
}

impl Lower for Lowest {
    fn send(&mut self, load: Item<Load>, clock: &mut Clock) -> Option<Item<Load>> {
        self.sending.send(load, clock)
    }

    fn receive(&mut self, clock: &mut Clock) -> Option<Up> {
        let Lowest { sending, intake } = self;
        let report = sending.next_report();
        let come = report.or_else(|| intake.next(&mut sending.datagrams, clock));
        // The look may have brought hints.
        come.or_else(|| sending.next_report())
            .or_else(|| sending.unsent())
    }

    fn is_stuck(&self) -> bool {
        self.sending.is_stuck()
    }

    fn has_work(&self, blocked: bool, full: bool) -> bool {
        self.sending.has_work(blocked, full)
    }

    fn sleep(&mut self, bell: &Waker, blocked: bool, full: bool, clock: &Clock) -> io::Result<()> {
        let pause = self.sending.pause(clock);
        let room_to_send = blocked && pause.is_none();
        let datagrams = &mut self.sending.datagrams;
        datagrams.sleep(bell, full, room_to_send, pause)
    }

    fn counters(&self) -> Counters {
        self.sending.counters()
    }

    fn stop(&mut self) {}
}

#[cfg(test)]
mod tests {
    use sabani_udp::{Options, Socket};

    use super::*;

    /// No descriptor tells of it, and the next load waits until it is heard.
    #[test]
    fn a_thread_does_not_sleep_over_a_report_for_which_there_is_room() {
        let any = ([127, 0, 0, 1], 0).into();
        let socket = Socket::bind(any, &Options::default()).unwrap();
        let mut lowest = Lowest::new(Datagrams::new(socket));
        assert!(!lowest.has_work(false, false));
        let report = Report::TooBig { to: any, bytes: 1 };
        lowest.sending.datagrams.reports.push(report);
        assert!(lowest.has_work(true, false));
        assert!(!lowest.has_work(true, true));
        assert!(matches!(lowest.sending.next_report(), Some(Up::Report(_))));
        assert!(!lowest.has_work(false, false));
    }
}
