//! Situations to try algorithms in: counts, roots, orders, parameters.

use sabani_collective::{Collective, Context, Counts, Hosts, Mode, Parameters};

/// How much to try.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// What finds most mistakes in seconds.
    Quick,
    /// Everything.
    Whole,
}

/// Calls `each` with the contexts of all ranks, for each situation worth trying.
pub fn each(collective: Collective, size: usize, depth: Depth, each: &mut dyn FnMut(&[Context])) {
    let hosts = hosts(size);
    let reduces = matches!(
        collective,
        Collective::Reduce
            | Collective::Allreduce
            | Collective::ReduceScatter
            | Collective::Scan
            | Collective::Exscan
    );
    with_counts(collective, size, depth, &mut |counts| {
        for root in roots(collective, size, depth) {
            for (place, parameters) in parameters(depth).into_iter().enumerate() {
                for commutative in [true, false] {
                    for in_place in [false, true] {
                        if (!reduces && !commutative) || (in_place && !may_be_in_place(collective))
                        {
                            continue;
                        }
                        let context = |rank: usize| Context {
                            root,
                            commutative,
                            in_place,
                            parameters,
                            element_bytes: 8,
                            hosts: hosts.get(place % (hosts.len() + 1)),
                            ..Context::new(size, counts.of(rank, root))
                        };
                        each(&(0..size).map(context).collect::<Vec<_>>());
                    }
                }
            }
        }
    });
}

fn may_be_in_place(collective: Collective) -> bool {
    !matches!(
        collective,
        Collective::Barrier | Collective::Bcast | Collective::ReduceScatter | Collective::Alltoall
    )
}

fn roots(collective: Collective, size: usize, depth: Depth) -> Vec<usize> {
    let has_root = matches!(
        collective,
        Collective::Bcast | Collective::Reduce | Collective::Gather | Collective::Scatter
    );
    let mut roots = match depth {
        _ if !has_root => vec![0],
        Depth::Whole if size <= 12 => (0..size).collect(),
        Depth::Whole => vec![0, 1, size / 2, size - 1],
        Depth::Quick => vec![0, size / 2, size - 1],
    };
    roots.dedup();
    roots
}

fn parameters(depth: Depth) -> Vec<Parameters> {
    let of = |radix, elements: usize, window| Parameters {
        radix,
        segment_bytes: elements * 8,
        window,
        mode: Mode::Eager,
    };
    let all = [
        of(3, 2, 2),
        of(2, 1, 1),
        of(4, 5, 3),
        of(usize::MAX, usize::MAX / 8, usize::MAX),
        of(8, 1 << 20, 64),
        of(5, 3, 4),
    ];
    match depth {
        Depth::Quick => all[..4].to_vec(),
        Depth::Whole => all.to_vec(),
    }
}

/// Everyone alone or nobody, in order, by turns.
fn hosts(size: usize) -> Vec<Hosts> {
    let by = |host: &dyn Fn(usize) -> usize| Hosts::new(&(0..size).map(host).collect::<Vec<_>>());
    vec![
        by(&|rank| rank / 4),
        by(&|rank| rank % 3),
        by(&|_| 0),
        by(&|rank| rank.isqrt()),
    ]
}

/// The counts of each rank.
pub enum AllCounts<'a> {
    Same(Counts<'a>),
    /// Known to the root only.
    AtRoot(&'a [usize]),
    /// For each rank its offsets.
    Pairs(&'a [(Vec<usize>, Vec<usize>)]),
}

impl<'a> AllCounts<'a> {
    fn of(&self, rank: usize, root: usize) -> Counts<'a> {
        match self {
            AllCounts::Same(counts) => *counts,
            AllCounts::AtRoot(offsets) if rank == root => Counts::Offsets(offsets),
            AllCounts::AtRoot(offsets) => Counts::Own(offsets[rank + 1] - offsets[rank]),
            AllCounts::Pairs(offsets) => {
                let (outgoing, incoming) = &offsets[rank];
                Counts::Pairs { outgoing, incoming }
            }
        }
    }
}

fn with_counts(collective: Collective, size: usize, depth: Depth, each: &mut dyn FnMut(AllCounts)) {
    let whole = depth == Depth::Whole;
    match collective {
        Collective::Barrier => return each(AllCounts::Same(Counts::Vector(0))),
        Collective::Bcast
        | Collective::Reduce
        | Collective::Allreduce
        | Collective::Scan
        | Collective::Exscan => {
            let lengths = [7, 2 * size + 1, 0, 1, size - 1, 3 * size];
            for len in &lengths[..if whole { 6 } else { 2 }] {
                each(AllCounts::Same(Counts::Vector(*len)));
            }
            return;
        }
        _ => {}
    }
    for len in [2, 1, 0].into_iter().take(if whole { 3 } else { 1 }) {
        each(AllCounts::Same(Counts::Each(len)));
    }
    if collective == Collective::Alltoall {
        let count = |from: usize, to: usize| (3 * from + 5 * to) % 4;
        let offsets = |rank: usize| {
            let outgoing = offsets(size, |peer| count(rank, peer));
            (outgoing, offsets(size, |peer| count(peer, rank)))
        };
        let pairs: Vec<_> = (0..size).map(offsets).collect();
        each(AllCounts::Pairs(&pairs));
        return;
    }
    let uneven = offsets(size, |rank| (5 * rank + 2) % 4);
    each(AllCounts::Same(Counts::Offsets(&uneven)));
    if matches!(collective, Collective::Gather | Collective::Scatter) {
        each(AllCounts::AtRoot(&uneven));
    }
}

fn offsets(size: usize, count: impl Fn(usize) -> usize) -> Vec<usize> {
    let ends = (0..size).scan(0, |end, index| {
        *end += count(index);
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}
