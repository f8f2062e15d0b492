//! A process that runs out of memory: in a process of its own, for the limit concerns all of it.

use std::fs;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sabani::{JobKey, Match, Node, PeerId, Shortage};

/// So much is slow where others have the processors.
const SOON: Duration = Duration::from_secs(60);
const LEFT: PeerId = PeerId(0);
const RIGHT: PeerId = PeerId(1);
/// More than what memory is kept for: that of a message so long is taken before it is let come.
const LEN: usize = 256 << 20;
/// What is left for everything else, in bytes.
const LITTLE: u64 = 64 << 20;

/// Bytes of address space that this process has.
fn address_space() -> u64 {
    let sizes = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = sizes.split(' ').next().unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

#[test]
fn a_receive_that_the_system_had_no_memory_for_gets_its_message_once_there_is_some() {
    let key = JobKey::generate().unwrap();
    let open = |id| {
        let node = Node::builder(id).bind(([127, 0, 0, 1], 0).into());
        node.job_key(key.clone()).open().unwrap()
    };
    let (left, right) = (open(LEFT), open(RIGHT));
    left.add_peer(RIGHT, right.local_addr()).unwrap();
    left.send(RIGHT, 1, b"hello").unwrap();
    right.recv(Match::any()).unwrap();

    let body = vec![7; LEN];
    let usual = getrlimit(Resource::As);
    let limit = |bytes| {
        let maximum = usual.maximum;
        setrlimit(
            Resource::As,
            Rlimit {
                current: bytes,
                maximum,
            },
        )
        .unwrap();
    };
    limit(Some(address_space() + LITTLE));
    let mut posted = right.post(Match::any(), None).unwrap();
    let mut sent = left.send_unbounded(RIGHT, 2, body).unwrap();
    let shortage = || right.peer_stats(LEFT).unwrap().shortage;
    let mut looks = 0;
    while shortage() != Some(Shortage::System) && looks < 20_000 {
        assert!(!sent.wait(Some(Duration::from_millis(1))).unwrap());
        looks += 1;
    }
    assert_eq!(shortage(), Some(Shortage::System));
    limit(usual.current);
    let message = posted.wait(Some(SOON)).unwrap().expect("there is memory");
    assert_eq!((message.tag, message.body().len()), (2, LEN));
    assert!(sent.wait(Some(SOON)).unwrap());
}
