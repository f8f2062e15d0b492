//! What nodes hold: never more than they may, and at rest nothing but what they began with.

use sabani_proto::{Config, CreditStats, LinkState, Node, PeerStats};

use super::{Checker, Rule};
use crate::HostId;

/// Bytes that every peer may send even when a node's memory is used up.
const LEAST_CREDIT: u64 = 16 << 10;

/// Credit held for peers that are said to have more to send.
fn claimed_credit(node: &Node) -> Option<String> {
    let CreditStats {
        waiting,
        outstanding,
        ..
    } = node.stats().credit;
    let claimed = waiting > 0 || outstanding > 0;
    claimed.then(|| format!("{outstanding} bytes of credit for {waiting} peers that want it"))
}

impl Checker {
    /// A node's queues must stay within what `config` allows. `largest` is the length of the
    /// largest single message in play.
    pub fn check_bounds(
        &mut self,
        now_ns: u64,
        host: HostId,
        config: &Config,
        node: &Node,
        largest: usize,
    ) {
        let queue = config.send_queue_bytes;
        // What goes unasked, what has to be asked for, and what is longer than either have room of their own, or
        // hold one message that is longer than that.
        let eager = queue.max(largest.min(config.eager_max as usize));
        let asked = if largest > Config::INLINE_MAX {
            eager
        } else {
            0
        };
        let large = match largest as u64 > config.eager_max {
            true => queue.max(largest),
            false => 0,
        };
        let most = eager + asked + large + largest.min(64 << 10) + (64 << 10);
        let mut broken = Vec::new();
        for peer in node.peer_ids() {
            let Some(stats) = node.peer_stats(peer) else {
                continue;
            };
            if stats.queued_bytes > most {
                let queued = stats.queued_bytes;
                broken.push(format!("{queued} bytes queued to peer {peer}"));
            }
            if stats.backlog_bytes > config.log_window_max {
                let backlog = stats.backlog_bytes;
                broken.push(format!("a backlog of {backlog} bytes from peer {peer}"));
            }
        }
        let stats = node.stats();
        let reserved = stats.unmatched_bytes;
        if reserved > config.memory_bytes + LEAST_CREDIT * stats.peers as u64 {
            broken.push(format!("{reserved} bytes reserved for unmatched messages"));
        }
        // Short bodies have some of their own.
        let allocated = stats.posted_bytes;
        if allocated > config.memory_bytes + config.memory_bytes / 8 {
            broken.push(format!("{allocated} bytes allocated for receives"));
        }
        for what in broken {
            let what = format!("{host} exceeds its bounds: {what}");
            self.violated(now_ns, Rule::Bounds, what);
        }
    }

    /// Everything is settled and every program has taken all that came: nothing may be queued or
    /// charged to messages, but for connections that `all` nodes' other ends have left.
    pub fn check_at_rest(&mut self, now_ns: u64, host: HostId, node: &Node, all: &[Option<&Node>]) {
        let is_shared = |stats: &PeerStats| {
            let other = all.get(stats.peer.0 as usize).copied().flatten();
            let back = other.and_then(|other| other.peer_stats(node.id()));
            back.is_some_and(|back| back.state == LinkState::Open)
        };
        let mut broken = Vec::new();
        let peers = node.peer_ids().filter_map(|peer| node.peer_stats(peer));
        let peers: Vec<_> = peers.collect();
        let mut connected = peers.iter().filter(|stats| stats.state.is_connected());
        if connected.all(is_shared) {
            broken.extend(claimed_credit(node));
        }
        for stats in peers.iter().filter(|stats| is_shared(stats)) {
            let peer = stats.peer;
            let held = [
                (stats.queued_bytes as u64, "bytes queued to"),
                (stats.queued_messages, "messages queued to"),
                (stats.backlog_bytes, "bytes of credit charged to"),
            ];
            let held = held.into_iter().filter(|&(count, _)| count > 0);
            broken.extend(held.map(|(count, what)| format!("{count} {what} peer {peer}")));
        }
        for what in broken {
            let what = format!("{host} is at rest, yet holds {what}");
            self.violated(now_ns, Rule::Credit, what);
        }
    }

    /// All connections have ended, and the program has taken all that came: all memory that was
    /// promised to peers or set aside for receives must be free again.
    pub fn check_closed(&mut self, now_ns: u64, host: HostId, node: &Node) {
        let stats = node.stats();
        let held = [
            (stats.unmatched_bytes, "bytes promised to peers"),
            (stats.posted_bytes, "bytes for receives"),
            (stats.unmatched_messages as u64, "messages"),
            (stats.credit.promised, "bytes of standing credit"),
        ];
        let held = held.into_iter().filter(|&(count, _)| count > 0);
        let held = held.map(|(count, what)| format!("{count} {what}"));
        for what in held.chain(claimed_credit(node)) {
            let what = format!("{host} has closed, yet holds {what}");
            self.violated(now_ns, Rule::Credit, what);
        }
    }
}
