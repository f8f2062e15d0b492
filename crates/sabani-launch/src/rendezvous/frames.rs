//! Values on a stream of bytes, and their seals where others can reach the stream.
//!
//! A frame is a length (u32, little-endian), a value as postcard writes it, and over TCP a MAC of 32
//! bytes. There, each side first says a random number of 32 bytes; the MAC's key is derived from the
//! job key and both numbers, and it covers the direction, the frame's number, and the value. So
//! nobody without the job key can speak, replay, or reorder. Nothing said here is secret.

use std::io::{ErrorKind, Read, Result, Write};
use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};

use super::output::Output;

const LENGTH_BYTES: usize = 4;
const MAC_BYTES: usize = 32;
const NONCE_BYTES: usize = 32;
/// What a host takes from somebody who has not proven the job key.
const STRANGER_BYTES: usize = 1 << 10;
/// Longest frame. However many ranks there are: a host says their values in pieces, and who is missing among a million
/// takes 3 MB.
const FRAME_BYTES: usize = 16 << 20;
const CONTEXT: &str = "sabani 2025 rendezvous";

/// A value as it is written, for one stream or many.
#[derive(Debug)]
pub struct Value(Arc<[u8]>);

impl Value {
    pub fn of(value: &impl Serialize) -> Self {
        let bytes = postcard::to_stdvec(value).expect("plain values can be written");
        Self(bytes.into())
    }
}

/// Which end of the stream this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Host,
    Rank,
}

/// The seals of one stream.
#[derive(Debug)]
enum Seal {
    /// Nobody else can reach the stream.
    None,
    /// The other side's random number has not come yet.
    Begun {
        end: End,
        key: [u8; 32],
        nonce: [u8; NONCE_BYTES],
    },
    Sealed {
        end: End,
        key: [u8; 32],
        sent: u64,
        received: u64,
    },
}

/// Both directions of a stream, buffered.
#[derive(Debug)]
pub struct Frames {
    input: Vec<u8>,
    output: Output,
    seal: Seal,
    proven: bool,
}

impl Frames {
    /// A stream that nobody else can reach.
    pub fn private() -> Self {
        Self {
            input: Vec::new(),
            output: Output::default(),
            seal: Seal::None,
            proven: true,
        }
    }

    /// A stream that others can reach, guarded by the job key.
    pub fn guarded(end: End, job_key: &str, nonce: [u8; NONCE_BYTES]) -> Self {
        let key = blake3::derive_key(CONTEXT, job_key.trim().as_bytes());
        let mut output = Output::default();
        output.push(&nonce);
        Self {
            input: Vec::new(),
            output,
            seal: Seal::Begun { end, key, nonce },
            proven: false,
        }
    }

    /// Whether values can be pushed: the other side has said its random number.
    pub fn is_begun(&mut self) -> bool {
        if let Seal::Begun { end, key, nonce } = &self.seal
            && self.input.len() >= NONCE_BYTES
        {
            let theirs: Vec<u8> = self.input.drain(..NONCE_BYTES).collect();
            let (host, rank) = match end {
                End::Host => (&nonce[..], &theirs[..]),
                End::Rank => (&theirs[..], &nonce[..]),
            };
            let key = *blake3::keyed_hash(key, &[host, rank].concat()).as_bytes();
            self.seal = Seal::Sealed {
                end: *end,
                key,
                sent: 0,
                received: 0,
            };
        }
        !matches!(self.seal, Seal::Begun { .. })
    }

    /// Queues a value.
    pub fn push(&mut self, value: &impl Serialize) {
        self.share(&Value::of(value));
    }

    /// Queues a value that others may queue as well.
    pub fn share(&mut self, Value(bytes): &Value) {
        self.output.push(&(bytes.len() as u32).to_le_bytes());
        self.output.share(bytes);
        if let Seal::Sealed { end, key, sent, .. } = &mut self.seal {
            let mac = mac(key, *end, *sent, bytes);
            self.output.push(mac.as_bytes());
            *sent += 1;
        }
    }

    /// The next value that has come whole.
    ///
    /// # Errors
    /// What is wrong with it, when the stream is of no more use.
    pub fn next<T: DeserializeOwned>(&mut self) -> std::result::Result<Option<T>, &'static str> {
        if !self.is_begun() || self.input.len() < LENGTH_BYTES {
            return Ok(None);
        }
        let (length, rest) = self.input.split_at(LENGTH_BYTES);
        let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
        let limit = if self.proven {
            FRAME_BYTES
        } else {
            STRANGER_BYTES
        };
        if length > limit {
            return Err("a frame that is too long");
        }
        let mac_bytes = if matches!(self.seal, Seal::None) {
            0
        } else {
            MAC_BYTES
        };
        if rest.len() < length + mac_bytes {
            return Ok(None);
        }
        let (bytes, rest) = rest.split_at(length);
        if let Seal::Sealed {
            end, key, received, ..
        } = &mut self.seal
        {
            let found: [u8; MAC_BYTES] = rest[..MAC_BYTES].try_into().expect("its length");
            // This comparison takes the same time wherever they differ.
            if mac(key, other(*end), *received, bytes) != found {
                return Err("a frame that was not made with this job's key");
            }
            *received += 1;
        }
        self.proven = true;
        let value = postcard::from_bytes(bytes).map_err(|_| "a frame of another version")?;
        self.input.drain(..LENGTH_BYTES + length + mac_bytes);
        Ok(Some(value))
    }

    /// Reads once. `false` at the stream's end.
    ///
    /// # Errors
    /// Those of the stream, [`ErrorKind::WouldBlock`] among them.
    pub fn read(&mut self, stream: &mut impl Read) -> Result<bool> {
        let mut bytes = [0; 1 << 14];
        // A stranger's memory is bounded, however much it sends at a time.
        let room = match self.proven {
            true => bytes.len(),
            false => STRANGER_BYTES,
        };
        let count = loop {
            match stream.read(&mut bytes[..room]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.input.extend(&bytes[..count]);
        Ok(count > 0)
    }

    /// Writes what the stream takes.
    ///
    /// # Errors
    /// Those of the stream, but [`ErrorKind::WouldBlock`].
    pub fn write(&mut self, stream: &mut impl Write) -> Result<()> {
        self.output.write(stream)
    }

    /// Whether something waits to be written.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }
}

fn other(end: End) -> End {
    match end {
        End::Host => End::Rank,
        End::Rank => End::Host,
    }
}

fn mac(key: &[u8; 32], from: End, number: u64, bytes: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&[from as u8]);
    hasher.update(&number.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Carries all bytes from one side to the other, and returns a copy of them.
    fn carry(from: &mut Frames, to: &mut Frames) -> Vec<u8> {
        let mut wire = Vec::new();
        from.write(&mut wire).unwrap();
        to.input.extend(&wire);
        wire
    }

    fn pair(keys: [&str; 2]) -> (Frames, Frames) {
        let mut host = Frames::guarded(End::Host, keys[0], [1; 32]);
        let mut rank = Frames::guarded(End::Rank, keys[1], [2; 32]);
        carry(&mut host, &mut rank);
        carry(&mut rank, &mut host);
        assert!(host.is_begun() && rank.is_begun());
        (host, rank)
    }

    #[test]
    fn values_arrive_in_order_however_they_are_cut() {
        let mut host = Frames::private();
        let mut rank = Frames::private();
        rank.push(&"one".to_owned());
        rank.push(&"two".to_owned());
        let mut wire = Vec::new();
        rank.write(&mut wire).unwrap();
        let mut got: Vec<String> = Vec::new();
        for byte in wire {
            host.input.push(byte);
            got.extend(host.next().unwrap());
        }
        assert_eq!(got, ["one", "two"]);
    }

    #[test]
    fn sealed_values_arrive_under_the_same_key() {
        let (mut host, mut rank) = pair(["key\n", "key"]);
        for value in [7_u64, 8] {
            rank.push(&value);
            carry(&mut rank, &mut host);
            assert_eq!(host.next(), Ok(Some(value)));
            host.push(&value);
            carry(&mut host, &mut rank);
            assert_eq!(rank.next(), Ok(Some(value)));
        }
    }

    #[test]
    fn forged_replayed_and_reflected_frames_are_refused() {
        let (mut host, mut stranger) = pair(["key", "another"]);
        stranger.push(&7_u64);
        carry(&mut stranger, &mut host);
        assert!(host.next::<u64>().unwrap_err().contains("job's key"));

        let (mut host, mut rank) = pair(["key", "key"]);
        rank.push(&7_u64);
        let wire = carry(&mut rank, &mut host);
        assert_eq!(host.next(), Ok(Some(7_u64)));
        host.input.extend(&wire);
        assert!(host.next::<u64>().unwrap_err().contains("job's key"));
        rank.input.extend(&wire);
        assert!(rank.next::<u64>().unwrap_err().contains("job's key"));
    }

    #[test]
    fn strangers_can_not_take_memory() {
        let (mut host, _) = pair(["key", "key"]);
        host.input.extend((STRANGER_BYTES as u32 + 1).to_le_bytes());
        assert!(host.next::<u64>().unwrap_err().contains("too long"));

        let (mut host, _) = pair(["key", "key"]);
        host.read(&mut &[0; 1 << 14][..]).unwrap();
        assert_eq!(host.input.len(), STRANGER_BYTES);
    }
}
