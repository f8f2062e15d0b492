//! How connections have ended, as far as the program is still to be told.

use super::Node;
use crate::PeerId;
use crate::error::{PeerLost, SendError};

/// How connections to a peer have ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// That of the last, counted over all peers.
    number: u64,
    /// Why the last one did.
    why: PeerLost,
    /// Why the first did of those that the program has not been told of.
    untold: Option<PeerLost>,
    /// Why the first did with which messages were dropped, unless the program has been told of an end
    /// since.
    dropped: Option<PeerLost>,
}

impl Ended {
    /// One more has ended, and messages were dropped with it or not.
    pub fn after(last: Option<Box<Ended>>, number: u64, why: &PeerLost, drops: bool) -> Self {
        let (untold, dropped) = match last {
            Some(last) => (last.untold, last.dropped),
            None => (None, None),
        };
        Ended {
            number,
            why: why.clone(),
            untold: untold.or_else(|| Some(why.clone())),
            dropped: dropped.or_else(|| drops.then(|| why.clone())),
        }
    }

    /// Whether the program is to be told of one still.
    pub fn is_untold(&self) -> bool {
        self.untold.is_some()
    }

    /// The program is told of it, or of the last one if it knows of all.
    pub fn tell(&mut self) -> PeerLost {
        self.dropped = None;
        self.untold.take().unwrap_or_else(|| self.why.clone())
    }

    /// The program is told that messages were dropped, if they were.
    fn tell_dropped(&mut self) -> Option<PeerLost> {
        let why = self.dropped.take()?;
        self.untold = None;
        Some(why)
    }

    /// A receive that waited has told the program of this end. That of messages to be sent is no news of
    /// the receive's.
    pub fn on_receive_told(&mut self, why: &PeerLost) {
        self.untold.take_if(|untold| untold == why);
    }

    /// A send has told the program that its message was dropped, with the connection that ended as this one.
    pub fn on_send_told(&mut self, number: u64) {
        // There may be news of another end since.
        if self.number == number {
            self.dropped = None;
        }
    }

    /// There is another connection: that the peer had left in good order is no news any more.
    pub fn on_return(&mut self) {
        if self.dropped.as_ref() != Some(&PeerLost::Closed) {
            self.untold.take_if(|untold| *untold == PeerLost::Closed);
        }
    }
}

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
        match ended.filter(|ended| gone || ended.is_untold()) {
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
        if let Some(ended) = self.ended(peer) {
            ended.untold = None;
        }
    }

    /// A peer for which messages were dropped because a connection ended, and why the first such one did;
    /// unless another error has told the program of an end since. Says it once.
    pub fn take_dropped(&mut self) -> Option<(PeerId, PeerLost)> {
        self.peers.indices().find_map(|index| {
            let peer = &mut self.peers[index];
            Some((peer.id, peer.lost.as_deref_mut()?.tell_dropped()?))
        })
    }

    /// How connections to a peer have ended.
    pub(super) fn ended(&mut self, peer: PeerId) -> Option<&mut Ended> {
        let index = self.peers.index(peer)?;
        self.peers[index].lost.as_deref_mut()
    }
}
