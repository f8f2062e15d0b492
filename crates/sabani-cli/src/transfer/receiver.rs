//! `sabani receive`: one thread takes messages and hands them to workers, each job always to the
//! same one, so that waiting for the disk holds up nobody else.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use sabani::{Event, Match, Message, Node};

use super::lease::Leases;
use super::progress::Progress;
use super::protocol::{RECEIVER, Request, Totals};
use super::store::Store;
use super::worker::{Shared, Task, Worker};
use super::{DEAD_AFTER, DEFAULT_PORT, interrupt};
use crate::exit::Interrupted;
use crate::key::SealArgs;

/// Threads that write: several, because each waits for the disk at the end of each file.
const WORKERS: usize = 8;
/// Messages that wait for a worker before the others must wait as well.
const QUEUE: usize = 64;
/// How long the last answers may take to arrive.
const LINGER: Duration = Duration::from_secs(2);

/// Take files and folders from `sabani send` into a folder.
///
/// Whoever has the job key may write below DIR, and nowhere else: paths that lead out are refused and no
/// symbolic link is followed. A file gets its name when it is whole, its content hash has been checked and
/// it is on the disk; a file of the same name is replaced then. Until then it grows in
/// DIR/.sabani-partial, where the next attempt finds it after a break of any kind; what nobody
/// has gone on with for seven days is removed at the start.
#[derive(Args)]
#[command(
    after_help = "Exit status: 0 for success, 1 for a failure, 2 for a mistake on the command \
line, 130 after Ctrl-C."
)]
pub struct ReceiveArgs {
    /// The folder; made if it is not there.
    dir: PathBuf,
    /// The local address. Port 0 lets the system choose.
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from(([0, 0, 0, 0], DEFAULT_PORT)))]
    bind: SocketAddr,
    #[command(flatten)]
    seal: SealArgs,
    /// End when the first sender is done.
    #[arg(long)]
    once: bool,
}

/// Runs `sabani receive`.
///
/// # Errors
/// If the folder or the address can't be used, after Ctrl-C, and with `--once` if something could
/// not be received.
pub fn run(args: &ReceiveArgs) -> Result<()> {
    let builder = args.seal.apply(Node::builder(RECEIVER).bind(args.bind))?;
    let store = Store::open(&args.dir)?;
    let node = builder.dead_after(DEAD_AFTER).linger(LINGER).open()?;
    interrupt::install()?;
    println!("receiving on {}", node.local_addr());
    let (finished, ends) = mpsc::channel();
    let shared = Arc::new(Shared {
        node,
        store,
        leases: Leases::default(),
        progress: Progress::of_receiver(),
        finished,
    });
    let outcome = serve(&shared, &ends, args.once);
    shared.progress.finish("received");
    // Senders that are cut off here come back, and files that are not whole are kept.
    let _ = shared.node.close(LINGER);
    outcome
}

fn serve(shared: &Arc<Shared>, ends: &Receiver<Totals>, once: bool) -> Result<()> {
    let workers = start_workers(shared)?;
    loop {
        if interrupt::requested() {
            return Err(Interrupted(
                "interrupted: start it again to go on; senders wait a while, and partial files \
                 are kept"
                    .into(),
            )
            .into());
        }
        let message = shared.node.recv_timeout(Match::any(), interrupt::TICK)?;
        // What ended before the message came must be told to the workers before it.
        pass_events(shared, &workers)?;
        if let Some(message) = message {
            pass(message, &workers)?;
        }
        for totals in ends.try_iter() {
            report(shared, &totals);
            match totals.failed {
                0 if once => return Ok(()),
                failed if once => bail!("{failed} files or folders could not be received"),
                _ => {}
            }
        }
    }
}

/// The threads end with the process: what they leave behind is good at any time.
fn start_workers(shared: &Arc<Shared>) -> Result<Vec<SyncSender<Task>>> {
    let start = |index| {
        let (sender, tasks) = mpsc::sync_channel(QUEUE);
        let shared = shared.clone();
        thread::Builder::new()
            .name(format!("writer {index}"))
            .spawn(move || Worker::new(&shared).run(tasks))
            .context("starting a thread")?;
        Ok(sender)
    };
    (0..WORKERS).map(start).collect()
}

fn pass_events(shared: &Shared, workers: &[SyncSender<Task>]) -> Result<()> {
    while let Some(event) = shared.node.next_event() {
        let Event::Lost { peer, why, .. } = event else {
            continue;
        };
        if why != sabani::PeerLost::Closed {
            shared
                .progress
                .note(format_args!("a sender is gone: {why}"));
        }
        for worker in workers {
            worker
                .send(Task::Lost(peer))
                .context("a writer has ended")?;
        }
    }
    Ok(())
}

fn pass(message: Message, workers: &[SyncSender<Task>]) -> Result<()> {
    let Ok((request, _)) = Request::decode(message.body()) else {
        return Ok(());
    };
    let worker = &workers[place(&(message.source, request.job))];
    worker
        .send(Task::Request(message))
        .context("a writer has ended")
}

fn place(job: &impl Hash) -> usize {
    let mut hasher = DefaultHasher::new();
    job.hash(&mut hasher);
    (hasher.finish() % WORKERS as u64) as usize
}

fn report(shared: &Shared, totals: &Totals) {
    let Totals {
        files,
        bytes,
        failed,
    } = totals;
    let mut text = format!("a sender is done: {files} files, {bytes} bytes");
    if *failed > 0 {
        text.push_str(&format!(", {failed} failed"));
    }
    shared.progress.note(text);
}
