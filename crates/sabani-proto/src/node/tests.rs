//! Two nodes and a wire that loses nothing; the rough roads are in the scenario tests.

use super::*;
use crate::error::{ConnectError, Hindrance, Undelivered};
use crate::message::{Match, RecvError};
use crate::seal::{Checksum, JobKey, JobKeys, Mode};
use crate::wire::{ConnectionId, Entries, Entry, EntryMode, Frame, Frames, Hello, Kind, Prelude};
use crate::{CreditPolicy, LinkState, Obstacle, Recovery};

mod astray;
mod credit;
mod express;
mod gaps;
mod later;
mod leaving;
mod telling;
mod trains;
mod turns;
mod turns_for_memory;
mod unanswered;
mod withdrawn;

struct Pair {
    nodes: [Node; 2],
    now_ns: u64,
}

const ADDRS: [&str; 2] = ["10.0.0.1:7000", "10.0.0.2:7000"];

impl Pair {
    fn new(mode: Mode) -> Self {
        Self::with(mode, |_| {})
    }

    fn with(mode: Mode, change: impl Fn(&mut Config)) -> Self {
        let node = |index| {
            let mut config = Config::new(PeerId(index), mode.clone());
            change(&mut config);
            node(config, index as u8 + 1)
        };
        Pair {
            nodes: [node(0), node(1)],
            now_ns: 1_000_000,
        }
    }

    /// The first process ends, and another one takes its place and connects.
    fn replace_first(&mut self, seed: u8) {
        self.nodes[0] = node(self.nodes[0].config().clone(), seed);
        self.nodes[0].connect(self.now_ns, PeerId(1)).unwrap();
        self.carry();
    }

    /// Carries one train from the first node to the second.
    fn pass_train(&mut self) -> Transmit {
        self.pass_train_from(0)
    }

    fn pass_train_from(&mut self, from: usize) -> Transmit {
        let mut buffer = vec![0; 65_536];
        let train = self.nodes[from].poll_transmit(self.now_ns, &mut buffer);
        let train = train.expect("there is something to send");
        let bytes = &mut buffer[..train.bytes];
        let addr = ADDRS[from].parse().unwrap();
        let to = &mut self.nodes[1 - from];
        to.handle_datagrams(self.now_ns, addr, None, train.segment, false, bytes);
        train
    }

    /// Carries datagrams until nobody has had any for longer than an acknowledgement waits.
    fn carry(&mut self) {
        let mut idle = 0;
        while idle < 20 {
            idle = if self.step() { 1 } else { idle + 1 };
        }
    }

    /// Carries what both send within 10 µs; whether there was anything.
    fn step(&mut self) -> bool {
        let mut buffer = vec![0; 65_536];
        let mut carried = false;
        self.now_ns += 10_000;
        for from in 0..2 {
            self.nodes[from].handle_deadline(self.now_ns);
            while let Some(train) = self.nodes[from].poll_transmit(self.now_ns, &mut buffer) {
                carried = true;
                assert_eq!(train.to, ADDRS[1 - from].parse().unwrap());
                let addr = ADDRS[from].parse().unwrap();
                let bytes = &mut buffer[..train.bytes];
                self.nodes[1 - from].handle_datagrams(
                    self.now_ns,
                    addr,
                    None,
                    train.segment,
                    false,
                    bytes,
                );
            }
        }
        carried
    }
}

/// One that knows the other.
fn node(config: Config, seed: u8) -> Node {
    let other = 1 - config.id.0;
    let mut node = Node::new(config, [seed; 32]);
    node.add_peer(PeerId(other), ADDRS[other as usize].parse().unwrap());
    node
}

fn modes() -> [Mode; 3] {
    [
        Mode::Sealed(JobKeys {
            current: JobKey::from_bytes([7; 32]),
            previous: None,
        }),
        Mode::Plain {
            checksum: Checksum::None,
        },
        Mode::Plain {
            checksum: Checksum::Crc32c,
        },
    ]
}

#[test]
fn messages_of_all_sizes_arrive_whole_and_in_order() {
    for mode in modes() {
        let mut pair = Pair::new(mode);
        let sizes = [
            0, 1, 64, 65, 1024, 1072, 1073, 1500, 70_000, 300_000, 3_000_000,
        ];
        for (tag, &size) in sizes.iter().enumerate() {
            let body: Vec<u8> = (0..size).map(|at| (at * 7 + tag) as u8).collect();
            let sent = pair.nodes[0].send(pair.now_ns, PeerId(1), tag as u64, body.into(), false);
            sent.unwrap();
        }
        pair.carry();
        for (tag, &size) in sizes.iter().enumerate() {
            let message = pair.nodes[1].try_take(&Match::any());
            let message = message.unwrap_or_else(|| panic!("message {tag} of {size} bytes"));
            assert_eq!((message.source, message.tag), (PeerId(0), tag as u64));
            assert_eq!(message.body.len(), size);
            let right = |(at, &byte): (usize, &u8)| byte == (at * 7 + tag) as u8;
            assert!(message.body.iter().enumerate().all(right));
        }
        pair.carry();
        assert!(pair.nodes[0].is_settled());
    }
}

/// 1 KiB and a header go inside the entry, unless the peer may not read that.
#[test]
fn bodies_over_1_kib_are_inline_for_peers_that_say_so() {
    for (body, says_so, is_inline) in [
        (1_024, false, true),
        (1_025, false, false),
        (1_072, true, true),
        (1_073, true, false),
    ] {
        let mut pair = Pair::new(modes()[1].clone());
        let send = |pair: &mut Pair, bytes: &[u8]| {
            let sent = pair.nodes[0].send_copy(pair.now_ns, PeerId(1), 1, bytes, false);
            sent.unwrap();
        };
        send(&mut pair, b"hello");
        pair.carry();
        let index = pair.nodes[0].peers.index(PeerId(1)).unwrap();
        let session = pair.nodes[0].peers[index].session_mut().unwrap();
        assert_ne!(session.features & Hello::LONG_INLINE, 0);
        if !says_so {
            session.features &= !Hello::LONG_INLINE;
        }
        send(&mut pair, &vec![1; body]);
        let mut packet = vec![0; 65_536];
        let train = pair.nodes[0].poll_transmit(pair.now_ns, &mut packet);
        let packet = &mut packet[..train.unwrap().bytes];
        let mut frames = Frames::new(&packet[Prelude::LEN..]).flatten();
        let apart = frames.any(|frame| matches!(frame, Frame::Fragment(_)));
        assert_eq!(apart, !is_inline, "{body} bytes");
        let from = ADDRS[0].parse().unwrap();
        pair.nodes[1].handle_datagrams(pair.now_ns, from, None, packet.len(), false, packet);
        let message = std::iter::from_fn(|| pair.nodes[1].try_take(&Match::any())).last();
        assert_eq!(message.unwrap().body.len(), body);
    }
}

#[test]
fn both_sides_may_begin() {
    let mut pair = Pair::new(modes()[0].clone());
    for from in 0..2 {
        let to = PeerId(1 - from as u32);
        let sent = pair.nodes[from].send_copy(pair.now_ns, to, 5, b"hello", false);
        sent.unwrap();
    }
    pair.carry();
    for node in &mut pair.nodes {
        assert_eq!(&*node.try_take(&Match::any()).unwrap().body, b"hello");
        assert_eq!(node.stats().connections, 1);
    }
}

#[test]
fn a_posted_receive_gets_its_own_buffer_back_filled() {
    let mut pair = Pair::new(modes()[0].clone());
    let ticket = pair.nodes[1].post(Match::any().tag(3), Some(vec![0; 400_000]));
    let body = vec![9; 300_000];
    pair.nodes[0]
        .send(pair.now_ns, PeerId(1), 3, body.into(), false)
        .unwrap();
    pair.carry();
    let message = pair.nodes[1].take_received(ticket).unwrap().unwrap();
    assert_eq!(message.body.len(), 300_000);
    assert!(message.body.iter().all(|&byte| byte == 9));
}

#[test]
fn closing_tells_the_other_side() {
    let mut pair = Pair::new(modes()[0].clone());
    pair.nodes[0]
        .send_copy(pair.now_ns, PeerId(1), 1, b"last", false)
        .unwrap();
    pair.carry();
    pair.nodes[0].close();
    pair.carry();
    assert!(pair.nodes[0].is_closed());
    let events: Vec<_> = std::iter::from_fn(|| pair.nodes[1].next_event()).collect();
    assert!(matches!(
        events.last(),
        Some(Event::Lost {
            why: PeerLost::Closed,
            ..
        })
    ));
    assert_eq!(
        &*pair.nodes[1].try_take(&Match::any()).unwrap().body,
        b"last"
    );
}

#[test]
fn the_end_of_a_connection_is_said_until_there_is_another() {
    let mut pair = Pair::new(modes()[0].clone());
    let may_come = |pair: &mut Pair| pair.nodes[1].check_source(PeerId(0));
    assert_eq!(may_come(&mut pair), Ok(()), "it may connect");
    pair.nodes[0].connect(pair.now_ns, PeerId(1)).unwrap();
    pair.carry();
    assert_eq!(may_come(&mut pair), Ok(()));
    pair.nodes[0].close();
    pair.carry();
    let lost = Err(SendError::PeerLost {
        peer: PeerId(0),
        why: PeerLost::Closed,
    });
    for _ in 0..3 {
        assert_eq!(may_come(&mut pair), lost);
    }
    let waits = pair.nodes[1].post(Match::any().from(PeerId(0)), None);
    // Whoever sends makes a new connection, or fails to.
    let sent = pair.nodes[1].send_copy(pair.now_ns, PeerId(0), 0, b"anew", false);
    assert_eq!(sent, Ok(None), "it was told, and nothing was lost");
    assert_eq!(may_come(&mut pair), Ok(()));
    assert!(pair.nodes[1].take_received(waits).is_none());
    let node = &mut pair.nodes[1];
    let result = (0..1_000).find_map(|_| {
        pair.now_ns = node.next_deadline()?;
        node.handle_deadline(pair.now_ns);
        while node.poll_transmit(pair.now_ns, &mut [0; 65_536]).is_some() {}
        node.take_received(waits)
    });
    assert!(
        matches!(result, Some(Err(RecvError::PeerLost { .. }))),
        "{result:?}"
    );
    for _ in 0..3 {
        let unreachable = may_come(&mut pair).unwrap_err().to_string();
        assert!(unreachable.contains("no answer in"), "{unreachable}");
    }
}

#[test]
fn events_that_nobody_fetches_are_dropped_and_counted() {
    let mut pair = Pair::new(modes()[0].clone());
    let node = &mut pair.nodes[0];
    let event = |number| Event::Changed {
        peer: PeerId(number),
        from: LinkState::Open,
        to: LinkState::Silent,
    };
    for number in 0..5_000 {
        node.hub.push_event(event(number));
    }
    assert_eq!(node.stats().events_dropped, 5_000 - 4_096);
    assert_eq!(node.next_event(), Some(event(5_000 - 4_096)));
}

#[test]
fn strangers_are_waited_for_if_they_may_come() {
    for accept_unknown in [true, false] {
        let mut pair = Pair::with(modes()[0].clone(), |config| {
            config.accept_unknown = accept_unknown;
        });
        let node = &mut pair.nodes[0];
        let stranger = node.check_source(PeerId(7));
        let unknown = Err(SendError::UnknownPeer(PeerId(7)));
        assert_eq!(stranger, if accept_unknown { Ok(()) } else { unknown });
        assert_eq!(node.check_source(PeerId(0)), Ok(()), "itself");
        assert_eq!(node.check_source(PeerId(1)), Ok(()), "may connect");
    }
}

#[test]
fn a_withdrawn_receive_leaves_its_message_in_its_place() {
    let mut pair = Pair::new(modes()[0].clone());
    for tag in [3, 9, 9] {
        let body = vec![tag as u8; 300_000];
        let sent = pair.nodes[0].send(pair.now_ns, PeerId(1), tag, body.into(), false);
        sent.unwrap();
    }
    let early = pair.nodes[1].post(Match::any().tag(9), None);
    pair.carry();
    pair.nodes[1].abandon(early);
    let late = pair.nodes[1].post(Match::any().tag(9), None);
    pair.nodes[1].abandon(late);
    let order: Vec<_> = std::iter::from_fn(|| pair.nodes[1].try_take(&Match::any()))
        .map(|message| message.tag)
        .collect();
    assert_eq!(order, [3, 9, 9]);
}

#[test]
fn who_holds_memory_is_told_from_the_next_one_like_it() {
    let mut pair = Pair::with(modes()[1].clone(), |config| {
        config.memory_bytes = 8 << 20;
        config.send_queue_bytes = 32 << 20;
    });
    for (tag, mib) in [(1, 6), (1, 6), (2, 4)] {
        let body = vec![0; mib << 20];
        let sent = pair.nodes[0].send(pair.now_ns, PeerId(1), tag, body.into(), false);
        sent.unwrap();
    }
    let [first, second, waits] =
        [1, 1, 2].map(|tag| pair.nodes[1].post(Match::any().tag(tag), None));
    // Its receive is withdrawn when a part of it has come.
    let held_by = |pair: &mut Pair, ticket| {
        while pair.nodes[1].stats().posted_bytes == 0 {
            pair.step();
        }
        assert!(pair.nodes[1].cancel(ticket).0.is_none());
        pair.carry();
        pair.nodes[1].hindrance_of(waits).expect("there is no room")
    };
    let take = |pair: &mut Pair| {
        pair.nodes[1]
            .try_take(&Match::any().tag(1))
            .expect("it is here")
    };
    let why = held_by(&mut pair, first);
    let again = pair.nodes[1].hindrance_of(waits).unwrap();
    assert!(why.is_same(&again));
    take(&mut pair);
    let other = held_by(&mut pair, second);
    let [Hindrance::Starved(one), Hindrance::Starved(two)] = [why, other] else {
        panic!("{why:?}, {other:?}");
    };
    assert_eq!(one.holder, two.holder);
    assert!(!why.is_same(&other));
    take(&mut pair);
    pair.carry();
    let message = pair.nodes[1].take_received(waits).expect("there is room");
    assert_eq!(message.unwrap().tag, 2);
}

#[test]
fn credit_for_a_lone_packet_is_given_after_the_answer_which_tells_what_is_left() {
    let mut pair = Pair::new(modes()[1].clone());
    let hello = |pair: &mut Pair| {
        let sent = pair.nodes[0].send_copy(pair.now_ns, PeerId(1), 1, b"hello", false);
        sent.unwrap();
    };
    hello(&mut pair);
    pair.carry();
    let index = pair.nodes[1].peers.index(PeerId(0)).unwrap();
    let left = |pair: &Pair| pair.nodes[1].peers[index].session().unwrap().credit_left();
    let before = left(&pair);
    hello(&mut pair);
    let train = pair.pass_train();
    assert_eq!(left(&pair), before - crate::datagram_cost(train.bytes));
    pair.nodes[1].next_deadline();
    assert_eq!(left(&pair), before);
}

#[test]
fn a_burst_that_uses_up_half_of_its_credit_is_answered_at_once() {
    for (messages, at_once) in [(60, false), (185, true)] {
        let mut pair = Pair::new(modes()[1].clone());
        let send = |pair: &mut Pair| {
            let sent = pair.nodes[0].send_copy(pair.now_ns, PeerId(1), 1, &[1; 200], false);
            sent.unwrap();
        };
        send(&mut pair);
        pair.carry();
        (0..messages).for_each(|_| send(&mut pair));
        let buffer = &mut [0; 65_536];
        pair.pass_train();
        assert!(pair.nodes[0].poll_transmit(pair.now_ns, buffer).is_none());
        let answer = pair.nodes[1].poll_transmit(pair.now_ns, buffer);
        assert_eq!(answer.is_some(), at_once, "{messages} messages");
    }
}

impl Pair {
    /// With acknowledgements 5 ms late, and all that a connection needs behind it.
    fn late(change: impl Fn(&mut Config)) -> Self {
        let mut pair = Pair::with(modes()[1].clone(), |config| {
            config.late_ack_ns = 5_000_000;
            change(config);
        });
        pair.say_hello();
        pair.carry();
        pair.now_ns += 10_000_000;
        pair.carry();
        pair
    }

    fn say_hello(&mut self) {
        let sent = self.nodes[0].send_copy(self.now_ns, PeerId(1), 1, b"hello", false);
        sent.unwrap();
    }

    /// How often the second node has acknowledged with nothing to carry it, and how often the first
    /// one has asked for that.
    fn asides(&self) -> [u64; 2] {
        let [asks, answers] = [0, 1].map(|node| self.nodes[node].stats().counters);
        [answers.acks_alone, asks.polls]
    }
}

#[test]
fn acknowledgements_on_which_nothing_depends_may_be_late() {
    let mut pair = Pair::late(|_| {});
    let before = pair.asides();
    for _ in 0..10 {
        pair.say_hello();
        pair.carry();
    }
    assert_eq!(pair.asides(), before, "nobody is impatient");
    assert!(!pair.nodes[0].is_settled());
    // 5 ms after the first of them.
    pair.now_ns += 3_200_000;
    pair.carry();
    assert_eq!(pair.asides(), [before[0] + 1, before[1]], "one for all");
    assert!(pair.nodes[0].is_settled());
}

#[test]
fn what_is_owed_for_much_or_to_somebody_without_credit_is_not_late() {
    for (bytes, late) in [(20_000, true), (300_000, false)] {
        let mut pair = Pair::late(|config| config.credit = CreditPolicy::Shares);
        let sent = pair.nodes[0].send(pair.now_ns, PeerId(1), 1, vec![1; bytes].into(), false);
        sent.unwrap();
        pair.carry();
        assert_ne!(pair.nodes[0].is_settled(), late, "{bytes} bytes");
    }

    let mut pair = Pair::late(|config| config.socket_buffer_bytes = 16 << 10);
    pair.say_hello();
    pair.carry();
    assert!(pair.nodes[0].is_settled());
}

#[test]
fn who_follows_a_message_until_it_has_left_does_not_hurry_its_acknowledgement() {
    let mut pair = Pair::late(|config| config.credit = CreditPolicy::Shares);
    let long = || vec![1; 20_000].into();
    let ticket = pair.nodes[0].send_followed(pair.now_ns, PeerId(1), 1, long());
    let ticket = ticket
        .unwrap()
        .expect("a send that is followed has a ticket");
    assert!(pair.nodes[0].keeps_back(PeerId(1), ticket));
    pair.carry();
    assert!(!pair.nodes[0].keeps_back(PeerId(1), ticket));
    assert_eq!(pair.nodes[0].take_sent(ticket), None, "nobody hurries");
    let awaited = pair.nodes[0].send(pair.now_ns, PeerId(1), 1, long(), true);
    let awaited = awaited
        .unwrap()
        .expect("a send that is awaited has a ticket");
    pair.carry();
    assert_eq!(pair.nodes[0].take_sent(awaited), Some(Ok(())));
    assert_eq!(pair.nodes[0].take_sent(ticket), Some(Ok(())));
}

/// It would take the peer for lost: the keep-alive may have been the last that it heard.
#[test]
fn who_has_little_patience_does_not_wait_for_late_acknowledgements() {
    for (dead_after_ms, waits) in [(1_000, true), (60, false)] {
        let mut pair = Pair::late(|config| {
            config.late_ack_ns = 50_000_000;
            config.dead_after_ns = dead_after_ms * 1_000_000;
            config.keep_alive_ns = config.dead_after_ns / 3;
        });
        pair.say_hello();
        pair.carry();
        let waited = !pair.nodes[0].is_settled();
        assert_eq!(waited, waits, "lost after {dead_after_ms} ms");
    }
}

#[test]
fn who_closes_does_not_wait_for_late_acknowledgements() {
    let mut pair = Pair::late(|_| {});
    pair.say_hello();
    pair.carry();
    assert!(!pair.nodes[0].is_settled());
    pair.nodes[0].stop_sending();
    pair.carry();
    assert!(pair.nodes[0].is_settled());
}

#[test]
fn a_lost_tail_is_asked_for_when_the_acknowledgement_is_too_late() {
    let mut pair = Pair::late(|_| {});
    let before = pair.asides()[1];
    pair.say_hello();
    let lost = pair.nodes[0].poll_transmit(pair.now_ns, &mut [0; 65_536]);
    assert!(lost.is_some());
    pair.carry();
    assert_eq!(pair.asides()[1], before);
    pair.now_ns += 6_000_000;
    pair.carry();
    assert_eq!(pair.asides()[1], before + 1);
    let received = std::iter::from_fn(|| pair.nodes[1].try_take(&Match::any()));
    assert_eq!(received.count(), 2);
}

#[test]
fn who_goes_on_sending_is_not_woken_for_what_it_sent_before() {
    let mut pair = Pair::new(modes()[1].clone());
    let send = |pair: &mut Pair| {
        let sent = pair.nodes[0].send_copy(pair.now_ns, PeerId(1), 5, b"more", false);
        sent.unwrap();
    };
    send(&mut pair);
    pair.carry();
    let mut waits = Vec::new();
    for _ in 0..10 {
        pair.now_ns += 30_000;
        send(&mut pair);
        let train = pair.nodes[0].poll_transmit(pair.now_ns, &mut [0; 65_536]);
        assert!(train.is_some());
        let at = pair.nodes[0].next_deadline().unwrap();
        waits.push(at - pair.now_ns);
    }
    assert!(waits.is_sorted(), "{waits:?}");
}

/// Packets that come in each turn of a driver put it off by a nanosecond each, for ever: nothing that was lost went again.
#[test]
fn what_is_overdue_is_not_put_off_by_what_comes() {
    let mut pair = Pair::with(modes()[1].clone(), |config| {
        config.recovery = Recovery::Timeout
    });
    let send = |pair: &mut Pair, from: usize| {
        let to = PeerId(1 - from as u32);
        let sent = pair.nodes[from].send_copy(pair.now_ns, to, 5, b"more", false);
        sent.unwrap();
    };
    send(&mut pair, 0);
    pair.carry();
    send(&mut pair, 0);
    let lost = pair.nodes[0].poll_transmit(pair.now_ns, &mut [0; 65_536]);
    assert!(lost.is_some());
    // Those that were put off are looked at when they were due first.
    let due_ns = pair.now_ns + 200_000_000;
    while pair.now_ns < due_ns {
        pair.nodes[0].handle_deadline(pair.now_ns);
        pair.now_ns = pair.nodes[0].next_deadline().unwrap();
    }
    pair.now_ns += 1_050_000;
    send(&mut pair, 1);
    pair.pass_train_from(1);
    assert!(pair.nodes[0].next_deadline().unwrap() <= pair.now_ns);
    pair.nodes[0].handle_deadline(pair.now_ns);
    pair.carry();
    assert_eq!(
        pair.nodes[0].peer_stats(PeerId(1)).unwrap().counters.polls,
        1
    );
    let received = std::iter::from_fn(|| pair.nodes[1].try_take(&Match::any()));
    assert_eq!(received.count(), 2);
}

#[test]
fn a_timer_put_off_to_where_it_was_before_does_not_fill_the_heap() {
    let mut pair = Pair::new(modes()[1].clone());
    let sent = pair.nodes[0].send_copy(pair.now_ns, PeerId(1), 5, b"hello", false);
    sent.unwrap();
    pair.carry();
    let node = &mut pair.nodes[0];
    let entry = std::cmp::Reverse((node.peers[0].timer_at_ns, 0));
    node.timers = vec![entry; 100].into();
    node.drop_stale_timers();
    assert_eq!(node.timers.len(), 1);
}

/// Handshakes can't be marked, and nothing that goes to somebody who would not hear of it.
#[test]
fn what_may_be_marked_goes_to_those_who_take_notice() {
    let mut pair = Pair::with(modes()[0].clone(), |config| {
        config.ecn = config.id == PeerId(1)
    });
    let mut buffer = vec![0; 65_536];
    let mut may_be_marked = [Vec::new(), Vec::new()];
    let sent = pair.nodes[0].send_copy(pair.now_ns, PeerId(1), 5, b"hello", false);
    sent.unwrap();
    for turn in 0..100 {
        let from = turn % 2;
        pair.now_ns += 100_000;
        pair.nodes[from].handle_deadline(pair.now_ns);
        while let Some(train) = pair.nodes[from].poll_transmit(pair.now_ns, &mut buffer) {
            may_be_marked[from].push(train.ecn);
            let (addr, bytes) = (ADDRS[from].parse().unwrap(), &mut buffer[..train.bytes]);
            let (to, segment) = (&mut pair.nodes[1 - from], train.segment);
            to.handle_datagrams(pair.now_ns, addr, None, segment, train.ecn, bytes);
        }
    }
    let [asked, others] = may_be_marked;
    assert!(asked.len() > 1 && !asked[0] && asked[1..].iter().all(|&may| may));
    assert!(others.len() > 1 && others.iter().all(|&may| !may));
    let message = pair.nodes[1].try_take(&Match::any());
    assert_eq!(&*message.unwrap().body, b"hello");
}

/// A report of many gaps fills a packet so far that a long entry finds no room beside it.
#[test]
fn what_finds_no_room_beside_an_acknowledgement_leaves_behind_it() {
    let mut pair = Pair::with(modes()[1].clone(), |config| {
        config.max_datagram = crate::channel::BASE_DATAGRAM;
    });
    let mut buffer = vec![0; 65_536];
    for from in 0..2 {
        let to = PeerId(1 - from as u32);
        let hello = pair.nodes[from].send_copy(pair.now_ns, to, 1, b"hello", false);
        hello.unwrap();
        pair.carry();
    }
    for at in 0..40 {
        let sent = pair.nodes[0].send_copy(pair.now_ns, PeerId(1), 1, b"gap", false);
        sent.unwrap();
        if at % 2 == 0 {
            pair.pass_train();
        } else {
            let lost = pair.nodes[0].poll_transmit(pair.now_ns, &mut buffer);
            assert!(lost.is_some());
        }
    }
    let sent = pair.nodes[1].send_copy(pair.now_ns, PeerId(0), 1, &[1; 1_072], false);
    sent.unwrap();
    let mut lengths = Vec::new();
    while let Some(train) = pair.nodes[1].poll_transmit(pair.now_ns, &mut buffer) {
        lengths.push(train.bytes);
    }
    assert!(lengths.iter().any(|&bytes| bytes > 1_072), "{lengths:?}");
}

/// Has the packets that the first node sends come nowhere. `said` tells what each meets, by its number.
/// Returns why the peer is lost in the end.
fn loses_all(pair: &mut Pair, said: Said) -> PeerLost {
    let (mut buffer, mut sent) = (vec![0; 65_536], 0);
    loop {
        pair.now_ns += 1_000_000;
        let node = &mut pair.nodes[0];
        node.handle_deadline(pair.now_ns);
        while let Some(train) = node.poll_transmit(pair.now_ns, &mut buffer) {
            if let Some(obstacle) = said(sent) {
                node.handle_unreachable_hint(pair.now_ns, train.to, obstacle);
            }
            sent += 1;
        }
        let mut events = std::iter::from_fn(|| node.next_event());
        if let Some(Event::Lost { why, .. }) = events.find(|it| matches!(it, Event::Lost { .. })) {
            return why;
        }
    }
}

const NO_ROUTE: Obstacle = Obstacle::System(101);
const NO_PORT: Obstacle = Obstacle::Network(111);

/// What is said of each packet.
type Said = fn(usize) -> Option<Obstacle>;

/// What was said of packets, and what is named of it when no answer has come.
fn named() -> [(Said, Option<Obstacle>); 4] {
    [
        (|_| Some(NO_ROUTE), Some(NO_ROUTE)),
        (|_| Some(NO_PORT), Some(NO_PORT)),
        // The first packet only: what has left since was not refused, but may have been turned away.
        (|sent| (sent == 0).then_some(NO_ROUTE), None),
        (|sent| (sent == 0).then_some(NO_PORT), Some(NO_PORT)),
    ]
}

#[test]
fn an_attempt_that_fails_names_what_was_in_the_way() {
    for (said, named) in named() {
        let mut pair = Pair::new(modes()[1].clone());
        pair.nodes[0].connect(pair.now_ns, PeerId(1)).unwrap();
        match loses_all(&mut pair, said) {
            PeerLost::Unreachable(ConnectError::NoAnswer { obstacle, .. }) => {
                assert_eq!(obstacle, named);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_attempt_ends_at_once_where_going_on_is_in_vain() {
    let (perm, access, invalid) = (1, 13, 22);
    for (obstacle, in_vain) in [
        (Obstacle::IpVersion { ipv6: true }, true),
        // So say routes that swallow everything until a better one comes.
        (Obstacle::System(access), false),
        (Obstacle::System(invalid), false),
        (Obstacle::System(perm), false),
        (Obstacle::Network(access), false),
        (NO_ROUTE, false),
        (NO_PORT, false),
    ] {
        let mut pair = Pair::new(modes()[1].clone());
        let node = &mut pair.nodes[0];
        node.connect(pair.now_ns, PeerId(1)).unwrap();
        let to = ADDRS[1].parse().unwrap();
        node.handle_unreachable_hint(pair.now_ns, to, obstacle);
        let lost = node.next_event().map(|event| match event {
            Event::Lost { why, .. } => why.to_string(),
            other => panic!("{other:?}"),
        });
        assert_eq!(lost, in_vain.then(|| obstacle.to_string()));
    }
}

#[test]
fn a_silent_peer_is_lost_with_what_was_in_the_way() {
    for (said, named) in named() {
        let mut pair = Pair::new(modes()[1].clone());
        pair.nodes[0].connect(pair.now_ns, PeerId(1)).unwrap();
        pair.carry();
        match loses_all(&mut pair, said) {
            PeerLost::Silent { obstacle, .. } => assert_eq!(obstacle, named),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_peer_that_answers_is_not_lost_whatever_is_said_of_it() {
    let mut pair = Pair::new(modes()[1].clone());
    pair.nodes[0].connect(pair.now_ns, PeerId(1)).unwrap();
    pair.carry();
    let to = ADDRS[1].parse().unwrap();
    for obstacle in [NO_ROUTE, NO_PORT, Obstacle::IpVersion { ipv6: true }] {
        pair.nodes[0].handle_unreachable_hint(pair.now_ns, to, obstacle);
        let stats = pair.nodes[0].peer_stats(PeerId(1)).unwrap();
        assert_eq!(stats.obstacle, Some(obstacle));
        pair.carry();
        let stats = pair.nodes[0].peer_stats(PeerId(1)).unwrap();
        assert_eq!((stats.obstacle, stats.state), (None, LinkState::Open));
        pair.now_ns += 200_000_000;
    }
}

/// A firewall's word on what it has refused does not hide that it has.
#[test]
fn what_was_refused_here_counts_for_more_than_what_the_network_says_of_it() {
    let mut pair = Pair::new(modes()[1].clone());
    pair.nodes[0].connect(pair.now_ns, PeerId(1)).unwrap();
    let to = ADDRS[1].parse().unwrap();
    for _ in 0..2 {
        for obstacle in [NO_ROUTE, NO_PORT] {
            pair.nodes[0].handle_unreachable_hint(pair.now_ns, to, obstacle);
        }
        let stats = pair.nodes[0].peer_stats(PeerId(1)).unwrap();
        assert_eq!(stats.obstacle, Some(NO_ROUTE));
        pair.carry();
    }
}

/// Peers say how long their messages are: sums must hold whatever they say.
#[test]
fn lengths_that_no_memory_holds_are_bounded_in_sum() {
    let mut pair = Pair::new(modes()[1].clone());
    pair.nodes[0].connect(pair.now_ns, PeerId(1)).unwrap();
    pair.carry();
    let now_ns = pair.now_ns;
    let node = &mut pair.nodes[1];
    let index = node.peers.index(PeerId(0)).unwrap();
    let announce = |node: &mut Node, id: u32, len| {
        let mut log = Vec::new();
        let mode = EntryMode::Granted;
        let (tag, body) = (1, &[][..]);
        Entry {
            tag,
            len,
            mode,
            body,
        }
        .append(&mut log);
        let (first_id, count, log) = (id, 1, &log[..]);
        let frame = Entries {
            first_id,
            count,
            log,
        };
        let link = node.peers[index].reference(index);
        let taken = node.with_incoming(link, |incoming, inbox| incoming.on_entries(&frame, inbox));
        taken.expect("there is a connection")
    };
    for id in 0..4 {
        announce(node, id, 1 << 60).unwrap();
        node.discard(&Match::any()).unwrap();
    }
    let session = node.peers[index].session_mut().unwrap();
    assert_eq!(session.incoming.remaining_bytes(), 1 << 62);
    assert!(
        session.take_arrival().remaining > 1 << 62,
        "what the kernel charges is more"
    );
    node.give_credit(index, now_ns);
    for (id, len) in [(4, 1), (5, u64::MAX)] {
        assert!(announce(node, id, len).is_err(), "{len} bytes more");
    }
}

#[test]
fn what_nobody_wants_is_thrown_away_with_one_look_at_each_message() {
    let [mut node, _] = Pair::new(modes()[0].clone()).nodes;
    let me = node.id();
    for tag in 0..1_000 {
        node.send_copy(0, me, tag, b"hello", false).unwrap();
    }
    let looks = std::cell::Cell::new(0);
    let is_unwanted = |_, tag: u64| {
        looks.set(looks.get() + 1);
        tag.is_multiple_of(2)
    };
    assert!(node.discard_all(is_unwanted));
    assert_eq!((looks.get(), node.unmatched_messages()), (1_000, 500));
    assert!(!node.discard_all(is_unwanted));
    assert_eq!(node.probe(&Match::any()).unwrap().tag, 1);
}

#[test]
fn a_send_that_nobody_asks_for_any_more_leaves_nothing_behind() {
    let [mut node, _] = Pair::new(modes()[0].clone()).nodes;
    let tickets: Vec<_> = (0..3)
        .map(|_| {
            let ticket = node.send_copy(0, PeerId(1), 0, b"hello", true).unwrap();
            node.forget_sent(ticket.unwrap());
            format!("{ticket:?}")
        })
        .collect();
    let same_place = |ticket: &String| ticket.contains("slot: 0,");
    assert!(tickets.iter().all(same_place), "{tickets:?}");
}

#[test]
fn handshakes_leave_one_timer() {
    let mut pair = Pair::new(modes()[1].clone());
    for life in 0..200 {
        pair.replace_first(20 + life);
    }
    let timers = pair.nodes[1].timers.iter();
    let half_open = timers.filter(|timer| timer.0.1 == HALF_OPEN_TIMER);
    assert!(half_open.count() <= 1);
}
