//! Nodes in one process that talk over real sockets on the loopback interface.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use sabani::{Checksum, Error, Event, JobKey, Match, Node, PeerId, PeerLost};

const SOON: Duration = Duration::from_secs(20);

fn pair(sealed: bool) -> (Node, Node) {
    let key = JobKey::generate().unwrap();
    let node = |id: u32| {
        let builder = Node::builder(PeerId(id)).bind("127.0.0.1:0".parse().unwrap());
        let builder = if sealed {
            builder.job_key(key.clone())
        } else {
            builder.plain(Checksum::Crc32c)
        };
        builder.open().unwrap()
    };
    let (left, right) = (node(0), node(1));
    left.add_peer(PeerId(1), right.local_addr()).unwrap();
    right.add_peer(PeerId(0), left.local_addr()).unwrap();
    (left, right)
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + seed) as u8).collect()
}

/// The copy of a large message takes a while, which others must not wait for: peers lose patience.
#[test]
fn while_a_large_message_is_copied_others_use_the_node() {
    let (left, _right) = pair(false);
    left.connect(PeerId(1), SOON).unwrap();
    let large = pattern(256 << 20, 3);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let began = Instant::now();
            left.send(PeerId(1), 1, &large).unwrap();
            ended.store(true, SeqCst);
            began.elapsed()
        });
        let mut longest_look = Duration::ZERO;
        while !ended.load(SeqCst) {
            let began = Instant::now();
            assert!(left.try_recv(Match::any()).unwrap().is_none());
            longest_look = longest_look.max(began.elapsed());
        }
        let took = sending.join().unwrap();
        assert!(longest_look < took / 2, "{longest_look:?} of {took:?}");
    });
}

#[test]
fn a_sender_can_wait_until_its_messages_have_left() {
    let (left, right) = pair(true);
    let (short, long) = (pattern(100 << 10, 1), pattern(2 << 20, 2));
    left.send(PeerId(1), 1, &short).unwrap();
    left.send(PeerId(1), 2, &long).unwrap();
    // The program asks for neither, but the library has memory for both.
    assert!(left.wait_sent(PeerId(1), SOON).unwrap());
    assert_eq!(right.recv(Match::any().tag(2)).unwrap().body(), long);
    assert_eq!(right.recv(Match::any().tag(1)).unwrap().body(), short);
    left.close(SOON).unwrap();
}

#[test]
fn messages_of_all_sizes_go_both_ways() {
    for sealed in [false, true] {
        let (left, right) = pair(sealed);
        let sizes = [0, 1, 64, 65, 1_024, 1_025, 60_000, 1 << 20, 20 << 20];
        let echo = std::thread::spawn(move || {
            for _ in sizes {
                let message = right.recv(Match::any()).unwrap();
                let tag = message.tag;
                right
                    .send_owned(PeerId(0), tag, message.into_vec())
                    .unwrap();
            }
            right.close(SOON).unwrap();
        });
        for (tag, size) in sizes.into_iter().enumerate() {
            let body = pattern(size, tag);
            left.send(PeerId(1), tag as u64, &body).unwrap();
            let answer = left
                .recv(Match::any().from(PeerId(1)).tag(tag as u64))
                .unwrap();
            assert_eq!(answer.body(), body, "{size} bytes");
        }
        echo.join().unwrap();
    }
}

#[test]
fn many_small_messages_arrive_in_order() {
    let (left, right) = pair(true);
    const COUNT: u64 = 200_000;
    let sender = std::thread::spawn(move || {
        for number in 0..COUNT {
            left.send(PeerId(1), 1, &number.to_le_bytes()).unwrap();
        }
        left.close(SOON).unwrap();
    });
    for number in 0..COUNT {
        let message = right.recv(Match::any().from(PeerId(0))).unwrap();
        assert_eq!(message.body(), number.to_le_bytes());
    }
    sender.join().unwrap();
}

#[test]
fn a_large_message_nobody_wants_does_not_hold_up_a_small_one() {
    let (left, right) = pair(true);
    left.send_owned(PeerId(1), 1, vec![1; 64 << 20]).unwrap();
    left.send(PeerId(1), 2, b"small").unwrap();
    let small = right
        .recv_timeout(Match::any().tag(2), SOON)
        .unwrap()
        .unwrap();
    assert_eq!(small.body(), b"small");
    let large = right
        .recv_timeout(Match::any().tag(1), SOON)
        .unwrap()
        .unwrap();
    assert_eq!(large.body().len(), 64 << 20);
}

#[test]
fn a_tracked_send_tells_when_the_peer_has_it() {
    let (left, right) = pair(true);
    let mut sent = left.send_tracked(PeerId(1), 9, pattern(5_000, 1)).unwrap();
    assert!(sent.wait(Some(SOON)).unwrap());
    assert_eq!(right.probe(Match::any()).unwrap().unwrap().len, 5_000);
}

#[test]
fn borrowed_and_owned_buffers_are_filled() {
    let (left, right) = pair(true);
    let mut short = [0; 10];
    let mut long = vec![0; 10_000];
    left.send(PeerId(1), 5, &pattern(5_000, 2)).unwrap();
    let error = right.recv_into(Match::any(), &mut short).unwrap_err();
    assert!(matches!(error, Error::TooSmall { room: 10, .. }), "{error}");
    let envelope = right.recv_into(Match::any(), &mut long).unwrap();
    assert_eq!(
        (envelope.len, &long[..5_000]),
        (5_000, &pattern(5_000, 2)[..])
    );

    let mut posted = right
        .post(Match::any().tag(6), Some(vec![0; 300_000]))
        .unwrap();
    let mut scoped = right.post_into(Match::any().tag(7), &mut long).unwrap();
    std::mem::forget(right.post_into(Match::any().tag(8), &mut short).unwrap());
    for tag in [6, 7, 8] {
        left.send(PeerId(1), tag, &pattern(9_000, 3)).unwrap();
    }
    assert_eq!(
        posted.wait(Some(SOON)).unwrap().unwrap().body(),
        pattern(9_000, 3)
    );
    for error in [posted.wait(None).unwrap_err(), posted.test().unwrap_err()] {
        assert!(matches!(error, Error::Ended), "{error}");
    }
    assert_eq!(scoped.wait(Some(SOON)).unwrap().unwrap().len, 9_000);
    assert_eq!(&long[..9_000], pattern(9_000, 3));
}

#[test]
fn a_message_beyond_all_memory_is_thrown_away() {
    let key = JobKey::generate().unwrap();
    let node = |id: u32| {
        let builder = Node::builder(PeerId(id)).bind("127.0.0.1:0".parse().unwrap());
        builder.job_key(key.clone()).memory(4 << 20).open().unwrap()
    };
    let (left, right) = (node(0), node(1));
    left.add_peer(PeerId(1), right.local_addr()).unwrap();
    let mut sent = left
        .send_tracked(PeerId(1), 1, pattern(9 << 20, 1))
        .unwrap();
    left.send(PeerId(1), 2, b"behind it").unwrap();

    let error = right.recv(Match::any()).unwrap_err();
    assert!(error.to_string().contains("discard it"), "{error}");
    let unposted = [
        right.recv(Match::any()).unwrap_err(),
        right.try_recv(Match::any()).unwrap_err(),
        right.recv_one_of(&[Match::any()], SOON).unwrap_err(),
    ];
    for error in unposted {
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    }
    // It holds up nothing else that is here.
    right
        .probe_timeout(Match::any().tag(2), SOON)
        .unwrap()
        .unwrap();
    let wanted = [Match::any().tag(1), Match::any().tag(2)];
    let behind = right.recv_one_of(&wanted, SOON).unwrap();
    assert_eq!(behind.map(|message| message.tag), Some(2));

    let envelope = right.discard(Match::any().from(PeerId(0)).tag(1)).unwrap();
    let envelope = envelope.expect("it has been announced");
    assert_eq!(
        (envelope.tag, envelope.len, envelope.complete),
        (1, 9 << 20, false)
    );
    assert_eq!(right.discard(Match::any()).unwrap(), None);
    assert!(
        sent.wait(Some(SOON)).unwrap(),
        "it has arrived at the library"
    );
    left.send(PeerId(1), 3, b"the next").unwrap();
    assert_eq!(right.recv(Match::any()).unwrap().body(), b"the next");
}

#[test]
fn an_empty_buffer_has_room_for_its_capacity() {
    let (left, right) = pair(true);
    let buffer = Vec::with_capacity(9_000);
    let (place, room) = (buffer.as_ptr(), buffer.capacity());
    let mut posted = right.post(Match::any(), Some(buffer)).unwrap();
    left.send(PeerId(1), 1, &pattern(9_000, 1)).unwrap();
    let filled = posted.wait(Some(SOON)).unwrap().unwrap().into_vec();
    assert_eq!((filled.as_ptr(), &filled), (place, &pattern(9_000, 1)));

    let mut posted = right.post(Match::any(), Some(filled)).unwrap();
    left.send(PeerId(1), 2, &vec![0; room + 1]).unwrap();
    let error = posted.wait(Some(SOON)).unwrap_err();
    assert!(
        matches!(error, Error::TooSmall { room: 9_000, .. }),
        "{error}"
    );
}

#[test]
fn a_node_is_always_connected_to_itself() {
    let (left, _right) = pair(true);
    let me = left.id();
    for known in [false, true] {
        if known {
            left.add_peer(me, left.local_addr()).unwrap();
        }
        left.connect(me, SOON).unwrap();
        assert!(left.is_writable(me, 1 << 30).unwrap());
        left.send(me, 1, b"note to self").unwrap();
        assert!(left.wait_sent(me, SOON).unwrap());
        assert_eq!(
            left.recv(Match::any().from(me)).unwrap().body(),
            b"note to self"
        );
    }
}

#[test]
fn a_restarted_peer_is_noticed_and_can_be_talked_to() {
    let (left, right) = pair(true);
    let addr = right.local_addr();
    left.send(PeerId(1), 1, b"hello").unwrap();
    right.recv(Match::any()).unwrap();
    right.close(SOON).unwrap();
    drop(right);
    let closed = std::iter::repeat_with(|| left.next_event())
        .take(1_000_000)
        .flatten();
    let lost = |event: &Event| {
        matches!(
            event,
            Event::Lost {
                why: PeerLost::Closed,
                ..
            }
        )
    };
    assert!(
        closed
            .inspect(|_| left.progress().unwrap())
            .any(|event| lost(&event))
    );
    assert_eq!(
        left.peer_stats(PeerId(1)).unwrap().state,
        sabani::LinkState::Known
    );
    let key_less = Node::builder(PeerId(1)).bind(addr).open().unwrap_err();
    assert!(matches!(key_less, Error::NoJobKey));
}

#[test]
fn another_key_is_named_as_the_reason() {
    let (left, _right) = pair(true);
    let stranger = Node::builder(PeerId(2))
        .bind("127.0.0.1:0".parse().unwrap())
        .job_key(JobKey::generate().unwrap())
        .connect_timeout(Duration::from_millis(300))
        .open()
        .unwrap();
    stranger.add_peer(PeerId(0), left.local_addr()).unwrap();
    let error = stranger.connect(PeerId(0), SOON).unwrap_err();
    assert!(error.to_string().contains("another job key"), "{error}");
    assert!(left.next_event().is_none());
}

#[test]
fn who_is_not_let_in_is_told_why() {
    let key = JobKey::generate().unwrap();
    let node = |id: u32| {
        let builder = Node::builder(PeerId(id)).bind("127.0.0.1:0".parse().unwrap());
        let builder = builder.connect_timeout(Duration::from_millis(300));
        builder
            .job_key(key.clone())
            .accept_unknown(false)
            .open()
            .unwrap()
    };
    let (closed, stranger) = (node(0), node(1));
    stranger.add_peer(PeerId(0), closed.local_addr()).unwrap();
    let error = stranger.connect(PeerId(0), SOON).unwrap_err();
    assert!(
        error.to_string().contains("only processes that it knows"),
        "{error}"
    );
    // Nor is such a one waited for.
    let error = closed.recv(Match::any().from(PeerId(1))).unwrap_err();
    assert!(matches!(error, Error::UnknownPeer(PeerId(1))), "{error}");
    closed.add_peer(PeerId(1), stranger.local_addr()).unwrap();
    stranger.connect(PeerId(0), SOON).unwrap();
}

#[test]
fn progress_goes_on_while_the_program_is_away() {
    let (left, right) = pair(true);
    // Neither side calls in while 8 MiB, more than any window, cross over.
    let mut sent = left
        .send_tracked(PeerId(1), 1, pattern(8 << 20, 4))
        .unwrap();
    let arrived = (0..2_000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        left.peer_stats(PeerId(1)).unwrap().queued_bytes == 0
    });
    assert!(arrived);
    assert!(sent.test().unwrap());
    assert_eq!(
        right.try_recv(Match::any()).unwrap().unwrap().body().len(),
        8 << 20
    );
}

/// What fills no train waits for the next message where a program sends in a row, and none comes.
#[test]
fn the_end_of_a_burst_leaves_while_the_program_is_away() {
    let (left, right) = pair(true);
    for len in [62 << 10, 65_000, 100_000, 200_000] {
        for tag in 0..10 {
            left.send(PeerId(1), tag, &pattern(len, 6)).unwrap();
        }
        let arrived = (0..2_000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            left.peer_stats(PeerId(1)).unwrap().queued_bytes == 0
        });
        assert!(arrived, "{len}");
        for tag in 0..10 {
            let message = right.recv(Match::any()).unwrap();
            assert_eq!((message.tag, message.body().len()), (tag, len));
        }
    }
}

/// Whoever calls keeps the helper away, so every call has to see to what comes.
#[test]
fn progress_goes_on_whatever_a_program_calls_again_and_again() {
    type Call = fn(&Node);
    let calls: [(&str, Call); 6] = [
        ("retransmit_now", |node| {
            node.retransmit_now(PeerId(1)).unwrap();
        }),
        ("hold_resends", |node| {
            node.hold_resends(PeerId(1), false).unwrap();
        }),
        ("flush", |node| node.flush().unwrap()),
        ("set_weight", |node| node.set_weight(PeerId(1), 2).unwrap()),
        ("set_window", |node| {
            node.set_window(PeerId(1), None).unwrap()
        }),
        ("is_writable", |node| {
            node.is_writable(PeerId(1), 3 << 20).unwrap();
        }),
    ];
    let (left, right) = pair(true);
    for (name, call) in calls {
        // More than any window.
        let body = pattern(4 << 20, 5);
        let _sent = left.send_tracked(PeerId(1), 1, body).unwrap();
        let began = Instant::now();
        while left.peer_stats(PeerId(1)).unwrap().queued_bytes > 0 {
            call(&left);
            assert!(
                began.elapsed() < SOON,
                "nothing comes in while a program calls {name}"
            );
        }
        let message = right.recv(Match::any()).unwrap();
        assert_eq!(message.body().len(), 4 << 20);
    }
}

/// A message of this length is here in part, or whole, after its receive was withdrawn.
fn withdrawn(left: &Node, right: &Node, tag: u64, len: usize) {
    let body = Arc::<[u8]>::from(pattern(len, 1));
    loop {
        let posted = right.post(Match::any().tag(tag), None).unwrap();
        let mut sent = left.send_unbounded(PeerId(1), tag, body.clone()).unwrap();
        while right.peer_stats(PeerId(0)).unwrap().posted_bytes == 0 && !sent.test().unwrap() {
            std::thread::yield_now();
        }
        if let (None, _) = posted.cancel() {
            return;
        }
    }
}

#[test]
fn a_receive_that_waits_in_vain_for_memory_says_who_holds_it() {
    let key = JobKey::generate().unwrap();
    let open = |id| {
        let builder = Node::builder(PeerId(id)).bind("127.0.0.1:0".parse().unwrap());
        let builder = builder.job_key(key.clone()).memory(48 << 20);
        builder.open().unwrap()
    };
    let (left, right) = (open(0), open(1));
    left.add_peer(PeerId(1), right.local_addr()).unwrap();
    left.connect(PeerId(1), SOON).unwrap();
    withdrawn(&left, &right, 1, 40 << 20);
    let next = vec![7; 20 << 20];
    let _sent = left.send_unbounded(PeerId(1), 2, next).unwrap();
    let mut posted = right.post(Match::any().tag(2), None).unwrap();
    assert!(posted.wait(Some(Duration::ZERO)).unwrap().is_none());
    // Said as often as it is asked.
    let errors = [(); 2].map(|()| posted.wait(None).unwrap_err());
    drop(posted);
    let error = right.recv(Match::any().tag(2)).unwrap_err();
    for error in errors.iter().chain([&error]) {
        let Error::Starved(why) = error else {
            panic!("{error}");
        };
        assert_eq!((why.waiting.tag, why.holder.tag), (2, 1));
    }
    assert!(
        error.to_string().contains("receive it, discard it"),
        "{error}"
    );
    for (tag, len) in [(1, 40 << 20), (2, 20 << 20)] {
        let message = right.recv(Match::any().tag(tag)).unwrap();
        assert_eq!(message.body().len(), len);
    }
}

#[test]
fn a_receive_from_anybody_outlives_the_sender_of_what_it_has_asked_for() {
    let key = JobKey::generate().unwrap();
    let [left, right, other] = [0, 1, 2].map(|id| {
        let builder = Node::builder(PeerId(id)).bind("127.0.0.1:0".parse().unwrap());
        let builder = builder.job_key(key.clone()).memory(48 << 20);
        builder.open().unwrap()
    });
    for node in [&left, &other] {
        node.add_peer(PeerId(1), right.local_addr()).unwrap();
        node.connect(PeerId(1), SOON).unwrap();
    }
    // This holds memory, so that the next one has to be asked for, and waits.
    withdrawn(&left, &right, 1, 40 << 20);
    let next = vec![7; 20 << 20];
    let _sent = left.send_unbounded(PeerId(1), 2, next).unwrap();
    std::thread::scope(|scope| {
        let received = scope.spawn(|| right.recv_timeout(Match::any().tag(2), SOON));
        while right.peer_stats(PeerId(0)).unwrap().shortage.is_none() {
            std::thread::yield_now();
        }
        left.close(Duration::ZERO).unwrap_err();
        while right.peer_stats(PeerId(0)).unwrap().state == sabani::LinkState::Open {
            std::thread::yield_now();
        }
        other.send(PeerId(1), 2, b"another").unwrap();
        let message = received.join().unwrap().unwrap().unwrap();
        assert_eq!(message.body(), b"another");
    });
}

#[test]
fn several_threads_may_use_one_node() {
    let (left, right) = pair(true);
    let threads: Vec<_> = (0..4u64)
        .map(|tag| {
            let (left, right) = (left.clone(), right.clone());
            std::thread::spawn(move || {
                for number in 0..500u64 {
                    left.send(PeerId(1), tag, &number.to_le_bytes()).unwrap();
                    let message = right.recv(Match::any().tag(tag)).unwrap();
                    assert_eq!(message.body(), number.to_le_bytes());
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn an_unknown_peer_is_an_error_of_the_caller() {
    let (left, _right) = pair(true);
    let stranger = PeerId(77);
    for error in [
        left.send(stranger, 0, b"x").unwrap_err(),
        left.send_owned(stranger, 0, vec![0; 10_000]).unwrap_err(),
        left.is_writable(stranger, 1).unwrap_err(),
        left.wait_writable(stranger, 1, SOON).unwrap_err(),
        left.wait_sent(stranger, SOON).unwrap_err(),
        left.connect(stranger, SOON).unwrap_err(),
    ] {
        assert!(matches!(error, Error::UnknownPeer(PeerId(77))), "{error}");
        assert_eq!(error.fault(), sabani::Fault::Caller);
    }
}
