//! What the machine and the rings take to hand something over to another core: nothing is done with it there.

use std::{
    hint,
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::channel,
    },
    thread,
    time::{Duration, Instant},
};

use sabani_ring::{Bell, Inlet, Outlet, cores, pin, ring};

/// Round trips of one measurement at rest.
const ROUND_TRIPS: u64 = 20_000;
/// Primitives of one measurement in batches.
const STREAMED: u64 = 1_000_000;
/// Primitives for which a thread is woken.
const WAKES: u64 = 50;
/// Long enough for a thread to fall asleep.
const PAUSE: Duration = Duration::from_micros(300);
const SLOTS: usize = 256;

/// As large as a PDU.
type Primitive = [u64; 3];

/// One measurement between two cores.
#[derive(Clone, Copy, Debug)]
pub struct Handover {
    /// A value in one cache line, written by one core and seen by the other.
    pub cache_line_ns: f64,
    /// A primitive through a ring, at rest.
    pub primitive_ns: f64,
    /// A primitive in a stream of batches.
    pub batched_ns: f64,
    /// How large these were.
    pub batch: usize,
    /// A primitive to a thread that sleeps.
    pub wake_ns: f64,
}

impl Handover {
    /// Measures between the first two cores that this process may use; nothing if there is just one.
    pub fn measure(batch: usize) -> Option<Self> {
        let &[one, other] = &cores(2)[..] else {
            return None;
        };
        let pair = Pair { one, other };
        Some(Self {
            cache_line_ns: pair.cache_line(),
            primitive_ns: pair.primitive(),
            batched_ns: pair.batches(batch),
            batch,
            wake_ns: pair.wake(),
        })
    }
}

/// Two cores.
struct Pair {
    one: usize,
    other: usize,
}

/// An atomic value in a cache line of its own, and in the one fetched along with it.
#[repr(align(128))]
struct Line(AtomicU64);

impl Pair {
    /// Runs both at the same time, each on its core; what the second says.
    fn run<S: Send, T: Send>(
        &self,
        first: impl FnOnce() -> S + Send,
        second: impl FnOnce() -> T + Send,
    ) -> T {
        thread::scope(|scope| {
            let (go, both) = channel();
            scope.spawn(move || {
                pin(self.one);
                // Without the second, which may not be startable, it would wait for ever.
                both.recv().is_ok().then(first)
            });
            let second = scope.spawn(|| {
                pin(self.other);
                second()
            });
            let _ = go.send(());
            second.join().expect("measures")
        })
    }

    /// Both wait for the other's value and answer with the next.
    fn cache_line(&self) -> f64 {
        let line = Line(AtomicU64::new(0));
        let turns = |mine: u64| {
            let began = Instant::now();
            for value in (mine..2 * ROUND_TRIPS).step_by(2) {
                wait(|| (line.0.load(Ordering::Acquire) == value).then_some(()));
                line.0.store(value + 1, Ordering::Release);
            }
            one_way_ns(began.elapsed())
        };
        self.run(|| turns(1), || turns(0))
    }

    fn primitive(&self) -> f64 {
        let ((mut there, mut from_here), (mut back, mut from_there)) = (ring(SLOTS), ring(SLOTS));
        let echo = move || {
            for _ in 0..ROUND_TRIPS {
                let primitive = wait(|| from_here.take());
                put(&mut back, primitive);
            }
        };
        self.run(echo, move || {
            let began = Instant::now();
            for number in 0..ROUND_TRIPS {
                put(&mut there, [number; 3]);
                let primitive: Primitive = wait(|| from_there.take());
                assert_eq!(primitive[0], number);
            }
            one_way_ns(began.elapsed())
        })
    }

    fn batches(&self, batch: usize) -> f64 {
        let (mut outlet, mut inlet): (Outlet<Primitive>, Inlet<Primitive>) =
            ring(SLOTS.max(2 * batch));
        let sender = move || {
            let mut sent = 0;
            while sent < STREAMED {
                let primitives = (sent..STREAMED).map(|number| [number; 3]);
                sent += outlet.fill(batch, primitives) as u64;
            }
        };
        self.run(sender, move || {
            let began = Instant::now();
            let mut next = 0;
            while next < STREAMED {
                for primitive in inlet.drain(batch) {
                    assert_eq!(primitive[0], next);
                    next += 1;
                }
            }
            began.elapsed().as_nanos() as f64 / STREAMED as f64
        })
    }

    /// The median time from before a primitive is put until the thread that slept has it.
    fn wake(&self) -> f64 {
        let bell = Bell::new();
        let (mut outlet, mut inlet) = ring(SLOTS);
        let ringer = || {
            for _ in 0..WAKES {
                thread::sleep(PAUSE);
                put(&mut outlet, Instant::now());
                Bell::ring_all([&bell]);
            }
        };
        self.run(ringer, || {
            let mut times: Vec<_> = (0..WAKES)
                .map(|_| {
                    bell.sleep(Duration::MAX, || inlet.waiting(1) > 0);
                    wait(|| inlet.take()).elapsed().as_nanos() as f64
                })
                .collect();
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        })
    }
}

fn one_way_ns(round_trips: Duration) -> f64 {
    round_trips.as_nanos() as f64 / (2 * ROUND_TRIPS) as f64
}

/// Looks until there is something.
fn wait<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        match look() {
            Some(found) => return found,
            None => hint::spin_loop(),
        }
    }
}

fn put<P>(outlet: &mut Outlet<P>, primitive: P) {
    assert!(
        outlet.put(primitive).is_ok(),
        "the other side takes one at a time"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_figures_are_measured_where_there_are_two_cores() {
        match Handover::measure(8) {
            None => assert_eq!(cores(2).len(), 1),
            Some(handover) => {
                let figures = [
                    handover.cache_line_ns,
                    handover.primitive_ns,
                    handover.batched_ns,
                    handover.wake_ns,
                ];
                assert!(figures.iter().all(|ns| *ns > 0.0), "{handover:?}");
            }
        }
    }
}
