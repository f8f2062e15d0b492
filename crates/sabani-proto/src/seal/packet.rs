//! Protection of single packets, each by itself.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::Checksum;
use super::keys::{EPOCH_BITS, Epoch, PacketKey, Secret, TAG_LEN, epoch_of, left_in_epoch};

/// A packet was not sealed by the other end of this connection, or has been changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forged;

impl fmt::Display for Forged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the packet is forged or damaged: it doesn't open under the keys of this connection",
        )
    }
}

impl std::error::Error for Forged {}

/// Seals the packets of one direction of a connection.
///
/// The key is a function of the packet number: every 2^22 packets (about 4.2 million) an *epoch*
/// ends and the key is replaced by one derived from it; the old one is forgotten.
#[derive(Debug)]
pub struct SealTx {
    /// The smallest packet number not ruled out yet.
    fresh: u64,
    key: PacketKey,
}

impl SealTx {
    pub(super) fn new(key: PacketKey) -> Self {
        SealTx { fresh: 0, key }
    }

    /// Uses packet numbers up, as sealing does; the key that the packets are to be sealed with.
    ///
    /// # Panics
    /// If one of them is not above all before. Those of several epochs have no common key, and
    /// [`PacketKey::seal`] panics for all but the first.
    #[inline]
    pub(crate) fn claim(&mut self, packet_numbers: RangeInclusive<u64>) -> &PacketKey {
        let (first, last) = packet_numbers.into_inner();
        assert!(first >= self.fresh, "a packet number used twice");
        self.fresh = last + 1;
        if let PacketKey::Sealed(epoch) = &mut self.key {
            while epoch.number() < epoch_of(first) {
                *epoch = Arc::new(epoch.next());
            }
        }
        &self.key
    }

    /// The key for the packet whose number was used up last.
    #[inline]
    pub(crate) fn key(&self) -> PacketKey {
        self.key.clone()
    }

    /// Packets from this number on that one key can seal.
    #[inline]
    pub(crate) fn one_key(packet_number: u64) -> u64 {
        left_in_epoch(packet_number)
    }

    /// Bytes that sealing adds behind the body: 16 sealed, 4 with a CRC, 0 without.
    #[inline]
    pub fn overhead(&self) -> usize {
        self.key.overhead()
    }

    /// Seals a packet in place: its last [`overhead`](Self::overhead) bytes are the room for the tag,
    /// those before are the body. `prelude` stays in the clear, and is authenticated.
    ///
    /// Costs about 0.08 µs for 64 bytes and 0.1 to 0.15 µs for 1,440, and allocates nothing except
    /// when an epoch begins. Both ends must know the packet number. It need not follow the last one
    /// closely, but skipping a whole epoch cuts the connection off, as [`SealRx`] doesn't follow.
    ///
    /// # Panics
    /// If `packet_number` is not above all sealed before (a nonce used twice gives the contents of
    /// both packets away, and lets others forge more, so that is never an error to go on after), or
    /// there is no room for the tag.
    #[inline]
    pub fn seal(&mut self, packet_number: u64, prelude: &[u8], body_and_tag: &mut [u8]) {
        self.claim(packet_number..=packet_number)
            .seal(packet_number, prelude, body_and_tag);
    }

    /// The secret of the current epoch, from which its keys and all later ones follow; `None` in plain
    /// mode. For a key log that somebody asked for, to decrypt a recording: never to be sent.
    pub fn log_secret(&self) -> Option<&[u8; 32]> {
        match &self.key {
            PacketKey::Plain(_) => None,
            PacketKey::Sealed(epoch) => Some(epoch.secret()),
        }
    }
}

/// What has been done about a packet's seal before it reached the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Nothing.
    Sealed,
    /// It has been opened in place; the tag is still behind the body, but of no use.
    Opened,
    /// It did not open, and its contents are lost.
    Forged,
}

/// Failed openings after which a connection opens nothing any more, as in RFC 9001, section 6.6.
/// At ten million forgeries a second it takes 14 years to reach.
const INTEGRITY_LIMIT: u64 = 1 << 52;

/// Packets into an epoch after which the one before is forgotten: far more than a network reorders.
const LATE_PACKETS: u64 = 1 << 16;

/// Opens the packets of one direction of a connection, in any order.
///
/// Knows the keys of the current epoch, of the one before for its first 65,536 packets, and of the
/// next one from when the first packet claims to be of it.
#[derive(Debug)]
pub struct SealRx {
    failures: u64,
    protection: RxProtection,
}

#[derive(Debug)]
enum RxProtection {
    Plain(Checksum),
    Sealed(Epochs),
}

impl SealRx {
    pub(super) fn plain(checksum: Checksum) -> Self {
        SealRx {
            failures: 0,
            protection: RxProtection::Plain(checksum),
        }
    }

    pub(super) fn sealed(secret: Secret) -> Self {
        SealRx {
            failures: 0,
            protection: RxProtection::Sealed(Epochs {
                current: Arc::new(Epoch::first(secret)),
                neighbours: None,
            }),
        }
    }

    /// The key of the current epoch.
    pub(crate) fn key(&self) -> PacketKey {
        match &self.protection {
            RxProtection::Plain(checksum) => PacketKey::Plain(*checksum),
            RxProtection::Sealed(epochs) => PacketKey::Sealed(Arc::clone(&epochs.current)),
        }
    }

    /// The number of the current epoch.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        match &self.protection {
            RxProtection::Plain(_) => 0,
            RxProtection::Sealed(epochs) => epochs.current.number(),
        }
    }

    /// Bytes that the sender's sealing added: 16 sealed, 4 with a CRC, 0 without.
    #[inline]
    pub fn overhead(&self) -> usize {
        match &self.protection {
            RxProtection::Plain(checksum) => checksum.overhead(),
            RxProtection::Sealed(_) => TAG_LEN,
        }
    }

    /// Opens a packet in place and returns its body, which is `sealed` without its last
    /// [`overhead`](Self::overhead) bytes.
    ///
    /// Costs as much as sealing. A packet number more than one epoch off costs nothing. Says nothing
    /// about replays: a packet opens as often as it comes.
    ///
    /// # Errors
    /// [`Forged`] changes nothing but the count of failures; the contents of `sealed` are lost.
    #[inline]
    pub fn open<'a>(
        &mut self,
        packet_number: u64,
        prelude: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], Forged> {
        self.go_on(Opening::Sealed, packet_number, prelude, sealed)
    }

    /// Like [`SealRx::open`], where that may have been done already, with [`SealRx::key`] as it is or was. What was
    /// opened with a key that has been forgotten meanwhile counts as forged, as if it came only now.
    #[inline]
    pub(crate) fn go_on<'a>(
        &mut self,
        opening: Opening,
        packet_number: u64,
        prelude: &[u8],
        packet: &'a mut [u8],
    ) -> Result<&'a mut [u8], Forged> {
        if self.failures >= INTEGRITY_LIMIT {
            return Err(Forged);
        }
        let body = match (opening, &mut self.protection) {
            (Opening::Sealed, RxProtection::Plain(checksum)) => checksum.open(prelude, packet),
            (Opening::Sealed, RxProtection::Sealed(epochs)) => {
                epochs.open(packet_number, prelude, packet)
            }
            (Opening::Opened, RxProtection::Plain(checksum)) => {
                without_tag(packet, checksum.overhead())
            }
            (Opening::Opened, RxProtection::Sealed(epochs)) => epochs
                .check(packet_number)
                .and_then(|()| without_tag(packet, TAG_LEN)),
            (Opening::Forged, _) => Err(Forged),
        };
        if body.is_err() {
            self.failures += 1;
        }
        body
    }

    /// Packets that did not open since the connection began.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// The secret of the current epoch; see [`SealTx::log_secret`].
    pub fn log_secret(&self) -> Option<&[u8; 32]> {
        match &self.protection {
            RxProtection::Plain(_) => None,
            RxProtection::Sealed(epochs) => Some(epochs.current.secret()),
        }
    }
}

/// The body of a packet that has been opened.
#[inline]
fn without_tag(packet: &mut [u8], overhead: usize) -> Result<&mut [u8], Forged> {
    let body = packet.len().checked_sub(overhead).ok_or(Forged)?;
    Ok(&mut packet[..body])
}

/// The epochs that packets may come from.
#[derive(Debug)]
struct Epochs {
    current: Arc<Epoch>,
    // Boxed, as an idle connection has none.
    neighbours: Option<Box<Neighbours>>,
}

#[derive(Debug, Default)]
struct Neighbours {
    previous: Option<Arc<Epoch>>,
    next: Option<Arc<Epoch>>,
}

impl Epochs {
    #[inline]
    fn open<'a>(
        &mut self,
        packet_number: u64,
        prelude: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], Forged> {
        if epoch_of(packet_number) != self.current.number() {
            return self.open_neighbour(packet_number, prelude, sealed);
        }
        let body = self.current.open(packet_number, prelude, sealed)?;
        self.forget_previous(packet_number);
        Ok(body)
    }

    /// Whether a packet that has been opened is of an epoch that still counts.
    #[inline]
    fn check(&mut self, packet_number: u64) -> Result<(), Forged> {
        let number = epoch_of(packet_number);
        if number == self.current.number() {
            self.forget_previous(packet_number);
            return Ok(());
        }
        match self.previous() {
            Some(previous) if previous.number() == number => Ok(()),
            _ => Err(Forged),
        }
    }

    fn previous(&self) -> Option<&Epoch> {
        self.neighbours.as_ref()?.previous.as_deref()
    }

    /// A packet of the current epoch has opened.
    #[inline]
    fn forget_previous(&mut self, packet_number: u64) {
        if let Some(neighbours) = &mut self.neighbours
            && packet_number % (1 << EPOCH_BITS) >= LATE_PACKETS
        {
            neighbours.previous = None;
        }
    }

    #[cold]
    fn open_neighbour<'a>(
        &mut self,
        packet_number: u64,
        prelude: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], Forged> {
        let number = epoch_of(packet_number);
        if number == self.current.number() + 1 {
            self.open_next(packet_number, prelude, sealed)
        } else if number + 1 == self.current.number() {
            let previous = self.previous().ok_or(Forged)?;
            previous.open(packet_number, prelude, sealed)
        } else {
            Err(Forged)
        }
    }

    /// Moves on to the next epoch if the packet proves that the sender has.
    fn open_next<'a>(
        &mut self,
        packet_number: u64,
        prelude: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], Forged> {
        let neighbours = self.neighbours.get_or_insert_default();
        let next = &mut neighbours.next;
        // Kept when the packet is forged, so that a flood of such costs one derivation, not one each.
        let next = next.get_or_insert_with(|| Arc::new(self.current.next()));
        let body = next.open(packet_number, prelude, sealed)?;
        std::mem::swap(&mut self.current, next);
        neighbours.previous = neighbours.next.take();
        Ok(body)
    }
}

#[cfg(test)]
#[path = "packet_tests.rs"]
mod tests;
