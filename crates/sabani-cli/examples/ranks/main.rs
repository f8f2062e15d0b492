//! A program for the tests of `sabani run`: does what its first argument says.

mod background;
mod collectives;
mod failures;
mod groups;
mod hindered;
mod misuse;

use std::io::Read;
use std::process::{self, Command};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use sabani::Comm;
use sabani::comm::{Error, Strided};

fn main() -> Result<(), Error> {
    let task = std::env::args().nth(1).unwrap_or_default();
    let comm = Comm::init_with(|builder| match &task[..] {
        "stopped" | "shut-out" => builder.dead_after(failures::SILENCE),
        "starved" | "later" | "too-long" | "polled" => builder.memory(hindered::MEMORY_BYTES),
        "roots" => builder.peer_memory(misuse::ROOTS_MEMORY_BYTES),
        "full" => builder.send_queue(hindered::QUEUE_BYTES),
        "backlog" | "busy" | "dropped" | "put-off" => builder.log_window_max(hindered::LOG_BYTES),
        "reminded" | "behind" => builder
            .log_window_max(hindered::LOG_BYTES)
            .send_queue(hindered::QUEUE_BYTES),
        _ => builder,
    })?;
    match &task[..] {
        "ring" => ring(&comm),
        "lost" => lost(&comm),
        "abort" if comm.rank() == 1 => comm.abort(42, "aborts on purpose"),
        "input" => input(&comm),
        "starved" => hindered::starved(&comm),
        "backlog" => hindered::backlog(&comm),
        "busy" => hindered::busy(&comm),
        "later" => hindered::later(&comm),
        "reminded" => hindered::reminded(&comm),
        "behind" => hindered::behind(&comm),
        "full" => hindered::full(&comm),
        "too-long" => hindered::too_long(&comm),
        "fail" if comm.rank() == 1 => process::exit(7),
        "left" => left(&comm),
        "twice" => twice(&comm),
        "abort" | "fail" | "hang" => hang(),
        "orphans" => orphans(&comm),
        "collectives" => collectives::all(&comm),
        "mismatch" => collectives::mismatch(&comm, &std::env::args().nth(2).unwrap_or_default()),
        "deserted" => collectives::deserted(&comm),
        "background" => background::all(&comm),
        "late" => background::late(&comm),
        "no-thread" => background::no_thread(&comm),
        "groups" => groups::all(&comm),
        "lost-in-group" => groups::lost(&comm),
        "many" => collectives::many(&comm),
        "survive" => failures::survive(&comm),
        "attrition" => failures::attrition(&comm),
        "halves" => failures::halves(&comm),
        "revoke" => failures::revoke(&comm),
        "panicked" => failures::panicked(&comm),
        "stopped" => failures::stopped(&comm, failures::SILENCE / 4),
        "shut-out" => failures::stopped(&comm, failures::SILENCE * 3),
        "polled" => failures::polled(&comm),
        "left-alone" => failures::left_alone(&comm),
        "asked-anew" => failures::asked_anew(&comm),
        "unwinding" => misuse::unwinding(&comm),
        "unseen" => misuse::unseen(&comm),
        "leaked" => misuse::leaked(&comm),
        "muddled" => misuse::muddled(&comm),
        "overtaken" => misuse::overtaken(&comm),
        "roots" => misuse::roots(&comm),
        "dropped" => misuse::dropped(&comm),
        "put-off" => misuse::put_off(&comm),
        "nobody-sends" => failures::nobody_sends(&comm),
        other => panic!("there is no task `{other}`"),
    }
}

/// Joins again while it is in the job.
fn twice(comm: &Comm) -> Result<(), Error> {
    let again = thread::spawn(|| Comm::init().map(|_| ()));
    let error = again.join().expect("it ends").expect_err("it is a rank");
    println!("{error}");
    comm.barrier()
}

/// Ends the process, and with it the job, if what it does takes so long that it hangs.
struct Bound(mpsc::Sender<()>);

impl Bound {
    fn new() -> Self {
        let (lift, lifted) = mpsc::channel();
        thread::spawn(move || {
            if lifted.recv_timeout(Duration::from_secs(20)) == Err(RecvTimeoutError::Timeout) {
                eprintln!("it hangs");
                process::exit(9);
            }
        });
        Self(lift)
    }

    fn lift(self) {
        drop(self.0);
    }
}

fn hang() -> ! {
    loop {
        thread::sleep(Duration::from_secs(600));
    }
}

/// Passes numbers around, many and few, and meets at a barrier.
fn ring(comm: &Comm) -> Result<(), Error> {
    let (rank, size) = (comm.rank(), comm.size());
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    for count in [0, 1, 1_000, 1_000_000] {
        let sent = vec![rank as u64; count];
        let mut received = vec![u64::MAX; count];
        let got = comm.sendrecv(right, &sent, left, &mut received, 5)?;
        assert_eq!(got, count);
        assert!(received.iter().all(|&number| number == left as u64));
        comm.barrier()?;
    }
    columns(comm, right, left)?;
    println!("rank {rank} of {size} is {} on its host", comm.local_rank());
    Ok(())
}

/// Passes the last column of a matrix on, which becomes the first one of the next rank's.
fn columns(comm: &Comm, right: usize, left: usize) -> Result<(), Error> {
    let column = Strided {
        count: 5,
        block: 1,
        stride: 3,
    };
    let mut matrix: Vec<_> = (0..15).map(|at| comm.rank() * 100 + at).collect();
    comm.send_strided(right, 6, &matrix[2..], column)?;
    comm.recv_strided(left, 6, &mut matrix, column)?;
    let expected = |at| match at % 3 {
        0 => left * 100 + at + 2,
        _ => comm.rank() * 100 + at,
    };
    assert_eq!(matrix, (0..15).map(expected).collect::<Vec<_>>());
    Ok(())
}

/// Rank 1 is killed while the others wait for it, in each way there is.
fn lost(comm: &Comm) -> Result<(), Error> {
    if comm.rank() == 1 {
        process::abort();
    }
    let mut number = [0_u8];
    let errors = [
        comm.recv(1, 0, &mut number).unwrap_err(),
        comm.recv_any(0, &mut number).unwrap_err(),
        comm.sendrecv(0, &number, 1, &mut [0_u8], 1).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::RankLost { rank: 1, .. }), "{error}");
        println!("{error}");
    }
    Ok(())
}

/// Rank 1 sends something and ends, well before the others look.
fn left(comm: &Comm) -> Result<(), Error> {
    if comm.rank() == 1 {
        for other in (0..comm.size()).filter(|&other| other != 1) {
            comm.send(other, 3, &[1.5_f32])?;
        }
        return Ok(());
    }
    while comm.gone().is_empty() {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(comm.recv_vec::<f32>(1, 3)?, [1.5]);
    println!("{}", comm.recv_vec::<f32>(1, 3).unwrap_err());
    Ok(())
}

fn input(comm: &Comm) -> Result<(), Error> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .expect("it is readable");
    println!("rank {} reads `{text}`", comm.rank());
    Ok(())
}

/// Starts a process that has left its group and session, says its number, and hangs.
fn orphans(comm: &Comm) -> Result<(), Error> {
    let child = Command::new("setsid").args(["sleep", "600"]).spawn();
    println!("{} {}", process::id(), child.expect("it starts").id());
    comm.barrier()?;
    hang()
}
