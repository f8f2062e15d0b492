//! Fills packets with what an open connection has to say.

use super::{Closing, Session};
use crate::channel::{Sent, Standing};
use crate::message::{Content, Outgoing};
use crate::node::Unsealed;
use crate::node::hub::Hub;
use crate::node::own_link::OwnLink;
use crate::seal::SealTx;
use crate::wire::{ConnectionId, Fragment, Frame, Grant, Hello, Kind, Prelude, Writer};

/// Packets of the first train to a peer to which nothing is on its way: it takes them in while the
/// rest is built and sent.
const FIRST_TRAIN: usize = 32;

/// So many questions in vain are more than waiting for one's turn, as a rule: 0.75 s.
const LONG_STARVED: u8 = 4;

/// More pieces than this are not worth the bookkeeping of one packet.
const PIECES: usize = 12;

/// Smaller pieces of a body than this are not worth a frame at the end of a packet.
const MIN_FRAGMENT: usize = 128;

/// What may leave for a peer now, as far as this host's own link goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Anything: it does not go over that link.
    Here,
    /// Anything, in trains that the link takes at a time.
    Data,
    /// The same, and the first packet asks for an answer at once.
    Trial,
    /// Words, and what is alone: data wait until the link takes more.
    Words,
}

/// Where in its train a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Any,
    /// At the end, and what is left stays for now.
    Last,
}

/// A train of packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Train {
    /// Bytes in all; 0 if there is nothing to send, or no leave to.
    pub bytes: usize,
    /// Bytes of each packet but the last, which may be shorter.
    pub segment: usize,
    /// Another may follow at once.
    pub more: bool,
}

/// What of the messages may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    All,
    /// Entries, to let the peer know what there is.
    Entries,
    /// What goes again, entries, and no byte more.
    Known,
    /// What goes again.
    Again,
    Nothing,
}

impl Session {
    fn has_control(&self, outgoing: &Outgoing) -> bool {
        self.has_own_control(outgoing) || self.must_tell_blocked(outgoing)
    }

    /// The same but for what new entries may make due.
    #[inline]
    fn has_own_control(&self, outgoing: &Outgoing) -> bool {
        self.ping
            || self.poll
            || self.log_limit_due
            || self.returned_due
            || self.tells_credit()
            || self.is_seldom_due()
            || self.incoming.log.is_pressing()
            || self.incoming.has_grants()
            || outgoing.has_expired()
            || matches!(self.close, Closing::Due(_))
    }

    /// Whether credit is to be told: with an acknowledgement, which there can't be before anything has come.
    pub(super) fn tells_credit(&self) -> bool {
        self.credit_due && self.counters.packets_received > 0
    }

    /// Whether there is something to tell that most connections never have.
    #[inline]
    fn is_seldom_due(&self) -> bool {
        let seldom = self.seldom.as_ref();
        seldom.is_some_and(|seldom| seldom.apart.due || seldom.agreement.is_due())
    }

    fn must_tell_blocked(&self, outgoing: &Outgoing) -> bool {
        outgoing.is_blocked() && self.blocked_told != outgoing.log_limit()
    }

    /// What of the messages may leave now, as far as the peer's credit for the path goes.
    fn leave(&self, outgoing: &Outgoing, bytes: usize) -> Leave {
        match self.channel.may_request() {
            _ if self.channel.may_send(bytes, 1) => Leave::All,
            // The peer may know of nothing yet: new bytes that fill the packet up would be lost in turn where hundreds ask for credit.
            _ if self.poll && self.channel.credit == 0 && outgoing.entries_go_again() => {
                Leave::Known
            }
            _ if self.poll => Leave::All,
            true if outgoing.has_entries() => Leave::Entries,
            true if self.starved > 0 && self.may_go_again(outgoing) => Leave::Again,
            _ => Leave::Nothing,
        }
    }

    /// The same as far as this peer's turn goes.
    fn leave_in(&self, turn: Turn, outgoing: &Outgoing, bytes: usize) -> Leave {
        let leave = self.leave(outgoing, bytes);
        match turn {
            Turn::Words if !self.poll && !self.is_alone(outgoing, bytes) => Leave::Nothing,
            _ => leave,
        }
    }

    /// Whether one packet takes all that waits, and nothing is on its way.
    fn is_alone(&self, outgoing: &Outgoing, bytes: usize) -> bool {
        self.channel.sent.in_flight_packets() == 0
            && !outgoing.has_bodies()
            && outgoing.unsent_bytes() <= bytes
    }

    /// Whether something may go again without credit. The peer may have all of it, and know of nothing to give credit for: one packet
    /// after the other where nothing else waits that it would know of, else one with each question that follows several in vain.
    fn may_go_again(&self, outgoing: &Outgoing) -> bool {
        let asks_in_vain = self.ping && self.starved > LONG_STARVED;
        outgoing.goes_again() && (asks_in_vain || outgoing.only_goes_again())
    }

    /// Whether something may leave now that needs an answer.
    fn has_eliciting(&self, outgoing: &Outgoing) -> bool {
        self.has_control(outgoing) || (outgoing.has_sendable() && self.may_leave(outgoing))
    }

    /// Whether anything of the messages may leave now.
    pub fn may_leave(&self, outgoing: &Outgoing) -> bool {
        self.leave(outgoing, self.channel.mtu.current()) != Leave::Nothing
    }

    /// Whether a packet should be built now.
    pub fn wants_to_send(&self, outgoing: &Outgoing, now_ns: u64) -> bool {
        let may_leave = || outgoing.has_sendable() && self.may_leave(outgoing);
        self.has_words(outgoing, now_ns) || may_leave()
    }

    /// Whether there is something to tell now that is no message.
    pub fn has_words(&self, outgoing: &Outgoing, now_ns: u64) -> bool {
        let ack_due = self
            .channel
            .received
            .deadline()
            .is_some_and(|at| at <= now_ns);
        ack_due || self.poll || self.has_control(outgoing)
    }

    /// Fills `out` with a train of packets, as far as the peer's turn allows.
    pub fn build_train(
        &mut self,
        outgoing: &mut Outgoing,
        out: &mut [u8],
        mut turn: Turn,
        hub: &mut Hub,
        now_ns: u64,
    ) -> Train {
        self.channel.forget_idle_credit(now_ns);
        self.channel.refresh(now_ns);
        let fits_one = outgoing.unsent_bytes() <= self.channel.mtu.current();
        let lone = fits_one && outgoing.has_sendable();
        let probe = self.channel.probe(lone, now_ns);
        if let Some(bytes) = probe.filter(|&bytes| bytes <= out.len()) {
            self.build_probe(&mut out[..bytes], hub, now_ns);
            return Train {
                bytes,
                segment: bytes,
                more: self.wants_to_send(outgoing, now_ns),
            };
        }
        let segment = self.channel.mtu.current();
        let most = match turn {
            Turn::Here => OwnLink::MOST_PACKETS,
            _ => hub.own_link.train_packets(segment),
        };
        let most = most.min(out.len() / segment);
        let keeps_rest = hub.rest_bytes > 0;
        let packets = self.train_packets(outgoing, segment, most, keeps_rest);
        // If a rest stays, the last packet is an end, and asks as such.
        let behind = packets * self.piece(segment) + hub.rest_bytes;
        let mut ends = keeps_rest && outgoing.unsent_bytes() < behind;
        let mut bulk = packets.saturating_sub(usize::from(ends)) * segment;
        let mut end = packets * segment;
        let mut train = Train {
            bytes: 0,
            segment,
            more: true,
        };
        while train.more && train.bytes < end {
            // The first packet takes care of everything else that there may be to say.
            if train.bytes > 0 && train.bytes < bulk && train.segment == segment {
                let room = &mut out[train.bytes..bulk];
                train.bytes += self.build_bulk(outgoing, room, segment, now_ns);
            }
            let rest = &mut out[train.bytes..end];
            let Some(packet) = rest.get_mut(..train.segment) else {
                break;
            };
            let place = match ends && train.bytes >= bulk {
                true => Place::Last,
                false => Place::Any,
            };
            let (bytes, more) = self.build_packet(outgoing, packet, turn, place, hub, now_ns);
            train.bytes += bytes;
            // What is too long for packets as short as these has a train of its own.
            train.more = more || (bytes == 0 && train.segment < segment);
            if turn == Turn::Trial {
                turn = Turn::Data;
            }
            if bytes < train.segment {
                if !is_pattern(&train, bytes, outgoing, hub) {
                    break;
                }
                train.segment = bytes;
                end = packets * bytes;
                ends &= outgoing.unsent_bytes() < end + hub.rest_bytes;
                bulk = end - usize::from(ends) * bytes;
            }
        }
        train
    }

    /// Packets that leave in one train if there are that many; `most` is what a train has room for.
    fn train_packets(
        &self,
        outgoing: &Outgoing,
        segment: usize,
        most: usize,
        keeps_rest: bool,
    ) -> usize {
        let sent = &self.channel.sent;
        let first = match sent.in_flight() {
            0 => FIRST_TRAIN,
            _ => usize::MAX,
        };
        // One key seals all of it.
        let one_key = SealTx::one_key(sent.next_number()) as usize;
        let cut = match keeps_rest {
            true => most,
            false => self.two_thirds(outgoing, segment, most),
        };
        most.min(first).min(cut).min(one_key)
    }

    /// Two thirds of the packets that wait, if they take more than one train of `most`. What leaves in two trains whichever way it is cut
    /// arrives earliest so (64 KiB: 46 packets, and 44 fit): the first is taken in while the second is built and sent.
    fn two_thirds(&self, outgoing: &Outgoing, segment: usize, most: usize) -> usize {
        // Envelopes and words take a packet more, and what fits, as nearly all does, needs no division.
        let (bytes, piece) = (outgoing.unsent_bytes(), self.piece(segment));
        if bytes <= most.saturating_sub(1) * piece {
            return most;
        }
        match self.channel.room(segment).min(bytes.div_ceil(piece) + 1) {
            all if all > most => all.div_ceil(3) * 2,
            _ => most,
        }
    }

    /// Bytes of a long message in a full packet.
    pub fn piece(&self, segment: usize) -> usize {
        segment - Prelude::LEN - self.tx.overhead() - Frame::FRAGMENT_HEADER
    }

    /// Whether a train that was just built leaves before what waits for this host's own link: one short packet with words, or
    /// with all that there is for the peer. Envelopes of long messages take their turn: receivers would all grant
    /// at once what can only leave one after the other.
    #[inline]
    pub fn overtakes(&mut self, before: Standing, train: &Train, outgoing: &Outgoing) -> bool {
        let is_short = train.bytes > 0 && train.bytes < train.segment;
        let is_all = !train.more && !outgoing.has_bodies();
        is_short && self.channel.sent.overtakes(before, is_all)
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
        let piece = self.piece(segment);
        let most = self.channel.run_room(segment).min(out.len() / segment);
        if self.poll || most == 0 {
            return 0;
        }
        let Some((content, bulk)) = outgoing.next_bulk(piece, most) else {
            return 0;
        };
        let packets = bulk.data.len() / piece;
        let asks = self.channel.wants_ask(segment, packets as u32);
        let out = &mut out[..packets * segment];
        self.write_bulk(&bulk, asks, out, segment);
        let sent = Sent {
            first: self.channel.sent.next_number(),
            packets: packets as u32,
            bytes: segment,
            eliciting: true,
            charged: true,
            ask: asks,
            probe: false,
        };
        self.record(sent, &[content], now_ns);
        out.len()
    }

    /// Cuts a long piece of a body into packets of `segment` bytes that fill `out`; the last of them asks for an answer, or
    /// none does. What all of them say alike is worked out once.
    fn write_bulk(&mut self, bulk: &Fragment<'_>, asks: bool, out: &mut [u8], segment: usize) {
        let piece = self.piece(segment);
        let first = self.channel.sent.next_number();
        let last = first + (out.len() / segment) as u64 - 1;
        let key = self.tx.claim(first..=last);
        let key = Some(key).filter(|key| !self.seal_below && key.overhead() > 0);
        let packets = out.chunks_exact_mut(segment);
        for (at, (packet, data)) in packets.zip(bulk.data.chunks_exact(piece)).enumerate() {
            let number = first + at as u64;
            let offset = bulk.offset + (at * piece) as u64;
            let asks = asks && number == last;
            let flags = u8::from(asks) * (Prelude::ASK | Prelude::URGENT);
            let (head, rest) = split_head(packet);
            *head = prelude(self.remote, number, flags);
            let fragment = Fragment {
                offset,
                data,
                ..*bulk
            };
            fragment.write(&mut Writer::new(rest));
            if let Some(key) = key {
                key.seal(number, head, rest);
            }
        }
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
        self.write_ack(&mut body, now_ns);
        if let Closing::Due(reason) = self.close {
            put(Frame::Close(reason), Content::Close, &mut body, hub);
        }
        let bytes = Prelude::LEN + body.at + self.tx.overhead();
        packet.truncate(bytes);
        self.finish_letter(&mut packet, hub, now_ns);
        packet
    }

    /// Acknowledges what has come; marks first, as they belong to packets that this settles.
    #[inline]
    fn write_ack(&mut self, body: &mut Writer<'_>, now_ns: u64) {
        let marks = self.channel.received.marks();
        if marks > 0 && self.features & Hello::MARKED != 0 {
            Frame::Marked(marks).write(body);
        }
        let ack = self.channel.received.take_ack(self.credit_left(), now_ns);
        ack.write(body);
    }

    /// Builds one packet into `packet`, which is as long as the path allows; returns its length, and
    /// whether another may follow at once.
    fn build_packet(
        &mut self,
        outgoing: &mut Outgoing,
        packet: &mut [u8],
        turn: Turn,
        place: Place,
        hub: &mut Hub,
        now_ns: u64,
    ) -> (usize, bool) {
        let leave = self.leave_in(turn, outgoing, packet.len());
        let control = self.has_own_control(outgoing);
        let eliciting = control
            || self.must_tell_blocked(outgoing)
            || (leave != Leave::Nothing && outgoing.has_sendable());
        let ack_due = self
            .channel
            .received
            .deadline()
            .is_some_and(|at| at <= now_ns);
        if !eliciting && !ack_due {
            return (0, false);
        }
        hub.contents.clear();
        hub.words_bytes = 0;
        let end = packet.len() - self.tx.overhead();
        let mut body = Writer::new(&mut packet[Prelude::LEN..end]);
        // With a CLOSE once more: it may overtake the acknowledgement sent before it, or that may be lost, and who
        // reads it would take messages for dropped that are here.
        let leaves = matches!(self.close, Closing::Due(_)) && self.counters.packets_received > 0;
        if self.channel.received.owes() || self.tells_credit() || ack_due || leaves {
            self.write_ack(&mut body, now_ns);
        }
        if let Some(floor) = self.channel.take_floor() {
            Frame::Floor(floor).write(&mut body);
        }
        if eliciting {
            self.fill_beside(outgoing, &mut body, hub);
            if control {
                self.fill_control(outgoing, &mut body, hub);
            }
            hub.words_bytes = body.at;
            self.fill_messages(outgoing, leave, &mut body, hub);
            if self.poll && hub.contents.is_empty() {
                put(Frame::Ping, Content::Ping, &mut body, hub);
            }
        }
        if body.at == 0 {
            return (0, false);
        }
        let full = self.channel.mtu.current();
        let alone = hub.contents.is_empty();
        let poll = !alone && std::mem::take(&mut self.poll);
        // What stays is told of all the same if there is no credit for it.
        let stays = place == Place::Last && self.channel.has_credit(full, 2);
        let waiting = !alone && !stays && self.has_more(control, outgoing);
        let flags = match alone {
            true => 0,
            false if turn == Turn::Trial => Prelude::ASK | Prelude::URGENT,
            false => self.ask_flags(outgoing, [poll, waiting], full, hub, now_ns),
        };
        let more = waiting && self.channel.may_send(full, 2);
        // A train's packets have one size: a little padding is cheaper than another system call.
        if more && body.room() < body.bytes.len() / 4 {
            body.pad();
        }
        let bytes = Prelude::LEN + body.at + self.tx.overhead();
        self.counters.acks_alone += u64::from(alone);
        self.finish_packet(&mut packet[..bytes], flags, hub, now_ns);
        // Some of it may need no credit, or have found no room beside a long acknowledgement.
        (
            bytes,
            more || ((waiting || alone) && self.has_eliciting(outgoing)),
        )
    }

    /// Whether more waits behind a packet, before which there was something to tell or not.
    #[inline]
    fn has_more(&self, control: bool, outgoing: &Outgoing) -> bool {
        outgoing.has_sendable()
            || (control && self.has_own_control(outgoing))
            || self.must_tell_blocked(outgoing)
    }

    /// Whether a packet asks for an answer: it is a POLL or not, and more is `waiting` behind it or not.
    fn ask_flags(
        &self,
        outgoing: &Outgoing,
        [poll, waiting]: [bool; 2],
        full: usize,
        hub: &Hub,
        now_ns: u64,
    ) -> u8 {
        // Credit comes unasked to those who are known to have more; congestion control has asked. What waits for its
        // time comes too late to ask for what is before it.
        let goes_on = waiting
            && (self.channel.has_credit(full, 2) || self.channel.sent.ahead() > 0)
            && !self.channel.is_held_to_rate(full, 2);
        // Who has little room left for messages may wait for more.
        let is_filled = 2 * outgoing.queued_bytes() >= hub.config.send_queue_bytes;
        let urgent = poll
            || waiting
            || is_filled
            || self.is_closing()
            || outgoing.is_awaited()
            || self.channel.needs_answer(full)
            || (is_stream(&hub.contents) && self.channel.is_credit_low(full));
        let must_ask = || self.channel.wants_ask(full, 1) || self.channel.is_overdue(now_ns);
        match (goes_on, urgent) {
            (true, _) if !poll && !must_ask() => {
                let waits = outgoing.has_sendable() && !self.channel.has_credit(full, 2);
                u8::from(waits) * Prelude::URGENT
            }
            (_, true) => Prelude::ASK | Prelude::URGENT,
            (_, false) => Prelude::ASK,
        }
    }

    /// What is left to do for the train that was built last.
    #[inline]
    pub fn unsealed(&self) -> Option<Unsealed> {
        self.seal_below.then(|| Unsealed::new(self.tx.key()))
    }

    /// Finishes a packet that is handed over by itself, and sealed.
    pub fn finish_letter(&mut self, packet: &mut [u8], hub: &mut Hub, now_ns: u64) {
        self.finish_packet(packet, 0, hub, now_ns);
        if let Some(unsealed) = self.unsealed() {
            unsealed.seal(packet, packet.len());
        }
    }

    /// Seals a packet whose body is written, unless that is left to the layer below, and records it as sent.
    fn finish_packet(&mut self, packet: &mut [u8], flags: u8, hub: &mut Hub, now_ns: u64) {
        let number = self.channel.sent.next_number();
        self.seal(number, flags, packet);
        let sent = Sent {
            first: number,
            packets: 1,
            bytes: packet.len(),
            eliciting: !hub.contents.is_empty(),
            charged: hub.contents.iter().any(Content::uses_credit),
            ask: flags & Prelude::ASK != 0,
            probe: matches!(hub.contents[..], [Content::Probe { .. }]),
        };
        self.record(sent, &hub.contents, now_ns);
    }

    /// Puts the prelude before a packet's body, and seals it, unless that is left to the layer below.
    #[inline]
    fn seal(&mut self, number: u64, flags: u8, packet: &mut [u8]) {
        let (head, rest) = split_head(packet);
        *head = prelude(self.remote, number, flags);
        let key = self.tx.claim(number..=number);
        if !self.seal_below {
            key.seal(number, head, rest);
        }
    }

    #[inline]
    fn record(&mut self, sent: Sent, contents: &[Content], now_ns: u64) {
        self.resting &= contents.iter().all(|&content| content == Content::Ping);
        self.channel.on_sent(sent, contents, now_ns);
        self.counters.packets_sent += u64::from(sent.packets);
        self.counters.bytes_sent += u64::from(sent.packets) * sent.bytes as u64;
    }

    /// What goes with whatever else does.
    #[inline]
    fn fill_beside(&mut self, outgoing: &mut Outgoing, body: &mut Writer<'_>, hub: &mut Hub) {
        if self.log_limit_due || self.incoming.log.is_due() {
            self.log_limit_due = false;
            let limit = self.incoming.log.announce();
            put(Frame::LogLimit(limit), Content::LogLimit, body, hub);
        }
        self.fill_request(outgoing, body, hub);
        if outgoing.is_blocked() {
            self.fill_blocked(outgoing, body, hub);
        }
    }

    /// What must be told.
    fn fill_control(&mut self, outgoing: &mut Outgoing, body: &mut Writer<'_>, hub: &mut Hub) {
        if let Closing::Due(reason) = self.close {
            self.close = Closing::Sent(reason);
            // The peer may have forgotten what was in packets that are acknowledged late.
            Frame::Arrived(self.incoming.whole_before()).write(body);
            put(Frame::Close(reason), Content::Close, body, hub);
        }
        if self.tells_credit() {
            self.credit_due = false;
            put(Frame::Credit, Content::Credit, body, hub);
        }
        if std::mem::take(&mut self.returned_due) {
            let units = outgoing.returned();
            put(Frame::Returned(units), Content::Returned, body, hub);
        }
        if let Some(changes) = self.take_turn() {
            put(Frame::Disconnect(changes), Content::Disconnect, body, hub);
        }
        while let Some(frame) = self.take_terms() {
            put(frame, Content::Terms, body, hub);
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
        while body.room() >= 64
            && let Some(id) = outgoing.pop_expired()
        {
            put(Frame::Expire(id as u32), Content::Expire { id }, body, hub);
        }
        if std::mem::take(&mut self.ping) {
            put(Frame::Ping, Content::Ping, body, hub);
        }
    }

    /// Tells of entries that wait for credit, with the last packet that there is credit for: of those as well that the
    /// log's limit holds back, so that credit for the path comes with the next limit, and of those that go again, for
    /// the peer may know nothing of what it has lost.
    fn fill_request(&mut self, outgoing: &Outgoing, body: &mut Writer<'_>, hub: &mut Hub) {
        let bytes = self.channel.mtu.current();
        let fits = outgoing.unsent_bytes() <= body.room() && !outgoing.entries_go_again();
        if self.channel.has_credit(bytes, 2) || fits {
            return;
        }
        if outgoing.is_curbed() {
            self.fill_blocked(outgoing, body, hub);
        }
        if let Some(upto) = outgoing.charge_to_tell(self.request_told) {
            self.request_told = upto;
            put(Frame::Request(upto), Content::Request, body, hub);
        }
    }

    /// Tells of the log's limit that holds entries back, once.
    fn fill_blocked(&mut self, outgoing: &Outgoing, body: &mut Writer<'_>, hub: &mut Hub) {
        let limit = outgoing.log_limit();
        if self.blocked_told != limit {
            self.blocked_told = limit;
            put(Frame::Blocked(limit), Content::Blocked, body, hub);
        }
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
        if outgoing.has_only_entries() {
            return self.fill_entries(outgoing, body, hub);
        }
        if !fill_resends(leave == Leave::Again, outgoing, body, hub) || leave == Leave::Again {
            return;
        }
        if leave == Leave::All && outgoing.is_body_next() {
            fill_fragments(outgoing, body, hub);
        }
        self.fill_entries(outgoing, body, hub);
        // Behind new entries: a small message must not wait until all is repaired.
        if leave == Leave::Entries
            || !fill_resends(true, outgoing, body, hub)
            || leave == Leave::Known
        {
            return;
        }
        fill_fragments(outgoing, body, hub);
    }

    /// New entries.
    #[inline]
    fn fill_entries(&mut self, outgoing: &mut Outgoing, body: &mut Writer<'_>, hub: &mut Hub) {
        let window = self.send_window(&hub.config);
        while hub.contents.len() < PIECES
            && let Some((first_id, frame)) = outgoing.next_entries(body.room(), &window)
        {
            frame.write(body);
            hub.contents.push(Content::Entries { first_id });
        }
    }
}

/// Whether a train goes on with packets as short as its first one: what waits is messages of which no more fit into a packet, not
/// even without the words that this one had. It has at most twice the packets then that as many bytes would fill.
#[inline]
fn is_pattern(train: &Train, bytes: usize, outgoing: &Outgoing, hub: &Hub) -> bool {
    let is_first = train.bytes == bytes && train.more && bytes >= train.segment / 2;
    let next = outgoing.next_entries_bytes();
    let fits = || bytes - hub.words_bytes + next <= train.segment;
    is_first && outgoing.has_only_entries() && next > 0 && !fits()
}

/// A packet's room for its prelude, and what is behind that.
#[inline]
fn split_head(packet: &mut [u8]) -> (&mut [u8; Prelude::LEN], &mut [u8]) {
    packet
        .split_first_chunk_mut()
        .expect("the caller has made sure of the room")
}

#[inline]
fn prelude(connection: ConnectionId, packet_number: u64, flags: u8) -> [u8; Prelude::LEN] {
    let kind = Kind::Data;
    Prelude {
        kind,
        flags,
        packet_number,
        connection,
    }
    .encode()
}

/// Whether a packet ends with small messages, behind which there may soon be others. What follows the
/// end of a long one is most likely an answer, which carries the acknowledgement.
#[inline]
fn is_stream(contents: &[Content]) -> bool {
    matches!(contents.last(), Some(Content::Entries { .. }))
}

#[inline]
fn put(frame: Frame<'_>, content: Content, body: &mut Writer<'_>, hub: &mut Hub) {
    frame.write(body);
    hub.contents.push(content);
}

/// Bytes of bodies that go for the first time.
#[inline]
fn fill_fragments(outgoing: &mut Outgoing, body: &mut Writer<'_>, hub: &mut Hub) {
    while hub.contents.len() < PIECES
        && body.room() >= Frame::FRAGMENT_HEADER + MIN_FRAGMENT
        && let Some((content, fragment)) =
            outgoing.next_fragment(body.room() - Frame::FRAGMENT_HEADER)
    {
        put(Frame::Fragment(fragment), content, body, hub);
    }
}

/// Puts what goes again into the packet, pieces of bodies if those may; `false` if something did not
/// fit.
fn fill_resends(
    bodies: bool,
    outgoing: &mut Outgoing,
    body: &mut Writer<'_>,
    hub: &mut Hub,
) -> bool {
    while hub.contents.len() < PIECES
        && let Some(content) = outgoing.pop_resend(bodies)
    {
        if outgoing.still_wants(content) && !fill_again(content, outgoing, body, hub) {
            outgoing.put_back(content);
            return false;
        }
    }
    true
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
