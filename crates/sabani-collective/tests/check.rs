//! Every algorithm does what it should, for every number of ranks up to 65.
//!
//! The quick part runs with all tests. The whole takes minutes: `cargo test --release -p
//! sabani-collective --test check -- --include-ignored`.

mod situations;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use sabani_collective::{ALGORITHMS, Algorithm, Context, check};
use situations::Depth;

/// Proves an algorithm wherever it fits; returns in how many situations that was.
fn prove(algorithm: &Algorithm, size: usize, depth: Depth) -> usize {
    let mut proven = 0;
    let each = &mut |contexts: &[Context]| {
        if contexts.iter().all(|cx| algorithm.schedule.fits(cx)) {
            let checked = check::prove(algorithm.collective, algorithm.schedule, contexts);
            if let Err(fault) = checked {
                panic!("{algorithm:?}: {fault} in {:?}", contexts[fault.rank]);
            }
            proven += 1;
        }
    };
    situations::each(algorithm.collective, size, depth, each);
    proven
}

/// Proves all algorithms, on all cores.
fn prove_all(sizes: &[usize], depth: Depth) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(algorithm) = ALGORITHMS.get(next.fetch_add(1, Ordering::Relaxed)) {
            let proven: Vec<_> = sizes
                .iter()
                .map(|size| prove(algorithm, *size, depth))
                .collect();
            let fitting = proven.iter().filter(|proven| **proven > 0).count();
            let situations = proven.iter().sum::<usize>();
            println!("{algorithm:?}: {situations} situations, {fitting} sizes");
            assert!(fitting >= 6, "{algorithm:?} fits nowhere");
        }
    };
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        (0..cores).for_each(|_| _ = scope.spawn(work));
    });
}

#[test]
fn every_algorithm_does_what_it_should() {
    let sizes: Vec<_> = (1..=17).chain([32, 33, 64]).collect();
    prove_all(&sizes, Depth::Quick);
}

#[test]
#[ignore = "minutes, for all sizes, counts, roots and parameters: cargo test --release -p sabani-collective --test check -- --ignored"]
fn every_algorithm_does_what_it_should_in_every_situation() {
    let sizes: Vec<_> = (1..=65).collect();
    prove_all(&sizes, Depth::Whole);
}
