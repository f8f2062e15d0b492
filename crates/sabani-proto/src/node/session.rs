//! An open connection: fills packets, takes packets in.

use super::apart::Apart;
use super::arrivals::Origin;
use super::hub::Hub;
use super::path::Paths;
use super::peers::chunk_max;
use super::spans::PeerSpan;
use crate::channel::{AckEffect, Channel, ChannelConfig, Fate, Owed, Sent};
use crate::error::PeerLost;
use crate::message::{Content, Inbox, Incoming, LogCredit, Outgoing, SendWindow, Violation};
use crate::seal::{SealRx, SealTx};
use crate::stats::Counters;
use crate::wire::{
    CloseReason, ConnectionId, Fragment, Frame, Frames, Grant, Hello, Prelude, Writer,
};
use crate::{Config, PeerId};

/// A sender that waits for credit asks again after this long: the peer gives it unasked, but a
/// promise that only the peer keeps is not enough.
const STARVED_NS: u64 = 50_000_000;
/// Hints that the peer can't be reached make it be asked at most this often.
const HINT_EVERY_NS: u64 = 100_000_000;
/// Packets of the first train to a peer to which nothing is on its way: it takes them in while the
/// rest is built and sent. A message of 64 KiB leaves in two trains whichever way it is cut, and
/// arrives earliest if the second is the shorter one.
const FIRST_TRAIN: usize = 32;
/// An open connection to one peer.
#[derive(Debug)]
pub(crate) struct Session {
    pub channel: Channel<Content>,
    pub incoming: Incoming,
    pub tx: SealTx,
    pub rx: SealRx,
    pub local: ConnectionId,
    pub remote: ConnectionId,
    pub incarnation: u64,
    pub counters: Counters,
    /// What the peer may send above the largest packet that had come when this was given; what is
    /// left of it is told with every acknowledgement.
    pub credit: u32,
    /// The peer waits for that credit.
    pub credit_due: bool,
    request_told: u64,
    /// No credit came when it was asked for.
    starved: bool,
    next_hint_ns: u64,
    ping: bool,
    poll: bool,
    log_limit_due: bool,
    /// Nothing but signs of life has been sent since memory was last given back.
    resting: bool,
    /// The limit that the peer was told of last; `u64::MAX` for none.
    blocked_told: u64,
    pub seldom: Option<Box<Seldom>>,
    close: Closing,
    pub span: PeerSpan,
}

/// What of the messages may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    All,
    /// Entries, to let the peer know what there is.
    Entries,
    /// What goes again.
    Again,
    Nothing,
}

/// What most connections never need.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    pub apart: Apart,
    pub paths: Paths,
}

/// How far a connection's end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    No,
    Due(CloseReason),
    Sent(CloseReason),
    Done,
}

/// What a new connection is made of.
pub(crate) struct Established {
    pub tx: SealTx,
    pub rx: SealRx,
    pub local: ConnectionId,
    pub hello: Hello,
    pub log_credit: LogCredit,
    pub datagram: usize,
    /// What the handshake says of the round-trip time, if it went through at the first try.
    pub round_trip_ns: Option<u64>,
}

impl Session {
    pub fn new(made: Established, config: &Config, now_ns: u64) -> Self {
        let channel = ChannelConfig {
            ack_policy: config.ack_policy,
            ack_delay_ns: config.ack_delay_ns,
            peer_ack_delay_ns: u64::from(made.hello.ack_delay_us).min(1_000_000) * 1_000,
            window: made.hello.window,
            max_datagram: config.max_datagram.min(made.hello.max_datagram as usize),
            proven_datagram: made.datagram,
        };
        let mut channel = Channel::new(&channel, now_ns);
        if let Some(round_trip_ns) = made.round_trip_ns {
            channel.rtt.on_sample(round_trip_ns, 0);
        }
        Session {
            credit: 0,
            credit_due: false,
            request_told: 0,
            starved: false,
            channel,
            incoming: Incoming::new(made.log_credit),
            tx: made.tx,
            rx: made.rx,
            local: made.local,
            remote: made.hello.connection,
            incarnation: made.hello.incarnation,
            counters: Counters::default(),
            next_hint_ns: 0,
            ping: false,
            poll: false,
            log_limit_due: false,
            resting: false,
            blocked_told: u64::MAX,
            seldom: None,
            close: Closing::No,
            span: PeerSpan::connection(made.hello.sender, made.hello.incarnation),
        }
    }

    /// Gives the peer a reason to answer.
    pub fn ping(&mut self) {
        self.ping = true;
    }

    /// The network hints that the peer can't be reached: asks it, but not for every hint.
    pub fn on_unreachable_hint(&mut self, now_ns: u64) {
        if now_ns >= self.next_hint_ns {
            self.next_hint_ns = now_ns + HINT_EVERY_NS;
            self.ping = true;
        }
    }

    /// Ends the connection from this side.
    pub fn close(&mut self, reason: CloseReason) {
        if self.close == Closing::No {
            self.close = Closing::Due(reason);
        }
    }

    pub fn is_closing(&self) -> bool {
        self.close != Closing::No
    }

    /// Whether the peer knows that the connection has ended, or does not answer any more.
    pub fn is_closed(&self) -> bool {
        self.close == Closing::Done || (self.is_closing() && self.channel.polls_unanswered >= 4)
    }

    /// What the packets of this connection let the messages do.
    pub fn send_window(&self, config: &Config) -> SendWindow {
        SendWindow {
            eager_max: config.eager_max,
            queue_max: config.send_queue_bytes,
            chunk_max: chunk_max(self.channel.mtu.current()),
        }
    }

    fn has_control(&self, outgoing: &Outgoing) -> bool {
        self.ping
            || self.poll
            || self.log_limit_due
            || self.credit_due
            || self.is_turn_due()
            || self.incoming.log.is_pressing()
            || self.incoming.has_grants()
            || matches!(self.close, Closing::Due(_))
            || self.must_tell_blocked(outgoing)
    }

    fn must_tell_blocked(&self, outgoing: &Outgoing) -> bool {
        outgoing.is_blocked() && self.blocked_told != outgoing.log_limit()
    }

    /// What of the messages may leave now, as far as the peer's credit for the path goes.
    fn leave(&self, outgoing: &Outgoing, bytes: usize) -> Leave {
        match self.channel.may_request() {
            _ if self.poll || self.channel.has_credit(bytes, 1) => Leave::All,
            true if outgoing.has_entries() => Leave::Entries,
            // The peer may have all of it, and know of nothing to give credit for.
            true if self.starved && outgoing.goes_again() => Leave::Again,
            _ => Leave::Nothing,
        }
    }

    /// Whether something may leave now that needs an answer.
    fn has_eliciting(&self, outgoing: &Outgoing) -> bool {
        self.has_control(outgoing)
            || (outgoing.has_sendable()
                && self.leave(outgoing, self.channel.mtu.current()) != Leave::Nothing)
    }

    /// Whether a packet should be built now.
    pub fn wants_to_send(&self, outgoing: &Outgoing, now_ns: u64) -> bool {
        let ack_due = self
            .channel
            .received
            .deadline()
            .is_some_and(|at| at <= now_ns);
        ack_due || self.poll || self.has_eliciting(outgoing)
    }

    /// Fills `out` with a train of packets, all of `segment` bytes but the last. `(0, _)` if there
    /// is nothing to send, or no leave to.
    pub fn build_train(
        &mut self,
        outgoing: &mut Outgoing,
        out: &mut [u8],
        hub: &mut Hub,
        now_ns: u64,
    ) -> (usize, usize) {
        self.channel.forget_idle_credit(now_ns);
        if let Some(bytes) = self
            .channel
            .mtu
            .probe(now_ns)
            .filter(|&bytes| bytes <= out.len())
        {
            self.build_probe(&mut out[..bytes], hub, now_ns);
            return (bytes, bytes);
        }
        let segment = self.channel.mtu.current();
        let whole = out.len() / segment * segment;
        let packets = if self.channel.sent.in_flight() == 0 {
            FIRST_TRAIN
        } else {
            hub.train_packets
        };
        let out = &mut out[..whole.min(packets * segment)];
        let mut len = 0;
        while len < out.len() {
            // The first packet takes care of everything else that there may be to say.
            if len > 0 {
                len += self.build_bulk(outgoing, &mut out[len..], segment, now_ns);
            }
            let Some(packet) = out.get_mut(len..len + segment) else {
                break;
            };
            let bytes = self.build_packet(outgoing, packet, hub, now_ns);
            len += bytes;
            if bytes < segment {
                break;
            }
        }
        (len, segment)
    }

    /// Fills `out` with full packets from the middle of a long body, if that is what comes next;
    /// returns their bytes. There is more behind them, and window for it, so that only the last may
    /// have to ask for an answer.
    fn build_bulk(
        &mut self,
        outgoing: &mut Outgoing,
        out: &mut [u8],
        segment: usize,
        now_ns: u64,
    ) -> usize {
        let piece = segment - Prelude::LEN - self.tx.overhead() - Frame::FRAGMENT_HEADER;
        let most = self.channel.run_room(segment).min(out.len() / segment);
        if self.poll || most == 0 {
            return 0;
        }
        let Some((content, bulk)) = outgoing.next_bulk(piece, most) else {
            return 0;
        };
        let packets = bulk.data.len() / piece;
        let asks = self.channel.wants_ask(segment, packets as u32);
        let first = self.channel.sent.next_number();
        let pieces = bulk.data.chunks_exact(piece).enumerate();
        for (packet, (at, data)) in out.chunks_exact_mut(segment).zip(pieces) {
            let fragment = Fragment {
                offset: bulk.offset + (at * piece) as u64,
                data,
                ..bulk
            };
            fragment.write(&mut Writer::new(&mut packet[Prelude::LEN..]));
            let asks = asks && at + 1 == packets;
            let flags = u8::from(asks) * (Prelude::ASK | Prelude::URGENT);
            seal(&mut self.tx, self.remote, first + at as u64, flags, packet);
        }
        let sent = Sent {
            first,
            packets: packets as u32,
            bytes: segment,
            eliciting: true,
            charged: true,
            ask: asks,
        };
        self.record(sent, &[content], now_ns);
        packets * segment
    }

    fn build_probe(&mut self, packet: &mut [u8], hub: &mut Hub, now_ns: u64) {
        let end = packet.len() - self.tx.overhead();
        let mut body = Writer::new(&mut packet[Prelude::LEN..end]);
        Frame::Ping.write(&mut body);
        body.pad();
        hub.contents.clear();
        hub.contents.push(Content::Probe {
            bytes: packet.len() as u32,
        });
        self.finish_packet(packet, Prelude::ASK, hub, now_ns);
    }

    /// One last packet: what must be acknowledged, and why the connection ends.
    pub fn build_farewell(&mut self, hub: &mut Hub, now_ns: u64) -> Vec<u8> {
        let mut packet = vec![0; self.channel.mtu.current()];
        let end = packet.len() - self.tx.overhead();
        hub.contents.clear();
        let mut body = Writer::new(&mut packet[Prelude::LEN..end]);
        Frame::Ack(self.channel.received.take_ack(self.credit_left(), now_ns)).write(&mut body);
        if let Closing::Due(reason) = self.close {
            put(Frame::Close(reason), Content::Close, &mut body, hub);
        }
        let bytes = Prelude::LEN + body.at + self.tx.overhead();
        packet.truncate(bytes);
        self.finish_packet(&mut packet, 0, hub, now_ns);
        packet
    }

    /// Builds one packet into `packet`, which is as long as the path allows; returns its length.
    fn build_packet(
        &mut self,
        outgoing: &mut Outgoing,
        packet: &mut [u8],
        hub: &mut Hub,
        now_ns: u64,
    ) -> usize {
        let leave = self.leave(outgoing, packet.len());
        let eliciting =
            self.has_control(outgoing) || (outgoing.has_sendable() && leave != Leave::Nothing);
        let ack_due = self
            .channel
            .received
            .deadline()
            .is_some_and(|at| at <= now_ns);
        if !eliciting && !ack_due {
            return 0;
        }
        hub.contents.clear();
        let end = packet.len() - self.tx.overhead();
        let mut body = Writer::new(&mut packet[Prelude::LEN..end]);
        if self.channel.received.owes() || self.credit_due || ack_due {
            let ack = self.channel.received.take_ack(self.credit_left(), now_ns);
            Frame::Ack(ack).write(&mut body);
        }
        if eliciting {
            self.fill_control(outgoing, &mut body, hub);
            self.fill_messages(outgoing, leave, &mut body, hub);
        }
        if body.at == 0 {
            return 0;
        }
        let full = Prelude::LEN + body.bytes.len() + self.tx.overhead();
        let (more, flags) = self.ask_flags(outgoing, full, hub);
        // A train's packets have one size: a little padding is cheaper than another system call.
        if more && body.room() < body.bytes.len() / 4 {
            body.pad();
        }
        let bytes = Prelude::LEN + body.at + self.tx.overhead();
        self.counters.acks_alone += u64::from(hub.contents.is_empty());
        self.finish_packet(&mut packet[..bytes], flags, hub, now_ns);
        bytes
    }

    /// Whether more packets follow at once, and whether this one asks for an answer.
    fn ask_flags(&mut self, outgoing: &Outgoing, full: usize, hub: &Hub) -> (bool, u8) {
        if hub.contents.is_empty() {
            return (false, 0);
        }
        let poll = std::mem::take(&mut self.poll);
        let waiting = outgoing.has_sendable() || self.has_control(outgoing);
        let credit = self.channel.has_credit(full, 2);
        let more = waiting && credit;
        // Credit comes unasked to those who are known to have more.
        let known = waiting && !credit && self.channel.sent.ahead() > 0;
        let urgent = poll || waiting || self.is_closing() || outgoing.has_tickets();
        let flags = match (more || known, urgent) {
            (true, _) if !poll && !self.channel.wants_ask(full, 1) => 0,
            (_, true) => Prelude::ASK | Prelude::URGENT,
            (_, false) => Prelude::ASK,
        };
        (more, flags)
    }

    /// Seals a packet whose body is written, and records it as sent.
    pub fn finish_packet(&mut self, packet: &mut [u8], flags: u8, hub: &mut Hub, now_ns: u64) {
        let number = self.channel.sent.next_number();
        seal(&mut self.tx, self.remote, number, flags, packet);
        let sent = Sent {
            first: number,
            packets: 1,
            bytes: packet.len(),
            eliciting: !hub.contents.is_empty(),
            charged: hub.contents.iter().any(Content::uses_credit),
            ask: flags & Prelude::ASK != 0,
        };
        self.record(sent, &hub.contents, now_ns);
    }

    #[inline]
    fn record(&mut self, sent: Sent, contents: &[Content], now_ns: u64) {
        self.resting &= contents.iter().all(|&content| content == Content::Ping);
        self.channel.on_sent(sent, contents, now_ns);
        self.counters.packets_sent += u64::from(sent.packets);
        self.counters.bytes_sent += u64::from(sent.packets) * sent.bytes as u64;
    }

    fn fill_control(&mut self, outgoing: &mut Outgoing, body: &mut Writer<'_>, hub: &mut Hub) {
        if outgoing.take_resent() {
            Frame::Floor(self.channel.sent.floor()).write(body);
        }
        if let Closing::Due(reason) = self.close {
            self.close = Closing::Sent(reason);
            put(Frame::Close(reason), Content::Close, body, hub);
        }
        if self.log_limit_due || self.incoming.log.is_due() {
            self.log_limit_due = false;
            let limit = self.incoming.log.announce();
            put(Frame::LogLimit(limit), Content::LogLimit, body, hub);
        }
        if std::mem::take(&mut self.credit_due) {
            put(Frame::Credit, Content::Credit, body, hub);
        }
        self.fill_request(outgoing, body, hub);
        if let Some(changes) = self.take_turn() {
            put(Frame::Disconnect(changes), Content::Disconnect, body, hub);
        }
        if self.must_tell_blocked(outgoing) {
            self.blocked_told = outgoing.log_limit();
            put(
                Frame::Blocked(outgoing.log_limit()),
                Content::Blocked,
                body,
                hub,
            );
        }
        while body.room() >= 64
            && let Some(id) = self.incoming.pop_grant()
        {
            if let Some(upto) = self.incoming.granted(id) {
                let grant = Grant {
                    id: id as u32,
                    upto,
                };
                put(Frame::Grant(grant), Content::Grant { id }, body, hub);
            }
        }
        if self.ping || (self.poll && !outgoing.has_sendable()) {
            self.ping = false;
            put(Frame::Ping, Content::Ping, body, hub);
        }
    }

    /// Tells of entries that wait for credit, with the last packet that there is credit for.
    fn fill_request(&mut self, outgoing: &Outgoing, body: &mut Writer<'_>, hub: &mut Hub) {
        let bytes = self.channel.mtu.current();
        let upto = outgoing.allowed_charge();
        if self.request_told == upto
            || self.channel.has_credit(bytes, 2)
            || outgoing.unsent_bytes() <= body.room()
        {
            return;
        }
        self.request_told = upto;
        put(Frame::Request(upto), Content::Request, body, hub);
    }

    fn fill_messages(
        &mut self,
        outgoing: &mut Outgoing,
        leave: Leave,
        body: &mut Writer<'_>,
        hub: &mut Hub,
    ) {
        if leave == Leave::Nothing || outgoing.is_held() {
            return;
        }
        /// More pieces than this are not worth the bookkeeping of one packet.
        const PIECES: usize = 12;
        while hub.contents.len() < PIECES
            && let Some(content) = outgoing.pop_resend(leave != Leave::Entries)
        {
            if outgoing.still_wants(content) && !fill_again(content, outgoing, body, hub) {
                outgoing.put_back(content);
                return;
            }
        }
        if leave == Leave::Again {
            return;
        }
        let window = self.send_window(&hub.config);
        while hub.contents.len() < PIECES
            && let Some((first_id, frame)) = outgoing.next_entries(body.room(), &window)
        {
            put(
                Frame::Entries(frame),
                Content::Entries { first_id },
                body,
                hub,
            );
        }
        while leave == Leave::All
            && hub.contents.len() < PIECES
            && body.room() >= Frame::FRAGMENT_HEADER + MIN_FRAGMENT
            && let Some((content, fragment)) =
                outgoing.next_fragment(body.room() - Frame::FRAGMENT_HEADER)
        {
            put(Frame::Fragment(fragment), content, body, hub);
        }
    }

    /// Takes in the frames of an opened packet; returns whether the peer has closed.
    pub fn on_payload(
        &mut self,
        outgoing: &mut Outgoing,
        payload: &[u8],
        owed: &Owed,
        origin: Origin,
        hub: &mut Hub,
    ) -> Result<bool, PeerLost> {
        let Origin { peer, now_ns, .. } = origin;
        let mut eliciting = false;
        let mut closed = false;
        for frame in Frames::new(payload) {
            let frame = frame.map_err(|bad| PeerLost::Violation(bad.0))?;
            eliciting |= frame.must_arrive();
            let mut inbox = origin.inbox(&mut hub.mailbox);
            match frame {
                Frame::Entries(entries) => self.incoming.on_entries(&entries, &mut inbox)?,
                Frame::Fragment(fragment) => self.incoming.on_fragment(&fragment, &mut inbox)?,
                Frame::Ack(ack) => self.on_ack(outgoing, &ack, peer, hub, now_ns)?,
                Frame::Close(reason) => {
                    closed = true;
                    self.close = Closing::Done;
                    if reason == CloseReason::Violation {
                        return Err(PeerLost::Accused);
                    }
                }
                other => self.on_control(outgoing, &other, &mut inbox),
            }
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
            _ => {}
        }
    }

    fn on_ack(
        &mut self,
        outgoing: &mut Outgoing,
        ack: &crate::wire::Ack,
        peer: PeerId,
        hub: &mut Hub,
        now_ns: u64,
    ) -> Result<(), PeerLost> {
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
        self.starved &= !self.channel.has_credit(self.channel.mtu.current(), 1);
        if self.resting {
            self.shrink(outgoing);
        }
        Ok(())
    }

    fn note_lost(&mut self, lost: u32, cause: &str, peer: PeerId) {
        if lost > 0 {
            self.counters.packets_lost += u64::from(lost);
            tracing::debug!(parent: self.span.id(), %peer, lost, %cause, "packets lost");
        }
    }

    /// Passes on what became of things that packets carried.
    fn settle_fates(&mut self, outgoing: &mut Outgoing, hub: &mut Hub, now_ns: u64) {
        let mut fates = std::mem::take(&mut hub.fates);
        let mut done = hub_sends(&mut hub.sends);
        for (fate, content) in fates.drain(..) {
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
                (Fate::Arrived, _) => {}
                (fate, content) => self.send_again(fate, content, outgoing, now_ns),
            }
        }
        drop(done);
        hub.fates = fates;
    }

    fn send_again(&mut self, fate: Fate, content: Content, outgoing: &mut Outgoing, now_ns: u64) {
        match content {
            Content::Entries { .. } | Content::Body { .. } => {
                outgoing.send_again(content, fate == Fate::Again);
            }
            Content::Grant { id } => self.incoming.grant_again(id),
            Content::LogLimit => self.log_limit_due = true,
            Content::Blocked => self.blocked_told = u64::MAX,
            Content::Request => self.request_told = 0,
            Content::Credit => self.credit_due = true,
            Content::Disconnect => self.tell_turn_again(),
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

    /// When something is due next.
    pub fn deadline(&self, outgoing: &Outgoing, config: &Config, now_ns: u64) -> u64 {
        let patience = if self.channel.sent.in_flight_packets() > 0 {
            self.patience_ns(outgoing, config)
        } else if outgoing.has_sendable() {
            STARVED_NS.min(config.keep_alive_ns)
        } else {
            config.keep_alive_ns
        };
        let heard = self.channel.last_heard_ns + patience;
        self.channel
            .deadline(now_ns)
            .map_or(heard, |at| at.min(heard))
    }

    /// Does what is due.
    pub fn on_deadline(
        &mut self,
        outgoing: &mut Outgoing,
        peer: PeerId,
        hub: &mut Hub,
        now_ns: u64,
    ) -> Result<(), PeerLost> {
        let silent = now_ns.saturating_sub(self.channel.last_heard_ns);
        if self.channel.sent.in_flight_packets() > 0 {
            if self.channel.sent.next_number() > WORN_OUT {
                return Err(PeerLost::WornOut);
            }
            // A peer that talks but never acknowledges is as good as silent.
            let silent = silent.max(self.channel.stuck_ns(now_ns) / 2);
            if silent >= self.patience_ns(outgoing, &hub.config) {
                return Err(PeerLost::Silent(std::time::Duration::from_nanos(silent)));
            }
        } else if silent >= hub.config.keep_alive_ns
            || (silent >= STARVED_NS && outgoing.has_sendable())
        {
            self.ping = true;
            self.request_told = 0;
            self.starved = outgoing.has_sendable();
        }
        // Not tied to its own keep-alive: the peer's may always come first.
        let sent_ns = self.channel.last_sent_ns();
        if outgoing.is_settled() && now_ns >= sent_ns + hub.config.keep_alive_ns {
            self.resting = true;
            self.shrink(outgoing);
        }
        let fates = &mut hub.fates;
        let due = self
            .channel
            .on_deadline(now_ns, &mut |fate, content| fates.push((fate, content)));
        self.note_lost(due.lost, "out for too long", peer);
        if due.poll {
            self.poll = true;
            self.counters.polls += 1;
            self.counters.timeouts += u64::from(self.channel.polls_unanswered == 3);
            let (span, polls) = (self.span.id(), self.channel.polls_unanswered);
            tracing::debug!(parent: span, %peer, polls, "asking for the tail");
        }
        self.settle_fates(outgoing, hub, now_ns);
        Ok(())
    }

    /// The local interface refused datagrams of `bytes`: everything in flight goes again, smaller.
    pub fn on_too_big(
        &mut self,
        bytes: usize,
        outgoing: &mut Outgoing,
        hub: &mut Hub,
        now_ns: u64,
    ) {
        if bytes > self.channel.mtu.current() {
            self.channel.mtu.on_probe_lost(bytes, true, now_ns);
            return;
        }
        // Nothing smaller is left to try: the tail is asked for with ever longer pauses.
        if self.channel.mtu.is_base() {
            return;
        }
        self.channel.mtu.on_black_hole(now_ns);
        self.send_all_again(outgoing, hub, now_ns);
    }

    /// Everything in flight goes again.
    pub fn send_all_again(&mut self, outgoing: &mut Outgoing, hub: &mut Hub, now_ns: u64) {
        let fates = &mut hub.fates;
        self.channel
            .sent
            .give_back_all(&mut |fate, content| fates.push((fate, content)));
        self.settle_fates(outgoing, hub, now_ns);
    }

    /// Gives back memory that an idle connection does not need.
    fn shrink(&mut self, outgoing: &mut Outgoing) {
        self.channel.sent.shrink();
        self.channel.received.packets.shrink();
        self.incoming.shrink();
        outgoing.shrink();
    }
}

impl From<Violation> for PeerLost {
    fn from(violation: Violation) -> Self {
        PeerLost::Violation(violation.0)
    }
}

/// A connection that has used this many packet numbers, half of all, is ended before any could be
/// used twice; the next message makes a new one.
const WORN_OUT: u64 = Prelude::MAX_PACKET_NUMBER / 2;

/// Smaller pieces of a body than this are not worth a frame at the end of a packet.
const MIN_FRAGMENT: usize = 128;

/// Puts the prelude before a packet's body, and seals it.
#[inline]
fn seal(tx: &mut SealTx, connection: ConnectionId, number: u64, flags: u8, packet: &mut [u8]) {
    let prelude = Prelude {
        kind: crate::wire::Kind::Data,
        flags,
        packet_number: number,
        connection,
    }
    .encode();
    let (head, rest) = packet.split_at_mut(Prelude::LEN);
    head.copy_from_slice(&prelude);
    tx.seal(number, &prelude, rest);
}

#[inline]
fn put(frame: Frame<'_>, content: Content, body: &mut Writer<'_>, hub: &mut Hub) {
    frame.write(body);
    hub.contents.push(content);
}

/// Puts something into the packet that went before; `false` if it does not fit.
fn fill_again(
    content: Content,
    outgoing: &mut Outgoing,
    body: &mut Writer<'_>,
    hub: &mut Hub,
) -> bool {
    match content {
        Content::Entries { first_id } => match outgoing.entries_again(first_id, body.room()) {
            Some(frame) => put(Frame::Entries(frame), content, body, hub),
            None => return false,
        },
        Content::Body { id, offset, len } => {
            let need = Frame::FRAGMENT_HEADER + MIN_FRAGMENT.min(len as usize);
            if body.room() < need {
                return false;
            }
            let max = body.room() - Frame::FRAGMENT_HEADER;
            if let Some((content, fragment)) = outgoing.fragment_again(id, offset, len, max) {
                put(Frame::Fragment(fragment), content, body, hub);
            }
        }
        _ => {}
    }
    true
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
fn hub_sends(
    sends: &mut crate::message::Tickets<super::hub::SendState>,
) -> impl FnMut(crate::message::Ticket) + '_ {
    |ticket| {
        if let Some(state) = sends.get_mut(ticket) {
            *state = super::hub::SendState::Arrived;
        }
    }
}
