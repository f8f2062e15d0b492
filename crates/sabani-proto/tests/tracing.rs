//! What a connection tells those who record spans and events.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use sabani_proto::seal::{Checksum, Mode};
use sabani_proto::{Config, Node, PeerId};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Writes down spans as they begin (`+`) and end (`-`), and events behind the names of theirs.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Recording>>);

#[derive(Default)]
struct Recording {
    open: HashMap<u64, String>,
    spans: u64,
    lines: Vec<String>,
}

/// The fields of a span or an event, as text.
#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => write!(self.0, " {value:?}").unwrap(),
            "peer" => write!(self.0, " peer={value:?}").unwrap(),
            _ => {}
        }
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        span.record(&mut fields);
        let name = format!("{}{}", span.metadata().name(), fields.0);
        let mut recording = self.0.lock().unwrap();
        recording.spans += 1;
        let id = recording.spans;
        recording.lines.push(format!("+ {name}"));
        recording.open.insert(id, name);
        Id::from_u64(id)
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut recording = self.0.lock().unwrap();
        let span = event
            .parent()
            .and_then(|id| recording.open.get(&id.into_u64()));
        let span = span.cloned().unwrap_or_default();
        recording.lines.push(format!("{span}:{}", fields.0));
    }

    fn try_close(&self, id: Id) -> bool {
        let mut recording = self.0.lock().unwrap();
        let name = recording.open.remove(&id.into_u64()).unwrap();
        recording.lines.push(format!("- {name}"));
        true
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn address(id: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, id as u8], 7_000))
}

/// Carries datagrams between two nodes for some milliseconds; those of the first are lost if
/// `lossy`.
fn run(nodes: &mut [Node; 2], now_ns: &mut u64, millis: u64, lossy: bool) {
    let mut buffer = vec![0; 65_536];
    for _ in 0..millis {
        *now_ns += 1_000_000;
        for from in [0, 1] {
            nodes[from].handle_deadline(*now_ns);
            while let Some(train) = nodes[from].poll_transmit(*now_ns, &mut buffer) {
                let bytes = &mut buffer[..train.bytes];
                if !(lossy && from == 0) {
                    nodes[1 - from].handle_datagrams(
                        *now_ns,
                        address(from),
                        None,
                        train.segment,
                        false,
                        bytes,
                    );
                }
            }
        }
    }
}

#[test]
fn connections_are_spans_and_their_events_are_in_them() {
    let recorder = Recorder::default();
    tracing::subscriber::with_default(recorder.clone(), || {
        let mode = Mode::Plain {
            checksum: Checksum::Crc32c,
        };
        let mut nodes = [0, 1].map(|id| {
            let config = Config::new(PeerId(id), mode.clone());
            Node::new(config, [id as u8; 32])
        });
        nodes[0].add_peer(PeerId(1), address(1));
        let mut now_ns = 0;
        nodes[0].connect(now_ns, PeerId(1)).unwrap();
        run(&mut nodes, &mut now_ns, 20, false);
        nodes[0]
            .send_copy(now_ns, PeerId(1), 1, b"lost", false)
            .unwrap();
        run(&mut nodes, &mut now_ns, 4, true);
        run(&mut nodes, &mut now_ns, 20, false);
        nodes[0].close();
        run(&mut nodes, &mut now_ns, 20, false);
        assert!(nodes.iter().all(Node::is_closed));
    });
    let recording = recorder.0.lock().unwrap();
    let of = |peer: &str| {
        let lines = recording.lines.iter().map(String::as_str);
        // States change before and after connections, too.
        let wanted = |line: &&str| line.contains(peer) && !line.contains("state changed");
        let mut lines: Vec<_> = lines.filter(wanted).collect();
        // The tail may be asked for more than once.
        lines.dedup();
        lines
    };
    let connection = [
        "+ connection peer=1",
        "connection peer=1: connected peer=1",
        "- handshake peer=1",
        "connection peer=1: asking for the tail peer=1",
        "connection peer=1: connection lost peer=1",
        "- connection peer=1",
    ];
    assert_eq!(of("peer=1")[0], "+ handshake peer=1");
    assert_eq!(of("peer=1")[1..], connection);
    // The side that was greeted has no handshake to tell of.
    assert_eq!(of("peer=0")[0], "+ connection peer=0");
    assert_eq!(*of("peer=0").last().unwrap(), "- connection peer=0");
    assert!(recording.open.is_empty());
}
