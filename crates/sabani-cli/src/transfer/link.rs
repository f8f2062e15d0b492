//! The sender's way to the receiver: greets it, comes back to it after a break, and sorts its answers.

use std::fmt;
use std::mem;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use sabani::{ConnectError, Error, Event, Match, Message, Node, PeerLost, RejectReason};

use super::path::Shown;
use super::progress::Progress;
use super::protocol::{ANSWER_MAX, Answer, Ask, RECEIVER, Reply, Request, TAG_ANSWER, VERSION};
use super::{CONNECT_TIMEOUT, Received, receive};
use crate::interrupt::{self, TICK};
use crate::key_log::KeyLog;

/// The first pause before another try to reach the receiver; it doubles.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Answers that a job may have to look at: those to all that may be on its way, of several attempts.
const ANSWERS_MAX: usize = 256;
/// Who waits longer than this is told what for.
const UNTOLD: Duration = Duration::from_secs(1);

/// Why a job can't go on.
#[derive(Debug)]
pub enum Trouble {
    /// The connection broke: begin the attempt anew.
    Lost,
    /// The user wants to stop.
    Interrupted,
    /// The receiver can't be reached, or is of no use; why.
    Hopeless(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Lost => f.write_str("the connection broke"),
            Trouble::Interrupted => f.write_str("interrupted"),
            Trouble::Hopeless(why) => f.write_str(why),
        }
    }
}

/// The connection, for all jobs.
pub struct Link<'a> {
    node: Node,
    key_log: KeyLog,
    addr: SocketAddr,
    /// How long the receiver may be gone.
    patience: Duration,
    progress: &'a Progress,
    /// Breaks so far.
    breaks: AtomicU64,
    attempts: AtomicU64,
    closing: AtomicBool,
    presence: Mutex<Presence>,
    /// Where answers go: one for each job, and the last for greetings.
    inboxes: Vec<SyncSender<Answer>>,
    greeting: Mutex<Greeting>,
    /// Who waits for room in the transport's queue does so alone, so that all can be stopped.
    gate: Mutex<()>,
}

/// What is known of the receiver.
#[derive(Default)]
struct Presence {
    /// It has answered, sometime.
    heard: bool,
    /// When it was last heard, if it is gone.
    gone: Option<Instant>,
    /// The user knows that it is gone.
    told: bool,
}

impl Presence {
    fn answered(&mut self) {
        *self = Presence {
            heard: true,
            gone: None,
            told: false,
        };
    }

    fn lost(&mut self, why: &PeerLost) {
        let silent = match why {
            PeerLost::Silent { time, .. } => *time,
            _ => Duration::ZERO,
        };
        let now = Instant::now();
        self.gone
            .get_or_insert(now.checked_sub(silent).unwrap_or(now));
    }

    /// Whether it is gone, and this is the first to ask.
    fn is_newly_gone(&mut self) -> bool {
        self.heard && self.gone.is_some() && !mem::replace(&mut self.told, true)
    }
}

/// Something that is waited for; the user hears of it once if it takes long.
struct Wait {
    since: Instant,
    told: bool,
}

impl Wait {
    fn begin() -> Self {
        Wait {
            since: Instant::now(),
            told: false,
        }
    }

    fn tell(&mut self, progress: &Progress, what: impl fmt::Display) {
        if self.since.elapsed() >= UNTOLD && !mem::replace(&mut self.told, true) {
            progress.note(what);
        }
    }
}

struct Greeting {
    inbox: Receiver<Answer>,
    /// The count of breaks at which the receiver was last greeted.
    greeted: Option<u64>,
}

/// One job's end of a [`Link`].
pub struct Line<'a> {
    link: &'a Link<'a>,
    inbox: Receiver<Answer>,
    job: u32,
    attempt: u64,
    breaks: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Link<'a> {
    /// A link for so many jobs, and the inboxes of these.
    pub fn new(
        node: Node,
        key_log: KeyLog,
        addr: SocketAddr,
        patience: Duration,
        progress: &'a Progress,
        jobs: usize,
    ) -> (Self, Vec<Receiver<Answer>>) {
        let (inboxes, mut ends): (Vec<_>, Vec<_>) =
            (0..=jobs).map(|_| mpsc::sync_channel(ANSWERS_MAX)).unzip();
        let (inbox, greeted) = (ends.remove(jobs), None);
        let link = Link {
            node,
            key_log,
            addr,
            patience,
            progress,
            breaks: AtomicU64::new(0),
            attempts: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            presence: Mutex::new(Presence::default()),
            inboxes,
            greeting: Mutex::new(Greeting { inbox, greeted }),
            gate: Mutex::new(()),
        };
        (link, ends)
    }

    /// A job's line.
    pub fn line(&'a self, job: usize, inbox: Receiver<Answer>) -> Line<'a> {
        Line {
            link: self,
            inbox,
            job: job as u32,
            attempt: 0,
            breaks: 0,
        }
    }

    /// Hands out answers until [`Link::close`].
    pub fn deliver(&self) {
        while !self.closing.load(Ordering::Relaxed) {
            let received = receive(&self.node, Match::any(), ANSWER_MAX);
            while let Some(event) = self.next_event() {
                if let Event::Lost { why, .. } = event {
                    lock(&self.presence).lost(&why);
                    self.breaks.fetch_add(1, Ordering::Release);
                }
            }
            // Nobody but the receiver is let in, and what can't be taken is none of its answers.
            if let Ok(Received::Message(message)) = received
                && message.tag == TAG_ANSWER
            {
                self.sort(&message);
            }
        }
    }

    /// Gives an answer to the job that waits for it.
    fn sort(&self, message: &Message) {
        lock(&self.presence).answered();
        let Ok(mut answer) = Answer::decode(message.body()) else {
            return;
        };
        if let Reply::Refused(why) = &mut answer.reply {
            *why = Shown(why.as_bytes()).brief();
        }
        if let Some(inbox) = self.inboxes.get(answer.job as usize) {
            // A job that has ended does not care, and no receiver sends more than there is room for, unless it
            // means ill.
            let _ = inbox.try_send(answer);
        }
    }

    fn next_event(&self) -> Option<Event> {
        let event = self.key_log.next_event(&self.node);
        event.unwrap_or_else(|error| {
            self.progress.note(format_args!("{error:#}"));
            None
        })
    }

    /// Ends [`Link::deliver`].
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// How long the receiver may be gone.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Returns once the receiver has been greeted after the last break, with the count of breaks.
    ///
    /// # Errors
    /// [`Trouble::Hopeless`] if it can't be reached at first, or for too long later.
    pub fn ready(&self) -> Result<u64, Trouble> {
        let mut greeting = lock(&self.greeting);
        let mut pause = PAUSE;
        loop {
            check_interrupt()?;
            let breaks = self.breaks.load(Ordering::Acquire);
            if greeting.greeted == Some(breaks) {
                return Ok(breaks);
            }
            self.note_gone();
            match self.greet(&greeting.inbox, breaks)? {
                true => greeting.greeted = Some(breaks),
                false => {
                    self.rest(pause)?;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    /// Connects, and asks whether the receiver speaks our version. `false`: not now.
    fn greet(&self, inbox: &Receiver<Answer>, breaks: u64) -> Result<bool, Trouble> {
        if let Err(error) = self.connect()? {
            return match self.is_heard() {
                true => Ok(false),
                false => Err(Trouble::Hopeless(format!(
                    "can't reach a receiver at {}: {}",
                    self.addr,
                    reason(&error)
                ))),
            };
        }
        let attempt = self.next_attempt();
        let job = (self.inboxes.len() - 1) as u32;
        let hello = Request {
            job,
            attempt,
            ask: Ask::Hello { version: VERSION },
        };
        if self.post(&hello, hello.encode(0), breaks).is_err() {
            return Ok(false);
        }
        let mut wait = Wait::begin();
        while self.breaks.load(Ordering::Acquire) == breaks {
            self.hope()?;
            match inbox.recv_timeout(TICK) {
                Ok(answer) if answer.attempt != attempt => {}
                Ok(Answer {
                    reply: Reply::Refused(why),
                    ..
                }) => return Err(Trouble::Hopeless(why)),
                Ok(_) => return Ok(true),
                Err(_) if wait.since.elapsed() > self.patience.max(CONNECT_TIMEOUT) => {
                    return Err(Trouble::Hopeless(self.no_welcome()));
                }
                Err(_) => wait.tell(self.progress, self.no_welcome()),
            }
        }
        Ok(false)
    }

    fn no_welcome(&self) -> String {
        format!(
            "the program at {} does not answer: is it `sabani receive`?",
            self.addr
        )
    }

    /// Waits for the connection, a little at a time.
    fn connect(&self) -> Result<Result<(), Error>, Trouble> {
        let mut wait = Wait::begin();
        loop {
            self.hope()?;
            match self.node.connect(RECEIVER, TICK) {
                // Nobody may give up because of what is known so far: it may be forged, or pass.
                Err(Error::Unconnected { why, .. }) if !self.is_heard() => wait.tell(
                    self.progress,
                    format_args!(
                        "{} {}, trying for {} s: {}",
                        unwelcome(&why),
                        self.addr,
                        CONNECT_TIMEOUT.as_secs(),
                        in_words(&why)
                    ),
                ),
                Err(Error::Unconnected { .. }) => {}
                done => return Ok(done),
            }
        }
    }

    /// Whether the receiver has answered, sometime.
    pub fn is_heard(&self) -> bool {
        lock(&self.presence).heard
    }

    /// How long a receiver that has answered has been gone.
    fn gone(&self) -> Option<Duration> {
        let presence = lock(&self.presence);
        let gone = presence.gone.filter(|_| presence.heard);
        gone.map(|since| since.elapsed())
    }

    /// Whether to go on trying.
    fn hope(&self) -> Result<(), Trouble> {
        check_interrupt()?;
        match self.gone() {
            Some(gone) if gone >= self.patience => Err(Trouble::Hopeless(format!(
                "the receiver at {} has been gone for {} s ({}): what arrived is kept; once it runs \
                 again, the same command goes on where this one stopped",
                self.addr,
                gone.as_secs(),
                self.why_gone()
            ))),
            _ => Ok(()),
        }
    }

    fn why_gone(&self) -> String {
        let stats = self.node.peer_stats(RECEIVER);
        match stats.and_then(|stats| stats.obstacle) {
            Some(obstacle) => obstacle.to_string(),
            None => "no answer".into(),
        }
    }

    /// Pauses between two tries, no longer than patience lasts.
    fn rest(&self, pause: Duration) -> Result<(), Trouble> {
        let begun = Instant::now();
        while begun.elapsed() < pause {
            self.hope()?;
            thread::sleep(TICK.min(pause));
        }
        Ok(())
    }

    /// Tells the user once that the receiver is gone.
    fn note_gone(&self) {
        if lock(&self.presence).is_newly_gone() {
            self.progress.note(format_args!(
                "the receiver is gone; waiting for it, at most {} s",
                self.patience.as_secs()
            ));
        }
    }

    fn next_attempt(&self) -> u64 {
        self.attempts.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn post(&self, request: &Request, message: Vec<u8>, breaks: u64) -> Result<(), Trouble> {
        let _gate = lock(&self.gate);
        loop {
            self.check(breaks)?;
            match self.node.wait_writable(RECEIVER, message.len(), TICK) {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => return Err(Trouble::Hopeless(error.to_string())),
            }
        }
        match self.node.send_owned(RECEIVER, request.tag(), message) {
            Ok(()) => Ok(()),
            Err(Error::PeerLost { .. }) => Err(Trouble::Lost),
            Err(error) => Err(Trouble::Hopeless(error.to_string())),
        }
    }

    fn check(&self, breaks: u64) -> Result<(), Trouble> {
        check_interrupt()?;
        match self.breaks.load(Ordering::Acquire) == breaks {
            true => Ok(()),
            false => Err(Trouble::Lost),
        }
    }
}

/// What is wrong with an address, so far.
fn unwelcome(why: &ConnectError) -> &'static str {
    match why {
        ConnectError::NoAnswer { .. } => "no receiver yet at",
        ConnectError::Rejected { .. } => "turned away by",
    }
}

/// Why there is no connection: a user knows nothing of peers.
fn reason(error: &Error) -> String {
    match error {
        Error::PeerLost {
            why: Some(PeerLost::Unreachable(why)),
            ..
        } => in_words(why),
        Error::PeerLost { why: Some(why), .. } => why.to_string(),
        error => error.to_string(),
    }
}

/// What keeps the two apart, with the options that help.
fn in_words(why: &ConnectError) -> String {
    match why {
        ConnectError::Rejected {
            reason: RejectReason::Mode,
            sealed: true,
            ..
        } => "the receiver has a job key, and this has none: say `--key FILE`, with a copy of its key, in place of \
              `--plain`"
            .into(),
        ConnectError::Rejected {
            reason: RejectReason::Mode,
            ..
        } => "the receiver is `--plain`, and this has a job key: say `--plain` here, or give it `--key FILE`, too".into(),
        ConnectError::Rejected {
            reason: RejectReason::Key,
            ..
        } => "the receiver has another job key: give both a copy of the same one with `--key FILE`".into(),
        why => why.to_string(),
    }
}

fn check_interrupt() -> Result<(), Trouble> {
    match interrupt::requested() {
        true => Err(Trouble::Interrupted),
        false => Ok(()),
    }
}

impl<'a> Line<'a> {
    /// The link.
    pub fn link(&self) -> &'a Link<'a> {
        self.link
    }

    /// Begins an attempt: answers to older ones no longer count.
    ///
    /// # Errors
    /// As [`Link::ready`].
    pub fn begin(&mut self) -> Result<(), Trouble> {
        self.breaks = self.link.ready()?;
        self.attempt = self.link.next_attempt();
        Ok(())
    }

    /// The head of a request.
    pub fn request(&self, ask: Ask) -> Request {
        Request {
            job: self.job,
            attempt: self.attempt,
            ask,
        }
    }

    /// Sends a request without content.
    ///
    /// # Errors
    /// [`Trouble`].
    pub fn ask(&self, ask: Ask) -> Result<(), Trouble> {
        let request = self.request(ask);
        let message = request.encode(0);
        self.send(&request, message)
    }

    /// Sends a request with what follows its head.
    ///
    /// # Errors
    /// [`Trouble`].
    pub fn send(&self, request: &Request, message: Vec<u8>) -> Result<(), Trouble> {
        self.link.post(request, message, self.breaks)
    }

    /// Waits for the next answer to this attempt.
    ///
    /// # Errors
    /// [`Trouble`].
    pub fn reply(&self) -> Result<Reply, Trouble> {
        loop {
            match self.inbox.recv_timeout(TICK) {
                Ok(answer) if answer.attempt == self.attempt => return Ok(answer.reply),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => self.check()?,
                Err(RecvTimeoutError::Disconnected) => return Err(Trouble::Interrupted),
            }
        }
    }

    /// Whether this attempt is still to go on: for those who work and wait for nothing.
    ///
    /// # Errors
    /// [`Trouble`].
    pub fn check(&self) -> Result<(), Trouble> {
        self.link.check(self.breaks)
    }

    /// The next answer to this attempt, if it is here.
    pub fn try_reply(&self) -> Option<Reply> {
        let mut answers = self.inbox.try_iter();
        let answer = answers.find(|answer| answer.attempt == self.attempt)?;
        Some(answer.reply)
    }
}
