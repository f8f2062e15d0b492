//! A pipeline of a gigabyte over a thousand ranks takes a rank 64 KiB at most.

use cap::Cap;
use std::alloc::System;

use sabani_collective::execute::{Command, Executor};
use sabani_collective::{Collective, Context, Counts, Mode, Parameters};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const RANKS: usize = 1024;
const BYTES: usize = 1 << 30;
const MOST: usize = 64 << 10;

/// Runs the rank in the chain's middle, whose peers are ahead of it as far as they can be; returns the
/// most memory it took, and how many messages it had.
fn run(collective: Collective, parameters: Parameters) -> (usize, usize) {
    let algorithm = collective.algorithm("chain").expect("it is there");
    let cx = Context {
        parameters,
        element_bytes: 8,
        ..Context::new(RANKS, Counts::Vector(BYTES / 8))
    };
    let rank = RANKS / 2;
    let scratch = algorithm.schedule.scratch(&cx, rank) * cx.element_bytes;
    let before = ALLOCATOR.allocated();
    let mut executor = Executor::new(algorithm.schedule, cx, rank);
    let (mut most, mut messages) = (0, 0);
    let mut receives = Vec::with_capacity(Executor::WINDOW);
    let reserved = receives.capacity() * size_of::<sabani_collective::execute::StepId>();
    while !executor.is_complete() {
        while let Some((step, command)) = executor.poll() {
            match command {
                Command::Receive { message, .. } => {
                    receives.push(step);
                    // The next rank is as far, and waits for this one.
                    for peer in [rank - 1, rank + 1] {
                        let _ = executor.peer_is_ready(peer, message);
                    }
                }
                Command::Send { .. } => {
                    messages += 1;
                    executor.complete(step);
                }
                _ => executor.complete(step),
            }
        }
        // The newest first: the window stays open as long as it can.
        if let Some(step) = receives.pop() {
            executor.complete(step);
        }
        let state = ALLOCATOR.allocated() - before - reserved;
        most = most.max(state + size_of::<Executor>() + scratch);
    }
    (most, messages)
}

#[test]
fn a_pipeline_of_a_gigabyte_takes_64_kib() {
    for mode in [Mode::Eager, Mode::Rendezvous] {
        let wide = Parameters {
            segment_bytes: 8 << 10,
            window: 4096,
            mode,
            ..Parameters::default()
        };
        let (most, messages) = run(Collective::Bcast, wide);
        println!("bcast, {mode:?}: {most} bytes");
        assert!(
            most <= MOST && messages == BYTES / wide.segment_bytes,
            "{most}"
        );
        let narrow = Parameters { window: 4, ..wide };
        let (most, messages) = run(Collective::Reduce, narrow);
        println!("reduce, {mode:?}: {most} bytes");
        assert!(
            most <= MOST && messages == BYTES / wide.segment_bytes,
            "{most}"
        );
    }
}
