//! The table of peers, and the table of connection identifiers (H4).

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;
use std::ops::{Index, IndexMut};

use super::ends::Ended;
use super::handshake::{Attempt, HalfOpen};
use super::session::Session;
use crate::channel::BASE_DATAGRAM;
use crate::error::PeerLost;
use crate::message::{LinkRef, Outgoing, SendWindow};
use crate::rare::{Empty, Rare};
use crate::seal::Entropy;
use crate::wire::{ConnectionId, Entry, Frame, Hello, INLINE_MAX, INLINE_MAX_AT_FIRST, Prelude};
use crate::{Config, Congestion, LinkState, PeerId, Quality};

/// Room kept free beside a chunk of the log for an acknowledgement without many gaps.
const ACK_ROOM: usize = 64;

/// Room for a chunk of the log in a packet of `datagram` bytes.
pub(super) fn chunk_max(datagram: usize) -> usize {
    const SEAL: usize = 16;
    const {
        assert!(
            Entry::MAX_HEADER + INLINE_MAX
                < 1_200 - Prelude::LEN - SEAL - Frame::ENTRIES_HEADER - ACK_ROOM
        )
    };
    datagram - Prelude::LEN - SEAL - Frame::ENTRIES_HEADER - ACK_ROOM
}

/// Hashes ids that the program or an authenticated peer chose; mixing is enough.
#[derive(Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        let mixed = (self.0 ^ u64::from(value)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

/// A peer known by its address; with a [`Link`] once there is something to say.
#[derive(Debug)]
pub(crate) struct Peer {
    pub id: PeerId,
    pub addr: SocketAddr,
    /// The local address that the peer talks to, where that is not the only one.
    pub local: Option<IpAddr>,
    /// Counts the links, so that nothing of an old one is settled with a new one.
    pub generation: u32,
    /// Whether the peer is in the node's send queue.
    pub queued: bool,
    /// Whether its data wait until this host's own link takes more.
    pub deferred: bool,
    /// Whether the peer's timer is to be looked at.
    pub changed: bool,
    /// The peer said goodbye: packets on dead connections need no answer.
    pub farewell: bool,
    /// The entry in the timer heap that counts.
    pub timer_at_ns: u64,
    /// Changed by [`super::Node::happen`] only.
    pub state: LinkState,
    pub link: Option<Box<Link>>,
    /// What the program wants of what it sends there, if it has said so.
    pub wants: Rare<Wants>,
    /// How connections have ended.
    pub lost: Option<Box<Ended>>,
}

/// What the program has said of what it sends to one peer; it outlives connections.
#[derive(Debug, Default)]
pub(crate) struct Wants {
    pub quality: Quality,
    /// In place of what holds for others.
    pub congestion: Option<Congestion>,
    /// Bytes a second at most.
    pub max_pacing_rate: Option<NonZeroU64>,
    /// What is lost waits for the program.
    pub keeps_lost: bool,
}

impl Empty for Wants {
    #[inline]
    fn empty() -> &'static Self {
        static EMPTY: Wants = Wants {
            quality: Quality::Even,
            congestion: None,
            max_pacing_rate: None,
            keeps_lost: false,
        };
        &EMPTY
    }
}

impl Peer {
    pub fn session(&self) -> Option<&Session> {
        self.link.as_ref()?.session.as_ref()
    }

    pub fn session_mut(&mut self) -> Option<&mut Session> {
        self.link.as_mut()?.session.as_mut()
    }

    /// Whether something may leave for it that had to wait until now.
    pub fn is_due_to_send(&self, now_ns: u64) -> bool {
        let Some(link) = &self.link else {
            return false;
        };
        link.session.as_ref().is_some_and(|session| {
            let ack = session.channel.received.deadline();
            ack.is_some_and(|at| at <= now_ns) || session.is_released(&link.outgoing, now_ns)
        })
    }

    /// Its entry in the timer heap counts no more.
    pub fn forget_timer(&mut self) {
        self.set_timer(u64::MAX);
    }

    /// This entry in the timer heap counts now.
    pub fn set_timer(&mut self, at_ns: u64) {
        self.timer_at_ns = at_ns;
        self.put_off(at_ns);
    }

    /// The timer is due then, and no sooner.
    pub fn put_off(&mut self, due_ns: u64) {
        let off_ns = due_ns - self.timer_at_ns;
        if let Some(session) = self.session_mut() {
            session.put_off_ns = u32::try_from(off_ns).unwrap_or(u32::MAX);
        }
    }

    /// When the timer is due, as it was last settled: that may be later than its entry in the heap says.
    pub fn due_ns(&self) -> u64 {
        match self.session().map_or(0, |session| session.put_off_ns) {
            u32::MAX => u64::MAX,
            off_ns => self.timer_at_ns.saturating_add(off_ns.into()),
        }
    }

    /// Why a connection ended, if the program is to be told of it still; says it once.
    #[inline]
    pub fn take_untold(&mut self) -> Option<PeerLost> {
        let ended = self.lost.as_deref_mut().filter(|ended| ended.is_untold());
        ended.map(Ended::tell)
    }

    pub fn reference(&self, index: u32) -> LinkRef {
        LinkRef {
            peer: index,
            generation: self.generation,
        }
    }
}

/// A connection that is open, or being made; messages queue from the start.
#[derive(Debug, Default)]
pub(crate) struct Link {
    pub outgoing: Outgoing,
    pub session: Option<Session>,
    pub attempt: Option<Box<Attempt>>,
}

impl Link {
    /// The span of what it is doing.
    pub fn span_id(&self) -> Option<tracing::span::Id> {
        let session = self.session.as_ref().map(|session| &session.span);
        let attempt = || self.attempt.as_ref().map(|attempt| &attempt.span);
        session.or_else(attempt)?.id()
    }

    #[inline]
    pub fn send_window(&self, config: &Config) -> SendWindow {
        match &self.session {
            Some(session) => session.send_window(config),
            None => SendWindow {
                inline_max: INLINE_MAX_AT_FIRST,
                eager_max: config.eager_max,
                queue_max: config.send_queue_bytes,
                chunk_max: chunk_max(BASE_DATAGRAM),
            },
        }
    }
}

/// What a connection identifier stands for.
#[derive(Debug)]
pub(crate) enum Target {
    Free,
    /// Given out for a handshake that is just being answered.
    Reserved,
    /// This side began a handshake with the peer.
    Attempt(u32),
    /// The other side began one, and has not proven itself yet.
    HalfOpen(Box<HalfOpen>),
    Open(u32),
}

/// How both sides name a handshake that the other one began.
#[derive(Debug)]
struct Begun {
    local: ConnectionId,
    remote: ConnectionId,
}

#[derive(Debug)]
struct Slot {
    id: ConnectionId,
    target: Target,
}

/// All peers, and all connection identifiers given out.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    peers: Vec<Peer>,
    by_id: HashMap<PeerId, u32, BuildHasherDefault<IdHasher>>,
    /// What was last looked up: most often it is the next one, too.
    latest: Cell<Option<(PeerId, u32)>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Handshakes that others have begun and not finished, oldest first; a bounded number.
    half_open: VecDeque<Begun>,
}

impl Peers {
    /// Adds a peer, or corrects the address of one that has no link, or that the program has
    /// disconnected from.
    pub fn add(&mut self, id: PeerId, addr: SocketAddr) -> u32 {
        if let Some(index) = self.index(id) {
            let peer = &mut self.peers[index as usize];
            if peer.link.is_none() || peer.state.is_disconnected() {
                peer.addr = addr;
            }
            return index;
        }
        let index = self.peers.len() as u32;
        self.peers.push(Peer {
            id,
            addr,
            local: None,
            generation: 0,
            queued: false,
            deferred: false,
            changed: false,
            farewell: false,
            timer_at_ns: u64::MAX,
            state: LinkState::Known,
            link: None,
            wants: Rare::default(),
            lost: None,
        });
        self.by_id.insert(id, index);
        index
    }

    #[inline]
    pub fn index(&self, id: PeerId) -> Option<u32> {
        match self.latest.get() {
            Some((latest, index)) if latest == id => Some(index),
            _ => self.look_up(id),
        }
    }

    fn look_up(&self, id: PeerId) -> Option<u32> {
        let index = *self.by_id.get(&id)?;
        self.latest.set(Some((id, index)));
        Some(index)
    }

    pub fn len(&self) -> usize {
        self.peers.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter()
    }

    pub fn indices(&self) -> std::ops::Range<u32> {
        0..self.peers.len() as u32
    }

    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut Peer> {
        self.peers.get_mut(index as usize)
    }

    /// Gives out a connection identifier.
    pub fn new_slot(&mut self, target: Target, entropy: &mut Entropy) -> ConnectionId {
        let index = self.free.pop().unwrap_or(self.slots.len() as u32);
        let id = ConnectionId::new(index, entropy.next_u64());
        let slot = Slot { id, target };
        match self.slots.get_mut(index as usize) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        id
    }

    /// An identifier now stands for a handshake that the other side began.
    pub fn set_half_open(&mut self, id: ConnectionId, half: HalfOpen) {
        let (local, remote) = (id, half.remote());
        if let Some(target) = self.target(id) {
            *target = Target::HalfOpen(Box::new(half));
            self.half_open.push_back(Begun { local, remote });
        }
    }

    /// Takes an identifier back, and what it stood for.
    pub fn free_slot(&mut self, id: ConnectionId) -> Target {
        let Some(slot) = self.slots.get_mut(id.slot()).filter(|slot| slot.id == id) else {
            return Target::Free;
        };
        let target = std::mem::replace(&mut slot.target, Target::Free);
        match target {
            Target::Free => return Target::Free,
            Target::HalfOpen(_) => self.finish_half_open(id),
            _ => {}
        }
        self.free.push(id.slot() as u32);
        target
    }

    /// What an identifier stands for: one table look-up.
    #[inline]
    pub fn target(&mut self, id: ConnectionId) -> Option<&mut Target> {
        let slot = self.slots.get_mut(id.slot())?;
        (slot.id == id).then_some(&mut slot.target)
    }

    /// The peer to which the handshake with this slot goes.
    pub fn attempt_at(&self, slot: usize) -> Option<u32> {
        match self.slots.get(slot)?.target {
            Target::Attempt(index) => Some(index),
            _ => None,
        }
    }

    /// Turns a half-open connection's identifier into an open one's; returns what it held.
    pub fn open_slot(&mut self, id: ConnectionId, index: u32) -> Option<Target> {
        let target = std::mem::replace(self.target(id)?, Target::Open(index));
        if matches!(target, Target::HalfOpen(_)) {
            self.finish_half_open(id);
        }
        Some(target)
    }

    fn finish_half_open(&mut self, id: ConnectionId) {
        // Mostly the oldest.
        let place = self.half_open.iter().position(|begun| begun.local == id);
        place.and_then(|place| self.half_open.remove(place));
    }

    /// How many handshakes others have begun and not finished.
    pub fn half_open(&self) -> usize {
        self.half_open.len()
    }

    /// Those handshakes, oldest first.
    pub fn half_opens(&self) -> impl Iterator<Item = (ConnectionId, &HalfOpen)> {
        self.half_open
            .iter()
            .filter_map(|begun| match &self.slots[begun.local.slot()].target {
                Target::HalfOpen(half) => Some((begun.local, &**half)),
                _ => None,
            })
    }

    /// The one that was begun with this hello. Only those that are named so are looked at: a flood of
    /// repetitions asks often.
    pub fn half_open_of(&mut self, hello: &Hello) -> Option<&mut HalfOpen> {
        let named = self.half_open.iter();
        let mut named = named.filter(|begun| begun.remote == hello.connection);
        let slot = named.find_map(|begun| match &self.slots[begun.local.slot()].target {
            Target::HalfOpen(half) if half.is_of(hello) => Some(begun.local.slot()),
            _ => None,
        })?;
        match &mut self.slots[slot].target {
            Target::HalfOpen(half) => Some(half),
            _ => None,
        }
    }
}

impl Index<u32> for Peers {
    type Output = Peer;

    #[inline]
    fn index(&self, index: u32) -> &Peer {
        &self.peers[index as usize]
    }
}

impl IndexMut<u32> for Peers {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Peer {
        &mut self.peers[index as usize]
    }
}
