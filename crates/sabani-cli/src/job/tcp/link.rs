//! A stream between two ranks, cut into messages.

use std::{
    io::{ErrorKind, IoSlice, Read, Write},
    net::TcpStream,
    os::fd::{AsFd, BorrowedFd},
};

use anyhow::{Context, Result, bail};

/// Before each message: how long it is.
const LENGTH_BYTES: usize = size_of::<u64>();
/// Room at first, and the least that is read at a time.
const READ_BYTES: usize = 256 << 10;

/// One end of a stream that never blocks.
pub struct Link {
    peer: usize,
    stream: TcpStream,
    /// What has come: the bytes from `begin` to `end` have not been taken.
    inbox: Vec<u8>,
    begin: usize,
    end: usize,
    /// What the system had no room for.
    outbox: Vec<u8>,
    /// So much of it has been sent since.
    sent: usize,
}

impl Link {
    pub fn new(peer: usize, stream: TcpStream) -> Self {
        Self {
            peer,
            stream,
            inbox: vec![0; READ_BYTES],
            begin: 0,
            end: 0,
            outbox: Vec::new(),
            sent: 0,
        }
    }

    /// Sends a message, or keeps what the system does not take now.
    ///
    /// # Errors
    /// If the peer is gone.
    pub fn send(&mut self, pieces: [&[u8]; 2]) -> Result<()> {
        let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
        let length = (bytes as u64).to_le_bytes();
        let all = [&length[..], pieces[0], pieces[1]];
        let mut taken = 0;
        if !self.is_blocked() {
            taken = self.write(&all)?;
        }
        for piece in all {
            let skipped = taken.min(piece.len());
            taken -= skipped;
            self.outbox.extend_from_slice(&piece[skipped..]);
        }
        Ok(())
    }

    /// Whether something waits until the system takes more.
    pub fn is_blocked(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Sends what waits and reads what is there, as far as the system takes and gives it, but no further than to the
    /// end of a message; whether that was anything.
    ///
    /// # Errors
    /// If the peer is gone.
    pub fn progress(&mut self) -> Result<bool> {
        Ok(self.flush()? | self.read()?)
    }

    fn flush(&mut self) -> Result<bool> {
        let mut any = false;
        while self.is_blocked() {
            let waiting = std::mem::take(&mut self.outbox);
            let written = self.write(&[&waiting[self.sent..]]);
            self.outbox = waiting;
            match written? {
                0 => break,
                bytes => self.sent += bytes,
            }
            any = true;
            if self.sent == self.outbox.len() {
                self.outbox.clear();
                self.sent = 0;
            }
        }
        Ok(any)
    }

    /// As much as the system takes at once.
    fn write(&mut self, pieces: &[&[u8]]) -> Result<usize> {
        let slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        match self.stream.write_vectored(&slices) {
            Ok(bytes) => Ok(bytes),
            Err(error) if is_passing(error.kind()) => Ok(0),
            Err(error) => Err(error).with_context(|| format!("cannot send to rank {}", self.peer)),
        }
    }

    fn read(&mut self) -> Result<bool> {
        let mut any = false;
        loop {
            self.make_room();
            match self.stream.read(&mut self.inbox[self.end..]) {
                Ok(0) => bail!("rank {} has closed its connection", self.peer),
                Ok(bytes) => self.end += bytes,
                Err(error) if is_passing(error.kind()) => return Ok(any),
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot hear rank {}", self.peer));
                }
            }
            any = true;
            if self.message().is_some() {
                return Ok(any);
            }
        }
    }

    /// The message that has come first, if all of it is there.
    pub fn message(&self) -> Option<&[u8]> {
        let come = &self.inbox[self.begin..self.end];
        come.get(LENGTH_BYTES..self.first_end()?)
    }

    /// Forgets that one.
    pub fn next(&mut self) {
        if let Some(end) = self.first_end() {
            self.begin += end;
        }
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        }
    }

    /// Where the first message ends, if its length has come.
    fn first_end(&self) -> Option<usize> {
        let come = &self.inbox[self.begin..self.end];
        let length = come.first_chunk::<LENGTH_BYTES>()?;
        Some(LENGTH_BYTES + u64::from_le_bytes(*length) as usize)
    }

    /// For the rest of the first message, and for some bytes at least.
    fn make_room(&mut self) {
        let needed = self
            .first_end()
            .unwrap_or(0)
            .max(self.end - self.begin + READ_BYTES);
        if self.begin + needed <= self.inbox.len() {
            return;
        }
        self.inbox.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        if needed > self.inbox.len() {
            self.inbox.resize(needed, 0);
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
