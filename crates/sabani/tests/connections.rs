//! Connections that programs break off and take up again, and peers that move, over real sockets.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use sabani::{
    Checksum, Error, Event, Fault, JobKey, LinkState, Match, Node, PeerId, Quality, Value,
};

const SOON: Duration = Duration::from_secs(20);
const LEFT: PeerId = PeerId(0);
const RIGHT: PeerId = PeerId(1);

fn here() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Two nodes that don't know each other's addresses. The second one has little memory for messages
/// that nobody has asked for.
fn strangers() -> (Node, Node) {
    let key = JobKey::generate().unwrap();
    let node = |id| Node::builder(id).bind(here()).job_key(key.clone());
    let right = node(RIGHT).memory(8 << 20);
    (node(LEFT).open().unwrap(), right.open().unwrap())
}

/// Drives both until `check` says yes.
#[track_caller]
fn until(nodes: [&Node; 2], check: impl Fn() -> bool) {
    let patience = std::iter::repeat_with(|| {
        nodes.iter().for_each(|node| node.progress().unwrap());
        std::thread::sleep(Duration::from_millis(1));
        check()
    });
    assert!(patience.take(20_000).any(|yes| yes));
}

/// Whoever has not been heard of yet, for its first packet is still under way, is not connected.
fn state(at: &Node, of: PeerId) -> LinkState {
    at.peer_stats(of)
        .map_or(LinkState::Known, |stats| stats.state)
}

#[test]
fn what_was_sent_before_a_disconnect_arrives_after_the_reconnect() {
    let (left, right) = strangers();
    left.add_peer(RIGHT, right.local_addr()).unwrap();
    left.connect(RIGHT, SOON).unwrap();
    let mut sent = left.send_tracked(RIGHT, 1, vec![7; 3 << 20]).unwrap();
    left.disconnect(RIGHT).unwrap();
    until([&left, &right], || {
        state(&right, LEFT) == LinkState::DisconnectedByPeer
    });
    for error in [
        left.send(RIGHT, 2, b"in vain").unwrap_err(),
        left.send_owned(RIGHT, 2, vec![0; 1 << 20]).unwrap_err(),
        left.wait_writable(RIGHT, 1, SOON).unwrap_err(),
        left.connect(RIGHT, SOON).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Disconnected { by_peer: false, .. }));
        assert_eq!(error.fault(), Fault::Caller);
        assert!(error.to_string().contains("reconnect before sending"));
    }
    // The other side may send until its queue is full; it is told then, rather than kept waiting.
    let error = (0..).find_map(|tag| right.send(LEFT, tag, &[1; 1_000_000]).err());
    let error = error.expect("its queue is finite");
    assert!(matches!(error, Error::Disconnected { by_peer: true, .. }));
    assert_eq!(error.fault(), Fault::Peer);
    assert_eq!(left.try_recv(Match::any()).unwrap().map(|m| m.tag), None);

    left.reconnect(RIGHT).unwrap();
    left.connect(RIGHT, SOON).unwrap();
    assert_eq!(right.recv(Match::any()).unwrap().body(), vec![7; 3 << 20]);
    assert!(sent.wait(Some(SOON)).unwrap());
    for tag in 0..4 {
        assert_eq!(left.recv(Match::any()).unwrap().tag, tag);
    }
    let told: Vec<_> = std::iter::from_fn(|| left.next_event()).collect();
    assert!(!told.iter().any(|event| matches!(event, Event::Lost { .. })));
    let changes = told.iter().filter_map(|event| match event {
        Event::Changed { to, .. } => Some(*to),
        _ => None,
    });
    assert!(changes.eq([LinkState::Disconnected, LinkState::Open]));
}

#[test]
fn a_sender_that_waits_for_room_is_released_by_a_disconnect() {
    let (left, right) = strangers();
    left.add_peer(RIGHT, right.local_addr()).unwrap();
    left.connect(RIGHT, SOON).unwrap();
    let sender = left.clone();
    let waiting = std::thread::spawn(move || {
        let sends = (0..).map(|tag| sender.send(RIGHT, tag, &[0; 900_000]));
        sends.filter_map(Result::err).next().unwrap()
    });
    // Nobody receives at the other side.
    let queued = || left.peer_stats(RIGHT).unwrap().queued_bytes;
    until([&left, &right], || queued() > 3 << 20);
    left.disconnect(RIGHT).unwrap();
    let error = waiting.join().unwrap();
    assert!(matches!(error, Error::Disconnected { by_peer: false, .. }));
}

/// Whatever threads the layers run on.
#[test]
fn who_can_not_be_reached_is_named_with_what_is_in_the_way() {
    let closed = UdpSocket::bind(here()).unwrap().local_addr().unwrap();
    for schedule in [
        "inline",
        "background",
        "per-layer",
        "[messages+channel+opening+receiving][sealing+sending]",
        "[messages+channel][opening+receiving][sealing+sending]",
    ] {
        let node = Node::builder(LEFT)
            .bind(here())
            .plain(Checksum::None)
            .connect_timeout(Duration::from_millis(1_000))
            .layers(schedule.parse().unwrap())
            .open()
            .unwrap();
        for (peer, addr, fault, text) in [
            (1, closed, Fault::Peer, "Connection refused"),
            (
                2,
                "[::1]:7000".parse().unwrap(),
                Fault::Environment,
                "bind it to [::]",
            ),
            (
                3,
                "127.255.255.255:7000".parse().unwrap(),
                Fault::Environment,
                "is it a broadcast address",
            ),
        ] {
            node.add_peer(PeerId(peer), addr).unwrap();
            let error = node.connect(PeerId(peer), SOON).unwrap_err();
            assert_eq!(error.fault(), fault, "{schedule}: {error}");
            assert!(error.to_string().contains(text), "{schedule}: {error}");
        }
    }
}

#[test]
fn a_program_that_waits_for_a_connection_no_longer_hears_what_is_in_the_way() {
    let closed = UdpSocket::bind(here()).unwrap().local_addr().unwrap();
    let node = Node::builder(LEFT).bind(here()).plain(Checksum::None);
    let node = node.open().unwrap();
    node.add_peer(RIGHT, closed).unwrap();
    let said = (1..100).find_map(|tries| {
        let error = node.connect(RIGHT, Duration::from_millis(tries));
        let error = error.unwrap_err();
        assert!(
            matches!(error, Error::Unconnected { peer: RIGHT, .. }),
            "{error}"
        );
        assert_eq!(error.fault(), Fault::Peer);
        Some(error.to_string()).filter(|text| text.contains("Connection refused"))
    });
    let said = said.expect("the obstacle is named while the handshake goes on");
    assert!(said.contains("is the peer running"), "{said}");
}

#[test]
fn messages_that_were_dropped_are_said_to_who_waits_for_acknowledgements() {
    let dropped = |left: &Node, said: Result<(), Error>| {
        let error = said.unwrap_err();
        assert!(
            matches!(
                error,
                Error::PeerLost {
                    peer: RIGHT,
                    why: Some(_)
                }
            ),
            "{error}"
        );
        assert!(left.wait_acknowledged(SOON).unwrap(), "it is said once");
    };
    let (left, right) = strangers();
    left.add_peer(RIGHT, right.local_addr()).unwrap();
    // More than the other one takes unless somebody asks for it.
    left.send(RIGHT, 1, &vec![1; 6 << 20]).unwrap();
    left.connect(RIGHT, SOON).unwrap();
    right.close(SOON).unwrap();
    dropped(&left, left.wait_acknowledged(SOON).map(drop));

    // Nor does a connection that is made anew hide it.
    left.send(RIGHT, 2, b"nobody is there any more").unwrap();
    until([&left, &left], || state(&left, RIGHT) == LinkState::Known);
    left.connect(RIGHT, Duration::ZERO).unwrap_err();
    dropped(&left, left.wait_acknowledged(SOON).map(drop));
}

#[test]
fn closing_names_the_peer_that_has_not_acknowledged_all() {
    let closed = UdpSocket::bind(here()).unwrap().local_addr().unwrap();
    for (linger, is_lost) in [(SOON, true), (Duration::ZERO, false)] {
        let node = Node::builder(LEFT).bind(here()).plain(Checksum::None);
        let node = node.connect_timeout(Duration::from_millis(50));
        let node = node.open().unwrap();
        node.add_peer(RIGHT, closed).unwrap();
        node.send(RIGHT, 1, b"nobody is there").unwrap();
        match node.close(linger).unwrap_err() {
            Error::PeerLost { peer: RIGHT, .. } => assert!(is_lost),
            Error::Unacknowledged { peer: RIGHT, .. } => assert!(!is_lost),
            error => panic!("{error}"),
        }
    }
}

#[test]
fn closing_tells_who_has_another_job_key() {
    let open = |id| {
        let key = JobKey::generate().unwrap();
        Node::builder(id).bind(here()).job_key(key).open().unwrap()
    };
    let (left, right) = (open(LEFT), open(RIGHT));
    left.add_peer(RIGHT, right.local_addr()).unwrap();
    left.send(RIGHT, 1, b"who are you?").unwrap();
    let error = left.close(Duration::from_secs(1)).unwrap_err();
    assert!(error.to_string().contains("another job key"), "{error}");
}

#[test]
fn closing_tells_who_has_disconnected() {
    for (by_left, by_right, cure) in [
        (
            true,
            false,
            "this program has disconnected from it: reconnect",
        ),
        (false, true, "its program has disconnected: close once"),
        (true, true, "both programs have disconnected: reconnect"),
    ] {
        let (left, right) = strangers();
        left.add_peer(RIGHT, right.local_addr()).unwrap();
        left.connect(RIGHT, SOON).unwrap();
        until([&left, &right], || state(&right, LEFT) == LinkState::Open);
        if by_right {
            right.disconnect(LEFT).unwrap();
            until([&left, &right], || {
                state(&left, RIGHT) == LinkState::DisconnectedByPeer
            });
            let error = left.connect(RIGHT, SOON).unwrap_err().to_string();
            assert!(!error.contains("0 bytes"), "{error}");
            assert!(error.contains("when it reconnects"), "{error}");
        }
        left.send_owned(RIGHT, 1, vec![7; 1 << 20]).unwrap();
        if by_left {
            left.disconnect(RIGHT).unwrap();
        }
        let error = left.close(Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains(cure), "{error}");
    }
}

/// What another call has said is not said again.
#[test]
fn who_waits_while_another_thread_closes_is_told_that_the_node_is_closed() {
    let (left, right) = strangers();
    left.add_peer(RIGHT, right.local_addr()).unwrap();
    // More than the other one takes unless somebody asks for it.
    let mut sent = left.send_tracked(RIGHT, 1, vec![1; 9 << 20]).unwrap();
    let mut posted = left.post(Match::any().from(RIGHT), None).unwrap();
    std::thread::scope(|scope| {
        let waiting = [
            scope.spawn(|| left.close(SOON).unwrap_err()),
            scope.spawn(|| sent.wait(None).unwrap_err()),
            scope.spawn(|| posted.wait(None).unwrap_err()),
        ];
        until([&right, &right], || left.send(RIGHT, 2, b"").is_err());
        let error = left.close(Duration::ZERO).unwrap_err();
        assert!(matches!(error, Error::Unacknowledged { .. }), "{error}");
        for thread in waiting {
            let error = thread.join().unwrap();
            assert!(matches!(error, Error::Closed), "{error}");
        }
    });
}

#[test]
fn what_was_acknowledged_is_said_also_after_the_node_was_closed() {
    let (left, right) = strangers();
    left.add_peer(RIGHT, right.local_addr()).unwrap();
    let mut small = left.send_tracked(RIGHT, 1, vec![1; 9]).unwrap();
    assert!(left.wait_acknowledged(SOON).unwrap());
    // More than the other one takes unless somebody asks for it.
    let mut large = left.send_tracked(RIGHT, 2, vec![1; 9 << 20]).unwrap();
    left.close(Duration::ZERO).unwrap_err();
    assert!(small.wait(None).unwrap());
    assert!(small.test().unwrap());
    for _ in 0..2 {
        let error = large.wait(None).unwrap_err();
        assert!(matches!(error, Error::Closed), "{error}");
    }
}

#[test]
fn closing_after_a_loss_that_is_known_is_no_error() {
    let (left, right) = strangers();
    left.add_peer(RIGHT, right.local_addr()).unwrap();
    let mut sent = left.send_tracked(RIGHT, 1, vec![1; 6 << 20]).unwrap();
    left.connect(RIGHT, SOON).unwrap();
    right.close(SOON).unwrap();
    sent.wait(Some(SOON)).unwrap_err();
    left.close(SOON).unwrap();
}

/// Stands between two nodes, as a NAT does: passes on what comes to the door that is open now, and
/// lets what comes from inside out by that door.
struct Relay {
    doors: [SocketAddr; 2],
    open: Arc<AtomicUsize>,
}

impl Relay {
    fn new(outside: SocketAddr, inside: SocketAddr) -> Self {
        let bind = || Arc::new(UdpSocket::bind(here()).unwrap());
        let (inner, doors, open) = (bind(), [bind(), bind()], Arc::new(AtomicUsize::new(0)));
        let relay = Relay {
            doors: [0, 1].map(|door: usize| doors[door].local_addr().unwrap()),
            open: open.clone(),
        };
        for (number, door) in doors.clone().into_iter().enumerate() {
            let (inner, open) = (inner.clone(), open.clone());
            pass(door, move |bytes| {
                if open.load(Relaxed) == number {
                    let _ = inner.send_to(bytes, inside);
                }
            });
        }
        pass(inner, move |bytes| {
            let _ = doors[open.load(Relaxed)].send_to(bytes, outside);
        });
        relay
    }
}

/// Gives what comes to a socket to `on`, for as long as the process lives.
fn pass(socket: Arc<UdpSocket>, on: impl Fn(&[u8]) + Send + 'static) {
    std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while let Ok(len) = socket.recv(&mut buffer) {
            on(&buffer[..len]);
        }
    });
}

#[test]
fn a_peer_behind_a_nat_that_forgets_it_is_found_again() {
    let (left, right) = strangers();
    let relay = Relay::new(left.local_addr(), right.local_addr());
    left.add_peer(RIGHT, relay.doors[0]).unwrap();
    left.send(RIGHT, 9, b"hello").unwrap();
    assert_eq!(right.recv(Match::any()).unwrap().body(), b"hello");
    for (tag, door) in [(0, 0), (1, 1), (2, 0)] {
        relay.open.store(door, Relaxed);
        let (one, other) = (vec![tag as u8; 300_000], vec![tag as u8 + 1; 300_000]);
        right.send(LEFT, tag, &one).unwrap();
        left.send(RIGHT, tag, &other).unwrap();
        assert_eq!(left.recv(Match::any().tag(tag)).unwrap().body(), one);
        assert_eq!(right.recv(Match::any().tag(tag)).unwrap().body(), other);
        let address = left.peer_stats(RIGHT).unwrap().address;
        assert_eq!(address, Some(relay.doors[door]));
    }
    let told: Vec<_> = std::iter::from_fn(|| left.next_event()).collect();
    let moves = told.iter().filter_map(|event| match event {
        Event::Moved { to, .. } => Some(*to),
        _ => None,
    });
    assert!(moves.eq([relay.doors[1], relay.doors[0]]));
    assert!(!told.iter().any(|event| matches!(event, Event::Lost { .. })));
}

#[test]
fn who_has_left_is_not_waited_for_until_it_is_back() {
    let key = JobKey::generate().unwrap();
    let node = |id| Node::builder(id).bind(here()).job_key(key.clone());
    let (left, right) = (node(LEFT).open().unwrap(), node(RIGHT).open().unwrap());
    left.add_peer(RIGHT, right.local_addr()).unwrap();
    left.connect(RIGHT, SOON).unwrap();
    until([&left, &right], || state(&right, LEFT) == LinkState::Open);
    right.send(LEFT, 1, b"the last word").unwrap();
    right.close(SOON).unwrap();
    drop(right);
    until([&left, &left], || state(&left, RIGHT) == LinkState::Known);

    let from = Match::any().from(RIGHT);
    assert_eq!(left.recv(from).unwrap().body(), b"the last word");
    for _ in 0..2 {
        for error in [
            left.recv(from).unwrap_err(),
            left.recv_timeout(from, SOON).unwrap_err(),
            left.try_recv(from).unwrap_err(),
            left.recv_one_of(&[Match::any().tag(5), from], SOON)
                .unwrap_err(),
            left.recv_into(from, &mut [0; 8]).unwrap_err(),
        ] {
            let why = Some(sabani::PeerLost::Closed);
            assert!(matches!(&error, Error::PeerLost { peer: RIGHT, why: told } if *told == why));
        }
    }
    // Receives that are posted wait for whoever takes its place.
    let mut posted = left.post(from, None).unwrap();
    assert!(posted.test().unwrap().is_none());
    let right = node(RIGHT).open().unwrap();
    right.add_peer(LEFT, left.local_addr()).unwrap();
    right.send(LEFT, 2, b"back").unwrap();
    assert_eq!(posted.wait(Some(SOON)).unwrap().unwrap().body(), b"back");
    assert!(
        left.recv_timeout(from, Duration::from_millis(1))
            .unwrap()
            .is_none()
    );
    right.send(LEFT, 3, b"again").unwrap();
    assert_eq!(left.recv(from).unwrap().body(), b"again");
}

/// A node that may come back at its old address.
fn right(key: &JobKey, bind: SocketAddr) -> Node {
    let builder = Node::builder(RIGHT).bind(bind).job_key(key.clone());
    builder.open().unwrap()
}

#[test]
fn who_asks_again_and_again_for_a_peer_that_has_left_lets_it_in() {
    let key = JobKey::generate().unwrap();
    let builder = Node::builder(LEFT).bind(here()).job_key(key.clone());
    let left = builder.open().unwrap();
    let first = right(&key, here());
    let (here, there) = (left.local_addr(), first.local_addr());
    left.add_peer(RIGHT, there).unwrap();
    left.connect(RIGHT, SOON).unwrap();
    first.close(SOON).unwrap();
    drop(first);
    let from_right = Match::any().from(RIGHT);
    until([&left, &left], || left.try_recv(from_right).is_err());
    let again = std::thread::spawn(move || {
        let again = right(&key, there);
        again.add_peer(LEFT, here).unwrap();
        again.connect(LEFT, SOON).map(|()| again)
    });
    while !again.is_finished() {
        let _ = left.try_recv(from_right);
    }
    assert!(again.join().unwrap().is_ok());
}

#[test]
fn an_end_that_a_waiting_receive_has_told_is_not_told_again() {
    let key = JobKey::generate().unwrap();
    let builder = Node::builder(LEFT).bind(here()).job_key(key.clone());
    let left = builder.open().unwrap();
    let first = right(&key, here());
    first.add_peer(LEFT, left.local_addr()).unwrap();
    first.connect(LEFT, SOON).unwrap();
    let mut posted = left.post(Match::any().from(RIGHT), None).unwrap();
    let second = right(&key, here());
    second.add_peer(LEFT, left.local_addr()).unwrap();
    second.connect(LEFT, SOON).unwrap();
    assert!(matches!(
        posted.wait(Some(SOON)),
        Err(Error::PeerLost { .. })
    ));
    left.send(RIGHT, 1, b"to the second").unwrap();
    assert_eq!(second.recv(Match::any()).unwrap().body(), b"to the second");
}

#[test]
fn an_event_loop_hears_of_a_receive_that_ends_by_silence() {
    let silent = UdpSocket::bind(here()).unwrap();
    let node = Node::builder(LEFT).bind(here()).plain(Checksum::None);
    let connecting = Duration::from_millis(100);
    let node = node.connect_timeout(connecting).open().unwrap();
    node.add_peer(RIGHT, silent.local_addr().unwrap()).unwrap();
    let mut posted = node.post(Match::any().from(RIGHT), None).unwrap();
    let fd = node.poll_fd().unwrap();
    node.send(RIGHT, 1, b"anybody there?").unwrap();
    let mut waiting = [PollFd::new(&fd, PollFlags::IN)];
    assert_eq!(poll(&mut waiting, Some(&SOON.try_into().unwrap())), Ok(1));
    let error = posted.test().unwrap_err();
    assert!(
        matches!(error, Error::PeerLost { peer: RIGHT, .. }),
        "{error}"
    );
}

#[test]
fn a_send_says_again_what_became_of_it() {
    let (left, right) = strangers();
    left.add_peer(RIGHT, right.local_addr()).unwrap();
    let mut sent = left.send_tracked(RIGHT, 1, vec![1; 10]).unwrap();
    assert!(sent.wait(Some(SOON)).unwrap() && sent.test().unwrap());
    // More than the other one takes unless somebody asks for it.
    let mut sent = left.send_tracked(RIGHT, 1, vec![1; 6 << 20]).unwrap();
    assert!(!sent.test().unwrap());
    right.close(SOON).unwrap();
    for error in [sent.wait(Some(SOON)).unwrap_err(), sent.test().unwrap_err()] {
        assert!(
            matches!(error, Error::PeerLost { peer: RIGHT, .. }),
            "{error}"
        );
    }
}

#[test]
fn a_quality_is_asked_for_and_granted() {
    let (left, right) = strangers();
    left.add_peer(RIGHT, right.local_addr()).unwrap();
    left.connect(RIGHT, SOON).unwrap();
    left.set_quality(RIGHT, Quality::Response).unwrap();
    let granted = || left.peer_stats(RIGHT).unwrap().granted;
    until([&left, &right], || granted().is_some());
    assert_eq!(granted().unwrap().ack_every, Some(4));
    let unknown = left.set_quality(PeerId(7), Quality::Even).unwrap_err();
    assert!(matches!(unknown, Error::UnknownPeer(PeerId(7))));
}

#[test]
fn what_is_worth_nothing_any_more_is_told_to_both() {
    let (left, right) = strangers();
    left.add_peer(RIGHT, right.local_addr()).unwrap();
    left.connect(RIGHT, SOON).unwrap();
    let value = Value::Within(SOON);
    let mut sent = left.send_valued(RIGHT, 1, vec![7; 10], value).unwrap();
    assert_eq!(right.recv(Match::any()).unwrap().body(), [7; 10]);
    assert!(sent.wait(Some(SOON)).unwrap());

    // More than the other one takes unless somebody asks for it.
    let value = Value::Within(Duration::from_millis(20));
    let mut sent = left.send_valued(RIGHT, 1, vec![7; 6 << 20], value).unwrap();
    let error = sent.wait(Some(SOON)).unwrap_err();
    assert!(matches!(error, Error::Expired { peer: RIGHT }), "{error}");
    assert_eq!(error.fault(), Fault::Peer);
    let expired = || {
        let events = std::iter::from_fn(|| right.next_event());
        let mut expired = events.filter(|event| matches!(event, Event::Expired { .. }));
        expired.next().is_some()
    };
    until([&left, &right], expired);
    left.send(RIGHT, 2, b"the next").unwrap();
    assert_eq!(right.recv(Match::any()).unwrap().body(), b"the next");
}

#[test]
fn what_is_said_of_one_loss_does_not_hide_the_next() {
    let (left, right) = strangers();
    left.add_peer(RIGHT, right.local_addr()).unwrap();
    let mut sent = left.send_tracked(RIGHT, 1, vec![1; 6 << 20]).unwrap();
    left.connect(RIGHT, SOON).unwrap();
    right.close(SOON).unwrap();
    let ended = || state(&left, RIGHT) == LinkState::Known;
    until([&left, &left], ended);
    left.send(RIGHT, 2, b"the first loss is said").unwrap_err();
    left.send(RIGHT, 2, b"nobody is there any more").unwrap();
    until([&left, &left], ended);
    // What it tells of came first.
    sent.wait(Some(SOON)).unwrap_err();
    assert!(matches!(
        left.close(SOON).unwrap_err(),
        Error::PeerLost { peer: RIGHT, .. }
    ));
}

#[test]
fn settings_beyond_their_ranges_do_not_stop_a_node() {
    let open = |id| {
        let node = Node::builder(id).bind(here()).plain(Checksum::None);
        node.log_window_max(0).open().unwrap()
    };
    let (left, right) = (open(LEFT), open(RIGHT));
    left.add_peer(RIGHT, right.local_addr()).unwrap();
    left.send(RIGHT, 1, b"there is room for this").unwrap();
    assert!(right.recv_timeout(Match::any(), SOON).unwrap().is_some());

    let node = Node::builder(LEFT).bind(here()).plain(Checksum::None);
    let node = node.connect_timeout(Duration::ZERO).open().unwrap();
    node.add_peer(RIGHT, right.local_addr()).unwrap();
    node.send(RIGHT, 1, b"perhaps").unwrap();
}
