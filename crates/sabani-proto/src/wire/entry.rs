//! Entries of a peer's log of messages: the envelope, and for small messages the body with it.

use super::{Malformed, Reader};

/// Largest body, in bytes, that travels inside its entry: 1 KiB and a header of the program's. One entry
/// must fit into the smallest datagram that a path has to carry (1,200 bytes), so that a log cut again
/// after the MTU shrank still goes through.
pub const INLINE_MAX: usize = 1_072;
/// The same to peers that don't say that they read longer ones ([`super::Hello::LONG_INLINE`]).
pub const INLINE_MAX_AT_FIRST: usize = 1_024;

/// How a message's body travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryMode {
    /// Right behind the envelope.
    Inline,
    /// In fragments, without asking: its room was charged to the log credit.
    Eager,
    /// In fragments, once the receiver has granted them.
    Granted,
}

/// One message's envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The program's tag.
    pub tag: u64,
    /// Body length in bytes.
    pub len: u64,
    /// How the body travels.
    pub mode: EntryMode,
    /// The body, for [`EntryMode::Inline`]; empty otherwise.
    pub body: &'a [u8],
}

/// First byte of an entry with its body inside, whose tag and length take one byte each.
const SHORT: u8 = 0;

/// Bytes that hold `value`, as a code 0…3 for 1, 2, 4 or 8 bytes.
#[inline]
fn width_code(value: u64) -> u8 {
    match value {
        0..=0xff => 0,
        0x100..=0xffff => 1,
        0x1_0000..=0xffff_ffff => 2,
        _ => 3,
    }
}

#[inline]
fn push_int(out: &mut Vec<u8>, value: u64, code: u8) {
    let bytes = value.to_le_bytes();
    match code {
        0 => out.push(bytes[0]),
        1 => out.extend_from_slice(&bytes[..2]),
        2 => out.extend_from_slice(&bytes[..4]),
        _ => out.extend_from_slice(&bytes),
    }
}

#[inline]
fn read_int(reader: &mut Reader<'_>, code: u8) -> Result<u64, Malformed> {
    Ok(match code {
        0 => u64::from(reader.u8()?),
        1 => u64::from(reader.u16()?),
        2 => u64::from(reader.u32()?),
        _ => reader.u64()?,
    })
}

impl<'a> Entry<'a> {
    /// Most bytes an entry needs beside an inline body.
    pub const MAX_HEADER: usize = 17;

    /// Bytes of the short form beside the body.
    const SHORT_HEADER: usize = 3;

    /// Appends the entry to a log.
    #[inline]
    pub fn append(&self, out: &mut Vec<u8>) {
        if self.tag <= 0xff && self.len <= 0xff && self.mode == EntryMode::Inline {
            // The short form, which most small messages take, in one go.
            out.reserve(Self::SHORT_HEADER + self.body.len());
            out.extend_from_slice(&[SHORT, self.tag as u8, self.len as u8]);
            out.extend_from_slice(self.body);
            return;
        }
        self.append_any(out);
    }

    fn append_any(&self, out: &mut Vec<u8>) {
        let (tag, len) = (width_code(self.tag), width_code(self.len));
        out.push(tag | len << 2 | (self.mode as u8) << 4);
        push_int(out, self.tag, tag);
        push_int(out, self.len, len);
        out.extend_from_slice(self.body);
    }

    /// Reads one entry off the front of a log.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        if let &[SHORT, tag, len, ref rest @ ..] = reader.0
            && let Some((body, rest)) = rest.split_at_checked(usize::from(len))
        {
            reader.0 = rest;
            return Ok(Entry {
                tag: u64::from(tag),
                len: u64::from(len),
                mode: EntryMode::Inline,
                body,
            });
        }
        Self::read_any(reader)
    }

    fn read_any(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let head = reader.u8()?;
        let tag = read_int(reader, head & 3)?;
        let len = read_int(reader, head >> 2 & 3)?;
        let mode = match head >> 4 {
            0 => EntryMode::Inline,
            1 => EntryMode::Eager,
            2 => EntryMode::Granted,
            _ => return Err(Malformed("unknown entry mode")),
        };
        let body = if mode != EntryMode::Inline {
            &[]
        } else if len > INLINE_MAX as u64 {
            return Err(Malformed("inline body too long"));
        } else {
            reader.take(len as usize)?
        };
        Ok(Entry {
            tag,
            len,
            mode,
            body,
        })
    }
}

/// A run of entries with consecutive message ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entries<'a> {
    /// Low 32 bits of the first entry's message id.
    pub first_id: u32,
    /// How many entries follow.
    pub count: u16,
    /// The entries, one behind the other.
    pub log: &'a [u8],
}

impl<'a> Entries<'a> {
    /// Walks the entries; ends after `count` of them or at the first malformed one.
    pub fn iter(&self) -> impl Iterator<Item = Result<Entry<'a>, Malformed>> + use<'a> {
        let mut reader = Reader(self.log);
        (0..self.count).map(move |_| Entry::read(&mut reader))
    }
}
