//! What programs should not do, and do.

use std::panic::{self, AssertUnwindSafe};

use sabani::Comm;
use sabani::comm::{Error, Sum};

use crate::Bound;

/// Ranks meet while they unwind from a panic that has to do with something else.
pub fn unwinding(world: &Comm) -> Result<(), Error> {
    struct Meets<'c>(&'c Comm);
    impl Drop for Meets<'_> {
        fn drop(&mut self) {
            self.0.barrier().expect("all come");
        }
    }
    let work = AssertUnwindSafe(|| {
        let _meets = Meets(world);
        panic::resume_unwind(Box::new("something else"));
    });
    panic::catch_unwind(work).expect_err("it unwinds");
    world.barrier()?;
    println!("all have met");
    Ok(())
}

/// Rank 1 starts work that panics, and does not look how it ends.
pub fn unseen(world: &Comm) -> Result<(), Error> {
    let bound = Bound::new();
    let started = world.start(|comm| {
        assert!(comm.rank() != 1, "it can't go on");
        comm.barrier()
    })?;
    let error = match world.rank() {
        1 => {
            drop(started);
            world.recv(0, 1, &mut [0_u8]).expect_err("it has ended")
        }
        _ => started.wait().expect_err("rank 1 does not come"),
    };
    bound.lift();
    println!("{error}");
    Ok(())
}

/// What gives access to a piece of work's buffers is leaked.
pub fn leaked(world: &Comm) -> Result<(), Error> {
    let bound = Bound::new();
    let mut sum = world.prepare([1_u64], |comm, own| comm.allreduce_in_place(own, Sum));
    std::mem::forget(sum.buffers()?);
    sum.start()?;
    assert_eq!(*sum.buffers()?, [world.size() as u64]);
    bound.lift();
    println!("all is right");
    Ok(())
}

/// Where some ranks agree, others shrink.
pub fn muddled(world: &Comm) -> Result<(), Error> {
    let bound = Bound::new();
    let (rank, parts) = (world.rank(), [world.dup()?, world.dup()?]);
    // The first one's word counts: it agrees.
    match rank {
        0 => assert_eq!(parts[0].agree(3)?.bits, 0),
        _ => println!("{}", parts[0].shrink().expect_err("rank 0 agrees")),
    }
    // And here it shrinks.
    match rank {
        1 => println!("{}", parts[1].agree(3).expect_err("rank 0 shrinks")),
        _ => println!(
            "{}",
            parts[1].shrink()?.barrier().expect_err("rank 1 agrees")
        ),
    }
    world.barrier()?;
    bound.lift();
    Ok(())
}

/// Rank 0 hears something from rank 2, while the others hear many things from rank 1, and meet only then.
pub fn overtaken(world: &Comm) -> Result<(), Error> {
    let bound = Bound::new();
    let met = if world.rank() == 0 {
        world.bcast(2, &mut [0_u8])
    } else {
        (0..200)
            .try_for_each(|_| world.bcast(1, &mut [0_u8]))
            .and_then(|()| world.barrier())
    };
    let error = met.expect_err("rank 0 is elsewhere");
    bound.lift();
    println!("{error}");
    Ok(())
}
