//! Communicators of some of the ranks.

use sabani::Comm;
use sabani::comm::{Error, Sum};

use crate::collectives;

/// Divides the ranks in several ways, and lets the parts work at the same time.
pub fn all(comm: &Comm) -> Result<(), Error> {
    let halves = halves(comm)?;
    collectives::work(&halves)?;
    collectives::work(&halves.split(halves.rank() as u64 % 2, 0)?)?;
    side_by_side(comm, &halves)?;
    grid(comm)?;
    let beside = comm.split_by_host()?;
    assert_eq!(
        (beside.size(), beside.rank()),
        (comm.size(), comm.local_rank())
    );
    assert_eq!(comm.hosts(), vec![0; comm.size()]);
    println!("all is right");
    Ok(())
}

/// Odd and even ranks, in falling order.
fn halves(comm: &Comm) -> Result<Comm, Error> {
    let (rank, size) = (comm.rank(), comm.size());
    let half = comm.split(rank as u64 % 2, -(rank as i64))?;
    let members: Vec<_> = (0..size)
        .rev()
        .filter(|other| other % 2 == rank % 2)
        .collect();
    assert_eq!(half.size(), members.len());
    assert_eq!(members[half.rank()], rank);
    let mut found = vec![0; half.size()];
    half.allgather(&[rank], &mut found)?;
    assert_eq!(found, members);
    Ok(half)
}

/// Messages with one tag in three communicators, received in another order than they were sent in.
fn side_by_side(comm: &Comm, half: &Comm) -> Result<(), Error> {
    let again = comm.dup()?;
    assert_eq!((again.rank(), again.size()), (comm.rank(), comm.size()));
    let all = [comm, half, &again];
    for (place, comm) in all.into_iter().enumerate() {
        comm.send((comm.rank() + 1) % comm.size(), 9, &[place, comm.rank()])?;
    }
    for (place, comm) in all.into_iter().enumerate().rev() {
        let mut got = [0; 2];
        let received = comm.recv_any(9, &mut got)?;
        let left = (comm.rank() + comm.size() - 1) % comm.size();
        assert_eq!((received.rank, got), (left, [place, left]));
    }
    Ok(())
}

/// Rows and columns: each rank's row adds up while its column does.
fn grid(comm: &Comm) -> Result<(), Error> {
    let (row, column) = (comm.rank() / 3, comm.rank() % 3);
    let across = comm.split(row as u64, column as i64)?;
    let down = comm.split(column as u64, row as i64)?;
    assert_eq!((across.rank(), down.rank()), (column, row));
    let mut sums = [[comm.rank() as u64]; 2];
    across.allreduce_in_place(&mut sums[0], Sum)?;
    down.allreduce_in_place(&mut sums[1], Sum)?;
    let in_grid = |belongs: &dyn Fn(usize) -> bool| -> u64 {
        (0..comm.size())
            .filter(|&rank| belongs(rank))
            .map(|rank| rank as u64)
            .sum()
    };
    assert_eq!(sums[0], [in_grid(&|rank| rank / 3 == row)]);
    assert_eq!(sums[1], [in_grid(&|rank| rank % 3 == column)]);
    Ok(())
}

/// A rank is killed while others of its part wait for it: they hear of the rank that it had there.
/// It waits until everybody is through with the split: who dies in it may fail it for the others.
pub fn lost(comm: &Comm) -> Result<(), Error> {
    let part = comm.split(comm.rank() as u64 / 3, (comm.rank() as i64 + 2) % 3)?;
    let mut number = [0_u8];
    if comm.rank() == 1 {
        for other in (0..comm.size()).filter(|&other| other != 1) {
            comm.recv(other, 1, &mut number)?;
        }
        std::process::abort();
    }
    comm.send(1, 1, &number)?;
    match comm.rank() {
        0 => println!("{}", part.recv(0, 0, &mut number).expect_err("it is gone")),
        2 => println!("{}", part.recv_any(0, &mut number).expect_err("it is gone")),
        _ => part.barrier()?,
    }
    assert_eq!(part.gone().contains_key(&0), comm.rank() < 3);
    Ok(())
}
