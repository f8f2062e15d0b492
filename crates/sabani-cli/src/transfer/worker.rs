//! A thread of the receiver: does what some of the senders' jobs ask, in their order.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::Result;
use sabani::{Error, LinkState, Message, Node, PeerId};

use super::incoming::{self, Incoming};
use super::lease::{Leases, Owner};
use super::path::{BadPath, RelativePath, Shown};
use super::progress::Progress;
use super::protocol::{
    Answer, Ask, Bytes, FileInfo, Hash, JOBS_MAX, Meta, Reply, Request, TAG_ANSWER, Totals, VERSION,
};
use super::seldom::Seldom;
use super::store::{Store, explained};
use crate::key_log::KeyLog;
use crate::threads::Started;

/// What all workers share.
pub struct Shared {
    /// The transport.
    pub node: Node,
    /// For those who want to decrypt a capture.
    pub key_log: KeyLog,
    /// The folder.
    pub store: Store,
    /// Who writes what.
    pub leases: Leases,
    /// For the user.
    pub progress: Progress,
    /// What could not be taken, and the user does not know of.
    pub untaken: Mutex<Seldom>,
    /// Tells the main thread of senders that have finished.
    pub finished: mpsc::Sender<Totals>,
}

impl Shared {
    /// Whether a sender has a connection, though it may be silent for now.
    pub fn is_here(&self, sender: PeerId) -> bool {
        let state = self.state(sender);
        matches!(state, Some(LinkState::Open | LinkState::Silent))
    }

    /// Where a sender is, if it is known.
    pub fn address(&self, sender: PeerId) -> Option<SocketAddr> {
        self.node.peer_stats(sender)?.address
    }

    /// What a sender is called, for people.
    pub fn named(&self, sender: PeerId) -> String {
        match self.address(sender) {
            Some(address) => format!("the sender at {address}"),
            None => "a sender".into(),
        }
    }

    /// Whether a sender is here and not silent.
    pub fn is_heard(&self, sender: PeerId) -> bool {
        self.state(sender) == Some(LinkState::Open)
    }

    fn state(&self, sender: PeerId) -> Option<LinkState> {
        let stats = self.node.peer_stats(sender)?;
        Some(stats.state)
    }

    /// Answers a sender, unless that is gone, and will ask again when it is back, or takes no answers:
    /// nobody else is to wait for that.
    pub fn answer(&self, sender: PeerId, answer: &Answer) {
        if !self.is_here(sender) {
            return;
        }
        let answer = answer.encode();
        // The first send after a connection has ended tells of that alone; the sender may have made another one.
        if let Err(Error::PeerLost { .. }) = self.node.try_send(sender, TAG_ANSWER, &answer) {
            let _ = self.node.try_send(sender, TAG_ANSWER, &answer);
        }
    }

    /// Tells now and then what can't be taken, and why: a folder that takes nothing has that many times.
    fn tell_untaken(&self, sender: PeerId, path: Option<&[u8]>, why: &str) {
        let untaken = self.untaken.lock();
        let mut untaken = untaken.unwrap_or_else(PoisonError::into_inner);
        let Some(count) = untaken.add(1, 1, Instant::now()) else {
            return;
        };
        let what = path.map_or("what has come".into(), |path| Shown(path).brief());
        let sender = self.named(sender);
        let others = match count - 1 {
            0 => String::new(),
            others => format!(" (and {others} before it)"),
        };
        self.progress.note(format_args!(
            "cannot take {what} from {sender}{others}: {why}"
        ));
    }

    /// Ends a file before it is whole.
    fn abandon(&self, file: Incoming) {
        let path = file.path().clone();
        file.abandon(&self.store);
        self.leases.release(&path);
    }
}

/// Threads that write for one sender: several, because each waits for the disk at the end of each file.
const WORKERS: usize = 8;
/// Messages that wait for a worker before those behind them must wait as well: each is up to a chunk of memory
/// that the node no longer counts.
const QUEUE: usize = 2;

/// Those who write for one sender. Each begins when there is something for it to do.
#[derive(Default)]
pub struct Workers([Option<(SyncSender<Message>, JoinHandle<()>)>; WORKERS]);

impl Workers {
    /// Hands a message to the worker that has its job, once that has room for it.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn work(&mut self, shared: &Arc<Shared>, job: u32, message: Message) -> Result<()> {
        let place = &mut self.0[job as usize % WORKERS];
        let (tasks, _) = match place {
            Some(worker) => worker,
            none => none.insert(start(shared)?),
        };
        // It takes them until it is dismissed, whatever becomes of them.
        let _ = tasks.send(message);
        Ok(())
    }

    /// Has them do what they have been handed, and give back what they hold.
    pub fn dismiss(&mut self) {
        for (tasks, thread) in self.0.iter_mut().filter_map(Option::take) {
            drop(tasks);
            let _ = thread.join();
        }
    }
}

fn start(shared: &Arc<Shared>) -> Result<(SyncSender<Message>, JoinHandle<()>)> {
    let (sender, tasks) = mpsc::sync_channel(QUEUE);
    let shared = shared.clone();
    let thread = spawn("writer".into(), move || Worker::new(&shared).run(tasks))?;
    Ok((sender, thread))
}

/// Starts a thread.
///
/// # Errors
/// If the system has none left.
pub fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = thread::Builder::new().name(name).spawn(work);
    thread.started("a thread")
}

/// A worker and the files it works on.
pub struct Worker<'a> {
    shared: &'a Shared,
    jobs: HashMap<Owner, Job>,
}

struct Job {
    attempt: u64,
    file: Incoming,
}

impl<'a> Worker<'a> {
    /// A worker without work.
    pub fn new(shared: &'a Shared) -> Self {
        Worker {
            shared,
            jobs: HashMap::new(),
        }
    }

    /// Works until there will be no more to do.
    pub fn run(mut self, requests: mpsc::Receiver<Message>) {
        requests.iter().for_each(|message| self.request(&message));
        for (_, job) in self.jobs {
            self.shared.abandon(job.file);
        }
    }

    fn request(&mut self, message: &Message) {
        let Ok((request, content)) = Request::decode(message.body()) else {
            return;
        };
        let peer = message.source;
        let (job, attempt) = (request.job, request.attempt);
        let totals = match &request.ask {
            Ask::Bye(totals) => Some(*totals),
            _ => None,
        };
        let owner = (peer, job);
        let reply = self.survive(owner, |worker| worker.perform(peer, request, content));
        let Some(reply) = reply else { return };
        let totals = totals.filter(|_| matches!(reply, Reply::Done { .. }));
        let answer = Answer {
            job,
            attempt,
            reply,
        };
        self.shared.answer(peer, &answer);
        // The program may end with that, so the answer comes first.
        if let Some(totals) = totals {
            let _ = self.shared.finished.send(totals);
        }
    }

    /// A mistake of this program's is told to whom it hits, who would wait for an answer forever, and to nobody
    /// else.
    fn survive(
        &mut self,
        owner: Owner,
        what: impl FnOnce(&mut Self) -> Option<Reply>,
    ) -> Option<Reply> {
        // Its jobs are as they were, or without this one.
        let done = catch_unwind(AssertUnwindSafe(|| what(self)));
        done.unwrap_or_else(|_| {
            self.drop_job(owner);
            self.shared.leases.release_all_of(owner);
            let why = "it has failed, by a mistake of its own: what it said there on standard error helps to find it";
            Some(Reply::Refused(why.into()))
        })
    }

    fn perform(&mut self, peer: PeerId, request: Request, content: &[u8]) -> Option<Reply> {
        let owner = (peer, request.job);
        let attempt = request.attempt;
        if request.job >= JOBS_MAX {
            let why = format!("a sender has at most {JOBS_MAX} jobs");
            return Some(Reply::Refused(why));
        }
        let path = self.path_of(owner, &request.ask);
        let done = match request.ask {
            Ask::Hello { version } => Ok(Some(greet(version))),
            Ask::Offer(info) => self.offer(owner, attempt, info),
            Ask::Data { offset } => self.data(owner, attempt, offset, content),
            Ask::Finish { hash } => self.finish(owner, attempt, &hash).map(Some),
            Ask::Put { file, hash } => self.put(owner, &file, &hash, content).map(Some),
            Ask::Link { path, target, meta } => self.link(&path, &target, &meta).map(Some),
            Ask::Folder { path, meta } => parse(&path)
                .and_then(|path| self.shared.store.folder(&path, &meta))
                .map(|()| Some(Reply::Done { already: false })),
            Ask::Bye(_) => self.bye().map(Some),
        };
        done.unwrap_or_else(|error| {
            self.drop_job(owner);
            let why = explained(&error);
            self.shared.tell_untaken(peer, path.as_deref(), &why);
            Some(Reply::Refused(why))
        })
    }

    /// What a request is about.
    fn path_of(&self, owner: Owner, ask: &Ask) -> Option<Vec<u8>> {
        let path = match ask {
            Ask::Offer(file) | Ask::Put { file, .. } => &file.path,
            Ask::Link { path, .. } | Ask::Folder { path, .. } => path,
            Ask::Data { .. } | Ask::Finish { .. } => self.jobs.get(&owner)?.file.path().as_bytes(),
            Ask::Hello { .. } | Ask::Bye(_) => return None,
        };
        Some(path.to_vec())
    }

    fn drop_job(&mut self, owner: Owner) {
        if let Some(job) = self.jobs.remove(&owner) {
            self.shared.abandon(job.file);
        }
    }

    fn offer(&mut self, owner: Owner, attempt: u64, info: FileInfo) -> io::Result<Option<Reply>> {
        self.drop_job(owner);
        let path = parse(&info.path)?;
        if !self.shared.leases.take(&path, owner) {
            return Ok(Some(Reply::Busy));
        }
        let mut check = None;
        let reached = |bytes, of| {
            let check = check.get_or_insert_with(|| self.shared.progress.check(of));
            check.reach(bytes);
            let (job, reply) = (owner.1, Reply::Checking { bytes, of });
            let answer = Answer {
                job,
                attempt,
                reply,
            };
            self.shared.answer(owner.0, &answer);
            // A check may take minutes, and others could not have the file meanwhile.
            match self.shared.is_here(owner.0) {
                true => Ok(()),
                false => Err(io::Error::other("the sender is gone")),
            }
        };
        match Incoming::open(&self.shared.store, path.clone(), info, reached) {
            Ok(file) => {
                let start = file.start();
                self.jobs.insert(owner, Job { attempt, file });
                Ok(Some(start))
            }
            Err(error) => {
                self.shared.leases.release(&path);
                // That it is gone is said elsewhere, and nobody else wants to know more.
                match self.shared.is_here(owner.0) {
                    true => Err(error),
                    false => Ok(None),
                }
            }
        }
    }

    fn job(&mut self, owner: Owner, attempt: u64) -> Option<&mut Job> {
        self.jobs
            .get_mut(&owner)
            .filter(|job| job.attempt == attempt)
    }

    fn data(
        &mut self,
        owner: Owner,
        attempt: u64,
        offset: u64,
        content: &[u8],
    ) -> io::Result<Option<Reply>> {
        let shared = self.shared;
        let Some(job) = self.job(owner, attempt) else {
            return Ok(Some(Reply::Forgotten));
        };
        let reply = job.file.write(&shared.store, offset, content)?;
        shared.progress.done(Bytes::moved(content.len() as u64));
        Ok(reply)
    }

    fn take_job(&mut self, owner: Owner, attempt: u64) -> Option<Job> {
        self.job(owner, attempt)?;
        self.jobs.remove(&owner)
    }

    fn finish(&mut self, owner: Owner, attempt: u64, hash: &Hash) -> io::Result<Reply> {
        let Some(job) = self.take_job(owner, attempt) else {
            return Ok(Reply::Forgotten);
        };
        let path = job.file.path().clone();
        let reply = job.file.finish(&self.shared.store, hash);
        self.shared.leases.release(&path);
        self.count(&reply);
        reply
    }

    fn put(
        &mut self,
        owner: Owner,
        info: &FileInfo,
        hash: &Hash,
        content: &[u8],
    ) -> io::Result<Reply> {
        self.drop_job(owner);
        let path = parse(&info.path)?;
        if !self.shared.leases.take(&path, owner) {
            return Ok(Reply::Busy);
        }
        let reply = incoming::put(&self.shared.store, &path, info, hash, content);
        self.shared.leases.release(&path);
        if matches!(reply, Ok(Reply::Done { already: false })) {
            self.shared.progress.done(Bytes::moved(info.size));
        }
        self.count(&reply);
        reply
    }

    fn count(&self, reply: &io::Result<Reply>) {
        // What was there already has been counted, or is none of this receiver's.
        if matches!(reply, Ok(Reply::Done { already: false })) {
            self.shared.progress.file_done(false);
        }
    }

    fn link(&mut self, path: &[u8], target: &[u8], meta: &Meta) -> io::Result<Reply> {
        let path = parse(path)?;
        if !path.keeps_inside(target) {
            return Err(io::Error::other(
                "the link may lead out of the receiver's folder",
            ));
        }
        self.shared.store.link(&path, target, meta)?;
        Ok(Reply::Done { already: false })
    }

    fn bye(&mut self) -> io::Result<Reply> {
        self.shared.store.sync()?;
        Ok(Reply::Done { already: false })
    }
}

fn parse(path: &[u8]) -> io::Result<RelativePath> {
    RelativePath::parse(path).map_err(|bad: BadPath| io::Error::other(bad))
}

/// What a sender's hello is answered.
pub fn greet(version: u16) -> Reply {
    match version {
        VERSION => Reply::Welcome { version },
        other => Reply::Refused(format!(
            "this receiver speaks version {VERSION} of the transfer protocol, the sender version \
             {other}: install the same Sabani on both sides"
        )),
    }
}

#[cfg(test)]
impl Shared {
    /// Of a receiver that nobody knows of.
    pub fn in_folder(folder: &std::path::Path) -> Self {
        let node = Node::builder(PeerId(0)).bind("127.0.0.1:0".parse().unwrap());
        Shared {
            node: node.plain(sabani::Checksum::None).open().unwrap(),
            key_log: crate::key_log::KeyLogArgs::default().open().unwrap(),
            store: Store::open(folder).unwrap(),
            leases: Leases::default(),
            progress: Progress::of_receiver(),
            untaken: Mutex::default(),
            finished: mpsc::channel().0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_older_attempt_leaves_the_newer_one_alone() {
        let folder = tempfile::tempdir().unwrap();
        let shared = Shared::in_folder(folder.path());
        let mut worker = Worker::new(&shared);
        let mut ask = |peer, attempt, ask| {
            let job = 0;
            let request = Request { job, attempt, ask };
            worker.perform(PeerId(peer), request, &[]).unwrap()
        };
        let file = FileInfo {
            path: b"file".to_vec(),
            size: 10,
            meta: Meta {
                mode: 0o644,
                seconds: 0,
                nanoseconds: 0,
            },
        };
        let (offer, finish) = (Ask::Offer(file), Ask::Finish { hash: [0; 32] });
        for attempt in 1..=2 {
            let start = ask(1, attempt, offer.clone());
            assert!(matches!(start, Reply::Start { have: 0, .. }));
        }
        assert_eq!(ask(1, 1, finish.clone()), Reply::Forgotten);
        assert_eq!(ask(2, 1, offer.clone()), Reply::Busy);
        assert_eq!(ask(1, 2, finish), Reply::Mismatch);
        assert!(matches!(ask(2, 1, offer), Reply::Start { .. }));
    }

    #[test]
    fn what_panics_is_answered_and_holds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let shared = Shared::in_folder(folder.path());
        let (hit, other) = ((PeerId(1), 0), (PeerId(1), 1));
        let [path, held] = [&b"path"[..], b"held"].map(|path| RelativePath::parse(path).unwrap());
        assert!(shared.leases.take(&held, other));
        let mut worker = Worker::new(&shared);
        let reply = worker.survive(hit, |worker| {
            assert!(worker.shared.leases.take(&path, hit));
            panic!("a mistake");
        });
        assert!(matches!(reply, Some(Reply::Refused(_))));
        let newcomer = (PeerId(2), 0);
        assert!(shared.leases.take(&path, newcomer));
        assert!(!shared.leases.take(&held, newcomer));
        let reply = worker.survive(hit, |_| Some(Reply::Busy));
        assert_eq!(reply, Some(Reply::Busy));
    }
}
