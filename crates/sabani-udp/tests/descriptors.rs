//! A process that runs out of descriptors: in a process of its own, for the limit concerns all of it.

#![cfg(not(miri))]

use sabani_udp::{Options, RecvBatch, SendOutcome, Socket, Train};

fn local() -> Socket {
    Socket::bind("127.0.0.1:0".parse().unwrap(), &Options::default()).unwrap()
}

/// Lets the process open descriptors below this one only; returns what the limit was.
fn limit_descriptors(most: libc::rlim_t) -> libc::rlim_t {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes to `limit`, which is of the type that it expects.
    let read = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    let before = std::mem::replace(&mut limit.rlim_cur, most);
    // SAFETY: the kernel reads from `limit`, which is of the type that it expects.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    assert_eq!((read, set), (0, 0));
    before
}

/// Sends `count` datagrams from one to the other, one after the other.
fn talk(left: &mut Socket, right: &mut Socket, count: usize) {
    let mut batch = RecvBatch::new(1);
    for _ in 0..count {
        let train = Train::new(right.local_addr(), 0, b"datagram");
        let mut report = |_, outcome| assert_eq!(outcome, SendOutcome::Sent);
        left.send(&[train], &mut report).unwrap();
        right.look_everywhere();
        // Nobody can sleep on a socket without descriptors.
        while right.recv(&mut batch).unwrap() == 0 {
            std::thread::yield_now();
            right.look_everywhere();
        }
    }
}

#[test]
fn a_hot_peer_gets_its_socket_once_there_are_descriptors_again() {
    let (mut left, mut right) = (local(), local());
    let usual = limit_descriptors(0);
    talk(&mut left, &mut right, 2_000);
    limit_descriptors(usual);
    assert_eq!(right.counters().hot_peers, 0);
    talk(&mut left, &mut right, 5_000);
    assert_eq!(right.counters().hot_peers, 1);
}
