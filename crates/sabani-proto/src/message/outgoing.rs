//! The sender's side of one peer's messages: the log of envelopes, cut into chunks that fit a
//! packet, and the bodies that travel beside it.
//!
//! Everything accepted stays here until the peer has acknowledged it. At any moment each chunk and
//! each byte of a body is in exactly one place: unsent, in one packet in flight, waiting to go
//! again, or acknowledged; so counting bytes is enough to know when a body has arrived.

mod bodies;
mod entries;
mod expiry;
mod surplus;

use std::collections::VecDeque;
use std::ops::Range;

use super::{ENTRY_CHARGE, MOST_IDS, Outbound, Ticket, Worth, entry_charge, unasked_needs};
use crate::channel::Cargo;
use crate::rare::{Rare, RareQueue};
use crate::wire::{Entries, Entry, EntryMode, Fragment, Frame, Reader};
use bodies::Turns;
use expiry::Aside;

/// What a packet carries, by name: enough to send it again, cut differently if need be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The chunk of the log that starts with this message.
    Entries { first_id: u64 },
    /// Bytes of a message's body.
    Body { id: u64, offset: u64, len: u32 },
    /// Leave to send a body.
    Grant { id: u64 },
    /// That a body does not come.
    Expire { id: u64 },
    /// The log's limit, whatever it is by then.
    LogLimit,
    /// That the log's limit holds entries back.
    Blocked,
    /// That entries wait for credit.
    Request,
    /// How much of the log's credit was given back, in all.
    Returned,
    /// Credit, whatever it is by then.
    Credit,
    /// Whether the program is disconnected, whatever it is by then.
    Disconnect,
    /// What is wished or granted, whatever it is by then.
    Terms,
    /// Nothing but a reason to answer.
    Ping,
    /// A path-MTU probe of this many bytes.
    Probe { bytes: u32 },
    /// The end of the connection.
    Close,
}

impl Content {
    /// Whether a packet with it counts against the peer's credit. The rest is small, and owed to
    /// something that the peer has done: if it counted, two peers that tell each other of credit
    /// could use up all of it.
    pub fn uses_credit(&self) -> bool {
        use Content::{Body, Entries, Probe};
        matches!(self, Entries { .. } | Body { .. } | Probe { .. })
    }
}

impl Cargo for Content {
    /// Only pieces of a body travel in several packets, of one length each.
    #[inline]
    fn part(self, part: Range<u32>, of: u32) -> Self {
        let Content::Body { id, offset, len } = self else {
            return self;
        };
        let piece = len / of;
        Content::Body {
            id,
            offset: offset + u64::from(part.start * piece),
            len: (part.end - part.start) * piece,
        }
    }
}

/// A run of entries that goes into one packet.
#[derive(Debug)]
struct Chunk {
    first_id: u64,
    count: u16,
    acked: bool,
    /// Cumulative charge behind its last entry.
    charge_end: u64,
    log: Vec<u8>,
    /// Who wants to know that an inline message has arrived.
    tickets: Vec<(u64, Ticket)>,
}

#[derive(Debug)]
struct OutBody {
    id: u64,
    data: Outbound,
    total: u64,
    /// Bytes before this have been sent at least once.
    next: u64,
    /// Bytes before this may be sent.
    granted: u64,
    /// Bytes of later bodies that were put before it.
    passed: u64,
    /// Cumulative charge behind its entry: what an eager body must wait for.
    charge_end: u64,
    acked: u64,
    entry_acked: bool,
    ticket: Option<Ticket>,
    /// Whoever has the ticket waits for the arrival, and not only until all has left.
    awaited: bool,
    worth: Worth,
    /// Its bytes are dropped; the peer is told, or will be.
    expired: bool,
    room: Room,
}

/// Which room in the queue a message takes. Nobody may ever ask for what has to be asked for, and what the peer's
/// program waits for may come behind it: so it takes no room from what needs no asking, nor the longest from the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// It goes unasked.
    Unasked,
    /// It has to be asked for, because credit runs short.
    Asked,
    /// It has to be asked for, however much credit there is.
    Large,
}

impl OutBody {
    fn arrived(&self) -> bool {
        self.entry_acked && self.acked >= self.total
    }

    fn sendable(&self) -> bool {
        self.next < self.granted.min(self.total)
    }
}

/// What the receiver allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendWindow {
    /// Largest body that travels inside its entry.
    pub inline_max: usize,
    /// Largest body sent without being asked for.
    pub eager_max: u64,
    /// Most bytes queued towards one peer.
    pub queue_max: usize,
    /// Room for a chunk of the log in one packet.
    pub chunk_max: usize,
}

/// Messages on their way to one peer.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    next_id: u64,
    charge: u64,
    log_limit: u64,
    /// Credit that was given back, and the charge when that was last thought of: the low bits, in [`super::RETURN_UNIT`]s.
    returned: u16,
    looked_at: u16,
    chunks: VecDeque<Chunk>,
    /// How many chunks at the back have never been sent.
    unsent: usize,
    bodies: RareQueue<OutBody>,
    /// Bodies with bytes to send: those that nobody had to ask for, in order, and those that were
    /// granted, the one with the least left to send first.
    eager: RareQueue<u64>,
    granted: RareQueue<u64>,
    turns: Turns,
    /// Where in `bodies` the one that was last sent from was.
    sending: u32,
    resend: RareQueue<Content>,
    keeps_lost: bool,
    aside: Rare<Aside>,
    queued_bytes: usize,
    /// Those of large bodies among them ([`Room::Large`]).
    large_bytes: usize,
    /// Bytes that could leave now for the first time, as far as the receiver's memory goes.
    unsent_bytes: usize,
    spare_logs: RareQueue<Vec<u8>>,
    /// One of the two programs has disconnected: nothing leaves.
    held: bool,
    /// Sends whose arrival somebody waits for.
    awaited: u32,
}

/// Logs kept for reuse while the connection is busy: as many as a window has packets.
const SPARE_LOGS: usize = 1_024;

impl Outgoing {
    /// Raises the log's limit.
    pub fn set_log_limit(&mut self, limit: u64) {
        self.log_limit = self.log_limit.max(limit);
        self.split_at_limit();
    }

    /// Cuts the chunk that lies across the log's limit: a receiver with little memory may never
    /// give credit for the whole of it.
    fn split_at_limit(&mut self) {
        let within = |chunk: &Chunk| chunk.charge_end <= self.log_limit;
        let at = self.chunks.partition_point(within);
        if at < self.chunks.len() && self.cut(at, usize::MAX, self.log_limit).is_some() {
            self.unsent += 1;
        }
    }

    /// The limit in force.
    pub fn log_limit(&self) -> u64 {
        self.log_limit
    }

    /// Bytes accepted and not yet acknowledged.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Whether a body waits for its receiver's grant.
    pub fn asks(&self) -> bool {
        let mut bodies = self.bodies.iter();
        bodies.any(|body| body.granted < body.total && !body.expired)
    }

    /// Whether a part of the body has not left yet that this ticket tells of.
    pub fn keeps_back(&self, ticket: Ticket) -> bool {
        let mut bodies = self.bodies.iter();
        let body = bodies.find(|body| body.ticket == Some(ticket));
        body.is_some_and(|body| body.next < body.total && !body.expired)
    }

    /// Bytes that could leave now for the first time, as far as the receiver's memory goes.
    #[inline]
    pub fn unsent_bytes(&self) -> usize {
        if self.held { 0 } else { self.unsent_bytes }
    }

    /// Holds everything back, or lets it go; returns which it was before.
    pub fn hold(&mut self, held: bool) -> bool {
        std::mem::replace(&mut self.held, held)
    }

    /// Whether everything is held back.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Messages accepted and not yet acknowledged, at most.
    pub fn pending_messages(&self) -> u64 {
        let first = self.chunks.front();
        let first = first.map_or(self.next_id, |chunk| chunk.first_id);
        (self.next_id - first).max(self.bodies.len() as u64)
    }

    /// Messages accepted, in all.
    pub fn messages(&self) -> u64 {
        self.next_id
    }

    /// Whether everything accepted has been acknowledged.
    pub fn is_settled(&self) -> bool {
        self.chunks.is_empty() && self.bodies.is_empty()
    }

    /// Whether a body of `len` bytes would go unasked now.
    fn goes_unasked(&self, len: u64, window: &SendWindow) -> bool {
        let free = self.log_limit.saturating_sub(self.charge);
        len <= window.eager_max && unasked_needs(len) <= free
    }

    #[inline]
    fn room_of(&self, len: usize, window: &SendWindow) -> Room {
        if len <= window.inline_max || self.goes_unasked(len as u64, window) {
            Room::Unasked
        } else if len as u64 <= window.eager_max {
            Room::Asked
        } else {
            Room::Large
        }
    }

    /// Whether another body of `len` bytes may be queued. One that is larger than its room is taken when nothing else
    /// is in it. None is while the oldest one would be taken for another on the wire.
    #[inline]
    pub fn has_room(&self, len: usize, window: &SendWindow) -> bool {
        let oldest = self.bodies.front().map_or(self.next_id, |body| body.id);
        if self.next_id - oldest >= MOST_IDS {
            return false;
        }
        let (asked, large) = (self.aside.asked_bytes, self.large_bytes);
        let queued = match self.room_of(len, window) {
            Room::Unasked => self.queued_bytes - asked - large,
            Room::Asked => asked,
            Room::Large => large,
        };
        queued == 0 || queued.saturating_add(len) <= window.queue_max
    }

    /// The bytes of a body are not kept any more.
    fn let_go(&mut self, bytes: usize, room: Room) {
        self.queued_bytes -= bytes;
        if let Some(asked) = self.asked_in(room) {
            *asked -= bytes;
        }
    }

    /// Where the bytes of a room are counted that has to be asked for.
    fn asked_in(&mut self, room: Room) -> Option<&mut usize> {
        match room {
            Room::Unasked => None,
            Room::Asked => Some(&mut self.aside.asked_bytes),
            Room::Large => Some(&mut self.large_bytes),
        }
    }

    /// Accepts a small body, copied into the log. The caller has checked [`Outgoing::has_room`].
    #[inline]
    pub fn push_inline(
        &mut self,
        tag: u64,
        body: &[u8],
        ticket: Option<Ticket>,
        window: &SendWindow,
    ) {
        debug_assert!(body.len() <= window.inline_max);
        let entry = Entry {
            tag,
            len: body.len() as u64,
            mode: EntryMode::Inline,
            body,
        };
        let id = self.append(&entry, ENTRY_CHARGE + body.len() as u64, window);
        if let Some(ticket) = ticket {
            self.awaited += 1;
            let chunk = self.chunks.back_mut().expect("append leaves a chunk");
            chunk.tickets.push((id, ticket));
        }
    }

    /// Accepts a body of which a copy must be made, inside its entry if the peer reads it there.
    #[inline]
    pub fn push_whole(
        &mut self,
        tag: u64,
        body: &[u8],
        ticket: Option<Ticket>,
        window: &SendWindow,
    ) {
        if body.len() <= window.inline_max {
            self.push_inline(tag, body, ticket, window);
        } else {
            self.push_body(tag, body.to_vec().into(), ticket, window);
        }
    }

    /// Accepts a body that travels in fragments.
    pub fn push_body(
        &mut self,
        tag: u64,
        data: Outbound,
        ticket: Option<Ticket>,
        window: &SendWindow,
    ) {
        let total = data.bytes().len() as u64;
        self.awaited += u32::from(ticket.is_some());
        let eager = self.goes_unasked(total, window);
        let room = self.room_of(data.bytes().len(), window);
        let (mode, charge) = if eager {
            (EntryMode::Eager, ENTRY_CHARGE + total)
        } else {
            (EntryMode::Granted, ENTRY_CHARGE)
        };
        let entry = Entry {
            tag,
            len: total,
            mode,
            body: &[],
        };
        let id = self.append(&entry, charge, window);
        self.queued_bytes += data.bytes().len();
        if let Some(asked) = self.asked_in(room) {
            *asked += data.bytes().len();
        }
        self.bodies.push_back(OutBody {
            id,
            data,
            total,
            next: 0,
            granted: if eager { total } else { 0 },
            passed: 0,
            charge_end: self.charge,
            acked: 0,
            entry_acked: false,
            ticket,
            awaited: ticket.is_some(),
            worth: Worth::default(),
            expired: false,
            room,
        });
        if eager {
            self.unsent_bytes += total as usize;
            self.eager.push_back(id);
        }
    }

    /// Accepts a body of which somebody wants to know when it has left: nobody waits for its arrival.
    pub fn push_followed(&mut self, tag: u64, data: Outbound, ticket: Ticket, window: &SendWindow) {
        self.push_body(tag, data, Some(ticket), window);
        self.await_last(false);
    }

    /// Says whether somebody waits for the arrival of the body that was pushed last.
    fn await_last(&mut self, awaited: bool) {
        let body = self.bodies.back_mut().expect("just pushed");
        self.awaited -= u32::from(body.awaited && !awaited);
        body.awaited &= awaited;
    }

    #[inline]
    fn append(&mut self, entry: &Entry<'_>, charge: u64, window: &SendWindow) -> u64 {
        let len = Entry::MAX_HEADER + entry.body.len();
        let beyond = self.charge + charge > self.log_limit;
        let open = self.unsent > 0
            && self.chunks.back().is_some_and(|chunk| {
                chunk.log.len() + len <= window.chunk_max
                    && chunk.count < u16::MAX
                    && beyond == (chunk.charge_end > self.log_limit)
            });
        if !open {
            self.open_chunk(window);
        }
        let chunk = self.chunks.back_mut().expect("a chunk is open");
        let before = chunk.log.len();
        entry.append(&mut chunk.log);
        chunk.count += 1;
        self.charge += charge;
        chunk.charge_end = self.charge;
        let added = chunk.log.len() - before;
        self.queued_bytes += added;
        self.unsent_bytes += added;
        self.next_id += 1;
        self.next_id - 1
    }

    #[cold]
    fn open_chunk(&mut self, window: &SendWindow) {
        // One message alone takes what it needs; where there are more, this chunk will be full.
        let room = if self.unsent > 0 { window.chunk_max } else { 0 };
        let spare = self.spare_logs.pop_back();
        self.chunks.push_back(Chunk {
            first_id: self.next_id,
            count: 0,
            acked: false,
            charge_end: self.charge,
            log: spare.unwrap_or_else(|| Vec::with_capacity(room)),
            tickets: Vec::new(),
        });
        self.unsent += 1;
    }

    /// Whether the log's limit holds entries back.
    pub fn is_blocked(&self) -> bool {
        self.unsent > 0 && self.chunks[self.chunks.len() - self.unsent].charge_end > self.log_limit
    }

    /// Whether more waits than the log's limit allows, and less of that is left than is on its way: the window is
    /// less than what the path brings in a round trip.
    pub fn is_curbed(&self) -> bool {
        let sent = self.chunks.len() - self.unsent;
        let last_sent = sent.checked_sub(1).and_then(|at| self.chunks.get(at));
        let (Some(first), Some(last)) = (self.chunks.front(), last_sent) else {
            return false;
        };
        let on_its_way = last.charge_end - first.charge_end;
        let left = self.log_limit.saturating_sub(last.charge_end);
        self.charge > self.log_limit && left < on_its_way
    }

    /// Cumulative charge of all entries, of those as well that the log's limit holds back, if a receiver that was `told`
    /// of an earlier one knows of less than half of what waits for the next limits.
    pub fn charge_to_tell(&self, told: u64) -> Option<u64> {
        let known = told.saturating_sub(self.log_limit);
        (self.charge.saturating_sub(told) > known).then_some(self.charge)
    }

    /// Whether there are entries to send now: what needs no credit for the path while nothing
    /// else is on its way.
    #[inline]
    pub fn has_entries(&self) -> bool {
        self.entries_go_again() || (self.unsent > 0 && !self.is_blocked())
    }

    /// Whether entries that went before must go again.
    #[inline]
    pub fn entries_go_again(&self) -> bool {
        matches!(self.resend.front(), Some(Content::Entries { .. }))
    }

    /// Whether something that went before must go again.
    pub fn goes_again(&self) -> bool {
        !self.resend.is_empty()
    }

    /// Whether nothing may go for the first time but, perhaps, entries.
    pub fn only_goes_again(&self) -> bool {
        self.granted.is_empty() && !self.may_send_eager()
    }

    /// Whether any message is long, on its way or not.
    #[inline]
    pub fn has_bodies(&self) -> bool {
        !self.bodies.is_empty()
    }

    /// Whether there is nothing to send but new entries, if anything.
    #[inline]
    pub fn has_only_entries(&self) -> bool {
        self.resend.is_empty() && self.eager.is_empty() && self.granted.is_empty()
    }

    /// Whether there is anything to send now, as far as credit for memory goes.
    #[inline]
    pub fn has_sendable(&self) -> bool {
        let again = || !self.resend.is_empty() || !self.granted.is_empty() || self.may_send_eager();
        let ready =
            (self.unsent > 0 && !self.is_blocked()) || (!self.has_only_entries() && again());
        ready && !self.held
    }

    /// Whether what is lost waits for [`Outgoing::release`]; if not, nothing does any more.
    pub fn keep_lost(&mut self, keeps: bool) {
        self.keeps_lost = keeps;
        if !keeps {
            self.release();
        }
    }

    /// Lets go again what was kept; returns how many pieces that are.
    pub fn release(&mut self) -> usize {
        if self.aside.kept.is_empty() {
            return 0;
        }
        let kept = std::mem::take(&mut self.aside.kept);
        for &content in kept.iter() {
            self.queue_again(content, false);
        }
        kept.len()
    }

    /// Pieces that were lost and wait for [`Outgoing::release`].
    pub fn kept(&self) -> usize {
        self.aside.kept.len()
    }

    /// Something is to go again: now, or when the program says so.
    pub fn send_again(&mut self, content: Content, urgent: bool) {
        if self.keeps_lost {
            self.aside.kept.push_back(content);
        } else {
            self.queue_again(content, urgent);
        }
    }

    /// Queues something to go again: entries before bodies, for all later messages wait for them. Where urgent bodies, or one
    /// that did not fit, are before the first entry, the search ends at the front or behind some entry: that is as good.
    fn queue_again(&mut self, content: Content, urgent: bool) {
        if urgent {
            self.resend.push_front(content);
        } else if matches!(content, Content::Entries { .. }) {
            let entries = |other: &Content| matches!(other, Content::Entries { .. });
            let at = self.resend.partition_point(entries);
            self.resend.insert(at, content);
        } else {
            self.resend.push_back(content);
        }
    }

    /// Puts back what did not fit.
    pub fn put_back(&mut self, content: Content) {
        self.resend.push_front(content);
    }

    /// Whether somebody waits to hear that a send has arrived.
    pub fn is_awaited(&self) -> bool {
        self.awaited > 0
    }

    /// Takes the next thing that must go again, unless it is a piece of a body and those may not.
    pub fn pop_resend(&mut self, bodies: bool) -> Option<Content> {
        if !bodies && matches!(self.resend.front()?, Content::Body { .. }) {
            return None;
        }
        self.resend.pop_front()
    }

    /// Whether something that went before is still worth sending.
    pub fn still_wants(&self, content: Content) -> bool {
        match content {
            Content::Entries { first_id } => self.chunk_at(first_id).is_some(),
            Content::Body { id, .. } => self.body_at(id).is_some_and(|at| !self.bodies[at].expired),
            _ => true,
        }
    }

    fn chunk_at(&self, first_id: u64) -> Option<usize> {
        let front = self.chunks.front()?;
        if front.first_id == first_id {
            return Some(0);
        }
        self.chunks
            .binary_search_by_key(&first_id, |chunk| chunk.first_id)
            .ok()
    }

    /// The chunk that starts with `first_id`, cut so that its frame takes at most `room` bytes;
    /// the rest becomes a chunk of its own and goes again behind it. `None` if nothing fits.
    pub fn entries_again(&mut self, first_id: u64, room: usize) -> Option<Entries<'_>> {
        let at = self.chunk_at(first_id)?;
        let room = room.checked_sub(Frame::ENTRIES_HEADER)?;
        if self.chunks[at].log.len() > room {
            let rest = self.cut(at, room, u64::MAX)?;
            self.resend.push_front(Content::Entries { first_id: rest });
        }
        Some(self.chunks[at].frame())
    }

    /// Cuts a chunk, so that what stays has at most `room` bytes and is charged up to `limit`;
    /// returns where the rest starts. `None` if nothing would stay, or all of it.
    fn cut(&mut self, at: usize, room: usize, limit: u64) -> Option<u64> {
        let chunk = &mut self.chunks[at];
        let entries = chunk.frame();
        let charged: u64 = entries
            .iter()
            .flatten()
            .map(|entry| entry_charge(&entry))
            .sum();
        let mut charge_end = chunk.charge_end - charged;
        let (mut kept, mut bytes) = (0, 0);
        let mut reader = Reader(&chunk.log);
        while let Ok(entry) = Entry::read(&mut reader) {
            let end = chunk.log.len() - reader.0.len();
            let charge = entry_charge(&entry);
            if end > room || charge_end + charge > limit {
                break;
            }
            kept += 1;
            bytes = end;
            charge_end += charge;
        }
        if kept == 0 || kept == chunk.count {
            return None;
        }
        let rest_id = chunk.first_id + u64::from(kept);
        let rest = Chunk {
            first_id: rest_id,
            count: chunk.count - kept,
            acked: false,
            charge_end: std::mem::replace(&mut chunk.charge_end, charge_end),
            log: chunk.log.split_off(bytes),
            tickets: chunk
                .tickets
                .extract_if(.., |(id, _)| *id >= rest_id)
                .collect(),
        };
        chunk.count = kept;
        self.chunks.insert(at + 1, rest);
        Some(rest_id)
    }

    /// Where a body is: the one that is being sent, or as far behind the oldest as there were messages since then, if all of
    /// them had bodies and none has overtaken another. To search among hundreds takes a cache line from memory at each step.
    #[inline]
    fn body_at(&self, id: u64) -> Option<usize> {
        let behind = id.checked_sub(self.bodies.front()?.id)? as usize;
        let is_there = |&at: &usize| self.bodies.get(at).is_some_and(|body| body.id == id);
        let likely = [self.sending as usize, behind].into_iter().find(is_there);
        likely.or_else(|| self.bodies.binary_search_by_key(&id, |body| body.id).ok())
    }

    /// A chunk has arrived.
    pub fn on_entries_arrived(&mut self, first_id: u64, done: &mut impl FnMut(Ticket)) {
        let Some(at) = self.chunk_at(first_id) else {
            return;
        };
        let chunk = &mut self.chunks[at];
        if std::mem::replace(&mut chunk.acked, true) {
            return;
        }
        let ids = first_id..first_id + u64::from(chunk.count);
        self.queued_bytes -= chunk.log.len();
        self.recycle(done);
        if self.bodies.is_empty() {
            return;
        }
        let mut at = self.bodies.partition_point(|body| body.id < ids.start);
        while self.bodies.get(at).is_some_and(|body| body.id < ids.end) {
            self.bodies[at].entry_acked = true;
            at += usize::from(!self.finish_body(at, done));
        }
    }

    /// Drops acknowledged chunks from the front, keeping their memory. What they carried is now
    /// safe with the receiver: nothing before it is missing there.
    fn recycle(&mut self, done: &mut impl FnMut(Ticket)) {
        while self.chunks.front().is_some_and(|chunk| chunk.acked)
            && let Some(chunk) = self.chunks.pop_front()
        {
            let Chunk {
                mut log, tickets, ..
            } = chunk;
            self.awaited -= tickets.len() as u32;
            tickets.into_iter().for_each(|(_, ticket)| done(ticket));
            if self.spare_logs.len() < SPARE_LOGS {
                log.clear();
                self.spare_logs.push_back(log);
            }
        }
        self.tell_expired();
        if !self.aside.behind.is_empty() {
            let safe_before = self.safe_before();
            let safe = |(id, _): &mut (u64, Ticket)| *id < safe_before;
            for (_, ticket) in self.aside.behind.extract_if(.., safe) {
                self.awaited -= 1;
                done(ticket);
            }
        }
    }

    /// The peer has all messages before this one, and closes: nothing is sent any more.
    pub fn leave_before(&mut self, id: u64, done: &mut impl FnMut(Ticket)) {
        for chunk in &mut self.chunks {
            let arrived = id.saturating_sub(chunk.first_id).min(chunk.count.into());
            chunk.first_id += arrived;
            chunk.count -= arrived as u16;
            let tickets = chunk.tickets.extract_if(.., |(of, _)| *of < id);
            tickets.for_each(|(_, ticket)| done(ticket));
        }
        self.chunks.retain(|chunk| chunk.count > 0);
        self.bodies.retain_mut(|body| {
            let stays = body.id >= id;
            if let Some(ticket) = body.ticket.take_if(|_| !stays) {
                done(ticket);
            }
            stays
        });
        let behind = self.aside.behind.extract_if(.., |(of, _)| *of < id);
        behind.for_each(|(_, ticket)| done(ticket));
    }

    /// All entries before this one have arrived.
    fn safe_before(&self) -> u64 {
        let missing = self.chunks.front();
        missing.map_or(self.next_id, |chunk| chunk.first_id)
    }

    /// Bytes of a body have arrived.
    #[inline]
    pub fn on_body_arrived(&mut self, id: u64, len: u32, done: &mut impl FnMut(Ticket)) {
        if let Some(at) = self.body_at(id) {
            self.bodies[at].acked += u64::from(len);
            self.finish_body(at, done);
        }
    }

    /// Lets go of a body that has arrived; returns whether it had.
    fn finish_body(&mut self, at: usize, done: &mut impl FnMut(Ticket)) -> bool {
        if !self.bodies[at].arrived() {
            return false;
        }
        let body = self.remove_body(at);
        match body.ticket {
            Some(ticket) if !body.awaited || body.id < self.safe_before() => {
                self.awaited -= u32::from(body.awaited);
                done(ticket);
            }
            Some(ticket) => self.aside.behind.push((body.id, ticket)),
            None => {}
        }
        true
    }

    /// Starts over on another connection, because the peer has seen nothing of this one. Which
    /// bodies may go unasked is settled anew, by the log's limit there.
    pub fn rewind(&mut self, log_limit: u64, window: &SendWindow) {
        let mut old = std::mem::take(self);
        (self.held, self.keeps_lost) = (old.held, old.keeps_lost);
        self.set_log_limit(log_limit);
        let mut bodies = old.bodies.drain(..);
        for chunk in &old.chunks {
            let mut tickets = chunk.tickets.iter().peekable();
            for (id, entry) in (chunk.first_id..).zip(chunk.frame().iter().flatten()) {
                if entry.mode == EntryMode::Inline {
                    let ticket = tickets
                        .next_if(|(of, _)| *of == id)
                        .map(|(_, ticket)| *ticket);
                    self.push_whole(entry.tag, entry.body, ticket, window);
                } else if let Some(body) = bodies.next().filter(|body| !body.expired) {
                    self.push_worth(entry.tag, body.data, body.worth, body.ticket, window);
                    self.await_last(body.awaited);
                }
            }
        }
    }

    /// Everybody who still waits to hear that a message has arrived.
    pub fn drain_tickets(&mut self) -> Vec<Ticket> {
        let inline = self
            .chunks
            .iter_mut()
            .flat_map(|chunk| chunk.tickets.drain(..));
        let mut tickets: Vec<_> = inline.map(|(_, ticket)| ticket).collect();
        self.awaited = 0;
        tickets.extend(self.bodies.iter_mut().filter_map(|body| body.ticket.take()));
        tickets.extend(self.aside.behind.drain(..).map(|(_, ticket)| ticket));
        tickets
    }

    /// The body of the only message ever pushed: what a node sends to itself.
    pub fn take_single(mut self) -> Vec<u8> {
        if let Some(body) = self.bodies.pop_front() {
            return match body.data {
                Outbound::Owned(bytes) => bytes,
                Outbound::Shared(bytes) => (*bytes).as_ref().to_vec(),
            };
        }
        let log = self
            .chunks
            .pop_front()
            .map(|chunk| chunk.log)
            .unwrap_or_default();
        Entry::read(&mut Reader(&log)).map_or(Vec::new(), |entry| entry.body.to_vec())
    }

    /// Gives memory back while the connection is idle.
    pub fn shrink(&mut self) {
        self.spare_logs = RareQueue::default();
        self.chunks.shrink_to_fit();
        self.bodies.shrink();
        self.eager.shrink();
        self.granted.shrink();
        self.resend.shrink();
        self.shrink_aside();
    }
}

impl Chunk {
    #[inline]
    fn frame(&self) -> Entries<'_> {
        Entries {
            first_id: self.first_id as u32,
            count: self.count,
            log: &self.log,
        }
    }
}

impl OutBody {
    #[inline]
    fn fragment(&self, offset: u64, len: u64) -> (Content, Fragment<'_>) {
        let (start, end) = (offset as usize, (offset + len) as usize);
        let content = Content::Body {
            id: self.id,
            offset,
            len: len as u32,
        };
        let fragment = Fragment {
            id: self.id as u32,
            total: self.total,
            offset,
            data: &self.data.bytes()[start..end],
        };
        (content, fragment)
    }
}

#[cfg(test)]
impl Outgoing {
    /// As if so many messages had been sent and acknowledged.
    pub fn pass_ids(&mut self, count: u64) {
        self.next_id += count;
    }
}
