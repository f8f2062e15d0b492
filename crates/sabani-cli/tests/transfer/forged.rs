//! A sender that has the key and means ill. The messages are put together byte by byte here, so that
//! the format is under test as well.

use std::fs;
use std::time::Duration;

use sabani::{Checksum, Match, Node, PeerId};

use super::programs::Place;

const TAG_CONTENT: u64 = 2;
const TAG_HELLO: u64 = 4;
const TIMEOUT: Duration = Duration::from_secs(10);

/// `Put` of a file with mode 644 and the content `x`.
fn put(path: &[u8]) -> Vec<u8> {
    let (job, attempt, put, size) = (0, 1, 4, 1);
    let mode = [0xa4, 0x03];
    let time = [2, 0];
    let mut message = vec![job, attempt, put, path.len() as u8];
    message.extend_from_slice(path);
    message.push(size);
    message.extend_from_slice(&mode);
    message.extend_from_slice(&time);
    message.extend_from_slice(blake3::hash(b"x").as_bytes());
    message.push(b'x');
    message
}

fn node(addr: &str) -> Node {
    let any = "127.0.0.1:0".parse().unwrap();
    let node = Node::builder(PeerId(99))
        .bind(any)
        .plain(Checksum::Crc32c)
        .open()
        .unwrap();
    node.add_peer(PeerId(0), addr.parse().unwrap()).unwrap();
    let (job, attempt, hello, version) = (0, 0, 0, 2);
    node.send(PeerId(0), TAG_HELLO, &[job, attempt, hello, version])
        .unwrap();
    let welcome = node.recv_timeout(Match::any(), TIMEOUT).unwrap();
    assert_eq!(
        welcome.expect("a welcome").body(),
        [job, attempt, 0, version]
    );
    node
}

/// The receiver's answer: job, attempt, kind, and the rest.
fn answer(node: &Node, message: &[u8]) -> Vec<u8> {
    node.send(PeerId(0), TAG_CONTENT, message).unwrap();
    let answer = node.recv_timeout(Match::any(), TIMEOUT).unwrap();
    answer.expect("an answer").into_vec()
}

#[test]
fn paths_that_lead_out_are_refused() {
    let place = Place::new();
    let receiver = place.receive_with("127.0.0.1:0", &["--plain"]);
    let node = node(&receiver.addr);
    let outside = place.path("outside");
    let absolute = outside.as_os_str().as_encoded_bytes();
    let refused = 7;
    for path in [
        b"../outside",
        absolute,
        b"a/../../outside",
        b"a//b",
        b".",
        b".sabani-partial/x",
    ] {
        let answer = answer(&node, &put(path));
        assert_eq!(answer[..3], [0, 1, refused], "{path:?}: {answer:?}");
    }
    let done = 3;
    assert_eq!(answer(&node, &put(b"inside"))[..3], [0, 1, done]);
    assert_eq!(fs::read(place.target().join("inside")).unwrap(), b"x");
    assert!(!outside.exists());
    assert_eq!(fs::read_dir(place.target()).unwrap().count(), 2);
}

#[test]
fn nonsense_and_wrong_hashes_harm_nobody() {
    let place = Place::new();
    let receiver = place.receive_with("127.0.0.1:0", &["--plain"]);
    let node = node(&receiver.addr);
    for nonsense in [&[][..], &[255; 100], b"hello, receiver"] {
        node.send(PeerId(0), TAG_CONTENT, nonsense).unwrap();
    }
    let mut wrong = put(b"wrong");
    *wrong.last_mut().unwrap() = b'y';
    let mismatch = 4;
    assert_eq!(answer(&node, &wrong), [0, 1, mismatch]);
    assert!(!place.target().join("wrong").exists());
    assert_eq!(answer(&node, &put(b"right"))[2], 3);
}
