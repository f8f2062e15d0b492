//! Takes in what the packets of an open connection say.

use super::{Closing, Session};
use crate::PeerId;
use crate::channel::{AckEffect, Arrival, Data, Fate, Owed};
use crate::error::PeerLost;
use crate::event::Event;
use crate::message::{Content, Expiry, Inbox, Outgoing, Ticket, Tickets, Violation};
use crate::node::arrivals::Origin;
use crate::node::hub::{Hub, SendState};
use crate::node::later::LateAck;
use crate::wire::{Ack, CloseReason, Frame, Frames, Malformed};

impl Session {
    /// Takes in the frames of an opened packet; returns whether the peer has closed.
    pub fn on_payload(
        &mut self,
        outgoing: &mut Outgoing,
        payload: &[u8],
        owed: &Owed,
        last: bool,
        origin: Origin,
        hub: &mut Hub,
    ) -> Result<bool, PeerLost> {
        let Origin { peer, now_ns, .. } = origin;
        let mut eliciting = false;
        let mut closed = false;
        let mut whole_before = 0;
        let mut frames = Frames::new(payload);
        loop {
            // What most packets have, without a detour through all that there may be: these two are always read here.
            if let Some(ack) = frames.read_ack()? {
                let may_wait = last && frames.go_on() && hub.late_ack.is_none();
                if may_wait && self.may_be_late(&ack, outgoing) {
                    hub.late_ack = Some(LateAck {
                        peer: origin.link.peer,
                        ack,
                        came_ns: now_ns,
                    });
                } else {
                    self.on_ack(outgoing, &ack, peer, hub, now_ns)?;
                }
                continue;
            }
            let mut inbox = origin.inbox(&mut hub.mailbox);
            if let Some(entries) = frames.read_entries()? {
                eliciting = true;
                self.channel.received.note_data(Data::Short);
                self.incoming.on_entries(&entries, &mut inbox)?;
                continue;
            }
            let Some(frame) = frames.read()? else {
                break;
            };
            eliciting |= frame.must_arrive();
            match frame {
                Frame::Fragment(fragment) => {
                    self.channel.received.note_data(Data::of(fragment.total));
                    self.incoming.on_fragment(&fragment, &mut inbox)?;
                }
                Frame::Marked(count) => self.channel.on_marks(count, now_ns),
                Frame::Expire(id) => {
                    let expiry = self.incoming.on_expire(id, &mut inbox);
                    if expiry != Expiry::Ignored {
                        self.seldom.get_or_insert_default().expired_received += 1;
                    }
                    if let Expiry::Untold(envelope) = expiry {
                        hub.push_event(Event::Expired { envelope });
                    }
                }
                Frame::Wish { number, terms } => {
                    self.hear_wish(number, terms, origin.link.peer, hub, now_ns);
                }
                Frame::Returned(units) => self.incoming.on_returned(units, inbox.mailbox)?,
                Frame::Arrived(before) => whole_before = before,
                Frame::Close(reason) => {
                    // It came in this packet.
                    if let Some(late) = hub.late_ack.take() {
                        self.on_ack(outgoing, &late.ack, peer, hub, now_ns)?;
                    }
                    closed = true;
                    self.close = Closing::Done;
                    outgoing.leave_before(whole_before, &mut hub_sends(&mut hub.sends));
                    if reason == CloseReason::Violation {
                        return Err(PeerLost::Accused);
                    }
                }
                other => self.on_control(outgoing, &other, &mut inbox),
            }
        }
        // A late one tells of what the peer sent before it knew better.
        if Frames::is_probe(payload) && owed.arrival != Arrival::Late {
            self.channel.received.on_probe(owed.bytes);
        }
        if eliciting {
            self.channel.received.owe(owed, now_ns);
        }
        Ok(closed)
    }

    fn on_control(&mut self, outgoing: &mut Outgoing, frame: &Frame<'_>, inbox: &mut Inbox<'_>) {
        match *frame {
            Frame::Grant(grant) => outgoing.on_grant(grant.id, grant.upto),
            Frame::LogLimit(limit) => outgoing.set_log_limit(limit),
            Frame::Blocked(limit) => self.incoming.on_blocked(limit, inbox.mailbox),
            Frame::PathChallenge(_) | Frame::PathResponse(_) => self.on_path_frame(frame),
            Frame::Disconnect(changes) => self.hear_turn(changes),
            Frame::Floor(floor) => self.channel.received.packets.settle_below(floor),
            Frame::Request(upto) => self.incoming.on_request(upto),
            Frame::Terms { number, terms } => self.hear_terms(number, terms),
            _ => {}
        }
    }

    pub fn on_ack(
        &mut self,
        outgoing: &mut Outgoing,
        ack: &Ack,
        peer: PeerId,
        hub: &mut Hub,
        now_ns: u64,
    ) -> Result<(), PeerLost> {
        hub.own_link.on_answer(self.local, ack.largest, now_ns);
        let rtt = &mut self.channel.rtt;
        rtt.begin_at(hub.clock.unbroken_from_ns());
        let fates = &mut hub.fates;
        let effect = self.channel.on_ack(ack, now_ns, &mut |fate, content| {
            note_fate(fates, fate, content)
        });
        match effect {
            AckEffect::Absurd => {
                return Err(PeerLost::Violation(
                    "packets acknowledged that were never sent",
                ));
            }
            AckEffect::Settled { lost, spurious } => {
                self.counters.spurious_losses += u64::from(spurious);
                self.note_lost(lost, "a gap was reported", peer);
            }
        }
        self.settle_fates(outgoing, hub, now_ns);
        if self.channel.has_credit(self.channel.mtu.current(), 1) {
            self.starved = 0;
        }
        if self.resting {
            self.shrink(outgoing);
        }
        Ok(())
    }

    pub(super) fn note_lost(&mut self, lost: u32, cause: &str, peer: PeerId) {
        if lost > 0 {
            self.counters.packets_lost += u64::from(lost);
            tracing::debug!(parent: self.span.id(), %peer, lost, %cause, "packets lost");
        }
    }

    /// Passes on what became of things that packets carried.
    pub(super) fn settle_fates(&mut self, outgoing: &mut Outgoing, hub: &mut Hub, now_ns: u64) {
        let mut expired = Vec::new();
        let mut done = hub_sends(&mut hub.sends);
        for (fate, content) in hub.fates.drain(..) {
            match (fate, content) {
                (Fate::Arrived, Content::Entries { first_id }) => {
                    outgoing.on_entries_arrived(first_id, &mut done);
                }
                (Fate::Arrived, Content::Body { id, len, .. }) => {
                    outgoing.on_body_arrived(id, len, &mut done);
                }
                (Fate::Arrived, Content::Probe { bytes }) => {
                    self.channel.mtu.on_probe_arrived(bytes as usize, now_ns);
                }
                (Fate::Arrived, Content::Close) => self.close = Closing::Done,
                (Fate::Arrived, Content::Expire { id }) => outgoing.on_expired_told(id),
                (Fate::Arrived, _) => {}
                (Fate::Lost, Content::Body { id, .. }) if outgoing.goes_once(content) => {
                    self.seldom.get_or_insert_default().expired_sent += 1;
                    outgoing.give_up(id, &mut |ticket| expired.push(ticket));
                }
                (fate, content) => self.send_again(fate, content, outgoing, now_ns),
            }
        }
        drop(done);
        hub.expire_sends(expired);
    }

    fn send_again(&mut self, fate: Fate, content: Content, outgoing: &mut Outgoing, now_ns: u64) {
        match content {
            Content::Entries { .. } | Content::Body { .. } => {
                if outgoing.still_wants(content) {
                    self.channel.owe_floor();
                    outgoing.send_again(content, fate == Fate::Again);
                }
            }
            Content::Expire { id } => outgoing.expired_again(id),
            Content::Grant { id } => self.incoming.grant_again(id),
            Content::LogLimit => self.log_limit_due = true,
            Content::Blocked => self.blocked_told = u64::MAX,
            Content::Request => self.request_told = 0,
            Content::Returned => self.returned_due = true,
            Content::Credit => self.credit_due = true,
            Content::Disconnect => self.tell_turn_again(),
            Content::Terms => self.tell_terms_again(),
            Content::Probe { bytes } => {
                self.channel
                    .mtu
                    .on_probe_lost(bytes as usize, false, now_ns);
            }
            Content::Close => {
                if let Closing::Sent(reason) = self.close {
                    self.close = Closing::Due(reason);
                }
            }
            Content::Ping => {}
        }
    }
}

impl From<Malformed> for PeerLost {
    fn from(bad: Malformed) -> Self {
        PeerLost::Violation(bad.0)
    }
}

impl From<Violation> for PeerLost {
    fn from(violation: Violation) -> Self {
        PeerLost::Violation(violation.0)
    }
}

/// Notes what became of something; pieces of one body that arrive in a row count as one.
#[inline]
fn note_fate(fates: &mut Vec<(Fate, Content)>, fate: Fate, content: Content) {
    if let Some((Fate::Arrived, Content::Body { id, len, .. })) = fates.last_mut()
        && let (
            Fate::Arrived,
            Content::Body {
                id: same,
                len: more,
                ..
            },
        ) = (fate, content)
        && *id == same
        && let Some(sum) = len.checked_add(more)
    {
        *len = sum;
        return;
    }
    fates.push((fate, content));
}

/// Marks sends as arrived.
fn hub_sends(sends: &mut Tickets<SendState>) -> impl FnMut(Ticket) + '_ {
    |ticket| {
        if let Some(state) = sends.get_mut(ticket) {
            *state = SendState::Arrived;
        }
    }
}
