//! Credit that peers hold without having asked: what lets a message begin at once.
//!
//! All of it together is what the path's queue is believed to hold, so the worst burst that nobody
//! has foreseen fits. (What is foreseen of a peer that sends steadily, `steady`, comes on top: it arrives one packet
//! after the other.) Shares between a bare request and a whole message are of little use (1 packet
//! each ruins 400 senders at a time and speeds up no ping), so few peers get much and many get
//! nothing.

use super::CreditConfig;

/// Standing credit ends when nothing was heard for this long; the peer forgets it after the same
/// time.
pub(crate) const DECAY_NS: u64 = 100_000_000;
/// How much longer the receiver counts it, beside two round trips: clocks and hosts are late.
pub(super) const DECAY_GRACE_NS: u64 = 10_000_000;
/// Less than this many full packets is not worth a promise. Who is terse, and never sends more than one at a time, is promised no more while
/// others are not.
const LEAST_PACKETS: u64 = 2;

/// The budget of standing credit.
#[derive(Debug)]
pub(super) struct Pool {
    most: u64,
    /// So many peers are likely to send.
    expected: u64,
    /// Sum of all promises that have not decayed, in charge.
    pub promised: u64,
    /// Peers heard within the decay time, ...
    pub peers: u32,
    /// ... and those of them that are terse.
    pub terse: u32,
}

impl Pool {
    pub fn new(config: &CreditConfig) -> Self {
        Pool {
            most: config.socket_bytes / 4,
            expected: config.expected_peers.into(),
            promised: 0,
            peers: 0,
            terse: 0,
        }
    }

    /// What a peer may hold, being one of those heard lately.
    #[inline]
    pub fn share(&self, holder: &Holder) -> u64 {
        let Holder {
            own,
            queue,
            full,
            wish,
            is_terse,
        } = *holder;
        let size = self.most.min(queue);
        // Of several, some may begin at the same time while another's grants arrive.
        let several = size * 3 / 4;
        let least = LEAST_PACKETS * full;
        let expected = self.expected.min(several / least);
        let (size, share) = match u64::from(self.peers).max(expected) {
            0 | 1 => (size, size),
            peers => {
                let terse = u64::from(self.terse);
                // Of many, each may have one packet on its way without credit, too.
                let each = match terse * least <= several / 2 {
                    true => least,
                    false => 0,
                };
                let share = if self.terse == self.peers {
                    several / peers
                } else if is_terse {
                    each
                } else {
                    (several - terse * each) / (peers - terse)
                };
                (several, share)
            }
        };
        let share = wish.map_or(share, |wish| wish.min(share.max(size / 2)));
        let free = size.saturating_sub(self.promised - own);
        let packets = share.min(free) / full;
        if packets < LEAST_PACKETS {
            0
        } else {
            packets * full
        }
    }
}

/// Who is promised standing credit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    /// The promise it holds now.
    pub own: u64,
    /// The estimate of the path's queue.
    pub queue: u64,
    /// What a full datagram of it is charged.
    pub full: u64,
    /// What it would like to hold, if it has said so.
    pub wish: Option<u64>,
    /// It is terse: it has sent no more than a packet at a time lately.
    pub is_terse: bool,
}
