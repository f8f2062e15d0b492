//! How transports repair what is lost, beside what a measurement sees of it.

use crate::network::{Estimate, Recovery};

/// A transport's way to find out what is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repairs {
    /// A packet three behind shows a loss within a round trip, a POLL comes after two and the longest delay of an
    /// acknowledgement, and after 200 ms a connection begins anew. Receivers grant credit.
    Sabani,
    /// A packet behind shows a loss soon, and a tail is probed for after two round trips (RFC 8985); but where only the last packet is
    /// missing, its probe waits for an acknowledgement that may be delayed by as much as a timeout, 200 ms at least with Linux. What
    /// lost trips have shown is this time: a trip is one packet.
    Tcp,
}

impl Repairs {
    const TIMEOUT_NS: f64 = 200e6;

    /// What becomes of what is lost, where a round trip takes so long, and lost trips were seen to take so much longer.
    pub(super) fn recovery(self, round_ns: f64, seen: Option<Estimate>) -> Recovery {
        let later_ns = Estimate::exact(round_ns.max(1.0));
        let timeout_ns = Estimate::exact(Self::TIMEOUT_NS);
        match self {
            Repairs::Sabani => {
                const ACK_DELAY_NS: f64 = 2e6;
                const ALLOWANCE: f64 = 65_536.0;
                let probe = Estimate::exact(2.0 * round_ns + ACK_DELAY_NS);
                Recovery {
                    window_bytes: Estimate::exact(ALLOWANCE),
                    learned: false,
                    granted: true,
                    packet_bytes: 1_424.0,
                    ack_bytes: 28,
                    later_packets: 3,
                    later_ns,
                    probe_ns: Some(seen.unwrap_or(probe)),
                    timeout_ns,
                    seen: seen.is_some(),
                }
            }
            Repairs::Tcp => {
                const PACKET: f64 = 1_448.0;
                // From the initial window (RFC 6928) to what connections have that are used for different algorithms in turn (`ss -ti`).
                let window = [10.0 * PACKET, 14.0 * PACKET, 22.0 * PACKET];
                Recovery {
                    window_bytes: Estimate {
                        low: window[0],
                        value: window[1],
                        high: window[2],
                    },
                    learned: true,
                    granted: false,
                    packet_bytes: PACKET,
                    ack_bytes: 0,
                    later_packets: 1,
                    later_ns,
                    probe_ns: Some(Estimate::exact(2.0 * round_ns)),
                    timeout_ns: seen.unwrap_or(timeout_ns),
                    seen: seen.is_some(),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_trips_show_a_poll_of_sabani_and_a_timeout_of_tcp() {
        let seen = Estimate::exact(7e6);
        let recovery = |repairs: Repairs, seen| repairs.recovery(1e5, seen);
        let sabani = recovery(Repairs::Sabani, Some(seen));
        assert_eq!(sabani.probe_ns, Some(seen));
        assert_eq!(sabani.timeout_ns.value, 200e6);
        let tcp = recovery(Repairs::Tcp, Some(seen));
        assert_eq!(tcp.timeout_ns, seen);
        assert_eq!(tcp.probe_ns, Some(Estimate::exact(2e5)));
        assert_eq!(recovery(Repairs::Tcp, None).timeout_ns.value, 200e6);
        assert!(sabani.granted && !tcp.granted);
        assert!(sabani.seen && tcp.seen && !recovery(Repairs::Sabani, None).seen);
    }
}
