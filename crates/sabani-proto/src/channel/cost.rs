//! What a datagram costs the receiving socket's buffer.

/// Bytes that Linux charges a socket's receive buffer for one datagram of `len` bytes: the data
/// with its headroom and trailer, rounded up to the allocator's size class, and the buffer's head.
/// (Measured: a buffer of 8 MiB as the kernel counts holds about 3,600 datagrams of 1,472 bytes or
/// 10,000 of a few bytes.) A window counted in plain bytes would let small datagrams overrun it.
#[inline]
pub const fn datagram_cost(len: usize) -> u32 {
    const HEAD: usize = 256;
    const AROUND: usize = 384;
    const SMALLEST: usize = 512;
    let room = len + AROUND;
    let class = if room <= SMALLEST {
        SMALLEST
    } else {
        room.next_power_of_two()
    };
    (HEAD + class) as u32
}
