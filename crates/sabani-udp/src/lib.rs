//! Sabani's datagram driver: one non-blocking UDP socket that moves trains of datagrams.
//!
//! The driver knows nothing of the protocol above it. It does five things well:
//!
//! - **Batches in both directions.** A [`Train`] is a row of datagrams of equal size for one peer. It
//!   leaves as one message with segmentation offload (GSO), and several trains for several peers leave in
//!   one system call. Coalesced trains (GRO) arrive the same way, in a [`RecvBatch`].
//! - **Finds out what the kernel can do**, at start and while running ([`Capabilities`]), and does without
//!   what is missing: trains are cut into single datagrams where GSO is refused.
//! - **Keeps one peer's trouble away from the others.** A datagram that is too big, an unreachable host
//!   or another peer's ICMP error settle the fate of one train only ([`SendOutcome`]). ICMP errors are
//!   collected as [`IcmpHint`]s, never returned as failures.
//! - **Gives a peer that talks alone a connected socket of its own** on the same port, which takes 0.4 µs
//!   off half a round trip; all others are served beside it.
//! - **Counts** ([`Counters`]), including the datagrams that the kernel dropped for want of buffer.
//!
//! Nothing allocates for a datagram after [`Socket::bind`] and [`RecvBatch::new`]. Linux only.
//!
//! ```
//! use sabani_udp::{Options, RecvBatch, Socket, Train};
//!
//! # fn main() -> std::io::Result<()> {
//! let mut left = Socket::bind("127.0.0.1:0".parse().unwrap(), &Options::default())?;
//! let mut right = Socket::bind("127.0.0.1:0".parse().unwrap(), &Options::default())?;
//!
//! let train = Train::new(right.local_addr(), 1_000, &[7; 2_500]); // datagrams of 1,000, 1,000 and 500 bytes
//! left.send(&[train], &mut |_, _| ())?;
//!
//! let (mut batch, mut bytes) = (RecvBatch::new(4), 0);
//! while bytes < 2_500 {
//!     right.wait(None, None)?;
//!     right.recv(&mut batch)?;
//!     bytes += batch.received().map(|buffer| buffer.bytes.len()).sum::<usize>();
//! }
//! # Ok(())
//! # }
//! ```

#![deny(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!("sabani-udp drives Linux sockets");

mod address;
mod capabilities;
mod control;
mod counters;
mod fork;
mod hints;
mod hot;
mod options;
mod receive;
mod send;
mod setup;
mod socket;
#[allow(unsafe_code)]
mod sys;
mod train;
mod wait;

pub use capabilities::{BufferGrant, Capabilities};
pub use counters::Counters;
pub use fork::fork_generation;
pub use hints::{HintKind, IcmpHint};
pub use options::Options;
pub use receive::{BUFFER_BYTES, Datagrams, MAX_BUFFERS, Received, RecvBatch};
pub use socket::Socket;
pub use train::{Ecn, MAX_TRAIN_BYTES, SendOutcome, Train};
pub use wait::{Ready, Waker, Watch};
