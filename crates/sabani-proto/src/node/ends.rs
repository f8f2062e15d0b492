//! How connections have ended, as far as the program is still to be told.

use super::Node;
use super::peers::Ended;
use crate::PeerId;
use crate::error::{PeerLost, SendError};

impl Node {
    /// Whether a receive that takes messages from this peer only may hope for one. The end of a
    /// connection is said for as long as there is no other one, nor one being made; and once after
    /// that, if nobody has heard of it. A peer that has never been connected may connect.
    ///
    /// # Errors
    /// [`SendError::PeerLost`]; [`SendError::UnknownPeer`] if the peer is not known, and
    /// [`crate::Config::accept_unknown`] lets no such one in.
    pub fn check_source(&mut self, peer: PeerId) -> Result<(), SendError> {
        let Some(index) = self.peers.index(peer) else {
            let may_come = self.hub.config.accept_unknown || peer == self.id();
            return may_come.then_some(()).ok_or(SendError::UnknownPeer(peer));
        };
        let found = &mut self.peers[index];
        let gone = found.link.is_none();
        let ended = found.lost.as_deref_mut();
        match ended.filter(|ended| gone || !ended.told) {
            Some(ended) => Err(SendError::PeerLost {
                peer,
                why: ended.tell(),
            }),
            None => Ok(()),
        }
    }

    /// The program knows that it begins anew with a peer: sends and receives say nothing of connections
    /// that have ended before.
    pub fn begin_anew(&mut self, peer: PeerId) {
        if let Some(ended) = self.last_end(peer) {
            ended.told = true;
        }
    }

    /// A peer for which messages were dropped because a connection ended, and why the last one did;
    /// unless another error has told the program of an end since. Says it once.
    pub fn take_dropped(&mut self) -> Option<(PeerId, PeerLost)> {
        self.peers.indices().find_map(|index| {
            let peer = &mut self.peers[index];
            let ended = peer.lost.as_deref_mut().filter(|ended| ended.dropped)?;
            Some((peer.id, ended.tell()))
        })
    }

    /// How the last connection to a peer ended.
    pub(super) fn last_end(&mut self, peer: PeerId) -> Option<&mut Ended> {
        let index = self.peers.index(peer)?;
        self.peers[index].lost.as_deref_mut()
    }
}
