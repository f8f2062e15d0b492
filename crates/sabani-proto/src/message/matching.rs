//! Matching: which arriving message goes to which waiting receive.
//!
//! Both sides can wait. A message that no receive was posted for is *kept* in the order of arrival
//! (the *unexpected* messages of MPI); a receive that no message has arrived for is *posted*. The
//! rules are MPI's: the messages of one sender are matched in the order in which they arrived, and of
//! the posted receives that match a message, the one posted first gets it, whether it names the sender
//! and the tag exactly or not.
//!
//! Between senders there is no order to keep, and a message may be known long before all of it is here.
//! So there are two lanes: those that can be had at once are taken first, in the order in which they
//! could; then those that are still coming, in the order in which they were announced. A message that
//! is here, but has one of its own sender before it that is still coming, waits behind that (for a receive of
//! some tags from anybody, behind those that have such a tag, as far as the first few that are to come show). One that
//! will not come until a receive asks for it counts as one that can be had, or others could keep it from
//! ever being asked for.
//!
//! # Cost
//!
//! Each lane, and what is posted, is a queue in order of age. A look-up first tries the oldest few entries, so in the
//! usual case, where messages are taken in about the order in which they come, it touches the front of
//! the queue and nothing else. Only when the front does not match is the rest entered into a hash index,
//! each entry at most once per index while it waits, and from then on looked up there:
//!
//! | receive | cost of a look-up among `n` waiting, messages or receives |
//! |---|---|
//! | exact source and tag; exact source; exact tag; anything | O(1) |
//! | exact, the first time after `n` entries came | O(`n`), once: some 50 ns for each entry |
//! | tag under a mask, exact source | O(messages waiting from this source) |
//! | tag under a mask, any source | O(messages waiting) |
//!
//! While receives under a mask are posted, an arriving message is compared with those of them that are
//! older than its best other match. A removal by key costs O(1). Nothing is allocated but for growth
//! beyond the most that was ever waiting; what a large backlog has taken is given back when the last
//! of it is gone.
//!
//! A waiting message takes 32 bytes beside its payload. An index in use takes 8 bytes more for each
//! slot and 10 to 20 for each different key; each lane has up to three (source and tag, source, tag),
//! each built only when something of its kind is looked for that is not at the front.
//!
//! Tags are chosen by remote peers, so the index hashes under a random seed: nobody who does not know
//! it can make the keys collide.

mod index;
mod key;
mod lane;
mod queue;
pub(super) mod steps;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;

use self::index::Index;
use self::key::Key;
use self::lane::Lane;
use self::queue::{Handle, Queue, Slot, Slots};
use crate::PeerId;

/// Which messages a receive takes: those of one sender or of any, with one tag, with some bits of the
/// tag, or with any. `Match::any().from(PeerId(3)).tag(7)` takes those from peer 3 with tag 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Match {
    source: Option<PeerId>,
    /// Zero outside the mask.
    tag: u64,
    mask: u64,
}

impl Match {
    /// Every message.
    pub const fn any() -> Self {
        Match {
            source: None,
            tag: 0,
            mask: 0,
        }
    }

    /// Only messages from this peer.
    #[must_use]
    pub const fn from(self, source: PeerId) -> Self {
        Match {
            source: Some(source),
            ..self
        }
    }

    /// Only messages with exactly this tag.
    #[must_use]
    pub const fn tag(self, tag: u64) -> Self {
        self.tag_mask(tag, !0)
    }

    /// Only messages whose tag agrees with `value` in the bits that are set in `mask`.
    ///
    /// A mask of 0 admits any tag. A mask other than 0 and `!0` makes the look-up a scan.
    #[must_use]
    pub const fn tag_mask(self, value: u64, mask: u64) -> Self {
        Match {
            tag: value & mask,
            mask,
            ..self
        }
    }

    /// The one peer this takes messages from; `None`: from any.
    pub const fn source(&self) -> Option<PeerId> {
        self.source
    }

    /// Whether a message from `source` with `tag` is one of these.
    #[inline]
    pub fn matches(&self, source: PeerId, tag: u64) -> bool {
        tag & self.mask == self.tag && self.source.is_none_or(|only| only == source)
    }

    /// The narrowest key that all matching messages share.
    #[inline]
    fn key(&self) -> Key {
        match (self.source, self.mask) {
            (Some(source), u64::MAX) => Key::Pair(source, self.tag),
            (Some(source), _) => Key::Source(source),
            (None, u64::MAX) => Key::Tag(self.tag),
            (None, _) => Key::Rest,
        }
    }
}

/// As [`Match::any`].
impl Default for Match {
    fn default() -> Self {
        Match::any()
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source {
            Some(source) => write!(f, "from peer {}", source.0)?,
            None => f.write_str("from any peer")?,
        }
        match self.mask {
            0 => f.write_str(", any tag"),
            u64::MAX => write!(f, ", tag {}", self.tag),
            mask => write!(f, ", tag {:#x} under mask {mask:#x}", self.tag),
        }
    }
}

/// Names a message kept by [`Matcher::keep`], until it is taken or removed; never any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArrivedKey(Handle);

/// Names a receive posted by [`Matcher::post`], until it is matched or cancelled; never any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PostedKey(Handle);

/// So many of the messages that are to come are looked at for one that can be had, where it is behind others that
/// don't match. More would cost whoever waits as much at each look.
const LOOKED_BEHIND: usize = 64;

/// Which lane a message is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// That of messages that can be had at once.
    Ready,
    /// That of those to come; it is coming itself.
    Coming,
    /// That of those to come, for an earlier one of its sender is coming.
    Behind,
}

struct Arrived<A> {
    source: PeerId,
    place: Place,
    tag: u64,
    payload: A,
}

struct Posted<R> {
    pattern: Match,
    payload: R,
}

/// Brings messages and receives together, in MPI's order.
///
/// `A` is what the caller stores about a message that waits for a receive, `R` about a receive that
/// waits for a message. The matcher never acts by itself; the caller asks the other side before
/// it lets anything wait: [`arrive`](Self::arrive), and [`keep`](Self::keep) if that finds nothing;
/// [`first`](Self::first), and [`post`](Self::post) if that finds nothing. Otherwise a message and a
/// receive that match could both wait.
///
/// An exact look-up, on either side, costs the same however much is waiting; the module's text says
/// what else costs what.
pub struct Matcher<A, R> {
    messages: Slots<Arrived<A>>,
    ready: Lane<A>,
    coming: Lane<A>,
    receives: Slots<Posted<R>>,
    posted: Queue,
    by_pattern: Index<Posted<R>>,
}

/// Messages: what has arrived and where it goes.
impl<A, R> Matcher<A, R> {
    /// An empty matcher. `seed` must be random and stay secret: peers choose the tags, and one that
    /// knew it could make them collide in the index.
    pub fn new(seed: u64) -> Self {
        Matcher {
            messages: Slots::new(),
            ready: Lane::new(seed),
            coming: Lane::new(seed),
            receives: Slots::new(),
            posted: Queue::new(),
            by_pattern: Index::new(seed, |entry| entry.pattern.key()),
        }
    }

    /// A message has arrived: takes away the oldest posted receive that matches it, if there is one.
    #[inline]
    pub fn arrive(&mut self, source: PeerId, tag: u64) -> Option<R> {
        if self.posted.is_empty() {
            return None;
        }
        let keys = [
            Key::Pair(source, tag),
            Key::Source(source),
            Key::Tag(tag),
            Key::Rest,
        ];
        let matches = |posted: &Posted<R>| posted.pattern.matches(source, tag);
        let slot = self
            .by_pattern
            .oldest(&self.receives, &self.posted, keys, matches)?;
        Some(self.remove_posted(slot))
    }

    /// Lets a message wait for a receive, as the youngest. `comes` if it is still on its way and will be
    /// here by itself, whereupon [`Matcher::has_come`] is to be called.
    ///
    /// # Panics
    ///
    /// If 2³¹ messages are waiting; the caller's budgets stop far below.
    #[inline]
    pub fn keep(&mut self, source: PeerId, tag: u64, payload: A, comes: bool) -> ArrivedKey {
        let place = if comes {
            Place::Coming
        } else if self.coming.first_of(&self.messages, source).is_some() {
            Place::Behind
        } else {
            Place::Ready
        };
        let slot = self.messages.insert(Arrived {
            source,
            place,
            tag,
            payload,
        });
        let (lane, messages) = self.lane(place);
        lane.push(messages, slot);
        ArrivedKey(self.messages.handle(slot))
    }

    /// A waiting message that would not have come unasked is on its way now. If it could be had already, by
    /// a receive that asks for it, that stays so.
    pub fn comes(&mut self, key: ArrivedKey) {
        if let Some(slot) = self.messages.locate(key.0) {
            let message = self.messages.get_mut(slot);
            if message.place == Place::Behind {
                message.place = Place::Coming;
            }
        }
    }

    /// A waiting message that was on its way is here.
    #[inline]
    pub fn has_come(&mut self, key: ArrivedKey) {
        if let Some(slot) = self.messages.locate(key.0) {
            let message = self.messages.get_mut(slot);
            if message.place == Place::Coming {
                message.place = Place::Behind;
                let source = message.source;
                self.advance(source);
            }
        }
    }

    /// Names the first waiting message that matches: the oldest that can be had, else the oldest that is coming.
    ///
    /// Needs `&mut self` because the look-up may extend the index.
    #[inline]
    pub fn first(&mut self, pattern: &Match) -> Option<ArrivedKey> {
        let slot = self.find_arrived(pattern)?;
        Some(ArrivedKey(self.messages.handle(slot)))
    }

    /// Whether [`Matcher::first`] is one that can be had at once.
    #[inline]
    pub fn can_be_had(&mut self, pattern: &Match) -> bool {
        let first = self.find_arrived(pattern);
        first.is_some_and(|slot| self.messages.get(slot).place != Place::Coming)
    }

    /// The first message that matches, can be had at once, and is of none of these peers. Visits all that wait.
    pub fn first_of_others(&self, pattern: &Match, but: &[PeerId]) -> Option<ArrivedKey> {
        let matches = |message: &Arrived<A>| {
            !but.contains(&message.source) && pattern.matches(message.source, message.tag)
        };
        let slot = self.ready.scan(&self.messages, matches)?;
        Some(ArrivedKey(self.messages.handle(slot)))
    }

    /// Takes away a waiting message, with its sender, its tag and its age; `None` if it waits no more.
    pub fn take(&mut self, key: ArrivedKey) -> Option<(u64, PeerId, u64, A)> {
        let slot = self.messages.locate(key.0)?;
        let stamp = self.messages.stamp(slot);
        let message = self.remove_arrived(slot);
        Some((stamp, message.source, message.tag, message.payload))
    }

    /// A waiting message, with its age, its sender and its tag.
    pub fn get(&self, key: ArrivedKey) -> Option<(u64, PeerId, u64, &A)> {
        steps::step();
        let slot = self.messages.locate(key.0)?;
        let (stamp, message) = (self.messages.stamp(slot), self.messages.get(slot));
        Some((stamp, message.source, message.tag, &message.payload))
    }

    /// The age of [`Matcher::first`]: of one sender's, lower stamps are older.
    #[inline]
    pub fn stamp_of(&mut self, pattern: &Match) -> Option<u64> {
        let slot = self.find_arrived(pattern)?;
        Some(self.messages.stamp(slot))
    }

    /// The stamp of a message that arrives now and is not kept.
    #[inline]
    pub fn pass(&mut self) -> u64 {
        self.messages.pass()
    }

    /// The payload of a waiting message; `None` if it waits no more.
    #[inline]
    pub fn get_mut(&mut self, key: ArrivedKey) -> Option<&mut A> {
        let slot = self.messages.locate(key.0)?;
        Some(&mut self.messages.get_mut(slot).payload)
    }

    /// Shows `keep` each waiting message from `source`, oldest first, and drops those for which it
    /// returns false. Visits every waiting message of every peer.
    pub fn retain_arrived(&mut self, source: PeerId, mut keep: impl FnMut(&mut A) -> bool) {
        for place in [Place::Ready, Place::Coming] {
            let mut next = self.lane(place).0.oldest();
            while let Some(slot) = next {
                next = self.messages.younger(slot);
                let message = self.messages.get_mut(slot);
                if message.source == source && !keep(&mut message.payload) {
                    self.take_out(slot);
                }
            }
        }
        self.advance(source);
    }

    /// Names the waiting messages that are such. Visits each that waits, once.
    pub fn all(&self, is_such: impl Fn(PeerId, u64) -> bool) -> Vec<ArrivedKey> {
        let such = self.slots().filter(|slot| {
            let message = self.messages.get(*slot);
            is_such(message.source, message.tag)
        });
        such.map(|slot| ArrivedKey(self.messages.handle(slot)))
            .collect()
    }

    fn slots(&self) -> impl Iterator<Item = Slot> {
        let lanes = [&self.ready, &self.coming].into_iter();
        lanes.flat_map(|lane| {
            std::iter::successors(lane.oldest(), |slot| self.messages.younger(*slot))
        })
    }

    /// How many messages wait for a receive.
    pub fn arrived_len(&self) -> usize {
        self.messages.len()
    }

    #[inline]
    fn lane(&mut self, place: Place) -> (&mut Lane<A>, &mut Slots<Arrived<A>>) {
        let lane = match place {
            Place::Ready => &mut self.ready,
            Place::Coming | Place::Behind => &mut self.coming,
        };
        (lane, &mut self.messages)
    }

    #[inline]
    fn find_arrived(&mut self, pattern: &Match) -> Option<Slot> {
        if let Some(ready) = self.ready.find(&self.messages, pattern) {
            return Some(ready);
        }
        let first = self.coming.find(&self.messages, pattern)?;
        let is_any = pattern.source.is_none() && pattern.mask != 0;
        match is_any && self.messages.get(first).place == Place::Coming {
            true => self.find_behind(pattern).or(Some(first)),
            false => Some(first),
        }
    }

    /// A message that waits only for earlier ones of its sender that don't match: among the first that are to come.
    fn find_behind(&mut self, pattern: &Match) -> Option<Slot> {
        let mut next = self.coming.oldest();
        for _ in 0..LOOKED_BEHIND {
            let slot = next?;
            let message = self.messages.get(slot);
            if message.place == Place::Behind && pattern.matches(message.source, message.tag) {
                let own = pattern.from(message.source);
                if self.coming.find(&self.messages, &own) == next {
                    return next;
                }
            }
            next = self.messages.younger(slot);
        }
        None
    }

    /// Those messages of a peer can be had that have nothing before them any more.
    fn advance(&mut self, source: PeerId) {
        while let Some(slot) = self.coming.first_of(&self.messages, source)
            && self.messages.get(slot).place == Place::Behind
        {
            self.coming.remove(&mut self.messages, slot);
            self.messages.get_mut(slot).place = Place::Ready;
            self.ready.push(&mut self.messages, slot);
        }
    }

    #[inline]
    fn remove_arrived(&mut self, slot: Slot) -> Arrived<A> {
        let message = self.take_out(slot);
        if message.place != Place::Ready {
            self.advance(message.source);
        }
        message
    }

    /// Takes a message away, and leaves those behind it where they are.
    #[inline]
    fn take_out(&mut self, slot: Slot) -> Arrived<A> {
        let (lane, messages) = self.lane(self.messages.get(slot).place);
        lane.remove(messages, slot);
        let message = self.messages.take(slot);
        if self.messages.shrink_if_drained() {
            self.ready.clear();
            self.coming.clear();
        }
        message
    }
}

/// Receives: what is waited for.
impl<A, R> Matcher<A, R> {
    /// Lets a receive wait for a message, as the youngest.
    ///
    /// # Panics
    ///
    /// If 2³¹ receives are waiting.
    #[inline]
    pub fn post(&mut self, pattern: Match, payload: R) -> PostedKey {
        let slot = self.receives.insert(Posted { pattern, payload });
        self.posted.push(&mut self.receives, slot);
        PostedKey(self.receives.handle(slot))
    }

    /// What a posted receive waits for; `None` if it was matched or cancelled before.
    pub fn pattern(&self, key: PostedKey) -> Option<Match> {
        let slot = self.receives.locate(key.0)?;
        Some(self.receives.get(slot).pattern)
    }

    /// Takes away a posted receive; `None` if it was matched or cancelled before.
    pub fn cancel(&mut self, key: PostedKey) -> Option<R> {
        let slot = self.receives.locate(key.0)?;
        Some(self.remove_posted(slot))
    }

    /// Takes away all posted receives that can be served by `source` only, oldest first, as when that
    /// peer has failed. Visits every posted receive.
    pub fn cancel_from(&mut self, source: PeerId, mut cancelled: impl FnMut(R)) {
        let mut next = self.posted.oldest();
        while let Some(slot) = next {
            next = self.receives.younger(slot);
            if self.receives.get(slot).pattern.source == Some(source) {
                cancelled(self.remove_posted(slot));
            }
        }
    }

    /// How many receives wait for a message.
    pub fn posted_len(&self) -> usize {
        self.receives.len()
    }

    #[inline]
    fn remove_posted(&mut self, slot: Slot) -> R {
        self.by_pattern.forget(&self.receives, slot);
        self.posted.remove(&mut self.receives, slot);
        let receive = self.receives.take(slot);
        if self.receives.shrink_if_drained() {
            self.by_pattern.clear();
        }
        receive.payload
    }
}

impl<A, R> fmt::Debug for Matcher<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matcher")
            .field("arrived", &self.arrived_len())
            .field("posted", &self.posted_len())
            .finish_non_exhaustive()
    }
}
