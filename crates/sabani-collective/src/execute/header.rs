//! What each message of a collective says about itself.

use std::fmt;

use super::executor::MessageId;
use crate::algorithms::{ALGORITHMS, Collective};
use crate::context::Parameters;
use crate::step::Mode;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 36;

/// Operations by their numbers in a [`Fingerprint`]; where nothing is combined, the number is larger.
pub const OPERATIONS: [&str; 9] = [
    "sum",
    "product",
    "least",
    "greatest",
    "and",
    "or",
    "exclusive or",
    "the program's own operation in any order",
    "the program's own operation in order",
];

/// Types of elements by their numbers in a [`Fingerprint`]; types of the program's own have larger ones.
const ELEMENT_TYPES: [&str; 14] = [
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32",
    "f64",
];

/// What all ranks must agree on to be in the same collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The communicator's epoch.
    pub epoch: u32,
    /// The number of the collective in its communicator.
    pub sequence: u32,
    /// What is done together.
    pub collective: Collective,
    /// The algorithm's number ([`Algorithm::id`](crate::Algorithm::id)).
    pub algorithm: u8,
    /// The operation: its place in [`OPERATIONS`], or a larger number.
    pub operation: u8,
    /// [`Fingerprint::of_type`].
    pub element_type: u8,
    /// Elements, where all ranks must have equally many; else 0.
    pub size: u64,
    /// The root, or 0.
    pub root: u32,
    /// [`Fingerprint::of_parameters`].
    pub parameters: u32,
}

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It carries what its name says.
    Data,
    /// Its sender is ready to receive the message with this name.
    Ready,
}

/// What comes before each message's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The collective that it belongs to.
    pub fingerprint: Fingerprint,
    /// What it is for.
    pub kind: Kind,
    /// Its name.
    pub message: MessageId,
}

impl Fingerprint {
    /// The type of elements in one number.
    pub fn of_type<T>() -> u8 {
        // The same program runs at all ranks: its names for types are the same.
        let name = std::any::type_name::<T>();
        if let Some(place) = ELEMENT_TYPES.iter().position(|known| *known == name) {
            return place as u8;
        }
        let bytes = name.bytes();
        let hash = bytes.fold(0_u8, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte));
        hash.max(ELEMENT_TYPES.len() as u8)
    }

    /// Parameters in one number, so that ranks with different settings find out.
    pub fn of_parameters(parameters: &Parameters) -> u32 {
        let Parameters {
            radix,
            segment_bytes,
            window,
            mode,
        } = *parameters;
        let mode = u64::from(mode == Mode::Rendezvous);
        let all = [radix as u64, segment_bytes as u64, window as u64, mode];
        let bytes = all.iter().flat_map(|value| value.to_le_bytes());
        // FNV-1a: the ranks of a job are not each other's enemies.
        bytes.fold(0x811c_9dc5, |hash: u32, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        })
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = ALGORITHMS.get(usize::from(self.algorithm));
        let algorithm = known.map_or("?", |algorithm| algorithm.name);
        write!(f, "{} {algorithm} (", self.collective)?;
        if let Some(operation) = OPERATIONS.get(usize::from(self.operation)) {
            write!(f, "{operation}, ")?;
        }
        match ELEMENT_TYPES.get(usize::from(self.element_type)) {
            Some(name) => write!(f, "{} elements of {name}", self.size),
            None => write!(
                f,
                "{} elements of the program's own type {:02x}",
                self.size, self.element_type
            ),
        }?;
        write!(
            f,
            ", root {}, call {} of communicator {}, counts and parameters {:08x})",
            self.root, self.sequence, self.epoch, self.parameters,
        )
    }
}

impl Header {
    /// As bytes, little-endian.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let f = &self.fingerprint;
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&f.epoch.to_le_bytes());
        bytes[4..8].copy_from_slice(&f.sequence.to_le_bytes());
        bytes[8..16].copy_from_slice(&f.size.to_le_bytes());
        bytes[16..20].copy_from_slice(&f.root.to_le_bytes());
        bytes[20..24].copy_from_slice(&f.parameters.to_le_bytes());
        bytes[24..28].copy_from_slice(&[
            f.collective as u8,
            f.algorithm,
            f.operation,
            f.element_type,
        ]);
        bytes[28..34].copy_from_slice(&(self.message.round as u64).to_le_bytes()[..6]);
        bytes[34] = self.message.lane;
        bytes[35] = u8::from(self.kind == Kind::Ready);
        bytes
    }

    /// From bytes, and what comes behind; `None` if it is no header.
    pub fn decode(bytes: &[u8]) -> Option<(Header, &[u8])> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let number = |from: usize, to: usize| {
            let little_endian = header[from..to].iter().rev();
            little_endian.fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let fingerprint = Fingerprint {
            epoch: number(0, 4) as u32,
            sequence: number(4, 8) as u32,
            size: number(8, 16),
            root: number(16, 20) as u32,
            parameters: number(20, 24) as u32,
            collective: *Collective::ALL.get(usize::from(header[24]))?,
            algorithm: header[25],
            operation: header[26],
            element_type: header[27],
        };
        let header = Header {
            fingerprint,
            kind: match header[35] {
                0 => Kind::Data,
                1 => Kind::Ready,
                _ => return None,
            },
            message: MessageId {
                round: usize::try_from(number(28, 34)).ok()?,
                lane: header[34],
            },
        };
        Some((header, rest))
    }
}

/// Two ranks are in different collectives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// This rank.
    pub rank: usize,
    /// What it is in.
    pub ours: Fingerprint,
    /// The other one.
    pub peer: usize,
    /// What that is in.
    pub theirs: Fingerprint,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch {
            rank,
            ours,
            peer,
            theirs,
        } = self;
        write!(
            f,
            "rank {rank} is in {ours}, but rank {peer} in {theirs}: all must call the same, in the same order"
        )
    }
}

impl std::error::Error for Mismatch {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_the_wire() {
        let header = Header {
            fingerprint: Fingerprint {
                epoch: 1,
                sequence: u32::MAX,
                collective: Collective::Exscan,
                algorithm: 7,
                operation: 200,
                element_type: 9,
                size: u64::MAX - 3,
                root: 70_000,
                parameters: Fingerprint::of_parameters(&Parameters::default()),
            },
            kind: Kind::Ready,
            message: MessageId {
                round: 1 << 40,
                lane: 1,
            },
        };
        let mut bytes = header.encode().to_vec();
        bytes.extend(b"rest");
        assert_eq!(Header::decode(&bytes), Some((header, &b"rest"[..])));
        assert_eq!(Header::decode(&bytes[..HEADER_BYTES - 1]), None);
        bytes[24] = 99;
        assert_eq!(Header::decode(&bytes), None);
    }

    #[test]
    fn what_differs_is_said_in_words() {
        struct Own;
        let ours = Fingerprint {
            epoch: 3,
            sequence: 7,
            collective: Collective::Allreduce,
            algorithm: Collective::Allreduce.algorithm("ring").unwrap().id(),
            operation: 0,
            element_type: Fingerprint::of_type::<f64>(),
            size: 10,
            root: 0,
            parameters: 0xabc,
        };
        let theirs = Fingerprint {
            operation: u8::MAX,
            element_type: Fingerprint::of_type::<Own>(),
            ..ours
        };
        let (rank, peer) = (2, 1);
        let mismatch = Mismatch {
            rank,
            ours,
            peer,
            theirs,
        };
        let said = mismatch.to_string();
        let rest = "root 0, call 7 of communicator 3, counts and parameters 00000abc)";
        let ours = format!("rank 2 is in allreduce ring (sum, 10 elements of f64, {rest}");
        let theirs = "rank 1 in allreduce ring (10 elements of the program's own type ";
        assert!(said.starts_with(&format!("{ours}, but {theirs}")), "{said}");
        assert_ne!(Fingerprint::of_type::<u32>(), Fingerprint::of_type::<i32>());
    }
}
