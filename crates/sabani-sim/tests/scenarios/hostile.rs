//! Outsiders: forged, damaged, repeated and senseless datagrams change nothing, cost little, and
//! are counted.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use sabani_proto::wire::{Kind, Prelude};
use sabani_proto::{Config, PeerId};
use sabani_sim::{HostId, MS, Network, SEC, US, sealed};

use crate::{A, B, counters, plain, safe_modes, sound, warm_pair};

/// An address at which nobody lives.
pub fn stranger(index: u32) -> SocketAddr {
    let [_, high, middle, low] = index.to_be_bytes();
    ([192, high, middle, low], 9_999).into()
}

pub fn capture(net: &mut Network, from: HostId, to: HostId) -> Rc<RefCell<Vec<Vec<u8>>>> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let sink = seen.clone();
    net.link(from, to).drop_if(move |packet| {
        sink.borrow_mut().push(packet.bytes.to_vec());
        false
    });
    seen
}

/// Nobody got more bytes than it had sent: what amplifies attacks elsewhere.
pub fn nobody_was_flooded(net: &Network) {
    for (addr, stranger) in net.strangers() {
        assert!(
            stranger.received_bytes <= stranger.sent_bytes,
            "{addr} sent {} bytes and got {}",
            stranger.sent_bytes,
            stranger.received_bytes
        );
    }
}

/// First messages of `count` processes that nobody knows, as they would send them to B.
fn first_messages(mode: &sabani_proto::seal::Mode, count: u32, target: SocketAddr) -> Vec<Vec<u8>> {
    let mut buffer = vec![0; 65_536];
    (0..count)
        .map(|index| {
            let mut seed = [0x5a; 32];
            seed[..4].copy_from_slice(&index.to_le_bytes());
            let config = Config::new(PeerId(1_000 + index), mode.clone());
            let mut node = sabani_proto::Node::new(config, seed);
            node.add_peer(PeerId(1), target);
            node.connect(0, PeerId(1)).expect("the peer is known");
            let train = node.poll_transmit(0, &mut buffer).expect("a first message");
            buffer[..train.bytes].to_vec()
        })
        .collect()
}

#[test]
fn a_flood_of_first_messages_disturbs_nobody() {
    for mode in [sealed(), plain()] {
        let mut net = Network::mesh(1, 3, &mode, |_| {});
        net.send(A, B, 100);
        sound(net.settle(SEC));
        let target = net.host(B).addr;
        let flood = first_messages(&mode, 2_000, target);
        let peers = net.host(B).node().stats().peers;
        for _ in 0..200 {
            net.send(A, B, 20_000);
        }
        for (index, message) in flood.iter().enumerate() {
            net.inject(stranger(index as u32), B, message.clone());
            net.run_for(10 * US);
            if index == 1_000 {
                // A newcomer gets in all the same: it answers the cookie.
                net.send(HostId(2), B, 5_000);
            }
        }
        sound(net.settle(SEC));
        let stats = net.host(B).node().stats();
        assert!(stats.dropped.cookies > 1_000, "{:?}", stats.dropped);
        assert_eq!(stats.peers, peers, "no stranger became a peer");
        assert_eq!(stats.connections, 2);
        assert!(net.losses(A).is_empty() && net.losses(B).is_empty());
        nobody_was_flooded(&net);
    }
}

#[test]
fn a_recorded_first_message_changes_nothing() {
    for mode in [sealed(), plain()] {
        let mut net = Network::pair(1, &mode);
        let seen = capture(&mut net, A, B);
        net.send(A, B, 100);
        sound(net.settle(SEC));
        let packets = seen.borrow().clone();
        let is_init = |packet: &&Vec<u8>| {
            Prelude::parse(packet).is_ok_and(|(prelude, _)| prelude.kind == Kind::Init)
        };
        let init = packets.iter().find(is_init).expect("there was one").clone();
        let from = net.host(A).addr;
        for round in 0..500 {
            net.inject(from, B, init.clone());
            net.inject(stranger(round % 7), B, init.clone());
            net.run_for(MS);
        }
        net.send(A, B, 5_000);
        net.send(B, A, 5_000);
        sound(net.settle(SEC));
        // Also when the connection it began is gone.
        net.restart(A, true);
        net.send(A, B, 100);
        sound(net.settle(10 * SEC));
        for _ in 0..50 {
            net.inject(from, B, init.clone());
            net.run_for(MS);
        }
        net.send(A, B, 5_000);
        net.send(B, A, 5_000);
        sound(net.settle(10 * SEC));
        assert_eq!(net.losses(B).len(), 1, "only the restart");
        nobody_was_flooded(&net);
    }
}

#[test]
fn garbage_is_counted_and_changes_nothing() {
    for mode in safe_modes() {
        let mut net = warm_pair(1, &mode);
        let before = net.host(B).node().stats();
        let friend = net.host(A).addr;
        for index in 0..3_000 {
            let len = net.rng().below(1_600) as usize;
            let mut bytes = vec![0; len];
            net.rng().fill(&mut bytes);
            if let Some(first) = bytes.first_mut() {
                // Half of them look like packets of this version.
                *first = if index % 2 == 0 {
                    0x10 | *first & 7
                } else {
                    *first
                };
            }
            let from = if index % 3 == 0 {
                friend
            } else {
                stranger(index)
            };
            net.inject(from, B, bytes);
            net.run_for(US);
        }
        net.run_for(10 * MS);
        let after = net.host(B).node().stats();
        let (was, is) = (before.dropped, after.dropped);
        assert!(is.malformed > was.malformed);
        assert!(is.unknown_connection > was.unknown_connection);
        assert_eq!(
            after.counters.packets_received,
            before.counters.packets_received
        );
        assert_eq!(after.peers, before.peers);
        net.send(A, B, 50_000);
        net.send(B, A, 50_000);
        sound(net.settle(SEC));
        assert!(net.losses(A).is_empty() && net.losses(B).is_empty());
        nobody_was_flooded(&net);
    }
}

#[test]
fn damaged_copies_of_real_packets_change_nothing() {
    let ways = safe_modes().map(|mode| [(mode.clone(), false), (mode, true)]);
    for (mode, seal_below) in ways.into_iter().flatten() {
        let mut net = Network::mesh(1, 2, &mode, |config| config.seal_below = seal_below);
        let seen = capture(&mut net, A, B);
        for len in [10, 3_000, 100_000] {
            net.send(A, B, len);
        }
        sound(net.settle(SEC));
        let packets = seen.borrow().clone();
        let from = net.host(A).addr;
        let received = counters(&mut net, B).packets_received;
        for packet in &packets {
            for _ in 0..20 {
                let mut bytes = packet.clone();
                let bit = net.rng().below(8 * bytes.len() as u64) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
                if net.rng().chance(0.3) {
                    let len = net.rng().below(bytes.len() as u64) as usize;
                    bytes.truncate(len);
                }
                net.inject(from, B, bytes);
            }
            net.run_for(10 * US);
        }
        net.run_for(10 * MS);
        assert_eq!(counters(&mut net, B).packets_received, received);
        let dropped = net.host(B).node().stats().dropped;
        assert!(dropped.forged > 0 && dropped.replayed > 0, "{dropped:?}");
        net.send(A, B, 50_000);
        net.send(B, A, 50_000);
        sound(net.settle(SEC));
        assert!(net.losses(A).is_empty() && net.losses(B).is_empty());
    }
}

#[test]
fn answers_forged_during_a_handshake_do_not_end_it() {
    for mode in [sealed(), plain()] {
        let mut net = Network::pair(1, &mode);
        let seen = capture(&mut net, A, B);
        net.link(A, B).delay_ns = 5 * MS;
        net.send(A, B, 100);
        net.run_for(MS);
        let init = seen.borrow()[0].clone();
        let (nonce, from) = (init[2..8].to_vec(), net.host(B).addr);
        for kind in [2, 3, 4] {
            // An observer on the path knows the nonce; it can't know the key.
            let mut bytes = vec![0x10 | kind, 0];
            bytes.extend(&nonce);
            bytes.extend([0; 8]);
            bytes.extend([1; 40]);
            net.inject(from, A, bytes);
        }
        sound(net.settle(SEC));
        assert_eq!(net.checker.delivered, 1);
        assert!(net.losses(A).is_empty());
    }
}
