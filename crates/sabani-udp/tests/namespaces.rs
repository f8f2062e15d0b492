//! Sockets in a network namespace of their own, where devices can be made to misbehave.
//!
//! Each test starts itself again under unshare(1), inside. Where namespaces may not be made, or iproute2 is
//! missing, the tests say so and pass.

#![cfg(not(miri))]

use sabani_udp::{Options, RecvBatch, SendOutcome, Socket, Train, Waker};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Long enough for any machine; tests that pass never wait for it.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

const INSIDE: &str = "SABANI_UDP_TEST_NAMESPACE";
const SETUP_FAILED: i32 = 77;

/// Runs `body` in a new network namespace, prepared by the shell commands in `setup`.
fn in_namespace(test: &str, setup: &str, body: fn()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let script =
        format!("{{ {setup}; }} || exit {SETUP_FAILED}; exec \"$0\" --exact {test} --nocapture");
    let status = Command::new("unshare")
        .args(["--net", "--map-root-user", "sh", "-ec", &script])
        .arg(std::env::current_exe().unwrap())
        .env(INSIDE, "1")
        .status();
    match status.map(|status| status.code()) {
        Ok(Some(0)) => {}
        Ok(Some(SETUP_FAILED)) => eprintln!("skipped: cannot prepare a network namespace here"),
        _ if !namespaces_work() => eprintln!("skipped: cannot make a network namespace here"),
        other => panic!("{test} failed inside its namespace: {other:?}"),
    }
}

fn namespaces_work() -> bool {
    let status = Command::new("unshare")
        .args(["--net", "--map-root-user", "true"])
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

fn shell(command: &str) {
    let status = Command::new("sh").args(["-c", command]).status().unwrap();
    assert!(status.success(), "{command}");
}

fn bind(addr: &str, options: &Options) -> Socket {
    Socket::bind(addr.parse().unwrap(), options).unwrap()
}

/// Sends the trains and returns what was reported.
fn outcomes(socket: &mut Socket, trains: &[Train<'_>]) -> Vec<SendOutcome> {
    let mut outcomes = Vec::new();
    socket
        .send(trains, &mut |_, outcome| outcomes.push(outcome))
        .unwrap();
    outcomes
}

/// A train of several datagrams and a lone datagram, both of `segment` bytes, between two small ones.
fn offer(left: &mut Socket, right: &Socket, segment: usize) -> Vec<SendOutcome> {
    let (to, bytes) = (right.local_addr(), vec![0; 5 * segment]);
    outcomes(
        left,
        &[
            Train::new(to, 0, b"before"),
            Train::new(to, segment, &bytes),
            Train::new(to, segment, &bytes[..segment]),
            Train::new(to, 0, b"after"),
        ],
    )
}

/// Trains fit exactly up to the device's MTU, and those that do not are reported one by one.
fn mtu_is_respected(host: &str, headers: usize, options: &Options) {
    use SendOutcome::{Sent, TooBig};
    let (mut left, mut right) = (bind(host, options), bind(host, options));
    for mtu in [1_500, 1_300] {
        shell(&format!("ip link set lo mtu {mtu}"));
        let largest = mtu - headers;
        assert_eq!(offer(&mut left, &right, largest), [Sent; 4], "MTU {mtu}");
        assert_eq!(
            offer(&mut left, &right, largest + 1),
            [Sent, TooBig, TooBig, Sent],
            "MTU {mtu}"
        );
    }
    let counters = left.counters();
    assert_eq!(
        (counters.too_big, counters.failed, counters.gso_refusals),
        (4, 0, 0)
    );
    let ready = left.wait(None, Some(Duration::ZERO)).unwrap();
    assert!(!ready.socket, "no error is left over to end the next sleep");
    let (mut batch, mut datagrams) = (RecvBatch::new(8), 0);
    let expected = 2 * (1 + 5 + 1 + 1) + 2 * 2;
    while right.recv(&mut batch).unwrap() > 0 || datagrams < expected {
        datagrams += batch
            .received()
            .map(|received| received.into_datagrams().count())
            .sum::<usize>();
        let more = datagrams >= expected || right.wait(None, PATIENCE).unwrap().socket;
        assert!(more, "{datagrams} of {expected} came");
    }
    assert_eq!(datagrams, expected);
}

#[test]
fn datagrams_beyond_the_mtu_are_reported_one_by_one() {
    const TEST: &str = "datagrams_beyond_the_mtu_are_reported_one_by_one";
    in_namespace(TEST, "ip link set lo up mtu 1500", || {
        for gso in [true, false] {
            let options = Options {
                gso,
                ..Options::default()
            };
            mtu_is_respected("127.0.0.1:0", 28, &options);
            shell("ip link set lo mtu 1500");
            if std::net::UdpSocket::bind("[::1]:0").is_ok() {
                mtu_is_respected("[::1]:0", 48, &options);
            }
        }
    });
}

#[test]
fn a_full_device_queue_is_reported_and_passes() {
    const TEST: &str = "a_full_device_queue_is_reported_and_passes";
    let setup =
        "ip link set lo up && tc qdisc add dev lo root tbf rate 8mbit burst 70kb limit 70kb";
    in_namespace(TEST, setup, || {
        let (mut left, right) = (
            bind("127.0.0.1:0", &Options::default()),
            bind("127.0.0.1:0", &Options::default()),
        );
        let bytes = vec![0; 20_000];
        let train = Train::new(right.local_addr(), 1_000, &bytes);
        let reported = outcomes(&mut left, &[train; 50]);
        let full = SendOutcome::NoBuffers { taken_bytes: 0 };
        assert_eq!(reported.last(), Some(&full));
        assert!(reported.len() < 50, "nothing behind it was tried");
        assert_eq!(left.counters().no_buffers, 1);
        while outcomes(&mut left, &[train]) != [SendOutcome::Sent] {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}

/// What comes wakes nobody who waits for room over another handle.
fn waits_for_room_alone(mut left: Socket, mut right: Socket, train: Train<'_>) {
    let mut sending = left.another();
    let wakes = Train::new(left.local_addr(), 0, b"not to be read");
    assert_eq!(outcomes(&mut right, &[wakes]), [SendOutcome::Sent]);
    let waker = Waker::new().unwrap();
    let left_at_once = |sending: &mut Socket| outcomes(sending, &[train]) == [SendOutcome::Sent];
    while left_at_once(&mut sending) {}
    let mut waits = 0;
    while !left_at_once(&mut sending) {
        sending.wait_for_room(waker.as_fd(), PATIENCE).unwrap();
        waits += 1;
    }
    // Each one has found some: half of the buffer.
    assert!(waits < 100, "{waits}");
}

#[test]
fn a_full_send_buffer_is_reported_and_passes() {
    const TEST: &str = "a_full_send_buffer_is_reported_and_passes";
    let setup =
        "ip link set lo up && tc qdisc add dev lo root tbf rate 80mbit burst 70kb limit 50mb";
    in_namespace(TEST, setup, || {
        let small = Options {
            send_buffer_bytes: 100_000,
            ..Options::default()
        };
        for gso in [true, false] {
            let options = Options {
                gso,
                ..small.clone()
            };
            let (mut left, right) = (bind("127.0.0.1:0", &options), bind("127.0.0.1:0", &small));
            let bytes = vec![0; 60_000];
            let train = Train::new(right.local_addr(), 1_000, &bytes);
            let reported = outcomes(&mut left, &[train; 50]);
            let Some(&SendOutcome::Blocked { taken_bytes }) = reported.last() else {
                panic!("{reported:?}");
            };
            assert_eq!(taken_bytes % 1_000, 0);
            let rest = Train {
                bytes: &bytes[taken_bytes..],
                ..train
            };
            loop {
                let ready = left.watch().wait(true, None, PATIENCE).unwrap();
                assert!(ready.socket, "room comes with time");
                if outcomes(&mut left, &[rest]) == [SendOutcome::Sent] {
                    break;
                }
            }
            assert!(left.counters().would_block > 0);
            waits_for_room_alone(left, right, rest);
        }
    });
}

#[test]
fn a_missing_route_concerns_nobody_else() {
    const TEST: &str = "a_missing_route_concerns_nobody_else";
    in_namespace(TEST, "ip link set lo up", || {
        let (mut left, right) = (
            bind("0.0.0.0:0", &Options::default()),
            bind("127.0.0.1:0", &Options::default()),
        );
        let nowhere = "192.0.2.1:9".parse().unwrap();
        let trains = [
            Train::new(right.local_addr(), 0, b"one"),
            Train::new(nowhere, 0, b"lost"),
            Train::new(right.local_addr(), 0, b"two"),
        ];
        let lost = SendOutcome::Failed(libc::ENETUNREACH);
        assert_eq!(
            outcomes(&mut left, &trains),
            [SendOutcome::Sent, lost, SendOutcome::Sent]
        );
    });
}

/// The firewall also sends an ICMP error for each datagram that it refuses.
#[test]
fn a_firewalls_refusal_is_told_of_the_train_that_it_concerns() {
    const TEST: &str = "a_firewalls_refusal_is_told_of_the_train_that_it_concerns";
    let setup = "ip link set lo up && nft 'add table inet firewall;
        add chain inet firewall leaving { type filter hook output priority 0; };
        add rule inet firewall leaving udp dport 11 reject'";
    in_namespace(TEST, setup, || {
        let (mut left, right) = (
            bind("127.0.0.1:0", &Options::default()),
            bind("127.0.0.1:0", &Options::default()),
        );
        let at = |port| Train::new(([127, 0, 0, 1], port).into(), 0, b"datagram");
        // Nobody is there: the errors that come of it meet what is sent next.
        let (dead, refused, alive) = (at(9), at(11), at(right.local_addr().port()));
        for _ in 0..100 {
            use SendOutcome::{Failed, Sent};
            assert_eq!(
                outcomes(&mut left, &[dead, alive, dead, refused, dead, alive]),
                [Sent, Sent, Sent, Failed(libc::EPERM), Sent, Sent]
            );
        }
    });
}

/// Receives and answers until the peer has become hot, from where it was contacted. An IPv6 address that was just added takes
/// nothing until a work queue of the kernel has seen it: what does not come is sent again.
fn talk(left: &mut Socket, right: &mut Socket, host: IpAddr) {
    let to = SocketAddr::new(host, right.local_addr().port());
    let (mut batch, hot_peers) = (RecvBatch::new(1), right.counters().hot_peers);
    let mut lost = 0;
    while right.counters().hot_peers == hot_peers {
        assert_eq!(
            outcomes(left, &[Train::new(to, 0, b"there")]),
            [SendOutcome::Sent]
        );
        if !comes(right, &mut batch) {
            lost += 1;
            assert!(lost < 100, "nothing came");
            continue;
        }
        let received = batch.received().next().unwrap();
        let back = Train {
            from: Some(host),
            ..Train::new(received.from, 0, b"back")
        };
        assert_eq!(outcomes(right, &[back]), [SendOutcome::Sent]);
    }
}

/// Receives one buffer; `false` if nothing comes for a while.
fn comes(right: &mut Socket, batch: &mut RecvBatch) -> bool {
    right.look_everywhere();
    if right.recv(batch).unwrap() > 0 {
        return true;
    }
    right.wait(None, Some(Duration::from_millis(200))).unwrap();
    right.look_everywhere();
    right.recv(batch).unwrap() > 0
}

/// Whether what leaves from an address that is gone is told apart, and all else goes on; and whether the
/// peer is hot again once the address is back.
fn leaves_from_elsewhere(bound: &str, near: &str, host: &str) {
    let (mut left, mut right) = (
        bind(near, &Options::default()),
        bind(bound, &Options::default()),
    );
    let gone: IpAddr = host.parse().unwrap();
    talk(&mut left, &mut right, gone);
    let at = if gone.is_ipv4() {
        format!("{host}/32")
    } else {
        format!("{host}/128 nodad")
    };
    shell(&format!(
        "ip addr del {} dev lo",
        at.trim_end_matches(" nodad")
    ));
    let bytes = vec![0; 3_000];
    let (to, short) = (
        left.local_addr(),
        Train::new(left.local_addr(), 0, b"short"),
    );
    let long = Train::new(to, 1_000, &bytes);
    let from = |train| Train {
        from: Some(gone),
        ..train
    };
    use SendOutcome::{Sent, SourceGone};
    let tells = |_| outcomes(&mut right, &[from(short)]) == [SourceGone];
    assert!((0..8).any(tells), "the hot socket hides it");
    assert_eq!(
        outcomes(&mut right, &[short, from(short), long, from(long), short]),
        [Sent, SourceGone, Sent, SourceGone, Sent]
    );
    let before = right.counters();
    assert_eq!(outcomes(&mut right, &[short]), [Sent]);
    let calls = right.counters().send_calls - before.send_calls;
    assert_eq!(calls, 1, "the hot socket is not tried any more");
    shell(&format!("ip addr add {at} dev lo"));
    talk(&mut left, &mut right, gone);
    assert_eq!(outcomes(&mut right, &[from(short); 16]), [Sent; 16]);
}

#[test]
fn a_source_that_is_gone_is_told_of() {
    const TEST: &str = "a_source_that_is_gone_is_told_of";
    let setup = "ip link set lo up; ip addr add 10.9.0.1 dev lo; ip addr add 10.9.0.2 dev lo";
    in_namespace(TEST, setup, || {
        for bound in ["0.0.0.0:0", "[::]:0"] {
            leaves_from_elsewhere(bound, "10.9.0.1:0", "10.9.0.2");
        }
        shell("ip addr add fd09::2 dev lo nodad");
        leaves_from_elsewhere("[::]:0", "[::1]:0", "fd09::2");
    });
}

#[test]
fn a_socket_opens_where_even_the_loopback_is_down() {
    const TEST: &str = "a_socket_opens_where_even_the_loopback_is_down";
    in_namespace(TEST, "true", || {
        let socket = bind("0.0.0.0:0", &Options::default());
        let segments = socket.capabilities().max_segments;
        assert!([1, 64].contains(&segments), "{segments}");
    });
}

/// A train of 16,000 bytes that takes 0.13 s, of which the first 4 KB leave at once, and which leaves as a whole.
#[test]
fn what_waits_for_the_own_link_is_told_of_until_it_has_left() {
    const TEST: &str = "what_waits_for_the_own_link_is_told_of_until_it_has_left";
    let setup = "ip link set lo up; ip link set lo mtu 1500; \
        tc qdisc add dev lo root tbf rate 1mbit burst 4kb limit 1mb";
    in_namespace(TEST, setup, || {
        let options = Options::default();
        let (mut left, mut right) = (bind("127.0.0.1:0", &options), bind("127.0.0.1:0", &options));
        assert_eq!(left.unsent_bytes(), 0);
        let train = Train::new(right.local_addr(), 1_000, &[1; 16_000]);
        assert_eq!(outcomes(&mut left, &[train]), [SendOutcome::Sent]);
        let unsent = left.unsent_bytes();
        assert!((10_000..40_000).contains(&unsent), "{unsent}");
        let (mut batch, mut came) = (RecvBatch::new(1), 0);
        while came < 16 {
            if right.recv(&mut batch).unwrap() == 0 {
                assert!(right.wait(None, PATIENCE).unwrap().socket, "{came}");
                continue;
            }
            came += batch
                .received()
                .flat_map(|received| received.into_datagrams())
                .count();
        }
        assert_eq!(left.unsent_bytes(), 0);
    });
}

/// Behind 20 datagrams, 8 ms each, that wait at a device with bands.
#[test]
fn what_is_express_leaves_before_what_waits() {
    const TEST: &str = "what_is_express_leaves_before_what_waits";
    let setup = "ip link set lo up; ip link set lo mtu 1500; \
        tc qdisc add dev lo root handle 1: tbf rate 1mbit burst 4kb limit 1mb; \
        tc qdisc add dev lo parent 1:1 handle 10: pfifo_fast";
    in_namespace(TEST, setup, || {
        let options = Options::default();
        // From an IPv6 socket to an IPv4 peer as well.
        for bound in ["127.0.0.1:0", "[::]:0"] {
            let (mut left, mut right) = (bind(bound, &options), bind("127.0.0.1:0", &options));
            let to = right.local_addr();
            let waits = [Train::new(to, 0, &[1; 1_000]); 20];
            let express = Train {
                express: true,
                ..Train::new(to, 0, b"express")
            };
            assert_eq!(outcomes(&mut left, &waits), [SendOutcome::Sent; 20]);
            assert_eq!(outcomes(&mut left, &[express]), [SendOutcome::Sent]);
            let (mut batch, mut came) = (RecvBatch::new(1), Vec::new());
            while came.len() < 21 {
                if right.recv(&mut batch).unwrap() == 0 {
                    assert!(right.wait(None, PATIENCE).unwrap().socket, "{came:?}");
                    continue;
                }
                let datagrams = batch
                    .received()
                    .flat_map(|received| received.into_datagrams());
                came.extend(datagrams.map(|datagram| datagram.len()));
            }
            let place = came.iter().position(|&len| len == 7);
            assert!(place.is_some_and(|place| place < 10), "{came:?}");
        }
    });
}
