//! Packets on connections that this process does not know: it may have been restarted, and its peers are to learn of that.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;

use super::{Node, Path};
use crate::LinkState;

/// Such packets make it greet their senders at most this often.
const EVERY_NS: u64 = 100_000_000;
/// Hashes of addresses that are told apart: of a hundred addresses that send garbage each makes three peers of a thousand be taken for
/// one that was heard, and greeted for nothing.
const HASHES: usize = 1 << 15;

/// Where such packets have come from since peers were last looked through, which is done but once in that time. As bits: however many
/// addresses send garbage, they take no more memory, and hide no peer.
#[derive(Debug, Default)]
pub(super) struct Strays {
    heard: Vec<u64>,
    /// Nobody can choose addresses whose bits are those of others.
    key: u64,
    next_ns: u64,
    /// Peers are looked through from this one on, so that each has its turn.
    from: u32,
}

impl Strays {
    /// Word and bit of an address.
    fn place(&self, addr: SocketAddr) -> (usize, u64) {
        let mut hasher = DefaultHasher::new();
        (self.key, addr).hash(&mut hasher);
        let bit = hasher.finish() as usize % HASHES;
        (bit / 64, 1 << (bit % 64))
    }

    fn hear(&mut self, addr: SocketAddr, fresh_key: impl FnOnce() -> u64) {
        if self.heard.is_empty() {
            self.heard = vec![0; HASHES / 64];
            self.key = fresh_key();
        }
        let (word, bit) = self.place(addr);
        self.heard[word] |= bit;
    }

    fn has_heard(&self, addr: SocketAddr) -> bool {
        let (word, bit) = self.place(addr);
        self.heard[word] & bit != 0
    }
}

impl Node {
    /// A packet on a connection that this process does not know. If it comes from a known peer's
    /// address, this process has probably been restarted: greet the peer, so that it learns of it.
    pub(super) fn greet_stray(&mut self, now_ns: u64, path: Path) {
        if self.closing {
            return;
        }
        let (strays, entropy) = (&mut self.strays, &mut self.entropy);
        strays.hear(path.peer, || entropy.next_u64());
        if now_ns < strays.next_ns {
            return;
        }
        strays.next_ns = now_ns + EVERY_NS;
        let indices = self.peers.indices();
        let from = strays.from.min(indices.end);
        let stray = (from..indices.end).chain(0..from).find(|&index| {
            let peer = &self.peers[index];
            peer.state == LinkState::Known && !peer.farewell && self.strays.has_heard(peer.addr)
        });
        self.strays.heard.fill(0);
        if let Some(index) = stray {
            self.strays.from = index + 1;
            self.begin_attempt(index, false, now_ns);
        }
    }
}
