//! A flood of forged first messages from outside, over real sockets.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use sabani::{JobKey, Match, Node, PeerId};

const SOON: Duration = Duration::from_secs(20);
const HUB: PeerId = PeerId(0);
const EXCHANGES: u64 = 2_000;

/// An Init as somebody without the job key can make it (section 4.2 of `docs/protocol.md`).
fn forged(number: u64) -> [u8; 1_200] {
    let mut init = [0; 1_200];
    init[0] = 0x11;
    init[2..8].copy_from_slice(&number.to_le_bytes()[..6]);
    init[16..19].fill(1);
    init[22..24].copy_from_slice(&112_u16.to_le_bytes());
    init[48..160].copy_from_slice(&number.to_le_bytes().repeat(14));
    init
}

/// Sends forged Inits as fast as it can, until `over`.
fn flood(target: SocketAddr, over: &AtomicBool) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for number in 1_u64.. {
        if over.load(Relaxed) {
            return;
        }
        // Some Rejects come back, and nobody reads them.
        let _ = socket.send_to(&forged(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)), target);
    }
}

/// Sends numbers to the hub, each when the one before has come back.
fn exchange(peer: &Node, numbers: u64) {
    for number in 0..numbers {
        let bytes = number.to_le_bytes();
        peer.send(HUB, number, &bytes).unwrap();
        let answer = peer.recv_timeout(Match::any(), SOON).unwrap();
        let answer = answer.expect("the hub answers");
        assert_eq!((answer.tag, answer.body()), (number, &bytes[..]));
    }
}

/// Answers until `over`.
fn serve(hub: &Node, over: &AtomicBool) {
    while !over.load(Relaxed) {
        let wait = Duration::from_millis(10);
        if let Some(question) = hub.recv_timeout(Match::any(), wait).unwrap() {
            hub.send(question.source, question.tag, question.body())
                .unwrap();
        }
    }
}

#[test]
fn peers_talk_and_newcomers_get_in_through_a_flood_of_forged_inits() {
    let key = JobKey::generate().unwrap();
    let open = |id| {
        let here = "127.0.0.1:0".parse().unwrap();
        let builder = Node::builder(PeerId(id)).bind(here);
        // A busy machine drops more of what comes amid the flood.
        let builder = builder.connect_timeout(SOON);
        builder.job_key(key.clone()).open().unwrap()
    };
    let hub = open(0);
    let peer = |id| {
        let peer = open(id);
        peer.add_peer(HUB, hub.local_addr()).unwrap();
        peer.connect(HUB, SOON).unwrap();
        peer
    };
    let peers = [peer(1), peer(2)];
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| flood(hub.local_addr(), &over));
        scope.spawn(|| serve(&hub, &over));
        let peers = peers.each_ref();
        let talking = peers.map(|peer| scope.spawn(|| exchange(peer, EXCHANGES)));
        let newcomers = scope.spawn(|| (3..8).for_each(|id| exchange(&peer(id), 10)));
        let ends = talking.into_iter().chain([newcomers]);
        let ends: Vec<_> = ends.map(|thread| thread.join()).collect();
        over.store(true, Relaxed);
        ends.into_iter().for_each(|end| end.unwrap());
    });
    let dropped = hub.stats().dropped;
    assert!(dropped.rejected > 0, "{dropped:?}");
    assert!(dropped.crowded_out > 3 * dropped.rejected, "{dropped:?}");
    for peer in peers {
        let lost = peer.peer_stats(HUB).unwrap().counters.packets_lost;
        assert!(lost < EXCHANGES / 4, "{lost} packets lost");
    }
}
