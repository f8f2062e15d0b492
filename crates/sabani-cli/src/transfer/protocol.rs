//! What the two programs say to each other, on top of Sabani's messages. Version 3.
//!
//! The receiver is peer 0; a sender takes a random id. A sender works on several files at a time,
//! each as a *job*, a small number. Every try at a file is a new *attempt* of its job; what belongs to
//! an older attempt is ignored by both sides. A message is the head (a [`Request`] or an [`Answer`]
//! in [postcard](https://postcard.jamesmunns.com/wire-format) encoding) and, for [`Ask::Put`] and
//! [`Ask::Data`], the bytes of the file behind it. Sabani keeps messages whole and in order.
//!
//! ```text
//! sender                                receiver
//! Hello{version}                  →
//!                                 ←     Welcome{version} | Refused
//! Offer{file}                     →                             a large file, or one likely there
//!                                 ←     Checking{bytes, of} …   while it reads what is there
//!                                 ←     Start{have, hash of that prefix} | Busy | Refused
//! Data{offset} bytes …            →                             from `have`, or 0 if hashes differ
//!                                 ←     Written{bytes} …        at most WINDOW bytes ahead of these
//! Finish{hash}                    →
//!                                 ←     Done | Mismatch | Refused
//! Put{file, hash} bytes           →                             a small file, at once
//!                                 ←     Done | Busy | Mismatch | Refused
//! Link, Folder                    →                             folders last, deepest first
//!                                 ←     Done | Refused
//! Bye                             →
//!                                 ←     Done                    everything is on the disk
//! ```
//!
//! Nothing is heard of a sender before its Hello was answered by Welcome, again after each break.
//! [`Ask::Data`] at offset 0 starts a file afresh. A receiver that loses a sender keeps what it has
//! of each file for the next [`Ask::Offer`] of the same path, size and modification time.

use std::fmt;

use sabani::PeerId;
use serde::{Deserialize, Serialize};

/// Version of this protocol.
pub const VERSION: u16 = 3;
/// The receiver's id.
pub const RECEIVER: PeerId = PeerId(0);
/// Tag of a sender's messages that carry no bytes of a file.
pub const TAG_REQUEST: u64 = 1;
/// Tag of [`Ask::Hello`]: what a receiver takes from senders that it does not know.
pub const TAG_HELLO: u64 = 4;
/// Tag of a sender's messages that carry bytes of a file.
pub const TAG_CONTENT: u64 = 2;
/// Tag of a receiver's messages.
pub const TAG_ANSWER: u64 = 3;
/// Bytes of a file in one message. 256 KiB were an eighth slower, and what is on its way of a message
/// is lost in a break.
pub const CHUNK: usize = 1 << 20;
/// The longest message of a sender: a chunk, and in front of it no more than a path or a link's target.
pub const REQUEST_MAX: u64 = CHUNK as u64 + (16 << 10);
/// The longest of a receiver: a reason why not.
pub const ANSWER_MAX: u64 = 64 << 10;
/// Files up to this size go in one [`Ask::Put`].
pub const SMALL: u64 = 128 << 10;
/// Bytes of one file that may be on their way or unwritten: fills 1 GB/s × 16 ms, and bounds the
/// memory that a job takes at the receiver.
pub const WINDOW: u64 = 16 << 20;
/// The receiver says how far it is after this many bytes.
pub const REPORT_EVERY: u64 = 2 << 20;

/// Files that a sender works on at a time, at most: each is open at the receiver. Their jobs have the
/// numbers below this.
pub const FILES_MAX: u16 = 256;
/// Jobs of a sender: beside those of files one that ends the conversation, and one that begins it.
pub const JOBS_MAX: u32 = FILES_MAX as u32 + 2;
/// The longest [`Ask::Hello`]: so short that it comes with its envelope.
pub const HELLO_MAX: u64 = 64;

/// BLAKE3 of a file's content or of a prefix of it.
pub type Hash = [u8; 32];

/// From a sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Which of the sender's jobs.
    pub job: u32,
    /// Which attempt of it.
    pub attempt: u64,
    /// What is asked.
    pub ask: Ask,
}

/// What a sender asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// Begins a conversation.
    Hello {
        /// The sender's version.
        version: u16,
    },
    /// How much of this file is there?
    Offer(FileInfo),
    /// The next bytes of the file offered; they follow the head.
    Data {
        /// Where they go.
        offset: u64,
    },
    /// The file offered has this content: check it and give it its name.
    Finish {
        /// Of the whole content.
        hash: Hash,
    },
    /// A whole small file; its bytes follow the head.
    Put {
        /// The file.
        file: FileInfo,
        /// Of the whole content.
        hash: Hash,
    },
    /// A symbolic link.
    Link {
        /// Its path.
        path: Vec<u8>,
        /// What it says.
        target: Vec<u8>,
        /// Its time; a link's permissions are nobody's concern.
        meta: Meta,
    },
    /// A folder, after what is in it.
    Folder {
        /// Its path.
        path: Vec<u8>,
        /// Permissions and time.
        meta: Meta,
    },
    /// That was all.
    Bye(Totals),
}

/// A file's name, and what tells one state of it from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    /// A [`super::path::RelativePath`].
    pub path: Vec<u8>,
    /// Length in bytes.
    pub size: u64,
    /// Permissions and time.
    pub meta: Meta,
}

/// Permissions and modification time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Permission bits, without set-user-id and the like.
    pub mode: u32,
    /// Modification time: seconds since 1970.
    pub seconds: i64,
    /// And nanoseconds.
    pub nanoseconds: u32,
}

/// Bytes of files at the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// That came now. What came twice because of a break counts once.
    pub moved: u64,
    /// That were there before.
    pub spared: u64,
}

impl Bytes {
    /// Only moved ones.
    pub fn moved(moved: u64) -> Self {
        Bytes { moved, spared: 0 }
    }

    /// Only spared ones.
    pub fn spared(spared: u64) -> Self {
        Bytes { moved: 0, spared }
    }

    /// All of them.
    pub fn sum(self) -> u64 {
        self.moved.saturating_add(self.spared)
    }
}

/// Files that are at the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// That came now, all of them or the rest.
    pub moved: u64,
    /// That were there before.
    pub spared: u64,
}

impl Files {
    /// All of them.
    pub fn sum(self) -> u64 {
        self.moved.saturating_add(self.spared)
    }
}

/// What a sender did, for the receiver's summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Files that are there now.
    pub files: Files,
    /// Bytes that are there now.
    pub bytes: Bytes,
    /// Files, folders and links that failed.
    pub failed: u64,
}

/// From a receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The job of the request.
    pub job: u32,
    /// Its attempt.
    pub attempt: u64,
    /// What is answered.
    pub reply: Reply,
}

/// What a receiver answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// To a [`Ask::Hello`].
    Welcome {
        /// The receiver's version.
        version: u16,
    },
    /// To an [`Ask::Offer`].
    Start {
        /// Bytes that are there.
        have: u64,
        /// Hash of these.
        hash: Hash,
    },
    /// Bytes of the file written so far.
    Written {
        /// Counted from the file's beginning.
        bytes: u64,
    },
    /// It is done.
    Done {
        /// It had been done before.
        already: bool,
    },
    /// What arrived does not have the hash announced; it was thrown away.
    Mismatch,
    /// Somebody else is sending this file now.
    Busy,
    /// The receiver knows nothing of the attempt: begin anew.
    Forgotten,
    /// It can't be done; why.
    Refused(String),
    /// To an [`Ask::Offer`], before [`Reply::Start`]: what is there is being read.
    Checking {
        /// So much of it has been.
        bytes: u64,
        /// That is there.
        of: u64,
    },
}

/// A message that is none of this protocol's.
#[derive(Debug)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message that is none of a file transfer's")
    }
}

impl std::error::Error for Malformed {}

impl Request {
    /// The message's tag.
    pub fn tag(&self) -> u64 {
        match self.ask {
            Ask::Put { .. } | Ask::Data { .. } => TAG_CONTENT,
            Ask::Hello { .. } => TAG_HELLO,
            _ => TAG_REQUEST,
        }
    }

    /// The head, with room for `content` bytes behind it.
    pub fn encode(&self, content: usize) -> Vec<u8> {
        encode(self, content)
    }

    /// A head and what follows it.
    pub fn decode(message: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        postcard::take_from_bytes(message).map_err(|_| Malformed)
    }
}

impl Answer {
    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        encode(self, 0)
    }

    /// An answer.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        postcard::from_bytes(message).map_err(|_| Malformed)
    }
}

fn encode(head: &impl Serialize, content: usize) -> Vec<u8> {
    const HEAD: usize = 64;
    let buffer = Vec::with_capacity(HEAD + content);
    // Only a type that can't be serialised fails here, and these can.
    postcard::to_extend(head, buffer).expect("a serialisable head")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_followed_by_content() {
        let request = Request {
            job: 3,
            attempt: 1 << 40,
            ask: Ask::Data { offset: 1 << 33 },
        };
        let mut message = request.encode(5);
        assert!(message.len() <= 64 && message.capacity() >= message.len() + 5);
        message.extend_from_slice(b"bytes");
        let (decoded, content) = Request::decode(&message).unwrap();
        assert_eq!((decoded, content), (request, &b"bytes"[..]));
    }

    #[test]
    fn nonsense_is_malformed() {
        for message in [&b""[..], &[255; 40], &[0, 0, 200]] {
            assert!(Request::decode(message).is_err());
            assert!(Answer::decode(message).is_err());
        }
    }
}
