//! What the layers hand to each other: headers linked to each other and to the user's data, which nobody copies.

use sabani_ring::{Item, Pool, Recycle};

/// The longest header of any layer.
pub const HEADER_LEN: usize = 20;
/// Segments that a pool makes at a time.
const SLAB: usize = 256;

/// A PDU of one layer, and the user data of the layer below. Clones share all bytes.
#[derive(Clone)]
pub struct Pdu {
    /// Where it begins.
    pub body: Body,
    /// Its length, headers included.
    pub len_bytes: u32,
}

/// The bytes of a PDU.
#[derive(Clone)]
pub enum Body {
    /// A header and what follows it.
    Segment(Item<Segment>),
    /// The user's data.
    User(Item<UserData>),
}

/// A header, in a buffer of the layer that wrote it, and what follows it. As long as a cache line together with what
/// the pool keeps beside it, so that a layer never touches the lines of another.
#[derive(Default)]
pub struct Segment {
    header: [u8; HEADER_LEN],
    header_len: u8,
    rest: Option<Body>,
}

impl Segment {
    /// Its header.
    pub fn header(&self) -> &[u8] {
        &self.header[..usize::from(self.header_len)]
    }

    /// What follows the header.
    pub fn rest(&self) -> Option<&Body> {
        self.rest.as_ref()
    }
}

impl Recycle for Segment {
    fn recycle(&mut self) {
        self.rest = None;
    }
}

/// The user's data. Only the number is ever written: it tells whether a PDU was lost, or overtook another.
pub struct UserData {
    /// Which one it is.
    pub number: u64,
    /// Whatever was there.
    pub bytes: Box<[u8]>,
}

impl Recycle for UserData {}

/// The buffers that one layer takes for its headers.
pub struct Headers(Pool<Segment>);

impl Headers {
    pub fn new() -> Self {
        Self(Pool::new(SLAB, Segment::default))
    }

    /// Puts a header before what follows it, if anything does.
    pub fn put(&mut self, header: &[u8], rest: Option<Pdu>) -> Pdu {
        let rest_bytes = rest.as_ref().map_or(0, |pdu| pdu.len_bytes);
        let segment = self.0.take(|segment| {
            segment.header[..header.len()].copy_from_slice(header);
            segment.header_len = header.len() as u8;
            segment.rest = rest.map(|pdu| pdu.body);
        });
        Pdu {
            body: Body::Segment(segment),
            len_bytes: rest_bytes + header.len() as u32,
        }
    }

    /// Takes a header off and gives its buffer back; what follows it. Nothing, if nothing does or there is no header.
    pub fn take_off(&mut self, pdu: Pdu) -> Option<Pdu> {
        let Body::Segment(mut segment) = pdu.body else {
            return None;
        };
        let len_bytes = pdu.len_bytes - u32::from(segment.header_len);
        let rest = match segment.get_mut() {
            Some(segment) => segment.rest.take(),
            // Kept for a resend.
            None => segment.rest.clone(),
        };
        self.0.give(segment);
        rest.map(|body| Pdu { body, len_bytes })
    }

    /// Gives back the buffer of a PDU that was kept.
    pub fn give(&mut self, pdu: Pdu) {
        if let Body::Segment(segment) = pdu.body {
            self.0.give(segment);
        }
    }
}

impl Pdu {
    /// Its first header, if it has one.
    pub fn header(&self) -> &[u8] {
        match &self.body {
            Body::Segment(segment) => segment.header(),
            Body::User(_) => &[],
        }
    }

    /// All its bytes, piece by piece.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let mut next = Some(&self.body);
        std::iter::from_fn(move || match next.take()? {
            Body::Segment(segment) => {
                next = segment.rest();
                Some(segment.header())
            }
            Body::User(data) => Some(&data.bytes),
        })
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A PDU of a user.
    pub fn user_data(bytes: &[u8]) -> Pdu {
        let bytes: Box<[u8]> = bytes.into();
        let len_bytes = bytes.len() as u32;
        let data = UserData { number: 0, bytes };
        let mut data = Some(data);
        let mut pool = Pool::new(1, move || data.take().expect("one buffer"));
        Pdu {
            body: Body::User(pool.take(|_| ())),
            len_bytes,
        }
    }

    #[test]
    fn headers_come_off_in_reverse_order() {
        let mut headers = Headers::new();
        let inner = headers.put(b"inner", Some(user_data(b"data")));
        let outer = headers.put(b"outer", Some(inner));
        assert_eq!(outer.len_bytes, 14);
        assert_eq!(
            outer.pieces().collect::<Vec<_>>().concat(),
            b"outerinnerdata"
        );
        let kept = outer.clone();
        let inner = headers.take_off(outer).unwrap();
        assert_eq!((inner.header(), inner.len_bytes), (&b"inner"[..], 9));
        // What is kept stays whole.
        let data = headers.take_off(inner).unwrap();
        assert_eq!(kept.pieces().count(), 3);
        assert!(headers.take_off(data).is_none());
        headers.give(kept);
    }
}
