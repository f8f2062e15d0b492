//! Resends by the program (U6): it may keep what is lost until it says so. Only what is known to be
//! lost goes again, once, within the peer's credit; so however often it says so, that costs no more
//! packets than the library's own resends.

use super::Node;
use crate::{PeerId, SendError};

impl Node {
    /// Whether what is lost on the way to a peer waits for [`Node::retransmit_now`], or goes again by
    /// itself, as it does by default. What is on its way is asked for all the same, so that losses
    /// are found, and signs of life go on. Stays in force when the connection ends.
    ///
    /// # Errors
    /// [`SendError::UnknownPeer`].
    pub fn hold_resends(&mut self, peer: PeerId, hold: bool) -> Result<(), SendError> {
        let index = self.known(peer)?;
        let peer = &mut self.peers[index];
        peer.wants.keeps_lost = hold;
        if let Some(link) = &mut peer.link {
            link.outgoing.keep_lost(hold);
        }
        self.enqueue(index);
        Ok(())
    }

    /// Lets everything go again that was lost on the way to a peer and kept because of
    /// [`Node::hold_resends`], as far as the peer gives credit; returns how many pieces that are.
    /// Nothing else goes again.
    ///
    /// # Errors
    /// [`SendError::UnknownPeer`].
    pub fn retransmit_now(&mut self, peer: PeerId) -> Result<usize, SendError> {
        let index = self.known(peer)?;
        let Some(link) = &mut self.peers[index].link else {
            return Ok(0);
        };
        let pieces = link.outgoing.release();
        self.enqueue(index);
        Ok(pieces)
    }

    /// The program will say nothing more: what was kept goes again.
    pub(super) fn release_all(&mut self) {
        for index in self.peers.indices() {
            let peer = self.peers[index].id;
            if self.peers[index].wants.keeps_lost {
                self.hold_resends(peer, false).expect("the peer is known");
            }
        }
    }
}
