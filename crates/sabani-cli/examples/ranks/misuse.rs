//! What programs should not do, and do.

use std::panic::{self, AssertUnwindSafe};
use std::thread;

use sabani::Comm;
use sabani::Error as NodeError;
use sabani::comm::{Error, Sum};

use crate::Bound;
use crate::background::LATE;
use crate::hindered::{leave_untaken, take_left};

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

/// Ranks agree in a communicator that goes on, and drop it with messages that nobody has taken.
pub fn dropped(world: &Comm) -> Result<(), Error> {
    let bound = Bound::new();
    let part = world.dup()?;
    assert_eq!(part.agree(1)?.bits, 1);
    leave_untaken(&part)?;
    drop(part);
    // Who needs to hear nothing that rank 1 has heard may have met all others once.
    world.barrier()?;
    world.barrier()?;
    bound.lift();
    println!("rank {}: all have met", world.rank());
    Ok(())
}

/// Rank 1 puts off an agreement, and comes back to it after many others.
pub fn put_off(world: &Comm) -> Result<(), Error> {
    let bound = Bound::new();
    let part = world.dup()?;
    leave_untaken(&part)?;
    let first = part.agree(6);
    match world.rank() {
        1 => {
            let told = first.as_ref().expect_err("rank 0 can't come through");
            assert!(
                matches!(told, Error::Node(NodeError::Backlog { .. })),
                "{told}"
            );
            take_left(&part)?;
            // The others need not wait for it, and it hears what they have come to.
            world.recv(0, 2, &mut [0_u8])?;
        }
        0 => {
            thread::sleep(LATE);
            world.send(1, 2, &[0_u8])?;
        }
        _ => {}
    }
    for _ in 0..100 {
        world.dup()?.agree(0)?;
    }
    // The bits that were given first count.
    let agreed = first.or_else(|_| part.agree(5))?;
    assert_eq!(agreed.bits, 6);
    world.barrier()?;
    bound.lift();
    println!("rank {}: all have agreed", world.rank());
    Ok(())
}

/// Both ranks are roots of a broadcast that is longer than what either lets come unasked: none of them asks.
pub fn roots(world: &Comm) -> Result<(), Error> {
    let bound = Bound::new();
    let mut vector = vec![1_u8; 8 * ROOTS_MEMORY_BYTES as usize];
    let error = world
        .bcast(world.rank(), &mut vector)
        .and_then(|()| world.barrier())
        .expect_err("each is the root");
    bound.lift();
    println!("{error}");
    Ok(())
}

/// What `roots` lets come of one peer.
pub const ROOTS_MEMORY_BYTES: u64 = 1 << 20;
