//! Breaks of every kind: what has arrived is not sent again.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use super::programs::{Ended, Place, Program, assert_never_half, unprivileged, until};
use super::tree;

const SIZE: u64 = 64 << 20;
/// A break comes when this much has arrived: more than can be on its way without a word of the receiver.
const BREAK_AT: u64 = 18 << 20;
/// If more has arrived by then, all may have before the break.
const BREAK_BEFORE: u64 = SIZE - BREAK_AT;
/// How often a machine that is busy may keep a test from looking in time.
const TRIES: usize = 20;

/// A transfer that has come some of its way.
struct Midway {
    place: Place,
    receiver: Program,
    /// It is stopped, so that nothing more comes before the break.
    sender: Program,
}

impl Midway {
    /// Of one large file and a small one.
    fn reach() -> Self {
        Self::reach_with(&["large"], &[])
    }

    /// Of these large files and a small one, the sender having these options.
    fn reach_with(large: &[&str], options: &[&str]) -> Self {
        let tried = (0..TRIES).find_map(|_| Self::try_reach(large, options));
        tried.expect("a sender that is stopped in time")
    }

    fn try_reach(large: &[&str], options: &[&str]) -> Option<Self> {
        Self::try_reach_a_receiver(&[], large, options)
    }

    fn try_reach_a_receiver(receiver: &[&str], large: &[&str], options: &[&str]) -> Option<Self> {
        let place = Place::new();
        fs::create_dir_all(place.source()).unwrap();
        for name in large {
            tree::random_file(&place.source().join(name), SIZE);
        }
        fs::write(place.source().join("small"), "small").unwrap();
        let receiver = place.receive_with("127.0.0.1:0", receiver);
        let sender = place.start_send(&receiver, options);
        let is_whole = || large.iter().any(|name| place.arrived().join(name).exists());
        until("some has arrived", || {
            place.partial() > BREAK_AT || is_whole()
        });
        sender.signal(Signal::STOP);
        let is_midway = !is_whole() && place.partial() < BREAK_BEFORE;
        is_midway.then_some(Midway {
            place,
            receiver,
            sender,
        })
    }

    /// Interrupts the sender, which ends.
    fn interrupt_sender(self) -> (Place, Program, Ended) {
        self.sender.signal(Signal::INT);
        self.sender.signal(Signal::CONT);
        let ended = self.sender.end();
        assert_eq!(ended.code, Some(130), "{}", ended.said);
        (self.place, self.receiver, ended)
    }
}

/// The MiB that the summary of a sender says it moved.
fn moved_mib(ended: &Ended) -> f64 {
    let (before, _) = ended.said.split_once(" MiB moved").expect("a summary");
    before.rsplit(' ').next().unwrap().parse().unwrap()
}

fn assert_went_on(ended: &Ended) {
    ended.assert_success();
    let limit = (SIZE - BREAK_AT) as f64 / (1 << 20) as f64 + 1.0;
    assert!(moved_mib(ended) <= limit, "{}", ended.said);
    assert!(ended.said.contains("64.00 MiB in all"), "{}", ended.said);
}

#[test]
fn a_receiver_that_is_killed_goes_on_when_it_is_back() {
    let Midway {
        place,
        receiver,
        sender,
    } = Midway::reach();
    let never_half = assert_never_half(&place.arrived().join("large"), SIZE);
    let addr = receiver.addr.clone();
    receiver.signal(Signal::KILL);
    assert_eq!(receiver.end().code, None);
    assert!(place.partial() < SIZE);
    let _receiver = place.receive_with(&addr, &[]);
    sender.signal(Signal::CONT);
    let sent = sender.end();
    sent.assert_success();
    // What went twice counts once.
    assert_eq!(moved_mib(&sent), 64.0, "{}", sent.said);
    never_half();
    tree::assert_same(&place.source(), &place.arrived());
}

#[test]
fn a_receiver_of_one_sender_does_not_wait_for_ever_for_one_that_is_gone() {
    let options = ["--once", "--patience", "1"];
    let reached = (0..TRIES).find_map(|_| Midway::try_reach_a_receiver(&options, &["large"], &[]));
    let Midway {
        receiver, sender, ..
    } = reached.expect("a sender that is stopped in time");
    sender.signal(Signal::KILL);
    sender.end();
    let ended = receiver.end();
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    let expected = "the sender has been gone for 1 s before it was done: what has come is kept";
    assert!(ended.said.contains(expected), "{}", ended.said);
}

#[test]
fn a_receiver_that_is_interrupted_goes_on_when_it_is_back() {
    let Midway {
        place,
        receiver,
        sender,
    } = Midway::reach();
    let addr = receiver.addr.clone();
    receiver.signal(Signal::INT);
    let ended = receiver.end();
    assert_eq!(ended.code, Some(130), "{}", ended.said);
    let expected = "interrupted while a sender is at work: who still runs waits";
    assert!(ended.said.contains(expected), "{}", ended.said);
    let _receiver = place.receive_with(&addr, &[]);
    sender.signal(Signal::CONT);
    sender.end().assert_success();
    tree::assert_same(&place.source(), &place.arrived());
}

/// The files that the summary of a receiver says it has received.
fn received(ended: &Ended) -> usize {
    let (_, after) = ended.said.split_once("received ").expect("a summary");
    after.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_receiver_and_the_one_after_it_count_each_file_once() {
    const FILES: usize = 900;
    let place = Place::new();
    fs::create_dir_all(place.source()).unwrap();
    for file in 0..FILES {
        fs::write(place.source().join(file.to_string()), [0; 10_000]).unwrap();
    }
    let receiver = place.receive();
    let addr = receiver.addr.clone();
    let sender = place.start_send(&receiver, &["--jobs", "32"]);
    let arrived = || fs::read_dir(place.arrived()).map_or(0, Iterator::count);
    until("some have arrived", || arrived() > FILES / 5);
    receiver.signal(Signal::TERM);
    let first = receiver.end();
    let again = place.receive_with(&addr, &[]);
    sender.end().assert_success();
    again.signal(Signal::TERM);
    let sum = received(&first) + received(&again.end());
    assert_eq!(sum, FILES, "{}", first.said);
    tree::assert_same(&place.source(), &place.arrived());
}

#[test]
fn a_sender_that_is_killed_goes_on_when_it_is_started_again() {
    let Midway {
        place,
        receiver,
        sender,
    } = Midway::reach();
    sender.signal(Signal::KILL);
    assert_eq!(sender.end().code, None);
    assert_went_on(&place.send(&receiver, &[]));
    tree::assert_same(&place.source(), &place.arrived());
    // The small file has come twice, and counts once.
    receiver.signal(Signal::INT);
    let received = receiver.end();
    assert!(
        received.said.contains("received 2 files"),
        "{}",
        received.said
    );
    assert!(!place.target().join(".sabani-partial").exists());
}

#[test]
fn a_sender_that_is_interrupted_goes_on_when_it_is_started_again() {
    let (place, receiver, ended) = Midway::reach().interrupt_sender();
    assert!(
        ended.said.contains("give the same command again"),
        "{}",
        ended.said
    );
    assert_went_on(&place.send(&receiver, &[]));
    tree::assert_same(&place.source(), &place.arrived());
    // The sender has ended; that it has may still be in the receiver's socket, on a busy machine.
    thread::sleep(Duration::from_secs(1));
    receiver.signal(Signal::INT);
    let said = receiver.end().said;
    assert!(said.contains("the sender at 127.0.0.1:"), "{said}");
    assert!(said.contains(" has stopped before all was sent"), "{said}");
    assert!(said.contains("interrupted; nobody was sending"), "{said}");
    assert!(!said.contains("gone"), "{said}");
}

#[test]
fn a_sender_that_is_silent_for_a_while_goes_on() {
    let Midway {
        place,
        receiver: _receiver,
        sender,
    } = Midway::reach();
    // Longer than half of the time after which it would count as lost, since it was asked for a sign of
    // life.
    thread::sleep(Duration::from_millis(4_500));
    sender.signal(Signal::CONT);
    until("all has arrived", || place.arrived().join("large").exists());
    sender.end().assert_success();
}

#[test]
fn a_partial_file_with_other_content_begins_anew() {
    let (place, receiver, _) = Midway::reach().interrupt_sender();
    // Small files may be on their way as well.
    let partial = place.target().join(".sabani-partial").read_dir().unwrap();
    let partial = partial.map(|file| file.unwrap().path());
    let partial = partial.max_by_key(|path| path.metadata().unwrap().len());
    let partial = partial.unwrap();
    let mut content = fs::read(&partial).unwrap();
    content[1_000_000] ^= 1;
    fs::write(&partial, content).unwrap();
    place.send(&receiver, &[]).assert_success();
    tree::assert_same(&place.source(), &place.arrived());
}

/// It has its mode before its name, and the receiver may end between the two.
#[test]
fn a_partial_file_that_may_not_be_written_goes_on() {
    let (place, receiver, _) = Midway::reach().interrupt_sender();
    receiver.signal(Signal::KILL);
    receiver.end();
    for partial in place.target().join(".sabani-partial").read_dir().unwrap() {
        fs::set_permissions(partial.unwrap().path(), Permissions::from_mode(0o444)).unwrap();
    }
    let mut receive = unprivileged(&["receive", "--bind", "127.0.0.1:0", "--key", "job.key"]);
    let receiver = Program::start(receive.arg("target").current_dir(place.path("")));
    assert_went_on(&place.send(&receiver, &[]));
    tree::assert_same(&place.source(), &place.arrived());
}

#[test]
fn a_receiver_that_may_write_no_more_of_a_file_takes_others() {
    let Midway {
        place,
        receiver,
        sender,
    } = Midway::reach();
    receiver.limit_files(BREAK_AT);
    sender.signal(Signal::CONT);
    let ended = sender.end();
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    assert!(ended.said.contains("(`ulimit -f`)"), "{}", ended.said);
    assert!(place.arrived().join("small").exists());
    receiver.signal(Signal::INT);
    assert_eq!(receiver.end().code, Some(130));
}

#[test]
fn a_sender_gives_up_after_its_patience_and_says_how_to_go_on() {
    // Several jobs wait, but the user is told once.
    let Midway {
        place,
        receiver,
        sender,
    } = Midway::reach_with(&["large", "other"], &["--patience", "1"]);
    receiver.signal(Signal::KILL);
    sender.signal(Signal::CONT);
    let ended = sender.end();
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    assert!(
        ended.said.contains("the same command goes on"),
        "{}",
        ended.said
    );
    let told = ended.said.matches("the receiver is gone;").count();
    assert_eq!(told, 1, "{}", ended.said);
    // It says no more than what is kept, nor less than what it must have heard of.
    let kept = place.partials().iter().sum::<u64>() as f64 / (1 << 20) as f64;
    let moved = 1.0..=kept + 0.01;
    assert!(moved.contains(&moved_mib(&ended)), "{kept}: {}", ended.said);
}
