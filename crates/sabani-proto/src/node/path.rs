//! A peer whose packets come from another address: a NAT has forgotten it, or its host has moved.
//!
//! Packets for it go to the old address until somebody at the new one has answered a challenge
//! under the connection's keys (RFC 9000, section 8.2). Only the newest packet of a connection
//! begins that, so that old ones that were delayed or recorded begin nothing; and nobody is sent
//! more bytes than came from there.

use std::net::SocketAddr;

use super::hub::Hub;
use super::session::Session;
use super::{Node, Path};
use crate::event::Event;
use crate::message::Outgoing;
use crate::wire::{Frame, Prelude, Writer};

/// What packets have told of paths.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    /// The peer wants an answer to this.
    challenge: Option<u64>,
    /// The peer has answered this.
    response: Option<u64>,
    candidate: Option<Candidate>,
}

/// Another address that the peer may have.
#[derive(Debug)]
struct Candidate {
    path: Path,
    token: u64,
    /// Bytes that have come from there, less those that were sent there.
    allowance: u64,
    /// No challenge goes out before this.
    next_ns: u64,
}

/// What had come over a connection before a batch of packets.
#[derive(Clone, Copy)]
pub(super) struct Before {
    largest: Option<u64>,
    bytes: u64,
}

impl Session {
    /// What has come so far.
    #[inline]
    pub fn so_far(&self) -> Before {
        Before {
            largest: self.channel.received.packets.largest(),
            bytes: self.counters.bytes_received,
        }
    }

    fn paths_mut(&mut self) -> &mut Paths {
        &mut self.seldom.get_or_insert_default().paths
    }

    /// Whether packets have told of paths, or another one may be on trial.
    #[inline]
    pub fn has_path_news(&self) -> bool {
        let paths = self.seldom.as_ref().map(|seldom| &seldom.paths);
        paths.is_some_and(|paths| {
            paths.challenge.is_some() || paths.response.is_some() || paths.candidate.is_some()
        })
    }

    /// A frame about paths has come.
    pub fn on_path_frame(&mut self, frame: &Frame<'_>) {
        let paths = self.paths_mut();
        match *frame {
            Frame::PathChallenge(token) => paths.challenge = Some(token),
            Frame::PathResponse(token) => paths.response = Some(token),
            _ => {}
        }
    }

    /// Takes note of packets that came over `path`, the first of them after `before`; `at` is where
    /// the peer is. Returns whether it has proven now that `path` leads to it, too.
    fn on_path(&mut self, path: Path, at: SocketAddr, before: Before, token: u64) -> bool {
        let now = self.so_far();
        let newest = now.largest > before.largest;
        let paths = self.paths_mut();
        let response = paths.response.take();
        if path.peer == at {
            // It is where it was after all.
            paths.candidate.take_if(|_| newest);
            return false;
        }
        let known = paths.candidate.as_ref();
        if newest && known.is_none_or(|candidate| candidate.path.peer != path.peer) {
            paths.candidate = Some(Candidate {
                path,
                token,
                allowance: 0,
                next_ns: 0,
            });
        }
        let candidate = paths.candidate.as_mut();
        let Some(candidate) = candidate.filter(|candidate| candidate.path.peer == path.peer) else {
            return false;
        };
        candidate.allowance += now.bytes - before.bytes;
        response == Some(candidate.token)
    }

    /// The answer to a challenge that came over `path`, if one did.
    fn take_response(&mut self, hub: &mut Hub, now_ns: u64) -> Option<Vec<u8>> {
        let token = self.paths_mut().challenge.take()?;
        Some(self.build_alone(&Frame::PathResponse(token), hub, now_ns))
    }

    /// A challenge for another address that the peer may have, if one is due.
    fn take_challenge(&mut self, hub: &mut Hub, now_ns: u64) -> Option<(Path, Vec<u8>)> {
        let retry_ns = now_ns + self.channel.rtt.patience_ns();
        let bytes = self.alone_bytes() as u64;
        let candidate = self.paths_mut().candidate.as_mut()?;
        if candidate.allowance < bytes || now_ns < candidate.next_ns {
            return None;
        }
        candidate.allowance -= bytes;
        candidate.next_ns = retry_ns;
        let (path, frame) = (candidate.path, Frame::PathChallenge(candidate.token));
        Some((path, self.build_alone(&frame, hub, now_ns)))
    }

    /// Bytes of a packet with nothing but a frame about paths.
    fn alone_bytes(&self) -> usize {
        Prelude::LEN + Frame::PathChallenge(0).wire_len() + self.tx.overhead()
    }

    fn build_alone(&mut self, frame: &Frame<'_>, hub: &mut Hub, now_ns: u64) -> Vec<u8> {
        let mut packet = vec![0; self.alone_bytes()];
        frame.write(&mut Writer::new(&mut packet[Prelude::LEN..]));
        hub.contents.clear();
        self.finish_letter(&mut packet, hub, now_ns);
        packet
    }

    /// Packets go another way from now on: what was on its way goes again, and what is known of the
    /// old path is forgotten if the new one leads to another host.
    fn on_moved(&mut self, far: bool, outgoing: &mut Outgoing, hub: &mut Hub, now_ns: u64) {
        self.channel.on_new_path(far, now_ns);
        self.send_all_again(outgoing, hub, now_ns);
    }
}

impl Node {
    /// Packets came over another path than the peer's, or told something of paths.
    #[cold]
    pub(super) fn look_at_path(&mut self, index: u32, path: Path, before: Before, now_ns: u64) {
        self.catch_up_with(index);
        let token = self.entropy.next_u64();
        let peer = &mut self.peers[index];
        let at = peer.addr;
        let Some(session) = peer.session_mut() else {
            return;
        };
        if session.so_far().bytes == before.bytes {
            return;
        }
        let moved = session.on_path(path, at, before, token);
        let response = session.take_response(&mut self.hub, now_ns);
        if moved {
            session.paths_mut().candidate = None;
        }
        let challenge = session.take_challenge(&mut self.hub, now_ns);
        let response = response.map(|bytes| (path, bytes));
        for (path, bytes) in response.into_iter().chain(challenge) {
            self.post_letter(path, bytes);
        }
        if moved {
            self.follow_to(index, path, now_ns);
        }
    }

    /// The peer has proven to be at the end of this path.
    fn follow_to(&mut self, index: u32, path: Path, now_ns: u64) {
        let peer = &mut self.peers[index];
        let (from, to) = (peer.addr, path.peer);
        (peer.addr, peer.local) = (to, path.local);
        tracing::info!(peer = %peer.id, %from, %to, "a peer has moved");
        let peer_id = peer.id;
        self.hub.push_event(Event::Moved {
            peer: peer_id,
            from,
            to,
        });
        if let Some(link) = self.peers[index].link.as_mut()
            && let Some(session) = &mut link.session
        {
            let far = from.ip() != to.ip();
            session.on_moved(far, &mut link.outgoing, &mut self.hub, now_ns);
            if far {
                self.hub.granter.on_new_path(index);
            }
        }
        self.enqueue(index);
    }
}
