//! Sockets on the loopback interface.

#![cfg(not(miri))]

use sabani_udp::{
    BUFFER_BYTES, Ecn, HintKind, MAX_BUFFERS, Options, RecvBatch, SendOutcome, Socket, Train, Waker,
};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

/// Long enough for any machine; tests that pass never wait for it.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

fn bind(addr: &str, options: &Options) -> Socket {
    Socket::bind(addr.parse().unwrap(), options).unwrap()
}

fn local(options: &Options) -> Socket {
    bind("127.0.0.1:0", options)
}

/// `addr` with the host part replaced, to reach a socket that is bound to a wildcard.
fn at(host: &str, socket: &Socket) -> SocketAddr {
    SocketAddr::new(host.parse().unwrap(), socket.local_addr().port())
}

fn has_ipv6() -> bool {
    let available = UdpSocket::bind("[::1]:0").is_ok();
    if !available {
        eprintln!("skipped: no IPv6 here");
    }
    available
}

fn send_all(socket: &mut Socket, trains: &[Train<'_>]) -> Vec<SendOutcome> {
    let mut outcomes = Vec::new();
    let settled = socket
        .send(trains, &mut |index, outcome| {
            assert_eq!(index, outcomes.len());
            outcomes.push(outcome);
        })
        .unwrap();
    assert_eq!(settled, trains.len());
    outcomes
}

/// One datagram as it arrived.
#[derive(Debug, PartialEq, Eq)]
struct Datagram {
    from: SocketAddr,
    to: Option<IpAddr>,
    bytes: Vec<u8>,
}

/// Receives until `count` datagrams are there.
fn collect(socket: &mut Socket, count: usize) -> Vec<Datagram> {
    let mut batch = RecvBatch::new(MAX_BUFFERS);
    let mut datagrams = Vec::new();
    while datagrams.len() < count {
        let ready = socket.wait(None, PATIENCE).unwrap();
        assert!(ready.socket, "{} of {count} arrived", datagrams.len());
        socket.recv(&mut batch).unwrap();
        for received in batch.received() {
            assert!(!received.truncated);
            let (from, to) = (received.from, received.to);
            datagrams.extend(received.into_datagrams().map(|bytes| Datagram {
                from,
                to,
                bytes: bytes.to_vec(),
            }));
        }
    }
    datagrams
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|index| (index * 7 + index / 251) as u8)
        .collect()
}

/// Sends `bytes` as one train and checks that they arrive, cut as they should be.
fn train_arrives(left: &mut Socket, right: &mut Socket, segment: usize, len: usize) {
    let bytes = pattern(len);
    let train = Train::new(right.local_addr(), segment, &bytes);
    assert_eq!(send_all(left, &[train]), [SendOutcome::Sent]);
    let expected: Vec<&[u8]> = match len {
        0 => vec![&[]],
        _ => bytes.chunks(segment).collect(),
    };
    let arrived = collect(right, expected.len());
    let arrived: Vec<&[u8]> = arrived.iter().map(|datagram| &datagram.bytes[..]).collect();
    assert_eq!(arrived, expected, "segment {segment}, {len} bytes");
}

const TRAINS: [(usize, usize); 9] = [
    (1_472, 0),
    (1_472, 1),
    (1_472, 1_472),
    (1_472, 1_473),
    (1_472, 64_768),
    (1_472, 65_507),
    (1, 64),
    (9_000, 40_000),
    (1_200, 150_000),
];

#[test]
fn trains_arrive_whole_with_and_without_offload() {
    for (gso, gro) in [(true, true), (true, false), (false, true), (false, false)] {
        let options = Options {
            gso,
            gro,
            ..Options::default()
        };
        let (mut left, mut right) = (local(&options), local(&options));
        for (segment, len) in TRAINS {
            train_arrives(&mut left, &mut right, segment, len);
        }
        let (sent, received) = (left.counters(), right.counters());
        assert_eq!(sent.datagrams_sent, received.datagrams_received);
        assert_eq!(sent.bytes_sent, received.bytes_received);
        assert_eq!(received.kernel_drops, 0);
        assert_eq!(
            sent.trains_cut > 1,
            !gso,
            "only the longest is cut with offload"
        );
    }
}

#[test]
fn as_many_segments_as_promised_leave_in_one_call() {
    let (mut left, mut right) = (local(&Options::default()), local(&Options::default()));
    let segments = left.capabilities().max_segments;
    if segments == 1 {
        return eprintln!("skipped: no segmentation offload here");
    }
    train_arrives(&mut left, &mut right, 100, segments * 100);
    assert_eq!(left.counters().send_calls, 1);
    assert_eq!(left.counters().trains_cut, 0);
    train_arrives(&mut left, &mut right, 100, segments * 100 + 1);
    assert_eq!(left.counters().trains_cut, 1);
}

#[test]
fn several_peers_are_served_by_one_call() {
    let mut left = local(&Options::default());
    let mut peers: Vec<Socket> = (0..5).map(|_| local(&Options::default())).collect();
    let bytes = pattern(5_000);
    let trains: Vec<Train<'_>> = peers
        .iter()
        .enumerate()
        .map(|(index, peer)| Train::new(peer.local_addr(), 1_000, &bytes[..1_000 * index + 1]))
        .collect();
    assert_eq!(send_all(&mut left, &trains), [SendOutcome::Sent; 5]);
    for (index, peer) in peers.iter_mut().enumerate() {
        let arrived = collect(peer, index + 1);
        assert_eq!(arrived.len(), index + 1);
        assert_eq!(arrived[0].from, left.local_addr());
        assert_eq!(
            arrived[0].to, None,
            "bound to one address, so there is no doubt"
        );
    }
    if left.capabilities().gso {
        assert_eq!(left.counters().send_calls, 1);
    }
}

#[test]
fn more_trains_than_one_call_holds() {
    let (mut left, mut right) = (local(&Options::default()), local(&Options::default()));
    let numbers: Vec<[u8; 2]> = (0..150_u16).map(u16::to_be_bytes).collect();
    let to = right.local_addr();
    let trains: Vec<Train<'_>> = numbers
        .iter()
        .map(|bytes| Train::new(to, 0, bytes))
        .collect();
    assert_eq!(send_all(&mut left, &trains), [SendOutcome::Sent; 150]);
    let arrived = collect(&mut right, 150);
    assert!(
        arrived
            .iter()
            .map(|datagram| &datagram.bytes[..])
            .eq(&numbers)
    );
}

#[test]
fn an_empty_socket_yields_nothing() {
    let mut socket = local(&Options::default());
    let mut batch = RecvBatch::new(0);
    assert_eq!(socket.recv(&mut batch).unwrap(), 0);
    assert_eq!(batch.received().len(), 0);
    assert_eq!(socket.counters().empty_polls, 1);
}

#[test]
fn ipv6_works_like_ipv4() {
    if !has_ipv6() {
        return;
    }
    let mut left = bind("[::1]:0", &Options::default());
    let mut right = bind("[::1]:0", &Options::default());
    for (segment, len) in TRAINS {
        train_arrives(&mut left, &mut right, segment, len);
    }
}

/// Contacts a wildcard socket at several of its addresses; the answers come from the address contacted.
fn answers_leave_from_the_address_contacted(wildcard: &str, client: &str, hosts: &[&str]) {
    let mut server = bind(wildcard, &Options::default());
    assert!(server.capabilities().reports_destination);
    for host in hosts {
        let mut client = bind(client, &Options::default());
        let contacted = at(host, &server);
        send_all(&mut client, &[Train::new(contacted, 0, b"question")]);
        let question = &collect(&mut server, 1)[0];
        assert_eq!(question.to, Some(contacted.ip()));
        assert_eq!(question.from, client.local_addr());
        let answer = Train {
            from: question.to,
            ..Train::new(question.from, 3, b"answer")
        };
        send_all(&mut server, &[answer]);
        let answer = collect(&mut client, 2);
        assert_eq!(answer[0].from, contacted);
        assert_eq!(
            (&answer[0].bytes[..], &answer[1].bytes[..]),
            (&b"ans"[..], &b"wer"[..])
        );
    }
}

/// What trains to a socket at this address say of congestion, in datagrams of different lengths.
fn codepoints_arrive(receiver: &str, sender: &str, host: &str) {
    let options = Options {
        ecn: true,
        ..Options::default()
    };
    let mut receiver = bind(receiver, &options);
    assert!(receiver.capabilities().reports_ecn);
    let mut sender = bind(sender, &Options::default());
    let to = at(host, &receiver);
    let mut batch = RecvBatch::new(1);
    for ecn in [Ecn::NotCapable, Ecn::Capable1, Ecn::Capable, Ecn::Marked] {
        for len in [5, 3_000] {
            let bytes = pattern(len);
            let train = Train {
                ecn,
                ..Train::new(to, 1_000, &bytes)
            };
            send_all(&mut sender, &[train]);
            let mut came = 0;
            while came < len {
                assert!(receiver.wait(None, PATIENCE).unwrap().socket);
                receiver.recv(&mut batch).unwrap();
                for received in batch.received() {
                    assert_eq!(received.ecn, ecn);
                    came += received.bytes.len();
                }
            }
        }
    }
}

#[test]
fn codepoints_arrive_where_they_are_asked_for() {
    codepoints_arrive("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1");
    codepoints_arrive("0.0.0.0:0", "127.0.0.1:0", "127.0.0.1");
    if has_ipv6() {
        codepoints_arrive("[::1]:0", "[::1]:0", "::1");
        codepoints_arrive("[::]:0", "[::]:0", "127.0.0.1");
    }
}

#[test]
fn answers_leave_from_the_address_contacted_v4() {
    let hosts = ["127.0.0.1", "127.0.0.2", "127.9.8.7"];
    answers_leave_from_the_address_contacted("0.0.0.0:0", "127.0.0.1:0", &hosts);
}

#[test]
fn answers_leave_from_the_address_contacted_v6() {
    if has_ipv6() {
        answers_leave_from_the_address_contacted("[::]:0", "[::1]:0", &["::1"]);
    }
}

#[test]
fn an_ipv6_wildcard_serves_ipv4_too() {
    if has_ipv6() {
        let hosts = ["127.0.0.1", "127.0.0.2"];
        answers_leave_from_the_address_contacted("[::]:0", "127.0.0.1:0", &hosts);
    }
}

#[test]
fn the_other_address_family_is_an_error_of_that_train_alone() {
    let (mut left, mut right) = (local(&Options::default()), local(&Options::default()));
    let to = right.local_addr();
    let trains = [
        Train::new(to, 0, b"one"),
        Train::new("[::1]:9".parse().unwrap(), 0, b"lost"),
        Train::new(to, 0, b"two"),
    ];
    let outcomes = send_all(&mut left, &trains);
    assert!(matches!(
        outcomes[..],
        [SendOutcome::Sent, SendOutcome::Failed(_), SendOutcome::Sent]
    ));
    assert_eq!(collect(&mut right, 2)[1].bytes, b"two");
    assert_eq!(left.counters().failed, 1);
}

#[test]
fn datagrams_that_are_too_big_concern_nobody_else() {
    let (mut left, mut right) = (local(&Options::default()), local(&Options::default()));
    let (to, huge) = (right.local_addr(), vec![0; 65_508]);
    let trains = [
        Train::new(to, 0, b"one"),
        Train::new(to, 0, &huge),
        Train::new(to, 0, b"two"),
    ];
    let outcomes = send_all(&mut left, &trains);
    assert_eq!(
        outcomes,
        [SendOutcome::Sent, SendOutcome::TooBig, SendOutcome::Sent]
    );
    assert_eq!(collect(&mut right, 2)[1].bytes, b"two");
    assert_eq!(left.counters().too_big, 1);
}

/// An address where nobody listens: a port that the kernel never hands out by itself.
fn deserted(host: &str) -> SocketAddr {
    SocketAddr::new(host.parse().unwrap(), 1)
}

/// ICMP errors about one peer neither fail nor hold up sends to another, and name the peer at fault.
fn icmp_errors_are_hints(bind_to: &str, host: &str) {
    let (mut left, mut right) = (
        bind(bind_to, &Options::default()),
        bind(bind_to, &Options::default()),
    );
    let (nobody, to) = (deserted(host), at(host, &right));
    let mut hints = Vec::new();
    for round in 0..10_u8 {
        let bytes = [round];
        let trains = [
            Train::new(nobody, 0, b"anybody?"),
            Train::new(to, 0, &bytes),
        ];
        assert_eq!(send_all(&mut left, &trains), [SendOutcome::Sent; 2]);
        assert_eq!(collect(&mut right, 1)[0].bytes, bytes);
        assert_eq!(left.recv(&mut RecvBatch::new(1)).unwrap(), 0);
        left.take_icmp_hints(&mut hints);
    }
    assert!(left.capabilities().icmp_hints);
    assert!(!hints.is_empty());
    for hint in hints {
        assert_eq!(hint.to, nobody);
        assert_eq!(hint.kind, HintKind::Unreachable(libc::ECONNREFUSED));
    }
    let counters = left.counters();
    assert!(counters.icmp_errors > 0);
    assert_eq!(counters.failed, 0);
}

#[test]
fn icmp_errors_are_hints_v4() {
    icmp_errors_are_hints("127.0.0.1:0", "127.0.0.1");
}

#[test]
fn icmp_errors_are_hints_v6() {
    if has_ipv6() {
        icmp_errors_are_hints("[::1]:0", "::1");
    }
}

#[test]
fn icmp_errors_are_hints_on_a_socket_of_both_families() {
    if has_ipv6() {
        icmp_errors_are_hints("[::]:0", "127.0.0.1");
    }
}

#[test]
fn two_threads_send_and_receive_over_one_port() {
    let (mut left, mut right) = (local(&Options::default()), local(&Options::default()));
    let mut sending = left.another();
    assert_eq!(sending.local_addr(), left.local_addr());
    let (to, nobody) = (right.local_addr(), deserted("127.0.0.1"));
    const ROUNDS: usize = 1_000;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                let trains = [
                    Train::new(nobody, 0, b"anybody?"),
                    Train::new(to, 0, b"you"),
                ];
                assert_eq!(send_all(&mut sending, &trains), [SendOutcome::Sent; 2]);
            }
        });
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                let from = collect(&mut right, 1)[0].from;
                send_all(&mut right, &[Train::new(from, 0, b"I")]);
            }
        });
        assert_eq!(collect(&mut left, ROUNDS).len(), ROUNDS);
    });
    let counters = left.counters().with(sending.counters());
    assert_eq!(counters.datagrams_sent, 2 * ROUNDS as u64);
    assert_eq!(counters.datagrams_received, ROUNDS as u64);
    assert_eq!((counters.failed, counters.kernel_drops), (0, 0));
    assert!(counters.icmp_errors > 0, "{counters:?}");
}

#[test]
fn kernel_drops_are_counted() {
    let small = Options {
        recv_buffer_bytes: 4_096,
        ..Options::default()
    };
    let (mut left, mut right) = (local(&Options::default()), local(&small));
    let bytes = [0; 1_000];
    for _ in 0..100 {
        send_all(&mut left, &[Train::new(right.local_addr(), 0, &bytes)]);
    }
    let (mut batch, mut received) = (RecvBatch::new(8), 0);
    while received + right.counters().kernel_drops < 100 {
        match right.recv(&mut batch).unwrap() {
            0 => std::thread::yield_now(),
            _ => received += batch.received().len() as u64,
        }
    }
    let counters = right.counters();
    assert!(received < 100);
    assert_eq!(counters.kernel_drops, 100 - received);
    assert_eq!(counters, right.counters(), "asking twice counts once");
}

#[test]
fn clamped_buffers_come_with_a_cure() {
    let options = Options {
        recv_buffer_bytes: 1 << 30,
        force_buffers: false,
        ..Options::default()
    };
    let socket = local(&options);
    let grant = &socket.capabilities().recv_buffer;
    assert!(grant.is_clamped());
    let cure = grant.cure.as_deref().unwrap();
    assert_eq!(cure, "sysctl -w net.core.rmem_max=1073741823");
}

#[test]
fn a_waker_ends_a_wait() {
    let socket = local(&Options::default());
    let waker = Waker::new().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| waker.wake());
        let ready = socket.wait(Some(waker.as_fd()), PATIENCE).unwrap();
        assert!(ready.other && !ready.socket);
    });
    waker.wake();
    assert!(waker.drain());
    assert!(!waker.drain());
    let ready = socket
        .wait(Some(waker.as_fd()), Some(Duration::ZERO))
        .unwrap();
    assert!(!ready.other && !ready.socket);
}

#[test]
fn waiting_for_room_ends_at_once_when_there_is_some() {
    let socket = local(&Options::default());
    let ready = socket.watch().wait(true, None, PATIENCE).unwrap();
    assert!(ready.socket);
}

#[test]
fn buffers_hold_the_largest_datagram() {
    let (mut left, mut right) = (local(&Options::default()), local(&Options::default()));
    const { assert!(BUFFER_BYTES >= 65_535) };
    train_arrives(&mut left, &mut right, 65_507, 65_507);
}
