//! `sabani send`: one thread finds files, several send them, one hands out the answers.

use std::io;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use clap::Args;
use sabani::{Error, Node, PeerId};

use super::link::{Line, Link, Trouble};
use super::path::Shown;
use super::progress::{Progress, count_things};
use super::protocol::{Answer, Ask, FILES_MAX, RECEIVER, Reply, Totals, WINDOW};
use super::upload::{Arrived, Failure, Uploader, refused};
use super::walk::{Entry, Folder, Root, Visitor, unreadable};
use super::{CONNECT_TIMEOUT, DEAD_AFTER, DEAD_AFTER_MIN, DEFAULT_PORT, SPIN};
use crate::address::resolve;
use crate::exit::{Interrupted, Usage};
use crate::interrupt;
use crate::key::SealArgs;
use crate::key_log::{KeyLog, KeyLogArgs};
use crate::lab::Rate;
use crate::layers::LayersOption;

/// Files found before those who send them; bounds memory.
const AHEAD: usize = 4_096;
/// Folders asked for before the first answer is awaited.
const BATCH: usize = 256;
/// How long the last messages may take to arrive.
const LINGER: Duration = Duration::from_secs(2);
/// The same after Ctrl-C, or where there is nobody to arrive at: nothing is lost but time.
const LINGER_STOPPED: Duration = Duration::from_millis(200);

/// Send files and folders to `sabani receive`.
///
/// Names, permissions and modification times are kept. Owners, set-user-ID, set-group-ID and sticky bits,
/// further attributes, hard links and holes are not. Files that are there already are checked and not
/// sent again, files that are there in part go on where they stopped: after a break of any kind,
/// give the same command again. Symbolic links are sent if they stay inside what is sent; `..` after
/// a name is not followed: that may be another link's.
#[derive(Args)]
#[command(
    after_help = "Exit status: 0 when everything has arrived that is not named as skipped, 1 when something has not, 2 for \
a mistake on the command line or a PATH that can't be read, before anything was sent, 130 after Ctrl-C or a TERM signal."
)]
pub struct SendArgs {
    /// Files and folders. Each arrives under its own name.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The receiver's address: HOST or HOST:PORT; the port is 7226 if none is said.
    #[arg(long, value_name = "ADDR")]
    to: String,
    #[command(flatten)]
    seal: SealArgs,
    #[command(flatten)]
    key_log: KeyLogArgs,
    #[command(flatten)]
    layers: LayersOption,
    /// Files that are under way at a time, 1 to 256.
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..=i64::from(FILES_MAX)))]
    jobs: u16,
    /// How long to wait for a receiver that has answered and is gone, in seconds since it was last heard.
    ///
    /// A receiver that never answered is waited for 5 seconds, whatever is said here.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
    /// Leave the rest of a link to others: send no faster than an Ethernet of this rate would carry, headers included, as in
    /// `50mbit` or `1gbit`; 1mbit at least.
    ///
    /// Default: as fast as the receiver and the way there take it. What goes at once takes a millisecond at most.
    #[arg(long, value_name = "RATE", value_parser = parse_max_rate)]
    max_rate: Option<Rate>,
}

/// Reads the rate to keep to: a node keeps to none that is far less.
fn parse_max_rate(text: &str) -> Result<Rate> {
    const LEAST: Rate = Rate(1_000_000);
    let rate: Rate = text.parse()?;
    ensure!(rate.0 >= LEAST.0, "{LEAST} at least");
    Ok(rate)
}

/// What all threads of a sender share.
struct Sender<'a> {
    progress: &'a Progress,
    entries: Mutex<Receiver<Entry>>,
    failed: AtomicU64,
    likely_there: AtomicBool,
    /// Why nothing more can be sent.
    trouble: Mutex<Option<Trouble>>,
}

/// Runs `sabani send`.
///
/// # Errors
/// If something could not be sent, and after Ctrl-C.
pub fn run(args: &SendArgs) -> Result<()> {
    let roots = roots(&args.paths)?;
    let addr = resolve(&args.to, DEFAULT_PORT)?;
    let key_log = args.key_log.open()?;
    let node = open(args, &key_log, addr)?;
    interrupt::install()?;
    let progress = Progress::of_sender();
    let jobs = usize::from(args.jobs);
    let patience = Duration::from_secs(args.patience);
    let (link, inboxes) = Link::new(node.clone(), key_log, addr, patience, &progress, jobs + 1);
    let outcome = thread::scope(|scope| {
        scope.spawn(|| link.deliver());
        let _end = End(&link);
        send(&link, &progress, &roots, inboxes)
    });
    let linger = match outcome {
        Ok(_) => LINGER,
        Err(_) => LINGER_STOPPED,
    };
    let _ = node.close(linger);
    // Who has never reached anybody has nothing to sum up.
    match link.is_heard() {
        true => progress.finish("sent"),
        false => progress.clear(),
    }
    conclude(outcome)
}

fn conclude(outcome: Result<u64, Trouble>) -> Result<()> {
    match outcome {
        Ok(0) => Ok(()),
        Ok(failed) => bail!("{} could not be sent: see above", count_things(failed)),
        Err(Trouble::Interrupted) => Err(Interrupted(
            "interrupted: give the same command again to go on where this one stopped".into(),
        )
        .into()),
        Err(trouble) => Err(anyhow!("{trouble}")),
    }
}

fn open(args: &SendArgs, key_log: &KeyLog, addr: SocketAddr) -> Result<Node> {
    let any = match addr {
        SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0; 16], 0)),
    };
    // Senders need not know of each other: a random id, but not the receiver's.
    let id = PeerId(getrandom::u32().map_err(|error| anyhow!("no randomness: {error}"))? | 1);
    // With less than a file may have on its way a long path would not be filled.
    let builder = Node::builder(id).bind(any).send_queue(WINDOW as usize);
    let builder = args.seal.apply(builder)?;
    let builder = args.layers.apply(builder);
    let node = key_log
        .apply(builder)
        .accept_unknown(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .dead_after(dead_after(Duration::from_secs(args.patience)))
        .linger(LINGER)
        .spin(SPIN)
        .open()?;
    node.add_peer(RECEIVER, addr).map_err(|error| match error {
        // Users know nothing of peers.
        Error::BadAddress { problem, .. } => Usage(format!(
            "`--to {}`: nobody can be at {addr}: {problem}",
            args.to
        ))
        .into(),
        error => anyhow!(error),
    })?;
    let max_rate = args.max_rate.map(|rate| rate.payload_bytes_per_s() as u64);
    node.set_max_pacing_rate(RECEIVER, max_rate)?;
    Ok(node)
}

/// When to give a silent receiver up, so that half of the patience at least is left to find it again.
fn dead_after(patience: Duration) -> Duration {
    (patience / 2).clamp(DEAD_AFTER_MIN, DEAD_AFTER)
}

fn roots(paths: &[PathBuf]) -> Result<Vec<Root>> {
    let roots: Vec<Root> = paths
        .iter()
        .map(|path| Root::new(path))
        .collect::<Result<_, _>>()?;
    for (index, root) in roots.iter().enumerate() {
        if roots[..index]
            .iter()
            .any(|other| other.path() == root.path())
        {
            let name = root.path();
            return Err(Usage(format!(
                "two of the paths have the name {name}, and would be one at the receiver: rename one, or send \
                 a folder that holds both"
            )).into());
        }
    }
    Ok(roots)
}

/// Sends everything; returns how much failed.
fn send<'a>(
    link: &'a Link<'a>,
    progress: &'a Progress,
    roots: &[Root],
    mut inboxes: Vec<Receiver<Answer>>,
) -> Result<u64, Trouble> {
    link.ready()?;
    let (found, entries) = mpsc::sync_channel(AHEAD);
    let sender = Sender {
        progress,
        entries: Mutex::new(entries),
        failed: AtomicU64::new(0),
        likely_there: AtomicBool::new(false),
        trouble: Mutex::new(None),
    };
    let control = inboxes.pop().map(|inbox| link.line(inboxes.len(), inbox));
    let folders = thread::scope(|scope| {
        for (job, inbox) in inboxes.into_iter().enumerate() {
            let sender = &sender;
            scope.spawn(move || sender.work(link.line(job, inbox)));
        }
        let finder = scope.spawn(|| sender.find(roots, found));
        finder.join().unwrap_or_default()
    });
    if let Some(trouble) = lock(&sender.trouble).take() {
        return Err(trouble);
    }
    match control {
        Some(line) => sender.end(line, &folders),
        None => Ok(0),
    }
}

/// Lets the thread that hands out answers end, also where the work panics: it would be waited for.
struct End<'a, 'b>(&'a Link<'b>);

impl Drop for End<'_, '_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sender<'_> {
    fn find(&self, roots: &[Root], found: SyncSender<Entry>) -> Vec<Folder> {
        let mut finder = Finder {
            sender: self,
            found,
        };
        roots
            .iter()
            .flat_map(|root| root.walk(roots, &mut finder))
            .collect()
    }

    fn work<'a>(&'a self, line: Line<'a>) {
        let mut uploader = Uploader::new(line, self.progress, &self.likely_there);
        while !self.is_stopped() {
            let Ok(entry) = lock(&self.entries).recv() else {
                return;
            };
            let (path, outcome) = match entry {
                Entry::File { source, path, size } => {
                    let outcome = uploader.file(&source, &path);
                    (path, outcome.map(|arrived| self.file_done(arrived, size)))
                }
                Entry::Link { path, target, meta } => {
                    let outcome = uploader.link(&path, &target, meta);
                    (path, outcome)
                }
            };
            match outcome {
                Ok(()) => {}
                Err(Failure::File(why)) => self.fail(format_args!("{path}: {why}")),
                Err(Failure::Link(trouble)) => *lock(&self.trouble) = Some(trouble),
            }
        }
        // Who finds files must not wait for room that nobody makes.
        lock(&self.entries).try_iter().for_each(drop);
    }

    fn is_stopped(&self) -> bool {
        lock(&self.trouble).is_some()
    }

    fn file_done(&self, arrived: Arrived, expected: u64) {
        self.progress.correct(expected, arrived.bytes);
        self.progress.file_done(arrived.spared);
    }

    fn fail(&self, what: impl std::fmt::Display) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.progress.note(what);
    }

    /// Makes the folders, and takes leave.
    fn end(&self, mut line: Line<'_>, folders: &[Folder]) -> Result<u64, Trouble> {
        let deepest_first: Vec<&Folder> = folders.iter().rev().collect();
        for batch in deepest_first.chunks(BATCH) {
            let replies = persist(&mut line, |line| folder_batch(line, batch))?;
            for (folder, reply) in batch.iter().zip(replies) {
                if let Reply::Refused(why) = reply {
                    self.fail(format_args!("{}: {}", folder.path, refused(&why)));
                }
            }
        }
        let failed = self.failed.load(Ordering::Relaxed);
        let totals = Totals {
            files: self.progress.files(),
            bytes: self.progress.bytes(),
            failed,
        };
        match persist(&mut line, |line| {
            line.ask(Ask::Bye(totals))?;
            line.reply()
        })? {
            Reply::Refused(why) => Err(Trouble::Hopeless(format!("the receiver: {why}"))),
            _ => Ok(failed),
        }
    }
}

/// Repeats what a break of the connection ended.
fn persist<'a, T>(
    line: &mut Line<'a>,
    mut what: impl FnMut(&Line<'a>) -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    loop {
        match line.begin().and_then(|()| what(line)) {
            Err(Trouble::Lost) => {}
            done => return done,
        }
    }
}

fn folder_batch(line: &Line<'_>, batch: &[&Folder]) -> Result<Vec<Reply>, Trouble> {
    for folder in batch {
        line.ask(Ask::Folder {
            path: folder.path.as_bytes().to_vec(),
            meta: folder.meta,
        })?;
    }
    batch.iter().map(|_| line.reply()).collect()
}

/// Passes what is found to those who send it.
struct Finder<'a, 'b> {
    sender: &'a Sender<'b>,
    found: SyncSender<Entry>,
}

impl Visitor for Finder<'_, '_> {
    fn found(&mut self, entry: Entry) -> bool {
        if let Entry::File { size, .. } = &entry {
            self.sender.progress.expect(*size);
        }
        !self.sender.is_stopped() && self.found.send(entry).is_ok()
    }

    fn skipped(&mut self, path: &Path, why: &str) {
        let path = Shown(path.as_os_str().as_bytes());
        self.sender
            .progress
            .note(format_args!("skipped {path}: {why}"));
    }

    fn failed(&mut self, path: &Path, why: &io::Error) {
        let path = Shown(path.as_os_str().as_bytes());
        self.sender
            .fail(format_args!("{path}: {}", unreadable(why)));
    }
}
