//! A forked child must not speak with its parent's keys.

use std::cell::Cell;
use std::time::Duration;

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use sabani::{Error, Match, Node, PeerId};

use crate::{node, nodes};

const SOON: Duration = Duration::from_secs(20);

/// Runs `child` in a forked process and tells whether it said yes.
fn in_a_child(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child shares nothing with the parent's other threads that it waits for: the C
    // library makes its allocator usable after a fork, and the child leaves by `_exit`.
    match unsafe { fork() }.expect("processes have not run out") {
        ForkResult::Parent { child } => {
            let status = waitpid(child, None).expect("the child ends");
            status == WaitStatus::Exited(child, 0)
        }
        ForkResult::Child => {
            let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
            let code = i32::from(!matches!(said, Ok(true)));
            // SAFETY: ends the process at once, without what belongs to the parent.
            unsafe { nix::libc::_exit(code) }
        }
    }
}

fn refuses(node: &Node) -> bool {
    let results = [
        node.send(PeerId(1), 1, b"stolen"),
        node.progress(),
        node.flush(),
        node.try_recv(Match::any()).map(drop),
        node.close(Duration::ZERO),
    ];
    results
        .iter()
        .all(|result| matches!(result, Err(Error::Forked)))
}

#[test]
fn a_forked_child_is_refused_and_its_parent_goes_on() {
    let (left, right) = nodes();
    left.send(PeerId(1), 1, b"before").unwrap();
    assert_eq!(right.recv(Match::any()).unwrap().body(), b"before");
    assert!(in_a_child(|| refuses(&left)));
    left.send(PeerId(1), 2, b"after").unwrap();
    assert_eq!(right.recv(Match::any()).unwrap().body(), b"after");
    right.send(PeerId(0), 3, b"answer").unwrap();
    assert_eq!(left.recv(Match::any()).unwrap().body(), b"answer");
}

#[test]
fn a_child_may_drop_the_node_and_open_its_own() {
    let (left, right) = nodes();
    left.send(PeerId(1), 1, b"before").unwrap();
    assert_eq!(right.recv(Match::any()).unwrap().body(), b"before");
    let there = right.local_addr();
    // The child empties its own copy of the cell.
    let left = Cell::new(Some(left));
    assert!(in_a_child(|| {
        drop(left.take());
        let own = node(2, |builder| builder);
        own.add_peer(PeerId(1), there).unwrap();
        let mut sent = own.send_tracked(PeerId(1), 2, b"child".to_vec()).unwrap();
        sent.wait(Some(SOON)).unwrap()
    }));
    let message = right.recv(Match::any().from(PeerId(2))).unwrap();
    assert_eq!(message.body(), b"child");
    let left = left.take().unwrap();
    left.send(PeerId(1), 3, b"after").unwrap();
    let message = right.recv(Match::any().from(PeerId(0))).unwrap();
    assert_eq!(message.body(), b"after");
}
