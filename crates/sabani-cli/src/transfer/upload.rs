//! One file on its way out.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::mem;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::link::{Line, Trouble};
use super::path::RelativePath;
use super::progress::Progress;
use super::protocol::{Ask, Bytes, CHUNK, FileInfo, Meta, Reply, SMALL, WINDOW};
use super::store::{digest, hash_prefix};
use super::walk;
use crate::interrupt::TICK;

/// A file that changes while it is read is tried so many times.
const TRIES: u32 = 3;

/// A file that is at the receiver.
pub struct Arrived {
    /// Its length.
    pub bytes: u64,
    /// It was there before.
    pub spared: bool,
}

/// Why a file was not sent.
#[derive(Debug)]
pub enum Failure {
    /// Nothing can be sent any more.
    Link(Trouble),
    /// This file can't; why.
    File(String),
}

/// Why an attempt ended without success.
enum Setback {
    Link(Trouble),
    File(String),
    /// What arrived is not what is here: the file has changed.
    Changed,
    /// Another sender is at it.
    Busy,
}

impl From<Trouble> for Setback {
    fn from(trouble: Trouble) -> Self {
        Setback::Link(trouble)
    }
}

impl From<io::Error> for Setback {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Setback::Changed,
            _ if Errno::from_io_error(&error) == Some(Errno::MFILE) => Setback::File(format!(
                "{error}: raise this process's limit (`ulimit -n`), or send with fewer `--jobs`"
            )),
            _ => Setback::File(walk::unreadable(&error)),
        }
    }
}

/// Sends files on one job's line.
pub struct Uploader<'a> {
    line: Line<'a>,
    progress: &'a Progress,
    /// Whether the last file had been there already: then ask before the next is sent.
    likely_there: &'a AtomicBool,
    /// Bytes of this file that the receiver is known to have, as the progress bar shows them.
    there: Bytes,
    /// Bytes of it that the receiver had when it was first asked.
    had: Option<u64>,
}

impl<'a> Uploader<'a> {
    /// An uploader for this line.
    pub fn new(line: Line<'a>, progress: &'a Progress, likely_there: &'a AtomicBool) -> Self {
        Uploader {
            line,
            progress,
            likely_there,
            there: Bytes::default(),
            had: None,
        }
    }

    /// Sends a file, however often the connection breaks.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn file(&mut self, source: &Path, path: &RelativePath) -> Result<Arrived, Failure> {
        (self.there, self.had) = (Bytes::default(), None);
        let started = Instant::now();
        let mut tries = 0;
        loop {
            match self.attempt(source, path) {
                Ok(arrived) => return Ok(arrived),
                Err(Setback::Link(Trouble::Lost)) => {}
                Err(Setback::Link(trouble)) => return Err(Failure::Link(trouble)),
                Err(Setback::File(why)) => return Err(Failure::File(why)),
                Err(Setback::Changed) => {
                    tries += 1;
                    if tries == TRIES {
                        return Err(Failure::File("it changes while it is sent".into()));
                    }
                }
                Err(Setback::Busy) if started.elapsed() > self.line.link().patience() => {
                    return Err(Failure::File("another sender is sending it".into()));
                }
                Err(Setback::Busy) => thread::sleep(TICK),
            }
        }
    }

    fn attempt(&mut self, source: &Path, path: &RelativePath) -> Result<Arrived, Setback> {
        let mut file = open(source)?;
        let info = walk::describe(path.as_bytes(), &file.metadata()?);
        self.line.begin()?;
        let already = match info.size <= SMALL && !self.likely_there.load(Ordering::Relaxed) {
            true => self.put(&mut file, &info)?,
            false => self.offer(&mut file, &info)?,
        };
        self.likely_there.store(already, Ordering::Relaxed);
        Ok(Arrived {
            bytes: info.size,
            // It may have come with an attempt before this one.
            spared: already && self.there.moved == 0,
        })
    }

    /// A small file in one message.
    fn put(&mut self, file: &mut File, info: &FileInfo) -> Result<bool, Setback> {
        let mut content = Vec::with_capacity(info.size as usize);
        file.take(info.size + 1).read_to_end(&mut content)?;
        unchanged(file, info)?;
        if content.len() as u64 != info.size {
            return Err(made_up(info));
        }
        let ask = Ask::Put {
            file: info.clone(),
            hash: *blake3::hash(&content).as_bytes(),
        };
        let request = self.line.request(ask);
        let mut message = request.encode(content.len());
        message.extend_from_slice(&content);
        let is_first = self.had.is_none();
        // What comes in one message is there as a whole or not at all.
        self.had = Some(0);
        self.line.send(&request, message)?;
        let already = done(self.line.reply()?)?;
        // What was there only at a later try was moved by an earlier one.
        let spared = already && is_first;
        self.begin_with(match spared {
            true => Bytes::spared(info.size),
            false => Bytes::moved(info.size),
        });
        Ok(spared)
    }

    /// A larger file in pieces, beginning where the receiver's copy ends.
    fn offer(&mut self, file: &mut File, info: &FileInfo) -> Result<bool, Setback> {
        self.line.ask(Ask::Offer(info.clone()))?;
        let mut hasher = self.same_prefix(file, info)?;
        let offset = hasher.count();
        // What is there of an attempt before this one was moved now.
        let spared = offset.min(*self.had.get_or_insert(offset));
        let moved = offset - spared;
        self.begin_with(Bytes { moved, spared });
        self.stream(file, info, &mut hasher)?;
        unchanged(file, info)?;
        self.line.ask(Ask::Finish {
            hash: digest(&hasher),
        })?;
        loop {
            match self.line.reply()? {
                Reply::Written { bytes } => self.go_on_to(bytes.min(info.size)),
                other => {
                    let already = done(other)?;
                    self.go_on_to(info.size);
                    return Ok(already);
                }
            }
        }
    }

    /// What the receiver has, if it is the same here.
    fn same_prefix(&mut self, file: &mut File, info: &FileInfo) -> Result<blake3::Hasher, Setback> {
        let progress = self.progress;
        let mut check = None;
        // The receiver reads it, then this end.
        let of_both = |bytes: u64| progress.check(2 * bytes.min(info.size));
        let (have, hash) = loop {
            match self.line.reply()? {
                Reply::Checking { bytes, of } => {
                    check.get_or_insert_with(|| of_both(of)).reach(bytes);
                    self.line.check()?;
                }
                Reply::Start { have, hash } => break (have.min(info.size), hash),
                other => return Err(unexpected(other)),
            }
        };
        let check = check.get_or_insert_with(|| of_both(have));
        let mut hasher = hash_prefix(&*file, have, |bytes| {
            check.reach(have + bytes);
            self.line.check().map_err(Setback::from)
        })?;
        if digest(&hasher) != hash {
            hasher.reset();
            file.rewind()?;
        }
        Ok(hasher)
    }

    fn stream(
        &mut self,
        file: &mut File,
        info: &FileInfo,
        hasher: &mut blake3::Hasher,
    ) -> Result<(), Setback> {
        file.seek(SeekFrom::Start(hasher.count()))?;
        while hasher.count() < info.size {
            let offset = hasher.count();
            self.await_room(offset)?;
            let len = (info.size - offset).min(CHUNK as u64) as usize;
            let request = self.line.request(Ask::Data { offset });
            let mut message = request.encode(len);
            let head = message.len();
            if (&mut *file).take(len as u64).read_to_end(&mut message)? < len {
                unchanged(file, info)?;
                return Err(made_up(info));
            }
            hasher.update(&message[head..]);
            self.line.send(&request, message)?;
        }
        match file.read(&mut [0])? {
            0 => Ok(()),
            _ => unchanged(file, info).and(Err(made_up(info))),
        }
    }

    /// Waits until what is under way fits into the window.
    fn await_room(&mut self, offset: u64) -> Result<(), Setback> {
        loop {
            let reply = match self.line.try_reply() {
                Some(reply) => reply,
                None if offset - self.there.sum() < WINDOW => return Ok(()),
                None => self.line.reply()?,
            };
            match reply {
                Reply::Written { bytes } => self.go_on_to(bytes.min(offset)),
                other => return Err(unexpected(other)),
            }
        }
    }

    /// The receiver has said what it has: so much remains of what it had before a break.
    fn begin_with(&mut self, bytes: Bytes) {
        self.progress.undone(mem::replace(&mut self.there, bytes));
        self.progress.done(bytes);
    }

    /// The receiver has the file up to here.
    fn go_on_to(&mut self, end: u64) {
        let more = end.saturating_sub(self.there.sum());
        self.there.moved += more;
        self.progress.done(Bytes::moved(more));
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn link(&mut self, path: &RelativePath, target: &[u8], meta: Meta) -> Result<(), Failure> {
        loop {
            let ask = Ask::Link {
                path: path.as_bytes().to_vec(),
                target: target.to_vec(),
                meta,
            };
            let line = &mut self.line;
            let asked = line.begin().and_then(|()| line.ask(ask));
            match asked.and_then(|()| line.reply()) {
                Ok(Reply::Refused(why)) => return Err(Failure::File(refused(&why))),
                Ok(_) => return Ok(()),
                Err(Trouble::Lost) => {}
                Err(trouble) => return Err(Failure::Link(trouble)),
            }
        }
    }
}

/// Opens a file to read, but no link, and no pipe that would block.
fn open(source: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(source)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no longer a file")),
    }
}

fn unchanged(file: &File, info: &FileInfo) -> Result<(), Setback> {
    let now = walk::describe(&info.path, &file.metadata()?);
    match now == *info {
        true => Ok(()),
        false => Err(Setback::Changed),
    }
}

/// A file whose length is none: the system makes the content when it is read.
fn made_up(info: &FileInfo) -> Setback {
    Setback::File(format!(
        "it is said to have {} bytes, and does not: as in /proc and /sys, its content is made when it \
         is read; copy it to a file, and send that",
        info.size
    ))
}

fn done(reply: Reply) -> Result<bool, Setback> {
    match reply {
        Reply::Done { already } => Ok(already),
        other => Err(unexpected(other)),
    }
}

/// What the receiver says to something that it does not take.
pub fn refused(why: &str) -> String {
    format!("the receiver: {why}")
}

fn unexpected(reply: Reply) -> Setback {
    match reply {
        Reply::Busy => Setback::Busy,
        Reply::Forgotten => Setback::Link(Trouble::Lost),
        Reply::Mismatch => Setback::Changed,
        Reply::Refused(why) => Setback::File(refused(&why)),
        _ => Setback::File("the receiver gave an answer that makes no sense".into()),
    }
}
