//! What a peer that sends steadily brings in a round trip, so that it need not ask for each message. Over a long path that
//! takes a round trip more: 1,000 bytes each millisecond at 50 ms one way took 224 ms each.

use super::Arrival;
use crate::channel::Data;

/// A look spans so many round trips: while credit is asked for, more comes in one and less in the next.
const LOOK_TRIPS: u64 = 2;
/// Looks in a row before a peer counts as steady. Nothing was lost, no message was long, and no more waited than
/// came: the rest is transfers, and what they leave unused would be a burst that nobody has asked for.
const LOOKS: u8 = 2;
/// Shorter paths bring what was asked for soon enough.
const SHORT_NS: u64 = 400_000;

/// One peer's.
#[derive(Debug, Default)]
pub(super) struct Steady {
    since_ns: u64,
    /// Charge that has come since.
    came: u64,
    /// The most that waited since.
    waited: u64,
    /// Something was lost since, or longer ones came.
    is_disturbed: bool,
    /// Steady looks in a row.
    looks: u8,
    per_trip: u64,
}

impl Steady {
    #[inline]
    pub fn on_arrival(&mut self, arrival: &Arrival, rtt_ns: u64, now_ns: u64) {
        self.came += u64::from(arrival.advanced);
        self.waited = self.waited.max(arrival.remaining);
        self.is_disturbed |= arrival.lost > 0 || arrival.data == Data::Long;
        let took_ns = now_ns.saturating_sub(self.since_ns);
        if took_ns >= LOOK_TRIPS * rtt_ns {
            self.end_look(took_ns, rtt_ns, now_ns);
        }
    }

    fn end_look(&mut self, took_ns: u64, rtt_ns: u64, now_ns: u64) {
        let per_trip = (u128::from(self.came) * u128::from(rtt_ns) / u128::from(took_ns)) as u64;
        let is_steady = !self.is_disturbed && self.waited <= self.came && rtt_ns >= SHORT_NS;
        *self = Steady {
            since_ns: now_ns,
            looks: match is_steady {
                true => (self.looks + 1).min(LOOKS),
                false => 0,
            },
            per_trip,
            ..Steady::default()
        };
    }

    /// What the next round trip is likely to bring.
    #[inline]
    pub fn per_trip(&self) -> u64 {
        match self.looks == LOOKS {
            true => self.per_trip,
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn arrival(remaining: u64) -> Arrival {
        Arrival {
            advanced: 2_304,
            data: Data::Short,
            remaining,
            ..Arrival::default()
        }
    }

    /// What is foreseen after some seconds of a packet of charge 2,304 each millisecond, round trips of `rtt_ns`, while so much
    /// waits; each hundredth comes like this one.
    fn foreseen(rtt_ns: u64, waits: u64, hundredth: Arrival) -> u64 {
        let mut steady = Steady::default();
        for ms in 0..3_000 {
            let arrival = match ms % 100 {
                0 => hundredth,
                _ => arrival(waits),
            };
            steady.on_arrival(&arrival, rtt_ns, ms * MS);
        }
        steady.per_trip()
    }

    #[test]
    fn what_a_round_trip_brings_is_foreseen() {
        for trip_ms in [2, 10, 100] {
            let per_trip = foreseen(trip_ms * MS, 0, arrival(0));
            assert!(per_trip.abs_diff(trip_ms * 2_304) <= 2_304, "{per_trip}");
        }
        assert_eq!(foreseen(200_000, 0, arrival(0)), 0, "a short path");
        let after_a_gap = Arrival {
            lost: 1,
            ..arrival(0)
        };
        assert_eq!(foreseen(50 * MS, 0, after_a_gap), 0, "some are lost");
        let piece = Arrival {
            data: Data::Long,
            ..arrival(0)
        };
        assert_eq!(foreseen(50 * MS, 0, piece), 0, "some are long");
    }

    #[test]
    fn what_is_left_of_a_transfer_is_not_foreseen() {
        let per_trip = 100 * 2_304;
        assert!(foreseen(100 * MS, LOOK_TRIPS * per_trip, arrival(0)) > 0);
        let more = LOOK_TRIPS * per_trip + 10_000;
        assert_eq!(foreseen(100 * MS, more, arrival(more)), 0);
    }

    #[test]
    fn who_pauses_is_not_steady_for_long() {
        let mut steady = Steady::default();
        for ms in 0..100 {
            steady.on_arrival(&arrival(0), 5 * MS, ms * MS);
        }
        assert!(steady.per_trip() > 0);
        steady.on_arrival(&arrival(0), 5 * MS, 3_000 * MS);
        assert!(steady.per_trip() < 100, "{}", steady.per_trip());
    }
}
