//! The receiving half: what has come, and when it must be acknowledged (H5, U5).

use super::{AckPolicy, Arrival, BASE_DATAGRAM, ChannelConfig, PacketSet, datagram_cost};
use crate::wire::{Ack, Prelude};

/// Packets received and the acknowledgement owed for them.
#[derive(Debug)]
pub(crate) struct Received {
    pub packets: PacketSet,
    policy: AckPolicy,
    delay_ns: u64,
    /// The same where nothing depends on the acknowledgement, if that is longer.
    late_ns: u32,
    /// The window that the last acknowledgement told.
    told: u32,
    /// How often credit is still to be told early.
    early: u8,
    /// The sender has said that it waits for credit, since [`Received::owe_credit`].
    waits: bool,
    /// What comes is acknowledged within that time, asked for or not.
    unasked: bool,
    /// What of messages has come since [`Received::take_data`].
    data: Data,
    /// The largest datagram that the peer sends, as far as it is known.
    datagram: u16,
    largest_at_ns: u64,
    answers: u32,
    /// Packets, and their cost, that no acknowledgement has told of.
    owed_packets: u32,
    owed_cost: u32,
    /// `NEVER` if nothing must leave.
    deadline_ns: u64,
    /// Packets that came marked by a switch, in all.
    marks: u32,
    progress: Progress,
}

/// Packets that came in a row, all of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owed {
    pub packets: u32,
    /// Bytes of each.
    pub bytes: usize,
    /// What any of them says, of the bits below.
    pub says: u8,
    /// How the first one fitted in.
    pub arrival: Arrival,
}

impl Owed {
    /// It is to be acknowledged, ...
    const ASKS: u8 = 1;
    /// ... and that at once.
    const AT_ONCE: u8 = 2;
    /// More waits behind it, and there is no credit for that.
    const WAITS: u8 = 4;

    /// What one packet says with its flags.
    #[inline]
    fn says(flags: u8) -> u8 {
        match (flags & Prelude::ASK != 0, flags & Prelude::URGENT != 0) {
            (true, true) => Self::ASKS | Self::AT_ONCE,
            (true, false) => Self::ASKS,
            (false, true) => Self::WAITS,
            (false, false) => 0,
        }
    }
}

/// What has come since this was last asked, as far as credit goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Cost by which the largest packet number has moved on; missing packets count like those
    /// behind them.
    pub advanced: u32,
    /// Packets that needed an acknowledgement, their cost and their bytes.
    pub packets: u32,
    pub cost: u32,
    pub bytes: u32,
    /// Packets newly known to be missing, and those that came late after all.
    pub missing: u32,
    pub late: u32,
    /// Packets marked by a switch.
    pub marked: u32,
    /// Missing packets whose cost is not counted yet.
    uncounted: u32,
}

/// No burst that any window allows is longer than this many packets.
const MISSING_MAX: u64 = 1 << 16;

impl Progress {
    /// More packets have come; what is missing before the first counts as much as it.
    #[inline]
    fn note(&mut self, owed: &Owed) {
        let cost = datagram_cost(owed.bytes);
        self.packets += owed.packets;
        self.cost = self.cost.saturating_add(cost * owed.packets);
        self.bytes = self.bytes.saturating_add(owed.bytes as u32 * owed.packets);
        if owed.arrival == Arrival::Late {
            self.late += owed.packets;
            return;
        }
        let moved = std::mem::take(&mut self.uncounted).saturating_add(owed.packets);
        self.advanced = self.advanced.saturating_add(moved.saturating_mul(cost));
    }
}

/// What packets bring of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Data {
    #[default]
    None,
    /// Short ones, or envelopes.
    Short,
    /// Pieces of longer ones.
    Long,
}

impl Data {
    /// A message of more bytes is long: ten full packets or so.
    const SHORT_MAX: u64 = 16 << 10;

    /// What a piece of a message of so many bytes is.
    #[inline]
    pub fn of(total: u64) -> Self {
        match total > Self::SHORT_MAX {
            true => Data::Long,
            false => Data::Short,
        }
    }
}

const NEVER: u64 = u64::MAX;
/// What is owed may be acknowledged late if it is less than this, in bytes of cost,
const LATE_MAX: u32 = 256 << 10;
/// and if the sender has so much credit beyond it as far as it knows: then it waits for nothing.
const LATE_CREDIT: u32 = 48 << 10;
/// A sender that has waited for credit that was there is told of it early so many times. (Two hosts that exchange 64 KiB at a time over
/// 10 Gbit/s get 0.48 of their links without that, and 0.65.) Others are not: a word in the midst of a message holds up its answer,
/// which would have said so for nothing (64 KiB there and back over a pair of veth took half as long again).
const EARLY_TIMES: u8 = 32;
/// Early is after so long, in nanoseconds, unless something else leaves before; ...
pub(super) const EARLY_NS: u64 = 10_000;
/// ... and it is when half of what it may hold unasked is used up, and when it asks with less than this left, in bytes of cost.
const LOW_CREDIT: u32 = 8 << 10;

/// A sender must be able to forget what has arrived before its queue is full.
const OWED_MAX: u32 = 384 << 10;

impl Received {
    pub fn new(config: &ChannelConfig) -> Self {
        Received {
            packets: PacketSet::default(),
            policy: config.ack_policy,
            delay_ns: config.ack_delay_ns,
            late_ns: config.late_ack_ns,
            told: 0,
            early: 0,
            waits: false,
            unasked: false,
            data: Data::None,
            datagram: config.proven_datagram as u16,
            largest_at_ns: 0,
            answers: 0,
            owed_packets: 0,
            owed_cost: 0,
            deadline_ns: NEVER,
            marks: 0,
            progress: Progress::default(),
        }
    }

    /// Acknowledges by this policy from now on; what was asked for, or everything if `unasked`, within
    /// `delay_ns`.
    pub fn set_policy(&mut self, policy: AckPolicy, delay_ns: u64, unasked: bool) {
        self.policy = policy;
        self.delay_ns = delay_ns;
        self.unasked = unasked;
    }

    /// Records an authenticated packet of `bytes` that [`PacketSet::contains`] did not know; returns
    /// what [`Received::owe`] wants to know if it must be acknowledged.
    #[inline]
    pub fn on_packet(&mut self, prelude: &Prelude, bytes: usize, now_ns: u64) -> Owed {
        let expected = self.packets.largest().map_or(0, |largest| largest + 1);
        let arrival = self.packets.insert(prelude.packet_number);
        if arrival == Arrival::Gap {
            let missing = (prelude.packet_number - expected).min(MISSING_MAX) as u32;
            self.progress.missing += missing;
            self.progress.uncounted += missing;
        }
        if arrival != Arrival::Late {
            self.largest_at_ns = now_ns;
            if prelude.flags & Prelude::ASK != 0 {
                self.answers = prelude.packet_number as u32;
            }
        }
        Owed {
            packets: 1,
            bytes,
            says: Owed::says(prelude.flags),
            arrival,
        }
    }

    /// A packet that is owed an acknowledgement has brought something of messages.
    #[inline]
    pub fn note_data(&mut self, data: Data) {
        self.data = self.data.max(data);
    }

    /// The packet that was just recorded is a probe: the peer sends no larger ones, or it would not ask.
    pub fn on_probe(&mut self, bytes: usize) {
        self.datagram = bytes as u16;
    }

    /// The largest datagram that the peer sends, in bytes, as far as it is known.
    #[inline]
    pub fn datagram(&self) -> usize {
        usize::from(self.datagram).max(BASE_DATAGRAM)
    }

    /// A switch has marked a packet that was just recorded.
    pub fn on_mark(&mut self) {
        self.marks = self.marks.wrapping_add(1);
        self.progress.marked += 1;
    }

    /// The low 32 bits of how many packets came marked.
    #[inline]
    pub fn marks(&self) -> u32 {
        self.marks
    }

    /// Settles when packets must be acknowledged, once they are known to carry something that
    /// must arrive.
    #[inline]
    pub fn owe(&mut self, owed: &Owed, now_ns: u64) {
        self.owed_packets += owed.packets;
        let cost = datagram_cost(owed.bytes) * owed.packets;
        self.owed_cost = self.owed_cost.saturating_add(cost);
        self.progress.note(owed);
        self.datagram = self.datagram.max(owed.bytes as u16);
        let asked = self.unasked || owed.says & Owed::ASKS != 0;
        let urgent = owed.says & Owed::AT_ONCE != 0;
        self.waits |= owed.says & Owed::WAITS != 0;
        let due = match self.policy {
            AckPolicy::WhenAsked => self.owed_cost >= OWED_MAX,
            AckPolicy::EveryPackets(n) => self.owed_packets >= n,
        };
        if due || owed.arrival != Arrival::Next || urgent {
            self.deadline_ns = now_ns;
        } else if asked {
            self.deadline_ns = self.deadline_ns.min(now_ns + self.patience_ns());
            if self.is_low() {
                self.tell_early(now_ns);
            }
        }
    }

    /// Whether the sender has hardly any credit left, as far as it knows.
    #[inline]
    fn is_low(&self) -> bool {
        self.told < self.owed_cost.saturating_add(LOW_CREDIT)
    }

    /// How long the acknowledgement may wait for data to ride on.
    #[inline]
    fn patience_ns(&self) -> u64 {
        let depends = self.unasked
            || self.owed_cost >= LATE_MAX
            || self.told < self.owed_cost.saturating_add(LATE_CREDIT);
        match depends {
            true => self.delay_ns,
            false => self.delay_ns.max(self.late_ns.into()),
        }
    }

    /// An acknowledgement must leave now, whatever the policy says.
    pub fn owe_now(&mut self, now_ns: u64) {
        self.deadline_ns = now_ns;
    }

    /// The peer wants `remaining`, and had been given `credit`, in cost both, before this was known; now it is `renewed` as well, which
    /// nothing else tells it. That is in no hurry, unless the peer has waited though it had been given enough: it had not been told, or the
    /// word was still on its way.
    #[inline]
    pub fn owe_credit(&mut self, remaining: u64, credit: u32, renewed: bool, now_ns: u64) {
        let known = self.told.saturating_sub(self.owed_cost);
        let knows_enough = remaining <= known.into();
        let waits = std::mem::take(&mut self.waits);
        let untold = !knows_enough && credit > known;
        let again = self.early > 0;
        if untold || (waits && knows_enough) {
            self.early = EARLY_TIMES;
        }
        if untold && (waits || again) || renewed && again {
            self.tell_early(now_ns);
        }
    }

    /// Tells credit early, if that is still to be done and nothing tells it as soon.
    #[inline]
    fn tell_early(&mut self, now_ns: u64) {
        let early_ns = now_ns + EARLY_NS;
        if self.early > 0 && early_ns < self.deadline_ns {
            self.early -= 1;
            self.deadline_ns = early_ns;
        }
    }

    /// When an acknowledgement must leave, if one is owed that nothing else would carry.
    pub fn deadline(&self) -> Option<u64> {
        (self.deadline_ns != NEVER).then_some(self.deadline_ns)
    }

    /// Whether [`Received::take_progress`] has anything to tell.
    #[inline]
    pub fn has_progress(&self) -> bool {
        self.progress.packets > 0 || self.progress.missing > 0
    }

    /// What of the credit given has been used since [`Received::take_progress`].
    #[inline]
    pub fn used(&self) -> u32 {
        self.progress.advanced
    }

    /// What has come since this was last asked.
    #[inline]
    pub fn take_progress(&mut self) -> Progress {
        std::mem::take(&mut self.progress)
    }

    /// What of it was of messages.
    #[inline]
    pub fn take_data(&mut self) -> Data {
        std::mem::take(&mut self.data)
    }

    /// Whether anything has come that no acknowledgement has told of.
    #[inline]
    pub fn owes(&self) -> bool {
        self.owed_packets > 0
    }

    /// The acknowledgement, to be sent now.
    pub fn take_ack(&mut self, window: u32, now_ns: u64) -> Ack {
        self.owed_packets = 0;
        self.owed_cost = 0;
        self.deadline_ns = NEVER;
        self.told = window;
        let (first_len, ranges) = self.packets.report();
        let delay = now_ns.saturating_sub(self.largest_at_ns);
        Ack {
            largest: self.packets.largest().unwrap_or(0),
            first_len,
            delay_ns: delay.min(u64::from(u32::MAX)) as u32,
            answers: self.answers,
            window,
            ranges,
        }
    }
}
