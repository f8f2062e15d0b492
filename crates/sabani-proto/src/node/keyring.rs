//! The seal as a layer below the node: what it has to do, and the keys for it ([`crate::Config::seal_below`], [`crate::Config::open_below`]).

use crate::seal::{Opening, PacketKey, SealRx};
use crate::wire::{ConnectionId, Kind, Prelude};

/// What is left to do for a train: to be sealed. Doing it uses this up, so that no packet number is sealed
/// twice.
#[derive(Debug)]
pub struct Unsealed {
    key: PacketKey,
}

impl Unsealed {
    pub(super) fn new(key: PacketKey) -> Self {
        Unsealed { key }
    }

    /// Seals the train that came with it in place: datagrams of `segment` bytes, the last of which may be shorter.
    /// Costs 0.1 to 0.15 µs for a datagram of 1,440 bytes.
    ///
    /// # Panics
    /// If it is another train.
    pub fn seal(self, train: &mut [u8], segment: usize) {
        for datagram in train.chunks_mut(segment) {
            let (prelude, body_and_tag) = datagram
                .split_first_chunk_mut::<{ Prelude::LEN }>()
                .expect("the train that came with it");
            let (read, _) = Prelude::parse(prelude).expect("the train that came with it");
            self.key.seal(read.packet_number, prelude, body_and_tag);
        }
    }
}

/// A connection has a key for what comes, another one, or none any more.
#[derive(Debug)]
pub struct KeyNews {
    connection: ConnectionId,
    key: Option<PacketKey>,
}

/// What a keyring is still to hear, if there is one.
#[derive(Debug)]
pub(crate) struct KeyJournal {
    is_kept: bool,
    pub news: Vec<KeyNews>,
}

impl KeyJournal {
    pub fn new(is_kept: bool) -> Self {
        KeyJournal {
            is_kept,
            news: Vec::new(),
        }
    }

    /// What comes on a connection is sealed under the key that `rx` has now.
    pub fn set(&mut self, connection: ConnectionId, rx: &SealRx) {
        if self.is_kept {
            let key = Some(rx.key());
            self.news.push(KeyNews { connection, key });
        }
    }

    /// A connection has ended.
    pub fn remove(&mut self, connection: ConnectionId) {
        if self.is_kept {
            let key = None;
            self.news.push(KeyNews { connection, key });
        }
    }
}

/// Opens packets of connections, as far as it has been told of their keys ([`crate::Node::take_key_news`]). It may lag
/// behind: what it has no key for stays sealed, and the node opens it. Knows nothing of replays; the node
/// does.
#[derive(Debug, Default)]
pub struct Keyring {
    /// By the slot of the connection.
    keys: Vec<Option<(ConnectionId, PacketKey)>>,
}

impl Keyring {
    /// Takes note of a key; in the order in which the node told.
    pub fn hear(&mut self, KeyNews { connection, key }: KeyNews) {
        let slot = connection.slot();
        match key {
            Some(key) => {
                if slot >= self.keys.len() {
                    self.keys.resize_with(slot + 1, || None);
                }
                self.keys[slot] = Some((connection, key));
            }
            None if self.key(connection).is_some() => self.keys[slot] = None,
            None => {}
        }
    }

    /// Connections whose key it has.
    pub fn connections(&self) -> usize {
        self.keys.iter().flatten().count()
    }

    /// Opens datagrams of `segment` bytes in place, the last of which may be shorter, and appends to `openings` what
    /// came of each. Costs as much as sealing, and next to nothing for what it has no key for.
    pub fn open(&self, datagrams: &mut [u8], segment: usize, openings: &mut Vec<Opening>) {
        let datagrams = datagrams.chunks_mut(segment.max(1));
        openings.extend(datagrams.map(|datagram| self.open_one(datagram)));
    }

    #[inline]
    fn open_one(&self, datagram: &mut [u8]) -> Opening {
        let Ok((prelude, _)) = Prelude::parse(datagram) else {
            return Opening::Sealed;
        };
        let number = prelude.packet_number;
        let key = self.key(prelude.connection);
        let Some(key) = key.filter(|key| prelude.kind == Kind::Data && key.covers(number)) else {
            return Opening::Sealed;
        };
        let (head, sealed) = datagram.split_at_mut(Prelude::LEN);
        match key.open(number, head, sealed) {
            Ok(_) => Opening::Opened,
            Err(_) => Opening::Forged,
        }
    }

    #[inline]
    fn key(&self, connection: ConnectionId) -> Option<&PacketKey> {
        let (id, key) = self.keys.get(connection.slot())?.as_ref()?;
        (*id == connection).then_some(key)
    }
}

#[cfg(test)]
#[path = "keyring_tests.rs"]
mod tests;
