//! How many messages of handshakes are looked at: a flood of them must not take the time that
//! connected peers need.

use crate::seal::{Entropy, InitMac, Mode};
use crate::wire::{ConnectionId, Prelude};

/// What is counted begins anew after this time.
const ROUND_NS: u64 = 100_000_000;
/// First messages of members opened in a round, of those that don't show that their senders can be reached
/// where they say, and as many of those that do; 6 µs each.
const MEMBERS: u32 = 2_000;
/// Those of them answered in a round, if they are no repetitions: 60 µs each, for public-key cryptography. Of
/// recorded ones, so many leave connections time enough; of true ones, few have to ask again, however many
/// processes begin at the same time.
const ANSWERS: u32 = 1_000;
/// Members asked in a round to show that; 1 µs each.
const COOKIES: u32 = 4_000;
/// First messages of others opened in a round: they have another key, or an older version of this library;
/// 5 µs each to know.
const OTHERS: u32 = 256;
/// Rejects sent in a round. They are hints, which the asker waits for no longer than for an answer; a flood
/// is not worth a system call each.
const REJECTS: u32 = 64;
/// Answers to handshakes of this side's that did not open, in a round; 50 µs each, for the key agreement comes
/// before it shows. Beyond, none is looked at: the true one comes again.
const FORGED: u32 = 64;

/// What becomes of a first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is opened.
    Opened,
    /// Its sender is to show that it can be reached, with a cookie.
    Asked,
    /// It is not looked at.
    Dropped,
}

/// Where first messages come in.
#[derive(Debug)]
pub(super) struct Gate {
    /// None in plain mode: anybody is a member there.
    mac: Option<InitMac>,
    round_ns: u64,
    round: Round,
}

/// What has come since the round began.
#[derive(Debug, Default)]
struct Round {
    reachable: u32,
    members: u32,
    others: u32,
    cookies: u32,
    answers: u32,
    rejects: u32,
    forged: u32,
}

impl Gate {
    pub fn new(mode: &Mode) -> Self {
        Gate {
            mac: InitMac::new(mode),
            round_ns: 0,
            round: Round::default(),
        }
    }

    /// The nonce of a handshake of one's own: the table slot of `local`, and what shows a member.
    pub fn nonce(&self, local: ConnectionId, message1: &[u8], entropy: &mut Entropy) -> u64 {
        let random = entropy.next_u64();
        let code = self.mac.as_ref().map_or(random, |mac| mac.code(message1));
        ConnectionId::new(local.slot() as u32, code).0 & Prelude::MAX_PACKET_NUMBER
    }

    /// What becomes of a first message with this nonce. `crowded`: so many handshakes are under way that
    /// others must show that they can be reached; `is_reachable` says whether this one's sender has done so.
    ///
    /// Who repeats what it has recorded can't do that for addresses that are not its own. So those who can
    /// are counted apart, and where members are too many, the others are asked to.
    pub fn admit(
        &mut self,
        now_ns: u64,
        nonce: u64,
        message1: &[u8],
        crowded: bool,
        is_reachable: impl FnOnce() -> bool,
    ) -> Admission {
        self.begin_round(now_ns);
        let round = &mut self.round;
        let mac = self.mac.as_ref();
        let is_member = mac.is_none_or(|mac| mac.verify(message1, nonce >> 24));
        if !is_member && !count(&mut round.others, OTHERS) {
            return Admission::Dropped;
        }
        let reachable = is_reachable();
        let opened = match (reachable, crowded) {
            (false, true) => false,
            _ if !is_member => true,
            (true, _) => count(&mut round.reachable, MEMBERS),
            (false, false) => count(&mut round.members, MEMBERS),
        };
        if opened {
            Admission::Opened
        } else if !reachable && count(&mut round.cookies, COOKIES) {
            Admission::Asked
        } else {
            Admission::Dropped
        }
    }

    /// Whether there is time to answer another first message that has not been answered before.
    pub fn may_answer(&mut self, now_ns: u64) -> bool {
        self.begin_round(now_ns);
        count(&mut self.round.answers, ANSWERS)
    }

    /// Whether another Reject may leave.
    pub fn may_reject(&mut self, now_ns: u64) -> bool {
        self.begin_round(now_ns);
        count(&mut self.round.rejects, REJECTS)
    }

    /// Whether there is time to look at another answer to a handshake of this side's.
    pub fn may_finish(&mut self, now_ns: u64) -> bool {
        self.begin_round(now_ns);
        self.round.forged < FORGED
    }

    /// One did not open.
    pub fn on_forged(&mut self) {
        self.round.forged += 1;
    }

    fn begin_round(&mut self, now_ns: u64) {
        if now_ns >= self.round_ns + ROUND_NS {
            self.round_ns = now_ns;
            self.round = Round::default();
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
