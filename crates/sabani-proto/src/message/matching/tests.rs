//! The matcher against a naive model, and its cost in entries visited.

use proptest::prelude::*;

use super::*;

const SEED: u64 = 0x5aba_0001;

/// The same rules, by scanning vectors.
#[derive(Default)]
struct Model {
    arrived: Vec<(ArrivedKey, PeerId, u64, u32)>,
    posted: Vec<(PostedKey, Match, u32)>,
}

impl Model {
    fn arrive(&mut self, source: PeerId, tag: u64) -> Option<u32> {
        let matches = |(_, m, _): &(_, Match, _)| m.matches(source, tag);
        let at = self.posted.iter().position(matches)?;
        Some(self.posted.remove(at).2)
    }

    fn find(&self, pattern: &Match) -> Option<usize> {
        let matches = |&(_, source, tag, _): &(_, _, _, _)| pattern.matches(source, tag);
        self.arrived.iter().position(matches)
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Arrive(PeerId, u64),
    /// Keeps without asking for a posted receive, many times.
    Flood(PeerId, u64, u8),
    Receive(Match),
    /// Posts without asking for a waiting message.
    Post(Match),
    Peek(Match),
    Change(prop::sample::Index),
    Cancel(prop::sample::Index),
    CancelFrom(PeerId),
    Retain(PeerId, u32),
    /// Takes until nothing is left.
    Drain,
}

/// A matcher and its model, with all keys ever given.
struct Pair {
    matcher: Matcher<u32, u32>,
    model: Model,
    arrived_keys: Vec<ArrivedKey>,
    posted_keys: Vec<PostedKey>,
    next: u32,
}

impl Pair {
    fn new() -> Self {
        Pair {
            matcher: Matcher::new(SEED),
            model: Model::default(),
            arrived_keys: Vec::new(),
            posted_keys: Vec::new(),
            next: 0,
        }
    }

    fn keep(&mut self, source: PeerId, tag: u64) {
        self.next += 1;
        let key = self.matcher.keep(source, tag, self.next);
        self.arrived_keys.push(key);
        self.model.arrived.push((key, source, tag, self.next));
    }

    fn post(&mut self, pattern: Match) {
        self.next += 1;
        let key = self.matcher.post(pattern, self.next);
        self.posted_keys.push(key);
        self.model.posted.push((key, pattern, self.next));
    }

    fn take(&mut self, pattern: &Match) -> bool {
        let expected = self.model.find(pattern).map(|at| {
            let (_, source, tag, payload) = self.model.arrived.remove(at);
            (source, tag, payload)
        });
        assert_eq!(self.matcher.take(pattern), expected);
        expected.is_some()
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Arrive(source, tag) => {
                let expected = self.model.arrive(source, tag);
                assert_eq!(self.matcher.arrive(source, tag), expected);
                if expected.is_none() {
                    self.keep(source, tag);
                }
            }
            Operation::Flood(source, tag, count) => {
                (0..count).for_each(|_| self.keep(source, tag));
            }
            Operation::Receive(pattern) => {
                if !self.take(&pattern) {
                    self.post(pattern);
                }
            }
            Operation::Post(pattern) => self.post(pattern),
            Operation::Peek(pattern) => self.peek(&pattern),
            Operation::Change(at) => self.change(at),
            Operation::Cancel(at) => self.cancel(at),
            Operation::CancelFrom(source) => self.cancel_from(source),
            Operation::Retain(source, modulus) => self.retain(source, modulus),
            Operation::Drain => while self.take(&Match::any()) {},
        }
        assert_eq!(self.matcher.arrived_len(), self.model.arrived.len());
        assert_eq!(self.matcher.posted_len(), self.model.posted.len());
    }

    fn peek(&mut self, pattern: &Match) {
        let found = self.matcher.peek(pattern);
        let found = found.map(|(source, tag, payload)| (source, tag, *payload));
        let expected = self.model.find(pattern).map(|at| {
            let (_, source, tag, payload) = self.model.arrived[at];
            (source, tag, payload)
        });
        assert_eq!(found, expected);
    }

    fn arrived_at(&self, key: ArrivedKey) -> Option<usize> {
        self.model.arrived.iter().position(|entry| entry.0 == key)
    }

    fn change(&mut self, at: prop::sample::Index) {
        if self.arrived_keys.is_empty() {
            return;
        }
        let key = *at.get(&self.arrived_keys);
        let at = self.arrived_at(key);
        let expected = at.map(|at| &mut self.model.arrived[at].3);
        let found = self.matcher.get_mut(key);
        assert_eq!(found, expected);
        if let (Some(found), Some(expected)) = (found, expected) {
            self.next += 1;
            *found = self.next;
            *expected = self.next;
        }
    }

    fn cancel(&mut self, at: prop::sample::Index) {
        if self.posted_keys.is_empty() {
            return;
        }
        let key = *at.get(&self.posted_keys);
        let at = self.model.posted.iter().position(|entry| entry.0 == key);
        let expected = at.map(|at| self.model.posted.remove(at).2);
        assert_eq!(self.matcher.cancel(key), expected);
    }

    fn cancel_from(&mut self, source: PeerId) {
        let mut cancelled = Vec::new();
        self.matcher.cancel_from(source, |r| cancelled.push(r));
        let only = |entry: &mut (_, Match, _)| entry.1.source() == Some(source);
        let expected = self.model.posted.extract_if(.., only);
        assert_eq!(cancelled, expected.map(|entry| entry.2).collect::<Vec<_>>());
    }

    fn retain(&mut self, source: PeerId, modulus: u32) {
        self.matcher
            .retain_arrived(source, |payload| !payload.is_multiple_of(modulus));
        self.model
            .arrived
            .retain(|entry| entry.1 != source || !entry.3.is_multiple_of(modulus));
    }
}

fn peers() -> impl Strategy<Value = PeerId> {
    (0..4u32).prop_map(PeerId)
}

fn tags() -> impl Strategy<Value = u64> {
    prop_oneof![0..6u64, Just(u64::MAX), Just(1 << 63)]
}

fn patterns() -> impl Strategy<Value = Match> {
    let masks = prop_oneof![
        4 => Just(!0u64), 2 => Just(0), 1 => Just(3), 1 => Just(1 << 63 | 1)
    ];
    (prop::option::of(peers()), tags(), masks).prop_map(|(source, tag, mask)| {
        let pattern = Match::any().tag_mask(tag, mask);
        source.map_or(pattern, |source| pattern.from(source))
    })
}

fn operations() -> impl Strategy<Value = Operation> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        16 => (peers(), tags()).prop_map(|(s, t)| Operation::Arrive(s, t)),
        2 => (peers(), tags(), 0..40u8).prop_map(|(s, t, n)| Operation::Flood(s, t, n)),
        12 => patterns().prop_map(Operation::Receive),
        8 => patterns().prop_map(Operation::Post),
        4 => patterns().prop_map(Operation::Peek),
        4 => index().prop_map(Operation::Change),
        6 => index().prop_map(Operation::Cancel),
        1 => peers().prop_map(Operation::CancelFrom),
        1 => (peers(), 1..4u32).prop_map(|(s, m)| Operation::Retain(s, m)),
        1 => Just(Operation::Drain),
    ]
}

proptest! {
    #[test]
    fn agrees_with_the_model(operations in prop::collection::vec(operations(), 0..400)) {
        let mut pair = Pair::new();
        for operation in operations {
            pair.apply(operation);
        }
    }
}

#[test]
fn shows_and_reads_well() {
    let exact = Match::any().from(PeerId(3)).tag(7);
    assert_eq!(exact.to_string(), "from peer 3, tag 7");
    assert_eq!(Match::default().to_string(), "from any peer, any tag");
    let masked = Match::any().tag_mask(0x1234, 0xff00);
    assert_eq!(
        masked.to_string(),
        "from any peer, tag 0x1200 under mask 0xff00"
    );
    assert!(masked.matches(PeerId(9), 0xff_12_ff));
    assert!(!masked.matches(PeerId(9), 0x13_00));
    assert!(exact.matches(PeerId(3), 7) && !exact.matches(PeerId(4), 7));
}

#[test]
fn the_receive_posted_first_wins_exact_or_not() {
    for backlog in [0, 100] {
        let mut matcher = Matcher::<(), _>::new(SEED);
        let exact = Match::any().from(PeerId(1)).tag(7);
        for _ in 0..backlog {
            matcher.post(Match::any().from(PeerId(2)), "other");
        }
        matcher.post(Match::any().tag_mask(1, 1), "odd");
        matcher.post(exact, "exact");
        matcher.post(Match::any(), "any");
        matcher.post(exact, "late");
        let mut arrive = || matcher.arrive(PeerId(1), 7);
        assert_eq!(
            [arrive(), arrive(), arrive(), arrive(), arrive()],
            [Some("odd"), Some("exact"), Some("any"), Some("late"), None]
        );
    }
}

/// Large, and empty again: the memory is given back, and old keys stay stale.
#[test]
fn gives_back_the_memory_of_a_backlog() {
    let mut matcher = Matcher::new(SEED);
    let peer = PeerId(1);
    let kept: Vec<_> = (0..10_000).map(|tag| matcher.keep(peer, tag, ())).collect();
    let posted: Vec<_> = (0..10_000)
        .map(|tag| matcher.post(Match::any().from(peer).tag(tag), ()))
        .collect();
    assert!(matcher.take(&Match::any().tag(9_999)).is_some());
    assert!(matcher.take(&Match::any().from(peer).tag(9_998)).is_some());
    assert!(matcher.arrive(peer, 9_999).is_some());
    matcher.retain_arrived(peer, |_| false);
    matcher.cancel_from(peer, drop);
    assert_eq!((matcher.arrived.slots(), matcher.posted.slots()), (0, 0));
    for _ in 0..100 {
        matcher.keep(peer, 1, ());
        matcher.post(Match::any(), ());
    }
    assert!(kept.iter().all(|&key| matcher.get_mut(key).is_none()));
    assert!(posted.iter().all(|&key| matcher.cancel(key).is_none()));
    assert_eq!(matcher.take(&Match::any().tag(2)), None);
    assert_eq!(matcher.arrive(peer, 2), Some(()));
}

/// Slots are used again: a queue never holds more of them than ever waited at once.
#[test]
fn reuses_slots() {
    let mut matcher = Matcher::<_, ()>::new(SEED);
    for tag in 0..1000 {
        matcher.keep(PeerId(1), tag, ());
        matcher.keep(PeerId(2), tag, ());
        matcher.take(&Match::any().from(PeerId(1)));
        matcher.take(&Match::any());
    }
    assert_eq!(matcher.arrived.slots(), 2);
}

/// The module's promise: at most 56 bytes beside the payload with an index in use.
#[test]
fn waiting_messages_are_small() {
    let mut matcher = Matcher::<Box<u64>, ()>::new(SEED);
    for tag in 0..100_000 {
        matcher.keep(PeerId(1), tag, Box::new(tag));
    }
    let payload = 100_000 * size_of::<Box<u64>>();
    assert_eq!(matcher.arrived.bytes() - payload, 32 * 100_000);
    matcher.peek(&Match::any().from(PeerId(1)).tag(99_999));
    let bytes = matcher.arrived.bytes() + matcher.by_pair.bytes() - payload;
    assert!(bytes <= 56 * 100_000, "{bytes} bytes");
    assert_eq!(matcher.by_source.bytes() + matcher.by_tag.bytes(), 0);
}

/// Tags in an order that has nothing to do with that of their coming.
fn shuffled(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |i| (i * 7_919 + count / 2) % count)
}

/// One of the patterns whose look-up must not depend on how many wait.
fn exact_patterns(peer: u64, tag: u64) -> [Match; 3] {
    let peer = PeerId(peer as u32);
    let any = Match::any();
    [any.from(peer).tag(tag), any.from(peer), any.tag(tag)]
}

/// Steps for each of `count` messages, all waiting, then taken by patterns of one kind in a shuffled
/// order; the first is apart, it builds the index.
fn steps_to_take(count: u64, kind: usize) -> (u64, u64, u64) {
    let mut matcher = Matcher::<_, ()>::new(SEED);
    for i in 0..count {
        matcher.keep(PeerId(i as u32), i, i);
    }
    summary(shuffled(count).map(|i| {
        let pattern = exact_patterns(i, i)[kind];
        steps::during(|| assert_eq!(matcher.take(&pattern).unwrap().2, i))
    }))
}

/// As [`steps_to_take`] for posted receives, by arriving messages.
fn steps_to_arrive(count: u64, kind: usize) -> (u64, u64, u64) {
    let mut matcher = Matcher::<(), _>::new(SEED);
    for i in 0..count {
        matcher.post(exact_patterns(i, i)[kind], i);
    }
    summary(
        shuffled(count)
            .map(|i| steps::during(|| assert_eq!(matcher.arrive(PeerId(i as u32), i), Some(i)))),
    )
}

/// The first, the mean of the others, and the most of the others.
fn summary(mut steps: impl Iterator<Item = u64>) -> (u64, u64, u64) {
    let first = steps.next().unwrap();
    let others: Vec<_> = steps.collect();
    let mean = others.iter().sum::<u64>() / others.len() as u64;
    (first, mean, others.into_iter().max().unwrap())
}

#[test]
fn exact_matching_costs_the_same_with_many_waiting() {
    for kind in 0..3 {
        for steps in [steps_to_take, steps_to_arrive] {
            let (few_first, few_mean, few_most) = steps(10, kind);
            assert!(few_first <= 10 && few_mean <= 10 && few_most <= 10);
            let (first, mean, most) = steps(100_000, kind);
            assert!(first <= 1_200_000, "{first} steps to index them");
            assert!(mean <= 20, "{mean} steps on average");
            assert!(most <= 300, "{most} steps at worst");
        }
    }
}

/// A backlog that all has one key, the case in which a plain hash table degenerates, and many misses.
#[test]
fn a_backlog_of_one_key_does_not_slow_others_down() {
    let mut matcher = Matcher::<_, ()>::new(SEED);
    for i in 0..100_000 {
        matcher.keep(PeerId(1), 1, i);
    }
    let wanted = Match::any().from(PeerId(2)).tag(2);
    assert_eq!(matcher.take(&wanted), None);
    for i in 0..1000 {
        let steps = steps::during(|| {
            assert_eq!(matcher.peek(&wanted), None);
            matcher.keep(PeerId(2), 2, i);
            assert_eq!(matcher.take(&wanted), Some((PeerId(2), 2, i)));
            assert!(matcher.take(&Match::any()).is_some());
        });
        assert!(steps <= 40, "{steps} steps");
    }
}

/// Messages that are taken in the order of their coming are never indexed.
#[test]
fn the_usual_case_stays_out_of_the_index() {
    let mut matcher = Matcher::<_, ()>::new(SEED);
    for round in 0..100 {
        for tag in 0..8 {
            matcher.keep(PeerId(1), tag, round);
        }
        let steps = steps::during(|| {
            for tag in (0..8).rev() {
                assert!(matcher.take(&Match::any().tag(tag)).is_some());
            }
        });
        assert_eq!(steps, 36);
    }
}
