//! What happens when the kernel changes its mind, and when the process forks.

#![cfg(not(miri))]

use sabani_udp::{Options, RecvBatch, SendOutcome, Socket, Train, fork_generation};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Long enough for any machine; tests that pass never wait for it.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

fn local() -> Socket {
    Socket::bind("127.0.0.1:0".parse().unwrap(), &Options::default()).unwrap()
}

/// Turns checksums off or on again. Without checksums the kernel refuses to segment.
fn set_checksums(socket: &Socket, on: bool) {
    let value = i32::from(!on);
    // SAFETY: the kernel reads four bytes from `value`, which is that long.
    let returned = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NO_CHECK,
            (&raw const value).cast(),
            size_of::<i32>() as u32,
        )
    };
    assert_eq!(returned, 0);
}

fn send(socket: &mut Socket, trains: &[Train<'_>]) {
    let settled = socket
        .send(trains, &mut |_, outcome| {
            assert_eq!(outcome, SendOutcome::Sent)
        })
        .unwrap();
    assert_eq!(settled, trains.len());
}

/// How many there are once nothing is left of the `expected` ones.
fn datagrams(socket: &mut Socket, expected: usize) -> usize {
    let (mut batch, mut count) = (RecvBatch::new(8), 0);
    while socket.recv(&mut batch).unwrap() > 0 || count < expected {
        count += batch
            .received()
            .map(|received| received.into_datagrams().count())
            .sum::<usize>();
        let more = count >= expected || socket.wait(None, PATIENCE).unwrap().socket;
        assert!(more, "{count} of {expected} came");
    }
    count
}

#[test]
fn trains_are_cut_while_segmentation_is_refused() {
    let (mut left, mut right) = (local(), local());
    if !left.capabilities().gso {
        return eprintln!("skipped: no segmentation offload here");
    }
    let bytes = [0; 4_500];
    let train = Train::new(right.local_addr(), 1_000, &bytes);

    set_checksums(&left, false);
    send(&mut left, &[train; 3]);
    assert_eq!(datagrams(&mut right, 15), 15);
    let counters = left.counters();
    assert_eq!((counters.gso_refusals, counters.trains_cut), (1, 3));
    assert_eq!((counters.datagrams_sent, counters.bytes_sent), (15, 13_500));

    set_checksums(&left, true);
    let mut calls = 0;
    for _ in 0..2_000 {
        let before = left.counters().send_calls;
        send(&mut left, &[train]);
        calls = left.counters().send_calls - before;
        assert_eq!(datagrams(&mut right, 5), 5);
    }
    assert_eq!(calls, 1);
    let counters = left.counters();
    assert_eq!(counters.gso_refusals, 1);
    assert!(
        counters.trains_cut < 1_100,
        "the kernel is asked again after a while"
    );
}

#[test]
fn an_impossible_address_is_no_refusal() {
    let (mut left, right) = (local(), local());
    let bytes = [0; 4_500];
    let trains = [
        Train::new("127.0.0.1:0".parse().unwrap(), 1_000, &bytes),
        Train::new(right.local_addr(), 1_000, &bytes),
    ];
    let mut outcomes = Vec::new();
    left.send(&trains, &mut |_, outcome| outcomes.push(outcome))
        .unwrap();
    assert_eq!(
        outcomes,
        [SendOutcome::Failed(libc::EINVAL), SendOutcome::Sent]
    );
    assert_eq!(left.counters().gso_refusals, 0);
}

#[test]
fn a_forked_child_has_another_generation() {
    let parent = fork_generation();
    // SAFETY: the child only reads and writes atomics before it exits, which is allowed even when other
    // threads held locks at the time of the fork.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let first = fork_generation();
        let settled = first != parent && first == fork_generation();
        // SAFETY: ends the process at once, without running anything that the parent registered.
        unsafe { libc::_exit(i32::from(!settled)) }
    }
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    assert_eq!(fork_generation(), parent);
}
