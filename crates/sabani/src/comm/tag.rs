//! What the 64 bits of a message's tag say: that it is a communicator's (bit 63), which one's (bits
//! 48 to 62), what kind of message (bits 32 to 47), and the program's own tag (bits 0 to 31).

use crate::Match;

/// A communicator's number, equal at all its ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(u16);

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The program's own.
    Message = 0,
    /// All that collectives send: what each is for stands in its header.
    Collective = 1,
}

impl Context {
    /// All ranks.
    pub const WORLD: Context = Context(0);

    /// A tag on the wire.
    pub fn tag(self, kind: Kind, tag: u32) -> u64 {
        1 << 63 | u64::from(self.0) << 48 | (kind as u64) << 32 | u64::from(tag)
    }

    /// Messages of whatever rank.
    pub fn matching(self, kind: Kind, tag: u32) -> Match {
        Match::any().tag(self.tag(kind, tag))
    }
}
