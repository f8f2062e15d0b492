//! Receives that something is in the way of.

use std::thread;
use std::time::Duration;

use sabani::Comm;
use sabani::comm::Error;

use crate::Bound;
use crate::failures::die;

/// Memory of ranks that run short of it.
pub const MEMORY_BYTES: u64 = 16 << 20;
/// What a rank may send before somebody takes it.
pub const LOG_BYTES: u64 = 64 << 10;
/// And what may wait at the rank itself before it has to wait.
pub const QUEUE_BYTES: usize = 16 << 10;

/// Rank 1 begins to receive what takes most of its memory, loses interest, and waits for something else: again
/// and again, with another moment for that, until the one is in the way of the other.
pub fn starved(comm: &Comm) -> Result<(), Error> {
    let messages = [3, 2].map(|part| vec![part; MEMORY_BYTES as usize / 4 * usize::from(part)]);
    let mut is_over = [0_u8];
    for round in 1.. {
        if comm.rank() == 0 {
            for (tag, message) in (1..).zip(&messages) {
                comm.isend(1, tag, message.clone())?;
            }
            comm.recv(1, 3, &mut is_over)?;
        } else {
            is_over = [u8::from(is_starved(comm, &messages, round)?)];
            comm.send(0, 3, &is_over)?;
        }
        if is_over == [1] {
            break;
        }
    }
    Ok(())
}

fn is_starved(comm: &Comm, messages: &[Vec<u8>; 2], round: u64) -> Result<bool, Error> {
    let begun = comm.irecv::<u8>(0, 1)?;
    thread::sleep(Duration::from_micros(100 * round));
    drop(begun);
    let outcome = comm.recv_vec::<u8>(0, 2);
    if let Err(error) = &outcome {
        println!("recv: {error}");
        let error = comm
            .irecv::<u8>(0, 2)?
            .wait()
            .expect_err("nothing has changed");
        println!("irecv: {error}");
    }
    assert!(comm.recv_vec::<u8>(0, 1)? == messages[0]);
    let is_starved = outcome.is_err();
    assert!(outcome.or_else(|_| comm.recv_vec::<u8>(0, 2))? == messages[1]);
    Ok(is_starved)
}

/// Rank 0 sends rank 1 more than may lie there, which rank 1 leaves for later; then all meet, twice: who needs
/// to hear nothing that rank 1 has heard may have met all others once.
pub fn backlog(comm: &Comm) -> Result<(), Error> {
    leave_untaken(comm)?;
    let met = comm.barrier().and_then(|()| comm.barrier());
    let error = met.expect_err("rank 0 can't come through to rank 1");
    println!("rank {}: {error}", comm.rank());
    Ok(())
}

/// Rank 0 sends rank 1 more than it has memory for, which does not leave before rank 1 asks for it; then all meet,
/// and hear something long as well. In few messages, and in many that would go unasked as long as there is room.
pub fn later(comm: &Comm) -> Result<(), Error> {
    for part in [2, 32] {
        let long = vec![7; MEMORY_BYTES as usize / part];
        let first = comm.rank() == 0;
        let count = if first { 2 * part } else { 0 };
        let sent: Result<Vec<_>, _> = (0..count).map(|_| comm.isend(1, 1, long.clone())).collect();
        comm.barrier()?;
        let mut heard = vec![u8::from(first); 100_000];
        comm.bcast(0, &mut heard)?;
        assert_eq!(heard, [1; 100_000]);
        println!("rank {}: all have met", comm.rank());
        if comm.rank() == 1 {
            for _ in 0..2 * part {
                assert!(comm.recv_vec::<u8>(0, 1)? == long);
            }
        }
        sent?.into_iter().try_for_each(|sent| sent.wait())?;
    }
    Ok(())
}

/// All send each other blocks that are longer than what a rank allocates.
pub fn too_long(comm: &Comm) -> Result<(), Error> {
    let len = MEMORY_BYTES as usize + 1;
    let (sent, mut received) = (vec![1_u8; len * comm.size()], vec![0; len * comm.size()]);
    let error = comm
        .alltoall(&sent, &mut received)
        .expect_err("there is no room");
    println!("rank {}: {error}", comm.rank());
    Ok(())
}

/// As in [`backlog`], but all meet in the background, and rank 1 takes what is there once it has computed something: for
/// longer than anybody who waits would have patience.
pub fn busy(comm: &Comm) -> Result<(), Error> {
    leave_untaken(comm)?;
    let meeting = comm.start(Comm::barrier)?;
    if comm.rank() == 1 {
        thread::sleep(Duration::from_secs(3));
    }
    take_left(comm)?;
    meeting.wait()?;
    println!("rank {}: all have met", comm.rank());
    Ok(())
}

/// Rank 0 has no room for a reminder towards rank 1, which is about to send what rank 0 waits for: that comes while
/// the reminder waits. More than once, for it may come a little earlier or later.
pub fn reminded(comm: &Comm) -> Result<(), Error> {
    let bound = Bound::new();
    for round in 0..4 {
        leave_untaken(comm)?;
        let mut told = [0];
        if comm.rank() == 1 {
            thread::sleep(Duration::from_millis(300));
            told = [round];
        }
        comm.bcast(1, &mut told)?;
        assert_eq!(told, [round]);
        take_left(comm)?;
        // Nothing else that rank 1 sends wakes rank 0 up.
        match comm.rank() {
            0 => comm.send(1, 2, &told)?,
            _ => _ = comm.recv(0, 2, &mut told)?,
        }
    }
    bound.lift();
    println!("rank {}: all is heard", comm.rank());
    comm.barrier()
}

/// The survivors of rank 2 agree, and work together again, although rank 0's words have to come through to rank 1
/// behind messages that nobody takes: of a communicator that goes on, rank 1 has to take them; of one that has ended it
/// can't.
pub fn behind(world: &Comm) -> Result<(), Error> {
    let bound = Bound::new();
    leave_untaken(world)?;
    let mut agreed = world.agree(1);
    if world.rank() == 1 {
        let told = agreed.expect_err("rank 0 can't come through").to_string();
        assert!(told.starts_with("untaken messages from peer 0"), "{told}");
        take_left(world)?;
        // The others need not wait for it.
        world.recv(0, 2, &mut [0_u8])?;
        agreed = world.agree(1);
    }
    assert_eq!(agreed?.bits, 1);
    // Rank 2 dies only when rank 1 has heard this.
    match world.rank() {
        0 => world.send(1, 2, &[0_u8])?,
        1 => world.send(2, 2, &[0_u8])?,
        _ => _ = world.recv(1, 2, &mut [0_u8])?,
    }
    leave_untaken(world)?;
    if world.rank() == 2 {
        die();
    }
    let error = world.recv(2, 9, &mut [0_u8]).expect_err("it is dead");
    assert!(matches!(error, Error::RankLost { rank: 2, .. }), "{error}");
    let left = world.shrink()?;
    left.barrier()?;
    // So do those that come later, and those of a communicator that nobody has died in.
    leave_untaken(&left)?;
    left.revoke("some is left");
    let again = left.shrink()?;
    again.barrier()?;
    assert_eq!(world.discard((world.rank() + 1) % 2, 1)?, None);
    bound.lift();
    println!("{} are left", again.size());
    Ok(())
}

/// Rank 0 revokes while it has no room for another message to rank 1.
pub fn full(comm: &Comm) -> Result<(), Error> {
    let bound = Bound::new();
    comm.barrier()?;
    if comm.rank() == 0 {
        for _ in 0..2_000 {
            comm.isend(1, 1, vec![0_u8; 1_000])?;
        }
        comm.revoke("it is enough");
    }
    let error = comm.recv(0, 9, &mut [0_u8]).expect_err("it has ended");
    comm.agree(0)?;
    bound.lift();
    println!("{error}");
    Ok(())
}

/// Messages of 1,000 bytes, twice of what may lie there.
const UNTAKEN: u64 = 2 * LOG_BYTES / 1_000;

pub fn leave_untaken(comm: &Comm) -> Result<(), Error> {
    if comm.rank() == 0 {
        for _ in 0..UNTAKEN {
            comm.isend(1, 1, vec![0_u8; 1_000])?;
        }
    }
    Ok(())
}

pub fn take_left(comm: &Comm) -> Result<(), Error> {
    if comm.rank() == 1 {
        for _ in 0..UNTAKEN {
            assert_eq!(comm.recv_vec::<u8>(0, 1)?.len(), 1_000);
        }
    }
    Ok(())
}
