//! The matcher against a naive model, and its cost in entries visited.

use proptest::prelude::*;

use super::*;

const SEED: u64 = 0x5aba_0001;

#[derive(Clone)]
struct Waiting {
    key: ArrivedKey,
    source: PeerId,
    tag: u64,
    payload: u32,
    is_coming: bool,
    /// Since when it can be had, in comparison with others.
    ready: Option<u32>,
}

impl<A, R> Matcher<A, R> {
    fn take_first(&mut self, pattern: &Match) -> Option<(PeerId, u64, A)> {
        let key = self.first(pattern)?;
        let (_, source, tag, payload) = self.take(key)?;
        Some((source, tag, payload))
    }

    fn peek(&mut self, pattern: &Match) -> Option<(PeerId, u64, &A)> {
        let key = self.first(pattern)?;
        let (_, source, tag, payload) = self.get(key)?;
        Some((source, tag, payload))
    }
}

/// The same rules, by scanning vectors.
#[derive(Default)]
struct Model {
    /// In the order of coming.
    arrived: Vec<Waiting>,
    posted: Vec<(PostedKey, Match, u32)>,
    now: u32,
}

impl Model {
    /// Whatever can be had, can be from now on.
    fn advance(&mut self) {
        for at in 0..self.arrived.len() {
            let (before, rest) = self.arrived.split_at_mut(at);
            let entry = &mut rest[0];
            let mut own = before.iter().filter(|other| other.source == entry.source);
            let free = own.all(|other| other.ready.is_some());
            if entry.ready.is_none() && !entry.is_coming && free {
                self.now += 1;
                entry.ready = Some(self.now);
            }
        }
    }

    fn arrive(&mut self, source: PeerId, tag: u64) -> Option<u32> {
        let matches = |(_, m, _): &(_, Match, _)| m.matches(source, tag);
        let at = self.posted.iter().position(matches)?;
        Some(self.posted.remove(at).2)
    }

    fn find(&self, pattern: &Match) -> Option<usize> {
        let matching = self.arrived.iter().enumerate();
        let matching = matching.filter(|(_, entry)| pattern.matches(entry.source, entry.tag));
        let first = matching.min_by_key(|(_, entry)| entry.ready.unwrap_or(u32::MAX));
        let (first, entry) = first?;
        let is_coming = entry.ready.is_none() && entry.is_coming;
        let behind = (is_coming && pattern.source().is_none()).then(|| self.behind(pattern));
        Some(behind.flatten().unwrap_or(first))
    }

    /// One of the first that can't be had, which is here, and has none of its sender before it that matches.
    fn behind(&self, pattern: &Match) -> Option<usize> {
        let waiting = self.arrived.iter().enumerate();
        let mut waiting = waiting
            .filter(|(_, entry)| entry.ready.is_none())
            .take(LOOKED_BEHIND);
        let found = waiting.find(|&(at, entry)| {
            let matches = |other: &Waiting| pattern.matches(other.source, other.tag);
            let is_own = |other: &&Waiting| other.source == entry.source && matches(other);
            let is_first = !self.arrived[..at].iter().any(|other| is_own(&other));
            !entry.is_coming && matches(entry) && is_first
        });
        found.map(|(at, _)| at)
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Arrive(PeerId, u64),
    /// Keeps without asking for a posted receive, many times.
    Flood(PeerId, u64, u8),
    /// Keeps one that is still coming.
    Announce(PeerId, u64),
    /// One that was not coming is.
    Come(prop::sample::Index),
    /// One that was coming is here.
    Land(prop::sample::Index),
    /// One is withdrawn.
    Remove(prop::sample::Index),
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

    fn keep(&mut self, source: PeerId, tag: u64, is_coming: bool) {
        self.next += 1;
        let key = self.matcher.keep(source, tag, self.next, is_coming);
        self.arrived_keys.push(key);
        self.model.arrived.push(Waiting {
            key,
            source,
            tag,
            payload: self.next,
            is_coming,
            ready: None,
        });
        self.model.advance();
    }

    fn post(&mut self, pattern: Match) {
        self.next += 1;
        let key = self.matcher.post(pattern, self.next);
        self.posted_keys.push(key);
        self.model.posted.push((key, pattern, self.next));
    }

    fn take(&mut self, pattern: &Match) -> bool {
        let expected = self.model.find(pattern).map(|at| {
            let Waiting {
                source,
                tag,
                payload,
                ..
            } = self.model.arrived.remove(at);
            (source, tag, payload)
        });
        self.model.advance();
        assert_eq!(self.matcher.take_first(pattern), expected);
        expected.is_some()
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Arrive(source, tag) => {
                let expected = self.model.arrive(source, tag);
                assert_eq!(self.matcher.arrive(source, tag), expected);
                if expected.is_none() {
                    self.keep(source, tag, false);
                }
            }
            Operation::Flood(source, tag, count) => {
                (0..count).for_each(|_| self.keep(source, tag, false));
            }
            Operation::Announce(source, tag) => self.keep(source, tag, true),
            Operation::Come(at) => self.come(at),
            Operation::Land(at) => self.land(at),
            Operation::Remove(at) => self.remove(at),
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
        self.model.advance();
        assert_eq!(self.matcher.arrived_len(), self.model.arrived.len());
        assert_eq!(self.matcher.posted_len(), self.model.posted.len());
    }

    fn peek(&mut self, pattern: &Match) {
        let found = self.matcher.peek(pattern);
        let found = found.map(|(source, tag, payload)| (source, tag, *payload));
        let expected = self.model.find(pattern).map(|at| {
            let entry = &self.model.arrived[at];
            (entry.source, entry.tag, entry.payload)
        });
        assert_eq!(found, expected);
        let first = self.model.find(pattern).map(|at| &self.model.arrived[at]);
        let is_here = first.is_some_and(|first| first.ready.is_some() || !first.is_coming);
        assert_eq!(self.matcher.can_be_had(pattern), is_here);
        self.first_of_others(pattern);
    }

    fn first_of_others(&mut self, pattern: &Match) {
        let but = [PeerId(1), PeerId(3)];
        let found = self.matcher.first_of_others(pattern, &but);
        let ready = self
            .model
            .arrived
            .iter()
            .filter(|entry| entry.ready.is_some());
        let others = ready.filter(|entry| !but.contains(&entry.source));
        let expected = others
            .filter(|entry| pattern.matches(entry.source, entry.tag))
            .min_by_key(|entry| entry.ready);
        assert_eq!(found, expected.map(|entry| entry.key));
    }

    fn arrived_at(&self, key: ArrivedKey) -> Option<usize> {
        self.model.arrived.iter().position(|entry| entry.key == key)
    }

    /// One of the keys ever given, and where the model has it.
    fn any_arrived(&self, at: prop::sample::Index) -> Option<(ArrivedKey, Option<usize>)> {
        let keys = &self.arrived_keys;
        let key = (!keys.is_empty()).then(|| *at.get(keys))?;
        Some((key, self.arrived_at(key)))
    }

    fn come(&mut self, at: prop::sample::Index) {
        if let Some((key, at)) = self.any_arrived(at) {
            self.matcher.comes(key);
            let entry = at.map(|at| &mut self.model.arrived[at]);
            if let Some(entry) = entry.filter(|entry| entry.ready.is_none()) {
                entry.is_coming = true;
            }
        }
    }

    fn land(&mut self, at: prop::sample::Index) {
        if let Some((key, at)) = self.any_arrived(at) {
            self.matcher.has_come(key);
            if let Some(at) = at {
                self.model.arrived[at].is_coming = false;
            }
        }
    }

    fn remove(&mut self, at: prop::sample::Index) {
        if let Some((key, at)) = self.any_arrived(at) {
            let expected = at.map(|at| self.model.arrived.remove(at).payload);
            let taken = self.matcher.take(key).map(|(_, _, _, payload)| payload);
            assert_eq!(taken, expected);
        }
    }

    fn change(&mut self, at: prop::sample::Index) {
        let Some((key, at)) = self.any_arrived(at) else {
            return;
        };
        let expected = at.map(|at| &mut self.model.arrived[at].payload);
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
            .retain(|entry| entry.source != source || !entry.payload.is_multiple_of(modulus));
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
        8 => (peers(), tags()).prop_map(|(s, t)| Operation::Announce(s, t)),
        4 => index().prop_map(Operation::Come),
        8 => index().prop_map(Operation::Land),
        2 => index().prop_map(Operation::Remove),
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
    let kept: Vec<_> = (0..10_000)
        .map(|tag| matcher.keep(peer, tag, (), false))
        .collect();
    let posted: Vec<_> = (0..10_000)
        .map(|tag| matcher.post(Match::any().from(peer).tag(tag), ()))
        .collect();
    assert!(matcher.take_first(&Match::any().tag(9_999)).is_some());
    assert!(
        matcher
            .take_first(&Match::any().from(peer).tag(9_998))
            .is_some()
    );
    assert!(matcher.arrive(peer, 9_999).is_some());
    matcher.retain_arrived(peer, |_| false);
    matcher.cancel_from(peer, drop);
    assert_eq!((matcher.messages.slots(), matcher.receives.slots()), (0, 0));
    for _ in 0..100 {
        matcher.keep(peer, 1, (), false);
        matcher.post(Match::any(), ());
    }
    assert!(kept.iter().all(|&key| matcher.get_mut(key).is_none()));
    assert!(posted.iter().all(|&key| matcher.cancel(key).is_none()));
    assert_eq!(matcher.take_first(&Match::any().tag(2)), None);
    assert_eq!(matcher.arrive(peer, 2), Some(()));
}

/// Slots are used again: a queue never holds more of them than ever waited at once.
#[test]
fn reuses_slots() {
    let mut matcher = Matcher::<_, ()>::new(SEED);
    for tag in 0..1000 {
        matcher.keep(PeerId(1), tag, (), false);
        matcher.keep(PeerId(2), tag, (), false);
        matcher.take_first(&Match::any().from(PeerId(1)));
        matcher.take_first(&Match::any());
    }
    assert_eq!(matcher.messages.slots(), 2);
}

/// The module's promise: at most 56 bytes beside the payload with an index in use.
#[test]
fn waiting_messages_are_small() {
    let mut matcher = Matcher::<Box<u64>, ()>::new(SEED);
    for tag in 0..100_000 {
        matcher.keep(PeerId(1), tag, Box::new(tag), false);
    }
    let payload = 100_000 * size_of::<Box<u64>>();
    assert_eq!(matcher.messages.bytes() - payload, 32 * 100_000);
    matcher.peek(&Match::any().from(PeerId(1)).tag(99_999));
    let [by_pair, by_source, by_tag] = matcher.ready.bytes();
    let bytes = matcher.messages.bytes() + by_pair - payload;
    assert!(bytes <= 56 * 100_000, "{bytes} bytes");
    assert_eq!(by_source + by_tag, 0);
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
        matcher.keep(PeerId(i as u32), i, i, false);
    }
    summary(shuffled(count).map(|i| {
        let pattern = exact_patterns(i, i)[kind];
        steps::during(|| assert_eq!(matcher.take_first(&pattern).unwrap().2, i))
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
        matcher.keep(PeerId(1), 1, i, false);
    }
    let wanted = Match::any().from(PeerId(2)).tag(2);
    assert_eq!(matcher.take_first(&wanted), None);
    for i in 0..1000 {
        let steps = steps::during(|| {
            assert_eq!(matcher.peek(&wanted), None);
            matcher.keep(PeerId(2), 2, i, false);
            assert_eq!(matcher.take_first(&wanted), Some((PeerId(2), 2, i)));
            assert!(matcher.take_first(&Match::any()).is_some());
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
            matcher.keep(PeerId(1), tag, round, false);
        }
        let steps = steps::during(|| {
            for tag in (0..8).rev() {
                assert!(matcher.take_first(&Match::any().tag(tag)).is_some());
            }
        });
        assert_eq!(steps, 36);
    }
}
