//! What goes on while the ranks do something else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use std::{fs, thread};

use rustix::param::page_size;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sabani::Comm;
use sabani::comm::{Error, InOrder, Sum};

use crate::Bound;

/// More than a node keeps for a peer before a send waits.
const MESSAGES: usize = 6;
const LONG: usize = 1 << 20;

/// Starts everything that there is to start.
pub fn all(comm: &Comm) -> Result<(), Error> {
    left_to_itself(comm)?;
    several(comm)?;
    while_computing(comm)?;
    again_and_again(comm)?;
    messages(comm)?;
    println!("all is right");
    Ok(())
}

/// Collectives of several kinds under way at a time, beside those that the ranks call themselves.
fn several(comm: &Comm) -> Result<(), Error> {
    let (rank, size) = (comm.rank() as u64, comm.size() as u64);
    let total = size * (size - 1) / 2;
    let mut sums = Vec::new();
    for len in [1, 5_000, 200_000] {
        sums.push(comm.start(move |comm| {
            let mut own = vec![rank; len];
            comm.allreduce_in_place(&mut own, Sum)?;
            Ok(own)
        })?);
    }
    let chained = comm.start(move |comm| {
        let mut all = vec![0; comm.size()];
        comm.allgather(&[rank], &mut all)?;
        comm.bcast(0, &mut all)?;
        let mut part = [0];
        comm.scatter(comm.size() - 1, &all, &mut part)?;
        Ok(part)
    })?;
    let mut last = [rank];
    comm.allreduce_in_place(&mut last, InOrder(|_, right| right))?;
    assert_eq!(last, [size - 1]);
    assert_eq!(chained.wait()?, [rank]);
    for (sum, len) in sums.into_iter().zip([1, 5_000, 200_000]).rev() {
        assert_eq!(sum.wait()?, vec![total; len]);
    }
    let nested = comm.start(|comm| Ok(comm.start(|_| Ok(())).err()))?;
    assert!(matches!(nested.wait()?, Some(Error::Nested)));
    Ok(())
}

/// A collective ends though its ranks don't call in.
fn while_computing(comm: &Comm) -> Result<(), Error> {
    let done = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&done);
    let mut sum = comm.start(move |comm| {
        let mut ones = vec![1_u32; 100_000];
        comm.allreduce_in_place(&mut ones, Sum)?;
        tell.store(true, SeqCst);
        Ok(ones)
    })?;
    let mut computed = 1_u64;
    while !done.load(SeqCst) {
        computed = computed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
    }
    std::hint::black_box(computed);
    while !sum.test() {
        std::thread::yield_now();
    }
    assert_eq!(sum.wait()?, vec![comm.size() as u32; 100_000]);
    Ok(())
}

fn again_and_again(comm: &Comm) -> Result<(), Error> {
    let (rank, size) = (comm.rank(), comm.size());
    let buffers = (vec![0; 10], vec![0; 10 * size]);
    let mut gather = comm.prepare(buffers, |comm, (own, all)| comm.allgather(own, all));
    for step in 0..20 {
        gather.buffers()?.0.fill(step * size + rank);
        gather.start()?;
        let done = gather.buffers()?;
        assert!((0..10 * size).all(|at| done.1[at] == step * size + at / 10));
    }
    assert!(gather.test());
    Ok(())
}

/// More is sent than there is room for, before anybody receives; it comes in order.
fn messages(comm: &Comm) -> Result<(), Error> {
    let (rank, size) = (comm.rank(), comm.size());
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    let long = |rank: usize, place| vec![(rank * MESSAGES + place) as u64; LONG / 8];
    let sent: Vec<_> = (0..MESSAGES)
        .map(|place| comm.isend(right, 1, long(rank, place)))
        .collect::<Result<_, _>>()?;
    let received: Vec<_> = (0..MESSAGES)
        .map(|_| comm.irecv::<u64>(left, 1))
        .collect::<Result<_, _>>()?;
    for (place, message) in received.into_iter().enumerate() {
        assert_eq!(message.wait()?, long(left, place));
    }
    for message in sent {
        message.wait()?;
    }
    // A receive that is given up leaves its message to the next one.
    let given_up = comm.irecv::<u8>(left, 2)?;
    let mut answer = comm.irecv::<u8>(left, 3)?;
    let mut sent = comm.isend(right, 2, vec![7_u8])?;
    comm.isend(right, 3, vec![8_u8])?.wait()?;
    while !answer.test()? || !sent.test()? {}
    drop(given_up);
    assert_eq!(
        (comm.recv_vec::<u8>(left, 2)?, answer.wait()?),
        (vec![7], vec![8])
    );
    Ok(())
}

/// Nobody looks at what was started; those who need it get it all the same.
fn left_to_itself(comm: &Comm) -> Result<(), Error> {
    let (tell, told) = std::sync::mpsc::channel();
    let started = comm.start(move |comm| {
        let mut value = [comm.rank()];
        comm.bcast(0, &mut value)?;
        comm.barrier()?;
        tell.send(value).expect("the program listens");
        Ok(())
    })?;
    std::mem::forget(started);
    assert_eq!(told.recv().expect("the work goes on"), [0]);
    comm.barrier()
}

/// So long after the others rank 1 comes that they remind it.
pub const LATE: Duration = Duration::from_millis(400);

/// What is over before a reminder of it is taken leaves nothing behind, nor does a communicator that is gone.
pub fn late(comm: &Comm) -> Result<(), Error> {
    for _ in 0..2 {
        let part = comm.dup()?;
        if comm.rank() == 1 {
            thread::sleep(LATE);
        }
        let started: Vec<_> = (0..4).map(|_| comm.start(Comm::barrier)).collect();
        started
            .into_iter()
            .try_for_each(|started| started?.wait())?;
        if comm.rank() == 1 {
            thread::sleep(LATE);
        }
        part.barrier()?;
    }
    comm.barrier()?;
    // Rank 1 waits so long that it looks after what may have come late.
    if comm.rank() != 1 {
        thread::sleep(LATE);
        return comm.send(1, 1, &[0_u8]);
    }
    for other in (0..comm.size()).filter(|&other| other != 1) {
        comm.recv(other, 1, &mut [0_u8])?;
    }
    let left = comm.node().stats().unmatched_messages;
    println!("{left} messages are left");
    Ok(())
}

/// Rank 1 has no memory for a thread, and tries again.
pub fn no_thread(comm: &Comm) -> Result<(), Error> {
    let bound = Bound::new();
    let mut started = None;
    if comm.rank() == 1 {
        let pages = fs::read_to_string("/proc/self/statm").expect("it is readable");
        let pages: u64 = pages
            .split(' ')
            .next()
            .and_then(|pages| pages.parse().ok())
            .expect("a number");
        let before = getrlimit(Resource::As);
        let scarce = Rlimit {
            current: Some(pages * page_size() as u64 + (1 << 20)),
            ..before
        };
        setrlimit(Resource::As, scarce).expect("less is allowed");
        let error = comm.start(Comm::barrier).err();
        setrlimit(Resource::As, before).expect("as it was");
        let error = error.expect("a thread takes 2 MiB").to_string();
        assert!(error.contains("starting a thread"), "{error}");
        started = Some(comm.start(Comm::barrier)?);
    }
    let started = started.map_or_else(|| comm.start(Comm::barrier), Ok)?;
    let error = started.wait().expect_err("rank 1 could not");
    bound.lift();
    println!("{error}");
    Ok(())
}
