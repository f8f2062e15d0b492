//! Something to try: flows that all begin at once.

use serde::{Deserialize, Serialize};

/// What flows do at the same time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// The flows.
    pub flows: Vec<Flow>,
}

/// What one host sends to another one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// The host that sends.
    pub from: usize,
    /// The host that receives.
    pub to: usize,
    /// Length of each message.
    pub bytes: usize,
    /// What it sends.
    pub traffic: Traffic,
}

/// What a flow does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Traffic {
    /// One message after the other for so long.
    Stream {
        /// How long the sender goes on, in nanoseconds.
        lasts_ns: u64,
        /// Bytes that wait at the sender at a time.
        ahead_bytes: usize,
        /// Whether it gives way to others (congestion control), or fills whatever queue there is.
        yields: bool,
    },
    /// A message, and one of the same length back, one pair after the other.
    Trips {
        /// How many pairs.
        count: usize,
    },
}

/// What was seen of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Seen {
    /// When each message had arrived at the receiver, in nanoseconds since it began.
    Arrivals(Vec<u64>),
    /// What the sender saw.
    Trips(Vec<Trip>),
}

/// A message there and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trip {
    /// From handing it over until the answer was taken, in nanoseconds.
    pub round_ns: u64,
    /// How long handing it over kept the processor busy, in nanoseconds.
    pub send_ns: u64,
    /// How long taking the answer, which had arrived, kept the processor busy, in nanoseconds.
    pub receive_ns: u64,
}

impl Seen {
    /// Bytes for each second that a stream moved; its first quarter, in which it finds its pace, is left
    /// out.
    pub fn rate(&self, flow: &Flow) -> f64 {
        let (Seen::Arrivals(arrivals), Traffic::Stream { lasts_ns, .. }) = (self, flow.traffic)
        else {
            return 0.0;
        };
        let from_ns = lasts_ns / 4;
        let counted = arrivals
            .iter()
            .filter(|at| (from_ns..lasts_ns).contains(*at));
        (counted.count() * flow.bytes) as f64 / (lasts_ns - from_ns) as f64 * 1e9
    }
}
