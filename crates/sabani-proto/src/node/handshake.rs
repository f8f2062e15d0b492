//! Making connections (U13): three messages, begun by either side or both, that prove the job key,
//! the address and a fresh incarnation before anything changes.
//!
//! 1. `Init`: the initiator's hello, sealed under the job key. Padded, so that the answer is never
//!    larger than what it answers.
//! 2. `Reply`: the responder's hello, under fresh keys. The responder keeps a bounded number of
//!    such half-open connections; an established one is untouched.
//! 3. The first data packet that opens under the fresh keys proves that the initiator is alive and
//!    reachable where it says: only now does the new connection take the place of an old one.

use super::arrivals::{Batch, Packet};
use super::gate::Admission;
use super::peers::{Link, Target};
use super::session::{Established, Session};
use super::spans::PeerSpan;
use super::{HALF_OPEN_TIMER, Node, Path, PeerLost};
use std::cmp::Reverse;
use std::time::Duration;

use crate::channel::{BASE_DATAGRAM, DEFAULT_DATAGRAM};
use crate::error::ConnectError;
use crate::event::Event;
use crate::message::{Inbox, LogCredit};
use crate::seal::{HandshakeError, Initiator, Responder, SealRx, SealTx};
use crate::state::Happening;
use crate::wire::{
    ConnectionId, Hello, Init, Kind, Prelude, Reject, RejectReason, VERSION, VERSION_MIN, Writer,
};
use crate::{Obstacle, PeerId};

/// What binds the handshake to this protocol and version.
const PROLOGUE: &[u8] = &[b's', b'a', b'b', b'a', b'n', b'i', VERSION];
/// First wait for an answer; doubles up to [`RETRY_MAX_NS`]. Half as long to half as long again, by
/// chance: of many who began at the same time, those that a full queue dropped must not meet again.
const RETRY_NS: u64 = 20_000_000;
const RETRY_MAX_NS: u64 = 1_000_000_000;
/// Attempts that carry a full-size packet, to prove that the path takes it.
const FULL_SIZE_TRIES: u32 = 2;
/// In a simultaneous opening the lower id's attempt wins, until it has gone unanswered this often.
const YIELD_AFTER: u32 = 4;
/// Half-open connections kept; beyond, the oldest is dropped. Enough for every process of a large
/// job to begin at once: if they push each other out before the round trip is over, none gets in.
pub(super) const HALF_OPEN_MAX: usize = 4_096;
const HALF_OPEN_NS: u64 = 5_000_000_000;
/// All of them together may reserve one part in this many of the memory for messages.
pub(super) const UNPROVEN_PART: u64 = 8;
/// Handshake packets waiting to be sent; more are dropped as if lost.
const OUTBOX_MAX: usize = 1_024;

/// A handshake packet on its way out.
#[derive(Debug)]
pub(crate) struct Letter {
    pub path: Path,
    pub bytes: Vec<u8>,
}

impl Letter {
    /// Whether it asks for a connection.
    pub fn is_init(&self) -> bool {
        Prelude::parse(&self.bytes).is_ok_and(|(prelude, _)| prelude.kind == Kind::Init)
    }
}

/// A handshake that this side began.
#[derive(Debug)]
pub(crate) struct Attempt {
    initiator: Initiator,
    pub local: ConnectionId,
    /// What answers must echo: see `Gate::nonce`.
    nonce: u64,
    message: Vec<u8>,
    cookie: [u8; Init::COOKIE_LEN],
    pub log_credit: LogCredit,
    /// The program has asked for a connection.
    wanted: bool,
    tries: u32,
    pub began_ns: u64,
    pub next_ns: u64,
    /// Cookies are taken at most this often, so that forged ones make no flood of answers.
    next_cookie_ns: u64,
    hint: Option<Reject>,
    /// What is said to be in the way of the last packet, or of any before it.
    pub obstacle: Option<Obstacle>,
    pub span: PeerSpan,
}

/// A handshake that the other side began, until it has proven itself.
#[derive(Debug)]
pub(crate) struct HalfOpen {
    hello: Hello,
    tx: SealTx,
    rx: SealRx,
    log_credit: LogCredit,
    reply: Vec<u8>,
    /// When the reply was sent, unless it had to be sent again: then nobody can tell which of them
    /// was answered.
    replied_ns: Option<u64>,
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
    /// Makes sure that there is a connection to the peer, or an attempt to make one.
    pub(super) fn ensure_link(&mut self, index: u32, now_ns: u64) {
        match self.peers[index].link.as_deref_mut() {
            Some(Link {
                session: Some(_), ..
            }) => {}
            Some(Link {
                attempt: Some(attempt),
                ..
            }) => attempt.wanted = true,
            _ => self.begin_attempt(index, true, now_ns),
        }
    }

    /// Begins a handshake with a peer to which there is no connection. `wanted`: the program asks for one.
    pub(super) fn begin_attempt(&mut self, index: u32, wanted: bool, now_ns: u64) {
        self.happen(index, Happening::Wanted, now_ns);
        let id = self.peers[index].id;
        let local = self
            .peers
            .new_slot(Target::Attempt(index), &mut self.entropy);
        let log_credit = self.first_log_credit();
        let hello = self.hello(id, local, log_credit.limit());
        let mut message = Vec::new();
        let initiator = Initiator::start(
            &self.hub.config.mode,
            PROLOGUE,
            &hello.encode(),
            &mut self.entropy,
            &mut message,
        )
        .expect("a hello fits into a handshake message");
        let attempt = Attempt {
            initiator,
            local,
            nonce: self.gate.nonce(local, &message, &mut self.entropy),
            message,
            cookie: [0; Init::COOKIE_LEN],
            log_credit,
            wanted,
            tries: 0,
            began_ns: now_ns,
            next_ns: now_ns,
            next_cookie_ns: now_ns,
            hint: None,
            obstacle: None,
            span: PeerSpan::handshake(id),
        };
        let link = self.peers[index].link.get_or_insert_default();
        link.attempt = Some(Box::new(attempt));
        self.retry_handshake(index, now_ns);
        self.arm(index, now_ns);
    }

    /// Memory that a new peer's small messages may take at once.
    fn first_log_credit(&mut self) -> LogCredit {
        let config = &self.hub.config;
        LogCredit::reserve(
            config.log_window,
            config.log_window_max,
            &mut self.hub.mailbox,
        )
    }

    /// The same for one that has yet to prove that it is alive: recorded first messages must not use up
    /// the node's memory, so beyond a part of it there is the least credit only.
    fn unproven_log_credit(&mut self) -> LogCredit {
        let config = &self.hub.config;
        let unproven = self.peers.half_open() as u64 * config.log_window;
        if unproven < self.hub.mailbox.unmatched.limit / UNPROVEN_PART {
            self.first_log_credit()
        } else {
            LogCredit::least(config.log_window, config.log_window_max)
        }
    }

    fn hello(&self, receiver: PeerId, connection: ConnectionId, log_limit: u64) -> Hello {
        let config = &self.hub.config;
        let ecn = if config.ecn { Hello::ECN } else { 0 };
        Hello {
            sender: config.id,
            receiver,
            incarnation: self.incarnation,
            connection,
            features: Hello::FEATURES | u64::from(ecn),
            window: 0,
            ack_delay_us: (config.max_ack_delay_ns / 1_000) as u32,
            log_limit,
            max_datagram: config.max_datagram as u32,
            late_ack_us: (config.late_ack_ns / 1_000) as u32,
        }
    }

    /// Sends the first message, again; or gives up.
    pub(super) fn retry_handshake(&mut self, index: u32, now_ns: u64) {
        let timeout = self.hub.config.connect_timeout_ns;
        let full = self.hub.config.max_datagram.min(DEFAULT_DATAGRAM);
        let peer = &mut self.peers[index];
        let path = Path {
            peer: peer.addr,
            local: peer.local,
        };
        let Some(attempt) = peer.link.as_mut().and_then(|link| link.attempt.as_mut()) else {
            return;
        };
        let over_ns = attempt.began_ns + timeout;
        if now_ns >= over_ns {
            return self.give_up_attempt(index, over_ns);
        }
        let size = if attempt.tries < FULL_SIZE_TRIES {
            full
        } else {
            BASE_DATAGRAM
        };
        let bytes = attempt.packet(size, self.hub.config.mode.is_sealed());
        let wait = (RETRY_NS << attempt.tries.min(10)).min(RETRY_MAX_NS);
        let wait = wait / 2 + self.entropy.next_u64() % wait;
        attempt.next_ns = (now_ns + wait).min(over_ns);
        attempt.tries += 1;
        // This packet may get through.
        attempt.obstacle.take_if(|obstacle| obstacle.is_local());
        self.post_letter(path, bytes);
    }

    /// Ends an attempt to make a connection: to go on is in vain. If nobody has asked for it, nobody is
    /// told: a datagram from anywhere may have caused it.
    pub(super) fn give_up_attempt(&mut self, index: u32, now_ns: u64) {
        let Some(link) = self.peers[index].link.as_ref() else {
            return;
        };
        let Some(attempt) = &link.attempt else {
            return;
        };
        if attempt.wanted || !link.outgoing.is_settled() {
            let why = attempt.failure(now_ns - attempt.began_ns);
            self.lose(index, PeerLost::Unreachable(why));
        } else {
            self.drop_attempt(index);
            self.peers[index].link = None;
            self.happen(index, Happening::End, now_ns);
        }
    }

    /// The first message was refused for its size: sends it again, as small as they get.
    pub(super) fn shrink_attempt(&mut self, index: u32, bytes: usize, now_ns: u64) {
        let link = self.peers[index].link.as_mut();
        let Some(attempt) = link.and_then(|link| link.attempt.as_mut()) else {
            return;
        };
        if bytes > BASE_DATAGRAM && attempt.tries <= FULL_SIZE_TRIES {
            attempt.tries = FULL_SIZE_TRIES;
            self.retry_handshake(index, now_ns);
        }
    }

    pub(super) fn post_letter(&mut self, path: Path, bytes: Vec<u8>) {
        if self.outbox.len() < OUTBOX_MAX && !bytes.is_empty() {
            self.outbox.push_back(Letter { path, bytes });
        }
    }

    /// A first message. Costs symmetric cryptography until it has proven the job key.
    pub(super) fn handle_init(
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
            half.replied_ns = None;
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
        if self.gate.may_answer(now_ns) {
            self.make_half_open(now_ns, path, prelude, hello, responder, size);
        } else {
            self.dropped.crowded_out += 1;
        }
        Ok(())
    }

    /// Whether an attempt of this side's takes precedence over the peer's.
    fn mine_wins(&self, index: u32) -> bool {
        let peer = &self.peers[index];
        let attempt = peer.link.as_ref().and_then(|link| link.attempt.as_ref());
        self.id() < peer.id && attempt.is_some_and(|attempt| attempt.tries < YIELD_AFTER)
    }

    /// Whether this side has just made the connection that both will use. When both sides begin,
    /// packets may be lost so that either could be made: the lower id chooses, by the first that it
    /// sees complete, and the other follows ([`Node::follow`]).
    fn has_chosen(&self, index: u32, hello: &Hello, now_ns: u64) -> bool {
        let session = self.peers[index].session();
        self.id() < hello.sender
            && session.is_some_and(|session| is_unheard(session, hello, now_ns))
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
            replied_ns: Some(now_ns),
            began_ns: now_ns,
        };
        if self.peers.half_open() == 0 {
            self.timers
                .push(Reverse((half.expires_ns(), HALF_OPEN_TIMER)));
        }
        self.peers.set_half_open(local, half);
    }

    /// One timer serves all handshakes that others have begun.
    pub(super) fn on_half_open_timer(&mut self, now_ns: u64) {
        self.expire_half_open(now_ns);
        if let Some((_, at)) = self.oldest_half_open() {
            self.timers.push(Reverse((at, HALF_OPEN_TIMER)));
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

    /// The answer to an attempt of this side's.
    pub(super) fn handle_reply(
        &mut self,
        now_ns: u64,
        path: Path,
        prelude: &Prelude,
        datagram: &[u8],
    ) -> Option<u32> {
        let Some(&mut Target::Attempt(index)) = self.peers.target(prelude.connection) else {
            self.dropped.unknown_connection += 1;
            return None;
        };
        let config = &self.hub.config;
        let peer = &mut self.peers[index];
        let link = peer.link.as_mut()?;
        let attempt = link.attempt.as_mut()?;
        let finished =
            read_reply(datagram).and_then(|message| attempt.initiator.finish(message).ok());
        let Some((payload, tx, rx)) = finished else {
            self.dropped.forged += 1;
            return None;
        };
        let hello = Hello::decode(&payload)
            .ok()
            .filter(|hello| hello.sender == peer.id && hello.receiver == config.id)?;
        let attempt = link.attempt.take()?;
        let log_credit = attempt.log_credit;
        let round_trip_ns = (attempt.tries == 1).then(|| now_ns - attempt.began_ns);
        let made = Established {
            tx,
            rx,
            local: prelude.connection,
            hello,
            log_credit,
            datagram: datagram.len(),
            round_trip_ns,
            alive_ns: now_ns,
        };
        peer.addr = path.peer;
        peer.local = path.local;
        let chosen = config.id < hello.sender;
        self.peers.open_slot(prelude.connection, index);
        self.drop_rivals(&hello, chosen, attempt.began_ns);
        self.establish(index, made, now_ns);
        // The third message, if nothing else goes.
        self.peers[index].session_mut()?.ping();
        self.enqueue(index);
        Some(index)
    }

    /// A packet on a half-open connection: if it opens, the initiator has proven itself.
    pub(super) fn handle_first_data<'a>(
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
            None => self.peers.add(sender, path.peer),
        };
        let Some(Target::HalfOpen(half)) = self.peers.open_slot(prelude.connection, index) else {
            return None;
        };
        self.displace(index, &half.hello, now_ns);
        // Only the first packet answers the reply at once.
        let first_answer = first.prelude.packet_number == 0;
        let replied_ns = half.replied_ns.filter(|_| first_answer);
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
            round_trip_ns: replied_ns.map(|at| now_ns - at),
            alive_ns: half.began_ns,
            hello: half.hello,
        };
        self.establish(index, made, now_ns);
        self.handle_data(now_ns, path, first, batch)
    }

    /// Forgets handshakes that were begun beside the one that has been made: those of processes
    /// that died before this one answered, and, if this side has `chosen`, its own.
    fn drop_rivals(&mut self, made: &Hello, chosen: bool, alive_ns: u64) {
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
    pub(super) fn drop_outlived(&mut self, sender: PeerId, alive_ns: u64) {
        self.free_half_opens(|half| half.hello.sender == sender && half.began_ns <= alive_ns);
    }

    /// Forgets all handshakes that others have begun: nothing can come of them any more.
    pub(super) fn drop_handshakes(&mut self) {
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

    /// Ends the connection that a new one replaces, or the attempt that it makes superfluous.
    fn displace(&mut self, index: u32, hello: &Hello, now_ns: u64) {
        let mine = self.id();
        let peer = &mut self.peers[index];
        if let Some(session) = peer.session() {
            if mine > hello.sender && is_unheard(session, hello, now_ns) {
                return self.follow(index, hello.log_limit);
            }
            let why = if session.incarnation == hello.incarnation {
                PeerLost::Replaced
            } else {
                PeerLost::Restarted
            };
            self.lose(index, why);
        } else {
            self.drop_attempt(index);
        }
    }

    /// Ends an attempt of this side's, if there is one; what waits for it stays.
    pub(super) fn drop_attempt(&mut self, index: u32) {
        let link = self.peers[index].link.as_mut();
        if let Some(mut attempt) = link.and_then(|link| link.attempt.take()) {
            self.peers.free_slot(attempt.local);
            attempt.log_credit.release(&mut self.hub.mailbox);
        }
    }

    /// The peer chose the other one of two connections made at once: it has seen nothing of this
    /// one, so what was sent here goes there, from the start.
    fn follow(&mut self, index: u32, log_limit: u64) {
        let peer = &mut self.peers[index];
        let mut inbox = Inbox {
            mailbox: &mut self.hub.mailbox,
            source: peer.id,
            link: peer.reference(index),
        };
        let Some(link) = peer.link.as_mut() else {
            return;
        };
        if let Some(mut session) = link.session.take() {
            session.incoming.on_lost(&mut inbox, &PeerLost::Replaced);
            self.hub.granter.forget(index);
            self.hub.past.add(&session.counters);
            let window = link.send_window(&self.hub.config);
            link.outgoing.rewind(log_limit, &window);
            self.hub.keys.remove(session.local);
            self.peers.free_slot(session.local);
        }
    }

    fn establish(&mut self, index: u32, made: Established, now_ns: u64) {
        let hello = made.hello;
        let secrets = self.hub.config.key_log.then(|| key_log_line(&made));
        let mut session = Session::new(made, &self.hub.config, now_ns);
        self.hub.keys.set(session.local, &session.rx);
        session.credit = self.hub.granter.admit(index, now_ns);
        let span = session.span.id();
        let peer = &mut self.peers[index];
        if let Some(quality) = &peer.quality {
            session.prefer(quality);
        }
        if let Some(kind) = peer.congestion {
            session.channel.set_congestion(kind, now_ns);
        }
        let link = peer.link.get_or_insert_default();
        link.outgoing.set_log_limit(hello.log_limit);
        if session.features & Hello::EXPIRE == 0 {
            link.outgoing.make_reliable();
        }
        link.attempt = None;
        link.session = Some(session);
        peer.farewell = false;
        if let Some(ended) = peer.lost.as_deref_mut() {
            ended.on_return();
        }
        peer.timer_at_ns = u64::MAX;
        let peer = peer.id;
        if let Some(line) = secrets {
            self.hub.push_event(Event::Secrets { peer, line });
        }
        tracing::info!(parent: span, %peer, incarnation = hello.incarnation, "connected");
        self.hub.push_event(Event::Connected {
            peer,
            incarnation: hello.incarnation,
        });
        self.happen(index, Happening::Made, now_ns);
        // Also if the state stays what it was: the connection is a new one.
        self.hold(index, now_ns);
        self.arm(index, now_ns);
    }

    /// The attempt whose first message had this nonce: one table look-up, for anybody can send
    /// such answers.
    fn attempt_with_nonce(&mut self, path: Path, nonce: u64) -> Option<(u32, &mut Attempt)> {
        let index = self.peers.attempt_at(ConnectionId(nonce).slot())?;
        let peer = &mut self.peers[index];
        let expected = peer.addr == path.peer;
        let attempt = peer.link.as_mut()?.attempt.as_mut()?;
        (expected && attempt.nonce == nonce).then_some((index, attempt))
    }

    /// The peer is busy and wants proof of this side's address.
    pub(super) fn handle_cookie(
        &mut self,
        now_ns: u64,
        path: Path,
        prelude: &Prelude,
        datagram: &[u8],
    ) {
        let cookie = datagram[Prelude::LEN..].first_chunk().copied();
        if let Some(cookie) = cookie
            && let Some((index, attempt)) = self.attempt_with_nonce(path, prelude.packet_number)
            && now_ns >= attempt.next_cookie_ns
            && cookie != attempt.cookie
        {
            attempt.next_cookie_ns = now_ns + RETRY_NS;
            attempt.cookie = cookie;
            self.retry_handshake(index, now_ns);
        }
    }

    /// The peer says why it can't talk to us: kept for the error message, believed for nothing.
    pub(super) fn handle_reject(&mut self, path: Path, prelude: &Prelude, datagram: &[u8]) {
        if let Ok(reject) = Reject::parse(&datagram[Prelude::LEN..])
            && let Some((_, attempt)) = self.attempt_with_nonce(path, prelude.packet_number)
        {
            attempt.hint = Some(reject);
        }
    }
}

impl Attempt {
    fn packet(&self, size: usize, sealed: bool) -> Vec<u8> {
        let prelude = Prelude {
            kind: Kind::Init,
            flags: 0,
            packet_number: self.nonce,
            connection: ConnectionId::default(),
        };
        let mut bytes = vec![0; size];
        bytes[..Prelude::LEN].copy_from_slice(&prelude.encode());
        let init = Init {
            versions: (VERSION_MIN, VERSION),
            sealed,
            cookie: self.cookie,
            message: &self.message,
        };
        init.write(&mut Writer::new(&mut bytes[Prelude::LEN..]));
        bytes
    }

    /// Why nothing has come of it in this time, as far as is known.
    pub fn failure(&self, time_ns: u64) -> ConnectError {
        match self.hint {
            Some(reject) => ConnectError::Rejected {
                reason: reject.reason,
                versions: reject.versions,
                sealed: reject.sealed,
            },
            None => ConnectError::NoAnswer {
                time: Duration::from_nanos(time_ns),
                obstacle: self.obstacle,
            },
        }
    }
}

/// Whether this is a new connection to that process, begun by this side, on which nothing has come
/// yet. The peer may have to be asked again for longer than it keeps its half of a handshake: then
/// it has given the connection up.
fn is_unheard(session: &Session, hello: &Hello, now_ns: u64) -> bool {
    session.incarnation == hello.incarnation
        && session
            .unheard_ns()
            .is_some_and(|since_ns| now_ns < since_ns + HALF_OPEN_NS)
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

fn read_reply(datagram: &[u8]) -> Option<&[u8]> {
    let (len, rest) = datagram[Prelude::LEN..].split_first_chunk::<4>()?;
    rest.get(..u32::from_le_bytes(*len) as usize)
}

/// One line of a key log: connection ids and first traffic secrets, for decrypting a capture.
fn key_log_line(made: &Established) -> String {
    let hex = |secret: Option<&[u8; 32]>| -> String {
        secret.map_or("-".into(), |bytes| {
            bytes.iter().map(|b| format!("{b:02x}")).collect()
        })
    };
    format!(
        "SABANI {:016x} {:016x} {} {}",
        made.local.0,
        made.hello.connection.0,
        hex(made.tx.log_secret()),
        hex(made.rx.log_secret())
    )
}
