//! What a program is told without asking.

use std::time::Duration;

use sabani::{Event, Node, PeerId};

use crate::{acquaint, node};

const SOON: Duration = Duration::from_secs(20);

fn events(node: &Node) -> Vec<Event> {
    std::iter::from_fn(|| node.next_event()).collect()
}

/// The key log lines among them.
fn secrets(events: &[Event]) -> Vec<&str> {
    let lines = events.iter().filter_map(|event| match event {
        Event::Secrets { line, .. } => Some(line.as_str()),
        _ => None,
    });
    lines.collect()
}

#[test]
fn traffic_secrets_are_told_to_those_who_asked() {
    let (left, right) = (
        node(0, |builder| builder.key_log(true)),
        node(1, |builder| builder),
    );
    acquaint(&left, &right);
    left.connect(PeerId(1), SOON).unwrap();
    right.connect(PeerId(0), SOON).unwrap();
    let told = events(&left);
    let lines = secrets(&told);
    assert!(!lines.is_empty(), "{told:?}");
    for line in lines {
        // A label, what identifies the connection, and a secret of at least 128 bits.
        let secret = line.split(' ').next_back().unwrap();
        assert!(secret.len() >= 32, "{line}");
        assert!(
            secret.bytes().all(|digit| digit.is_ascii_hexdigit()),
            "{line}"
        );
    }
    assert!(
        secrets(&events(&right)).is_empty(),
        "nobody asked for these"
    );
}

#[test]
fn both_sides_are_told_of_a_connection_once() {
    let (left, right) = crate::nodes();
    left.connect(PeerId(1), SOON).unwrap();
    right.connect(PeerId(0), SOON).unwrap();
    left.send(PeerId(1), 1, b"x").unwrap();
    right.recv(sabani::Match::any()).unwrap();
    for (node, other) in [(&left, PeerId(1)), (&right, PeerId(0))] {
        let told = events(node);
        let [Event::Connected { peer, .. }] = told[..] else {
            panic!("{told:?}");
        };
        assert_eq!(peer, other);
    }
}
