//! Threads that wait and let others have their core between two looks, and what that costs where somebody computes there.
//!
//! Among threads that wait for each other a yield comes back within microseconds. Beside one that computes it may give
//! away a whole slice, 3 to 4 ms, each time (EEVDF takes what was left of the yielding thread's own): a message that needs
//! three of them takes longer than a thousand otherwise. Who sleeps instead, and is woken for what comes, gets the core
//! back soon, for it has not used its share.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

/// So long away means that somebody computes: more than some threads need that have the core in turn to pass on what
/// they have waited for. (With 0.5 ms four ranks on each core took up to half as long again for a broadcast of 64 KiB.)
const LONG: Duration = Duration::from_micros(1_200);

/// After that nobody yields for so many times as long: what it costs to find out whether it is still so is a
/// thirty-second part of the time.
const REST: u32 = 32;

/// A thread that was stopped has been away for reasons of its own.
const REST_MAX: Duration = Duration::from_secs(1);

thread_local! {
    static CROWDED_UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Lets others have this thread's core between two looks.
#[inline]
pub fn give_way() {
    let left = Instant::now();
    thread::yield_now();
    let back = Instant::now();
    if let Some(rest) = rest(back - left) {
        CROWDED_UNTIL.set(Some(back + rest));
    }
}

/// Whether somebody computes on this thread's core, as far as [`give_way`] has shown lately: then sleep, rather than
/// give way again.
#[inline]
pub fn is_crowded() -> bool {
    let Some(until) = CROWDED_UNTIL.get() else {
        return false;
    };
    let lasts = Instant::now() < until;
    if !lasts {
        CROWDED_UNTIL.set(None);
    }
    lasts
}

/// How long not to yield after one that took so long.
fn rest(away: Duration) -> Option<Duration> {
    (away >= LONG).then(|| (REST * away).min(REST_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_absences_are_heeded_for_longer_but_not_for_ever() {
        assert_eq!(rest(Duration::from_micros(20)), None);
        assert_eq!(
            rest(Duration::from_millis(4)),
            Some(Duration::from_millis(128))
        );
        assert_eq!(rest(Duration::from_secs(3_600)), Some(REST_MAX));
    }

    #[test]
    fn a_crowd_is_over_when_its_time_is() {
        assert!(
            !is_crowded(),
            "another thread's crowd is no concern of this one"
        );
        CROWDED_UNTIL.set(Some(Instant::now() + Duration::from_secs(3_600)));
        assert!(is_crowded());
        CROWDED_UNTIL.set(Some(Instant::now()));
        assert!(!is_crowded());
        assert_eq!(CROWDED_UNTIL.get(), None);
    }
}
