//! Every algorithm, executed with real data between ranks whose messages overtake each other.

mod data;
mod situations;

use data::{Buffers, operation};
use sabani_collective::execute::{
    Command, Exchange, Executor, Handled, Header, Kind, MessageId, StepId,
};
use sabani_collective::{
    ALGORITHMS, Algorithm, Collective, Context, Counts, Mode, Round, Schedule,
};
use situations::Depth;

/// Chance from a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }
}

struct Message {
    from: usize,
    to: usize,
    bytes: Vec<u8>,
    in_step: Option<StepId>,
}

/// An algorithm all of whose messages, however short, count as sent only when they have arrived.
struct InStep(&'static dyn Schedule);

impl Schedule for InStep {
    fn rounds(&self, cx: &Context) -> usize {
        self.0.rounds(cx)
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        self.0.round(cx, rank, k)
    }

    fn in_step_from_bytes(&self, _: &Context) -> usize {
        0
    }
}

/// Runs all ranks; any message may overtake any other. Data is received only from those it is awaited
/// from, and has arrived only then, which its sender hears some time later.
fn run(ranks: &mut [Exchange], chance: &mut Chance) {
    let mut under_way: Vec<Message> = Vec::new();
    let mut arrived: Vec<(usize, StepId)> = Vec::new();
    let mut early = 0;
    loop {
        while !arrived.is_empty() && (under_way.is_empty() || chance.below(3) == 0) {
            let (rank, step) = arrived.swap_remove(chance.below(arrived.len()));
            ranks[rank].arrived(step);
        }
        for (from, rank) in ranks.iter_mut().enumerate() {
            let mut most = chance.below(4);
            while most > 0
                && let Some(outgoing) = rank.poll()
            {
                let bytes = [&outgoing.header.encode()[..], outgoing.payload].concat();
                under_way.push(Message {
                    from,
                    to: outgoing.to,
                    bytes,
                    in_step: outgoing.in_step,
                });
                (most, early) = (most - 1, 0);
            }
        }
        if under_way.is_empty() {
            if ranks.iter().all(Exchange::is_complete) {
                return;
            }
            early += 1;
            assert!(early < 1000, "nothing goes on");
            continue;
        }
        let message = under_way.swap_remove(chance.below(under_way.len()));
        let (header, payload) = Header::decode(&message.bytes).unwrap();
        let rank = &mut ranks[message.to];
        let awaited = rank.sources().any(|source| source == message.from);
        let handled = match header.kind {
            Kind::Data if !awaited => Handled::Early,
            _ => rank.handle(message.from, &header, payload).unwrap(),
        };
        match handled {
            Handled::Taken => {
                arrived.extend(message.in_step.map(|step| (message.from, step)));
                early = 0;
            }
            Handled::Early => {
                under_way.push(message);
                early += 1;
                assert!(early < 100_000, "nothing goes on");
            }
            Handled::Later => panic!("there is no later one"),
        }
    }
}

/// Executes an algorithm in one situation, as this schedule, and compares what all ranks get.
fn execute(
    schedule: &dyn Schedule,
    algorithm: &'static Algorithm,
    contexts: &[Context],
    chance: &mut Chance,
) {
    let buffers = |rank| Buffers::new(algorithm, contexts, rank);
    let mut buffers: Vec<_> = (0..contexts.len()).map(buffers).collect();
    let operation = operation(contexts[0].commutative);
    let mut ranks = Vec::new();
    for (rank, buffers) in buffers.iter_mut().enumerate() {
        let cx = contexts[rank];
        ranks.push(buffers.enter_as(schedule, algorithm, cx, rank, 77, &operation));
    }
    run(&mut ranks, chance);
    drop(ranks);
    let wrong = buffers.iter().position(|buffers| !buffers.are_right());
    if let Some(rank) = wrong {
        panic!("{algorithm:?} at rank {rank}: {:?}", contexts[rank]);
    }
}

#[test]
fn every_algorithm_brings_the_right_data_whatever_overtakes_what() {
    let mut chance = Chance(1);
    for algorithm in ALGORITHMS {
        for size in [1, 2, 3, 6, 8, 13] {
            situations::each(algorithm.collective, size, Depth::Quick, &mut |contexts| {
                for mode in [Mode::Eager, Mode::Rendezvous] {
                    let mut contexts = contexts.to_vec();
                    contexts.iter_mut().for_each(|cx| cx.parameters.mode = mode);
                    if contexts.iter().all(|cx| algorithm.schedule.fits(cx)) {
                        execute(algorithm.schedule, algorithm, &contexts, &mut chance);
                        let in_step = InStep(algorithm.schedule);
                        execute(&in_step, algorithm, &contexts, &mut chance);
                    }
                }
            });
        }
    }
}

#[test]
fn the_next_long_message_of_a_pair_leaves_when_the_last_one_has_arrived() {
    let pairwise = Collective::Alltoall.algorithm("pairwise").unwrap();
    for (elements, is_long) in [(4095, false), (4096, true)] {
        let cx = Context {
            element_bytes: data::ELEMENT,
            ..Context::new(4, Counts::Each(elements))
        };
        let [mut here, mut there] = [0, 3].map(|rank| Buffers::new(pairwise, &[cx; 4], rank));
        let operation = operation(true);
        let mut sender = there.enter(pairwise, cx, 3, 77, &operation);
        let mut rank = here.enter(pairwise, cx, 0, 77, &operation);
        let first = rank.poll().unwrap();
        let (to, in_step) = (first.to, first.in_step);
        assert_eq!((to, in_step.is_some()), (1, is_long));
        assert_eq!(rank.poll(), None);
        let theirs = sender.poll().unwrap();
        rank.handle(3, &theirs.header, theirs.payload).unwrap();
        if let Some(step) = in_step {
            assert_eq!(rank.poll(), None);
            rank.arrived(step);
        }
        assert_eq!(rank.poll().map(|second| second.to), Some(2));
    }
}

/// A receiver's word would else stand behind what the same rank sends: an allreduce of 8 ranks around a ring took 1.3 times as long at 100
/// Mbit/s.
#[test]
fn what_can_be_received_is_asked_for_before_anything_is_sent() {
    for (collective, ahead) in [(Collective::Allreduce, 1), (Collective::Allgather, 3)] {
        let ring = collective.algorithm("ring").unwrap();
        let mut cx = Context::new(4, Counts::Each(64));
        cx.parameters.mode = Mode::Rendezvous;
        let mut rank = Executor::new(ring.schedule, cx, 1);
        for round in 0..ring.schedule.rounds(&cx) {
            // The receiver of what this rank sends has been ready for long.
            rank.peer_is_ready(2, MessageId { round, lane: 0 }).unwrap();
        }
        let (mut asked, mut sent) = (0, 0);
        while !rank.is_complete() {
            let (step, command) = rank.poll().unwrap();
            match command {
                Command::Receive { .. } => asked += 1,
                // The allgather has a place for each block, and asks for all of them at once.
                Command::Send { .. } => {
                    sent += 1;
                    assert!(asked >= ahead.max(sent), "{collective}: {asked} {sent}");
                }
                _ => {}
            }
            rank.complete(step);
        }
        assert_eq!(sent, ring.schedule.rounds(&cx));
    }
}
