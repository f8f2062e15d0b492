//! What is left when ranks fail.

use std::panic::{self, AssertUnwindSafe};
use std::process::{self, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, raise};
use sabani::comm::{Commutative, Error, Sum};
use sabani::{Comm, Match, PeerId};

use crate::Bound;
use crate::hindered::MEMORY_BYTES;

pub fn die() -> ! {
    let _ = raise(Signal::SIGKILL);
    unreachable!("nobody survives that")
}

/// Each rank's own bit, combined: who has taken part.
fn everybody(comm: &Comm, world: &Comm) -> Result<u64, Error> {
    let mut bits = [1 << world.rank()];
    comm.allreduce_in_place(&mut bits, Sum)?;
    Ok(bits[0])
}

/// Makes communicators of those that are left until something works in one for all of them.
fn until_it_works<T>(
    mut comm: Comm,
    mut work: impl FnMut(&Comm) -> Result<T, Error>,
) -> Result<(Comm, T), Error> {
    loop {
        let worked = work(&comm);
        if let Err(error) = &worked {
            let is_loss = matches!(error, Error::RankLost { .. } | Error::Revoked { .. });
            assert!(is_loss, "{error}");
        }
        let all_worked = comm.agree(u64::from(worked.is_ok()))?.bits == 1;
        match worked {
            Ok(result) if all_worked => return Ok((comm, result)),
            _ => comm = comm.shrink()?,
        }
    }
}

/// Two of four ranks die: rank 0 in the middle of an allreduce, which combines there, and rank 3 before
/// one that the others have begun. Those that are left go on.
pub fn survive(world: &Comm) -> Result<(), Error> {
    let mut comm = world.clone();
    for round in 0..20 {
        let work = |comm: &Comm| {
            if (round, world.rank()) == (10, 3) {
                die();
            }
            let dies = Commutative(|left: u64, right| match (round, world.rank()) {
                (5, 0) => die(),
                _ => left + right,
            });
            let mut sum = [1];
            comm.allreduce_in_place(&mut sum, dies)?;
            Ok(sum[0])
        };
        let (left, sum) = until_it_works(comm, work)?;
        assert_eq!(sum as usize, left.size(), "in round {round}");
        comm = left;
    }
    let gone = world.failed();
    assert_eq!(gone.keys().collect::<Vec<_>>(), [&0, &3]);
    let here = everybody(&comm, world)?;
    println!("{here:b} are left: rank 0 {}", gone[&0]);
    Ok(())
}

/// All ranks but the last two die, each at a moment of its own, while all agree and shrink.
pub fn attrition(world: &Comm) -> Result<(), Error> {
    let (rank, left) = (world.rank() as u64, 2);
    if world.rank() + left < world.size() {
        let chance = u64::from(process::id()).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        thread::spawn(move || {
            thread::sleep(Duration::from_micros(rank * 50_000 + chance));
            die()
        });
    }
    let mut comm = world.clone();
    while comm.size() > left {
        (comm, _) = until_it_works(comm, |comm| everybody(comm, world))?;
    }
    let (_, here) = until_it_works(comm, |comm| everybody(comm, world))?;
    println!("{here:b} are left");
    Ok(())
}

/// The failure of a rank ends the communicators that it is in, and no others.
pub fn halves(world: &Comm) -> Result<(), Error> {
    let half = world.split(world.rank() as u64 % 2, 0)?;
    if world.rank() == 1 {
        for other in [0, 2, 3] {
            world.recv_vec::<u8>(other, 0)?;
        }
        die();
    }
    world.send(1, 0, &[1_u8])?;
    let error = world.barrier().expect_err("one is dead");
    assert!(matches!(error, Error::RankLost { rank: 1, .. }), "{error}");
    match world.rank() % 2 {
        0 => half.barrier()?,
        _ => println!("{}", half.barrier().expect_err("one is dead")),
    }
    // Messages to a rank that lives are refused as well: it may have left.
    println!("{}", world.send(0, 0, &[1_u8]).expect_err("it has ended"));
    Ok(())
}

/// A rank gives up, while the others wait for each other in various ways.
pub fn revoke(world: &Comm) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let mut number = [0_u8];
    let error = match rank {
        0 => {
            world.revoke("the input makes no sense");
            world.barrier().expect_err("it has ended")
        }
        1 => world.recv_any(0, &mut number).expect_err("nobody sends"),
        2 => world.recv(1, 0, &mut number).expect_err("nobody sends"),
        _ => world.barrier().expect_err("somebody is elsewhere"),
    };
    println!("{error}");
    let again = world.shrink()?;
    assert_eq!((again.rank(), again.size()), (rank, size));
    again.barrier()
}

/// A rank's operation panics, and the program goes on: nobody waits for what will never come.
pub fn panicked(world: &Comm) -> Result<(), Error> {
    let picky = Commutative(|left: u64, right: u64| {
        assert!(left != 13 && right != 13, "it can't count so far");
        left + right
    });
    let mut number = [if world.rank() == 2 { 13 } else { 1 }];
    let sum = AssertUnwindSafe(|| world.allreduce_in_place(&mut number, picky));
    let error = match panic::catch_unwind(sum) {
        Ok(outcome) => outcome.expect_err("who has panicked does not take part"),
        Err(_) => world.barrier().expect_err("it has ended"),
    };
    println!("{error}");
    Ok(())
}

/// How long a rank may be silent in these tests.
pub const SILENCE: Duration = Duration::from_secs(2);

/// Rank 1 is stopped for this time, in the middle of something; the others are there when it goes on.
pub fn stopped(world: &Comm, time: Duration) -> Result<(), Error> {
    let begun = Instant::now();
    if world.rank() == 1 {
        let wake = format!("sleep {}; kill -CONT {}", time.as_secs_f64(), process::id());
        let mut waker = Command::new("sh").args(["-c", &wake]).spawn();
        let _ = raise(Signal::SIGSTOP);
        let _ = waker.as_mut().map(|waker| waker.wait());
    }
    match until_it_works(world.clone(), |comm| everybody(comm, world)) {
        Ok((left, here)) => {
            println!("{here:b} are left");
            let mut goes_on = [1_u8];
            while goes_on[0] == 1 {
                thread::sleep(Duration::from_millis(10));
                goes_on[0] = u8::from(begun.elapsed() < 2 * time);
                left.bcast(0, &mut goes_on)?;
            }
        }
        Err(error) => println!("{error}"),
    }
    Ok(())
}

/// Rank 1 only asks again and again whether messages have come or arrived; rank 0 revokes meanwhile, then rank 2 dies.
pub fn polled(world: &Comm) -> Result<(), Error> {
    let bound = Bound::new();
    let asked = Match::any().tag(1);
    let revoked = poll(world, || match world.rank() {
        0 => world.revoke("it is over"),
        // It must not hear of that, for it would throw away what rank 1 has sent.
        _ => _ = world.node().recv(asked).expect("rank 1 lives"),
    })?;
    if world.rank() == 1 {
        world.node().send(PeerId(2), 1, &[])?;
    }
    let again = world.shrink()?;
    let lost = poll(&again, || {
        if again.rank() == 2 {
            die()
        }
    })?;
    bound.lift();
    for told in [revoked, lost].concat() {
        println!("{told}");
    }
    Ok(())
}

/// What rank 1 is told of a message that rank 2 does not send, and of one that it has no room for.
fn poll(comm: &Comm, end: impl Fn()) -> Result<Vec<String>, Error> {
    comm.barrier()?;
    let mut told = Vec::new();
    if comm.rank() == 1 {
        let mut awaited = comm.irecv::<u8>(2, 1)?;
        let mut sent = comm.isend(2, 2, vec![0_u8; MEMORY_BYTES as usize + 1])?;
        told.push(until_it_fails(|| awaited.test()));
        told.push(until_it_fails(|| sent.test()));
    } else {
        end();
    }
    Ok(told)
}

fn until_it_fails(mut test: impl FnMut() -> Result<bool, Error>) -> String {
    loop {
        match test() {
            Ok(done) => assert!(!done),
            Err(error) => return error.to_string(),
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Asks once whether a rank's message has come.
type Way = fn(&Comm, usize) -> Result<bool, Error>;

/// The last rank dies, again and again, while rank 1 asks for its message anew each time and never waits.
pub fn asked_anew(world: &Comm) -> Result<(), Error> {
    let bound = Bound::new();
    let ways: [Way; 3] = [
        |comm, from| comm.irecv::<u8>(from, 1)?.test(),
        |comm, from| {
            let come = comm.recv_timeout(from, 1, &mut [0_u8], Duration::ZERO)?;
            Ok(come.is_some())
        },
        |comm, _| {
            let come = comm.recv_any_timeout(1, &mut [0_u8], Duration::ZERO)?;
            Ok(come.is_some())
        },
    ];
    // Another numbering than the world's.
    let key = (world.rank() + world.size() - 1) % world.size();
    let mut comm = world.split(0, key as i64)?;
    for way in ways {
        comm.barrier()?;
        let last = comm.size() - 1;
        if comm.rank() == last {
            die()
        }
        if comm.rank() == 1 {
            println!("{}", until_it_fails(|| way(&comm, last)));
        }
        comm = comm.shrink()?;
    }
    bound.lift();
    Ok(())
}

/// All others end in good order, while one thread of rank 0 asks for what anybody has sent, and another one all the time for what a rank
/// that lives has.
pub fn left_alone(world: &Comm) -> Result<(), Error> {
    world.barrier()?;
    if world.rank() > 0 {
        return Ok(());
    }
    let bound = Bound::new();
    let is_over = AtomicBool::new(false);
    let error = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let come = world.recv_timeout(0, 1, &mut [0_u8], Duration::ZERO);
                assert_eq!(come.expect("it lives"), None);
            }
        });
        let error = until_it_fails(|| {
            let come = world.recv_any_timeout(1, &mut [0_u8], Duration::ZERO)?;
            Ok(come.is_some())
        });
        is_over.store(true, Ordering::Relaxed);
        error
    });
    bound.lift();
    println!("{error}");
    Ok(())
}

/// Rank 1 dies; the others only wait for whoever sends first.
pub fn nobody_sends(world: &Comm) -> Result<(), Error> {
    if world.rank() == 1 {
        die();
    }
    let error = world.recv_any(0, &mut [0_u8]).expect_err("nobody sends");
    assert!(matches!(error, Error::RankLost { rank: 1, .. }), "{error}");
    let left = world.shrink()?;
    println!("{:b} are left", everybody(&left, world)?);
    Ok(())
}
