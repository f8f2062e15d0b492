//! Congestion control by the sender: how much may be on its way, and how fast it leaves, where the
//! path's bottleneck is not the receiver's link, which its credit takes care of.
//!
//! All amounts are charge, as credit has them. A [`Governor`] joins a [`Controller`], which decides
//! on a window, with a [`Pacer`], which spreads that over a round trip; the channel asks it for room
//! and tells it what was acknowledged and lost. A rate that the program sets bounds the pacer, beside any
//! controller or alone. Whoever has neither pays for neither.

mod copa;
mod cubic;
mod lateness;
mod pacer;
mod recent;
#[cfg(test)]
mod tests;
mod unlimited;

use std::fmt::Debug;
use std::num::NonZeroU64;

use super::{Rtt, datagram_cost};
use copa::Copa;
use cubic::Cubic;
use pacer::Pacer;
use unlimited::Unlimited;

/// How a sender keeps to what the path carries. The receiver's credit holds beside all of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// The receiver's credit alone. The default: it knows its own link, which is where many-to-one
    /// overflows; costs nothing.
    #[default]
    None,
    /// CUBIC (RFC 9438), paced: fills what is left until packets get lost, and shares with TCP as
    /// TCP shares with TCP. Costs a queue as long as the path has.
    Cubic,
    /// Copa (Arun and Balakrishnan, NSDI 2018), paced: keeps two or so packets in the path's queue,
    /// and competes for it where others fill it. Costs throughput where round trips vary by more
    /// than a packet takes on the wire.
    Copa,
}

/// What acknowledgements have settled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    pub now_ns: u64,
    /// Charge that has arrived.
    pub charge: u32,
    /// Charge that was on its way before.
    pub in_flight: u32,
    /// Time of the newest packet's round trip.
    pub rtt_ns: u64,
    /// The smoothed one.
    pub smoothed_ns: u64,
}

/// Decides how much may be on its way, in full packets.
trait Controller: Debug + Send {
    /// Packets that may be on their way.
    fn window(&self) -> f64;

    /// How much faster than a window in a round trip packets leave.
    fn pace_gain(&self) -> f64;

    /// So many packets have arrived; `limited`: the window was in use.
    fn on_acked(&mut self, packets: f64, limited: bool, acked: &Acked);

    /// Packets were lost, or marked: told once for each round trip in which that happens.
    fn on_congestion(&mut self, now_ns: u64);

    /// Nothing has come back for so long that nothing is known of the path any more.
    fn on_silence(&mut self);
}

/// Packets that may be on their way at first (RFC 6928).
const FIRST_WINDOW: f64 = 10.0;
/// Packets that may always be on their way.
const LEAST_WINDOW: f64 = 2.0;
/// Answers are asked for so often in each window.
const ASKS_PER_WINDOW: u32 = 4;

/// Congestion control of one connection.
#[derive(Debug)]
pub(crate) struct Governor {
    kind: Congestion,
    controller: Box<dyn Controller>,
    pacer: Pacer,
    /// What the program allows, in bytes a second.
    max_rate: Option<NonZeroU64>,
    /// Charge of a full packet.
    full: u32,
    /// Its bytes.
    bytes: u32,
    /// What was lost, or marked, of packets that left before is known already.
    known_ns: u64,
    /// Packets that have come to the peer marked.
    marks: u32,
}

impl Governor {
    /// A governor of this kind, for full packets of so many bytes, if there is anything to govern.
    pub fn new(
        kind: Congestion,
        max_rate: Option<NonZeroU64>,
        bytes: usize,
        now_ns: u64,
    ) -> Option<Box<Governor>> {
        let controller: Box<dyn Controller> = match kind {
            Congestion::None if max_rate.is_none() => return None,
            Congestion::None => Box::new(Unlimited),
            Congestion::Cubic => Box::new(Cubic::new()),
            Congestion::Copa => Box::new(Copa::new()),
        };
        Some(Box::new(Governor {
            kind,
            controller,
            pacer: Pacer::new(now_ns),
            max_rate,
            full: datagram_cost(bytes),
            bytes: bytes as u32,
            known_ns: 0,
            marks: 0,
        }))
    }

    /// A full packet has so many bytes: the path's MTU may change.
    pub fn set_full(&mut self, bytes: usize) {
        self.full = datagram_cost(bytes);
        self.bytes = bytes as u32;
    }

    /// What has left with the one before has left: the program may choose a new one at any time.
    pub fn keep_pace(&mut self, before: Governor) {
        self.pacer = before.pacer;
    }

    pub fn max_rate(&self) -> Option<NonZeroU64> {
        self.max_rate
    }

    pub fn set_max_rate(&mut self, rate: Option<NonZeroU64>) {
        self.max_rate = rate;
    }

    pub fn kind(&self) -> Congestion {
        self.kind
    }

    /// Charge that may be on its way.
    pub fn window(&self) -> u32 {
        (self.controller.window() * f64::from(self.full)) as u32
    }

    /// The same, if there is a limit to it.
    pub fn own_window(&self) -> Option<u32> {
        (self.kind != Congestion::None).then(|| self.window())
    }

    /// Charge that leaves in a second at most; zero before it is known.
    pub fn rate(&self) -> u64 {
        (self.pacer.rate() * 1e9) as u64
    }

    /// An answer is asked for at least as often as this much has been sent.
    pub fn ask_every(&self) -> u32 {
        (self.window() / ASKS_PER_WINDOW).max(1)
    }

    /// Charge that may leave now, where so much is on its way.
    pub fn room(&mut self, in_flight: u32, rtt: &Rtt, now_ns: u64) -> u32 {
        let full = self.full;
        let window = self.window().saturating_sub(in_flight);
        match (self.own_rate(rtt), self.allowed_rate()) {
            (Some(own), allowed) if allowed.is_none_or(|rate| own < rate) => {
                let burst = Pacer::burst(own, full, rtt.smoothed_ns());
                self.pacer.refill_late(own, burst, full, window, now_ns);
            }
            (_, Some(allowed)) => {
                let burst = Pacer::allowed_burst(allowed, full);
                self.pacer.refill(allowed, burst, now_ns);
            }
            _ => self.pacer = Pacer::new(now_ns),
        }
        window.min(self.pacer.left())
    }

    /// Charge that its controller lets leave in a nanosecond, once something is known of the path.
    fn own_rate(&self, rtt: &Rtt) -> Option<f64> {
        let smoothed_ns = rtt.smoothed_ns();
        (self.kind != Congestion::None && smoothed_ns > 0).then(|| {
            let gain = self.controller.pace_gain();
            gain * f64::from(self.window()) / smoothed_ns as f64
        })
    }

    /// What the program lets leave.
    fn allowed_rate(&self) -> Option<f64> {
        let charge = f64::from(self.full) / f64::from(self.bytes);
        let allowed = self.max_rate?.get() as f64 * charge / 1e9;
        Some(allowed)
    }

    /// When the pacer, should it be what holds packets back, lets the next ones go.
    pub fn release_ns(&self, in_flight: u32) -> Option<u64> {
        if in_flight.saturating_add(self.full) > self.window() {
            return None;
        }
        self.pacer.release_ns(self.full)
    }

    pub fn on_sent(&mut self, charge: u32) {
        self.pacer.take(charge, self.full);
    }

    pub fn on_acked(&mut self, acked: &Acked) {
        let packets = f64::from(acked.charge) / f64::from(self.full);
        let limited = u64::from(acked.in_flight) * 2 >= u64::from(self.window());
        self.controller.on_acked(packets, limited, acked);
    }

    /// A packet that left at `sent_ns` was lost, or marked by a switch.
    pub fn on_congestion(&mut self, sent_ns: u64, now_ns: u64) {
        if sent_ns >= self.known_ns {
            self.known_ns = now_ns;
            self.controller.on_congestion(now_ns);
        }
    }

    /// So many packets have come to the peer marked by a switch, in all; the low 32 bits of that.
    pub fn on_marks(&mut self, count: u32, rtt: &Rtt, now_ns: u64) {
        let is_news = count.wrapping_sub(self.marks) as i32 > 0;
        if is_news {
            self.marks = count;
            // What is told of now left a round trip ago.
            self.on_congestion(now_ns.saturating_sub(rtt.smoothed_ns()), now_ns);
        }
    }

    pub fn on_silence(&mut self) {
        self.controller.on_silence();
    }
}
