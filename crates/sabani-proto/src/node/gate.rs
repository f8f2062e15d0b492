//! How many first messages of handshakes are looked at: a flood of them must not take the time that
//! connected peers need.

use crate::seal::{Entropy, InitMac, Mode};
use crate::wire::{ConnectionId, Prelude};

/// What is counted begins anew after this time.
const ROUND_NS: u64 = 100_000_000;
/// First messages of members looked at in a round. True ones take longer than a round for their public-key
/// cryptography alone; of recorded ones, so many take a fifth of it.
const MEMBERS: u32 = 4_000;
/// The same of others, which have another key, or an older version of this library; 5 µs each to know.
const OTHERS: u32 = 256;
/// Rejects sent in a round. They are hints, which the asker waits for no longer than for an answer; a flood
/// is not worth a system call each.
const REJECTS: u32 = 64;

/// Where first messages come in.
#[derive(Debug)]
pub(super) struct Gate {
    /// None in plain mode: anybody is a member there.
    mac: Option<InitMac>,
    round_ns: u64,
    members: u32,
    others: u32,
    rejects: u32,
}

impl Gate {
    pub fn new(mode: &Mode) -> Self {
        Gate {
            mac: InitMac::new(mode),
            round_ns: 0,
            members: 0,
            others: 0,
            rejects: 0,
        }
    }

    /// The nonce of a handshake of one's own: the table slot of `local`, and what shows a member.
    pub fn nonce(&self, local: ConnectionId, message1: &[u8], entropy: &mut Entropy) -> u64 {
        let random = entropy.next_u64();
        let code = self.mac.as_ref().map_or(random, |mac| mac.code(message1));
        ConnectionId::new(local.slot() as u32, code).0 & Prelude::MAX_PACKET_NUMBER
    }

    /// Whether a first message with this nonce is looked at.
    pub fn admits(&mut self, now_ns: u64, nonce: u64, message1: &[u8]) -> bool {
        self.begin_round(now_ns);
        let code = nonce >> 24;
        match self
            .mac
            .as_ref()
            .is_none_or(|mac| mac.verify(message1, code))
        {
            true => count(&mut self.members, MEMBERS),
            false => count(&mut self.others, OTHERS),
        }
    }

    /// Whether another Reject may leave.
    pub fn may_reject(&mut self, now_ns: u64) -> bool {
        self.begin_round(now_ns);
        count(&mut self.rejects, REJECTS)
    }

    fn begin_round(&mut self, now_ns: u64) {
        if now_ns >= self.round_ns + ROUND_NS {
            self.round_ns = now_ns;
            (self.members, self.others, self.rejects) = (0, 0, 0);
        }
    }
}

/// Counts one more, up to `most`.
fn count(counted: &mut u32, most: u32) -> bool {
    let is_room = *counted < most;
    *counted += u32::from(is_room);
    is_room
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
