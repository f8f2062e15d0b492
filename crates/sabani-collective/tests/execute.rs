//! Every algorithm, executed with real data between ranks whose messages overtake each other.

mod situations;

use sabani_collective::execute::{Exchange, Fingerprint, Handled, Header, Memory};
use sabani_collective::{ALGORITHMS, Algorithm, Collective, Context, Counts, Mode, Side};
use situations::Depth;

/// An element: the map x ↦ ax + b over 32-bit numbers, as bytes.
const ELEMENT: usize = 8;
type Map = (u32, u32);

/// Maps are composed, which is not commutative; or added.
fn apply(left: Map, right: Map, commutative: bool) -> Map {
    if commutative {
        return (left.0.wrapping_add(right.0), left.1.wrapping_add(right.1));
    }
    let slope = left.0.wrapping_mul(right.0);
    (slope, left.0.wrapping_mul(right.1).wrapping_add(left.1))
}

/// What `rank` gives as its element `index`.
fn given(rank: usize, index: usize) -> Map {
    let mixed =
        (rank as u32 + 1).wrapping_mul(0x9E37_79B9) ^ (index as u32).wrapping_mul(0x85EB_CA6B);
    (mixed | 1, mixed.rotate_left(13))
}

fn to_bytes(maps: impl IntoIterator<Item = Map>) -> Vec<u8> {
    let numbers = maps.into_iter().flat_map(|(a, b)| [a, b]);
    numbers.flat_map(u32::to_le_bytes).collect()
}

fn from_bytes(bytes: &[u8]) -> Vec<Map> {
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    let maps = bytes.chunks(ELEMENT);
    maps.map(|map| (number(&map[..4]), number(&map[4..])))
        .collect()
}

fn operation(commutative: bool) -> impl Fn(&[u8], &mut [u8], Side) {
    move |from, into, side| {
        let combined = from_bytes(from).into_iter().zip(from_bytes(into));
        let combined = combined.map(|(from, into)| match side {
            Side::Left => apply(from, into, commutative),
            Side::Right => apply(into, from, commutative),
        });
        let combined = to_bytes(combined);
        into.copy_from_slice(&combined);
    }
}

fn len_of(cx: &Context, rank: usize) -> usize {
    match cx.counts {
        Counts::Own(len) => len,
        _ => cx.offset(rank + 1) - cx.offset(rank),
    }
}

/// What `rank` gives, and what it should get.
fn task(collective: Collective, contexts: &[Context], rank: usize) -> (Vec<Map>, Vec<Map>) {
    let cx = &contexts[rank];
    let (size, at_root) = (cx.size, rank == cx.root);
    let all = |rank: usize| (0..cx.total()).map(move |index| given(rank, index));
    let combined = |from: usize, to: usize| {
        let sum = move |index| {
            let given = (from..to).map(|rank| given(rank, index));
            given
                .reduce(|left, right| apply(left, right, cx.commutative))
                .unwrap_or_default()
        };
        (0..cx.total()).map(sum).collect::<Vec<_>>()
    };
    let own = || {
        (0..len_of(cx, rank))
            .map(move |index| given(rank, index))
            .collect()
    };
    let gathered = || {
        (0..size)
            .flat_map(|rank| (0..len_of(cx, rank)).map(move |index| given(rank, index)))
            .collect()
    };
    match collective {
        Collective::Barrier => (Vec::new(), Vec::new()),
        Collective::Bcast if at_root => (all(rank).collect(), all(rank).collect()),
        Collective::Bcast => (Vec::new(), all(cx.root).collect()),
        Collective::Reduce if !at_root => (all(rank).collect(), Vec::new()),
        Collective::Reduce | Collective::Allreduce => (all(rank).collect(), combined(0, size)),
        Collective::Gather if !at_root => (own(), Vec::new()),
        Collective::Gather | Collective::Allgather => (own(), gathered()),
        Collective::Scatter => {
            let first = contexts[cx.root].offset(rank);
            let block = first..first + len_of(cx, rank);
            let given_here = if at_root {
                all(rank).collect()
            } else {
                Vec::new()
            };
            (
                given_here,
                block.map(|index| given(cx.root, index)).collect(),
            )
        }
        Collective::ReduceScatter => {
            let block = cx.offset(rank)..cx.offset(rank + 1);
            (all(rank).collect(), combined(0, size)[block].to_vec())
        }
        Collective::Alltoall => {
            let offsets = |rank: usize| match contexts[rank].counts {
                Counts::Pairs { outgoing, .. } => outgoing.to_vec(),
                _ => (0..=size).map(|rank| cx.offset(rank)).collect(),
            };
            let own = (0..offsets(rank)[size]).map(|index| given(rank, index));
            let from = |source: usize| {
                let offsets = offsets(source);
                (offsets[rank]..offsets[rank + 1]).map(move |index| given(source, index))
            };
            (own.collect(), (0..size).flat_map(from).collect())
        }
        Collective::Scan => (all(rank).collect(), combined(0, rank + 1)),
        Collective::Exscan => (all(rank).collect(), combined(0, rank)),
    }
}

fn fingerprint(algorithm: &Algorithm, cx: &Context) -> Fingerprint {
    Fingerprint {
        epoch: 3,
        sequence: 77,
        collective: algorithm.collective,
        algorithm: algorithm.id(),
        operation: 0,
        element_type: 0,
        size: 0,
        root: cx.root as u32,
        parameters: Fingerprint::of_parameters(&cx.parameters),
    }
}

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
}

/// Runs all ranks; any message may overtake any other.
fn run(ranks: &mut [Exchange], chance: &mut Chance) {
    let mut under_way: Vec<Message> = Vec::new();
    let mut early = 0;
    loop {
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
        match ranks[message.to]
            .handle(message.from, &header, payload)
            .unwrap()
        {
            Handled::Taken => early = 0,
            Handled::Early => {
                under_way.push(message);
                early += 1;
                assert!(early < 100_000, "nothing goes on");
            }
            Handled::Later => panic!("there is no later one"),
        }
    }
}

/// Executes an algorithm in one situation and compares what all ranks get.
fn execute(algorithm: &Algorithm, contexts: &[Context], chance: &mut Chance) {
    struct Buffers {
        input: Vec<u8>,
        output: Vec<u8>,
        scratch: Vec<u8>,
        expected: Vec<Map>,
    }
    let buffers = |(rank, cx): (usize, &Context)| {
        let (given, expected) = task(algorithm.collective, contexts, rank);
        let mut input = to_bytes(given);
        let mut output = vec![0xEE; expected.len() * ELEMENT];
        let block = if algorithm.collective == Collective::Gather
            || algorithm.collective == Collective::Allgather
        {
            cx.offset(rank) * ELEMENT
        } else {
            0
        };
        let is_root = rank == cx.root;
        let in_place = match algorithm.collective {
            Collective::Bcast => is_root,
            Collective::Reduce | Collective::Gather => is_root && cx.in_place,
            Collective::Scatter => false,
            _ => cx.in_place,
        };
        if in_place {
            output[block..block + input.len()].copy_from_slice(&input);
            input.clear();
        }
        Buffers {
            input,
            output,
            scratch: vec![0xDD; algorithm.schedule.scratch(cx, rank) * ELEMENT],
            expected,
        }
    };
    let mut buffers: Vec<Buffers> = contexts.iter().enumerate().map(buffers).collect();
    let operation = operation(contexts[0].commutative);
    let mut ranks = Vec::new();
    for (rank, buffers) in buffers.iter_mut().enumerate() {
        let memory = Memory {
            input: &buffers.input,
            output: &mut buffers.output,
            scratch: &mut buffers.scratch,
            element_bytes: ELEMENT,
        };
        let cx = contexts[rank];
        let fingerprint = fingerprint(algorithm, &cx);
        ranks.push(Exchange::new(
            algorithm.schedule,
            cx,
            rank,
            fingerprint,
            memory,
            &operation,
        ));
    }
    run(&mut ranks, chance);
    drop(ranks);
    for (rank, buffers) in buffers.iter().enumerate() {
        let cx = &contexts[rank];
        let nothing = algorithm.collective == Collective::Exscan && rank == 0
            || algorithm.collective == Collective::Scatter && rank == cx.root && cx.in_place;
        let equal = from_bytes(&buffers.output) == buffers.expected;
        assert!(nothing || equal, "{algorithm:?} at rank {rank}: {cx:?}");
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
                        execute(algorithm, &contexts, &mut chance);
                    }
                }
            });
        }
    }
}
