//! One connection's reliability: packet numbers, acknowledgements, loss, round-trip time, window
//! and path MTU. It knows nothing of messages: packets carry values of type `C`, and the channel
//! says of each, once, whether it arrived or was lost.

mod congestion;
mod cost;
mod mtu;
mod packet_set;
mod received;
mod recovery;
mod rtt;
mod sent;
#[cfg(test)]
mod tests;
mod tolerance;

use std::num::NonZeroU64;

use crate::credit::DECAY_NS;
use crate::wire::Ack;
pub use congestion::Congestion;
use congestion::{Acked, Governor};
pub use cost::datagram_cost;
pub(crate) use mtu::MtuSearch;
pub use mtu::{BASE_DATAGRAM, DEFAULT_DATAGRAM, MAX_DATAGRAM};
pub(crate) use packet_set::{Arrival, PacketSet};
pub(crate) use received::{Data, Owed, Received};
pub use recovery::Recovery;
pub(crate) use rtt::Rtt;
use sent::Settled;
pub(crate) use sent::{Cargo, Fate, SentLog, Standing};

/// A peer that is so late, beside some round trips, is more than busy.
const STUCK_NS: u64 = 50_000_000;
/// No path is filled better by more; far below what 32 bits can count.
const MAX_WINDOW: u32 = 1 << 30;
/// The same where no congestion control wants to know more often.
const ASK_EVERY: u32 = 384 << 10;
/// What is sent of a burst before it counts as one, in bytes of cost; at least two full packets.
const BURST: u32 = 32 << 10;
/// What waits in the path's queues leaves it within this time and two round trips.
const QUEUED_MAX_NS: u64 = 2_000_000;
/// However often nobody has answered, a tail is asked for again after this long, or after two answers' time.
const POLL_MAX_NS: u64 = 2_000_000_000;
/// Late acknowledgements are fine where so many times as much may pass before the peer counts as lost: one
/// may itself be lost, and asked for as late.
const LATE_IN_SPARE: u64 = 4;
/// Slower packets than this are not told from pauses.
const PACE_MAX_NS: u64 = 10_000_000;
/// Over how many of them the pace of packets is smoothed.
const PACE_PACKETS: u64 = 64;

/// How soon an acknowledgement is owed for what a data packet carried (rows H5, U5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckPolicy {
    /// When the sender asks, when 384 KiB have come unasked, as the kernel charges them
    /// ([`crate::datagram_cost`]), or for free on data going back. The default: one acknowledgement serves hundreds
    /// of packets.
    WhenAsked,
    /// For every `n` packets, as the HIPPI protocol did with n = 20, and the user-level library
    /// with n = 1. Costs a packet back for each n.
    EveryPackets(u32),
}

/// Values that steer a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChannelConfig {
    pub ack_policy: AckPolicy,
    pub recovery: Recovery,
    pub congestion: Congestion,
    /// How long an acknowledgement that was asked for may wait for data to ride on.
    pub ack_delay_ns: u64,
    /// How long it may wait where nothing depends on it.
    pub late_ack_ns: u32,
    /// What the peer announced as its longest delay.
    pub peer_ack_delay_ns: u32,
    /// How long the peer lets its acknowledgements wait where nothing depends on them.
    pub peer_late_ack_ns: u32,
    /// Tells this connection from others where many wait for the same.
    pub salt: u8,
    /// How long the peer may be silent after an answer was due at the latest.
    pub spare_ns: u64,
    /// First credit, until the peer's first acknowledgement says otherwise.
    pub window: u32,
    /// Largest datagram both sides take.
    pub max_datagram: usize,
    /// Datagram size that the handshake proved.
    pub proven_datagram: usize,
}

/// Reliability state of one connection.
#[derive(Debug)]
pub(crate) struct Channel<C> {
    pub sent: SentLog<C>,
    pub received: Received,
    pub rtt: Rtt,
    pub mtu: MtuSearch,
    /// Bytes, as the peer's kernel charges them, that the peer lets be sent above the newest packet
    /// that it is known to have.
    pub credit: u32,
    /// What of that may be sent now: less if congestion control holds it back.
    window: u32,
    governor: Option<Box<Governor>>,
    peer_ack_delay_ns: u32,
    peer_late_ack_ns: u32,
    /// The peer would be taken for lost before its late acknowledgement came.
    is_impatient: bool,
    /// Cost sent since an answer was last asked for.
    unasked: u32,
    /// An answer is asked for at least as often as this much has been sent, in bytes of cost.
    ask_every: u32,
    /// POLLs sent since the peer last answered the newest packet that asked, or what was not sent
    /// again since.
    pub polls_unanswered: u8,
    salt: u8,
    /// The peer keeps account of packets that are settled.
    floor_due: bool,
    /// The low half of the number of the packet that has asked for an answer last.
    asked: u32,
    pub last_heard_ns: u64,
    /// When something that must arrive was last sent, or the question for it put off.
    last_sent_ns: u64,
    /// When credit was last used, or came, in microseconds and modulo 2^32: after 71 minutes of silence it
    /// may be taken for new once more.
    credit_us: u32,
    /// When an acknowledgement last settled something, or could first have done so for what was sent
    /// after that.
    progress_ns: u64,
    /// Smoothed time between packets, as acknowledgements show them to arrive.
    packet_ns: u32,
}

fn micros(ns: u64) -> u32 {
    (ns / 1_000) as u32
}

/// Packets that leave now, of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Number of the first.
    pub first: u64,
    pub packets: u32,
    /// Bytes of each.
    pub bytes: usize,
    /// They carry something that must arrive.
    pub eliciting: bool,
    /// They need the peer's credit, and use it up.
    pub charged: bool,
    /// The last of them asks for an answer.
    pub ask: bool,
    /// There is one, and it probes the path's MTU.
    pub probe: bool,
}

impl<C: Cargo> Channel<C> {
    pub fn new(config: &ChannelConfig, now_ns: u64) -> Self {
        let mtu = MtuSearch::new(config.proven_datagram, config.max_datagram);
        let late_ns = config.peer_late_ack_ns;
        let is_impatient = LATE_IN_SPARE * u64::from(late_ns) > config.spare_ns;
        let mut channel = Channel {
            sent: SentLog::new(config.recovery),
            received: Received::new(config),
            rtt: Rtt::default(),
            credit: config.window.min(MAX_WINDOW),
            window: 0,
            governor: None,
            mtu,
            peer_ack_delay_ns: config.peer_ack_delay_ns,
            // Who never lets it be late need not reckon with it.
            peer_late_ack_ns: if is_impatient { 0 } else { late_ns },
            is_impatient,
            unasked: 0,
            ask_every: ASK_EVERY,
            polls_unanswered: 0,
            salt: config.salt,
            floor_due: false,
            asked: 0,
            last_heard_ns: now_ns,
            last_sent_ns: now_ns,
            credit_us: micros(now_ns),
            progress_ns: now_ns,
            packet_ns: 0,
        };
        channel.set_congestion(config.congestion, now_ns);
        channel
    }

    /// What keeps packets to what the path carries, from now on.
    pub fn set_congestion(&mut self, kind: Congestion, now_ns: u64) {
        let max_rate = self.governor().and_then(Governor::max_rate);
        self.govern_by(kind, max_rate, now_ns);
    }

    /// Bytes that leave in a second at most, in full datagrams.
    pub fn set_max_pacing_rate(&mut self, rate: Option<NonZeroU64>, now_ns: u64) {
        match &mut self.governor {
            Some(governor) if rate.is_some() || governor.own_window().is_some() => {
                governor.set_max_rate(rate);
                self.refresh(now_ns);
            }
            _ => self.govern_by(Congestion::None, rate, now_ns),
        }
    }

    fn govern_by(&mut self, kind: Congestion, max_rate: Option<NonZeroU64>, now_ns: u64) {
        let before = self.governor.take();
        self.governor = Governor::new(kind, max_rate, self.mtu.current(), now_ns);
        if let (Some(governor), Some(before)) = (&mut self.governor, before) {
            governor.keep_pace(*before);
        }
        self.refresh(now_ns);
    }

    pub fn governor(&self) -> Option<&Governor> {
        self.governor.as_deref()
    }

    /// Works out what may leave now. Packets that use credit up use this up, too, until then.
    #[inline]
    pub fn refresh(&mut self, now_ns: u64) {
        let most = self.most();
        let mut room = most.saturating_sub(self.sent.in_flight_but_probes());
        let is_stuck = self.is_stuck(now_ns);
        self.ask_every = most.min(ASK_EVERY);
        if let Some(governor) = &mut self.governor {
            governor.set_full(self.mtu.current());
            room = room.min(governor.room(self.sent.in_flight_but_probes(), &self.rtt, now_ns));
            self.ask_every = self.ask_every.min(governor.ask_every());
            // One packet after the other would put the POLL off, which finds out what is wrong.
            if governor.max_rate().is_some() && is_stuck {
                room = 0;
            }
        }
        self.window = self.credit.min(self.sent.ahead().saturating_add(room));
    }

    /// Cost that may be on its way as far as finding losses goes.
    #[inline]
    fn most(&self) -> u32 {
        let full = datagram_cost(self.mtu.current());
        self.sent.most().saturating_mul(full)
    }

    /// When the pacer lets the next packets go, if that is what holds them back.
    pub fn release_ns(&self) -> Option<u64> {
        let governor = self.governor.as_ref()?;
        governor.release_ns(self.sent.in_flight_but_probes())
    }

    /// How long something has been in flight without anything being acknowledged.
    pub fn stuck_ns(&self, now_ns: u64) -> u64 {
        if self.sent.in_flight_packets() == 0 {
            return 0;
        }
        now_ns.saturating_sub(self.progress_ns)
    }

    /// Gives the peer as much time as if it had just been heard of.
    pub fn forgive(&mut self, now_ns: u64) {
        self.last_heard_ns = now_ns;
        self.progress_ns = now_ns;
        self.polls_unanswered = 0;
    }

    /// Packets go another way from now on, to another host if it is `far`: neither the round-trip time
    /// nor the datagram size of the old one is any good then.
    pub fn on_new_path(&mut self, far: bool, now_ns: u64) {
        self.forgive(now_ns);
        if far {
            self.rtt = Rtt::anew(now_ns);
            self.mtu.on_new_path(now_ns);
            let kind = self.governor.as_ref().map(|governor| governor.kind());
            self.set_congestion(kind.unwrap_or_default(), now_ns);
        }
    }

    /// When something that must arrive was last sent, or the question for it put off.
    pub fn last_sent_ns(&self) -> u64 {
        self.last_sent_ns
    }

    /// Whether the peer's credit covers `packets` more of `bytes` each.
    #[inline]
    pub fn has_credit(&self, bytes: usize, packets: u32) -> bool {
        self.sent.ahead() + packets * datagram_cost(bytes) <= self.credit
    }

    /// Whether `packets` more of `bytes` each may leave now: the peer's credit covers them, and no
    /// congestion control holds them back.
    #[inline]
    pub fn may_send(&self, bytes: usize, packets: u32) -> bool {
        self.sent.ahead() + packets * datagram_cost(bytes) <= self.window
    }

    /// Whether nothing holds `packets` more of `bytes` each back but the rate that the program has set.
    #[inline]
    pub fn is_held_to_rate(&self, bytes: usize, packets: u32) -> bool {
        let has_rate = self.governor().is_some_and(|it| it.max_rate().is_some());
        has_rate && self.has_credit(bytes, packets) && !self.may_send(bytes, packets)
    }

    /// Size of the probe to send now, if one is called for. One for more is charged what it takes, and one that was lost may be
    /// lost again: where nothing is on its way that will be answered, a `lone` packet that waits goes first, or as well.
    pub fn probe(&mut self, lone: bool, now_ns: u64) -> Option<usize> {
        let (bytes, current) = (self.mtu.wanted(now_ns)?, self.mtu.current());
        let both = datagram_cost(bytes) + datagram_cost(current);
        let may_wait =
            self.mtu.is_again() && bytes > current && lone && self.sent.in_flight_packets() == 0;
        if may_wait && self.sent.ahead() + both > self.window {
            return None;
        }
        self.mtu.probe(now_ns)
    }

    /// Whether what has been sent, with a packet of `bytes` behind it, has used up half of a burst's
    /// credit: an answer that comes soon lets the sender go on.
    #[inline]
    pub fn is_credit_low(&self, bytes: usize) -> bool {
        let cost = datagram_cost(bytes);
        self.sent.ahead() + cost > (self.window / 2).max(BURST).max(2 * cost)
    }

    /// Whether an answer to a packet of `bytes` must not be late although nothing depends on it as far as
    /// the peer knows. It knows of its credit alone, and what comes next may soon have to wait because this side
    /// keeps itself to less.
    #[inline]
    pub fn needs_answer(&self, bytes: usize) -> bool {
        if !self.is_peer_late() {
            return self.is_impatient;
        }
        let governed = self.governor.as_ref().map_or(u32::MAX, |it| it.window());
        let limit = self.most().min(governed);
        limit < self.credit && self.sent.in_flight_but_probes() + datagram_cost(bytes) > limit / 2
    }

    /// Whether a packet of entries may go without credit: one at a time, for nothing else would
    /// tell the peer that credit is wanted. A probe tells it only if it arrives.
    #[inline]
    pub fn may_request(&self) -> bool {
        let is_first = self.sent.ahead() == 0 || self.sent.in_flight_but_probes() == 0;
        is_first && self.window == self.credit
    }

    /// Credit is there for a sender that goes on: after a rest it is given to others. Whoever only
    /// acknowledges rests.
    pub fn forget_idle_credit(&mut self, now_ns: u64) {
        let rests = micros(now_ns).wrapping_sub(self.credit_us) >= micros(DECAY_NS);
        if rests && self.credit > 0 && self.sent.in_flight() == 0 {
            self.credit = 0;
            self.window = 0;
        }
    }

    /// Whether the last of the packets being built should ask for an answer although more follow:
    /// what the peer has must not fill the sender's queue.
    #[inline]
    pub fn wants_ask(&self, bytes: usize, packets: u32) -> bool {
        self.unasked + datagram_cost(bytes) * packets >= self.ask_every
    }

    /// Whether an answer has been missing for so long that a packet more must not go without asking for one: each
    /// puts the POLL off.
    pub fn is_overdue(&self, now_ns: u64) -> bool {
        self.stuck_ns(now_ns) > self.rtt.patience_ns() + u64::from(self.peer_late_ack_ns)
    }

    /// Whether it has been missing for far longer than a busy peer takes.
    fn is_stuck(&self, now_ns: u64) -> bool {
        self.governor.is_some() && self.stuck_ns(now_ns) > 8 * self.rtt.patience_ns() + STUCK_NS
    }

    /// How many packets of `bytes` may leave in a row with no answer asked for before the last of
    /// them, such that there is window for one more.
    #[inline]
    pub fn run_room(&self, bytes: usize) -> usize {
        let unasked = self.ask_every.saturating_sub(self.unasked);
        let unasked = unasked.div_ceil(datagram_cost(bytes)).max(1) as usize;
        self.room(bytes).saturating_sub(1).min(unasked)
    }

    /// How many packets of `bytes` there is window for.
    #[inline]
    pub fn room(&self, bytes: usize) -> usize {
        let window = self.window.saturating_sub(self.sent.ahead());
        (window / datagram_cost(bytes)) as usize
    }

    /// Records packets that leave now. `contents` is what they carry.
    #[inline]
    pub fn on_sent(&mut self, sent: Sent, contents: &[C], now_ns: u64) {
        if sent.eliciting {
            // A POLL takes what was alone on its way with it: that has waited longer already.
            if self.sent.in_flight_packets() == 0 && self.polls_unanswered == 0 {
                self.progress_ns = now_ns + self.rtt.min_ns();
            }
            self.last_sent_ns = now_ns;
            if sent.charged {
                self.credit_us = micros(now_ns);
            }
            self.unasked = if sent.ask {
                self.asked = (sent.first + u64::from(sent.packets) - 1) as u32;
                0
            } else {
                self.unasked + datagram_cost(sent.bytes) * sent.packets
            };
        }
        // Others answer the peer, and don't wait for their time.
        if sent.charged
            && !sent.probe
            && let Some(governor) = &mut self.governor
        {
            governor.on_sent(datagram_cost(sent.bytes) * sent.packets);
        }
        let full = sent.bytes >= self.mtu.current() && !sent.probe;
        self.sent.push(sent, full, contents, now_ns);
    }

    /// Whether an acknowledgement does nothing but settle what was sent, up to some packet, and give credit.
    #[inline]
    pub fn is_plain(&self, ack: &Ack) -> bool {
        self.governor.is_none()
            && self.polls_unanswered == 0
            && self.sent.recovery == Recovery::Selective
            && self.sent.is_plain(ack)
    }

    /// Takes in an acknowledgement; tells the fate of what it settles.
    pub fn on_ack(&mut self, ack: &Ack, now_ns: u64, fate: &mut impl FnMut(Fate, C)) -> AckEffect {
        let given = ack.window.min(MAX_WINDOW);
        let (credit, used) = (self.credit, self.sent.ahead());
        self.credit = self.sent.credit_after(credit, ack.largest, given);
        if self.credit > credit || self.sent.ahead() < used {
            self.credit_us = micros(now_ns);
        }
        let in_flight = self.sent.in_flight_but_probes();
        let packet_ns = self.packet_ns();
        let settled = self
            .sent
            .on_ack(ack, now_ns, packet_ns, &mut self.rtt, fate);
        let Some(mut settled) = settled else {
            return AckEffect::Absurd;
        };
        if settled.newly_acked > 0 {
            let took_ns = now_ns.saturating_sub(self.progress_ns);
            // What a lost answer has held up tells nothing of the path; one that was merely late does.
            if self.polls_unanswered == 0 || ack.answers != self.asked {
                self.note_pace(took_ns, settled.newly_acked);
            }
            self.progress_ns = self.sent.settled_from(now_ns, self.rtt.min_ns());
        }
        // Karn's rule: until the path has been measured again, its answers may just be slower than
        // they were.
        if settled.sample_from.is_some() || ack.answers == self.asked {
            let asked = std::mem::take(&mut self.polls_unanswered) > 0;
            if asked && self.sent.recovery == Recovery::Timeout {
                self.sent.give_up_below(ack.largest, fate, &mut settled);
            }
        }
        self.floor_due |= self.sent.lists_settled(ack);
        self.mtu
            .on_full_size(settled.full_acked, settled.full_lost, now_ns);
        self.govern(&settled, in_flight, now_ns);
        self.refresh(now_ns);
        AckEffect::Settled {
            lost: settled.lost,
            spurious: settled.spurious,
        }
    }

    /// Something of what was lost goes again: what is missing will never come.
    pub fn owe_floor(&mut self) {
        self.floor_due = true;
    }

    /// The number below which all packets are settled, if the peer is to be told: each acknowledgement of its lists what is
    /// missing above the last one that it was told.
    #[inline]
    pub fn take_floor(&mut self) -> Option<u64> {
        std::mem::take(&mut self.floor_due).then(|| self.sent.floor())
    }

    /// The peer tells how many packets have come to it marked by a switch, in all.
    pub fn on_marks(&mut self, count: u32, now_ns: u64) {
        if let Some(governor) = &mut self.governor {
            governor.on_marks(count, &self.rtt, now_ns);
        }
    }

    /// Tells congestion control what was settled, and how much was on its way before.
    #[inline]
    fn govern(&mut self, settled: &Settled, in_flight: u32, now_ns: u64) {
        let Some(governor) = &mut self.governor else {
            return;
        };
        if let Some(sent_ns) = settled.lost_sent_ns {
            governor.on_congestion(sent_ns, now_ns);
        }
        if settled.acked_cost > 0 {
            governor.on_acked(&Acked {
                now_ns,
                charge: settled.acked_cost,
                in_flight,
                rtt_ns: self.rtt.latest_ns(),
                smoothed_ns: self.rtt.smoothed_ns(),
            });
        }
    }

    /// How far apart packets arrive. Who paces itself keeps its own queue short, and needs to know of it: round trips hold it
    /// then.
    fn packet_ns(&self) -> u32 {
        match self.governor {
            None => self.packet_ns,
            Some(_) => 0,
        }
    }

    /// Acknowledgements of many packets tell more of the path than those of few.
    fn note_pace(&mut self, took_ns: u64, packets: u32) {
        let sample = (took_ns / u64::from(packets)).min(PACE_MAX_NS);
        let weight = u64::from(packets).min(PACE_PACKETS / 2);
        let old = u64::from(self.packet_ns) * (PACE_PACKETS - weight);
        self.packet_ns = ((old + sample * weight) / PACE_PACKETS) as u32;
    }

    /// More follows what is on its way, once this host's own link takes it: that is no tail yet.
    pub fn put_off_poll(&mut self, now_ns: u64) {
        if self.polls_unanswered == 0 {
            self.last_sent_ns = now_ns;
        }
    }

    /// When the tail of what was sent must be asked for again. The first time, the peer is not
    /// given the delay that it announced: it hardly ever takes it, and asking in vain costs a
    /// packet, while a lost tail costs its whole message that delay. It is given the one that it
    /// takes whenever nothing depends on its answer.
    fn poll_deadline(&self) -> Option<u64> {
        let ahead = u64::from(self.sent.in_flight_packets().checked_sub(1)?);
        if let Some(timeout_ns) = self.sent.recovery.timeout_ns(&self.rtt) {
            let since_ns = match self.polls_unanswered {
                0 => self.sent.oldest_ns()?,
                _ => self.last_sent_ns,
            };
            return Some(since_ns + self.backed_off(timeout_ns));
        }
        let queued_ns = ahead * u64::from(self.packet_ns);
        let most_ns = 2 * self.rtt.smoothed_ns().max(self.rtt.latest_ns()) + QUEUED_MAX_NS;
        let queued_ns = queued_ns.min(most_ns);
        let patience = if self.polls_unanswered == 0 {
            self.rtt.patience_ns() + u64::from(self.peer_late_ack_ns)
        } else {
            self.rtt.patience_ns() + u64::from(self.peer_ack_delay_ns)
        };
        let patience = self.backed_off(patience + queued_ns);
        Some(self.last_sent_ns + patience - self.spread_ns(patience))
    }

    /// What is waited for an answer that so far took `once_ns`: twice as long each time that none came. Half of it is left
    /// where it is spread, and an answer may take more than [`POLL_MAX_NS`] by itself.
    fn backed_off(&self, once_ns: u64) -> u64 {
        let doubled = once_ns << self.polls_unanswered.min(10);
        doubled.min(POLL_MAX_NS.max(2 * once_ns))
    }

    /// How much sooner it is asked again, at most by half. Those whose tails were lost together, in a queue that all of them
    /// share, would ask together, and lose that as well, every time.
    fn spread_ns(&self, patience_ns: u64) -> u64 {
        if self.polls_unanswered == 0 {
            return 0;
        }
        let varies = u64::from(self.salt) << 32 | u64::from(self.asked);
        // Multiplicative hashing: the upper bits depend on all others.
        let part = varies.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56;
        patience_ns / 2 * part / 256
    }

    /// Whether the peer may keep an acknowledgement back until nobody expects data any more.
    pub fn is_peer_late(&self) -> bool {
        self.peer_late_ack_ns > 0
    }

    /// The next moment at which [`Channel::on_deadline`] or an acknowledgement has something to do;
    /// one that is due already waits for room to send, and not for time.
    pub fn deadline(&self, now_ns: u64) -> Option<u64> {
        [
            self.poll_deadline(),
            self.sent.loss_deadline(),
            self.received.deadline().filter(|&at| at > now_ns),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Does what is due. `Due::poll` means: send an asking packet now, window or not; the contents
    /// of the last packet in flight have been handed back as [`Fate::Again`] to go with it (H5).
    pub fn on_deadline(&mut self, now_ns: u64, fate: &mut impl FnMut(Fate, C)) -> Due {
        let mut due = Due::default();
        if self.sent.loss_deadline().is_some_and(|at| at <= now_ns) {
            let in_flight = self.sent.in_flight_but_probes();
            let packet_ns = self.packet_ns();
            let settled = self.sent.detect_losses(now_ns, packet_ns, &self.rtt, fate);
            due.lost = settled.lost;
            self.govern(&settled, in_flight, now_ns);
        }
        if self.poll_deadline().is_some_and(|at| at <= now_ns) {
            due.poll = true;
            self.polls_unanswered = self.polls_unanswered.saturating_add(1);
            self.last_sent_ns = now_ns;
            self.sent.give_back_last(fate);
            if self.polls_unanswered == 3 {
                self.mtu.on_black_hole(now_ns);
            }
            let silent = self.polls_unanswered >= 3 || self.sent.recovery == Recovery::Timeout;
            if let Some(governor) = self.governor.as_mut().filter(|_| silent) {
                governor.on_silence();
            }
        }
        due
    }
}

/// What an acknowledgement did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckEffect {
    Settled {
        lost: u32,
        spurious: u32,
    },
    /// It acknowledges packets that were never sent.
    Absurd,
}

/// What a passed deadline calls for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    pub poll: bool,
    pub lost: u32,
}
