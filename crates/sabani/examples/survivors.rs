//! A sum that goes on when ranks die: those named as arguments, in the middle of it, and whichever you
//! kill. `sabani run -n 4 --on-failure continue -- target/debug/examples/survivors 1 2`.

mod usage;
use std::env;
use std::process;
use std::time::Duration;

use sabani::Comm;
use sabani::comm::{Error, Sum};

fn main() -> Result<(), Error> {
    usage::heed(include_str!("survivors.rs"), "[RANK]...");
    let dies: Vec<usize> = env::args()
        .skip(1)
        .filter_map(|rank| rank.parse().ok())
        .collect();
    // Where the launcher does not tell who has died, silence does, after 10 s if nothing else is said.
    let world = Comm::init_with(|builder| builder.dead_after(Duration::from_secs(3)))?;
    // Nobody leaves this before all have started: who dies while others start ends their start. Should
    // it fail, the sum will as well.
    let _ = world.barrier();
    let mut comm = world.clone();
    loop {
        if dies.contains(&world.rank()) {
            process::abort();
        }
        let mut sum = [world.rank() as u64];
        let worked = comm.allreduce_in_place(&mut sum, Sum);
        // Some may have the sum where others have an error: all go on with it, or none.
        let all_worked = comm.agree(u64::from(worked.is_ok()))?.bits == 1;
        if all_worked {
            let (rank, size) = (world.rank(), comm.size());
            println!("rank {rank} is one of {size} left, whose sum is {}", sum[0]);
            return Ok(());
        }
        if comm.rank() == 0 {
            comm.failed()
                .values()
                .for_each(|why| eprintln!("a rank {why}"));
        }
        comm = comm.shrink()?;
    }
}
