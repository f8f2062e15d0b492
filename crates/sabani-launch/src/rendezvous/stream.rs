//! A connection of either kind.

use std::io::{IoSlice, Read, Result, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A socket pair's end, or a TCP connection.
#[derive(Debug)]
pub enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    pub fn set_nonblocking(&self, on: bool) -> Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_nonblocking(on),
            Stream::Tcp(stream) => stream.set_nonblocking(on),
        }
    }

    pub fn set_read_timeout(&self, time: Option<Duration>) -> Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_read_timeout(time),
            Stream::Tcp(stream) => stream.set_read_timeout(time),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(bytes),
            Stream::Tcp(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write_vectored(pieces),
            Stream::Tcp(stream) => stream.write_vectored(pieces),
        }
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}
