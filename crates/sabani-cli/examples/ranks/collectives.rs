//! Every collective, checked against what it should bring.

use sabani::Comm;
use sabani::comm::{Commutative, Error, InOrder, Max, Min, Sum};

/// Lengths that lead to different algorithms, and some that can't be divided.
const LENGTHS: [usize; 5] = [0, 1, 7, 3_000, 100_001];

/// Runs them all, and says so.
pub fn all(comm: &Comm) -> Result<(), Error> {
    work(comm)?;
    println!("all is right");
    Ok(())
}

/// Runs them all, for several lengths and roots.
pub fn work(comm: &Comm) -> Result<(), Error> {
    for len in LENGTHS {
        for root in [0, comm.size() - 1] {
            rooted(comm, root, len)?;
        }
        reductions(comm, len)?;
        in_order(comm, len)?;
        in_place(comm, len)?;
        blocks(comm, len / comm.size())?;
        uneven(comm, len / comm.size())?;
        comm.barrier()?;
    }
    Ok(())
}

/// Element `at` of a rank's vector.
fn element(rank: usize, at: usize) -> u64 {
    (rank * 1_000_003 + at) as u64
}

fn vector(rank: usize, len: usize) -> Vec<u64> {
    (0..len).map(|at| element(rank, at)).collect()
}

/// All ranks' vectors, one after the other.
fn together(size: usize, len: usize) -> Vec<u64> {
    (0..size).flat_map(|rank| vector(rank, len)).collect()
}

/// The sum of the vectors of some ranks.
fn sum(ranks: std::ops::Range<usize>, len: usize) -> Vec<u64> {
    let at = |at| ranks.clone().map(|rank| element(rank, at)).sum();
    (0..len).map(at).collect()
}

fn rooted(comm: &Comm, root: usize, len: usize) -> Result<(), Error> {
    let (rank, size) = (comm.rank(), comm.size());
    let is_root = rank == root;
    let own = vector(rank, len);

    let mut data = own.clone();
    comm.bcast(root, &mut data)?;
    assert_eq!(data, vector(root, len));

    let mut total = vec![0; if is_root { len } else { 0 }];
    comm.reduce(root, &own, &mut total, Sum)?;
    assert!(!is_root || total == sum(0..size, len));

    let mut all = vec![0; if is_root { len * size } else { 0 }];
    comm.gather(root, &own, &mut all)?;
    assert!(!is_root || all == together(size, len));

    let mut part = vec![0; len];
    comm.scatter(root, &all, &mut part)?;
    assert_eq!(part, own);
    Ok(())
}

/// The forms in which what a rank gives lies where the result goes.
fn in_place(comm: &Comm, len: usize) -> Result<(), Error> {
    let (rank, size) = (comm.rank(), comm.size());
    let mut own = vector(rank, len);
    comm.reduce_in_place(size / 2, &mut own, Sum)?;
    let expected = if rank == size / 2 {
        sum(0..size, len)
    } else {
        vector(rank, len)
    };
    assert_eq!(own, expected);

    let mut own = vector(rank, len);
    comm.scan_in_place(&mut own, Sum)?;
    assert_eq!(own, sum(0..rank + 1, len));

    let mut own = vector(rank, len);
    comm.exscan_in_place(&mut own, Sum)?;
    assert!(rank == 0 || own == sum(0..rank, len));

    let mut all = vec![0; len * size];
    all[rank * len..][..len].copy_from_slice(&vector(rank, len));
    comm.allgather_in_place(&mut all)?;
    assert_eq!(all, together(size, len));

    let is_root = rank == size - 1;
    let mut some = if is_root {
        all.clone()
    } else {
        vector(rank, len)
    };
    if is_root {
        some[..rank * len].fill(0);
    }
    comm.gather_in_place(size - 1, &mut some)?;
    assert_eq!(some, if is_root { all } else { vector(rank, len) });

    if !is_root {
        some.fill(0);
    }
    comm.scatter_in_place(size - 1, &mut some)?;
    let own = if is_root { &some[rank * len..] } else { &some };
    assert_eq!(own, vector(rank, len));
    Ok(())
}

/// Blocks of different lengths, some of them empty.
fn uneven(comm: &Comm, most: usize) -> Result<(), Error> {
    let (rank, size) = (comm.rank(), comm.size());
    let len = |rank: usize| most * (rank % 3) / 2;
    let counts: Vec<_> = (0..size).map(len).collect();
    let own = vector(rank, len(rank));
    let expected: Vec<_> = (0..size).flat_map(|rank| vector(rank, len(rank))).collect();

    let mut all = vec![0; expected.len()];
    comm.allgatherv(&own, &counts, &mut all)?;
    assert_eq!(all, expected);

    let root = size / 2;
    let mut all = vec![0; if rank == root { expected.len() } else { 0 }];
    let known = if rank == root { &counts[..] } else { &[] };
    comm.gatherv(root, &own, known, &mut all)?;
    assert!(rank != root || all == expected);
    let mut part = vec![0; own.len()];
    comm.scatterv(root, &all, known, &mut part)?;
    assert_eq!(part, own);

    let wide = vector(rank, expected.len());
    comm.reduce_scatterv(&wide, &counts, &mut part, Sum)?;
    let before: usize = counts[..rank].iter().sum();
    assert_eq!(part, sum(0..size, expected.len())[before..][..own.len()]);
    pairs(comm, most)
}

/// Each pair has a length of its own.
fn pairs(comm: &Comm, most: usize) -> Result<(), Error> {
    let (rank, size) = (comm.rank(), comm.size());
    let len = |from: usize, to: usize| most * ((from + 2 * to) % 3) / 2;
    let block = |from: usize, to: usize| vector(from * size + to, len(from, to));
    let counts: Vec<_> = (0..size).map(|to| len(rank, to)).collect();
    let result_counts: Vec<_> = (0..size).map(|from| len(from, rank)).collect();
    let sent: Vec<_> = (0..size).flat_map(|to| block(rank, to)).collect();
    let mut got = vec![0; result_counts.iter().sum()];
    comm.alltoallv(&sent, &counts, &mut got, &result_counts)?;
    let expected: Vec<_> = (0..size).flat_map(|from| block(from, rank)).collect();
    assert_eq!(got, expected);
    Ok(())
}

fn reductions(comm: &Comm, len: usize) -> Result<(), Error> {
    let (rank, size) = (comm.rank(), comm.size());
    let mut own = vector(rank, len);
    let mut result = vec![0; len];

    comm.allreduce(&own, &mut result, Sum)?;
    assert_eq!(result, sum(0..size, len));
    comm.allreduce(&own, &mut result, Max)?;
    assert_eq!(result, vector(size - 1, len));
    comm.allreduce(&own, &mut result, Commutative(|a: u64, b: u64| a.min(b)))?;
    assert_eq!(result, vector(0, len));

    comm.scan(&own, &mut result, Sum)?;
    assert_eq!(result, sum(0..rank + 1, len));
    comm.exscan(&own, &mut result, Sum)?;
    assert!(rank == 0 || result == sum(0..rank, len));

    comm.allreduce_in_place(&mut own, Min)?;
    assert_eq!(own, vector(0, len));
    Ok(())
}

/// Affine maps `x -> a x + b`, composed: what is neither commutative nor of a numeric type.
fn in_order(comm: &Comm, len: usize) -> Result<(), Error> {
    let compose = |f: [u32; 2], g: [u32; 2]| {
        let slope = f[0].wrapping_mul(g[0]);
        [slope, g[0].wrapping_mul(f[1]).wrapping_add(g[1])]
    };
    let map = |rank: usize| [rank as u32 + 2, rank as u32 * 7 + 1];
    let own = vec![map(comm.rank()); len];
    let mut result = vec![[0; 2]; len];
    comm.allreduce(&own, &mut result, InOrder(compose))?;
    let expected = (1..comm.size()).map(map).fold(map(0), compose);
    assert!(result.iter().all(|&found| found == expected));
    Ok(())
}

fn blocks(comm: &Comm, each: usize) -> Result<(), Error> {
    let (rank, size) = (comm.rank(), comm.size());
    let own = vector(rank, each);
    let mut all = vec![0; each * size];
    comm.allgather(&own, &mut all)?;
    assert_eq!(all, together(size, each));

    let wide = vector(rank, each * size);
    comm.alltoall(&wide, &mut all)?;
    let from = |other: usize| vector(other, each * size)[rank * each..][..each].to_vec();
    assert_eq!(all, (0..size).flat_map(from).collect::<Vec<_>>());
    let mut exchanged = wide.clone();
    comm.alltoall_in_place(&mut exchanged)?;
    assert_eq!(exchanged, all);

    let mut part = vec![0; each];
    comm.reduce_scatter(&wide, &mut part, Sum)?;
    assert_eq!(part, sum(0..size, each * size)[rank * each..][..each]);
    Ok(())
}

/// One rank does something else than the others, in what the argument says.
pub fn mismatch(comm: &Comm, what: &str) -> Result<(), Error> {
    let odd = comm.rank() == 0;
    let mut value = [1.0_f64; 4];
    let outcome = match what {
        "collective" if odd => comm.bcast(0, &mut value),
        "type" if odd => comm.allreduce_in_place(&mut [1_u64; 4], Sum),
        "length" if odd => comm.allreduce_in_place(&mut value[..3], Sum),
        "operation" if odd => comm.allreduce_in_place(&mut value, Max),
        "root" => comm.reduce_in_place(comm.rank().min(1), &mut value, Sum),
        "order" if odd => comm.barrier(),
        "counts" => {
            let counts: Vec<_> = (0..comm.size())
                .map(|rank| rank + usize::from(odd))
                .collect();
            let mut all = vec![0; counts.iter().sum()];
            comm.allgatherv(&vec![0; counts[comm.rank()]], &counts, &mut all)
        }
        "algorithm" => {
            comm.set_algorithms(if odd { "allreduce=ring" } else { "" })?;
            comm.allreduce_in_place(&mut value, Sum)
        }
        _ => comm.allreduce_in_place(&mut value, Sum),
    };
    let outcome = outcome.and_then(|()| comm.barrier());
    println!("{}", outcome.expect_err("they differ"));
    Ok(())
}

/// One rank ends while the others wait for all.
pub fn deserted(comm: &Comm) -> Result<(), Error> {
    if comm.rank() == 1 {
        std::process::abort();
    }
    println!("{}", comm.barrier().expect_err("one is missing"));
    Ok(())
}

/// A little of everything, for many ranks.
pub fn many(comm: &Comm) -> Result<(), Error> {
    let mut ones = [1_u32; 256];
    comm.allreduce_in_place(&mut ones, Sum)?;
    assert_eq!(ones, [comm.size() as u32; 256]);
    blocks(comm, 128)?;
    if comm.rank() == 0 {
        println!("{} ranks agree", comm.size());
    }
    Ok(())
}
