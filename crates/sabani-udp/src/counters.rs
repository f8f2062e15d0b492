//! What a socket has done so far.

/// What a socket has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// System calls that sent or tried to.
    pub send_calls: u64,
    /// Datagrams that the kernel took.
    pub datagrams_sent: u64,
    /// Payload bytes that the kernel took.
    pub bytes_sent: u64,
    /// System calls that received or found nothing.
    pub recv_calls: u64,
    /// Receiving calls that found nothing.
    pub empty_polls: u64,
    /// Datagrams received, counted inside coalesced trains.
    pub datagrams_received: u64,
    /// Payload bytes received.
    pub bytes_received: u64,
    /// Received buffers that lost their end because the datagram was larger than the buffer.
    pub truncated: u64,
    /// Datagrams the kernel dropped because the receive buffer was full or the checksum wrong. While GRO
    /// is on, a dropped train counts once.
    pub kernel_drops: u64,
    /// Sends that stopped because the send buffer was full (`EAGAIN`).
    pub would_block: u64,
    /// Sends that stopped because a device queue was full or memory short (`ENOBUFS`, `ENOMEM`).
    pub no_buffers: u64,
    /// Trains with datagrams larger than the outgoing device takes (`EMSGSIZE`).
    pub too_big: u64,
    /// Trains that failed for another reason: no route, firewall, wrong address family, a source that is gone.
    pub failed: u64,
    /// ICMP errors that arrived for datagrams sent earlier.
    pub icmp_errors: u64,
    /// Calls that were repeated because they returned such an ICMP error instead of doing their work.
    pub repeated_calls: u64,
    /// Times the kernel refused a train with segmentation offload that it took in pieces.
    pub gso_refusals: u64,
    /// Times a peer got a connected socket of its own.
    pub hot_peers: u64,
    /// Trains that were sent in pieces, because offload is off or refused or the train was too long for
    /// one message.
    pub trains_cut: u64,
}

impl Counters {
    /// What was done through this handle of a socket and through another one. What the kernel dropped each of them counts.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            send_calls: self.send_calls + other.send_calls,
            datagrams_sent: self.datagrams_sent + other.datagrams_sent,
            bytes_sent: self.bytes_sent + other.bytes_sent,
            recv_calls: self.recv_calls + other.recv_calls,
            empty_polls: self.empty_polls + other.empty_polls,
            datagrams_received: self.datagrams_received + other.datagrams_received,
            bytes_received: self.bytes_received + other.bytes_received,
            truncated: self.truncated + other.truncated,
            kernel_drops: self.kernel_drops.max(other.kernel_drops),
            would_block: self.would_block + other.would_block,
            no_buffers: self.no_buffers + other.no_buffers,
            too_big: self.too_big + other.too_big,
            failed: self.failed + other.failed,
            icmp_errors: self.icmp_errors + other.icmp_errors,
            repeated_calls: self.repeated_calls + other.repeated_calls,
            gso_refusals: self.gso_refusals + other.gso_refusals,
            hot_peers: self.hot_peers + other.hot_peers,
            trains_cut: self.trains_cut + other.trains_cut,
        }
    }
}
