//! How a sender finds what was lost: its own way, and those that the papers compare with.

use super::Rtt;

/// How a sender finds what was lost, and what of it goes again (rows H5, H6, U3). A value of the
/// sender alone: receivers do the same for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// What a gap shows to be missing goes again, and nothing else; a tail that stays silent is
    /// asked for. The default: it costs a packet for each packet lost.
    #[default]
    Selective,
    /// Go-back-N, as the HIPPI protocol and the user-level library had it: once a packet is
    /// reported missing, it goes again with all that was sent after it. Costs all that is on its
    /// way for each packet lost, or overtaken.
    GoBackN,
    /// Gaps tell nothing: what stays without acknowledgement for SRTT + 4·var, and not less than
    /// 200 ms, goes again, the last packet first, and the others once its answer says that they have
    /// not come; the time doubles, up to 2 s, until something is acknowledged. What TCP
    /// on Linux does without fast retransmit (RFC 6298). Costs that time for each packet lost.
    Timeout,
}

/// The shortest timeout of TCP on Linux.
const TIMEOUT_MIN_NS: u64 = 200_000_000;

impl Recovery {
    /// How long the oldest packet in flight may stay without acknowledgement, if that alone decides.
    #[inline]
    pub(super) fn timeout_ns(self, rtt: &Rtt) -> Option<u64> {
        (self == Recovery::Timeout).then(|| rtt.patience_ns().max(TIMEOUT_MIN_NS))
    }
}
