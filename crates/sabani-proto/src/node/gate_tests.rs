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

/// The first Init of a process that holds this key.
fn init(key: u8, seed: u8) -> Vec<u8> {
    let config = Config::new(PeerId(u32::from(seed)), mode(key));
    let mut node = Node::new(config, [seed; 32]);
    node.add_peer(TARGET, "10.0.0.1:7000".parse().unwrap());
    node.connect(0, TARGET).unwrap();
    let mut buffer = vec![0; 65_536];
    let train = node.poll_transmit(0, &mut buffer).expect("an Init");
    buffer[..train.bytes].to_vec()
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
        let (mut answers, mut buffer) = (Vec::new(), vec![0; 65_536]);
        let from = "10.0.0.2:7000".parse().unwrap();
        for _ in 0..times {
            let bytes = &mut init.to_vec()[..];
            self.node
                .handle_datagrams(self.now_ns, from, None, bytes.len(), false, bytes);
            while let Some(train) = self.node.poll_transmit(self.now_ns, &mut buffer) {
                let (prelude, _) = Prelude::parse(&buffer[..train.bytes]).unwrap();
                answers.push(prelude.kind);
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
    let replies = target.take(&init, MEMBERS as usize + 500);
    assert_eq!(replies, [Kind::Reply; MEMBERS as usize]);
    assert_eq!(target.dropped().crowded_out, 500);
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
