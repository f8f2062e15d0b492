//! A sender that has the key and means ill. The messages are put together byte by byte here, so that
//! the format is under test as well.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use sabani::{Checksum, Match, Node, PeerId, Value};

use super::plain_node;
use super::programs::{Place, Program, until};

const TAG_CONTENT: u64 = 2;
const TAG_ANSWER: u64 = 3;
const TAG_HELLO: u64 = 4;
const TIMEOUT: Duration = Duration::from_secs(10);
/// One byte more than a node allocates.
const TOO_LARGE: usize = (1 << 30) + 1;
/// So long that it does not come before it has expired.
const LONG: usize = 200 << 20;
const SOON: Value = Value::Within(Duration::from_millis(20));
/// Kinds of answers.
const START: u8 = 1;
const DONE: u8 = 3;
const REFUSED: u8 = 7;

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

/// `Offer` of an empty file.
fn offer(job: &[u8], path: &[u8]) -> Vec<u8> {
    let (attempt, offer, size) = (1, 1, 0);
    let mut message = [job, &[attempt, offer, path.len() as u8], path].concat();
    message.extend_from_slice(&[size, 0xa4, 0x03, 2, 0]);
    message
}

/// A member that has said nothing yet.
fn stranger(id: u32, addr: &str) -> Node {
    let any = "127.0.0.1:0".parse().unwrap();
    let node = Node::builder(PeerId(id)).bind(any);
    let node = node.plain(Checksum::Crc32c).open().unwrap();
    node.add_peer(PeerId(0), addr.parse().unwrap()).unwrap();
    node.connect(PeerId(0), TIMEOUT).unwrap();
    node
}

fn node(addr: &str) -> Node {
    let node = stranger(99, addr);
    greet(&node);
    node
}

fn greet(node: &Node) {
    let (job, attempt, hello, version) = (0, 0, 0, 3);
    node.send(PeerId(0), TAG_HELLO, &[job, attempt, hello, version])
        .unwrap();
    let welcome = node.recv_timeout(Match::any(), TIMEOUT).unwrap();
    assert_eq!(
        welcome.expect("a welcome").body(),
        [job, attempt, 0, version]
    );
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
    for path in [
        b"../outside",
        absolute,
        b"a/../../outside",
        b"a//b",
        b".",
        b".sabani-partial/x",
    ] {
        let answer = answer(&node, &put(path));
        assert_eq!(answer[..3], [0, 1, REFUSED], "{path:?}: {answer:?}");
    }
    assert_eq!(answer(&node, &put(b"inside"))[..3], [0, 1, DONE]);
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

#[test]
fn what_is_no_hello_keeps_nobody_out() {
    let place = Place::new();
    fs::create_dir_all(place.source()).unwrap();
    let receiver = place.receive_with("127.0.0.1:0", &["--plain"]);
    let strangers = [1, 2, 3].map(|id| stranger(id, &receiver.addr));
    let [expired, oversized, silent] = &strangers;
    let mut sent = expired
        .send_valued(PeerId(0), TAG_HELLO, vec![0; LONG], SOON)
        .unwrap();
    // Whatever has become of it.
    let _ = sent.wait(Some(TIMEOUT));
    oversized
        .send_owned(PeerId(0), TAG_HELLO, vec![0; TOO_LARGE])
        .unwrap();
    silent
        .send_owned(PeerId(0), TAG_HELLO, vec![0; LONG])
        .unwrap();
    silent.disconnect(PeerId(0)).unwrap();
    place
        .send(&receiver, &["--plain", "--patience", "5"])
        .assert_success();
    receiver.signal(Signal::INT);
    let ended = receiver.end();
    assert_eq!(ended.code, Some(130), "{}", ended.said);
    let told = ended.said.matches("is no sender's hello").count();
    assert_eq!(told, 1, "{}", ended.said);
    for node in strangers {
        let _ = node.close(Duration::ZERO);
    }
}

#[test]
fn what_can_not_be_taken_is_its_senders_concern_alone() {
    let place = Place::new();
    let receiver = place.receive_with("127.0.0.1:0", &["--plain"]);
    let node = node(&receiver.addr);
    let mut sent = node
        .send_valued(PeerId(0), TAG_CONTENT, vec![0; LONG], SOON)
        .unwrap();
    let _ = sent.wait(Some(TIMEOUT));
    node.send_owned(PeerId(0), TAG_CONTENT, vec![0; TOO_LARGE])
        .unwrap();
    assert_eq!(answer(&node, &put(b"after"))[2], DONE);
    receiver.signal(Signal::INT);
    let said = receiver.end().said;
    let told = said
        .matches("something that the sender at 127.0.0.1")
        .count();
    assert_eq!(told, 1, "{said}");
    let _ = node.close(Duration::ZERO);
}

#[test]
fn what_is_longer_than_any_request_takes_no_memory_from_others() {
    let place = Place::new();
    fs::create_dir_all(place.source()).unwrap();
    fs::write(place.source().join("large"), vec![1; 20 << 20]).unwrap();
    let receiver = place.receive_with("127.0.0.1:0", &["--plain"]);
    let node = node(&receiver.addr);
    // All that the receiver's node may allocate, if it asked for it; and no more of it comes.
    node.send_owned(PeerId(0), TAG_CONTENT, vec![0; TOO_LARGE - 1])
        .unwrap();
    std::thread::sleep(Duration::from_millis(60));
    node.disconnect(PeerId(0)).unwrap();
    place
        .send(&receiver, &["--plain", "--patience", "5"])
        .assert_success();
    receiver.signal(Signal::INT);
    let said = receiver.end().said;
    assert!(said.contains("1073741824 bytes in one message"), "{said}");
    let _ = node.close(Duration::ZERO);
}

#[test]
fn what_a_sender_held_is_free_when_it_is_gone() {
    let place = Place::new();
    let receiver = place.receive_with("127.0.0.1:0", &["--plain"]);
    let first = node(&receiver.addr);
    assert_eq!(answer(&first, &offer(&[0], b"file"))[2], START);
    first
        .send_owned(PeerId(0), TAG_CONTENT, vec![0; TOO_LARGE])
        .unwrap();
    let second = stranger(98, &receiver.addr);
    greet(&second);
    let busy = 5;
    assert_eq!(answer(&second, &offer(&[0], b"file"))[2], busy);
    let _ = first.close(Duration::ZERO);
    until("the file is free", || {
        answer(&second, &offer(&[0], b"file"))[2] == START
    });
}

#[test]
fn a_sender_has_so_many_jobs_and_no_more() {
    let place = Place::new();
    let receiver = place.receive_with("127.0.0.1:0", &["--plain"]);
    let node = node(&receiver.addr);
    let (last, one_more) = ([0x81, 0x02], [0x82, 0x02]);
    assert_eq!(answer(&node, &offer(&last, b"last"))[3], START);
    assert_eq!(answer(&node, &offer(&one_more, b"one more"))[3], REFUSED);
}

#[test]
fn nothing_is_taken_without_a_hello() {
    let place = Place::new();
    let receiver = place.receive_with("127.0.0.1:0", &["--plain"]);
    let addr = &receiver.addr;
    let (rude, old) = (stranger(1, addr), stranger(2, addr));
    rude.send(PeerId(0), TAG_HELLO, &put(b"rude")).unwrap();
    old.send(PeerId(0), TAG_HELLO, &[0, 0, 0, 1]).unwrap();
    let answered = old.recv_timeout(Match::any(), TIMEOUT).unwrap();
    assert_eq!(answered.expect("an answer").body()[2], REFUSED);
    old.send(PeerId(0), TAG_CONTENT, &put(b"old")).unwrap();
    for node in [&rude, &old] {
        assert!(node.wait_acknowledged(TIMEOUT).unwrap());
        let unanswered = node.recv_timeout(Match::any(), Duration::from_secs(1));
        assert!(unanswered.unwrap().is_none());
    }
    assert_eq!(answer(&node(addr), &put(b"polite"))[2], DONE);
    assert_eq!(fs::read_dir(place.target()).unwrap().count(), 2);
}

#[test]
fn what_a_receiver_says_does_nothing_to_the_terminal() {
    let place = Place::new();
    fs::create_dir_all(place.source()).unwrap();
    let receiver = plain_node();
    let addr = receiver.local_addr().to_string();
    let more = ["--plain", "--patience", "5"];
    let sender = Program::start(&mut place.sender(&addr, &more));
    let hello = receiver.recv_timeout(Match::any(), TIMEOUT).unwrap();
    let hello = hello.expect("a hello");
    // Too large to be taken, and no answer, but the next one is.
    receiver
        .send_owned(hello.source, TAG_ANSWER, vec![0; TOO_LARGE])
        .unwrap();
    let text = format!("\u{1b}[2Jno{}", "o".repeat(4_000));
    let mut refused = hello.body()[..2].to_vec();
    refused.extend_from_slice(&[REFUSED, (text.len() & 0x7f | 0x80) as u8]);
    refused.push((text.len() >> 7) as u8);
    refused.extend_from_slice(text.as_bytes());
    receiver.send(hello.source, TAG_ANSWER, &refused).unwrap();
    let ended = sender.end();
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    assert!(ended.said.contains("\\u{1b}[2Jnoooo"), "{}", ended.said);
    assert!(!ended.said.contains('\u{1b}'), "{}", ended.said);
    assert!(ended.said.len() < 1_000, "{}", ended.said);
    let _ = receiver.close(Duration::ZERO);
}
