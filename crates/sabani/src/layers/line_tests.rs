//! Two pairs of rings that end while loads are on their way.

use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::Duration;

use super::*;
use crate::shared::Spin;

/// Stands for the socket's layer.
struct System {
    taken: Arc<AtomicUsize>,
    /// Takes nothing.
    refuses: bool,
    /// What must be heard after each load before it takes the next.
    reports: usize,
    unheard: usize,
}

impl System {
    /// Takes all, reports nothing, and counts what it has taken.
    fn counting(taken: &Arc<AtomicUsize>) -> Self {
        System {
            taken: Arc::clone(taken),
            refuses: false,
            reports: 0,
            unheard: 0,
        }
    }
}

impl Lower for System {
    fn send(&mut self, load: Item<Load>, _clock: &mut Clock) -> Option<Item<Load>> {
        if self.refuses || self.unheard > 0 {
            return Some(load);
        }
        // Slower than those above, so that their rings are full.
        thread::sleep(Duration::from_millis(1));
        self.taken.fetch_add(1, Relaxed);
        self.unheard = self.reports;
        None
    }

    fn receive(&mut self, _clock: &mut Clock) -> Option<Up> {
        self.unheard = self.unheard.checked_sub(1)?;
        let to = ([127, 0, 0, 1], 1).into();
        Some(Up::Report(Report::TooBig { to, bytes: 1 }))
    }

    fn is_stuck(&self) -> bool {
        self.refuses
    }

    fn has_work(&self, _blocked: bool, full: bool) -> bool {
        !full && self.unheard > 0
    }

    fn sleep(&mut self, bell: &Waker, _: bool, _: bool, _: &Clock) -> io::Result<()> {
        bell.wait(None)
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn stop(&mut self) {}
}

/// More loads than fit into one ring, and no more than two rings and two threads hold: also if nobody hears
/// what is reported of the first.
const LOADS: usize = 2 * SLOTS + 1;

fn threads() -> Threads {
    Threads {
        spin: Spin {
            time: Duration::ZERO,
            yields: false,
        },
        cores: sabani_ring::allowed(),
    }
}

/// Passes loads on through two threads, and ends these at once; how many loads the system has taken.
fn loads_taken(refuses: bool, reports: usize) -> usize {
    let threads = threads();
    let bell = || Arc::new(Doorbell::new().unwrap());
    let group = || Group::new("test", &Clock::new()).unwrap();
    let taken = Arc::new(AtomicUsize::new(0));
    let system = System {
        refuses,
        reports,
        ..System::counting(&taken)
    };
    let upper = group();
    let lower = Line::start(system, group(), Arc::clone(&upper.bell), &threads).unwrap();
    let mut line = Line::start(lower, upper, bell(), &threads).unwrap();
    for _ in 0..LOADS {
        while line.is_blocked() {
            thread::yield_now();
        }
        let load = line.loads.take(|_| {});
        assert!(line.put(load).is_ok());
    }
    line.stop();
    taken.load(Relaxed)
}

#[test]
fn what_was_passed_on_leaves_although_the_next_ring_is_full() {
    assert_eq!(loads_taken(false, 0), LOADS);
}

#[test]
fn a_line_is_idle_once_all_has_been_passed_on_below() {
    let taken = Arc::new(AtomicUsize::new(0));
    let system = System::counting(&taken);
    let group = Group::new("test", &Clock::new()).unwrap();
    let bell = Arc::new(Doorbell::new().unwrap());
    let mut line = Line::start(system, group, bell, &threads()).unwrap();
    for loads in 1..=3 {
        assert!(line.is_idle());
        let load = line.loads.take(|_| {});
        assert!(line.put(load).is_ok());
        while !line.is_idle() {
            thread::yield_now();
        }
        assert_eq!(taken.load(Relaxed), loads);
    }
    line.stop();
}

/// As where the system has no thread left for the layers above.
#[test]
fn a_line_that_is_dropped_leaves_no_thread_behind() {
    let taken = Arc::new(AtomicUsize::new(0));
    let system = System::counting(&taken);
    let group = Group::new("test", &Clock::new()).unwrap();
    let bell = Arc::new(Doorbell::new().unwrap());
    drop(Line::start(system, group, bell, &threads()).unwrap());
    assert_eq!(Arc::strong_count(&taken), 1, "its thread has it");
}

#[test]
fn reports_that_nobody_reads_any_more_hold_nothing_up() {
    assert_eq!(loads_taken(false, 3 * SLOTS), LOADS);
}

#[test]
fn threads_end_though_the_system_takes_nothing() {
    assert_eq!(loads_taken(true, 0), 0);
}
