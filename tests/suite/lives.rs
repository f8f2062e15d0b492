//! Processes that die, stop, start anew, close.

use std::time::Duration;

use nix::sys::signal::Signal::{SIGCONT, SIGKILL, SIGSTOP};
use sabani_tests::{Actor, Command, Setup};

use crate::{actor, couple, neighbours};

const HERE: &str = "127.0.0.1:0";

#[test]
fn a_killed_peer_is_lost_within_the_stated_time() {
    let setups = [0, 1].map(|id| Setup::new(id, HERE).dead_after_ms(1_000));
    let (mut left, mut right) = couple(None, setups);
    left.track(1, 0, &[1_000]);
    right.expect(0, 0, &[1_000]);
    left.events();
    right.signal(SIGKILL);
    // Nothing is sent: keep-alives find out.
    let events = left.wait_for("Lost { peer: PeerId(1), why: Silent {");
    let silent = "Changed { peer: PeerId(1), from: Open, to: Silent }";
    let in_time = |lost: &str| lost.contains("time: 1s") || lost.contains("time: 1.");
    assert!(
        events.len() == 2 && events[0] == silent && in_time(&events[1]),
        "{events:?}"
    );
    let error = left.fails(&Command::Send {
        peer: 1,
        first_tag: 1,
        sizes: vec![10],
    });
    assert!(error.contains("silent for"), "{error}");
}

/// Sends before, during and after one side's stop; nobody may lose anybody.
fn survives_a_stop(mut stopped: Actor, mut other: Actor, ids: [u32; 2]) {
    let [id, other_id] = ids;
    let sizes = [20_000; 2_000];
    stopped.track(other_id, 0, &[10]);
    other.expect(id, 0, &[10]);
    stopped.begin_sending(other_id, 1, &sizes);
    other.expect(id, 1, &sizes[..100]);
    stopped.signal(SIGSTOP);
    other.send(id, 0, &[10; 50]);
    std::thread::sleep(Duration::from_secs(3));
    stopped.signal(SIGCONT);
    other.expect(id, 101, &sizes[100..]);
    stopped.done();
    stopped.expect(other_id, 0, &[10; 50]);
    stopped.lost_nobody();
    other.lost_nobody();
}

#[test]
fn who_was_stopped_does_not_blame_the_other() {
    let brittle = |id| Setup::new(id, HERE).dead_after_ms(2_000);
    let patient = |id| Setup::new(id, HERE).dead_after_ms(60_000);
    let (left, right) = couple(None, [brittle(0), patient(1)]);
    survives_a_stop(left, right, [0, 1]);
    let (left, right) = couple(None, [patient(0), brittle(1)]);
    survives_a_stop(right, left, [1, 0]);
}

#[test]
fn who_was_given_up_while_stopped_can_come_back() {
    let setups = [0, 1].map(|id| Setup::new(id, HERE).dead_after_ms(1_000));
    let (mut left, mut right) = couple(None, setups);
    left.track(1, 0, &[10]);
    right.expect(0, 0, &[10]);
    right.signal(SIGSTOP);
    left.send(1, 1, &[10]);
    left.wait_for("Lost { peer: PeerId(1), why: Silent");
    right.signal(SIGCONT);
    let again = Command::Send {
        peer: 1,
        first_tag: 100,
        sizes: vec![10, 100_000],
    };
    // The loss is told once; then a new connection is made.
    left.fails(&again);
    left.run(&again);
    let tags: Vec<_> = right
        .receive(4, Duration::from_secs(2))
        .iter()
        .map(|arrival| arrival.tag)
        .filter(|&tag| tag >= 100)
        .collect();
    assert_eq!(tags, [100, 101]);
}

#[test]
fn messages_for_the_dead_never_reach_the_living() {
    let (mut left, mut right) = neighbours();
    let addr = right.addr();
    left.track(1, 0, &[10]);
    right.expect(0, 0, &[10]);
    right.signal(SIGKILL);
    drop(right);
    // Small and large, more than a window: they wait for the dead one.
    left.send(1, 1, &[1_000; 100]);
    left.send(1, 101, &[300_000; 8]);
    let mut newborn = actor(None, &Setup::new(1, &addr.to_string()));
    newborn.knows(0, left.addr());
    newborn.track(0, 0, &[10]);
    left.expect(1, 0, &[10]);
    left.wait_for("Lost { peer: PeerId(1), why: Restarted");
    let new = Command::Track {
        peer: 1,
        first_tag: 1_000,
        sizes: vec![10, 300_000],
    };
    left.fails(&new);
    left.run(&new);
    newborn.expect(0, 1_000, &[10, 300_000]);
    let more = newborn.receive(1, Duration::from_millis(300));
    assert!(more.is_empty(), "{more:?}");
}

#[test]
fn the_sender_finds_a_newborn_by_itself() {
    let setups = [0, 1].map(|id| Setup::new(id, HERE).dead_after_ms(1_000));
    let (mut left, mut right) = couple(None, setups);
    let addr = right.addr();
    left.track(1, 0, &[10]);
    right.expect(0, 0, &[10]);
    right.signal(SIGKILL);
    drop(right);
    // It does not know of the other side, and never calls first.
    let mut newborn = actor(None, &Setup::new(1, &addr.to_string()));
    left.send(1, 1, &[10; 10]);
    left.wait_for("Lost { peer: PeerId(1)");
    let new = Command::Track {
        peer: 1,
        first_tag: 1_000,
        sizes: vec![10],
    };
    left.fails(&new);
    left.run(&new);
    newborn.expect(0, 1_000, &[10]);
}

#[test]
fn closing_lingers_until_everything_has_arrived() {
    let (mut left, mut right) = neighbours();
    let sizes = [200_000; 100];
    left.begin_sending(1, 0, &sizes);
    left.tell(&Command::Close { linger_ms: 60_000 });
    right.expect(0, 0, &sizes);
    left.done();
    left.done();
    right.wait_for("Lost { peer: PeerId(0), why: Closed");
    let error = left.fails(&Command::Send {
        peer: 1,
        first_tag: 0,
        sizes: vec![1],
    });
    assert!(error.contains("closed"), "{error}");
}

#[test]
fn closing_says_what_was_not_acknowledged() {
    let (mut left, right) = neighbours();
    left.track(1, 0, &[10]);
    right.signal(SIGSTOP);
    left.send(1, 1, &[1_000]);
    let error = left.fails(&Command::Close { linger_ms: 300 });
    assert!(
        error.contains("did not acknowledge all messages within 300 ms"),
        "{error}"
    );
    right.signal(SIGCONT);
}
