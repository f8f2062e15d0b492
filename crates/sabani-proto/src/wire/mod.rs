//! The bytes on the wire: a fixed clear [`Prelude`], typed [`Frame`]s inside the seal, and the
//! [`Hello`] that both sides say in the handshake. `docs/protocol.md` is the normative text.
//!
//! Parsing is one pass without allocation: bytes in, borrowed values out, [`Malformed`] for
//! everything else. All integers are little-endian.

mod bytes;
mod entry;
mod frame;
mod handshake;
mod prelude;
#[cfg(test)]
mod tests;

pub(crate) use bytes::{Reader, Writer};
pub use entry::{Entries, Entry, EntryMode, INLINE_MAX, INLINE_MAX_AT_FIRST};
pub use frame::{Ack, AckRange, CloseReason, Fragment, Frame, Frames, Grant, Terms};
pub use handshake::{Hello, Init, Reject, RejectReason};
pub use prelude::{ConnectionId, Kind, Prelude, VERSION, VERSION_MIN};

/// The bytes do not follow the protocol. Carries what was wrong, for the event log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed packet: {}", self.0)
    }
}

impl std::error::Error for Malformed {}
