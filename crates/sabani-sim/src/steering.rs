//! What programs say of all their flows while they run.

use sabani_proto::{Node, PeerId, Quality, SendError};

use crate::{HostId, Network};

impl Network {
    /// The program at `id`, if it runs, wishes this of all that it sends from now on.
    pub fn prefer(&mut self, id: HostId, quality: Quality) {
        self.steer(id, |node, peer| node.set_quality(peer, quality));
    }

    /// The program at `id`, if it runs, keeps what is lost, or lets the library send it again.
    pub fn hold_resends(&mut self, id: HostId, hold: bool) {
        self.steer(id, |node, peer| node.hold_resends(peer, hold));
    }

    /// The program at `id`, if it runs, sends again what it has kept.
    pub fn retransmit_now(&mut self, id: HostId) {
        self.steer(id, |node, peer| node.retransmit_now(peer).map(|_| ()));
    }

    fn steer(&mut self, id: HostId, act: impl Fn(&mut Node, PeerId) -> Result<(), SendError>) {
        let Some(node) = &mut self.hosts[id.index()].node else {
            return;
        };
        for peer in node.peer_ids().collect::<Vec<_>>() {
            act(node, peer).expect("a peer is known");
        }
        self.kick(id);
    }
}
