//! Bytes on their way out of a stream.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, Result, Write};
use std::sync::Arc;

/// What is shorter is copied: a piece of its own would take as much.
const SHARED_MIN: usize = 1 << 10;
/// Pieces for one system call.
const PIECES_MAX: usize = 16;

/// What is to be written, in order. What many streams have to write is there once.
#[derive(Debug, Default)]
pub struct Output {
    pieces: VecDeque<Piece>,
    /// So much of the first piece is written.
    written: usize,
}

#[derive(Debug)]
enum Piece {
    Own(Vec<u8>),
    Shared(Arc<[u8]>),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Piece::Own(bytes) => bytes,
            Piece::Shared(bytes) => bytes,
        }
    }
}

impl Output {
    /// Queues a copy.
    pub fn push(&mut self, bytes: &[u8]) {
        match self.pieces.back_mut() {
            Some(Piece::Own(own)) => own.extend(bytes),
            _ => self.pieces.push_back(Piece::Own(bytes.to_vec())),
        }
    }

    /// Queues what others may queue as well.
    pub fn share(&mut self, bytes: &Arc<[u8]>) {
        if bytes.len() < SHARED_MIN {
            return self.push(bytes);
        }
        self.pieces.push_back(Piece::Shared(bytes.clone()));
    }

    /// Whether nothing waits to be written.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Writes what the stream takes.
    ///
    /// # Errors
    /// Those of the stream, but [`ErrorKind::WouldBlock`].
    pub fn write(&mut self, stream: &mut impl Write) -> Result<()> {
        while !self.is_empty() {
            let pieces = self.pieces.iter().map(Piece::bytes).enumerate();
            let slices: Vec<_> = pieces
                .take(PIECES_MAX)
                .map(|(at, bytes)| IoSlice::new(&bytes[if at == 0 { self.written } else { 0 }..]))
                .collect();
            match stream.write_vectored(&slices) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.advance(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// So many more bytes are written.
    fn advance(&mut self, count: usize) {
        self.written += count;
        while let Some(first) = self.pieces.front()
            && first.bytes().len() <= self.written
        {
            self.written -= first.bytes().len();
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a few bytes at a time, and nothing at all each other time.
    #[derive(Default)]
    struct Slow {
        taken: Vec<u8>,
        rests: bool,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> Result<usize> {
            self.rests = !self.rests;
            if self.rests {
                return Err(ErrorKind::WouldBlock.into());
            }
            let count = bytes.len().min(700);
            self.taken.extend(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn pieces_leave_in_order_however_they_are_taken() {
        let long: Arc<[u8]> = (0..5_000_u32).map(|at| at as u8).collect();
        let short: Arc<[u8]> = b"short".as_slice().into();
        let mut output = Output::default();
        output.push(b"begin");
        output.share(&long);
        output.push(b"between");
        output.share(&short);
        output.share(&long);
        assert_eq!(Arc::strong_count(&long), 3, "it is there once");
        assert_eq!(Arc::strong_count(&short), 1, "it was copied");
        let mut slow = Slow::default();
        while !output.is_empty() {
            output.write(&mut slow).unwrap();
        }
        let expected = [b"begin", &long[..], b"betweenshort", &long[..]].concat();
        assert_eq!(slow.taken, expected);
        assert_eq!(Arc::strong_count(&long), 1);
        output.push(b"more");
        let mut all = Vec::new();
        output.write(&mut all).unwrap();
        assert_eq!(all, b"more");
    }
}
