//! What is there already is read at both ends, which may take long: nobody has to wait for the end of that.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use sabani::{Match, Message, Node};

use super::programs::{Ended, Place, Program, until};
use super::{plain_node, tree};

/// Takes an hour to read, and no room.
const SIZE: u64 = 8 << 40;
/// That in an answer.
const HUGE: [u8; 7] = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2];
/// So much has been read of it when the check has begun.
const BEGUN: u64 = 64 << 20;
const TIMEOUT: Duration = Duration::from_secs(10);

fn huge(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = File::create(path).unwrap();
    file.set_len(SIZE).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
}

fn interrupted(mut sender: Program) -> Ended {
    sender.signal(Signal::INT);
    until("it ends", || sender.has_ended());
    ended(sender)
}

fn ended(sender: Program) -> Ended {
    let ended = sender.end();
    assert_eq!(ended.code, Some(130), "{}", ended.said);
    ended
}

/// A receiver of our own, and a sender to it, which has been welcomed and offers a huge file.
struct Forged {
    _place: Place,
    receiver: Node,
    sender: Program,
    offer: Message,
}

impl Forged {
    fn new() -> Self {
        let place = Place::new();
        huge(&place.source().join("huge"));
        let receiver = plain_node();
        let addr = receiver.local_addr().to_string();
        let sender = Program::start(&mut place.sender(&addr, &["--plain"]));
        let asked = || {
            let asked = receiver.recv_timeout(Match::any(), TIMEOUT).unwrap();
            asked.expect("a request")
        };
        let (welcome, version) = (0, 3);
        answer(&receiver, &asked(), &[welcome, version]);
        Forged {
            _place: place,
            offer: asked(),
            receiver,
            sender,
        }
    }
}

fn answer(receiver: &Node, asked: &Message, reply: &[u8]) {
    let (answer_tag, job_and_attempt) = (3, &asked.body()[..2]);
    let answer = [job_and_attempt, reply].concat();
    // It may have left by now.
    let _ = receiver.send(asked.source, answer_tag, &answer);
}

#[test]
fn a_check_at_the_receiver_ends_with_its_sender() {
    let place = Place::new();
    huge(&place.source().join("huge"));
    huge(&place.arrived().join("huge"));
    let receiver = place.receive();
    let sender = place.start_send(&receiver, &[]);
    until("it is checked", || receiver.read() > BEGUN);
    interrupted(sender);
    // Nobody has the name any more.
    tree::random_file(&place.source().join("huge"), 1 << 20);
    place.send(&receiver, &[]).assert_success();
    tree::assert_same(&place.source(), &place.arrived());
    receiver.signal(Signal::INT);
    let said = receiver.end().said;
    assert!(said.contains(" has stopped before all was sent"), "{said}");
    assert!(!said.contains("cannot take"), "{said}");
}

/// The answers come so often that nobody ever waits for long.
#[test]
fn word_of_a_check_does_not_keep_a_sender_from_ending() {
    let Forged {
        receiver,
        mut sender,
        offer,
        ..
    } = Forged::new();
    let (checking, bytes) = (8, 1);
    let word = [&[checking, bytes], &HUGE[..]].concat();
    sender.signal(Signal::INT);
    until("it ends", || {
        answer(&receiver, &offer, &word);
        sender.has_ended()
    });
    ended(sender);
    let _ = receiver.close(Duration::ZERO);
}

#[test]
fn a_check_at_the_sender_ends_with_ctrl_c() {
    let Forged {
        receiver,
        sender,
        offer,
        ..
    } = Forged::new();
    let (start, hash) = (1, [0; 32]);
    let there = [&[start], &HUGE[..], &hash].concat();
    answer(&receiver, &offer, &there);
    until("it is checked", || sender.read() > BEGUN);
    interrupted(sender);
    let _ = receiver.close(Duration::ZERO);
}
