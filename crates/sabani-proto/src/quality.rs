//! What a program wants of its flow towards a peer (U10).

use crate::wire::Terms;

/// What comes first in what a program sends to one peer (U10). A wish: the peer's library answers
/// with what it grants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quality {
    /// Nothing: windows are what the path carries, shared by all who send there. The default, and
    /// the best for most.
    #[default]
    Even,
    /// Throughput: the largest window and memory that the peer has, as much of it as may be used
    /// at once after a rest, and few acknowledgements.
    Throughput,
    /// Response: a window of 8 packets, so that what is sent never queues behind much of what
    /// went before; 4 packets may always leave at once, as far as the peer has room for that; an
    /// acknowledgement comes within 25 µs, or for 4 packets; and small messages don't wait for
    /// company. Costs throughput where the path holds more than the window, and packets back.
    Response,
    /// Terms of the program's own.
    Own {
        /// What to ask the peer for.
        terms: Terms,
        /// Whether small messages to a busy peer leave at once, rather than wait for company.
        prompt: bool,
    },
}

/// What a packet of 1,472 bytes is charged.
const PACKET: u32 = 2_304;
/// More than any receiver grants.
const LARGEST: u32 = u32::MAX - 1;

impl Quality {
    /// What the peer is asked for.
    pub fn terms(&self) -> Terms {
        match *self {
            Quality::Even => Terms::default(),
            Quality::Throughput => Terms {
                window_bytes: Some(LARGEST),
                allowance_bytes: Some(LARGEST),
                memory_bytes: Some(LARGEST),
                ..Terms::default()
            },
            Quality::Response => Terms {
                window_bytes: Some(8 * PACKET),
                allowance_bytes: Some(4 * PACKET),
                memory_bytes: None,
                ack_every: Some(4),
                ack_delay_us: Some(25),
            },
            Quality::Own { terms, .. } => terms,
        }
    }

    /// Whether small messages don't wait for company.
    pub(crate) fn is_prompt(&self) -> bool {
        match *self {
            Quality::Own { prompt, .. } => prompt,
            _ => *self == Quality::Response,
        }
    }
}
