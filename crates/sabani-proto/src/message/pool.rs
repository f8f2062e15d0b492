//! Buffers for bodies that arrive, and for copies of those to be sent, used again while they are warm.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

use bytemuck::allocation::try_zeroed_vec;

use super::Outbound;
use crate::error::SendError;

/// Most buffers kept for use again.
const KEPT: usize = 64;
/// Most bytes kept for use again.
const KEPT_BYTES: usize = 32 << 20;
/// Copies of bodies to be sent come from a pool if they are as long as this: allocators keep the memory of
/// shorter ones warm themselves.
const OUTBOUND_MIN: usize = 16 << 10;

#[derive(Debug, Default)]
struct Kept {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

/// Takes back the buffers of messages that the program has dropped, and of those that have been
/// acknowledged: fresh memory would have to be faulted in and cleared, which takes longer than
/// receiving into it.
#[derive(Clone, Debug, Default)]
pub struct Pool(Arc<Mutex<Kept>>);

impl Pool {
    /// A buffer of `len` bytes. Its bytes are initialised, with zeros or with what an earlier
    /// message of this process left in them. `None` if the system has no memory for it.
    pub fn take(&self, len: usize) -> Option<Buffer> {
        let bytes = self.reuse(len).or_else(|| try_zeroed_vec(len).ok())?;
        Some(Buffer {
            bytes,
            len,
            pool: Some(self.clone()),
        })
    }

    /// Whether buffers of this length are kept for use again.
    pub(crate) fn keeps(len: u64) -> bool {
        len <= KEPT_BYTES as u64
    }

    /// A buffer with these pieces, one behind the other.
    fn gather(&self, pieces: &[&[u8]]) -> Option<Buffer> {
        let mut buffer = self.take(pieces.iter().map(|piece| piece.len()).sum())?;
        let mut rest = &mut buffer[..];
        for piece in pieces {
            let (place, behind) = rest.split_at_mut(piece.len());
            place.copy_from_slice(piece);
            rest = behind;
        }
        Some(buffer)
    }

    /// A copy of these pieces, one behind the other, to be sent.
    ///
    /// # Errors
    /// [`SendError::NoMemory`].
    pub fn outbound(&self, pieces: &[&[u8]]) -> Result<Outbound, SendError> {
        let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
        if bytes < OUTBOUND_MIN {
            return Ok(pieces.concat().into());
        }
        let copy = self.gather(pieces).ok_or(SendError::NoMemory { bytes })?;
        Ok(Arc::new(copy).into())
    }

    fn reuse(&self, len: usize) -> Option<Vec<u8>> {
        let mut kept = self.0.lock().ok()?;
        // The newest that fits without wasting more than it holds.
        let fits = |buffer: &Vec<u8>| buffer.len() >= len && buffer.len() / 4 <= len;
        let at = kept.buffers.iter().rposition(fits)?;
        let bytes = kept.buffers.swap_remove(at);
        kept.bytes -= bytes.len();
        Some(bytes)
    }

    fn give_back(&self, bytes: Vec<u8>) {
        if bytes.len() > KEPT_BYTES {
            return;
        }
        let Ok(mut kept) = self.0.lock() else {
            return;
        };
        kept.bytes += bytes.len();
        kept.buffers.push(bytes);
        while kept.buffers.len() > KEPT || kept.bytes > KEPT_BYTES {
            let oldest = kept.buffers.remove(0);
            kept.bytes -= oldest.len();
        }
    }
}

/// Bytes of a body; goes back to its pool when dropped.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    len: usize,
    pool: Option<Pool>,
}

impl Buffer {
    /// A buffer that the program handed over: used as it is, and never pooled.
    pub(crate) fn given(bytes: Vec<u8>, len: usize) -> Self {
        debug_assert!(len <= bytes.len());
        Buffer {
            bytes,
            len,
            pool: None,
        }
    }

    /// Whether the buffer came from a pool, not from the program.
    pub(crate) fn is_pooled(&self) -> bool {
        self.pool.is_some()
    }

    /// The program's own buffer, at the length it had.
    pub(crate) fn into_given(mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// The bytes as a vector of their own; no copy.
    pub fn into_vec(mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.truncate(self.len);
        self.pool = None;
        bytes
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.give_back(std::mem::take(&mut self.bytes));
        }
    }
}
