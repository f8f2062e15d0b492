//! The receiver's side of one peer's messages: entries put in order and matched, room taken for
//! bodies, fragments put where they belong (H2), credit given back.

mod discard;
mod early;
mod expiry;
mod feeding;
mod log_credit;

use early::Early;
pub(crate) use expiry::Expiry;
pub(crate) use log_credit::LogCredit;

use super::mailbox::{Charge, Pending};
use super::matching::ArrivedKey;
use super::{
    Arrived, Buffer, ENTRY_CHARGE, LinkRef, Mailbox, Pool, RecvTicket, Spans, charge_if_inline,
    expand_body_id, expand_id,
};
use crate::PeerId;
use crate::error::PeerLost;
use crate::rare::{Empty, Rare, RareQueue};
use crate::stats::Shortage;
use crate::wire::{Entries, Entry, EntryMode, Fragment, Malformed};

/// The peer broke a promise of the protocol; the connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Violation(pub &'static str);

impl From<Malformed> for Violation {
    fn from(malformed: Malformed) -> Self {
        Violation(malformed.0)
    }
}

/// Most bytes that bodies on their way may have in all, as their envelopes say: more than any sender has,
/// and so little that no sum of lengths overflows.
const UNDER_WAY_MAX: u64 = 1 << 62;

#[derive(Debug)]
enum Owner {
    /// The envelope is not here yet.
    Unknown,
    /// Nobody has asked for it.
    Unmatched(ArrivedKey),
    /// A receive waits for it.
    Posted(RecvTicket),
    /// The receive that waited for it was withdrawn.
    Parked,
    /// The program has thrown the message away: what still comes of it has no place to go.
    Discarded,
}

#[derive(Debug)]
struct InBody {
    id: u64,
    tag: u64,
    total: u64,
    owner: Owner,
    buffer: Buffer,
    received: Spans,
    /// Bytes before this may come.
    granted: u64,
    has_room: bool,
    /// The program has asked for it, whether or not it still does.
    wanted: bool,
    charge: Charge,
}

impl InBody {
    /// Whether a receive waits for it that has to wait for memory itself.
    fn is_starved(&self) -> bool {
        matches!(self.owner, Owner::Posted(_)) && self.granted < self.total
    }

    /// Makes room for it, unless there is some; `false` if the system has no memory.
    fn make_room(&mut self, pool: &Pool) -> bool {
        if !self.has_room
            && let Ok(len) = usize::try_from(self.total)
            && let Some(buffer) = pool.take(len)
        {
            self.buffer = buffer;
            self.has_room = true;
        }
        self.has_room
    }

    /// The same ahead of credit, for so large a body that no buffer in use before will do; others get theirs
    /// when they come, while it is warm.
    fn make_room_if_large(&mut self, pool: &Pool) -> bool {
        Pool::keeps(self.total) || self.make_room(pool)
    }

    /// Whether the sender was given leave to send this.
    #[inline]
    fn may_take(&self, fragment: &Fragment<'_>) -> bool {
        fragment.total == self.total && fragment.end() <= self.granted
    }

    /// Puts a piece to its place; one of a body that was discarded has none.
    #[inline]
    fn copy(&mut self, fragment: &Fragment<'_>) {
        let place = fragment.offset as usize..fragment.end() as usize;
        if let Some(place) = self.buffer.get_mut(place) {
            place.copy_from_slice(fragment.data);
        }
    }
}

/// Pieces of one body that follow each other, put to their place and not noted yet.
#[derive(Debug, Default)]
pub(crate) struct Landing {
    /// Where the body is, and its id on the wire; `None` if all of it came before.
    body: Option<(usize, u32)>,
    start: u64,
    end: u64,
}

/// Where a connection's messages go.
pub(crate) struct Inbox<'a> {
    pub mailbox: &'a mut Mailbox,
    pub source: PeerId,
    pub link: LinkRef,
}

/// Messages on their way from one peer.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// The message whose entry comes next.
    next_id: u64,
    aside: Rare<Aside>,
    /// Bodies that are not complete, or not announced yet, by id.
    bodies: RareQueue<InBody>,
    pub log: LogCredit,
    grants: RareQueue<u64>,
    /// Bytes of bodies that may come and have not.
    missing: u64,
    /// Cumulative charge of entries that the sender has said are waiting, for the log's limit too.
    requested: u64,
}

/// What a connection has to remember at times only.
#[derive(Debug, Default, PartialEq)]
struct Aside {
    early: Early,
    /// What eager bodies whose envelope is not here yet will take of the log's credit.
    early_bodies: u64,
    /// Lengths of all bodies that are not complete.
    under_way: u64,
    /// Memory of the node's that bodies take for which nobody has asked, until they are taken.
    unasked: u64,
    /// Memory of the node's that bodies take on their way to those who asked for them.
    asked: u64,
    /// Some receive waits until `asked` is less.
    squeezed: bool,
    /// Some receive waits for memory of either kind, and bytes of those that came later and did not since one that waited went on.
    hungry: bool,
    overtaken: u64,
    /// Of the node's memory so much is set aside for this body, which lacks nothing but the peer's share.
    kept: Option<(u64, u64)>,
    /// Some receive waits because the system had no memory.
    denied: bool,
    /// The first body that nobody has asked for and that waits until there is memory for such.
    left: Option<u64>,
}

impl Empty for Aside {
    fn empty() -> &'static Self {
        const EMPTY: &Aside = &Aside {
            early: Early::EMPTY,
            early_bodies: 0,
            under_way: 0,
            unasked: 0,
            asked: 0,
            squeezed: false,
            hungry: false,
            overtaken: 0,
            kept: None,
            denied: false,
            left: None,
        };
        EMPTY
    }
}

impl Incoming {
    pub fn new(log: LogCredit) -> Self {
        Incoming {
            next_id: 0,
            aside: Rare::default(),
            bodies: RareQueue::default(),
            log,
            grants: RareQueue::default(),
            missing: 0,
            requested: 0,
        }
    }

    /// Takes in a frame of entries; those in order are matched at once, others wait for the gap
    /// before them to close.
    #[inline]
    pub fn on_entries(
        &mut self,
        frame: &Entries<'_>,
        inbox: &mut Inbox<'_>,
    ) -> Result<(), Violation> {
        if frame.count == 0 {
            return Ok(());
        }
        let first = expand_id(frame.first_id, self.next_id);
        if first > self.next_id {
            return self.keep_early(first, frame, *inbox.mailbox.log_windows.end());
        }
        self.deliver(first, frame, inbox)?;
        while let Some(first) = self.aside.early.next(self.next_id)
            && let Some(kept) = self.aside.early.remove(first)
        {
            let frame = Entries {
                first_id: first as u32,
                count: kept.count,
                log: &kept.log,
            };
            self.deliver(first, &frame, inbox)?;
        }
        Ok(())
    }

    fn keep_early(&mut self, first: u64, frame: &Entries<'_>, most: u64) -> Result<(), Violation> {
        // Each entry up to its last will cost credit, so its end can't be beyond all of that.
        let ahead = (first - self.next_id).saturating_add(u64::from(frame.count));
        if ahead > (self.log.announced - self.log.arrived) / ENTRY_CHARGE {
            return Err(Violation("more entries than the log's limit allows"));
        }
        self.aside.early.keep(first, frame, most)?;
        if self.aside.early.charge() > self.log.announced - self.log.arrived {
            return Err(Violation("more entries than the log's limit allows"));
        }
        Ok(())
    }

    #[inline]
    fn deliver(
        &mut self,
        first: u64,
        frame: &Entries<'_>,
        inbox: &mut Inbox<'_>,
    ) -> Result<(), Violation> {
        if first == self.next_id && self.deliver_unread(frame, inbox)? {
            return Ok(());
        }
        let (before, charged) = (self.next_id, self.log.arrived);
        for (id, entry) in (first..).zip(frame.iter()) {
            let entry = entry?;
            if id == self.next_id {
                self.next_id += 1;
                self.on_entry(id, &entry, inbox)?;
            }
        }
        if self.next_id > before {
            let count = (self.next_id - before) as u16;
            let charge = self.log.arrived - charged;
            self.log.note(count, charge, frame.log.len());
        }
        if self.log.is_short() {
            self.log.grow(inbox.mailbox);
        }
        Ok(())
    }

    /// Passes a frame of small messages on as it is, as long as nobody waits for one.
    #[inline]
    fn deliver_unread(
        &mut self,
        frame: &Entries<'_>,
        inbox: &mut Inbox<'_>,
    ) -> Result<bool, Violation> {
        if inbox.mailbox.is_awaited() || self.aside.early_bodies > 0 {
            return Ok(false);
        }
        let Some(charge) = charge_if_inline(frame) else {
            return Ok(false);
        };
        if charge > self.log.announced - self.log.arrived {
            return Err(Violation("more entries than the log's limit allows"));
        }
        inbox.mailbox.keep_unread(inbox.source, inbox.link, frame);
        self.log.arrived += charge;
        self.log.note(frame.count, charge, frame.log.len());
        self.next_id += u64::from(frame.count);
        if self.log.is_short() {
            self.log.grow(inbox.mailbox);
        }
        Ok(true)
    }

    #[inline]
    fn on_entry(
        &mut self,
        id: u64,
        entry: &Entry<'_>,
        inbox: &mut Inbox<'_>,
    ) -> Result<(), Violation> {
        let body_charge = if entry.mode == EntryMode::Granted {
            0
        } else {
            entry.len
        };
        let charge = ENTRY_CHARGE.saturating_add(body_charge);
        self.log.arrived = self.log.arrived.saturating_add(charge);
        if self.log.arrived > self.log.announced {
            return Err(Violation("more entries than the log's limit allows"));
        }
        if entry.mode != EntryMode::Inline {
            return self.on_envelope(id, entry, charge, inbox);
        }
        if self.aside.early_bodies > 0 && self.body_at(id).is_some() {
            return Err(Violation(
                "fragment of a message that is inside its envelope",
            ));
        }
        match inbox.mailbox.arrive(inbox.source, entry.tag, entry.len) {
            Some(ticket) => {
                inbox
                    .mailbox
                    .complete_inline(ticket, inbox.source, entry.tag, entry.body);
                self.log.taken += charge;
            }
            None => {
                let arrived = Arrived::Whole {
                    body: super::Body::copy_of(entry.body),
                    link: inbox.link,
                    charge: Charge {
                        log: charge,
                        ..Charge::default()
                    },
                };
                inbox.mailbox.keep(inbox.source, entry.tag, arrived, false);
            }
        }
        Ok(())
    }

    /// An envelope whose body travels apart.
    fn on_envelope(
        &mut self,
        id: u64,
        entry: &Entry<'_>,
        charge: u64,
        inbox: &mut Inbox<'_>,
    ) -> Result<(), Violation> {
        let eager = entry.mode == EntryMode::Eager;
        if let Some(early) = self.body_at(id) {
            if self.bodies[early].total != entry.len {
                return Err(Violation("fragment and envelope disagree about the length"));
            }
            if !eager {
                return Err(Violation("fragment that was not granted"));
            }
            self.aside.early_bodies -= charge;
        }
        let at = self.body_for(id, entry.len)?;
        let body = &mut self.bodies[at];
        body.tag = entry.tag;
        body.charge.log = charge;
        if eager {
            self.missing += entry.len - body.granted;
            body.granted = entry.len;
        }
        match inbox.mailbox.arrive(inbox.source, entry.tag, entry.len) {
            Some(ticket) => {
                self.bind(id, ticket, inbox);
            }
            None => {
                let pending = Arrived::Pending(Pending {
                    len: entry.len,
                    link: inbox.link,
                    id,
                });
                self.prefetch(at, inbox);
                let body = &mut self.bodies[at];
                let comes = body.granted == body.total;
                let mailbox = &mut *inbox.mailbox;
                let key = mailbox.keep(inbox.source, entry.tag, pending, comes);
                body.owner = Owner::Unmatched(key);
                self.finish(at, inbox);
            }
        }
        Ok(())
    }

    /// Asks for a body that nobody waits for yet, as long as there is memory for such, and some of the peer's share.
    fn prefetch(&mut self, at: usize, inbox: &mut Inbox<'_>) {
        let body = &mut self.bodies[at];
        let share = inbox.mailbox.peer_share;
        let budget = &mut inbox.mailbox.unmatched;
        if body.granted >= body.total || body.total > budget.limit.min(share) {
            return;
        }
        let own = share.saturating_sub(self.aside.unasked);
        if body.total > own
            || body.total > budget.free()
            || !body.make_room_if_large(&inbox.mailbox.pool)
            || !budget.charge(body.total)
        {
            let peer = inbox.link.peer;
            let waiting = &mut inbox.mailbox.left;
            // For want of its own share it waits for its own messages to be taken.
            if self.aside.left.is_none() && body.total <= own && !waiting.contains(&peer) {
                waiting.push_back(peer);
            }
            self.aside.left.get_or_insert(body.id);
            return;
        }
        body.charge.unmatched = body.total;
        self.aside.unasked += body.total;
        if let Owner::Unmatched(key) = body.owner {
            inbox.mailbox.comes_unasked(key);
        }
        self.grant(at);
    }

    /// Memory for bodies that nobody has asked for may have come back: asks for those that had to be
    /// left, in order. Returns whether there are any.
    pub fn prefetch_left(&mut self, inbox: &mut Inbox<'_>) -> bool {
        let Some(first) = self.aside.left.take() else {
            return false;
        };
        let first = self.bodies.partition_point(|body| body.id < first);
        for at in first..self.bodies.len() {
            if matches!(self.bodies[at].owner, Owner::Unmatched(_)) {
                self.prefetch(at, inbox);
            }
            if self.aside.left.is_some() {
                break;
            }
        }
        true
    }

    /// Lets all of a body come.
    fn grant(&mut self, at: usize) {
        let body = &mut self.bodies[at];
        self.missing += body.total - body.granted;
        body.granted = body.total;
        self.grants.push_back(body.id);
    }

    /// The body with this id, made if need be.
    fn body_for(&mut self, id: u64, total: u64) -> Result<usize, Violation> {
        let at = self.bodies.partition_point(|body| body.id < id);
        if self.bodies.get(at).is_none_or(|body| body.id != id) {
            if total > UNDER_WAY_MAX - self.aside.under_way {
                return Err(Violation("bodies longer than any memory"));
            }
            self.aside.under_way += total;
            self.bodies.insert(
                at,
                InBody {
                    id,
                    tag: 0,
                    total,
                    owner: Owner::Unknown,
                    buffer: Buffer::default(),
                    received: Spans::default(),
                    granted: 0,
                    has_room: false,
                    wanted: false,
                    charge: Charge::default(),
                },
            );
        }
        Ok(at)
    }

    /// Takes out a body that is complete, or does not come.
    fn remove_body(&mut self, at: usize) -> InBody {
        let body = self.bodies.remove(at).expect("body is there");
        self.aside.under_way -= body.total;
        body
    }

    fn body_at(&self, id: u64) -> Option<usize> {
        if self.bodies.front()?.id == id {
            return Some(0);
        }
        self.bodies.binary_search_by_key(&id, |body| body.id).ok()
    }

    /// A receive waits for this body from now on: gives it room and asks for it. Returns the buffer of an earlier receive that it
    /// was filling, if it fills another one now.
    pub fn bind(&mut self, id: u64, ticket: RecvTicket, inbox: &mut Inbox<'_>) -> Option<Vec<u8>> {
        let at = self.body_at(id)?;
        let given = inbox.mailbox.bind(ticket, inbox.link, id);
        let body = &mut self.bodies[at];
        body.owner = Owner::Posted(ticket);
        body.wanted = true;
        let before = given.and_then(|given| self.move_to(at, given, inbox));
        let body = &self.bodies[at];
        if body.granted < body.total {
            if body.has_room {
                self.grant(at);
            } else {
                self.feed_or_starve(at, inbox);
            }
        }
        self.finish(at, inbox);
        before
    }

    /// Tag and length of a body, if it was not granted memory.
    pub fn lacks_room(&self, id: u64) -> Option<(u64, u64)> {
        let body = &self.bodies[self.body_at(id)?];
        (body.granted < body.total).then_some((body.tag, body.total))
    }

    /// Memory that bodies take on their way to those who asked for them.
    pub fn asked_bytes(&self) -> u64 {
        self.aside.asked
    }

    /// How much of that is for receives that were withdrawn, or for what the program has only looked for.
    pub fn withdrawn_bytes(&self) -> u64 {
        if self.aside.asked == 0 {
            return 0;
        }
        let left = |body: &&InBody| matches!(body.owner, Owner::Parked | Owner::Unmatched(_));
        let left = self.bodies.iter().filter(left);
        left.map(|body| body.charge.posted).sum()
    }

    /// Ids, tags and lengths of bodies that take such memory.
    pub fn asked_bodies(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let bodies = self.bodies.iter().filter(|body| body.charge.posted > 0);
        bodies.map(|body| (body.id, body.tag, body.total))
    }

    /// The program would take this body if it were here: asks for it.
    pub fn want(&mut self, id: u64, inbox: &mut Inbox<'_>) {
        let Some(at) = self.body_at(id) else {
            return;
        };
        if self.bodies[at].granted < self.bodies[at].total {
            self.bodies[at].wanted = true;
            // It is asked for anew as often as the program looks, and takes no turn.
            if let Err(Shortage::System) = self.feed_new(at, inbox.mailbox) {
                self.starve(at, Shortage::System, inbox.mailbox);
            }
        }
    }

    /// A piece of a body: goes straight to its place.
    #[inline]
    pub fn on_fragment(
        &mut self,
        fragment: &Fragment<'_>,
        inbox: &mut Inbox<'_>,
    ) -> Result<(), PeerLost> {
        let landing = self.land(fragment, inbox)?;
        Ok(self.settle(&landing, inbox)?)
    }

    /// Puts a piece of a body to its place. Others may [`follow`](Self::follow) it; then
    /// [`settle`](Self::settle) takes note of all of them.
    #[inline]
    pub fn land(
        &mut self,
        fragment: &Fragment<'_>,
        inbox: &mut Inbox<'_>,
    ) -> Result<Landing, PeerLost> {
        let id = expand_body_id(fragment.id, self.next_id);
        let at = match self.body_at(id) {
            Some(at) => at,
            // All of the message came before.
            None if id < self.next_id => return Ok(Landing::default()),
            None => self.early_body(id, fragment.total)?,
        };
        let body = &mut self.bodies[at];
        if !body.may_take(fragment) {
            return Err(Violation("fragment that was not granted").into());
        }
        if !body.make_room(&inbox.mailbox.pool) {
            return Err(PeerLost::NoMemory(body.total));
        }
        body.copy(fragment);
        Ok(Landing {
            body: Some((at, fragment.id)),
            start: fragment.offset,
            end: fragment.end(),
        })
    }

    /// Puts a piece of a body behind the one before it; `false` if it does not belong there.
    #[inline]
    pub fn follow(&mut self, landing: &mut Landing, fragment: &Fragment<'_>) -> bool {
        let Some((at, id)) = landing.body else {
            return false;
        };
        let body = &mut self.bodies[at];
        if fragment.id != id || fragment.offset != landing.end || !body.may_take(fragment) {
            return false;
        }
        body.copy(fragment);
        landing.end = fragment.end();
        true
    }

    /// Takes note of pieces that have been put to their place, and passes the body on if it is
    /// complete.
    #[inline]
    pub fn settle(&mut self, landing: &Landing, inbox: &mut Inbox<'_>) -> Result<(), Violation> {
        let Some((at, _)) = landing.body else {
            return Ok(());
        };
        let body = &mut self.bodies[at];
        // Others that are coming would fill the path while its sender waits for the grant.
        let is_alone = self.missing <= body.total;
        if is_alone && landing.start == 0 && body.charge.log == ENTRY_CHARGE {
            self.log.on_asked(body.total, inbox.mailbox);
        }
        let new = body.received.insert(landing.start, landing.end);
        self.missing -= new;
        if new > 0 && body.received.is_absurd(body.total) {
            return Err(Violation("body in crumbs"));
        }
        self.finish(at, inbox);
        Ok(())
    }

    /// Room for an eager body whose fragment came before its envelope.
    fn early_body(&mut self, id: u64, total: u64) -> Result<usize, Violation> {
        let charge = ENTRY_CHARGE.saturating_add(total);
        let charged = self.log.arrived + self.aside.early_bodies;
        if charge > self.log.announced.saturating_sub(charged) {
            return Err(Violation("eager body beyond the log's limit"));
        }
        self.aside.early_bodies += charge;
        let at = self.body_for(id, total)?;
        self.bodies[at].granted = total;
        self.missing += total;
        Ok(at)
    }

    /// Passes a body on once all of it is here.
    #[inline]
    fn finish(&mut self, at: usize, inbox: &mut Inbox<'_>) {
        let body = &self.bodies[at];
        if !body.received.covers(body.total) || matches!(body.owner, Owner::Unknown) {
            return;
        }
        let body = self.remove_body(at);
        let charge = body.charge;
        self.aside_settle(charge.posted);
        let mailbox = &mut *inbox.mailbox;
        match body.owner {
            Owner::Unmatched(key) => mailbox.complete_arrived(key, body.buffer, charge),
            Owner::Parked => mailbox.complete_parked(inbox.link, body.id, body.buffer, charge),
            Owner::Posted(ticket) => {
                mailbox.complete_body(ticket, inbox.source, body.tag, body.buffer);
                mailbox.settle(inbox.link, charge);
                self.on_taken(charge.log, charge.unmatched);
                if charge.unmatched > 0 {
                    self.prefetch_left(inbox);
                }
            }
            Owner::Discarded => self.on_taken(charge.log, 0),
            Owner::Unknown => {}
        }
        if self.aside.squeezed && charge.posted > 0 {
            // Those that have waited for this may have to wait for their turn now, though no memory comes back: what has come may be kept.
            inbox.mailbox.posted.leave();
            self.retry_starved(inbox);
        }
    }

    /// A body that a receive waited for takes no memory on its way any more.
    #[inline]
    fn aside_settle(&mut self, posted: u64) {
        if posted > 0 {
            self.aside.asked -= posted;
        }
    }

    /// The program has taken messages charged with this much of the log's credit, and of the memory
    /// for bodies that nobody had asked for.
    #[inline]
    pub fn on_taken(&mut self, log: u64, unasked: u64) {
        self.log.taken += log;
        if unasked > 0 {
            self.aside.unasked -= unasked;
        }
    }

    /// The sender says that the limit holds it back.
    pub fn on_blocked(&mut self, limit: u64, mailbox: &mut Mailbox) {
        self.log.on_blocked(limit, mailbox);
    }

    /// The sender has given back so much of the log's credit, in all.
    pub fn on_returned(&mut self, units: u16, mailbox: &mut Mailbox) -> Result<(), Violation> {
        match self.log.take_back(units, mailbox) {
            true => Ok(()),
            false => Err(Violation("more log credit given back than there was")),
        }
    }

    /// The next body to grant.
    pub fn pop_grant(&mut self) -> Option<u64> {
        self.grants.pop_front()
    }

    /// Queues a grant, again if it was lost.
    pub fn grant_again(&mut self, id: u64) {
        if self.body_at(id).is_some() {
            self.grants.push_back(id);
        }
    }

    /// Whether grants wait to be sent.
    #[inline]
    pub fn has_grants(&self) -> bool {
        !self.grants.is_empty()
    }

    /// How far a body may be sent.
    pub fn granted(&self, id: u64) -> Option<u64> {
        self.body_at(id).map(|at| self.bodies[at].granted)
    }

    /// The sender says that entries up to this cumulative charge wait.
    pub fn on_request(&mut self, upto: u64) {
        self.requested = self.requested.max(upto);
    }

    /// Bytes that are allowed, known to be coming, and not here.
    #[inline]
    pub fn remaining_bytes(&self) -> u64 {
        // What waits behind a gap is here.
        let allowed = self.log.allowed(self.requested);
        let missing = allowed.saturating_sub(self.aside.early.charge());
        self.missing + self.log.on_wire(missing.max(allowed.min(1)))
    }

    /// Messages that have arrived, those in order.
    pub fn messages(&self) -> u64 {
        self.next_id
    }

    /// All messages before this one are here, whole.
    pub fn whole_before(&self) -> u64 {
        let missing = self.bodies.iter().map(|body| body.id).min();
        missing.map_or(self.next_id, |id| id.min(self.next_id))
    }

    /// Charge of entries that have arrived and not been taken.
    pub fn backlog_bytes(&self) -> u64 {
        self.log.arrived - self.log.taken
    }

    /// What keeps the sender from sending more until the program takes messages: their charge, and that of all that
    /// it has taken before; `None` if nothing does.
    pub fn backlog(&self) -> Option<(u64, u64)> {
        // A sender may say that the limit curbs it while something that fits is on its way.
        let comes = self.log.allowed(self.requested) > 0;
        let stuck = self.log.is_blocked() && !self.log.is_awaited() && !comes;
        stuck.then_some((self.backlog_bytes(), self.log.taken))
    }

    /// The connection ended: ends receives that wait for its bodies, gives memory back.
    pub fn on_lost(&mut self, inbox: &mut Inbox<'_>, why: &PeerLost) {
        for body in self.bodies.drain(..) {
            if body.is_starved() {
                inbox.mailbox.posted.leave();
            }
            inbox.mailbox.settle(inbox.link, body.charge);
            if let Owner::Posted(ticket) = body.owner {
                let given = body.has_room && !body.buffer.is_pooled();
                let buffer = given.then(|| body.buffer.into_given());
                inbox.mailbox.fail(ticket, inbox.source, why, buffer);
            }
        }
        self.unkeep(inbox.mailbox);
        self.log.release(inbox.mailbox);
        self.grants.clear();
    }

    /// Gives memory back while the connection is idle.
    pub fn shrink(&mut self) {
        if self.bodies.is_empty() && self.aside.left.is_some() {
            self.aside.left = None;
        }
        if *self.aside == *Aside::empty() {
            self.aside = Rare::default();
        }
        self.bodies.shrink();
        self.grants.shrink();
    }
}

#[cfg(test)]
impl Incoming {
    /// As if so many messages had come and been taken.
    pub fn pass_ids(&mut self, count: u64) {
        self.next_id += count;
    }
}
