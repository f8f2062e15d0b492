//! Message bodies on their way in and out.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::Buffer;

/// Bodies up to this many bytes are kept inside the message itself.
const SMALL_MAX: usize = 64;

/// An arrived body. Reads as a byte slice.
///
/// Not an enum: the bytes of a small body must lie at the same place, and aligned, in everything
/// that a message is wrapped in on its way to the program. Then moving it takes a few wide copies;
/// pieces that overlap differently stall on each other, which costs more than all the rest of
/// receiving a small message.
pub struct Body {
    small: Small,
    small_len: usize,
    large: Option<Buffer>,
}

#[repr(align(16))]
struct Small([u8; SMALL_MAX]);

impl Body {
    /// Bytes behind a small body that make [`Body::first_of`] cheap.
    pub(crate) const SLACK: usize = SMALL_MAX;

    /// The first `len` of `bytes`. A small body takes those behind it along unseen: a copy of a
    /// fixed length is a few instructions, one of any other length a call, and a stall when the
    /// message is moved.
    #[inline]
    pub(crate) fn first_of(bytes: &[u8], len: usize) -> Self {
        match bytes.first_chunk() {
            Some(chunk) if len <= SMALL_MAX => Body {
                small: Small(*chunk),
                small_len: len,
                large: None,
            },
            _ => Body::copy_of(&bytes[..len]),
        }
    }

    /// Copies a small body, or moves a large one into a buffer of its own.
    pub(crate) fn copy_of(bytes: &[u8]) -> Self {
        if bytes.len() > SMALL_MAX {
            return Buffer::given(bytes.to_vec(), bytes.len()).into();
        }
        let mut small = [0; SMALL_MAX];
        small[..bytes.len()].copy_from_slice(bytes);
        Body {
            small: Small(small),
            small_len: bytes.len(),
            large: None,
        }
    }

    /// The bytes as a vector. No copy for bodies over 64 bytes.
    pub fn into_vec(self) -> Vec<u8> {
        match self.large {
            Some(buffer) => buffer.into_vec(),
            None => self.small.0[..self.small_len].to_vec(),
        }
    }
}

impl From<Buffer> for Body {
    fn from(buffer: Buffer) -> Self {
        Body {
            small: Small([0; SMALL_MAX]),
            small_len: 0,
            large: Some(buffer),
        }
    }
}

impl Deref for Body {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.large {
            Some(buffer) => buffer,
            None => &self.small.0[..self.small_len],
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.len())
    }
}

/// A body to send. Kept, without a copy, until the peer has acknowledged all of it.
#[derive(Clone)]
pub enum Outbound {
    /// A vector handed over.
    Owned(Vec<u8>),
    /// Bytes shared with the program, or with other sends.
    Shared(Arc<dyn AsRef<[u8]> + Send + Sync>),
}

impl Outbound {
    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Outbound::Owned(bytes) => bytes,
            Outbound::Shared(bytes) => (**bytes).as_ref(),
        }
    }
}

impl From<Vec<u8>> for Outbound {
    fn from(bytes: Vec<u8>) -> Self {
        Outbound::Owned(bytes)
    }
}

impl From<Arc<[u8]>> for Outbound {
    fn from(bytes: Arc<[u8]>) -> Self {
        Outbound::Shared(Arc::new(bytes))
    }
}

impl<T: AsRef<[u8]> + Send + Sync + 'static> From<Arc<T>> for Outbound {
    fn from(bytes: Arc<T>) -> Self {
        Outbound::Shared(bytes)
    }
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outbound({} bytes)", self.bytes().len())
    }
}
