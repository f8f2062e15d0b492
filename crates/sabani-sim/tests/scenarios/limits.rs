//! Room is finite, and nothing overruns it or hangs for want of it.

use sabani_proto::wire::Frame;
use sabani_proto::{Config, Hindrance, Match, PeerId, RecvError, RecvTicket, SendError, Shortage};
use sabani_sim::{HostId, MS, Network, Packet, Reading, SEC, US, checker, sealed};

use crate::{A, B, peer_stats, plain, sound, warm_pair};

#[test]
fn one_sender_never_overruns_the_receivers_socket() {
    for (seed, buffer) in [(1, 64 << 10), (2, 212_992), (3, 8 << 20)] {
        for len in [4, 1_000, 300_000] {
            let mut net = Network::mesh(seed, 2, &sealed(), |config: &mut Config| {
                config.socket_buffer_bytes = buffer;
            });
            // Slower than the wire, so that the socket's buffer is what fills.
            net.host(B).reading.packet_ns = 3 * US;
            let count = 4_000_000 / (len + 200);
            for _ in 0..count.min(8_000) {
                net.send(A, B, len);
            }
            for _ in 0..40 {
                net.run_for(MS);
                net.stall(B, 500 * US);
            }
            sound(net.settle(10 * SEC));
            let socket = &net.host(B).socket;
            assert_eq!(socket.overflows, 0, "buffer of {buffer}, {len} bytes each");
        }
    }
}

#[test]
fn many_senders_may_overrun_it_and_everything_arrives() {
    let mut net = Network::mesh(1, 41, &sealed(), |config: &mut Config| {
        config.socket_buffer_bytes = 256 << 10;
    });
    net.host(A).reading.packet_ns = 2 * US;
    for from in 1..41 {
        for len in [100, 60_000, 3_000] {
            net.send(HostId(from), A, len);
        }
    }
    sound(net.settle(20 * SEC));
    assert_eq!(net.checker.delivered, 120);
}

/// The first host, with memory that two peers' messages use up, so that a third one's is left.
fn with_one_left(left: usize) -> Network {
    let mut net = Network::mesh(3, 4, &sealed(), |config: &mut Config| {
        config.memory_bytes = 16 << 20;
    });
    net.host(A).program.reading = Reading::Nothing;
    for (from, len) in [(1, 3_500_000), (2, 3_500_000), (3, left)] {
        net.send(HostId(from), A, len);
        net.run_for(200 * MS);
    }
    assert!(net.host(HostId(2)).node().is_settled());
    assert!(!net.host(HostId(3)).node().is_settled(), "there is no room");
    net
}

#[test]
fn what_was_left_for_want_of_memory_comes_once_others_are_taken() {
    let mut net = with_one_left(3_000_000);
    for from in [1, 2] {
        let wanted = Match::any().from(PeerId(from));
        let message = net.host(A).node().try_take(&wanted).expect("it is here");
        net.note_received(A, &message);
        net.kick(A);
    }
    net.run_for(500 * MS);
    let node = net.host(HostId(3)).node();
    assert!(
        node.is_settled(),
        "nobody has asked for it, but there is room"
    );
    net.host(A).program.reading = Reading::Take(Match::any());
    net.kick(A);
    sound(net.settle(5 * SEC));
    assert_eq!(net.checker.delivered, 3);
}

#[test]
fn what_was_left_for_want_of_memory_comes_once_another_peer_is_gone() {
    let mut net = Network::mesh(3, 4, &sealed(), |config: &mut Config| {
        config.memory_bytes = 16 << 20;
    });
    net.host(A).program.reading = Reading::Nothing;
    net.send(HostId(1), A, 3_500_000);
    net.run_for(300 * US);
    let first = net.host(A).node().probe(&Match::any().from(PeerId(1)));
    assert!(first.is_some_and(|first| !first.complete), "{first:?}");
    net.crash(HostId(1));
    net.send(HostId(2), A, 3_500_000);
    net.run_for(200 * MS);
    net.send(HostId(3), A, 2_000_000);
    net.run_for(200 * MS);
    assert!(!net.host(HostId(3)).node().is_settled(), "there is no room");
    net.run_for(20 * SEC);
    let node = net.host(HostId(3)).node();
    assert!(node.is_settled(), "what was reserved for the other is free");
}

/// Memory that is reserved for small messages of a peer is free again once the peer hardly sends any, or rests.
#[test]
fn a_window_that_is_not_used_shrinks() {
    for trickle in [0, 40] {
        let mut net = Network::mesh(4, 2, &sealed(), |config: &mut Config| {
            config.log_window_max = 4 << 20;
        });
        net.host(B).program.reading = Reading::Nothing;
        for _ in 0..3_000 {
            net.send(A, B, 1_000);
        }
        net.run_for(50 * MS);
        let reserved = |net: &mut Network| net.host(B).node().stats().unmatched_bytes;
        assert_eq!(reserved(&mut net), 4 << 20, "what waits needs it");
        net.host(B).program.reading = Reading::Take(Match::any());
        net.kick(B);
        for _ in 0..trickle {
            net.run_for(250 * MS);
            net.send(A, B, 1_000);
        }
        net.run_for(10 * SEC);
        let rest = reserved(&mut net);
        assert!(rest < 330 << 10, "{rest} bytes reserved");
        for _ in 0..3_000 {
            net.send(A, B, 1_000);
        }
        sound(net.settle(SEC));
    }
}

#[test]
fn a_large_message_nobody_asked_for_blocks_nothing() {
    let mut net = Network::mesh(2, 2, &sealed(), |config: &mut Config| {
        config.memory_bytes = 4 << 20;
        config.send_queue_bytes = 128 << 20;
    });
    let only_small = Match::any().tag_mask(1 << 56, checker::CLASS_MASK);
    net.host(B).program.reading = Reading::Take(only_small);
    net.send_as(A, B, 0, 64 << 20, false);
    for _ in 0..1_000 {
        net.send_as(A, B, 1, 500, false);
    }
    net.run_for(50 * MS);
    assert_eq!(net.checker.delivered, 1_000);
    let sent = net.link(A, B).counters.entered_bytes;
    assert!(sent < 2 << 20, "{sent} bytes sent although nobody asked");
    let waiting = net.host(B).node().probe(&Match::any()).unwrap();
    assert_eq!((waiting.len, waiting.complete), (64 << 20, false));
    // Its time comes, into a buffer of the program's own.
    net.host(B).program.reading = Reading::Post {
        wanted: Match::any(),
        ahead: 1,
        buffer: 64 << 20,
    };
    net.kick(B);
    sound(net.settle(SEC));
}

/// It stays where it is, and the next receive would find it again, and again.
#[test]
fn a_program_whose_buffers_are_too_short_does_not_try_for_ever() {
    let mut net = Network::pair(1, &sealed());
    net.host(B).program.reading = Reading::Post {
        wanted: Match::any(),
        ahead: 1,
        buffer: 1_000,
    };
    net.send(A, B, 1_001);
    let failure = net.settle(SEC).expect_err("nobody can take it");
    let what = &failure.violations[0].what;
    assert!(what.contains("can't receive what has come"), "{failure}");
    assert!(what.contains("room for 1000"), "{failure}");
}

#[test]
fn who_waits_for_what_is_behind_untaken_messages_is_told_and_little_room_is_enough() {
    let mut net = Network::mesh(2, 2, &sealed(), |config: &mut Config| {
        config.log_window_max = 64 << 10;
    });
    net.host(B).program.reading = Reading::Nothing;
    let last = class_from(A, 1);
    for _ in 0..60 {
        net.send_as(A, B, 0, 1_000, false);
    }
    net.send_as(A, B, 1, 1_000, false);
    net.run_for(50 * MS);
    let node = net.host(B).node();
    let Some(Hindrance::Backlog(backlog)) = node.hindrance(&last) else {
        panic!("58 fit");
    };
    assert_eq!(backlog.peer, PeerId(A.0));
    assert_eq!(
        node.hindrance(&Match::any().tag(0)),
        Some(Hindrance::Backlog(backlog))
    );
    for _ in 0..3 {
        let message = net.host(B).node().try_take(&class_from(A, 0)).unwrap();
        net.note_received(B, &message);
    }
    net.kick(B);
    net.run_for(10 * MS);
    let node = net.host(B).node();
    assert_eq!(node.hindrance(&last), None);
    assert!(node.probe(&last).is_some(), "there was room for three more");
    net.host(B).program.reading = Reading::Take(Match::any());
    net.kick(B);
    sound(net.settle(SEC));
}

/// A receiver with 8 MiB and two senders, the first of which wants all of it.
fn hog() -> (Network, HostId, HostId) {
    let mut net = Network::mesh(3, 3, &plain(), |config: &mut Config| {
        config.memory_bytes = 8 << 20;
        config.send_queue_bytes = 128 << 20;
    });
    net.host(A).program.reading = Reading::Nothing;
    for from in [B, HostId(2)] {
        net.send(from, A, 10);
    }
    net.run_for(MS);
    (net, B, HostId(2))
}

#[test]
fn a_peer_that_announces_and_never_sends_keeps_memory_from_nobody() {
    let (mut net, hog, other) = hog();
    let from_all = Reading::Post {
        wanted: Match::any(),
        ahead: 32,
        buffer: 0,
    };
    net.host(A).program.reading = from_all;
    net.kick(A);
    let has_body = |packet: &Packet<'_>| packet.has_frame(|f| matches!(f, Frame::Fragment(_)));
    net.link(hog, A).drop_if(has_body);
    for _ in 0..16 {
        net.send(hog, A, 1 << 20);
    }
    net.run_for(MS);
    assert_eq!(peer_stats(&mut net, A, hog).shortage, Some(Shortage::Peer));
    for _ in 0..4 {
        net.send(other, A, 1 << 20);
    }
    net.run_for(100 * MS);
    assert!(net.host(other).node().is_settled(), "all of it has come");
    net.link(hog, A).drop_if(|_| false);
    sound(net.settle(5 * SEC));
    assert_eq!(peer_stats(&mut net, A, hog).shortage, None);
}

#[test]
fn a_peer_that_sends_what_nobody_asks_for_keeps_memory_from_nobody() {
    let (mut net, hog, other) = hog();
    for _ in 0..16 {
        net.send(hog, A, 1 << 20);
    }
    net.run_for(50 * MS);
    net.send(other, A, 1 << 20);
    net.run_for(50 * MS);
    let large = Match::any().from(PeerId(other.0)).tag(1);
    let waiting = net.host(A).node().probe(&large).unwrap();
    assert_eq!((waiting.len, waiting.complete), (1 << 20, true));
    net.host(A).program.reading = Reading::Take(Match::any());
    net.kick(A);
    sound(net.settle(5 * SEC));
}

/// Messages of one class from one peer.
fn class_from(from: HostId, class: u8) -> Match {
    let wanted = Match::any().from(PeerId(from.0));
    wanted.tag_mask(u64::from(class) << 56, checker::CLASS_MASK)
}

/// Posts a receive for what comes next in a class, has that sent, and gives it some time.
fn posted(net: &mut Network, from: HostId, class: u8, len: usize, time_ns: u64) -> RecvTicket {
    let ticket = net.host(A).node().post(class_from(from, class), None);
    net.send_as(from, A, class, len, false);
    net.run_for(time_ns);
    ticket
}

/// A receiver with 8 MiB and two senders, the first of which has sent a part of what takes all of it, for a
/// receive that was withdrawn, and has disconnected.
fn stuck_hog() -> (Network, HostId, HostId) {
    let (mut net, hog, other) = hog();
    for from in [hog, other] {
        let message = net.host(A).node().try_take(&class_from(from, 0));
        net.note_received(A, &message.expect("it is here"));
    }
    net.links(|link| link.bits_per_second = 1_000_000_000);
    let ticket = posted(&mut net, hog, 0, 8 << 20, 20 * MS);
    let (result, _) = net.host(A).node().cancel(ticket);
    assert!(result.is_none(), "not all of it is here");
    net.set_connected(hog, false);
    net.run_for(10 * MS);
    (net, hog, other)
}

/// The hog reconnects, and everything comes.
fn all_comes(mut net: Network, hog: HostId) {
    net.set_connected(hog, true);
    net.host(A).program.reading = Reading::Take(Match::any());
    net.kick(A);
    sound(net.settle(5 * SEC));
    assert_eq!(net.host(A).node().stats().posted_bytes, 0);
}

#[test]
fn a_long_body_that_does_not_come_on_keeps_no_short_one_waiting() {
    let (mut net, hog, other) = stuck_hog();
    // One that waits for the same memory keeps none either.
    let long = posted(&mut net, other, 1, 3 << 20, MS);
    for _ in 0..20 {
        let ticket = posted(&mut net, other, 0, 1 << 20, 100 * MS);
        let message = net.host(A).node().take_received(ticket);
        net.note_received(A, &message.expect("there is room").unwrap());
    }
    let tickets = [(); 3].map(|()| posted(&mut net, other, 0, 1 << 20, 0));
    net.run_for(100 * MS);
    for ticket in tickets {
        let message = net.host(A).node().take_received(ticket);
        net.note_received(A, &message.expect("its turn has come").unwrap());
    }
    let (result, _) = net.host(A).node().cancel(long);
    assert!(result.is_none());
    all_comes(net, hog);
}

#[test]
fn it_is_said_who_holds_the_memory_that_a_receive_waits_for() {
    let (mut net, hog, other) = stuck_hog();
    let ticket = posted(&mut net, other, 0, 3 << 20, 100 * MS);
    let check = |net: &mut Network| {
        let waits = peer_stats(net, A, other).shortage;
        assert_eq!(waits, Some(Shortage::Node));
        let holder = peer_stats(net, A, hog);
        let held = (holder.posted_bytes, holder.withdrawn_bytes);
        assert_eq!(held, (8 << 20, 8 << 20));
    };
    check(&mut net);
    let (result, _) = net.host(A).node().cancel(ticket);
    assert!(result.is_none());
    check(&mut net);
    let wanted = class_from(other, 0);
    let in_vain = |net: &mut Network| {
        let Hindrance::Starved(why) = net.host(A).node().hindrance(&wanted)? else {
            panic!("it is here");
        };
        assert_eq!(why.waiting.source, PeerId(other.0));
        assert_eq!(why.holder.source, PeerId(hog.0));
        assert_eq!((why.held_bytes, why.limit), (8 << 20, 8 << 20));
        Some((why.holder.complete, why.to_string()))
    };
    let (complete, text) = in_vain(&mut net).expect("the peer is disconnected");
    assert!(!complete && text.contains("reconnect"), "{text}");
    net.set_connected(hog, true);
    net.run_for(10 * MS);
    assert_eq!(in_vain(&mut net), None, "it comes on");
    net.run_for(SEC);
    let (complete, text) = in_vain(&mut net).expect("it is here, and nobody takes it");
    assert!(complete && text.contains("receive it"), "{text}");
    check(&mut net);
    all_comes(net, hog);
}

#[test]
fn who_looks_for_a_message_now_and_then_is_told_that_there_is_no_room_for_it() {
    let (mut net, hog, other) = stuck_hog();
    net.send(other, A, 3 << 20);
    net.run_for(10 * MS);
    assert_eq!(peer_stats(&mut net, A, other).shortage, None, "nobody asks");
    let message = net.host(A).node().try_take(&class_from(other, 0));
    assert!(message.is_none());
    let waits = peer_stats(&mut net, A, other).shortage;
    assert_eq!(waits, Some(Shortage::Node));
    all_comes(net, hog);
}

#[test]
fn a_program_that_never_receives() {
    for len in [4, 1_000, 100_000] {
        let mut net = Network::mesh(1, 2, &sealed(), |config: &mut Config| {
            config.memory_bytes = 1 << 20;
            config.log_window_max = 512 << 10;
            config.send_queue_bytes = 256 << 10;
        });
        net.host(B).program.reading = Reading::Nothing;
        let count = 5_000_000 / (len + 100);
        for _ in 0..count {
            net.send(A, B, len);
        }
        net.run_for(2 * SEC);
        let full = net
            .host(A)
            .node()
            .send(2 * SEC, PeerId(1), 0, vec![0; len].into(), false);
        assert!(
            matches!(full, Err(SendError::Full { .. })),
            "{len} bytes each: {full:?}"
        );
        let queued = peer_stats(&mut net, A, B).queued_bytes;
        // Those that go unasked have a queue, and those that have to be asked for.
        assert!(queued <= 656 << 10, "{queued} bytes queued");
        let packets = net.link(A, B).counters.entered;
        net.run_for(2 * SEC);
        let chatter = net.link(A, B).counters.entered - packets;
        assert!(chatter < 20, "{chatter} packets while nobody receives");
        net.host(B).program.reading = Reading::Take(Match::any());
        net.kick(B);
        sound(net.settle(5 * SEC));
        assert_eq!(net.checker.delivered, count as u64);
    }
}

#[test]
fn hardly_any_memory_at_the_receiver() {
    for memory_bytes in [0, 20 << 10, 100 << 10] {
        for len in [0, 4, 1_024, 2_000, 15_000] {
            let mut net = Network::mesh(1, 2, &sealed(), |config: &mut Config| {
                config.memory_bytes = memory_bytes;
            });
            net.host(B).program.reading = Reading::Post {
                wanted: Match::any(),
                ahead: 2,
                buffer: 20_000,
            };
            for _ in 0..1_000 {
                net.send(A, B, len);
            }
            sound(net.settle(5 * SEC));
        }
    }
}

#[test]
fn a_receive_that_does_not_fit_leaves_the_message_where_it_is() {
    let mut net = Network::mesh(1, 2, &sealed(), |config: &mut Config| {
        config.memory_bytes = 1 << 20;
    });
    net.host(B).program.reading = Reading::Nothing;
    for len in [50, 5_000, 300_000, 2 << 20] {
        net.send(A, B, len);
    }
    net.run_for(20 * MS);
    for (tag, len) in [(0, 50), (1, 5_000), (2, 300_000)] {
        let node = net.host(B).node();
        let small = node.post(Match::any().tag(tag), Some(vec![0; 20]));
        let Some(Err(RecvError::TooSmall { envelope, room, .. })) = node.take_received(small)
        else {
            panic!("message {tag} does not fit into 20 bytes");
        };
        assert_eq!((envelope.len, room), (len, 20));
    }
    let node = net.host(B).node();
    let large = node.post(Match::any().tag(3), None);
    let Some(Err(RecvError::TooLarge { envelope, limit })) = node.take_received(large) else {
        panic!("message 3 is larger than the node may allocate");
    };
    assert_eq!((envelope.len, limit), (2 << 20, 1 << 20));
    // A receive posted before the message comes fails in the same way.
    let early = node.post(Match::any().tag(4), Some(vec![0; 20]));
    net.send(A, B, 5_000);
    net.run_for(MS);
    let result = net.host(B).node().take_received(early);
    assert!(matches!(result, Some(Err(RecvError::TooSmall { .. }))));
    net.host(B).program.reading = Reading::Post {
        wanted: Match::any(),
        ahead: 1,
        buffer: 2 << 20,
    };
    net.kick(B);
    sound(net.settle(SEC));
    assert_eq!(net.checker.delivered, 5);
}

#[test]
fn a_receive_may_be_withdrawn_while_it_is_filled() {
    for own_buffer in [true, false] {
        for later_ns in [20 * US, 200 * US, 600 * US, 5 * MS] {
            let mut net = warm_pair(1, &sealed());
            net.host(B).program.reading = Reading::Nothing;
            net.send(A, B, 1_000_000);
            net.send(A, B, 10);
            let buffer = own_buffer.then(|| vec![0; 1_000_000]);
            let ticket = net.host(B).node().post(Match::any(), buffer);
            net.kick(B);
            net.run_for(later_ns);
            let (result, buffer) = net.host(B).node().cancel(ticket);
            if let Some(result) = result {
                let message = result.expect("nothing went wrong");
                net.note_received(B, &message);
            } else if own_buffer {
                assert_eq!(buffer.map(|bytes| bytes.len()), Some(1_000_000));
            }
            net.host(B).program.reading = Reading::Take(Match::any());
            net.kick(B);
            sound(net.settle(SEC));
        }
    }
}

#[test]
fn withdrawn_receives_keep_the_order_of_each_sender() {
    let mut net = Network::mesh(1, 3, &plain(), |_| {});
    net.links(|link| link.bits_per_second = 1_000_000_000);
    net.host(A).program.reading = Reading::Nothing;
    let mut tickets = Vec::new();
    for round in 0..6 {
        let from = HostId(1 + round % 2);
        net.send(from, A, 400_000);
        net.run_for(20 * US);
        let wanted = Match::any().from(PeerId(from.0));
        tickets.push(net.host(A).node().post(wanted, None));
    }
    net.run_for(100 * US);
    for ticket in [5, 2, 0, 3, 1, 4].map(|at| tickets[at]) {
        let (result, _) = net.host(A).node().cancel(ticket);
        assert!(result.is_none(), "none of them is complete yet");
    }
    net.host(A).program.reading = Reading::Take(Match::any());
    net.kick(A);
    sound(net.settle(SEC));
}
