//! The side that answers, and keeps half-open connections.

use std::cmp::Reverse;

use super::{PROLOGUE, is_unheard};
use crate::PeerId;
use crate::channel::{BASE_DATAGRAM, DEFAULT_DATAGRAM};
use crate::message::LogCredit;
use crate::node::arrivals::{Batch, Packet};
use crate::node::gate::Admission;
use crate::node::peers::Target;
use crate::node::session::{Established, RoundTrip};
use crate::node::{HALF_OPEN_TIMER, Node, Path};
use crate::seal::{HandshakeError, Responder, SealRx, SealTx};
use crate::wire::{
    ConnectionId, Hello, Init, Kind, Prelude, Reject, RejectReason, VERSION, VERSION_MIN, Writer,
};

/// Half-open connections kept; beyond, the oldest is dropped. Enough for every process of a large
/// job to begin at once: if they push each other out before the round trip is over, none gets in.
pub(in crate::node) const HALF_OPEN_MAX: usize = 4_096;
pub(super) const HALF_OPEN_NS: u64 = 5_000_000_000;
/// All of them together may reserve one part in this many of the memory for messages.
pub(in crate::node) const UNPROVEN_PART: u64 = 8;

/// A handshake that the other side began, until it has proven itself.
#[derive(Debug)]
pub(crate) struct HalfOpen {
    hello: Hello,
    tx: SealTx,
    rx: SealRx,
    log_credit: LogCredit,
    reply: Vec<u8>,
    /// The reply went once only.
    replied_once: bool,
    began_ns: u64,
}

impl HalfOpen {
    /// The identifier that the other side gave out.
    pub fn remote(&self) -> ConnectionId {
        self.hello.connection
    }

    /// Whether it was begun with this hello.
    pub fn is_of(&self, hello: &Hello) -> bool {
        self.hello.sender == hello.sender && self.hello.connection == hello.connection
    }

    fn expires_ns(&self) -> u64 {
        self.began_ns + HALF_OPEN_NS
    }
}

impl Node {
    /// A first message. Costs symmetric cryptography until it has proven the job key.
    pub(in crate::node) fn handle_init(
        &mut self,
        now_ns: u64,
        path: Path,
        prelude: &Prelude,
        version: u8,
        datagram: &[u8],
    ) {
        if datagram.len() < BASE_DATAGRAM || self.closing {
            self.dropped.malformed += 1;
            return;
        }
        let Ok(init) = Init::parse(&datagram[Prelude::LEN..]) else {
            self.dropped.malformed += 1;
            return;
        };
        let answer = self.judge_init(now_ns, path, prelude, version, &init, datagram.len());
        if let Err(reason) = answer {
            self.dropped.rejected += 1;
            self.rejected_last = Some((path.peer, reason));
            if !self.gate.may_reject(now_ns) {
                return;
            }
            let sealed = self.hub.config.mode.is_sealed();
            let body = Reject::new(reason, sealed).encode();
            self.post_letter(
                path,
                short_packet(Kind::Reject, prelude.packet_number, &body),
            );
        }
    }

    fn judge_init(
        &mut self,
        now_ns: u64,
        path: Path,
        prelude: &Prelude,
        version: u8,
        init: &Init<'_>,
        size: usize,
    ) -> Result<(), RejectReason> {
        let (oldest, newest) = init.versions;
        if version != VERSION || oldest > VERSION || newest < VERSION_MIN {
            return Err(RejectReason::Version);
        }
        if init.sealed != self.hub.config.mode.is_sealed() {
            return Err(RejectReason::Mode);
        }
        self.expire_half_open(now_ns);
        match self.admission(now_ns, path, prelude, init) {
            Admission::Opened => {}
            Admission::Asked => {
                self.dropped.cookies += 1;
                let cookie = self.cookies.issue(now_ns, path.peer, init.message);
                let answer = short_packet(Kind::Cookie, prelude.packet_number, &cookie);
                self.post_letter(path, answer);
                return Ok(());
            }
            Admission::Dropped => {
                self.dropped.crowded_out += 1;
                return Ok(());
            }
        }
        let opened = Responder::open(&self.hub.config.mode, PROLOGUE, init.message);
        let decoded = match opened {
            Ok((payload, responder)) => Hello::decode(&payload).ok().zip(Some(responder)),
            Err(HandshakeError::WrongKey) => return Err(RejectReason::Key),
            Err(HandshakeError::ChecksumMismatch { .. }) => return Err(RejectReason::Checksum),
            Err(_) => None,
        };
        let Some((hello, responder)) = decoded else {
            self.dropped.malformed += 1;
            return Ok(());
        };
        if hello.receiver != self.id() || hello.sender == self.id() {
            return Err(RejectReason::WrongPeer);
        }
        self.answer_init(now_ns, path, prelude, &hello, responder, size)
    }

    /// Whether a first message is to be opened.
    fn admission(
        &mut self,
        now_ns: u64,
        path: Path,
        prelude: &Prelude,
        init: &Init<'_>,
    ) -> Admission {
        let (nonce, message) = (prelude.packet_number, init.message);
        let crowded = self.peers.half_open() >= self.hub.config.cookie_above;
        let is_reachable = || {
            self.cookies
                .verify(now_ns, path.peer, message, &init.cookie)
        };
        self.gate
            .admit(now_ns, nonce, message, crowded, is_reachable)
    }

    /// A first message that proved the job key: answer it, unless it is old or not wanted.
    fn answer_init(
        &mut self,
        now_ns: u64,
        path: Path,
        prelude: &Prelude,
        hello: &Hello,
        responder: Responder,
        size: usize,
    ) -> Result<(), RejectReason> {
        if let Some(half) = self.peers.half_open_of(hello) {
            // A smaller one, for a larger answer may not have found its way back.
            half.reply.truncate(size);
            half.replied_once = false;
            let reply = half.reply.clone();
            self.post_letter(path, reply);
            return Ok(());
        }
        match self.peers.index(hello.sender) {
            Some(index) => {
                let peer = &self.peers[index];
                let current = peer
                    .session()
                    .is_some_and(|session| session.remote == hello.connection);
                if current || self.mine_wins(index) || self.has_chosen(index, hello, now_ns) {
                    return Ok(());
                }
            }
            None if !self.hub.config.accept_unknown => return Err(RejectReason::Stranger),
            None if self.peers.len() >= self.hub.config.max_peers => {
                return Err(RejectReason::Full);
            }
            None => {}
        }
        // Messages of connections that have ended, which the program has not taken.
        let unmatched = &self.hub.mailbox.unmatched;
        if unmatched.used > unmatched.limit {
            return Err(RejectReason::Full);
        }
        if self.gate.may_answer(now_ns) {
            self.make_half_open(now_ns, path, prelude, hello, responder, size);
        } else {
            self.dropped.crowded_out += 1;
        }
        Ok(())
    }

    /// Whether this side has just made the connection that both will use. When both sides begin,
    /// packets may be lost so that either could be made: the lower id chooses, by the first that it
    /// sees complete, and the other follows ([`Node::follow`]).
    fn has_chosen(&self, index: u32, hello: &Hello, now_ns: u64) -> bool {
        let session = self.peers[index].session();
        self.id() < hello.sender
            && session.is_some_and(|session| is_unheard(session, hello, now_ns))
    }

    /// The same for one that has yet to prove that it is alive: recorded first messages must not use up
    /// the node's memory, so beyond a part of it there is the least credit only.
    fn unproven_log_credit(&mut self) -> LogCredit {
        let config = &self.hub.config;
        let unproven = self.peers.half_open() as u64 * config.log_window;
        if unproven < self.hub.mailbox.logs.limit / UNPROVEN_PART {
            self.first_log_credit()
        } else {
            LogCredit::least(config.log_window)
        }
    }

    fn make_half_open(
        &mut self,
        now_ns: u64,
        path: Path,
        prelude: &Prelude,
        hello: &Hello,
        responder: Responder,
        size: usize,
    ) {
        let local = self.peers.new_slot(Target::Reserved, &mut self.entropy);
        let mut log_credit = self.unproven_log_credit();
        let mine = self.hello(hello.sender, local, log_credit.limit());
        let mut message = Vec::new();
        let Ok((tx, rx)) = responder.reply(&mine.encode(), &mut self.entropy, &mut message) else {
            self.peers.free_slot(local);
            log_credit.release(&mut self.hub.mailbox);
            return;
        };
        // What an Init is padded with is not its sender's word: no Reply is kept that is longer than usual.
        let size = size.min(DEFAULT_DATAGRAM);
        let reply = reply_packet(hello.connection, prelude.packet_number, &message, size);
        self.post_letter(path, reply.clone());
        let half = HalfOpen {
            hello: *hello,
            tx,
            rx,
            log_credit,
            reply,
            replied_once: true,
            began_ns: now_ns,
        };
        let expires_ns = half.expires_ns();
        self.peers.set_half_open(local, half);
        self.arm_half_open(expires_ns);
    }

    /// One timer serves all handshakes that others have begun.
    pub(in crate::node) fn on_half_open_timer(&mut self, now_ns: u64) {
        self.expire_half_open(now_ns);
        self.half_open_at_ns = u64::MAX;
        if let Some((_, at)) = self.oldest_half_open() {
            self.arm_half_open(at);
        }
    }

    fn arm_half_open(&mut self, at_ns: u64) {
        if self.half_open_at_ns == u64::MAX {
            self.half_open_at_ns = at_ns;
            self.timers.push(Reverse((at_ns, HALF_OPEN_TIMER)));
        }
    }

    /// Drops handshakes that others have begun and not finished in time, and the oldest if there
    /// are too many.
    fn expire_half_open(&mut self, now_ns: u64) {
        while let Some((id, expires_ns)) = self.oldest_half_open()
            && (expires_ns <= now_ns || self.peers.half_open() >= HALF_OPEN_MAX)
        {
            self.free_half_open(id);
        }
    }

    /// The handshake that another side began first, and when it is over: they all live equally long.
    fn oldest_half_open(&self) -> Option<(ConnectionId, u64)> {
        let oldest = self.peers.half_opens().next();
        oldest.map(|(id, half)| (id, half.expires_ns()))
    }

    /// A packet on a half-open connection: if it opens, the initiator has proven itself.
    pub(in crate::node) fn handle_first_data<'a>(
        &mut self,
        now_ns: u64,
        path: Path,
        first: Packet<'a>,
        batch: &mut Batch<'a>,
    ) -> Option<u32> {
        let prelude = first.prelude;
        let Some(Target::HalfOpen(half)) = self.peers.target(prelude.connection) else {
            return None;
        };
        let (head, sealed) = first.datagram.split_at_mut(Prelude::LEN);
        // Opened on a copy: the packet is opened again, in place, by the open connection.
        if half
            .rx
            .open(prelude.packet_number, head, &mut sealed.to_vec())
            .is_err()
        {
            self.dropped.forged += 1;
            return None;
        }
        let sender = half.hello.sender;
        let index = match self.peers.index(sender) {
            Some(index) => index,
            // Others may have come since its first message.
            None if self.peers.len() >= self.hub.config.max_peers => {
                self.dropped.crowded_out += 1;
                return None;
            }
            None => self.peers.add(sender, path.peer),
        };
        let Some(Target::HalfOpen(half)) = self.peers.open_slot(prelude.connection, index) else {
            return None;
        };
        self.displace(index, &half.hello, now_ns);
        // Only the first packet answers the reply at once.
        let first_answer = first.prelude.packet_number == 0;
        let since_ns = now_ns - half.began_ns;
        let round_trip = match half.replied_once && first_answer {
            true => RoundTrip::Took(since_ns),
            false => RoundTrip::AtMost(since_ns),
        };
        let peer = &mut self.peers[index];
        peer.addr = path.peer;
        peer.local = path.local;
        let mut log_credit = half.log_credit;
        log_credit.widen(self.hub.config.log_window, &mut self.hub.mailbox);
        let made = Established {
            tx: half.tx,
            rx: half.rx,
            local: prelude.connection,
            datagram: half.reply.len(),
            log_credit,
            round_trip,
            alive_ns: half.began_ns,
            hello: half.hello,
        };
        self.establish(index, made, now_ns);
        self.handle_data(now_ns, path, first, batch)
    }

    /// Forgets handshakes that were begun beside the one that has been made: those of processes
    /// that died before this one answered, and, if this side has `chosen`, its own.
    pub(super) fn drop_rivals(&mut self, made: &Hello, chosen: bool, alive_ns: u64) {
        self.free_half_opens(|half| {
            half.hello.sender == made.sender
                && match half.hello.incarnation == made.incarnation {
                    true => chosen,
                    false => half.began_ns <= alive_ns,
                }
        });
    }

    /// The peer has spoken on its connection, and was alive at `alive_ns` or later: handshakes
    /// that were begun before are a dead process's, or given up. Their last packet may still be
    /// under way, and must neither end the connection nor come after it.
    #[cold]
    pub(in crate::node) fn drop_outlived(&mut self, sender: PeerId, alive_ns: u64) {
        self.free_half_opens(|half| half.hello.sender == sender && half.began_ns <= alive_ns);
    }

    /// Forgets all handshakes that others have begun: nothing can come of them any more.
    pub(in crate::node) fn drop_handshakes(&mut self) {
        self.free_half_opens(|_| true);
    }

    fn free_half_opens(&mut self, which: impl Fn(&HalfOpen) -> bool) {
        let old = self.peers.half_opens().filter(|(_, half)| which(half));
        let old: Vec<_> = old.map(|(id, _)| id).collect();
        for id in old {
            self.free_half_open(id);
        }
    }

    fn free_half_open(&mut self, id: ConnectionId) {
        if let Target::HalfOpen(mut half) = self.peers.free_slot(id) {
            half.log_credit.release(&mut self.hub.mailbox);
        }
    }
}

/// A packet without a connection: the answer to a first message, named by its nonce.
fn short_packet(kind: Kind, nonce: u64, body: &[u8]) -> Vec<u8> {
    let prelude = Prelude {
        kind,
        flags: 0,
        packet_number: nonce,
        connection: ConnectionId::default(),
    };
    [&prelude.encode()[..], body].concat()
}

/// The second message, padded to the size of the first: what came that way fits back.
fn reply_packet(connection: ConnectionId, nonce: u64, message: &[u8], size: usize) -> Vec<u8> {
    let prelude = Prelude {
        kind: Kind::Reply,
        flags: 0,
        packet_number: nonce,
        connection,
    };
    let mut bytes = vec![0; size];
    bytes[..Prelude::LEN].copy_from_slice(&prelude.encode());
    let mut out = Writer::new(&mut bytes[Prelude::LEN..]);
    out.u32(message.len() as u32);
    out.put(message);
    bytes
}
