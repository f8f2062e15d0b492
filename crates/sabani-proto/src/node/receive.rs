//! The way in: one table look-up per packet, replay check, seal, frames.

use std::net::{IpAddr, SocketAddr};

use super::arrivals::{Batch, Origin, Packet};
use super::peers::Target;
use super::{Node, Path};
use crate::error::PeerLost;
use crate::seal::Opening;
use crate::wire::{CloseReason, Kind, Prelude};

/// Datagrams that arrived together, opened as far as a [`crate::Keyring`] could.
#[derive(Debug)]
pub struct Opened<'a> {
    /// One, or several of `segment` bytes; the last may be shorter.
    pub bytes: &'a mut [u8],
    /// Bytes of each.
    pub segment: usize,
    /// What has come of each; those beyond the end are still sealed.
    pub openings: &'a [Opening],
}

impl Node {
    /// Takes in datagrams that arrived together from one address: `bytes` is one datagram, or
    /// several of `segment` bytes (the last may be shorter). They are opened in place. `local` is
    /// the address they were sent to, if the socket has several. `marked`: a switch has marked each
    /// of them (ECN, congestion experienced); never, unless [`crate::Config::ecn`] asks for that.
    pub fn handle_datagrams(
        &mut self,
        now_ns: u64,
        from: SocketAddr,
        local: Option<IpAddr>,
        segment: usize,
        marked: bool,
        bytes: &mut [u8],
    ) {
        let sealed = Opened {
            bytes,
            segment,
            openings: &[],
        };
        self.handle_opened(now_ns, from, local, marked, sealed);
    }

    /// Like [`Node::handle_datagrams`], where a [`crate::Keyring`] of this node's may have opened some.
    #[inline]
    pub fn handle_opened(
        &mut self,
        now_ns: u64,
        from: SocketAddr,
        local: Option<IpAddr>,
        marked: bool,
        datagrams: Opened<'_>,
    ) {
        self.catch_up();
        let now_ns = self.hub.clock.lived(now_ns);
        let path = Path { peer: from, local };
        let mut touched = None;
        let mut batch = Batch::new(datagrams, marked);
        while let Some(datagram) = batch.next() {
            let open = self.handle_datagram(now_ns, path, datagram, &mut batch);
            if open != touched {
                if let Some(index) = touched {
                    self.after_packets(index, now_ns);
                }
                touched = open;
            }
        }
        if let Some(index) = touched {
            self.after_packets(index, now_ns);
        }
        self.use_freed_memory();
    }

    /// Bytes that the peer heard last has still to send: they were announced, and there is room for them.
    #[inline]
    pub fn expected_bytes(&self) -> u64 {
        self.expected_bytes
    }

    /// Once per peer and batch: what the packets call for.
    fn after_packets(&mut self, index: u32, now_ns: u64) {
        self.note_news(index, now_ns);
        self.catch_up_before_sending(index, now_ns);
        self.expected_bytes = self.give_pressing_credit(index, now_ns);
        if let Some(link) = &self.peers[index].link
            && let Some(session) = &link.session
        {
            if session.is_closed() {
                return self.lose(index, PeerLost::ClosedHere);
            }
            if session.wants_to_send(&link.outgoing, now_ns) {
                self.enqueue(index);
            }
        }
        self.arm_later(index);
    }

    /// Takes in one datagram, and those behind it on the same connection; returns the peer that
    /// the connection leads to.
    #[inline]
    fn handle_datagram<'a>(
        &mut self,
        now_ns: u64,
        path: Path,
        (datagram, opening): (&'a mut [u8], Opening),
        batch: &mut Batch<'a>,
    ) -> Option<u32> {
        let Ok((prelude, version)) = Prelude::parse(datagram) else {
            self.dropped.malformed += 1;
            return None;
        };
        match prelude.kind {
            Kind::Data => {
                let packet = Packet {
                    prelude,
                    datagram,
                    opening,
                };
                self.handle_data(now_ns, path, packet, batch)
            }
            Kind::Init => {
                self.handle_init(now_ns, path, &prelude, version, datagram);
                None
            }
            Kind::Reply => self.handle_reply(now_ns, path, &prelude, datagram),
            Kind::Cookie => {
                self.handle_cookie(now_ns, path, &prelude, datagram);
                None
            }
            Kind::Reject => {
                self.handle_reject(path, &prelude, datagram);
                None
            }
        }
    }

    #[inline]
    pub(super) fn handle_data<'a>(
        &mut self,
        now_ns: u64,
        path: Path,
        first: Packet<'a>,
        batch: &mut Batch<'a>,
    ) -> Option<u32> {
        let index = match self.peers.target(first.prelude.connection) {
            Some(Target::Open(index)) => *index,
            Some(Target::HalfOpen(_)) => {
                return self.handle_first_data(now_ns, path, first, batch);
            }
            _ => {
                self.dropped.unknown_connection += 1;
                self.greet_stray(now_ns, path);
                return None;
            }
        };
        let peer = &mut self.peers[index];
        let link = peer.link.as_mut()?;
        let session = link.session.as_mut()?;
        let origin = Origin {
            peer: peer.id,
            link: super::LinkRef {
                peer: index,
                generation: peer.generation,
            },
            now_ns,
            marked: batch.marked,
        };
        let outgoing = &mut link.outgoing;
        let (elsewhere, before) = (path.peer != peer.addr, session.so_far());
        let unheard_ns = session.unheard_ns();
        match session.on_packets(
            outgoing,
            first,
            batch,
            origin,
            &mut self.hub,
            &mut self.dropped,
        ) {
            Ok(false) => {
                let path_news = elsewhere || session.has_path_news();
                if let Some(alive_ns) = unheard_ns
                    && session.unheard_ns().is_none()
                {
                    self.drop_outlived(origin.peer, alive_ns);
                }
                if path_news {
                    self.look_at_path(index, path, before, now_ns);
                }
                Some(index)
            }
            Ok(true) => {
                self.take_leave(index, now_ns);
                None
            }
            Err(why) => {
                self.break_off(index, why, now_ns);
                None
            }
        }
    }

    /// The peer closed: confirm, once, and forget the connection. Another confirmation, should
    /// this one be lost, is not worth keeping the connection for: the peer asks a few times and
    /// then leaves too.
    fn take_leave(&mut self, index: u32, now_ns: u64) {
        self.last_words(index, now_ns);
        self.lose(index, PeerLost::Closed);
    }

    /// What came can't be taken in, most often because the peer broke the protocol: tell it, and end the
    /// connection.
    pub(super) fn break_off(&mut self, index: u32, why: PeerLost, now_ns: u64) {
        self.dropped.malformed += u64::from(matches!(why, PeerLost::Violation(_)));
        if let Some(session) = self.peers[index].session_mut() {
            session.close(match why {
                PeerLost::NoMemory(_) => CloseReason::Finished,
                _ => CloseReason::Violation,
            });
        }
        self.last_words(index, now_ns);
        self.lose(index, why);
    }

    /// Sends what an ending connection still has to say.
    fn last_words(&mut self, index: u32, now_ns: u64) {
        let peer = &mut self.peers[index];
        let path = Path {
            peer: peer.addr,
            local: peer.local,
        };
        let Some(session) = peer.session_mut() else {
            return;
        };
        let bytes = session.build_farewell(&mut self.hub, now_ns);
        self.post_letter(path, bytes);
    }
}
