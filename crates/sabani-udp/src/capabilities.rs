//! What the kernel granted.

/// What the kernel granted to a socket, found out when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Trains leave as one message and are cut by the kernel or the network device.
    pub gso: bool,
    /// Trains arrive coalesced, in one buffer.
    pub gro: bool,
    /// Datagrams that one message may hold: 64 or 128 by kernel version, 1 without GSO. Longer trains are
    /// allowed; the driver divides them.
    pub max_segments: usize,
    /// The receive buffer.
    pub recv_buffer: BufferGrant,
    /// The send buffer.
    pub send_buffer: BufferGrant,
    /// The address each datagram was sent to is reported, because the socket is bound to a wildcard
    /// address and answers must leave from the address that was contacted. Costs 60 ns per message.
    pub reports_destination: bool,
    /// What datagrams say of congestion is reported ([`Options::ecn`](crate::Options::ecn)).
    pub reports_ecn: bool,
    /// IPv4 peers are served too by this IPv6 socket.
    pub dual_stack: bool,
    /// ICMP errors are collected as hints that name the peer.
    pub icmp_hints: bool,
}

/// How much memory the kernel granted to one of a socket's buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferGrant {
    /// Payload bytes that were asked for.
    pub requested_bytes: usize,
    /// Bytes that the kernel granted, as it charges them: payload, its own structures and slack. It
    /// grants twice what was asked for when nothing stands in the way.
    pub granted_bytes: usize,
    /// When the system's ceiling stood in the way: the command that raises it.
    pub cure: Option<String>,
}

impl BufferGrant {
    pub(crate) fn judge(requested_bytes: usize, granted_bytes: usize, sysctl: &str) -> Self {
        let clamped = granted_bytes < requested_bytes.saturating_mul(2);
        Self {
            requested_bytes,
            granted_bytes,
            cure: clamped.then(|| format!("sysctl -w {sysctl}={requested_bytes}")),
        }
    }

    /// Whether less was granted than asked for.
    pub fn is_clamped(&self) -> bool {
        self.cure.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_the_request_is_a_full_grant() {
        let grant = BufferGrant::judge(1_000, 2_000, "net.core.rmem_max");
        assert!(!grant.is_clamped());
    }

    #[test]
    fn a_clamped_grant_names_the_exact_command() {
        let grant = BufferGrant::judge(4 << 20, 425_984, "net.core.rmem_max");
        assert_eq!(
            grant.cure.as_deref(),
            Some("sysctl -w net.core.rmem_max=4194304")
        );
    }
}
