//! The sending half: packets on their way, what they carry, and which of them were lost.

use std::collections::VecDeque;

use super::{Packet, Rtt, datagram_cost};
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

#[derive(Clone, Copy, Debug)]
struct SentPacket {
    sent_ns: u64,
    cost: u32,
    contents: u16,
    full: bool,
    state: State,
}

/// Remembers this many lost packet numbers, to notice when one of them arrives after all.
const LOST_REMEMBERED: usize = 64;
/// However much reordering a path shows, a gap this wide is a loss.
const MAX_REORDER: u64 = 256;

/// Packets sent and not settled, and those still behind such ones.
#[derive(Debug)]
pub(crate) struct SentLog<C> {
    /// Number of the front packet.
    base: u64,
    packets: VecDeque<SentPacket>,
    /// What the packets carry, in the same order.
    contents: VecDeque<C>,
    in_flight: u32,
    in_flight_packets: u32,
    largest_acked: Option<u64>,
    /// Packets beyond a missing one that must have arrived before it counts as lost. One at first:
    /// ordinary Ethernet does not reorder a flow. Evidence raises it.
    reorder: u64,
    recently_lost: VecDeque<u64>,
    loss_deadline: Option<u64>,
    window_told_by: u64,
}

/// What an acknowledgement settled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settled {
    pub newly_acked: u32,
    pub lost: u32,
    pub spurious: u32,
    pub full_acked: u32,
    pub full_lost: u32,
    /// When the largest newly acknowledged packet left: an unambiguous round-trip sample.
    pub sample_from: Option<u64>,
}

impl<C: Copy> SentLog<C> {
    pub fn new() -> Self {
        SentLog {
            base: 0,
            packets: VecDeque::new(),
            contents: VecDeque::new(),
            in_flight: 0,
            in_flight_packets: 0,
            largest_acked: None,
            reorder: 1,
            recently_lost: VecDeque::new(),
            loss_deadline: None,
            window_told_by: 0,
        }
    }

    /// The number that the next packet gets.
    #[inline]
    pub fn next_number(&self) -> u64 {
        self.base + self.packets.len() as u64
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

    pub fn in_flight_packets(&self) -> u32 {
        self.in_flight_packets
    }

    pub fn loss_deadline(&self) -> Option<u64> {
        self.loss_deadline
    }

    /// Number acknowledged by the acknowledgement that told the window in force: an older one
    /// that was overtaken must not take it back.
    pub fn window_told_by(&self) -> u64 {
        self.window_told_by
    }

    pub fn set_window_told_by(&mut self, largest: u64) {
        self.window_told_by = largest;
    }

    #[inline]
    pub fn push(&mut self, packet: Packet, full: bool, contents: &[C], now_ns: u64) {
        debug_assert_eq!(packet.number, self.next_number());
        let cost = datagram_cost(packet.bytes);
        let state = if packet.eliciting {
            self.in_flight += cost;
            self.in_flight_packets += 1;
            State::InFlight
        } else {
            State::Settled
        };
        if state == State::Settled && self.packets.is_empty() {
            self.base += 1;
            return;
        }
        for &content in contents {
            self.contents.push_back(content);
        }
        self.packets.push_back(SentPacket {
            sent_ns: now_ns,
            cost,
            contents: contents.len() as u16,
            full,
            state,
        });
    }

    /// Settles one packet; returns whether it was in flight.
    #[inline]
    fn settle(packet: &mut SentPacket, in_flight: &mut u32, in_flight_packets: &mut u32) -> bool {
        if packet.state == State::Settled {
            return false;
        }
        packet.state = State::Settled;
        *in_flight -= packet.cost;
        *in_flight_packets -= 1;
        true
    }

    /// Takes in an acknowledgement. `None` if it names packets that were never sent.
    pub fn on_ack(
        &mut self,
        ack: &Ack,
        now_ns: u64,
        rtt: &Rtt,
        fate: &mut impl FnMut(Fate, C),
    ) -> Option<Settled> {
        if ack.largest >= self.next_number() {
            return None;
        }
        let mut settled = Settled::default();
        let runs = AckedRuns::of(ack);
        self.mark_acked(&runs, ack.largest, fate, &mut settled);
        self.notice_spurious(&runs, ack.largest, &mut settled);
        self.largest_acked = self.largest_acked.max(Some(ack.largest));
        self.drop_settled();
        if self.base < ack.largest {
            self.find_losses(runs.known_from(), now_ns, rtt, fate, &mut settled);
            self.drop_settled();
        } else {
            self.loss_deadline = None;
        }
        Some(settled)
    }

    fn mark_acked(
        &mut self,
        runs: &AckedRuns<'_>,
        largest: u64,
        fate: &mut impl FnMut(Fate, C),
        settled: &mut Settled,
    ) {
        let mut content = 0;
        let mut runs = runs.ascending().peekable();
        for (index, packet) in self.packets.iter_mut().enumerate() {
            let number = self.base + index as u64;
            while runs.next_if(|&(_, end)| end <= number).is_some() {}
            let Some(&(start, _)) = runs.peek() else {
                break;
            };
            let carried = content..content + usize::from(packet.contents);
            content = carried.end;
            if number < start
                || !Self::settle(packet, &mut self.in_flight, &mut self.in_flight_packets)
            {
                continue;
            }
            settled.newly_acked += 1;
            settled.full_acked += u32::from(packet.full);
            if number == largest {
                settled.sample_from = Some(packet.sent_ns);
            }
            for at in carried {
                fate(Fate::Arrived, self.contents[at]);
            }
        }
    }

    /// A packet given up for lost has arrived: allow for more reordering from now on.
    fn notice_spurious(&mut self, runs: &AckedRuns<'_>, largest: u64, settled: &mut Settled) {
        let reorder = &mut self.reorder;
        self.recently_lost.retain(|&number| {
            let arrived = runs
                .ascending()
                .any(|(start, end)| start <= number && number < end);
            if arrived {
                settled.spurious += 1;
                *reorder = (*reorder).max(largest - number + 1).clamp(3, MAX_REORDER);
            }
            !arrived
        });
    }

    /// Looks again for losses that time alone has settled.
    pub fn detect_losses(&mut self, now_ns: u64, rtt: &Rtt, fate: &mut impl FnMut(Fate, C)) -> u32 {
        let mut settled = Settled::default();
        self.find_losses(u64::MAX, now_ns, rtt, fate, &mut settled);
        self.drop_settled();
        settled.lost
    }

    /// Gives up packets that are `reorder` packets or a reordering time behind the largest that
    /// arrived. Below `known_from` the acknowledgement said nothing, so only time counts there.
    fn find_losses(
        &mut self,
        known_from: u64,
        now_ns: u64,
        rtt: &Rtt,
        fate: &mut impl FnMut(Fate, C),
        settled: &mut Settled,
    ) {
        self.loss_deadline = None;
        let Some(largest) = self.largest_acked else {
            return;
        };
        let mut content = 0;
        for (index, packet) in self.packets.iter_mut().enumerate() {
            let number = self.base + index as u64;
            if number >= largest {
                break;
            }
            let carried = content..content + usize::from(packet.contents);
            content = carried.end;
            if packet.state == State::Settled {
                continue;
            }
            let give_up_at = packet.sent_ns + rtt.reorder_ns();
            let far_behind = number >= known_from && largest - number >= self.reorder;
            if !far_behind && now_ns < give_up_at {
                let earliest = self
                    .loss_deadline
                    .map_or(give_up_at, |at| at.min(give_up_at));
                self.loss_deadline = Some(earliest);
                continue;
            }
            Self::settle(packet, &mut self.in_flight, &mut self.in_flight_packets);
            settled.lost += 1;
            settled.full_lost += u32::from(packet.full);
            if self.recently_lost.len() == LOST_REMEMBERED {
                self.recently_lost.pop_front();
            }
            self.recently_lost.push_back(number);
            for at in carried {
                fate(Fate::Lost, self.contents[at]);
            }
        }
    }

    /// Hands back what the last packet in flight carries, to go again as a POLL.
    pub fn give_back_last(&mut self, fate: &mut impl FnMut(Fate, C)) {
        let mut end = self.contents.len();
        for packet in self.packets.iter_mut().rev() {
            let start = end - usize::from(packet.contents);
            if Self::settle(packet, &mut self.in_flight, &mut self.in_flight_packets) {
                for at in start..end {
                    fate(Fate::Again, self.contents[at]);
                }
                break;
            }
            end = start;
        }
        self.drop_settled();
    }

    /// Hands back everything in flight: the path has changed under it.
    pub fn give_back_all(&mut self, fate: &mut impl FnMut(Fate, C)) {
        let mut content = 0;
        for packet in self.packets.iter_mut() {
            let carried = content..content + usize::from(packet.contents);
            content = carried.end;
            if Self::settle(packet, &mut self.in_flight, &mut self.in_flight_packets) {
                for at in carried {
                    fate(Fate::Again, self.contents[at]);
                }
            }
        }
        self.drop_settled();
    }

    #[inline]
    fn drop_settled(&mut self) {
        let mut contents = 0;
        while let Some(packet) = self.packets.front() {
            if packet.state == State::InFlight {
                break;
            }
            contents += usize::from(packet.contents);
            self.packets.pop_front();
            self.base += 1;
        }
        self.contents.drain(..contents);
    }

    /// Gives memory back while the connection is idle.
    pub fn shrink(&mut self) {
        self.packets.shrink_to_fit();
        self.contents.shrink_to_fit();
        self.recently_lost = VecDeque::new();
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
