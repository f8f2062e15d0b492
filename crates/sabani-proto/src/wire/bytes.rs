//! Little-endian cursors over byte slices.

use super::Malformed;

/// Reads integers and slices off the front of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(Malformed("cut short"))?;
        self.0 = rest;
        Ok(head)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or(Malformed("cut short"))?;
        self.0 = rest;
        Ok(*head)
    }

    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    #[inline]
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    #[inline]
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    #[inline]
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Writes integers and slices into a slice; the caller has made sure of the room.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    pub bytes: &'a mut [u8],
    pub at: usize,
}

impl<'a> Writer<'a> {
    #[inline]
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Writer { bytes, at: 0 }
    }

    #[inline]
    pub fn room(&self) -> usize {
        self.bytes.len() - self.at
    }

    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    /// The same for few bytes, known to the compiler: no call where crates are optimised one by one.
    #[inline]
    pub fn array<const N: usize>(&mut self, bytes: [u8; N]) {
        let place = self.bytes[self.at..].first_chunk_mut();
        *place.expect("the caller has made sure of the room") = bytes;
        self.at += N;
    }

    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.array(value.to_le_bytes());
    }

    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.array(value.to_le_bytes());
    }

    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.array(value.to_le_bytes());
    }

    /// Fills what is left with zeros.
    pub fn pad(&mut self) {
        self.bytes[self.at..].fill(0);
        self.at = self.bytes.len();
    }
}
