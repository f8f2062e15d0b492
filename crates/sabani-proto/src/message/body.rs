//! Message bodies on their way in and out.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::Buffer;

/// Bodies up to this many bytes are kept inside the message itself.
const SMALL_MAX: usize = 64;

/// An arrived body. Reads as a byte slice.
pub struct Body(Inner);

enum Inner {
    Small(Small),
    Large(Buffer),
}

/// Aligned, so that moving it takes a few wide copies: byte-wise ones stall on each other, which
/// costs more than all the rest of receiving a small message.
#[repr(align(16))]
struct Small {
    bytes: [u8; SMALL_MAX],
    len: u64,
}

impl Body {
    /// Copies a small body, or moves a large one into a buffer of its own.
    #[inline]
    pub(crate) fn copy_of(bytes: &[u8]) -> Self {
        if bytes.len() <= SMALL_MAX {
            let mut small = [0; SMALL_MAX];
            small[..bytes.len()].copy_from_slice(bytes);
            return Body(Inner::Small(Small {
                bytes: small,
                len: bytes.len() as u64,
            }));
        }
        Body(Inner::Large(Buffer::given(bytes.to_vec(), bytes.len())))
    }

    /// The bytes as a vector. No copy for bodies over 64 bytes.
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Inner::Small(small) => small.bytes[..small.len as usize].to_vec(),
            Inner::Large(buffer) => buffer.into_vec(),
        }
    }
}

impl From<Buffer> for Body {
    fn from(buffer: Buffer) -> Self {
        Body(Inner::Large(buffer))
    }
}

impl Deref for Body {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Inner::Small(small) => &small.bytes[..small.len as usize],
            Inner::Large(buffer) => buffer,
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
