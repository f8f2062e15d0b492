//! Two nodes whose packets are sealed and opened by whoever drives them.

use std::net::SocketAddr;

use super::*;
use crate::seal::{Checksum, JobKey, JobKeys, Mode};
use crate::{Config, Event, Match, Node, Opened, PeerId, PeerLost};

const EPOCH: u64 = 1 << 22;

/// One end of the wire.
struct End {
    node: Node,
    keyring: Keyring,
    /// Deliveries until the keyring hears what there is to hear.
    lag: usize,
    deliveries: usize,
    /// Packets that were opened before the node had them.
    opened: usize,
}

impl End {
    fn new(id: u32, mode: &Mode, seal_below: bool, seed: u8) -> Self {
        let config = Config {
            seal_below,
            open_below: seal_below,
            ..Config::new(PeerId(id), mode.clone())
        };
        let mut node = Node::new(config, [seed; 32]);
        node.add_peer(PeerId(1 - id), address(1 - id));
        End {
            node,
            keyring: Keyring::default(),
            lag: 1,
            deliveries: 0,
            opened: 0,
        }
    }

    fn hear_of_keys(&mut self) {
        let mut news = Vec::new();
        self.node.take_key_news(&mut news);
        news.into_iter().for_each(|news| self.keyring.hear(news));
    }

    fn take(&mut self, now_ns: u64, from: SocketAddr, bytes: &mut [u8], segment: usize) {
        self.deliveries += 1;
        if self.deliveries.is_multiple_of(self.lag) {
            self.hear_of_keys();
        }
        let mut openings = Vec::new();
        self.keyring.open(bytes, segment, &mut openings);
        let opened = openings
            .iter()
            .filter(|&&opening| opening == Opening::Opened);
        self.opened += opened.count();
        let datagrams = Opened {
            bytes,
            segment,
            openings: &openings,
        };
        self.node
            .handle_opened(now_ns, from, None, false, datagrams);
    }
}

struct Wire {
    ends: [End; 2],
    now_ns: u64,
    /// All datagrams so far.
    carried: Vec<Vec<u8>>,
    /// Of every so many, one comes damaged first, and again after itself.
    tampers: Option<usize>,
}

impl Wire {
    fn new(mode: &Mode, seal_below: bool) -> Self {
        Wire {
            ends: [0, 1].map(|id| End::new(id, mode, seal_below, id as u8 + 1)),
            now_ns: 1_000_000,
            carried: Vec::new(),
            tampers: None,
        }
    }

    fn send(&mut self, from: u32, body: Vec<u8>) {
        let to = PeerId(1 - from);
        let node = &mut self.ends[from as usize].node;
        node.send(self.now_ns, to, 1, body.into(), false).unwrap();
    }

    /// Carries datagrams until nobody has had any for a while.
    fn carry(&mut self) {
        let mut buffer = vec![0; 65_536];
        let mut idle = 0;
        while idle < 20 {
            idle += 1;
            self.now_ns += 10_000;
            for from in 0..2 {
                self.ends[from].node.handle_deadline(self.now_ns);
                while let Some(train) = self.ends[from].node.poll_transmit(self.now_ns, &mut buffer)
                {
                    idle = 0;
                    let bytes = &mut buffer[..train.bytes];
                    if let Some(unsealed) = train.unsealed {
                        unsealed.seal(bytes, train.segment);
                    }
                    self.deliver(from, bytes, train.segment);
                }
            }
        }
    }

    fn deliver(&mut self, from: usize, bytes: &mut [u8], segment: usize) {
        let addr = address(from as u32);
        let before = self.carried.len();
        self.carried
            .extend(bytes.chunks(segment).map(<[u8]>::to_vec));
        let (to, now_ns) = (&mut self.ends[1 - from], self.now_ns);
        let chosen = self.carried.iter().enumerate().skip(before);
        let chosen = chosen.filter(|(at, _)| self.tampers.is_some_and(|every| at % every == 0));
        for (at, datagram) in chosen.clone() {
            let mut damaged = datagram.clone();
            let len = damaged.len();
            damaged[at * 7 % len] ^= 1 << (at % 8);
            to.take(now_ns, addr, &mut damaged, len);
        }
        to.take(now_ns, addr, bytes, segment);
        for (_, datagram) in chosen {
            to.take(now_ns, addr, &mut datagram.clone(), datagram.len());
        }
    }

    fn receives(&mut self, at: usize, body: &[u8]) {
        let message = self.ends[at].node.try_take(&Match::any()).unwrap();
        assert_eq!(&*message.body, body);
    }

    /// The next packet of both gets this number.
    fn skip_to(&mut self, number: u64) {
        for end in &mut self.ends {
            let session = end.node.peers[0].session_mut().unwrap();
            session.channel.sent.skip_to(number);
        }
    }
}

fn address(id: u32) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1 + id as u8], 7_000))
}

fn sealed() -> Mode {
    Mode::Sealed(JobKeys {
        current: JobKey::from_bytes([7; 32]),
        previous: None,
    })
}

fn guarded() -> [Mode; 2] {
    let checksum = Checksum::Crc32c;
    [sealed(), Mode::Plain { checksum }]
}

fn body(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 % 251) as u8).collect()
}

#[test]
fn the_wire_and_the_counters_are_the_same_whoever_seals() {
    for mode in guarded() {
        let [above, below] = [false, true].map(|seal_below| {
            let mut wire = Wire::new(&mode, seal_below);
            wire.tampers = Some(5);
            for len in [1, 1_000, 70_000, 400_000] {
                wire.send(0, body(len));
                wire.send(1, body(len / 2));
            }
            wire.carry();
            wire
        });
        assert!(above.carried == below.carried, "other bytes");
        for (above, below) in above.ends.iter().zip(&below.ends) {
            assert_eq!(above.node.stats().dropped, below.node.stats().dropped);
            assert!(
                below.node.stats().dropped.forged > 0 && below.node.stats().dropped.replayed > 0
            );
            assert_eq!((above.opened, below.opened > 100), (0, true));
        }
    }
}

#[test]
fn nothing_depends_on_when_a_keyring_hears() {
    for lag in [2, 7, usize::MAX] {
        let mut wire = Wire::new(&sealed(), true);
        wire.ends.iter_mut().for_each(|end| end.lag = lag);
        wire.send(0, body(300_000));
        wire.send(1, body(300_000));
        wire.carry();
        for at in [0, 1] {
            wire.receives(at, &body(300_000));
            assert_eq!(
                wire.ends[at].node.stats().dropped,
                crate::Dropped::default()
            );
            assert_eq!(wire.ends[at].opened > 0, lag < usize::MAX);
        }
    }
}

#[test]
fn whatever_is_no_packet_goes_up_as_it_came() {
    let mut wire = Wire::new(&sealed(), true);
    wire.send(0, body(10));
    wire.carry();
    let keyring = &wire.ends[1].keyring;
    for bytes in [&[][..], &[0; 3], &[0x10; 15], &[0x10; 40], &[0xff; 1_500]] {
        let (mut datagram, mut openings) = (bytes.to_vec(), Vec::new());
        keyring.open(&mut datagram, bytes.len(), &mut openings);
        assert_eq!(datagram, bytes);
        assert!(openings.iter().all(|&opening| opening == Opening::Sealed));
    }
}

#[test]
fn one_end_may_seal_below_and_the_other_not() {
    let mut wire = Wire::new(&sealed(), true);
    wire.ends[1] = End::new(1, &sealed(), false, 2);
    wire.send(0, body(100_000));
    wire.send(1, body(100_000));
    wire.carry();
    wire.receives(0, &body(100_000));
    wire.receives(1, &body(100_000));
    assert_eq!((wire.ends[0].opened > 0, wire.ends[1].opened), (true, 0));
}

#[test]
fn keys_are_renewed_and_the_keyring_follows() {
    for lag in [1, 3] {
        let mut wire = Wire::new(&sealed(), true);
        wire.ends.iter_mut().for_each(|end| end.lag = lag);
        wire.tampers = Some(6);
        wire.send(0, body(10));
        wire.carry();
        wire.receives(1, &body(10));
        for epoch in 1..4 {
            wire.skip_to(epoch * EPOCH - 30);
            wire.send(0, body(200_000));
            wire.send(1, body(200_000));
            let opened = wire.ends[1].opened;
            wire.carry();
            wire.receives(0, &body(200_000));
            wire.receives(1, &body(200_000));
            assert!(wire.ends[1].opened > opened + 60, "the new key opens, too");
            wire.ends.iter_mut().for_each(End::hear_of_keys);
            for end in &wire.ends {
                assert_eq!(end.keyring.connections(), 1);
                assert!(
                    end.keyring
                        .keys
                        .iter()
                        .flatten()
                        .all(|(_, key)| key.covers(epoch * EPOCH))
                );
            }
        }
    }
}

#[test]
fn the_key_of_a_connection_that_has_ended_leaves() {
    let mut wire = Wire::new(&sealed(), true);
    wire.send(0, body(10));
    wire.carry();
    // A restart: the new process knows nothing of the old one's connection.
    wire.ends[0] = End::new(0, &sealed(), true, 9);
    wire.send(0, body(20));
    wire.carry();
    wire.receives(1, &body(10));
    wire.receives(1, &body(20));
    let lost = |event| {
        matches!(
            event,
            Event::Lost {
                why: PeerLost::Restarted,
                ..
            }
        )
    };
    let end = &mut wire.ends[1];
    assert!(std::iter::from_fn(|| end.node.next_event()).any(lost));
    wire.ends.iter_mut().for_each(End::hear_of_keys);
    let connections = |wire: &Wire| [0, 1].map(|at| wire.ends[at].keyring.connections());
    assert_eq!(connections(&wire), [1, 1]);

    wire.ends[0].node.close();
    wire.carry();
    wire.ends.iter_mut().for_each(End::hear_of_keys);
    assert_eq!(connections(&wire), [0, 0]);
    assert!(!wire.ends[0].node.has_queued() && !wire.ends[1].node.has_queued());
}
