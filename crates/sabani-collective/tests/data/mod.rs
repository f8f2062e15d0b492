//! Real data for collectives: what ranks give, and what they should get.

use sabani_collective::execute::{Exchange, Fingerprint, Memory, Operation};
use sabani_collective::{Algorithm, Collective, Context, Counts, Schedule, Side};

/// An element: the map x ↦ ax + b over 32-bit numbers, as bytes.
pub const ELEMENT: usize = 8;
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

pub fn operation(commutative: bool) -> impl Fn(&[u8], &mut [u8], Side) {
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

fn fingerprint(algorithm: &Algorithm, cx: &Context, sequence: u32) -> Fingerprint {
    Fingerprint {
        epoch: 3,
        sequence,
        collective: algorithm.collective,
        algorithm: algorithm.id(),
        operation: 0,
        element_type: 0,
        size: 0,
        root: cx.root as u32,
        parameters: Fingerprint::of_parameters(&cx.parameters),
    }
}

/// One rank's buffers, filled with what it gives.
pub struct Buffers {
    input: Vec<u8>,
    output: Vec<u8>,
    scratch: Vec<u8>,
    expected: Vec<Map>,
    /// What it gets has no meaning.
    nothing: bool,
}

impl Buffers {
    /// Those of `rank`.
    pub fn new(algorithm: &Algorithm, contexts: &[Context], rank: usize) -> Self {
        let (cx, collective) = (&contexts[rank], algorithm.collective);
        let (given, expected) = task(collective, contexts, rank);
        let mut input = to_bytes(given);
        let mut output = vec![0xEE; expected.len() * ELEMENT];
        let at_root = rank == cx.root;
        let (in_place, start) = match collective {
            Collective::Bcast => (at_root, 0),
            Collective::Reduce => (at_root && cx.in_place, 0),
            Collective::Gather if !at_root => (false, 0),
            Collective::Gather | Collective::Allgather => (cx.in_place, cx.offset(rank) * ELEMENT),
            Collective::Scatter => (false, 0),
            _ => (cx.in_place, 0),
        };
        if in_place {
            output[start..start + input.len()].copy_from_slice(&input);
            input.clear();
        }
        Buffers {
            input,
            output,
            scratch: vec![0xDD; algorithm.schedule.scratch(cx, rank) * ELEMENT],
            expected,
            nothing: collective == Collective::Exscan && rank == 0
                || collective == Collective::Scatter && at_root && cx.in_place,
        }
    }

    /// The rank's part in the collective.
    pub fn enter<'a>(
        &'a mut self,
        algorithm: &'static Algorithm,
        cx: Context<'a>,
        rank: usize,
        sequence: u32,
        operation: &'a Operation<'a>,
    ) -> Exchange<'a> {
        self.enter_as(algorithm.schedule, algorithm, cx, rank, sequence, operation)
    }

    /// The same, with a schedule that does what the algorithm does.
    pub fn enter_as<'a>(
        &'a mut self,
        schedule: &'a dyn Schedule,
        algorithm: &'static Algorithm,
        cx: Context<'a>,
        rank: usize,
        sequence: u32,
        operation: &'a Operation<'a>,
    ) -> Exchange<'a> {
        let memory = Memory {
            input: &self.input,
            output: &mut self.output,
            scratch: &mut self.scratch,
            element_bytes: ELEMENT,
        };
        let fingerprint = fingerprint(algorithm, &cx, sequence);
        Exchange::new(schedule, cx, rank, fingerprint, memory, operation)
    }

    /// Whether the rank has got what it should.
    pub fn are_right(&self) -> bool {
        self.nothing || from_bytes(&self.output) == self.expected
    }
}
