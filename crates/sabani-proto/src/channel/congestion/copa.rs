//! Copa (Arun and Balakrishnan, "Copa: Practical Delay-Based Congestion Control for the Internet",
//! NSDI 2018): a target rate of 1 / (δ · queueing delay), approached faster the longer it is missed
//! on the same side; δ as AIMD has it while others fill the queue.

use super::recent::Recent;
use super::{Acked, Controller, FIRST_WINDOW, LEAST_WINDOW};

/// 1/δ while nobody fills the queue: packets that a flow keeps in it.
const CALM: f64 = 2.0;
/// The shortest round trip is looked for anew in such spans.
const SHORTEST_SPAN_NS: u64 = 5_000_000_000;
/// The queue is nearly empty below this part of the longest delay seen lately.
const NEARLY_EMPTY: f64 = 0.1;
/// A queue that was not nearly empty for so many round trips is filled by others.
const PATIENCE_TRIPS: u64 = 5;
/// The window changes by at most this part of itself in a round trip. The paper lets it double; then
/// it swings by half of itself where answers come but a few times in a round trip.
const MOST_STEP: f64 = 0.125;
/// A direction is kept for so many round trips before the velocity grows.
const STEADY_TRIPS: u32 = 3;

#[derive(Debug)]
pub(super) struct Copa {
    window: f64,
    slow_start: bool,
    /// 1/δ.
    aggression: f64,
    shortest: Recent,
    standing: Recent,
    longest: Recent,
    /// When the queue was last nearly empty.
    calm_ns: u64,
    pace: Velocity,
    trip: Trip,
}

/// How fast the window changes.
#[derive(Debug)]
struct Velocity {
    factor: f64,
    grows: bool,
    /// Round trips for which the direction has stayed the same.
    steady: u32,
}

/// A round trip, as the window sees it.
#[derive(Debug, Default)]
struct Trip {
    ends_ns: u64,
    /// The window when it began.
    window: f64,
    /// Congestion was told of in it.
    congested: bool,
}

impl Copa {
    pub fn new() -> Self {
        Copa {
            window: FIRST_WINDOW,
            slow_start: true,
            aggression: CALM,
            shortest: Recent::least(),
            standing: Recent::least(),
            longest: Recent::greatest(),
            calm_ns: 0,
            pace: Velocity {
                factor: 1.0,
                grows: true,
                steady: 0,
            },
            trip: Trip::default(),
        }
    }

    /// Once for each round trip: whether the direction has stayed the same, and whether others fill
    /// the queue.
    fn end_trip(&mut self, acked: &Acked) {
        let grows = self.window > self.trip.window;
        if grows == self.pace.grows {
            self.pace.steady += 1;
            if self.pace.steady >= STEADY_TRIPS {
                let most = (MOST_STEP * self.window / self.aggression).max(1.0);
                self.pace.factor = (2.0 * self.pace.factor).min(most);
            }
        } else {
            self.turn(grows);
        }
        let calm = acked.now_ns <= self.calm_ns + PATIENCE_TRIPS * acked.smoothed_ns;
        if calm {
            self.aggression = CALM;
        } else if !self.trip.congested {
            self.aggression += 1.0;
        }
        self.trip = Trip {
            ends_ns: acked.now_ns + acked.smoothed_ns,
            window: self.window,
            congested: false,
        };
    }

    /// The window goes the other way from now on.
    fn turn(&mut self, grows: bool) {
        self.pace = Velocity {
            factor: 1.0,
            grows,
            steady: 0,
        };
    }

    /// Time that packets wait in the queue, as far as it is no one's jitter.
    fn note_round_trip(&mut self, acked: &Acked) -> (u64, u64) {
        let (rtt_ns, now_ns, smoothed_ns) = (acked.rtt_ns, acked.now_ns, acked.smoothed_ns);
        let shortest_ns = self.shortest.note(rtt_ns, SHORTEST_SPAN_NS, now_ns);
        let standing_ns = self.standing.note(rtt_ns, smoothed_ns / 4, now_ns);
        let longest_ns = self.longest.note(rtt_ns, 2 * smoothed_ns, now_ns);
        let queued_ns = standing_ns.saturating_sub(shortest_ns);
        let most_ns = longest_ns.saturating_sub(shortest_ns);
        if queued_ns as f64 <= NEARLY_EMPTY * most_ns as f64 {
            self.calm_ns = now_ns;
        }
        (standing_ns, queued_ns)
    }
}

impl Controller for Copa {
    fn window(&self) -> f64 {
        self.window
    }

    fn pace_gain(&self) -> f64 {
        2.0
    }

    fn on_acked(&mut self, packets: f64, limited: bool, acked: &Acked) {
        let (standing_ns, queued_ns) = self.note_round_trip(acked);
        if acked.now_ns >= self.trip.ends_ns {
            self.end_trip(acked);
        }
        // Window / standing ≤ aggression / queued, without a division by nothing.
        let grows = self.window * queued_ns as f64 <= self.aggression * standing_ns as f64;
        if grows && !limited {
            return;
        }
        if self.slow_start && grows {
            self.window += packets;
            return;
        }
        self.slow_start = false;
        if grows != self.pace.grows && self.pace.factor > 1.0 {
            self.turn(grows);
        }
        let step = self.pace.factor * self.aggression * packets / self.window;
        let step = step.min(packets);
        let window = if grows { step } else { -step } + self.window;
        self.window = window.max(LEAST_WINDOW);
    }

    fn on_congestion(&mut self, _now_ns: u64) {
        self.trip.congested = true;
        self.slow_start = false;
        self.aggression = (self.aggression / 2.0).max(CALM);
    }

    fn on_silence(&mut self) {
        self.window = LEAST_WINDOW;
        self.slow_start = true;
        self.aggression = CALM;
    }
}
