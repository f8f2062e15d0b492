//! What unit tests have in common.

use sabani_proto::seal::Checksum;

use crate::{Node, PeerId, Schedule};

/// Two nodes that know each other, with the ids 1 and 2.
pub(crate) fn pair() -> [Node; 2] {
    let [here, there] = [1, 2].map(|id| {
        let builder = Node::builder(PeerId(id)).plain(Checksum::None);
        let builder = builder.layers(Schedule::Inline);
        builder.bind("127.0.0.1:0".parse().unwrap()).open().unwrap()
    });
    here.add_peer(PeerId(2), there.local_addr()).unwrap();
    there.add_peer(PeerId(1), here.local_addr()).unwrap();
    [here, there]
}
