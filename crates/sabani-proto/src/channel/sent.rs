//! The sending half: packets on their way, what they carry, and which of them were lost.

use std::ops::Range;

use super::tolerance::Tolerance;
use super::{Recovery, Rtt, Sent, datagram_cost, micros};
use crate::rare::RareQueue;
use crate::wire::{Ack, AckRange, Frame};

/// What became of something a packet carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The peer has it.
    Arrived,
    /// It was lost; send it again if it still matters.
    Lost,
    /// It goes again as a POLL; the first copy may have arrived.
    Again,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    /// Acknowledged, lost, given back, or never in need of an acknowledgement.
    Settled,
}

/// What packets carry: nothing that the channel looks into.
pub(crate) trait Cargo: Copy + 'static {
    /// What the packets `part` carry, where `of` equal packets carry `self` among them.
    fn part(self, part: Range<u32>, of: u32) -> Self;
}

/// Packets of one size, sent one after the other at the same time.
#[derive(Clone, Copy, Debug)]
struct Run {
    sent_ns: u64,
    packets: u32,
    /// Cost of each; nothing for what needs no acknowledgement.
    cost: u32,
    /// Things carried: by several packets, one thing among them.
    contents: u16,
    full: bool,
    /// It asks whether the path carries packets as large as itself.
    probe: bool,
    /// It counts as sent ahead of the peer's credit.
    charged: bool,
    state: State,
}

const NEVER: u64 = u64::MAX;
/// What left within so many microseconds left as one burst, and waited for the same link.
const BURST_US: u32 = 100;
/// Remembers this many lost packet numbers, to notice when one of them arrives after all.
const LOST_REMEMBERED: usize = 64;

/// Packets sent and not settled, and those still behind such ones.
#[derive(Debug)]
pub(crate) struct SentLog<C> {
    pub recovery: Recovery,
    /// Number of the front packet.
    base: u64,
    /// Number of the next packet.
    next: u64,
    runs: RareQueue<Run>,
    /// What the runs carry, in the same order.
    contents: RareQueue<C>,
    in_flight: u32,
    in_flight_packets: u32,
    /// Cost of probes of the path's MTU among what is on its way.
    probing: u32,
    /// Cost of what was sent from `ahead_from` on and needs credit.
    ahead: u32,
    /// First number above the packet whose acknowledgement gave the credit in force.
    ahead_from: u64,
    /// First number above all that were acknowledged.
    acked_end: u64,
    tolerance: Tolerance,
    /// Packets since the last one that took its turn at this host's own link; 255 are as many as any.
    express: u8,
    /// Packets of the burst that acknowledgements tell of now, as far as they have, and when it began, in microseconds.
    burst: u16,
    burst_us: u32,
    recently_lost: RareQueue<u64>,
    /// `NEVER` if nothing counts as lost by time.
    loss_deadline_ns: u64,
    /// Most packets that go-back-N lets be on their way.
    most: u32,
    /// Nothing has counted as come since everything last went again.
    in_vain: bool,
}

/// What is on its way to a peer, as far as it decides whether a packet may overtake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// All that has to take its turn has arrived, or left long ago.
    is_clear: bool,
    is_idle: bool,
    pub ahead: u32,
    express: u8,
}

/// A place in the log, on the walk from the front.
#[derive(Clone, Copy)]
struct Place {
    run: usize,
    content: usize,
    number: u64,
}

/// What an acknowledgement settled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settled {
    pub newly_acked: u32,
    /// Cost of those but probes.
    pub acked_cost: u32,
    pub lost: u32,
    /// When the newest of the lost ones left, probes apart: of those it is expected.
    pub lost_sent_ns: Option<u64>,
    pub spurious: u32,
    pub full_acked: u32,
    pub full_lost: u32,
    /// When the largest newly acknowledged packet left: an unambiguous round-trip sample.
    pub sample_from: Option<u64>,
}

impl Settled {
    #[inline]
    fn count_acked(&mut self, run: &Run) {
        self.newly_acked += run.packets;
        self.acked_cost += if run.probe { 0 } else { run.cost * run.packets };
        self.full_acked += if run.full { run.packets } else { 0 };
    }
}

impl<C: Cargo> SentLog<C> {
    pub fn new(recovery: Recovery) -> Self {
        SentLog {
            recovery,
            base: 0,
            next: 0,
            runs: RareQueue::default(),
            contents: RareQueue::default(),
            in_flight: 0,
            in_flight_packets: 0,
            probing: 0,
            ahead: 0,
            ahead_from: 0,
            acked_end: 0,
            tolerance: Tolerance::new(),
            express: 0,
            burst: 0,
            burst_us: 0,
            recently_lost: RareQueue::default(),
            loss_deadline_ns: NEVER,
            most: u32::MAX,
            in_vain: false,
        }
    }

    /// The number that the next packet gets.
    #[inline]
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Goes on with this number, where nothing is on its way.
    #[cfg(test)]
    pub fn skip_to(&mut self, number: u64) {
        assert!(self.base == self.next && self.next <= number);
        (self.base, self.next) = (number, number);
    }

    /// Every packet below this number is settled.
    pub fn floor(&self) -> u64 {
        self.base
    }

    /// Cost of what is on its way.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The same without probes of the path's MTU, of which there is one in a round trip at most. They are not
    /// reckoned among what congestion control keeps to what the path carries (RFC 8899, section 3).
    #[inline]
    pub fn in_flight_but_probes(&self) -> u32 {
        self.in_flight - self.probing
    }

    pub fn in_flight_packets(&self) -> u32 {
        self.in_flight_packets
    }

    /// Most packets that may be on their way, however much credit there is.
    #[inline]
    pub fn most(&self) -> u32 {
        self.most
    }

    /// When the oldest packet in flight left.
    pub fn oldest_ns(&self) -> Option<u64> {
        self.runs.front().map(|run| run.sent_ns)
    }

    /// From when on the peer could settle what is on its way, if it has settled all from before `now_ns`: that may have left
    /// later, where an acknowledgement is taken in late.
    #[inline]
    pub fn settled_from(&self, now_ns: u64, least_rtt_ns: u64) -> u64 {
        match self.oldest_ns() {
            Some(sent_ns) if sent_ns > now_ns => sent_ns + least_rtt_ns,
            _ => now_ns,
        }
    }

    /// Whether an acknowledgement leaves nothing missing below the newest packet that it names.
    #[inline]
    pub fn is_plain(&self, ack: &Ack) -> bool {
        ack.largest < self.next
            && ack.largest.saturating_sub(self.base) < u64::from(ack.first_len)
            && self.loss_deadline_ns == NEVER
    }

    /// Whether an acknowledgement lists runs behind which nothing can come any more.
    #[inline]
    pub fn lists_settled(&self, ack: &Ack) -> bool {
        let lowest = ack.ranges.last();
        lowest.is_some_and(|run| AckedRuns::of(ack).lowest + u64::from(run.len) <= self.base)
    }

    pub fn loss_deadline(&self) -> Option<u64> {
        (self.loss_deadline_ns != NEVER).then_some(self.loss_deadline_ns)
    }

    /// Cost of what was sent above the packet whose acknowledgement gave the credit in force, as far
    /// as it needs credit.
    #[inline]
    pub fn ahead(&self) -> u32 {
        self.ahead
    }

    /// How things stand before a packet that may leave before what waits for this host's own link.
    #[inline]
    pub fn standing(&self) -> Standing {
        let in_turn = self.next - u64::from(self.express);
        Standing {
            is_clear: self.express == u8::MAX || self.acked_end >= in_turn,
            is_idle: self.in_flight_packets == 0,
            ahead: self.ahead,
            express: self.express,
        }
    }

    /// Whether the packet that was sent since then may leave before what waits for this host's own link, and does: nothing that
    /// it could overtake is on its way to the same peer, which would take that for lost; and it uses no credit, or
    /// nothing else is on its way at all and it `is_all` there is to send, so that there is one in a round trip.
    #[inline]
    pub fn overtakes(&mut self, before: Standing, is_all: bool) -> bool {
        let overtakes =
            before.is_clear && (self.ahead == before.ahead || (before.is_idle && is_all));
        if overtakes {
            self.express = before.express.saturating_add(1);
        }
        overtakes
    }

    /// The credit in force from now on: the one that the newest acknowledgement gives, and of those
    /// for the same packet the largest, for they may have overtaken each other. To be called before
    /// the acknowledgement settles anything.
    #[inline]
    pub fn credit_after(&mut self, credit: u32, largest: u64, given: u32) -> u32 {
        let from = largest.saturating_add(1);
        if from < self.ahead_from || largest >= self.next {
            return credit;
        }
        if from == self.ahead_from {
            return credit.max(given);
        }
        self.ahead_from = from;
        self.ahead = 0;
        let mut end = self.next;
        for run in self.runs.iter().rev() {
            if end <= from {
                break;
            }
            let start = end - u64::from(run.packets);
            let above = end - start.max(from);
            if run.charged {
                self.ahead += run.cost * above as u32;
            }
            end = start;
        }
        given
    }

    /// Records packets as sent. Several ones carry one thing among them.
    #[inline]
    pub fn push(&mut self, sent: Sent, full: bool, contents: &[C], now_ns: u64) {
        debug_assert_eq!(sent.first, self.next);
        debug_assert!(sent.packets == 1 || contents.len() == 1);
        self.next += u64::from(sent.packets);
        self.express = 0;
        let (cost, state) = if sent.eliciting {
            (datagram_cost(sent.bytes), State::InFlight)
        } else {
            (0, State::Settled)
        };
        if sent.eliciting {
            self.in_flight += cost * sent.packets;
            self.probing += if sent.probe { cost } else { 0 };
            self.in_flight_packets += sent.packets;
        }
        if sent.charged {
            self.ahead += cost * sent.packets;
        }
        if state == State::Settled && self.runs.is_empty() {
            self.base = self.next;
            return;
        }
        // Nearly always there is one, for which the way of several is long.
        match contents {
            [content] => self.contents.push_back(*content),
            several => self.contents.extend(several),
        }
        self.runs.push_back(Run {
            sent_ns: now_ns,
            packets: sent.packets,
            cost,
            contents: contents.len() as u16,
            full,
            probe: sent.probe,
            charged: sent.charged,
            state,
        });
    }

    fn front(&self) -> Place {
        Place {
            run: 0,
            content: 0,
            number: self.base,
        }
    }

    /// The place behind a run.
    #[inline]
    fn behind(&self, place: Place) -> Place {
        let run = &self.runs[place.run];
        Place {
            run: place.run + 1,
            content: place.content + usize::from(run.contents),
            number: place.number + u64::from(run.packets),
        }
    }

    /// Cuts the run at `place`, so that `[start, end)` is a run of its own; returns its place.
    /// The numbers are the run's own.
    #[inline]
    fn isolate(&mut self, place: Place, start: u64, end: u64) -> Place {
        if end < self.behind(place).number {
            self.cut(place, end);
        }
        if start > place.number {
            self.cut(place, start);
            return self.behind(place);
        }
        place
    }

    /// Cuts the run at `place` in two; the second begins with packet `number`.
    fn cut(&mut self, place: Place, number: u64) {
        let run = &mut self.runs[place.run];
        let (kept, of) = ((number - place.number) as u32, run.packets);
        let rest = Run {
            packets: of - kept,
            ..*run
        };
        run.packets = kept;
        self.runs.insert(place.run + 1, rest);
        if rest.contents > 0 {
            let carried = self.contents[place.content];
            self.contents[place.content] = carried.part(0..kept, of);
            self.contents
                .insert(place.content + 1, carried.part(kept..of, of));
        }
    }

    /// Settles the run at `place`, if it is in flight, and tells what it carried.
    #[inline]
    fn settle(&mut self, place: Place, fate: Fate, tell: &mut impl FnMut(Fate, C)) {
        let run = &mut self.runs[place.run];
        run.state = State::Settled;
        let run = *run;
        self.leave_flight(&run);
        let carried = place.content..place.content + usize::from(run.contents);
        for &content in self.contents.range(carried) {
            tell(fate, content);
        }
    }

    /// This run is not on its way any more.
    #[inline]
    fn leave_flight(&mut self, run: &Run) {
        self.in_flight -= run.cost * run.packets;
        self.probing -= if run.probe { run.cost } else { 0 };
        self.in_flight_packets -= run.packets;
    }

    /// Takes in an acknowledgement of packets that arrive `packet_ns` apart. `None` if it names packets that were never
    /// sent.
    pub fn on_ack(
        &mut self,
        ack: &Ack,
        now_ns: u64,
        packet_ns: u32,
        rtt: &mut Rtt,
        fate: &mut impl FnMut(Fate, C),
    ) -> Option<Settled> {
        if ack.largest >= self.next_number() {
            return None;
        }
        Some(match self.recovery {
            Recovery::GoBackN => self.on_ack_in_order(ack, now_ns, rtt, fate),
            _ => self.settle_acked(ack, now_ns, packet_ns, rtt, fate),
        })
    }

    fn settle_acked(
        &mut self,
        ack: &Ack,
        now_ns: u64,
        packet_ns: u32,
        rtt: &mut Rtt,
        fate: &mut impl FnMut(Fate, C),
    ) -> Settled {
        let mut settled = Settled::default();
        let runs = AckedRuns::of(ack);
        if ack.largest.saturating_sub(self.base) < u64::from(ack.first_len) {
            self.take_acked(ack.largest + 1, fate, &mut settled);
        } else {
            self.mark_acked(&runs, ack.largest, fate, &mut settled);
        }
        // Before losses are looked for: how long the newest took is how long the others may take.
        if let Some(sent_ns) = settled.sample_from {
            let behind_ns = self.behind_ns(sent_ns, settled.newly_acked, packet_ns);
            rtt.on_answer(sent_ns, now_ns, u64::from(ack.delay_ns), behind_ns);
        }
        self.notice_spurious(&runs, ack.largest, &mut settled);
        self.acked_end = self.acked_end.max(ack.largest + 1);
        self.drop_settled();
        if self.base >= self.acked_end {
            self.loss_deadline_ns = NEVER;
        } else {
            let late_ns = self.late_ns(settled.newly_acked, packet_ns, rtt);
            // One that was overtaken says nothing of what is above it.
            let told = runs.known_from()..ack.largest;
            self.find_losses(told, now_ns, late_ns, fate, &mut settled);
            self.drop_settled();
        }
        settled
    }

    /// How long the last of `acked` packets has waited behind what left before it, which takes `packet_ns` for each: behind the others
    /// of them, and behind those of the same burst that acknowledgements before this one have told of.
    fn behind_ns(&mut self, sent_ns: u64, acked: u32, packet_ns: u32) -> u64 {
        let sent_us = micros(sent_ns);
        if sent_us.wrapping_sub(self.burst_us) >= BURST_US {
            (self.burst_us, self.burst) = (sent_us, 0);
        }
        let since_ns = u64::from(sent_us.wrapping_sub(self.burst_us)) * 1_000;
        let burst = u32::from(self.burst).saturating_add(acked);
        self.burst = burst.min(u16::MAX.into()) as u16;
        let before_ns = u64::from(burst.saturating_sub(1)) * u64::from(packet_ns);
        before_ns.saturating_sub(since_ns)
    }

    /// Takes in an acknowledgement as go-back-N does: what has come behind a missing packet counts
    /// as not come, and goes again with it.
    fn on_ack_in_order(
        &mut self,
        ack: &Ack,
        now_ns: u64,
        rtt: &mut Rtt,
        fate: &mut impl FnMut(Fate, C),
    ) -> Settled {
        let runs = AckedRuns::of(ack);
        // It may have come long after those that count as come: only its own time is the path's.
        let sample_from = self.left_ns(ack.largest);
        let mut settled = Settled::default();
        let missing = self.first_missing(&runs);
        self.take_acked(missing.min(ack.largest + 1), fate, &mut settled);
        self.drop_settled();
        settled.sample_from = sample_from;
        if let Some(sent_ns) = sample_from {
            rtt.on_answer(sent_ns, now_ns, u64::from(ack.delay_ns), 0);
        }
        if settled.newly_acked > 0 {
            self.in_vain = false;
            self.most = self.most.saturating_mul(2);
            self.loss_deadline_ns = NEVER;
        }
        self.notice_spurious(&runs, ack.largest, &mut settled);
        if missing <= ack.largest {
            self.go_back(ack.largest, now_ns, rtt, fate, &mut settled);
        }
        settled
    }

    /// Gives up all that is in flight if the first of it is `reorder` packets behind the largest that
    /// has come, or a reordering time. Where that was for nothing, half as much goes again: of packets
    /// that all overtake each other, none would ever count as come.
    fn go_back(
        &mut self,
        largest: u64,
        now_ns: u64,
        rtt: &Rtt,
        fate: &mut impl FnMut(Fate, C),
        settled: &mut Settled,
    ) {
        self.loss_deadline_ns = NEVER;
        let Some(sent_ns) = self.oldest_ns() else {
            return;
        };
        let give_up_at = sent_ns + rtt.reorder_ns(self.tolerance.eighths(), 0);
        if now_ns < give_up_at && largest < self.base + self.tolerance.packets() {
            self.loss_deadline_ns = give_up_at;
            return;
        }
        if std::mem::replace(&mut self.in_vain, true) {
            self.most = (self.in_flight_packets / 2).max(1);
        }
        settled.lost_sent_ns = Some(sent_ns);
        self.tolerance.on_loss();
        self.remember_lost(self.base..self.base + 1);
        settled.lost += self.give_up_all(fate);
    }

    /// When a packet left, if it is in flight.
    fn left_ns(&self, number: u64) -> Option<u64> {
        let mut end = self.next;
        for run in self.runs.iter().rev() {
            let start = end - u64::from(run.packets);
            if start <= number {
                return (run.state == State::InFlight).then_some(run.sent_ns);
            }
            end = start;
        }
        None
    }

    /// The first packet in flight that these do not name; the next to be sent if there is none.
    fn first_missing(&self, acked: &AckedRuns<'_>) -> u64 {
        let mut place = self.front();
        while place.run < self.runs.len() {
            let next = self.behind(place);
            let holds = |&(start, end): &(u64, u64)| start <= place.number && place.number < end;
            let known_to = acked
                .ascending()
                .find(holds)
                .map_or(place.number, |run| run.1);
            if self.runs[place.run].state == State::InFlight && known_to < next.number {
                return known_to;
            }
            place = next;
        }
        self.next
    }

    /// Settles all that was sent before `end`: nothing of it is missing, as nearly always.
    #[inline]
    fn take_acked(&mut self, end: u64, fate: &mut impl FnMut(Fate, C), settled: &mut Settled) {
        let mut left_ns = None;
        while self.base < end
            && let Some(front) = self.runs.front()
        {
            if self.base + u64::from(front.packets) > end {
                self.cut(self.front(), end);
            }
            let Some(run) = self.runs.pop_front() else {
                break;
            };
            self.base += u64::from(run.packets);
            let in_flight = run.state == State::InFlight;
            for _ in 0..run.contents {
                if let Some(content) = self.contents.pop_front()
                    && in_flight
                {
                    fate(Fate::Arrived, content);
                }
            }
            if in_flight {
                settled.count_acked(&run);
                self.leave_flight(&run);
                left_ns = Some(run.sent_ns);
            }
            // One that was given back, for a POLL that came too early, is known by those that left with it.
            if self.base == end {
                settled.sample_from = left_ns.filter(|&ns| in_flight || ns == run.sent_ns);
            }
        }
    }

    fn mark_acked(
        &mut self,
        acked: &AckedRuns<'_>,
        largest: u64,
        fate: &mut impl FnMut(Fate, C),
        settled: &mut Settled,
    ) {
        let mut place = self.front();
        let mut acked = acked.ascending().peekable();
        while place.run < self.runs.len() {
            let next = self.behind(place);
            while acked.next_if(|&(_, end)| end <= place.number).is_some() {}
            let Some(&(start, end)) = acked.peek() else {
                break;
            };
            let run = &self.runs[place.run];
            if start >= next.number || run.state == State::Settled {
                place = next;
                continue;
            }
            let at = self.isolate(place, start.max(place.number), end.min(next.number));
            let run = self.runs[at.run];
            settled.count_acked(&run);
            place = self.behind(at);
            if place.number > largest {
                settled.sample_from = Some(run.sent_ns);
            }
            self.settle(at, Fate::Arrived, fate);
        }
    }

    /// A packet given up for lost has arrived: allow for more reordering from now on.
    fn notice_spurious(&mut self, runs: &AckedRuns<'_>, largest: u64, settled: &mut Settled) {
        if self.recently_lost.is_empty() {
            return;
        }
        let tolerance = &mut self.tolerance;
        self.recently_lost.retain(|&number| {
            let arrived = runs
                .ascending()
                .any(|(start, end)| start <= number && number < end);
            if arrived {
                settled.spurious += 1;
                tolerance.on_late(largest - number + 1);
            }
            !arrived
        });
    }

    /// Looks again for losses that time alone has settled.
    pub fn detect_losses(
        &mut self,
        now_ns: u64,
        packet_ns: u32,
        rtt: &Rtt,
        fate: &mut impl FnMut(Fate, C),
    ) -> Settled {
        let mut settled = Settled::default();
        if self.recovery == Recovery::GoBackN {
            self.go_back(self.base, now_ns, rtt, fate, &mut settled);
        } else {
            let late_ns = self.late_ns(0, packet_ns, rtt);
            self.find_losses(0..0, now_ns, late_ns, fate, &mut settled);
        }
        self.drop_settled();
        settled
    }

    /// How long after it has left a packet counts as lost that others have overtaken: one of those in flight, or of so many
    /// that were until now, and that arrive `packet_ns` apart.
    fn late_ns(&self, acked: u32, packet_ns: u32, rtt: &Rtt) -> u64 {
        let packets = u64::from(self.in_flight_packets + acked);
        rtt.reorder_ns(self.tolerance.eighths(), packets * u64::from(packet_ns))
    }

    /// Gives up packets that are `reorder` packets behind the largest that arrived, or have left `late_ns` ago. Beside `told`
    /// the acknowledgement said nothing, so only time counts there.
    fn find_losses(
        &mut self,
        told: Range<u64>,
        now_ns: u64,
        late_ns: u64,
        fate: &mut impl FnMut(Fate, C),
        settled: &mut Settled,
    ) {
        self.loss_deadline_ns = NEVER;
        if self.acked_end == 0 || self.recovery != Recovery::Selective {
            return;
        }
        let largest = self.acked_end - 1;
        let far_behind = self.acked_end.saturating_sub(self.tolerance.packets());
        let lost_before = settled.lost;
        let mut place = self.front();
        while place.run < self.runs.len() && place.number < largest {
            let next = self.behind(place);
            let run = self.runs[place.run];
            if run.state == State::Settled {
                place = next;
                continue;
            }
            let end = next.number.min(largest);
            let give_up_at = run.sent_ns + late_ns;
            let lost = if now_ns >= give_up_at {
                place.number..end
            } else {
                place.number.max(told.start)..end.min(far_behind).min(told.end)
            };
            if lost.is_empty() || lost.start > place.number {
                self.loss_deadline_ns = self.loss_deadline_ns.min(give_up_at);
            }
            if lost.is_empty() {
                place = next;
                continue;
            }
            let at = self.isolate(place, lost.start, lost.end);
            self.give_up(at, fate, settled);
            place = self.behind(at);
        }
        if settled.lost > lost_before {
            self.tolerance.on_loss();
        }
    }

    /// Gives up a run for lost.
    fn give_up(&mut self, at: Place, fate: &mut impl FnMut(Fate, C), settled: &mut Settled) {
        let run = self.runs[at.run];
        settled.lost += run.packets;
        if !run.probe {
            settled.lost_sent_ns = settled.lost_sent_ns.max(Some(run.sent_ns));
        }
        settled.full_lost += if run.full { run.packets } else { 0 };
        self.remember_lost(at.number..at.number + u64::from(run.packets));
        self.settle(at, Fate::Lost, fate);
    }

    fn remember_lost(&mut self, numbers: Range<u64>) {
        self.recently_lost.extend(numbers);
        let excess = self.recently_lost.len().saturating_sub(LOST_REMEMBERED);
        self.recently_lost.drain(..excess);
    }

    /// Hands back what the last packet in flight carries, to go again as a POLL.
    pub fn give_back_last(&mut self, fate: &mut impl FnMut(Fate, C)) {
        let mut last = None;
        let mut place = self.front();
        while place.run < self.runs.len() {
            if self.runs[place.run].state == State::InFlight {
                last = Some(place);
            }
            place = self.behind(place);
        }
        if let Some(place) = last {
            let end = self.behind(place).number;
            let at = self.isolate(place, end - 1, end);
            self.settle(at, Fate::Again, fate);
        }
        self.drop_settled();
    }

    /// Hands back everything in flight: the path has changed under it.
    pub fn give_back_all(&mut self, fate: &mut impl FnMut(Fate, C)) {
        self.settle_all(Fate::Again, fate);
    }

    /// Gives up what is in flight below `number`.
    pub fn give_up_below(
        &mut self,
        number: u64,
        fate: &mut impl FnMut(Fate, C),
        settled: &mut Settled,
    ) {
        let mut place = self.front();
        while place.run < self.runs.len() && place.number < number {
            if self.runs[place.run].state == State::InFlight {
                self.give_up(place, fate, settled);
            }
            place = self.behind(place);
        }
        self.drop_settled();
    }

    /// Gives up everything in flight for lost; returns how many packets that were.
    fn give_up_all(&mut self, fate: &mut impl FnMut(Fate, C)) -> u32 {
        let lost = self.in_flight_packets;
        self.settle_all(Fate::Lost, fate);
        lost
    }

    fn settle_all(&mut self, as_what: Fate, fate: &mut impl FnMut(Fate, C)) {
        let mut place = self.front();
        while place.run < self.runs.len() {
            if self.runs[place.run].state == State::InFlight {
                self.settle(place, as_what, fate);
            }
            place = self.behind(place);
        }
        self.drop_settled();
    }

    #[inline]
    fn drop_settled(&mut self) {
        while let Some(run) = self.runs.front()
            && run.state == State::Settled
        {
            self.drop_front();
        }
    }

    #[inline]
    fn drop_front(&mut self) {
        if let Some(run) = self.runs.pop_front() {
            self.base += u64::from(run.packets);
            self.contents.drain(..usize::from(run.contents));
        }
    }

    /// Gives memory back while the connection is idle.
    pub fn shrink(&mut self) {
        self.runs.shrink();
        self.contents.shrink();
        self.recently_lost = RareQueue::default();
    }
}

/// The runs of an acknowledgement, from the lowest up.
struct AckedRuns<'a> {
    ack: &'a Ack,
    lowest: u64,
}

impl<'a> AckedRuns<'a> {
    fn of(ack: &'a Ack) -> Self {
        let below = |range: &AckRange| u64::from(range.gap) + u64::from(range.len);
        let first = ack.largest + 1 - u64::from(ack.first_len);
        AckedRuns {
            ack,
            lowest: first - ack.ranges.iter().map(below).sum::<u64>(),
        }
    }

    /// Below this number the acknowledgement had no more room to say what has come.
    fn known_from(&self) -> u64 {
        if self.ack.ranges.len() == Frame::MAX_ACK_RANGES {
            self.lowest
        } else {
            0
        }
    }

    /// The runs as `[start, end)`.
    fn ascending(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut start = self.lowest;
        let lower = self.ack.ranges.iter().rev().map(move |range| {
            let end = start + u64::from(range.len);
            let run = (start, end);
            start = end + u64::from(range.gap);
            run
        });
        let end = self.ack.largest + 1;
        lower.chain([(end - u64::from(self.ack.first_len), end)])
    }
}
