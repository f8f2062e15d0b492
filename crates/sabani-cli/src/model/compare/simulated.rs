//! A collective on a drawn network, in virtual time.

use anyhow::{Context, Result};
use sabani_collective::execute::{Exchange, Fingerprint, Memory};
use sabani_collective::{Choice, Collective, Side};
use sabani_model::Task;
use sabani_sim::{MS, Network, SEC};

use super::WARM;
use crate::model::drawn::{Drawn, Job};

/// A run that takes longer has failed.
const PATIENCE_NS: u64 = 600 * SEC;
/// What is left under way when a run ends has ended by then.
const REST_NS: u64 = 5 * MS;
/// The first run's messages are not short, so that receivers learn what their links carry.
const WARM_BYTES: usize = 64 << 10;

/// What runs of an algorithm take, one after the other over connections that are open, in nanoseconds.
///
/// # Errors
/// If one does not come to its end.
pub fn run(drawn: &Drawn, task: &Task, choice: &Choice, seed: u64, runs: u32) -> Result<Vec<f64>> {
    let mut net = drawn.build(seed, Job::Runs);
    let long = task.with_bytes(task.bytes.max(WARM_BYTES));
    once(&mut net, &long, choice, 0)?;
    let mut sequence = 1;
    let mut next = |net: &mut Network| {
        sequence += 1;
        once(net, task, choice, sequence)
    };
    let warm_ns = net.now_ns() + WARM.as_nanos() as u64;
    while net.now_ns() < warm_ns {
        next(&mut net)?;
    }
    (0..runs).map(|_| next(&mut net)).collect()
}

/// Runs an algorithm, and lets what it has left under way come to its end.
fn once(net: &mut Network, task: &Task, choice: &Choice, sequence: u32) -> Result<f64> {
    let cx = task.context(choice.parameters);
    let fingerprint = Fingerprint {
        epoch: 0,
        sequence,
        collective: task.collective,
        algorithm: choice.algorithm.id(),
        operation: 0,
        element_type: 0,
        size: task.bytes as u64,
        root: 0,
        parameters: Fingerprint::of_parameters(&choice.parameters),
    };
    let schedule = choice.algorithm.schedule;
    let mut buffers: Vec<_> = (0..task.ranks)
        .map(|rank| {
            let [given, got] = vectors(task.collective, rank, task.ranks);
            let of = |blocks| vec![0; task.bytes * blocks];
            (of(given), of(got), vec![0; schedule.scratch(&cx, rank)])
        })
        .collect();
    let exchange = |(rank, (input, output, scratch))| {
        let (input, output, scratch): (&mut Vec<u8>, _, _) = (input, output, scratch);
        let memory = Memory {
            input,
            output,
            scratch,
            element_bytes: 1,
        };
        Exchange::new(schedule, cx, rank, fingerprint, memory, &sum)
    };
    let split = buffers
        .iter_mut()
        .map(|(input, output, scratch)| (input, &mut output[..], &mut scratch[..]));
    let mut ranks: Vec<_> = split.enumerate().map(exchange).collect();
    let began_ns = net.now_ns();
    let ends = net.run_collective(&mut ranks, PATIENCE_NS);
    let ends = ends.with_context(|| format!("{choice}, {} bytes", task.bytes))?;
    net.run_for(REST_NS);
    let end_ns = ends.into_iter().max().unwrap_or(began_ns);
    Ok((end_ns - began_ns) as f64)
}

/// How many blocks a rank gives, and how many it gets. Rank 0 is the root.
fn vectors(collective: Collective, rank: usize, ranks: usize) -> [usize; 2] {
    let at_root = if rank == 0 { ranks } else { 0 };
    match collective {
        Collective::Gather => [1, at_root],
        Collective::Scatter => [at_root, 1],
        Collective::Allgather => [1, ranks],
        Collective::ReduceScatter => [ranks, 1],
        Collective::Alltoall => [ranks, ranks],
        _ => [1, 1],
    }
}

/// The bytes of all hosts' vectors.
pub fn needed(collective: Collective, ranks: usize, bytes: usize) -> u64 {
    let of_all = (0..ranks).flat_map(|rank| vectors(collective, rank, ranks));
    bytes as u64 * of_all.sum::<usize>() as u64
}

fn sum(from: &[u8], into: &mut [u8], _: Side) {
    let pairs = into.iter_mut().zip(from);
    pairs.for_each(|(into, from)| *into = into.wrapping_add(*from));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_the_vectors_that_their_part_takes() {
        let blocks = |collective| needed(collective, 8, 1);
        assert_eq!(blocks(Collective::Bcast), 16);
        for collective in [Collective::Gather, Collective::Scatter] {
            assert_eq!(blocks(collective), 8 + 8, "others than the root have one");
        }
        for collective in [Collective::Allgather, Collective::ReduceScatter] {
            assert_eq!(blocks(collective), 8 * (1 + 8));
        }
        assert_eq!(blocks(Collective::Alltoall), 8 * 16);
        assert_eq!(needed(Collective::Gather, 256, 256 << 10), 128 << 20);
    }
}
