use super::super::handshake::{HALF_OPEN_MAX, UNPROVEN_PART};
use super::*;
use crate::seal::{JobKey, JobKeys};
use crate::stats::Dropped;
use crate::wire::Kind;
use crate::{Config, Node, PeerId};

const OURS: u8 = 7;
const THEIRS: u8 = 8;
const TARGET: PeerId = PeerId(0);

fn mode(key: u8) -> Mode {
    Mode::Sealed(JobKeys::from(JobKey::from_bytes([key; 32])))
}

/// A process that holds this key, and wants to get in.
struct Newcomer(Node);

impl Newcomer {
    fn new(key: u8, id: u32) -> Self {
        let mut seed = [0; 32];
        seed[..4].copy_from_slice(&id.to_le_bytes());
        let mut node = Node::new(Config::new(PeerId(id), mode(key)), seed);
        node.add_peer(TARGET, "10.0.0.1:7000".parse().unwrap());
        node.connect(0, TARGET).unwrap();
        Newcomer(node)
    }

    fn init(&mut self) -> Vec<u8> {
        let mut buffer = vec![0; 65_536];
        let train = self.0.poll_transmit(0, &mut buffer).expect("an Init");
        buffer[..train.bytes].to_vec()
    }

    /// The Init with which it answers a Cookie.
    fn init_with(&mut self, cookie: Vec<u8>) -> Vec<u8> {
        self.hear(0, cookie);
        self.init()
    }

    /// What it says to an answer.
    fn answers(&mut self, answer: Vec<u8>) -> Vec<Vec<u8>> {
        self.hear(1_000, answer);
        let (mut answers, mut buffer) = (Vec::new(), vec![0; 65_536]);
        while let Some(train) = self.0.poll_transmit(1_000, &mut buffer) {
            answers.push(buffer[..train.bytes].to_vec());
        }
        answers
    }

    fn hear(&mut self, now_ns: u64, mut letter: Vec<u8>) {
        let (from, len) = ("10.0.0.1:7000".parse().unwrap(), letter.len());
        self.0
            .handle_datagrams(now_ns, from, None, len, false, &mut letter);
    }
}

/// The first Init of a process that holds this key.
fn init(key: u8, id: u32) -> Vec<u8> {
    Newcomer::new(key, id).init()
}

/// A node that is sent Inits, and its answers.
struct Target {
    node: Node,
    now_ns: u64,
}

impl Target {
    fn new() -> Self {
        Self::with(Config::new(TARGET, mode(OURS)))
    }

    /// One that trusts everybody to be where they say.
    fn trusting() -> Self {
        let mut config = Config::new(TARGET, mode(OURS));
        config.cookie_above = usize::MAX;
        Self::with(config)
    }

    fn with(config: Config) -> Self {
        Target {
            node: Node::new(config, [0; 32]),
            now_ns: 1_000_000,
        }
    }

    /// Takes an Init so many times; returns the kinds of the answers.
    fn take(&mut self, init: &[u8], times: usize) -> Vec<Kind> {
        let answers = self.answers(init, times);
        let kind = |answer: &Vec<u8>| Prelude::parse(answer).unwrap().0.kind;
        answers.iter().map(kind).collect()
    }

    fn answers(&mut self, init: &[u8], times: usize) -> Vec<Vec<u8>> {
        let (mut answers, mut buffer) = (Vec::new(), vec![0; 65_536]);
        let from = "10.0.0.2:7000".parse().unwrap();
        for _ in 0..times {
            let bytes = &mut init.to_vec()[..];
            self.node
                .handle_datagrams(self.now_ns, from, None, bytes.len(), false, bytes);
            while let Some(train) = self.node.poll_transmit(self.now_ns, &mut buffer) {
                answers.push(buffer[..train.bytes].to_vec());
            }
        }
        answers
    }

    fn dropped(&self) -> Dropped {
        self.node.stats().dropped
    }
}

#[test]
fn of_a_flood_from_outside_little_is_looked_at_and_less_answered() {
    let (mut target, init) = (Target::new(), init(THEIRS, 1));
    for round in 1..=2 {
        let answers = target.take(&init, 1_000);
        assert_eq!(answers, [Kind::Reject; REJECTS as usize]);
        let dropped = target.dropped();
        assert_eq!(dropped.rejected, round * u64::from(OTHERS));
        assert_eq!(dropped.crowded_out, round * (1_000 - u64::from(OTHERS)));
        target.now_ns += ROUND_NS;
    }
}

#[test]
fn a_member_gets_in_through_a_flood_from_outside() {
    let mut target = Target::new();
    target.take(&init(THEIRS, 1), 1_000);
    assert_eq!(target.take(&init(OURS, 2), 1), [Kind::Reply]);
}

#[test]
fn a_recorded_first_message_is_looked_at_so_often() {
    let (mut target, init) = (Target::new(), init(OURS, 1));
    let (opened, asked) = (MEMBERS as usize, COOKIES as usize);
    let answers = target.take(&init, opened + asked + 500);
    let (replies, cookies) = answers.split_at(opened);
    assert_eq!(replies, vec![Kind::Reply; opened]);
    assert_eq!(cookies, vec![Kind::Cookie; asked]);
    assert_eq!(target.dropped().crowded_out, 500);
}

#[test]
fn a_member_that_can_be_reached_gets_in_through_a_flood_of_recorded_first_messages() {
    let (mut target, recorded) = (Target::new(), init(OURS, 1));
    target.take(&recorded, MEMBERS as usize);
    let mut newcomer = Newcomer::new(OURS, 2);
    let cookie = target.answers(&newcomer.init(), 1).remove(0);
    target.take(&recorded, 10_000);
    let init = newcomer.init_with(cookie);
    assert_eq!(target.take(&init, 1), [Kind::Reply]);
}

#[test]
fn a_first_message_repeated_with_its_cookie_is_looked_at_so_often() {
    let (mut target, mut newcomer) = (Target::new(), Newcomer::new(OURS, 1));
    target.take(&init(OURS, 2), MEMBERS as usize);
    let cookie = target.answers(&newcomer.init(), 1).remove(0);
    let answers = target.take(&newcomer.init_with(cookie), 10_000);
    assert_eq!(answers, vec![Kind::Reply; MEMBERS as usize]);
}

#[test]
fn first_messages_that_differ_are_answered_so_often() {
    let mut target = Target::trusting();
    let inits: Vec<_> = (1..=ANSWERS + 100).map(|id| init(OURS, id)).collect();
    let answers = inits.iter().flat_map(|init| target.take(init, 1)).count();
    assert_eq!(answers, ANSWERS as usize);
    assert_eq!(target.dropped().crowded_out, 100);
    assert_eq!(target.take(&inits[0], 1), [Kind::Reply], "nothing new");
    target.now_ns += ROUND_NS;
    assert_eq!(target.take(inits.last().unwrap(), 1), [Kind::Reply]);
}

#[test]
fn of_too_many_handshakes_the_oldest_goes() {
    let mut target = Target::trusting();
    for id in 1..=HALF_OPEN_MAX as u32 + 1 {
        // Many come at the same time.
        target.now_ns += if id % ANSWERS == 0 { ROUND_NS } else { 0 };
        assert_eq!(target.take(&init(OURS, id), 1), [Kind::Reply]);
    }
    assert_eq!(target.node.peers.half_open(), HALF_OPEN_MAX);
}

#[test]
fn recorded_first_messages_leave_the_memory_to_those_who_are_alive() {
    let mut target = Target::trusting();
    let (memory, window) = {
        let config = target.node.config();
        (config.memory_bytes, config.log_window)
    };
    for id in 2..=ANSWERS {
        assert_eq!(target.take(&init(OURS, id), 1), [Kind::Reply]);
    }
    let used = target.node.stats().unmatched_bytes;
    assert!(used <= memory / UNPROVEN_PART + window, "{used}");
    // One that proves itself has as much as anybody.
    let mut newcomer = Newcomer::new(OURS, 1);
    let reply = target.answers(&newcomer.init(), 1).remove(0);
    let third = newcomer.answers(reply).remove(0);
    target.take(&third, 1);
    let index = target.node.peers.index(PeerId(1)).expect("it is known now");
    let session = target.node.peers[index]
        .session()
        .expect("it has proven itself");
    assert_eq!(session.incoming.log.window(), window);
    assert_eq!(session.incoming.log.limit(), window, "and was told so");
}

#[test]
fn a_cookie_that_is_in_use_is_not_answered_again() {
    let (mut target, mut newcomer) = (Target::new(), Newcomer::new(OURS, 1));
    target.take(&init(OURS, 2), MEMBERS as usize);
    let cookie = target.answers(&newcomer.init(), 1).remove(0);
    newcomer.init_with(cookie.clone());
    newcomer.hear(ROUND_NS, cookie);
    assert!(!newcomer.0.has_queued());
}

/// Another implementation may leave the code out.
#[test]
fn a_member_without_the_code_gets_in_while_there_is_no_flood() {
    let (mut target, mut without) = (Target::new(), init(OURS, 1));
    without[5] ^= 1;
    assert_eq!(target.take(&without, 1), [Kind::Reply]);
    target.take(&init(THEIRS, 2), 1_000);
    assert_eq!(target.take(&without, 1), []);
}

#[test]
fn cookies_for_those_without_the_code_count_as_well() {
    let mut target = Target::new();
    // So many handshakes are under way that cookies are asked for.
    for id in 1..100 {
        target.take(&init(OURS, id), 1);
    }
    target.now_ns += ROUND_NS;
    let mut init = init(OURS, 100);
    target.take(&init, COOKIES as usize);
    init[5] ^= 1;
    assert_eq!(target.take(&init, 1), []);
    target.now_ns += ROUND_NS;
    assert_eq!(target.take(&init, 1), [Kind::Cookie]);
}

#[test]
fn of_those_who_begin_at_the_same_time_no_more_get_in_than_there_is_room_for() {
    let mut config = Config::new(TARGET, mode(OURS));
    config.max_peers = 2;
    let mut target = Target::with(config);
    let begun = (1..=10).map(|id| {
        let mut newcomer = Newcomer::new(OURS, id);
        let reply = target.answers(&newcomer.init(), 1).remove(0);
        newcomer.answers(reply).remove(0)
    });
    let thirds: Vec<_> = begun.collect();
    for third in &thirds {
        target.take(third, 1);
    }
    assert_eq!(target.node.peer_ids().count(), 2);
    assert_eq!(target.node.stats().connections, 2);
    assert_eq!(target.dropped().crowded_out, 8);
}

#[test]
fn of_forged_answers_so_many_are_looked_at_and_the_true_one_comes_again() {
    let (mut target, mut newcomer) = (Target::new(), Newcomer::new(OURS, 1));
    let reply = target.answers(&newcomer.init(), 1).remove(0);
    let mut forged = reply.clone();
    forged[60] ^= 1;
    for _ in 0..1_000 {
        newcomer.hear(ROUND_NS, forged.clone());
    }
    let dropped = newcomer.0.stats().dropped;
    assert_eq!(dropped.forged, u64::from(FORGED));
    assert_eq!(dropped.crowded_out, 1_000 - u64::from(FORGED));
    newcomer.hear(2 * ROUND_NS - 1, reply.clone());
    assert_eq!(newcomer.0.stats().connections, 0);
    newcomer.hear(2 * ROUND_NS, reply);
    assert_eq!(newcomer.0.stats().connections, 1);
}
