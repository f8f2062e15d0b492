//! The typed frames inside a sealed packet.
//!
//! Every frame starts `{kind u8, flags u8, length u16}`; the length counts the bytes behind these
//! four. A receiver skips kinds that it doesn't know, so that version N can talk to N−1. Kind 0 is
//! padding up to the packet's end.

use super::{Entries, Malformed, Reader, Writer};

const PADDING: u8 = 0;
const ENTRIES: u8 = 1;
const FRAGMENT: u8 = 2;
const ACK: u8 = 3;
const GRANT: u8 = 4;
const LOG_LIMIT: u8 = 5;
const BLOCKED: u8 = 6;
const PING: u8 = 7;
const CLOSE: u8 = 8;
const FLOOR: u8 = 9;
const CREDIT: u8 = 10;
const REQUEST: u8 = 11;
const DISCONNECT: u8 = 12;
const PATH_CHALLENGE: u8 = 13;
const PATH_RESPONSE: u8 = 14;
const WISH: u8 = 15;
const TERMS: u8 = 16;
const EXPIRE: u8 = 17;
const MARKED: u8 = 18;
const ARRIVED: u8 = 19;
const RETURNED: u8 = 20;

/// A piece of a message's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// Low 32 bits of the message id.
    pub id: u32,
    /// Length of the whole body: whichever fragment comes first, room for all can be taken (H2).
    pub total: u64,
    /// Where the piece belongs.
    pub offset: u64,
    /// The piece.
    pub data: &'a [u8],
}

/// Packets received below a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckRange {
    /// Packets missing above this range (at least 1).
    pub gap: u32,
    /// Packets received in this range (at least 1).
    pub len: u32,
}

/// What the receiver has, and how much it has room for.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Ack {
    /// Largest packet number received.
    pub largest: u64,
    /// Packets received in one run that ends with `largest`, itself included.
    pub first_len: u32,
    /// Nanoseconds between the arrival of `largest` and this answer.
    pub delay_ns: u32,
    /// Low 32 bits of the number of the newest request (`ASK`) received; zero if none.
    pub answers: u32,
    /// Bytes, as the receiving kernel charges them, of packets above `largest` that may be sent
    /// (U9, H6).
    pub window: u32,
    /// Further runs, downwards.
    pub ranges: Vec<AckRange>,
}

/// Leave to send a message's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Low 32 bits of the message id.
    pub id: u32,
    /// Body bytes before this offset may be sent.
    pub upto: u64,
}

/// Terms for what one side of a connection sends to the other (U10), as the sender wishes them, or
/// as the receiver grants them. `None` leaves a value to the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Most that may be on its way, in bytes as the receiving kernel charges them
    /// (`datagram_cost`). Granted: two full datagrams up to the receiver's largest window.
    pub window_bytes: Option<u32>,
    /// What may leave after a rest without leave, in the same bytes. Granted: at most half of what
    /// the receiver sets aside for all its peers, all of it for a lone one, and no more than is left.
    pub allowance_bytes: Option<u32>,
    /// Memory for small and eager messages that the receiving program has not taken, in bytes.
    /// Granted: what there is, up to the receiver's largest; never less than before.
    pub memory_bytes: Option<u32>,
    /// Packets that one acknowledgement may serve. Granted: 1 to 256.
    pub ack_every: Option<u32>,
    /// How long after a packet its acknowledgement leaves, whether or not one was asked for, in
    /// microseconds. Granted: at most the longest delay that the receiver announces.
    pub ack_delay_us: Option<u32>,
}

impl Terms {
    const LEN: usize = 20;
    /// Stands for `None` on the wire.
    const NONE: u32 = u32::MAX;

    fn fields(&self) -> [Option<u32>; 5] {
        [
            self.window_bytes,
            self.allowance_bytes,
            self.memory_bytes,
            self.ack_every,
            self.ack_delay_us,
        ]
    }

    fn write(&self, out: &mut Writer<'_>) {
        for field in self.fields() {
            out.u32(field.unwrap_or(Self::NONE));
        }
    }

    fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut field = || Ok(Some(body.u32()?).filter(|&value| value != Self::NONE));
        Ok(Terms {
            window_bytes: field()?,
            allowance_bytes: field()?,
            memory_bytes: field()?,
            ack_every: field()?,
            ack_delay_us: field()?,
        })
    }
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The program closed its node.
    Finished,
    /// The other side broke the protocol.
    Violation,
    /// A reason that this version doesn't know.
    Other(u8),
}

impl CloseReason {
    fn code(self) -> u8 {
        match self {
            CloseReason::Finished => 0,
            CloseReason::Violation => 1,
            CloseReason::Other(code) => code,
        }
    }

    fn from_code(code: u8) -> Self {
        match code {
            0 => CloseReason::Finished,
            1 => CloseReason::Violation,
            code => CloseReason::Other(code),
        }
    }
}

/// One frame of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Envelopes, and small messages whole.
    Entries(Entries<'a>),
    /// A piece of a larger message.
    Fragment(Fragment<'a>),
    /// What has arrived.
    Ack(Ack),
    /// Leave to send a body.
    Grant(Grant),
    /// Cumulative charge up to which log entries may be sent.
    LogLimit(u64),
    /// The sender has entries that the limit named here holds back.
    Blocked(u64),
    /// Nothing but a reason to answer.
    Ping,
    /// The connection ends; nothing more is sent or accepted.
    Close(CloseReason),
    /// A frame of a newer version: skipped, but it calls for an acknowledgement like others.
    Unknown(u8),
    /// Packet numbers below this one are settled: missing ones never come (U5).
    Floor(u64),
    /// The acknowledgement beside it gives credit that the peer waits for, so that this packet must
    /// arrive.
    Credit,
    /// Log entries up to this cumulative charge wait for credit.
    Request(u64),
    /// How often the sender's program has disconnected or reconnected: an odd number while it is
    /// disconnected (U14).
    Disconnect(u64),
    /// Whoever is at the address that this goes to should answer from there, with this number.
    PathChallenge(u64),
    /// The answer.
    PathResponse(u64),
    /// What the sender wishes for what it sends, and the how manieth wish that is (U10).
    Wish {
        /// Counts from 1 on each connection.
        number: u32,
        /// The wish.
        terms: Terms,
    },
    /// The body of the message with these low 32 bits of its id does not come: it has expired (U17).
    Expire(u32),
    /// How many packets of this connection have come marked by a switch (ECN), in all: the low 32
    /// bits.
    Marked(u32),
    /// All messages with smaller ids have come whole. Beside [`Frame::Close`].
    Arrived(u64),
    /// So many times 64 KiB of the charge that log limits have allowed the sender will not use, in all: the low 16 bits.
    Returned(u16),
    /// What the sender grants to the peer's wish with this number.
    Terms {
        /// The wish's number.
        number: u32,
        /// What holds from now on.
        terms: Terms,
    },
}

impl Frame<'_> {
    /// Bytes of the header that all frames share.
    pub const HEADER: usize = 4;
    /// Bytes of an `Entries` frame before its log.
    pub const ENTRIES_HEADER: usize = Self::HEADER + 8;
    /// Bytes of a `Fragment` frame before its data.
    pub const FRAGMENT_HEADER: usize = Self::HEADER + 20;
    /// Most runs an `Ack` lists below its first.
    pub const MAX_ACK_RANGES: usize = 32;

    /// Whether the packet that it is in must be acknowledged.
    #[inline]
    pub fn must_arrive(&self) -> bool {
        !matches!(
            self,
            Frame::Ack(_)
                | Frame::Marked(_)
                | Frame::Arrived(_)
                | Frame::Floor(_)
                | Frame::PathChallenge(_)
                | Frame::PathResponse(_)
        )
    }

    /// Bytes that the frame takes on the wire.
    pub fn wire_len(&self) -> usize {
        Self::HEADER
            + match self {
                Frame::Entries(entries) => 8 + entries.log.len(),
                Frame::Fragment(fragment) => 20 + fragment.data.len(),
                Frame::Ack(ack) => ack.body_len(),
                Frame::Grant(_) => 12,
                Frame::LogLimit(_) | Frame::Blocked(_) | Frame::Floor(_) | Frame::Request(_) => 8,
                Frame::Disconnect(_) | Frame::PathChallenge(_) | Frame::PathResponse(_) => 8,
                Frame::Arrived(_) => 8,
                Frame::Wish { .. } | Frame::Terms { .. } => 4 + Terms::LEN,
                Frame::Ping | Frame::Credit | Frame::Unknown(_) => 0,
                Frame::Close(_) | Frame::Expire(_) | Frame::Marked(_) | Frame::Returned(_) => 4,
            }
    }

    /// Writes the frame; the caller has made sure of [`Frame::wire_len`] bytes of room.
    #[inline]
    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        let len = self.wire_len() - Self::HEADER;
        let mut begin = |kind: u8| out.u32(head(kind, len));
        match self {
            Frame::Entries(entries) => entries.write(out),
            Frame::Fragment(fragment) => fragment.write(out),
            Frame::Ack(ack) => ack.write(out),
            Frame::Grant(grant) => {
                begin(GRANT);
                out.u32(grant.id);
                out.u64(grant.upto);
            }
            Frame::LogLimit(limit) => {
                begin(LOG_LIMIT);
                out.u64(*limit);
            }
            Frame::Blocked(limit) => {
                begin(BLOCKED);
                out.u64(*limit);
            }
            Frame::Ping => begin(PING),
            Frame::Unknown(kind) => begin(*kind),
            Frame::Close(reason) => {
                begin(CLOSE);
                out.u32(u32::from(reason.code()));
            }
            Frame::Arrived(before) => {
                begin(ARRIVED);
                out.u64(*before);
            }
            Frame::Returned(units) => {
                begin(RETURNED);
                out.u32(u32::from(*units));
            }
            Frame::Floor(floor) => {
                begin(FLOOR);
                out.u64(*floor);
            }
            Frame::Credit => begin(CREDIT),
            Frame::Request(upto) => {
                begin(REQUEST);
                out.u64(*upto);
            }
            Frame::Disconnect(changes) => {
                begin(DISCONNECT);
                out.u64(*changes);
            }
            Frame::PathChallenge(token) => {
                begin(PATH_CHALLENGE);
                out.u64(*token);
            }
            Frame::PathResponse(token) => {
                begin(PATH_RESPONSE);
                out.u64(*token);
            }
            Frame::Expire(id) => {
                begin(EXPIRE);
                out.u32(*id);
            }
            Frame::Marked(count) => {
                begin(MARKED);
                out.u32(*count);
            }
            Frame::Wish { number, terms } => {
                begin(WISH);
                out.u32(*number);
                terms.write(out);
            }
            Frame::Terms { number, terms } => {
                begin(TERMS);
                out.u32(*number);
                terms.write(out);
            }
        }
    }
}

/// The first four bytes of a frame with so many behind them.
#[inline]
fn head(kind: u8, len: usize) -> u32 {
    u32::from(kind) | (len as u32) << 16
}

impl Ack {
    /// Bytes behind the first four, ranges apart.
    const LEN: usize = 24;

    fn body_len(&self) -> usize {
        Self::LEN + 8 * self.ranges.len()
    }

    /// Writes the frame; the caller has made sure of the room.
    #[inline]
    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        let mut fixed = [0; Frame::HEADER + Self::LEN];
        let mut front = Writer::new(&mut fixed);
        front.u32(head(ACK, self.body_len()));
        front.u64(self.largest);
        front.u32(self.first_len);
        front.u32(self.delay_ns);
        front.u32(self.answers);
        front.u32(self.window);
        out.array(fixed);
        for range in &self.ranges {
            out.u32(range.gap);
            out.u32(range.len);
        }
    }
}

impl Entries<'_> {
    /// Writes the frame; the caller has made sure of the room.
    #[inline]
    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        let mut fixed = [0; Frame::ENTRIES_HEADER];
        let mut front = Writer::new(&mut fixed);
        front.u32(head(ENTRIES, 8 + self.log.len()));
        front.u32(self.first_id);
        front.u16(self.count);
        out.array(fixed);
        out.put(self.log);
    }
}

#[inline]
fn read_entries<'a>(mut body: Reader<'a>) -> Result<Entries<'a>, Malformed> {
    let (first_id, count) = (body.u32()?, body.u32()? as u16);
    Ok(Entries {
        first_id,
        count,
        log: body.0,
    })
}

fn read_ack(mut body: Reader<'_>) -> Result<Ack, Malformed> {
    let mut ack = Ack {
        largest: body.u64()?,
        first_len: body.u32()?,
        delay_ns: body.u32()?,
        answers: body.u32()?,
        window: body.u32()?,
        ranges: Vec::new(),
    };
    let mut below = ack
        .largest
        .checked_add(1)
        .and_then(|end| end.checked_sub(u64::from(ack.first_len)))
        .filter(|_| ack.first_len > 0)
        .ok_or(Malformed("acknowledgement of negative packet numbers"))?;
    while !body.is_empty() {
        let range = AckRange {
            gap: body.u32()?,
            len: body.u32()?,
        };
        below = below
            .checked_sub(u64::from(range.gap) + u64::from(range.len))
            .filter(|_| range.gap > 0 && range.len > 0)
            .ok_or(Malformed("acknowledgement of negative packet numbers"))?;
        if ack.ranges.len() == Frame::MAX_ACK_RANGES {
            return Err(Malformed("too many acknowledged ranges"));
        }
        ack.ranges.push(range);
    }
    Ok(ack)
}

/// Walks the frames of an opened packet.
#[derive(Clone, Debug)]
pub struct Frames<'a>(Reader<'a>);

impl<'a> Frames<'a> {
    /// Starts at the front of an opened packet's payload.
    pub fn new(payload: &'a [u8]) -> Self {
        Frames(Reader(payload))
    }

    /// Whether there may be more.
    #[inline]
    pub fn go_on(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether the payload is a probe of the path: a PING, and padding.
    #[inline]
    pub fn is_probe(payload: &[u8]) -> bool {
        payload.first() == Some(&PING) && payload.get(Frame::HEADER) == Some(&PADDING)
    }

    /// What follows the first four bytes of the next frame, if that is of this kind.
    #[inline]
    fn read_kind(&mut self, kind: u8) -> Result<Option<Reader<'a>>, Malformed> {
        if self.0.0.first() != Some(&kind) {
            return Ok(None);
        }
        let head = self.0.u32()?;
        Ok(Some(Reader(self.0.take((head >> 16) as usize)?)))
    }

    /// The next frame if it is an acknowledgement.
    #[inline]
    pub(crate) fn read_ack(&mut self) -> Result<Option<Ack>, Malformed> {
        self.read_kind(ACK)?.map(read_ack).transpose()
    }

    /// The next frame if it is one of entries.
    #[inline]
    pub(crate) fn read_entries(&mut self) -> Result<Option<Entries<'a>>, Malformed> {
        self.read_kind(ENTRIES)?.map(read_entries).transpose()
    }

    /// The next frame, `None` behind the last.
    #[inline]
    pub(crate) fn read(&mut self) -> Result<Option<Frame<'a>>, Malformed> {
        if self.0.is_empty() || self.0.0[0] == PADDING {
            return Ok(None);
        }
        let head = self.0.u32()?;
        let mut body = Reader(self.0.take((head >> 16) as usize)?);
        let frame = match head as u8 {
            ENTRIES => Frame::Entries(read_entries(body)?),
            FRAGMENT => Frame::Fragment(read_fragment(body)?),
            ACK => Frame::Ack(read_ack(body)?),
            GRANT => Frame::Grant(Grant {
                id: body.u32()?,
                upto: body.u64()?,
            }),
            LOG_LIMIT => Frame::LogLimit(body.u64()?),
            BLOCKED => Frame::Blocked(body.u64()?),
            PING => Frame::Ping,
            CLOSE => Frame::Close(CloseReason::from_code(body.u32()?.min(255) as u8)),
            FLOOR => Frame::Floor(body.u64()?),
            CREDIT => Frame::Credit,
            REQUEST => Frame::Request(body.u64()?),
            DISCONNECT => Frame::Disconnect(body.u64()?),
            PATH_CHALLENGE => Frame::PathChallenge(body.u64()?),
            PATH_RESPONSE => Frame::PathResponse(body.u64()?),
            EXPIRE => Frame::Expire(body.u32()?),
            MARKED => Frame::Marked(body.u32()?),
            ARRIVED => Frame::Arrived(body.u64()?),
            RETURNED => Frame::Returned(body.u32()? as u16),
            WISH => Frame::Wish {
                number: body.u32()?,
                terms: Terms::read(&mut body)?,
            },
            TERMS => Frame::Terms {
                number: body.u32()?,
                terms: Terms::read(&mut body)?,
            },
            kind => Frame::Unknown(kind),
        };
        Ok(Some(frame))
    }
}

#[inline]
fn read_fragment(mut body: Reader<'_>) -> Result<Fragment<'_>, Malformed> {
    let fragment = Fragment {
        id: body.u32()?,
        total: body.u64()?,
        offset: body.u64()?,
        data: body.0,
    };
    match fragment.offset.checked_add(fragment.data.len() as u64) {
        Some(end) if end <= fragment.total => Ok(fragment),
        _ => Err(Malformed("fragment beyond its message")),
    }
}

impl<'a> Fragment<'a> {
    /// Where in the body the piece ends.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }

    /// The fragment, if it is all that the payload holds: what nearly every packet of a long
    /// message is. A payload that is anything else, malformed or not, is left to [`Frames`].
    #[inline]
    pub(crate) fn alone(payload: &'a [u8]) -> Option<Self> {
        let (head, body) = payload.split_first_chunk::<{ Frame::HEADER }>()?;
        let head = u32::from_le_bytes(*head);
        let is_alone = head as u8 == FRAGMENT && (head >> 16) as usize == body.len();
        if !is_alone {
            return None;
        }
        read_fragment(Reader(body)).ok()
    }

    /// Writes the frame; the caller has made sure of the room.
    #[inline]
    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        let len = (Frame::FRAGMENT_HEADER - Frame::HEADER + self.data.len()) as u64;
        let head = u64::from(FRAGMENT) | len << 16 | u64::from(self.id) << 32;
        let head = [head, self.total, self.offset].map(u64::to_le_bytes);
        out.array::<{ Frame::FRAGMENT_HEADER }>(head.as_flattened().try_into().expect("24 bytes"));
        out.put(self.data);
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let frame = self.read().transpose();
        if matches!(frame, Some(Err(_))) {
            self.0 = Reader(&[]);
        }
        frame
    }
}
