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
    fn new(key: u8, seed: u8) -> Self {
        let config = Config::new(PeerId(u32::from(seed)), mode(key));
        let mut node = Node::new(config, [seed; 32]);
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
    fn init_with(&mut self, mut cookie: Vec<u8>) -> Vec<u8> {
        let (from, len) = ("10.0.0.1:7000".parse().unwrap(), cookie.len());
        self.0
            .handle_datagrams(0, from, None, len, false, &mut cookie);
        self.init()
    }
}

/// The first Init of a process that holds this key.
fn init(key: u8, seed: u8) -> Vec<u8> {
    Newcomer::new(key, seed).init()
}

/// A node that is sent Inits, and its answers.
struct Target {
    node: Node,
    now_ns: u64,
}

impl Target {
    fn new() -> Self {
        Target {
            node: Node::new(Config::new(TARGET, mode(OURS)), [0; 32]),
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

/// Another implementation may leave the code out.
#[test]
fn a_member_without_the_code_gets_in_while_there_is_no_flood() {
    let (mut target, mut without) = (Target::new(), init(OURS, 1));
    without[5] ^= 1;
    assert_eq!(target.take(&without, 1), [Kind::Reply]);
    target.take(&init(THEIRS, 2), 1_000);
    assert_eq!(target.take(&without, 1), []);
}
