//! The way out: whose turn it is to send, and trains of packets for the driver.

use std::net::{IpAddr, SocketAddr};

use super::own_link::Unsent;
use super::session::Turn;
use super::{Node, Unsealed};
use crate::wire::Hello;
use crate::{Obstacle, PeerId, rare};

/// A train of datagrams for one peer, at the front of the buffer handed to
/// [`Node::poll_transmit`].
#[derive(Debug)]
pub struct Transmit {
    /// Where to.
    pub to: SocketAddr,
    /// The local address to send from, if the socket has several.
    pub from: Option<IpAddr>,
    /// Bytes in all.
    pub bytes: usize,
    /// Bytes of each datagram; the last may be shorter.
    pub segment: usize,
    /// Switches may mark them: send them as ECT(0) (ECN, RFC 3168).
    pub ecn: bool,
    /// It is one packet, and may leave before what waits for this host's own link: words about credit, that is, and what
    /// is alone on its way to a peer. Nothing waits there to the same peer, so order stays.
    pub express: bool,
    /// It is for this very host, as far as addresses tell, and does not go over the host's own link.
    pub stays_here: bool,
    /// With [`crate::Config::seal_below`]: it is still to be sealed, with this, before it leaves.
    pub unsealed: Option<Unsealed>,
}

/// Whether a peer's address is the one that it is talked to from.
fn is_here(peer: IpAddr, local: Option<IpAddr>, only: Option<IpAddr>) -> bool {
    let peer = peer.to_canonical();
    peer.is_loopback() || local.or(only).is_some_and(|own| own.to_canonical() == peer)
}

impl Node {
    /// Fills `out` with the next train to send, or returns `None` if nothing may be sent now.
    /// `out` should hold 64 KiB; it must hold one datagram of the configured size.
    pub fn poll_transmit(&mut self, now_ns: u64, out: &mut [u8]) -> Option<Transmit> {
        let now_ns = self.hub.clock.lived(now_ns);
        if let Some(letter) = rare::pop_front(&mut self.outbox) {
            out[..letter.bytes.len()].copy_from_slice(&letter.bytes);
            return Some(Transmit {
                to: letter.path.peer,
                from: letter.path.local,
                bytes: letter.bytes.len(),
                segment: letter.bytes.len(),
                ecn: false,
                express: false,
                stays_here: is_here(
                    letter.path.peer.ip(),
                    letter.path.local,
                    self.hub.config.address,
                ),
                unsealed: None,
            });
        }
        while let Some((index, takes_data)) = self.next_turn(now_ns) {
            // Room for a body, given by the program, is a reason to give credit for it.
            self.give_pressing_credit(index, now_ns);
            self.catch_up_before_sending(index, now_ns);
            let peer = &mut self.peers[index];
            let Some(link) = peer.link.as_mut() else {
                continue;
            };
            let Some(session) = link.session.as_mut() else {
                continue;
            };
            let hub = &mut self.hub;
            let turn = match takes_data {
                _ if is_here(peer.addr.ip(), peer.local, hub.config.address) => Turn::Here,
                false => Turn::Words,
                true if hub.own_link.is_trial_due(now_ns) => Turn::Trial,
                true => Turn::Data,
            };
            let kept = self.kept_rest.filter(|(of, _)| *of == index);
            hub.rest_bytes = kept.map_or(0, |(_, bytes)| bytes);
            let before = session.channel.sent.standing();
            let first = session.channel.sent.next_number();
            let train = session.build_train(&mut link.outgoing, out, turn, hub, now_ns);
            let own_link = &mut self.hub.own_link;
            let express = own_link.may_hold_others(index, now_ns)
                && session.overtakes(before, &train, &link.outgoing);
            if !express && turn != Turn::Here && session.channel.sent.ahead() > before.ahead {
                if turn == Turn::Trial {
                    own_link.try_with(session.local, first, now_ns);
                }
                own_link.on_data(index, train.bytes, now_ns);
            }
            let defers = turn == Turn::Words
                && link.outgoing.has_sendable()
                && session.may_leave(&link.outgoing);
            let transmit = Transmit {
                to: peer.addr,
                from: peer.local,
                bytes: train.bytes,
                segment: train.segment,
                ecn: session.features & Hello::ECN != 0,
                express,
                stays_here: turn == Turn::Here,
                unsealed: session.unsealed(),
            };
            if defers && !std::mem::replace(&mut peer.deferred, true) {
                self.deferred.push_back(index);
                self.hub.own_link.on_deferred();
            }
            self.arm_later(index);
            if train.bytes > 0 {
                self.hub.granter.on_sent(train.bytes as u64);
                if train.more || kept.is_some() {
                    self.enqueue(index);
                }
                return Some(transmit);
            }
        }
        None
    }

    /// Of what waits for this peer, less than so many bytes may stay behind a train from now on, for what is sent next to leave with;
    /// `None`: no more. The peer stays queued, and whoever goes on with [`Node::poll_transmit`] gets the rest.
    pub fn keep_rest(&mut self, of: Option<(PeerId, usize)>) {
        self.kept_rest = of.and_then(|(peer, bytes)| Some((self.peers.index(peer)?, bytes)));
    }

    /// Whether something else may leave than messages to this peer: what is for others, and words.
    pub fn may_send_beside(&self, now_ns: u64, peer: PeerId) -> bool {
        let index = self.peers.index(peer);
        let is_another = |&other: &u32| Some(other) != index;
        let opens = || self.hub.own_link.opens_ns().is_none();
        !self.outbox.is_empty()
            || self.queue.iter().any(is_another)
            || (self.deferred.iter().any(is_another) && opens())
            || index.is_some_and(|index| self.has_words(index, now_ns))
    }

    fn has_words(&self, index: u32, now_ns: u64) -> bool {
        let now_ns = now_ns.saturating_sub(self.hub.clock.stalled_ns);
        let Some(link) = &self.peers[index].link else {
            return false;
        };
        let session = link.session.as_ref();
        session.is_some_and(|session| session.has_words(&link.outgoing, now_ns))
    }

    /// Whose turn it is, and whether data may leave for that peer now: not while this host's own link has enough of them, or others
    /// wait for that since before.
    #[inline]
    fn next_turn(&mut self, now_ns: u64) -> Option<(u32, bool)> {
        let is_full = self.hub.own_link.is_full(now_ns);
        if let Some(index) = self.queue.pop_front() {
            self.peers[index].queued = false;
            return Some((index, !is_full && self.deferred.is_empty()));
        }
        if is_full {
            return None;
        }
        let index = self.deferred.pop_front()?;
        self.peers[index].deferred = false;
        Some((index, true))
    }

    /// The system says what still waits for this host's own link, if the driver can ask. Trains are then no longer than what that link
    /// takes at a time, so that what is urgent does not wait for long ones, and data stay here while it has enough to do. To ask is
    /// optional; who does so asks before each sending call as long as something waits, before the first few, and now and then
    /// otherwise; behind those calls as well, to tell what left at once.
    pub fn handle_unsent(&mut self, seen: Unsent) {
        let clock = &mut self.hub.clock;
        clock.lived(seen.at_ns);
        let at_ns = seen.at_ns.saturating_sub(clock.stalled_ns);
        self.hub.own_link.on_unsent(Unsent { at_ns, ..seen });
    }

    /// The system refused a datagram of `bytes` to this address as too large for the interface.
    pub fn handle_too_big(&mut self, now_ns: u64, to: SocketAddr, bytes: usize) {
        self.catch_up();
        let now_ns = self.hub.clock.lived(now_ns);
        for index in self.peers.indices() {
            let peer = &mut self.peers[index];
            if peer.addr != to {
                continue;
            }
            let Some(link) = peer.link.as_mut() else {
                continue;
            };
            if let Some(session) = link.session.as_mut() {
                session.on_too_big(bytes, &mut link.outgoing, &mut self.hub, now_ns);
                self.enqueue(index);
            } else {
                self.shrink_attempt(index, bytes, now_ns);
            }
        }
    }

    /// This local address is not the machine's any more: where to leave from is the system's choice again,
    /// for all peers that were talked to from there. They are sent something at once, so that they
    /// learn of the other address before they count this node as silent.
    pub fn handle_source_gone(&mut self, local: IpAddr) {
        for index in self.peers.indices() {
            let peer = &mut self.peers[index];
            if peer.local.take_if(|known| *known == local).is_none() {
                continue;
            }
            tracing::info!(peer = %peer.id, "a local address is gone");
            if let Some(session) = peer.session_mut() {
                session.ping();
                self.enqueue(index);
            }
        }
    }

    /// The network hints that this address can't be reached (ICMP), or the system refused a datagram
    /// to it. A verdict only on a connection that is being made, if the system says what will not
    /// change ([`Obstacle::is_lasting`]). Else a peer with a connection is asked at once for a sign of
    /// life, and what is in the way is named should none come.
    pub fn handle_unreachable_hint(&mut self, now_ns: u64, to: SocketAddr, obstacle: Obstacle) {
        let now_ns = self.hub.clock.lived(now_ns);
        for index in self.peers.indices() {
            let peer = &mut self.peers[index];
            if peer.addr != to {
                continue;
            }
            let Some(link) = peer.link.as_mut() else {
                continue;
            };
            if let Some(attempt) = &mut link.attempt {
                attempt.obstacle = Some(obstacle.beside(attempt.obstacle));
            }
            if let Some(session) = &mut link.session {
                session.on_unreachable_hint(obstacle, now_ns);
                self.enqueue(index);
            } else if obstacle.is_lasting() {
                self.give_up_attempt(index, now_ns);
            }
        }
    }
}
