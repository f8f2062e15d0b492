//! One descriptor for event loops that are not ours.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sabani::{Match, Node, PeerId};

use crate::nodes;

const SOON: Duration = Duration::from_secs(20);

fn is_readable(fd: &OwnedFd, within: Duration) -> bool {
    let timeout = Timespec::try_from(within).expect("a short time");
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut fds, Some(&timeout)).expect("polling works") == 1
}

/// Takes all that is there.
fn drain(node: &Node) -> Vec<u64> {
    let mut tags = Vec::new();
    while let Some(message) = node.try_recv(Match::any()).unwrap() {
        tags.push(message.tag);
    }
    tags
}

#[test]
fn an_event_loop_gets_every_message() {
    const COUNT: u64 = 5_000;
    let (left, right) = nodes();
    let fd = right.poll_fd().unwrap();
    let sender = std::thread::spawn(move || {
        for tag in 0..COUNT {
            left.send(PeerId(1), tag, &[1; 100]).unwrap();
            if tag % 1_000 == 0 {
                // Long enough for the loop to sleep and for the helpers to take over.
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        left.close(SOON).unwrap();
    });
    let mut tags = Vec::new();
    while tags.len() < COUNT as usize {
        assert!(is_readable(&fd, SOON), "after {} messages", tags.len());
        tags.extend(drain(&right));
    }
    assert!(tags.into_iter().eq(0..COUNT));
    sender.join().unwrap();
}

#[test]
fn what_waits_in_user_space_is_readable() {
    let (left, right) = nodes();
    left.send(PeerId(1), 1, b"early").unwrap();
    right.probe_timeout(Match::any(), SOON).unwrap().unwrap();
    let fd = right.poll_fd().unwrap();
    assert!(
        is_readable(&fd, Duration::ZERO),
        "it came before the descriptor"
    );

    left.send(PeerId(1), 2, b"later").unwrap();
    right
        .probe_timeout(Match::any().tag(2), SOON)
        .unwrap()
        .unwrap();
    assert!(
        is_readable(&fd, Duration::ZERO),
        "somebody else received it"
    );
    assert_eq!(drain(&right), [1, 2]);
}

#[test]
fn nothing_to_read_is_not_readable() {
    let (left, right) = nodes();
    let fd = right.poll_fd().unwrap();
    assert!(!is_readable(&fd, Duration::from_millis(20)));
    left.send(PeerId(1), 1, b"x").unwrap();
    assert!(is_readable(&fd, SOON));
    assert_eq!(drain_until(&right, 1), [1]);
    assert!(left.wait_acknowledged(SOON).unwrap());
    // The last packets of the conversation may still make it readable.
    let start = Instant::now();
    while is_readable(&fd, Duration::ZERO) {
        assert!(drain(&right).is_empty());
        assert!(start.elapsed() < SOON, "readable, and nothing is there");
    }
}

/// Takes messages until there are so many: a readable descriptor may only announce a packet.
fn drain_until(node: &Node, count: usize) -> Vec<u64> {
    let (start, mut tags) = (Instant::now(), Vec::new());
    while tags.len() < count && start.elapsed() < SOON {
        tags.extend(drain(node));
    }
    tags
}
