//! The node: every peer of one process, driven by the contract at the crate's root.

mod apart;
mod arrivals;
mod clock;
mod ends;
mod flow;
mod gate;
mod handshake;
mod hub;
mod keyring;
mod later;
mod own_link;
mod path;
mod peers;
mod receive;
mod resend;
mod sends;
mod session;
mod snapshot;
mod spans;
mod strays;
mod takes;
mod terms;
mod timers;
mod transmit;
mod vain;
mod value;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use crate::credit::Owed;
use crate::error::{PeerLost, SendError};
use crate::event::Event;
use crate::message::{Inbox, LinkRef, Pool};
use crate::seal::{CookieJar, Entropy};
use crate::state::Happening;
use crate::stats::Dropped;
use crate::wire::{CloseReason, RejectReason};
use crate::{Config, PeerId};
use ends::Ended;
use gate::Gate;
use hub::{Hub, SendState};
pub use keyring::{KeyNews, Keyring, Unsealed};
pub use own_link::Unsent;
use peers::Peers;
pub use receive::Opened;
pub use sends::Waiting;
use strays::Strays;
pub use transmit::Transmit;

/// Stands in the timer heap for handshakes that others have begun, in place of a peer's index.
const HALF_OPEN_TIMER: u32 = u32::MAX;
/// Stands there for the next grant of credit.
const GRANT_TIMER: u32 = u32::MAX - 1;

/// One process's end of all its connections. See the crate's driving contract.
#[derive(Debug)]
pub struct Node {
    incarnation: u64,
    peers: Peers,
    hub: Hub,
    /// Peers that may have something to send.
    queue: VecDeque<u32>,
    /// Whose rest stays behind a train, and less than how many bytes of it.
    kept_rest: Option<(u32, usize)>,
    /// Peers whose data wait until this host's own link takes more, in the order of their turns.
    deferred: VecDeque<u32>,
    timers: BinaryHeap<Reverse<(u64, u32)>>,
    /// Peers whose next deadline, or credit, may have changed since it was last looked at: that is
    /// done when somebody asks, which may be after the answer to a message has left.
    changed: Vec<u32>,
    /// Handshake packets to send.
    outbox: VecDeque<handshake::Letter>,
    gate: Gate,
    entropy: Entropy,
    cookies: CookieJar,
    /// When the entry for the next grant that counts is due.
    grants_at_ns: u64,
    /// The same for handshakes that others have begun.
    half_open_at_ns: u64,
    /// Scratch: peers whose credit was raised.
    owed: Vec<(u32, Owed)>,
    /// What is still to come from the peer that was heard last, as far as it may.
    expected_bytes: u64,
    strays: Strays,
    dropped: Dropped,
    /// Whose handshake was turned away last, and why.
    rejected_last: Option<(SocketAddr, RejectReason)>,
    closing: bool,
}

/// Which way datagrams go: the peer's address, and the local one that it talks to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub peer: SocketAddr,
    pub local: Option<IpAddr>,
}

impl Node {
    /// A node without peers, of one seed, for runs that are to repeat. Keys come from it, too, and it stays in memory: whoever
    /// reads that later can read what was recorded. Where that matters: [`Node::with_secrets`].
    pub fn new(config: Config, seed: [u8; 32]) -> Self {
        Node::of(config, Entropy::from_seed(seed))
    }

    /// A node without peers. Both must be fresh randomness: identifiers come from `seed`, and keys from `secrets` as well, of
    /// which the node keeps nothing. Whoever calls wipes it.
    pub fn with_secrets(config: Config, seed: [u8; 32], secrets: &[u8; 32]) -> Self {
        Node::of(config, Entropy::with_secrets(seed, secrets))
    }

    fn of(config: Config, mut entropy: Entropy) -> Self {
        let config = config.within_limits();
        let cookies = CookieJar::new(&mut entropy);
        let gate = Gate::new(&config.mode);
        Node {
            incarnation: entropy.next_u64(),
            peers: Peers::default(),
            hub: Hub::new(config, entropy.next_u64()),
            queue: VecDeque::new(),
            kept_rest: None,
            deferred: VecDeque::new(),
            timers: BinaryHeap::new(),
            changed: Vec::new(),
            outbox: VecDeque::new(),
            gate,
            cookies,
            entropy,
            grants_at_ns: u64::MAX,
            half_open_at_ns: u64::MAX,
            owed: Vec::new(),
            expected_bytes: 0,
            strays: Strays::default(),
            dropped: Dropped::default(),
            rejected_last: None,
            closing: false,
        }
    }

    /// This process's id.
    pub fn id(&self) -> PeerId {
        self.hub.config.id
    }

    /// The random number that names this life of the process.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// How the node behaves.
    pub fn config(&self) -> &Config {
        &self.hub.config
    }

    /// Buffers of arriving messages; see [`Pool`].
    pub fn pool(&self) -> &Pool {
        &self.hub.mailbox.pool
    }

    /// Adds a peer, or corrects the address of one that has no connection, or that this program has
    /// disconnected from.
    pub fn add_peer(&mut self, peer: PeerId, addr: SocketAddr) {
        self.peers.add(peer, addr);
    }

    /// Peers known.
    pub fn peer_ids(&self) -> impl Iterator<Item = PeerId> + '_ {
        self.peers.iter().map(|peer| peer.id)
    }

    /// Begins a connection, unless there is one or one is being made. A node needs none to itself.
    ///
    /// # Errors
    /// [`SendError::UnknownPeer`], [`SendError::Disconnected`], [`SendError::Closed`].
    pub fn connect(&mut self, now_ns: u64, peer: PeerId) -> Result<(), SendError> {
        if peer == self.id() {
            return Ok(());
        }
        let now_ns = self.hub.clock.lived(now_ns);
        let index = self.steerable(peer)?;
        self.check_connected(index)?;
        self.ensure_link(index, now_ns);
        Ok(())
    }

    /// Whether [`Node::poll_transmit`] or [`Node::take_key_news`] may have something.
    #[inline]
    pub fn has_queued(&self) -> bool {
        !self.queue.is_empty()
            || (!self.deferred.is_empty() && self.hub.own_link.opens_ns().is_none())
            || !self.outbox.is_empty()
            || !self.hub.keys.news.is_empty()
    }

    /// Moves to the end of `into` what a [`Keyring`] is to hear. Never anything, unless
    /// [`crate::Config::open_below`] asks for that.
    #[inline]
    pub fn take_key_news(&mut self, into: &mut Vec<KeyNews>) {
        into.append(&mut self.hub.keys.news);
    }

    #[inline]
    fn enqueue(&mut self, index: u32) {
        enqueue(&mut self.peers, &mut self.queue, index);
    }

    /// What happened since this was last called, oldest first. Of events that nobody fetches the
    /// latest 4,096 are kept; [`NodeStats::events_dropped`](crate::NodeStats::events_dropped) counts
    /// the others.
    pub fn next_event(&mut self) -> Option<Event> {
        self.hub.pop_event()
    }

    /// Ends a peer's connection, and tells the program.
    fn lose(&mut self, index: u32, why: PeerLost) {
        self.catch_up_with(index);
        let peer = &mut self.peers[index];
        let Some(mut link) = peer.link.take() else {
            return;
        };
        let id = peer.id;
        let reference = peer.reference(index);
        peer.generation = peer.generation.wrapping_add(1);
        peer.forget_timer();
        peer.farewell = matches!(why, PeerLost::Closed);
        let mut inbox = Inbox {
            mailbox: &mut self.hub.mailbox,
            source: id,
            link: reference,
        };
        self.hub.past.add(&link.counters());
        if let Some(session) = &mut link.session {
            session.incoming.on_lost(&mut inbox, &why);
            self.hub.granter.forget(index);
            self.hub.keys.remove(session.local);
            self.peers.free_slot(session.local);
        }
        if let Some(attempt) = &mut link.attempt {
            attempt.log_credit.release(inbox.mailbox);
            self.peers.free_slot(attempt.local);
        }
        self.hub.mailbox.on_link_lost(id, reference, &why);
        self.happen(index, Happening::End, self.hub.clock.latest());
        self.hub.ends += 1;
        let end = self.hub.ends;
        for ticket in link.outgoing.drain_tickets() {
            if let Some(state) = self.hub.sends.get_mut(ticket) {
                let (peer, why) = (id, why.clone());
                *state = SendState::Lost { peer, end, why };
            }
        }
        tracing::info!(parent: link.span_id(), peer = %id, %why, "connection lost");
        let unsent_messages = link.outgoing.pending_messages();
        let last = self.peers[index].lost.take();
        let ended = Ended::after(last, end, &why, unsent_messages > 0);
        self.peers[index].lost = Some(Box::new(ended));
        self.hub.push_event(Event::Lost {
            peer: id,
            why,
            unsent_messages,
        });
    }

    /// Takes no more messages for sending.
    pub fn stop_sending(&mut self) {
        self.catch_up();
        self.closing = true;
        self.release_all();
        for index in self.peers.indices() {
            if let Some(session) = self.peers[index].session_mut() {
                session.hurry();
                self.enqueue(index);
            }
        }
    }

    /// Ends all connections. Peers are told, and asked to confirm: drive the node until
    /// [`Node::is_closed`], or as long as you care to.
    pub fn close(&mut self) {
        self.closing = true;
        self.outbox.retain(|letter| !letter.is_init());
        self.drop_handshakes();
        for index in self.peers.indices() {
            if let Some(session) = self.peers[index].session_mut() {
                session.close(CloseReason::Finished);
                self.happen(index, Happening::Close, self.hub.clock.latest());
                self.enqueue(index);
            } else if self.peers[index].link.is_some() {
                self.lose(index, PeerLost::ClosedHere);
            }
        }
    }

    /// Whether all connections have ended, and the peers have been told what they wait to hear.
    pub fn is_closed(&self) -> bool {
        self.outbox.is_empty() && self.peers.iter().all(|peer| peer.link.is_none())
    }
}

/// Queues a peer that may have something to send.
#[inline]
fn enqueue(peers: &mut Peers, queue: &mut VecDeque<u32>, index: u32) {
    if let Some(peer) = peers.get_mut(index)
        && !std::mem::replace(&mut peer.queued, true)
    {
        queue.push_back(index);
    }
}

#[cfg(test)]
mod tests;
