//! What the program sees of arriving messages: those that nobody has asked for yet, and receives
//! that wait for one.

mod parked;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::ops::RangeInclusive;

use super::matching::{ArrivedKey, PostedKey};
use super::{Body, Budget, Buffer, Match, Matcher, Pool, Room, Ticket, Tickets, Turn, Unread};
use crate::PeerId;
use crate::error::PeerLost;
use crate::wire::Entries;
use parked::Parked;

/// A message that has arrived. Its memory is used again for later ones when it is dropped.
#[derive(Debug)]
pub struct Message {
    /// Who sent it.
    pub source: PeerId,
    /// The tag it was sent with.
    pub tag: u64,
    /// Its bytes.
    pub body: Body,
}

impl Message {
    /// The bytes.
    #[inline]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The bytes as a vector of their own; no copy above 64 bytes.
    pub fn into_vec(self) -> Vec<u8> {
        self.body.into_vec()
    }
}

/// What is known of a message before it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Who sent it.
    pub source: PeerId,
    /// The tag it was sent with.
    pub tag: u64,
    /// Length of its body in bytes.
    pub len: u64,
    /// Whether all of the body is here.
    pub complete: bool,
}

/// Names a receive that was posted.
pub type RecvTicket = Ticket;

/// Why a receive got no message.
#[derive(Debug)]
pub enum RecvError {
    /// The matching message is longer than the buffer. It stays where it is, for a larger one.
    TooSmall {
        /// What waits.
        envelope: Envelope,
        /// Bytes that there was room for.
        room: u64,
        /// The buffer, given back, if one was handed over.
        buffer: Option<Vec<u8>>,
    },
    /// The matching message is longer than the node may allocate for one. It stays where it is:
    /// hand over a buffer for it, discard it ([`crate::Node::discard`]), or raise the limit.
    TooLarge {
        /// What waits.
        envelope: Envelope,
        /// Bytes that the node may allocate.
        limit: u64,
    },
    /// The message was worth something for some time only, or sent once ([`crate::Value`]), and its
    /// sender has dropped it before all of it was here. The next one can be received.
    Expired {
        /// What does not come.
        envelope: Envelope,
        /// The buffer, given back, if one was handed over.
        buffer: Option<Vec<u8>>,
    },
    /// The connection ended before the message was complete.
    PeerLost {
        /// Who was to send it.
        peer: PeerId,
        /// Why it ended.
        why: PeerLost,
        /// The buffer, given back, if one was handed over.
        buffer: Option<Vec<u8>>,
    },
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::TooSmall { envelope, room, .. } => write!(
                f,
                "the message from peer {} with tag {} has {} bytes, the buffer has room for \
                 {room}: receive it into a larger one",
                envelope.source, envelope.tag, envelope.len
            ),
            RecvError::TooLarge { envelope, limit } => write!(
                f,
                "the message from peer {} with tag {} has {} bytes, but this node allocates at \
                 most {limit} bytes for messages: hand over a buffer for it when the receive is posted, \
                 discard it, or raise the node's `memory`",
                envelope.source, envelope.tag, envelope.len
            ),
            RecvError::Expired { envelope, .. } => write!(
                f,
                "the message from peer {} with tag {} ({} bytes) was not worth sending any more: \
                 receive the next one",
                envelope.source, envelope.tag, envelope.len
            ),
            RecvError::PeerLost { peer, why, .. } => {
                write!(
                    f,
                    "the connection to peer {peer} ended before the message was complete: {why}"
                )
            }
        }
    }
}

impl std::error::Error for RecvError {}

/// One connection of one peer: what arrived over it must not be settled with a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkRef {
    pub peer: u32,
    pub generation: u32,
}

impl LinkRef {
    /// Stands for messages of a node to itself.
    pub const SELF: LinkRef = LinkRef {
        peer: u32::MAX,
        generation: 0,
    };
}

/// A message that nobody has asked for yet.
#[derive(Debug)]
pub(crate) enum Arrived {
    /// All of it is here.
    Whole {
        body: Body,
        link: LinkRef,
        charge: Charge,
    },
    /// Its body is still coming, or has not been granted.
    Pending(Pending),
}

/// A message whose body is not here yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub link: LinkRef,
    pub id: u64,
    pub len: u64,
}

/// What a message holds until the program has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Charge {
    /// Of the log's credit.
    pub log: u64,
    /// Of the node's memory for unmatched messages.
    pub unmatched: u64,
    /// Of the node's memory for posted receives without a buffer of their own.
    pub posted: u64,
}

/// What must be told to a connection after the program took, or asked for, a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Log credit comes back, and room for bodies that nobody had asked for.
    Credit {
        link: LinkRef,
        log: u64,
        unasked: u64,
    },
    /// A receive now waits for this body.
    Bind {
        link: LinkRef,
        id: u64,
        ticket: RecvTicket,
    },
    /// Nobody wants this body any more.
    Discard { link: LinkRef, id: u64 },
}

#[derive(Debug)]
enum Progress {
    /// About to be settled by [`Mailbox::post`].
    New,
    Waiting(PostedKey),
    Filling {
        link: LinkRef,
        id: u64,
    },
    Done(Result<Message, RecvError>),
}

#[derive(Debug)]
struct Receive {
    /// Longest message that fits.
    max: u64,
    /// Age of the message that it was given.
    stamp: u64,
    buffer: Option<Vec<u8>>,
    progress: Progress,
}

/// Where a message is that was looked for; until anything changes.
#[derive(Clone, Copy, Debug)]
enum Found {
    /// Which of those that withdrawn receives had been given.
    Parked(usize),
    Kept(ArrivedKey),
}

/// Arriving messages, and receives that wait for them.
#[derive(Debug)]
pub(crate) struct Mailbox {
    matcher: Matcher<Arrived, RecvTicket>,
    receives: Tickets<Receive>,
    /// By stamp; empty nearly always.
    parked: Vec<Parked>,
    /// Messages in the matcher that are all here and hold memory of receives, though none waits for them: the program has only
    /// looked. Few, while others may be many.
    looked_for: BTreeSet<ArrivedKey>,
    /// Small messages, all younger than those in the matcher; empty while receives wait.
    unread: Unread,
    pub pool: Pool,
    /// Memory for bodies that nobody has asked for yet: half of the node's, so that neither they nor what follows keeps
    /// all of it from the other.
    pub unmatched: Budget,
    /// Memory for what peers have credit for, and nobody may have asked for.
    pub logs: Budget,
    /// Memory for bodies that a receive without a buffer of its own waits for.
    pub posted: Room,
    /// How much of either the bodies of one peer may take, in bytes.
    pub peer_share: u64,
    /// How much credit the short messages of one peer may have at first, and at most, in bytes.
    pub log_windows: RangeInclusive<u64>,
    /// Up to this length bodies come unasked where that credit allows, in bytes.
    pub eager_max: u64,
    /// Receives that have ended, one way or the other.
    pub ended: u64,
    /// Some receive waits because the system had no memory.
    pub denied: bool,
    /// Peers with a body that nobody has asked for, and that waits until the node has memory
    /// for such.
    pub left: VecDeque<u32>,
}

impl Mailbox {
    pub fn new(
        seed: u64,
        memory_bytes: u64,
        peer_share: u64,
        log_windows: RangeInclusive<u64>,
        eager_max: u64,
    ) -> Self {
        Mailbox {
            matcher: Matcher::new(seed),
            receives: Tickets::default(),
            parked: Vec::new(),
            looked_for: BTreeSet::new(),
            unread: Unread::default(),
            pool: Pool::default(),
            unmatched: Budget::new(memory_bytes / 2),
            logs: Budget::new(memory_bytes / 2),
            posted: Room::new(memory_bytes),
            peer_share,
            log_windows,
            eager_max,
            ended: 0,
            left: VecDeque::new(),
            denied: false,
        }
    }

    /// Messages that nobody has asked for yet.
    pub fn arrived_len(&self) -> usize {
        self.matcher.arrived_len() + self.parked.len() + self.unread.len()
    }

    /// The oldest receive that waits for such a message, if its buffer, or the node's memory, is
    /// large enough. One that is too small ends with an error, and the next one is tried.
    #[inline]
    pub fn arrive(&mut self, source: PeerId, tag: u64, len: u64) -> Option<RecvTicket> {
        while let Some(ticket) = self.matcher.arrive(source, tag) {
            let Some(receive) = self.receives.get_mut(ticket) else {
                continue;
            };
            let envelope = Envelope {
                source,
                tag,
                len,
                complete: false,
            };
            match misfit(receive, envelope, self.posted.limit()) {
                None => {
                    receive.stamp = self.matcher.pass();
                    return Some(ticket);
                }
                Some(error) => {
                    self.ended += 1;
                    receive.progress = Progress::Done(Err(error));
                }
            }
        }
        None
    }

    /// Keeps a message that nobody waits for. `comes` if it is not here and will be before it is asked for.
    #[inline]
    pub fn keep(&mut self, source: PeerId, tag: u64, arrived: Arrived, comes: bool) -> ArrivedKey {
        self.read_all();
        self.matcher.keep(source, tag, arrived, comes)
    }

    /// Whether receives wait.
    #[inline]
    pub fn is_awaited(&self) -> bool {
        self.matcher.posted_len() > 0
    }

    /// Keeps a frame of small messages as it is, while no receive waits that might want one.
    #[inline]
    pub fn keep_unread(&mut self, source: PeerId, link: LinkRef, frame: &Entries<'_>) {
        debug_assert!(!self.is_awaited());
        self.unread.push(source, link, frame);
    }

    /// Spreads unread messages out for matching.
    fn read_all(&mut self) {
        self.unread.drain(|message, link, log| {
            let Message { source, tag, body } = message;
            let charge = Charge {
                log,
                ..Charge::default()
            };
            let arrived = Arrived::Whole { body, link, charge };
            self.matcher.keep(source, tag, arrived, false);
        });
    }

    /// Hands a whole small message to a receive.
    #[inline]
    pub fn complete_inline(&mut self, ticket: RecvTicket, source: PeerId, tag: u64, bytes: &[u8]) {
        let Some(receive) = self.receives.get_mut(ticket) else {
            return;
        };
        let body = match receive.buffer.take() {
            Some(mut given) => {
                given[..bytes.len()].copy_from_slice(bytes);
                Buffer::given(given, bytes.len()).into()
            }
            None => Body::copy_of(bytes),
        };
        self.ended += 1;
        receive.progress = Progress::Done(Ok(Message { source, tag, body }));
    }

    /// Hands a body that came in fragments to the receive that waits for it.
    pub fn complete_body(&mut self, ticket: RecvTicket, source: PeerId, tag: u64, filled: Buffer) {
        let Some(receive) = self.receives.get_mut(ticket) else {
            return;
        };
        self.ended += 1;
        receive.progress = Progress::Done(Ok(Message {
            source,
            tag,
            body: filled.into(),
        }));
    }

    /// The receive now waits for this body. Returns the buffer to put it into, if it brought one.
    pub fn bind(&mut self, ticket: RecvTicket, link: LinkRef, id: u64) -> Option<Vec<u8>> {
        let receive = self.receives.get_mut(ticket)?;
        receive.progress = Progress::Filling { link, id };
        receive.buffer.take()
    }

    /// A body that nobody has asked for yet is now complete.
    pub fn complete_arrived(&mut self, key: ArrivedKey, filled: Buffer, charge: Charge) {
        if let Some(arrived) = self.matcher.get_mut(key)
            && let Arrived::Pending(Pending { link, .. }) = *arrived
        {
            *arrived = Arrived::Whole {
                body: filled.into(),
                link,
                charge,
            };
            if charge.posted > 0 {
                self.looked_for.insert(key);
            }
            self.read_all();
            self.matcher.has_come(key);
        }
    }

    /// A body that nobody has asked for was given leave to come.
    pub fn comes_unasked(&mut self, key: ArrivedKey) {
        self.matcher.comes(key);
    }

    /// Posts a receive. The second value is what the message's connection must be told.
    /// Longer messages than `max` don't fit; with a buffer, that is its length.
    pub fn post(
        &mut self,
        wanted: Match,
        buffer: Option<Vec<u8>>,
        max: u64,
    ) -> (RecvTicket, Option<Taken>) {
        let mut receive = Receive {
            max: buffer.as_ref().map_or(max, |buffer| buffer.len() as u64),
            buffer,
            stamp: 0,
            progress: Progress::New,
        };
        let found = self.find(&wanted);
        let seen = found.and_then(|found| Some((found, self.envelope_of(found)?)));
        let Some((found, envelope)) = seen else {
            let ticket = self.receives.insert(receive);
            let key = self.matcher.post(wanted, ticket);
            self.progress(ticket, Progress::Waiting(key));
            return (ticket, None);
        };
        if let Some(error) = misfit(&mut receive, envelope, self.posted.limit()) {
            receive.progress = Progress::Done(Err(error));
            return (self.receives.insert(receive), None);
        }
        let (stamp, source, tag, arrived) = self.take(found).expect("just seen");
        receive.stamp = stamp;
        let ticket = self.receives.insert(receive);
        match arrived {
            Arrived::Whole { body, link, charge } => {
                self.complete_whole(ticket, source, tag, body);
                (ticket, Some(self.settle(link, charge)))
            }
            Arrived::Pending(Pending { link, id, .. }) => {
                self.progress(ticket, Progress::Filling { link, id });
                (ticket, Some(Taken::Bind { link, id, ticket }))
            }
        }
    }

    fn progress(&mut self, ticket: RecvTicket, progress: Progress) {
        if let Some(receive) = self.receives.get_mut(ticket) {
            receive.progress = progress;
        }
    }

    fn complete_whole(&mut self, ticket: RecvTicket, source: PeerId, tag: u64, body: Body) {
        let Some(receive) = self.receives.get_mut(ticket) else {
            return;
        };
        let body = match receive.buffer.take() {
            Some(mut given) => {
                given[..body.len()].copy_from_slice(&body);
                Buffer::given(given, body.len()).into()
            }
            None => body,
        };
        self.ended += 1;
        receive.progress = Progress::Done(Ok(Message { source, tag, body }));
    }

    /// Releases what a message held.
    pub fn settle(&mut self, link: LinkRef, charge: Charge) -> Taken {
        self.unmatched.release(charge.unmatched);
        self.posted.release(charge.posted);
        Taken::Credit {
            link,
            log: charge.log,
            unasked: charge.unmatched,
        }
    }

    /// Whether receives that wait for memory should be tried again.
    #[inline]
    pub fn may_feed(&mut self) -> bool {
        self.posted.take_freed() && (self.posted.turn != Turn::Anybody || self.denied)
    }

    /// Whether bodies that nobody has asked for, and that wait for memory, should be tried again.
    #[inline]
    pub fn may_prefetch(&mut self) -> bool {
        std::mem::take(&mut self.unmatched.freed) && !self.left.is_empty()
    }

    /// The message that a receive gets: of each sender the oldest that matches; of several senders' one that is here, if
    /// there is one.
    #[inline]
    fn find(&mut self, wanted: &Match) -> Option<Found> {
        if self.arrived_len() == 0 {
            return None;
        }
        match self.parked.is_empty() {
            true => self.find_kept(wanted),
            false => self.find_beside_parked(wanted),
        }
    }

    fn find_kept(&mut self, wanted: &Match) -> Option<Found> {
        if self.unread.len() > 0 && !self.matcher.can_be_had(wanted) {
            self.read_all();
        }
        self.matcher.first(wanted).map(Found::Kept)
    }

    /// The same where receives were withdrawn. Whole messages that had been given to one come first.
    #[cold]
    fn find_beside_parked(&mut self, wanted: &Match) -> Option<Found> {
        self.read_all();
        let (mut seen, mut coming) = (Vec::new(), Vec::new());
        for (at, parked) in self.parked.iter().enumerate() {
            let Parked { stamp, source, .. } = *parked;
            if !wanted.matches(source, parked.tag) || seen.contains(&source) {
                continue;
            }
            seen.push(source);
            let older = self.matcher.stamp_of(&wanted.from(source));
            if older.is_some_and(|older| older < stamp) {
                continue;
            }
            match parked.arrived {
                Arrived::Whole { .. } => return Some(Found::Parked(at)),
                Arrived::Pending(_) => coming.push((at, source)),
            }
        }
        let Some(&(first, _)) = coming.first() else {
            return self.find_kept(wanted);
        };
        let senders: Vec<_> = coming.iter().map(|&(_, source)| source).collect();
        let other = self.matcher.first_of_others(wanted, &senders);
        Some(other.map_or(Found::Parked(first), Found::Kept))
    }

    /// A message that was found, with its sender and its tag.
    fn show(&self, found: Found) -> Option<(PeerId, u64, &Arrived)> {
        match found {
            Found::Parked(at) => {
                let parked = self.parked.get(at)?;
                Some((parked.source, parked.tag, &parked.arrived))
            }
            Found::Kept(key) => {
                let (_, source, tag, arrived) = self.matcher.get(key)?;
                Some((source, tag, arrived))
            }
        }
    }

    /// Takes away a message that was found, with its age, its sender and its tag.
    fn take(&mut self, found: Found) -> Option<(u64, PeerId, u64, Arrived)> {
        match found {
            Found::Parked(at) => {
                let parked = self.parked.remove(at);
                Some((parked.stamp, parked.source, parked.tag, parked.arrived))
            }
            Found::Kept(key) => {
                if !self.looked_for.is_empty() {
                    self.looked_for.remove(&key);
                }
                self.matcher.take(key)
            }
        }
    }

    fn envelope_of(&self, found: Found) -> Option<Envelope> {
        let (source, tag, arrived) = self.show(found)?;
        let (len, complete) = match arrived {
            Arrived::Whole { body, .. } => (body.len() as u64, true),
            Arrived::Pending(pending) => (pending.len, false),
        };
        Some(Envelope {
            source,
            tag,
            len,
            complete,
        })
    }

    /// A message that nobody has asked for will never be complete; returns whether it was there.
    pub fn drop_arrived(&mut self, key: ArrivedKey) -> bool {
        self.matcher.take(key).is_some()
    }

    /// Takes the oldest message that matches, if it is a small one that nobody has looked at yet.
    /// `settle` is told what log credit to give back, when it is time for that.
    #[inline]
    pub fn try_take_unread(
        &mut self,
        wanted: &Match,
        settle: impl FnOnce(LinkRef, u64),
    ) -> Option<Message> {
        if !self.parked.is_empty() || self.matcher.arrived_len() > 0 {
            return None;
        }
        self.unread.take_if(wanted, settle)
    }

    /// Takes the oldest message that matches, if all of it is here.
    pub fn try_take(&mut self, wanted: &Match) -> Option<(Message, Taken)> {
        let found = self.find(wanted)?;
        if !self.envelope_of(found)?.complete {
            return None;
        }
        let (_, source, tag, arrived) = self.take(found)?;
        let Arrived::Whole { body, link, charge } = arrived else {
            return None;
        };
        let taken = self.settle(link, charge);
        Some((Message { source, tag, body }, taken))
    }

    /// Takes away the oldest message that matches, whether or not all of it is here.
    pub fn discard(&mut self, wanted: &Match) -> Option<(Envelope, Taken)> {
        let found = self.find(wanted)?;
        let envelope = self.envelope_of(found)?;
        Some((envelope, self.discard_found(found)?))
    }

    fn discard_found(&mut self, found: Found) -> Option<Taken> {
        let (_, _, _, arrived) = self.take(found)?;
        Some(match arrived {
            Arrived::Whole { link, charge, .. } => self.settle(link, charge),
            Arrived::Pending(Pending { link, id, .. }) => Taken::Discard { link, id },
        })
    }

    /// Names the messages that are such, of those that were given to no receive.
    pub fn all_kept(&mut self, is_such: impl Fn(PeerId, u64) -> bool) -> Vec<ArrivedKey> {
        self.read_all();
        self.matcher.all(is_such)
    }

    /// Takes away a message that was named, if it still waits.
    pub fn discard_kept(&mut self, key: ArrivedKey) -> Option<Taken> {
        self.discard_found(Found::Kept(key))
    }

    /// Takes away a message that is such, if there is one whose receive was withdrawn.
    pub fn discard_parked(&mut self, is_such: impl Fn(PeerId, u64) -> bool) -> Option<Taken> {
        let mut parked = self.parked.iter();
        let at = parked.position(|parked| is_such(parked.source, parked.tag))?;
        self.discard_found(Found::Parked(at))
    }

    /// The error with which a receive without a buffer would end at once, if the oldest message that
    /// matches is longer than the node may allocate.
    pub fn oversized(&mut self, wanted: &Match) -> Option<RecvError> {
        let envelope = self.peek(wanted)?;
        let limit = self.posted.limit();
        let fits = envelope.complete || envelope.len <= limit;
        (!fits).then_some(RecvError::TooLarge { envelope, limit })
    }

    /// Whether a receive without a buffer, for messages of at most `max` bytes, would end at once with an error.
    pub fn is_misfit(&self, envelope: &Envelope, max: u64) -> bool {
        envelope.len > max.min(self.posted.limit())
    }

    /// The body that the oldest matching message still waits for, if it is not here yet.
    pub fn pending(&mut self, wanted: &Match) -> Option<(LinkRef, u64)> {
        let found = self.find(wanted)?;
        match self.show(found)? {
            (_, _, Arrived::Pending(pending)) => Some((pending.link, pending.id)),
            _ => None,
        }
    }

    /// What a receive waits for that has no message yet.
    pub fn waits_for(&mut self, ticket: RecvTicket) -> Option<Match> {
        match self.receives.get_mut(ticket)?.progress {
            Progress::Waiting(key) => self.matcher.pattern(key),
            _ => None,
        }
    }

    /// The body that a receive waits for.
    pub fn filling(&mut self, ticket: RecvTicket) -> Option<(LinkRef, u64)> {
        match self.receives.get_mut(ticket)?.progress {
            Progress::Filling { link, id } => Some((link, id)),
            _ => None,
        }
    }

    /// The message that a receive would get, without taking it.
    pub fn peek(&mut self, wanted: &Match) -> Option<Envelope> {
        let found = self.find(wanted)?;
        self.envelope_of(found)
    }

    /// Whether a receive has ended, one way or the other.
    #[inline]
    pub fn is_done(&mut self, ticket: RecvTicket) -> bool {
        !matches!(
            self.receives.get_mut(ticket),
            Some(Receive {
                progress: Progress::Waiting(_) | Progress::Filling { .. },
                ..
            })
        )
    }

    /// Whether a receive has ended with the connection over which its message was coming.
    pub fn has_lost_its_peer(&mut self, ticket: RecvTicket) -> bool {
        let receive = self.receives.get_mut(ticket);
        receive.is_some_and(|receive| {
            matches!(
                receive.progress,
                Progress::Done(Err(RecvError::PeerLost { .. }))
            )
        })
    }

    /// The result of a receive that has ended; its ticket is stale from then on.
    #[inline]
    pub fn result(&mut self, ticket: RecvTicket) -> Option<Result<Message, RecvError>> {
        if !self.is_done(ticket) {
            return None;
        }
        match self.receives.remove(ticket)?.progress {
            Progress::Done(result) => Some(result),
            _ => None,
        }
    }

    /// Withdraws a receive. If a message has already been given to it, the caller must detach it
    /// from its body.
    pub fn cancel(&mut self, ticket: RecvTicket) -> Cancelled {
        let Some(receive) = self.receives.remove(ticket) else {
            return Cancelled::Withdrawn(None);
        };
        match receive.progress {
            Progress::New => Cancelled::Withdrawn(receive.buffer),
            Progress::Waiting(key) => {
                self.matcher.cancel(key);
                Cancelled::Withdrawn(receive.buffer)
            }
            Progress::Filling { link, id } => Cancelled::Filling {
                link,
                id,
                stamp: receive.stamp,
            },
            Progress::Done(result) => Cancelled::Done {
                result,
                stamp: receive.stamp,
            },
        }
    }

    /// A connection ended: ends the receives that can only be served by it, and drops messages of
    /// which only a part has come.
    pub fn on_link_lost(&mut self, source: PeerId, link: LinkRef, why: &PeerLost) {
        self.read_all();
        let receives = &mut self.receives;
        let ended = &mut self.ended;
        self.matcher.cancel_from(source, |ticket| {
            *ended += 1;
            if let Some(receive) = receives.get_mut(ticket) {
                let error = RecvError::PeerLost {
                    peer: source,
                    why: why.clone(),
                    buffer: receive.buffer.take(),
                };
                receive.progress = Progress::Done(Err(error));
            }
        });
        let mut kept = 0;
        let mut keep = |arrived: &mut Arrived| match arrived {
            Arrived::Pending(pending) => pending.link != link,
            Arrived::Whole {
                charge, link: of, ..
            } => {
                if *of == link {
                    // The connection's reserve is gone: the message is charged itself from now on.
                    let log = std::mem::take(&mut charge.log);
                    charge.unmatched += log;
                    kept += log;
                }
                true
            }
        };
        self.matcher.retain_arrived(source, &mut keep);
        self.parked.retain_mut(|parked| keep(&mut parked.arrived));
        self.unmatched.charge_kept(kept);
    }

    /// The body that a receive waited for has expired at its sender. `buffer` is the one that it had
    /// brought, if that was being filled.
    pub fn expire(&mut self, ticket: RecvTicket, envelope: Envelope, buffer: Option<Vec<u8>>) {
        if let Some(receive) = self.receives.get_mut(ticket) {
            self.ended += 1;
            let error = RecvError::Expired { envelope, buffer };
            receive.progress = Progress::Done(Err(error));
        }
    }

    /// The body that a receive waited for will never be complete.
    pub fn fail(
        &mut self,
        ticket: RecvTicket,
        peer: PeerId,
        why: &PeerLost,
        buffer: Option<Vec<u8>>,
    ) {
        if let Some(receive) = self.receives.get_mut(ticket) {
            self.ended += 1;
            let error = RecvError::PeerLost {
                peer,
                why: why.clone(),
                buffer,
            };
            receive.progress = Progress::Done(Err(error));
        }
    }
}

/// What became of a receive that was withdrawn.
#[derive(Debug)]
pub(crate) enum Cancelled {
    Withdrawn(Option<Vec<u8>>),
    Filling {
        link: LinkRef,
        id: u64,
        stamp: u64,
    },
    Done {
        result: Result<Message, RecvError>,
        stamp: u64,
    },
}

/// The error with which a receive must end, if the message does not fit into it.
fn misfit(receive: &mut Receive, envelope: Envelope, limit: u64) -> Option<RecvError> {
    if envelope.len > receive.max {
        return Some(RecvError::TooSmall {
            envelope,
            room: receive.max,
            buffer: receive.buffer.take(),
        });
    }
    let allocates = receive.buffer.is_none();
    (allocates && envelope.len > limit).then_some(RecvError::TooLarge { envelope, limit })
}
