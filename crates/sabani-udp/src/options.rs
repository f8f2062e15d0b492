//! What a socket is asked for.

/// What to ask of the kernel when a socket is opened. Everything has a default that suits most programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of payload the receive buffer should hold. Default 4 MiB: 60 full trains, which is what a
    /// 10 Gbit/s network delivers while the receiving thread is away for 3 ms. The kernel charges for its
    /// own structures too and therefore grants twice this.
    pub recv_buffer_bytes: usize,
    /// Bytes of payload the send buffer should hold. Default 4 MiB. It bounds what waits in the queues of
    /// a slow device; on a fast one it is never full.
    pub send_buffer_bytes: usize,
    /// Let a privileged process (`CAP_NET_ADMIN`) go over the system's ceiling for socket buffers.
    /// Default true.
    pub force_buffers: bool,
    /// Send trains with segmentation offload where the kernel has it. Default true. When false, each
    /// train is cut into single datagrams, as on a kernel without offload.
    pub gso: bool,
    /// Receive coalesced trains where the kernel has it. Default true. When false, each buffer holds one
    /// datagram, as on a kernel without offload.
    pub gro: bool,
    /// Report what datagrams say of congestion ([`Received::ecn`](crate::Received::ecn)). Default false: it
    /// costs 0.1 to 0.2 µs for each message, and a peer that talks alone gets no socket of its own.
    pub ecn: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            recv_buffer_bytes: 4 << 20,
            send_buffer_bytes: 4 << 20,
            force_buffers: true,
            gso: true,
            gro: true,
            ecn: false,
        }
    }
}
