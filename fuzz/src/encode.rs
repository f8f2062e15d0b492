//! A second implementation of the wire format, from `docs/protocol.md`: what the library parses is
//! compared with it, and a hostile peer writes with it what the library never would.

use sabani_proto::PeerId;
use sabani_proto::wire::{CloseReason, ConnectionId, EntryMode, Frame, Hello, Terms};

/// The 16 clear bytes; `kind` as on the wire, version 1.
pub fn prelude(kind: u8, flags: u8, number: u64, connection: u64) -> Vec<u8> {
    let mut out = vec![0x10 | kind, flags];
    out.extend_from_slice(&number.to_le_bytes()[..6]);
    out.extend_from_slice(&connection.to_le_bytes());
    out
}

/// A frame of any kind around any body.
pub fn frame(kind: u8, body: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&[kind, 0]);
    out.extend_from_slice(&(body.len() as u16).to_le_bytes());
    out.extend_from_slice(body);
}

/// Integers, little-endian, one behind the other.
#[derive(Debug, Default)]
pub struct Fields(pub Vec<u8>);

impl Fields {
    /// Appends 32 bits.
    pub fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends 64 bits.
    pub fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends bytes.
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }
}

/// One entry of the log, with both integers at full width.
pub fn entry(mode: EntryMode, tag: u64, len: u64, body: &[u8]) -> Vec<u8> {
    let mut out = vec![0x0f | (mode as u8) << 4];
    out.extend_from_slice(&tag.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(body);
    out
}

/// The fields of a wish, or of its answer.
fn terms(number: u32, terms: &Terms) -> Fields {
    let fields = [
        terms.window_bytes,
        terms.allowance_bytes,
        terms.memory_bytes,
        terms.ack_every,
        terms.ack_delay_us,
    ];
    let head = Fields::default().u32(number);
    let fields = fields.into_iter();
    fields.fold(head, |body, field| body.u32(field.unwrap_or(u32::MAX)))
}

/// What the library has parsed, written again.
pub fn again(parsed: &Frame<'_>, out: &mut Vec<u8>) {
    let (kind, body) = match parsed {
        Frame::Entries(entries) => {
            let head = Fields::default()
                .u32(entries.first_id)
                .u32(u32::from(entries.count));
            (1, head.bytes(entries.log))
        }
        Frame::Fragment(fragment) => {
            let head = Fields::default().u32(fragment.id).u64(fragment.total);
            (2, head.u64(fragment.offset).bytes(fragment.data))
        }
        Frame::Ack(ack) => {
            let head = Fields::default().u64(ack.largest).u32(ack.first_len);
            let head = head.u32(ack.delay_ns).u32(ack.answers).u32(ack.window);
            let ranges = ack.ranges.iter();
            let body = ranges.fold(head, |body, range| body.u32(range.gap).u32(range.len));
            (3, body)
        }
        Frame::Grant(grant) => (4, Fields::default().u32(grant.id).u64(grant.upto)),
        Frame::LogLimit(limit) => (5, Fields::default().u64(*limit)),
        Frame::Blocked(limit) => (6, Fields::default().u64(*limit)),
        Frame::Ping => (7, Fields::default()),
        Frame::Close(reason) => {
            let code = match reason {
                CloseReason::Finished => 0,
                CloseReason::Violation => 1,
                CloseReason::Other(code) => u32::from(*code),
            };
            (8, Fields::default().u32(code))
        }
        Frame::Unknown(kind) => (*kind, Fields::default()),
        Frame::Floor(floor) => (9, Fields::default().u64(*floor)),
        Frame::Credit => (10, Fields::default()),
        Frame::Request(upto) => (11, Fields::default().u64(*upto)),
        Frame::Disconnect(changes) => (12, Fields::default().u64(*changes)),
        Frame::PathChallenge(token) => (13, Fields::default().u64(*token)),
        Frame::PathResponse(token) => (14, Fields::default().u64(*token)),
        Frame::Expire(id) => (17, Fields::default().u32(*id)),
        Frame::Marked(count) => (18, Fields::default().u32(*count)),
        Frame::Arrived(before) => (19, Fields::default().u64(*before)),
        Frame::Returned(units) => (20, Fields::default().u32((*units).into())),
        Frame::Wish { number, terms } => (15, self::terms(*number, terms)),
        Frame::Terms { number, terms } => (16, self::terms(*number, terms)),
    };
    frame(kind, &body.0, out);
}

/// A first message of 1,200 bytes around a handshake message.
pub fn init(nonce: u64, sealed: bool, message: &[u8]) -> Vec<u8> {
    let mut out = prelude(1, 0, nonce, 0);
    out.extend_from_slice(&[1, 1, u8::from(sealed), 0, 0, 0]);
    out.extend_from_slice(&(message.len() as u16).to_le_bytes());
    out.extend_from_slice(&[0; 24]);
    out.extend_from_slice(message);
    out.resize(1_200.max(out.len()), 0);
    out
}

/// An ordinary hello.
pub fn hello(sender: u32, receiver: u32, connection: u64) -> Hello {
    Hello {
        sender: PeerId(sender),
        receiver: PeerId(receiver),
        incarnation: connection,
        connection: ConnectionId(connection),
        features: 0,
        window: 1 << 20,
        ack_delay_us: 1_000,
        log_limit: 1 << 18,
        max_datagram: 1_472,
        late_ack_us: 0,
    }
}
