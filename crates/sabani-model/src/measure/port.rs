//! A port of a switch, filled by two senders, and a third one's trips through it: its queue, and what repairs a loss.

use super::probe::{Flow, Probe, Traffic, Trip};
use super::statistics::{median, quantiles};
use crate::network::Estimate;

/// Length of the messages that fill it.
const MESSAGE: usize = 16 << 10;
/// What waits at each sender: more than what ports hold.
const AHEAD: usize = 4 << 20;
/// For how long they send.
const LASTS_NS: u64 = 1_500_000_000;
/// It has been filled after this part of it.
const FILLING: f64 = 0.2;
/// Trips, of which those count that were under way while it was full.
const TRIPS: usize = 2_000;

/// Two senders that fill a port and give way to each other, so that its queue is full and nearly nothing is lost; and trips.
pub fn fill(fillers: &[(usize, usize)], traveller: usize, to: usize) -> Probe {
    let stream = |&(from, to): &(usize, usize)| Flow {
        from,
        to,
        bytes: MESSAGE,
        traffic: Traffic::Stream {
            lasts_ns: LASTS_NS,
            ahead_bytes: AHEAD,
            yields: true,
        },
    };
    let trips = Flow {
        from: traveller,
        to,
        bytes: 0,
        traffic: Traffic::Trips { count: TRIPS },
    };
    Probe {
        flows: fillers.iter().map(stream).chain([trips]).collect(),
    }
}

/// The trips that were under way while the port was full: they follow each other.
fn while_full(trips: &[Trip]) -> Vec<f64> {
    let mut end_ns = 0.0;
    let times = trips.iter().map(|trip| {
        let begin_ns = end_ns;
        end_ns += trip.round_ns as f64;
        (begin_ns, end_ns)
    });
    let lasts_ns = LASTS_NS as f64;
    let counts =
        |(begin_ns, end_ns): &(f64, f64)| *begin_ns >= FILLING * lasts_ns && *end_ns <= lasts_ns;
    let counting = times.filter(counts);
    counting
        .map(|(begin_ns, end_ns)| end_ns - begin_ns)
        .collect()
}

/// What trips through a port tell of its queue.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// By what trips take longer when it is full: nine of ten no more. From their median to the largest.
    delay_ns: Estimate,
    /// By what those take longer still whose message was lost there.
    pub repair_ns: Option<Estimate>,
    /// Whether most trips that passed took about as long: a queue that is always full, and not one that grows.
    is_steady: bool,
}

impl Port {
    /// A trip that takes so many times the usual one has met a loss.
    const LOST: f64 = 2.0;
    /// One such trip is chance: a queue that overflows loses more.
    const LEAST_LOST: usize = 2;
    /// The delays of a full queue, but for a tenth of them at either end, differ by no more than this part.
    const SPREAD: f64 = 0.5;

    /// From trips while it was empty, and while it was filled. Nothing if those had no time.
    pub fn of(quiet: &[Trip], full: &[Trip]) -> Option<Self> {
        let all = while_full(full);
        if quiet.is_empty() || all.is_empty() {
            return None;
        }
        let quiet: Vec<f64> = quiet.iter().map(|trip| trip.round_ns as f64).collect();
        let (quiet, usual) = (median(&quiet).value, median(&all).value);
        let (lost, passed): (Vec<f64>, Vec<f64>) =
            all.into_iter().partition(|time| *time > Self::LOST * usual);
        let full = median(&passed).value;
        let spread = quantiles(passed, 11);
        let later = |time: f64| (time - quiet).max(0.0);
        let repairs: Vec<f64> = lost.iter().map(|time| time - full).collect();
        Some(Port {
            delay_ns: Estimate {
                low: later(full),
                value: later(spread[9]),
                high: later(spread[10]),
            },
            repair_ns: (repairs.len() >= Self::LEAST_LOST).then(|| median(&repairs)),
            is_steady: spread[9] - spread[1] <= Self::SPREAD * later(full),
        })
    }

    /// Whether trips had to wait for as much as a message of those that fill the port, and all for as long. If
    /// they had not, the slow ones are those that met more of the queue, and not those that were lost.
    pub fn was_full(&self, speed: Estimate) -> bool {
        self.is_steady && self.delay_ns.low * speed.value / 1e9 >= MESSAGE as f64
    }

    /// What the queue of a port holds from which something was lost: the delay times what leaves meanwhile.
    pub fn queue(self, speed: Estimate) -> Estimate {
        let bytes = |ns: f64| ns * speed.value / 1e9;
        Estimate {
            value: bytes(self.delay_ns.value),
            low: bytes(self.delay_ns.low),
            high: bytes(self.delay_ns.high),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Trip = trip(64_000);
    /// Half a millisecond while the port is being filled.
    const AT_FIRST: usize = 600;

    const fn trip(round_ns: u64) -> Trip {
        Trip {
            round_ns,
            send_ns: 0,
            receive_ns: 0,
        }
    }

    /// Trips while the port is being filled, and these behind them.
    fn filled(then: impl IntoIterator<Item = Trip>) -> Port {
        let at_first = [trip(500_000); AT_FIRST];
        let all: Vec<_> = at_first.into_iter().chain(then).collect();
        Port::of(&[QUIET; 10], &all).unwrap()
    }

    #[test]
    fn one_slow_trip_shows_no_repair() {
        let seen = |slow: usize| {
            let full = |at| trip(if at < slow { 11_000_000 } else { 5_000_000 });
            filled((0..40).map(full))
                .repair_ns
                .map(|repair| repair.value)
        };
        assert_eq!([0, 1, 2, 5].map(seen), [None, None, Some(6e6), Some(6e6)]);
    }

    #[test]
    fn a_queue_is_what_nearly_all_wait_for() {
        // From 4 to 5 ms and back, as senders slow down and speed up again.
        let sawtooth = (0..100).map(|at| trip(4_064_000 + at % 11 * 100_000));
        let port = filled(sawtooth);
        let speed = Estimate::exact(12.5e6);
        assert!(port.was_full(speed));
        let queue = port.queue(speed);
        assert!((queue.value / 12.5e6 - 4.9e-3).abs() < 2e-4, "{queue:?}");
        assert!(queue.low < queue.value && queue.value <= queue.high);
    }

    #[test]
    fn what_comes_too_early_or_too_late_does_not_count() {
        assert!(Port::of(&[QUIET], &[trip(500_000); 300]).is_none());
        // The last ones meet an empty port again.
        let late = [trip(5_000_000); 200].into_iter().chain([QUIET; 500]);
        assert!(filled(late).is_steady);
    }

    #[test]
    fn a_port_that_was_empty_most_of_the_time_tells_nothing_of_its_queue() {
        let speed = Estimate::exact(12.5e6);
        let was_full = |full: &[Trip]| filled(full.iter().copied()).was_full(speed);
        // Some met a queue of 5 ms, most none.
        let mostly_empty: Vec<_> = (0..10)
            .map(|at| trip(if at < 3 { 5_064_000 } else { 65_000 }))
            .collect();
        assert!(!was_full(&mostly_empty));
        let growing: Vec<_> = (1..=10).map(|at| trip(at * 5_000_000)).collect();
        assert!(!was_full(&growing));
        assert!(was_full(&[trip(5_064_000); 10]));
    }
}
