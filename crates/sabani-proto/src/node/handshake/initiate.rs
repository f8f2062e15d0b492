//! The side that begins a handshake.

use std::time::Duration;

use super::{HALF_OPEN_NS, PROLOGUE};
use crate::Obstacle;
use crate::channel::BASE_DATAGRAM;
use crate::error::{ConnectError, PeerLost};
use crate::message::LogCredit;
use crate::node::peers::{Link, Target};
use crate::node::session::{Established, RoundTrip};
use crate::node::spans::PeerSpan;
use crate::node::{Node, Path};
use crate::seal::Initiator;
use crate::state::Happening;
use crate::wire::{ConnectionId, Hello, Init, Kind, Prelude, Reject, VERSION, VERSION_MIN, Writer};

/// First wait for an answer; each is taken twice, then doubled, up to [`RETRY_MAX_NS`]. Half as long to half as long again, by
/// chance: of many who began at the same time, those that a full queue dropped must not meet again. Doubled each time, one of 400
/// who send 64 KiB each to a new peer came up to 170 ms after all others in five of twelve runs.
const RETRY_NS: u64 = 20_000_000;
const RETRY_MAX_NS: u64 = 1_000_000_000;
/// Attempts that carry a full-size packet, to prove that the path takes it. Tunnels and overlays don't: where one gets
/// lost, to reach the peer comes first. Probes find out soon if it was lost by chance.
const FULL_SIZE_TRIES: u32 = 1;

/// A peer that is asked in vain, and has not been heard for this part of the time after which it counts as lost, may have been
/// restarted.
const DOUBT_PART: u64 = 8;

/// In a simultaneous opening the lower id's attempt wins, until it has gone unanswered this often.
const YIELD_AFTER: u32 = 6;

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
    /// When it has failed. A datagram from anywhere may have begun it: the program's time begins when the program wants it.
    over_ns: u64,
    pub next_ns: u64,
    /// Cookies are taken at most this often, so that forged ones make no flood of answers.
    next_cookie_ns: u64,
    hint: Option<Reject>,
    /// What is said to be in the way of the last packet, or of any before it.
    pub obstacle: Option<Obstacle>,
    pub span: PeerSpan,
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

    /// The program asks for a connection: it is to have all the time that it allows, once.
    fn want(&mut self, now_ns: u64, timeout_ns: u64) {
        if !std::mem::replace(&mut self.wanted, true) {
            self.over_ns = now_ns.saturating_add(timeout_ns);
        }
    }

    /// It has found out that the peer is the process that it was: no other one begins so soon.
    fn rest(&mut self, now_ns: u64) {
        self.over_ns = self.over_ns.min(now_ns + HALF_OPEN_NS);
        self.next_ns = self.over_ns;
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

impl Node {
    /// Makes sure that there is a connection to the peer, or an attempt to make one.
    pub(in crate::node) fn ensure_link(&mut self, index: u32, now_ns: u64) {
        match self.peers[index].link.as_deref_mut() {
            Some(Link {
                session: Some(_), ..
            }) => {}
            Some(Link {
                attempt: Some(attempt),
                ..
            }) => attempt.want(now_ns, self.hub.config.connect_timeout_ns),
            _ => self.begin_attempt(index, true, now_ns),
        }
    }

    /// Begins a handshake with a peer to which there is no connection. `wanted`: the program asks for one.
    pub(in crate::node) fn begin_attempt(&mut self, index: u32, wanted: bool, now_ns: u64) {
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
            over_ns: now_ns.saturating_add(self.hub.config.connect_timeout_ns),
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

    /// Sends the first message, again; or gives up.
    pub(in crate::node) fn retry_handshake(&mut self, index: u32, now_ns: u64) {
        let timeout = self.hub.config.connect_timeout_ns;
        let full = self.hub.config.largest_init();
        let peer = &mut self.peers[index];
        let path = Path {
            peer: peer.addr,
            local: peer.local,
        };
        let Some(link) = peer.link.as_deref_mut() else {
            return;
        };
        let Some(attempt) = link.attempt.as_mut() else {
            return;
        };
        let inquires = link.session.is_some();
        if now_ns >= attempt.over_ns && !link.outgoing.is_settled() && !inquires {
            // What was sent meanwhile has asked for it.
            attempt.want(now_ns, timeout);
        }
        let over_ns = attempt.over_ns;
        if now_ns >= over_ns {
            return self.give_up_attempt(index, over_ns);
        }
        let size = if attempt.tries < FULL_SIZE_TRIES && !inquires {
            full
        } else {
            BASE_DATAGRAM
        };
        let bytes = attempt.packet(size, self.hub.config.mode.is_sealed());
        let wait = match inquires {
            true => RETRY_MAX_NS,
            false => (RETRY_NS << (attempt.tries / 2).min(10)).min(RETRY_MAX_NS),
        };
        let wait = wait / 2 + self.entropy.next_u64() % wait;
        attempt.next_ns = (now_ns + wait).min(over_ns);
        attempt.tries += 1;
        // This packet may get through.
        attempt.obstacle.take_if(|obstacle| obstacle.is_local());
        self.post_letter(path, bytes);
    }

    /// Ends an attempt to make a connection: to go on is in vain. If nobody has asked for it, nobody is
    /// told: a datagram from anywhere may have caused it.
    pub(in crate::node) fn give_up_attempt(&mut self, index: u32, now_ns: u64) {
        let Some(link) = self.peers[index].link.as_ref() else {
            return;
        };
        let Some(attempt) = &link.attempt else {
            return;
        };
        if link.session.is_some() {
            self.drop_attempt(index);
        } else if attempt.wanted || !link.outgoing.is_settled() {
            let why = attempt.failure(now_ns - attempt.began_ns);
            self.lose(index, PeerLost::Unreachable(why));
        } else {
            self.drop_attempt(index);
            if let Some(link) = self.peers[index].link.take() {
                self.hub.past.add(&link.counters());
            }
            self.happen(index, Happening::End, now_ns);
        }
    }

    /// A peer that does not answer may have been restarted, and not know this side: it drops what comes and says nothing. A handshake
    /// beside the connection finds out. If the same process answers, the connection stays.
    pub(in crate::node) fn inquire(&mut self, index: u32, now_ns: u64) {
        let peer = &self.peers[index];
        let Some(link) = &peer.link else {
            return;
        };
        let doubt_ns = self.hub.config.dead_after_ns / DOUBT_PART;
        let session = link.session.as_ref();
        let doubts = session.is_some_and(|session| session.is_doubted(doubt_ns, now_ns));
        match (&link.attempt, doubts && !peer.state.is_disconnected()) {
            (None, true) => self.begin_attempt(index, false, now_ns),
            (Some(_), false) => self.drop_attempt(index),
            (Some(attempt), true) if attempt.next_ns <= now_ns => {
                self.retry_handshake(index, now_ns);
            }
            _ => {}
        }
    }

    /// The first message was refused for its size: sends it again, as small as they get.
    pub(in crate::node) fn shrink_attempt(&mut self, index: u32, bytes: usize, now_ns: u64) {
        let link = self.peers[index].link.as_mut();
        let Some(attempt) = link.and_then(|link| link.attempt.as_mut()) else {
            return;
        };
        if bytes > BASE_DATAGRAM && attempt.tries <= FULL_SIZE_TRIES {
            attempt.tries = FULL_SIZE_TRIES;
            self.retry_handshake(index, now_ns);
        }
    }

    /// The answer to an attempt of this side's.
    pub(in crate::node) fn handle_reply(
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
        if !self.gate.may_finish(now_ns) {
            self.dropped.crowded_out += 1;
            return None;
        }
        let config = &self.hub.config;
        let peer = &mut self.peers[index];
        let link = peer.link.as_mut()?;
        let attempt = link.attempt.as_mut()?;
        let finished =
            read_reply(datagram).and_then(|message| attempt.initiator.finish(message).ok());
        let Some((payload, tx, rx)) = finished else {
            self.gate.on_forged();
            self.dropped.forged += 1;
            return None;
        };
        let hello = Hello::decode(&payload)
            .ok()
            .filter(|hello| hello.sender == peer.id && hello.receiver == config.id)?;
        if let Some(session) = &link.session
            && session.incarnation == hello.incarnation
        {
            attempt.rest(now_ns);
            return None;
        }
        let attempt = link.attempt.take()?;
        if link.session.is_some() {
            self.lose(index, PeerLost::Restarted);
        }
        let peer = &mut self.peers[index];
        let config = &self.hub.config;
        let log_credit = attempt.log_credit;
        let since_ns = now_ns - attempt.began_ns;
        let round_trip = match attempt.tries {
            1 => RoundTrip::Took(since_ns),
            _ => RoundTrip::AtMost(since_ns),
        };
        let made = Established {
            tx,
            rx,
            local: prelude.connection,
            hello,
            log_credit,
            // What is behind the message is nobody's word: no more than the Init had is proven.
            datagram: datagram.len().min(config.largest_init()),
            round_trip,
            alive_ns: now_ns,
        };
        // A copy of the Reply comes from wherever who sends it says. A peer that is elsewhere is found by its packets.
        if path.peer == peer.addr {
            peer.local = path.local;
        }
        let chosen = config.id < hello.sender;
        self.peers.open_slot(prelude.connection, index);
        self.drop_rivals(&hello, chosen, attempt.began_ns);
        self.establish(index, made, now_ns);
        // The third message, if nothing else goes.
        self.peers[index].session_mut()?.ping();
        self.enqueue(index);
        Some(index)
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
    pub(in crate::node) fn handle_cookie(
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
    pub(in crate::node) fn handle_reject(
        &mut self,
        path: Path,
        prelude: &Prelude,
        datagram: &[u8],
    ) {
        if let Ok(reject) = Reject::parse(&datagram[Prelude::LEN..])
            && let Some((_, attempt)) = self.attempt_with_nonce(path, prelude.packet_number)
        {
            attempt.hint = Some(reject);
        }
    }

    /// Whether an attempt of this side's takes precedence over the peer's.
    pub(super) fn mine_wins(&self, index: u32) -> bool {
        let peer = &self.peers[index];
        let attempt = peer.link.as_ref().and_then(|link| link.attempt.as_ref());
        let is_connected = peer.session().is_some();
        self.id() < peer.id
            && !is_connected
            && attempt.is_some_and(|attempt| attempt.tries < YIELD_AFTER)
    }

    /// Ends an attempt of this side's, if there is one; what waits for it stays.
    pub(in crate::node) fn drop_attempt(&mut self, index: u32) {
        let link = self.peers[index].link.as_mut();
        if let Some(mut attempt) = link.and_then(|link| link.attempt.take()) {
            self.peers.free_slot(attempt.local);
            attempt.log_credit.release(&mut self.hub.mailbox);
        }
    }
}

fn read_reply(datagram: &[u8]) -> Option<&[u8]> {
    let (len, rest) = datagram[Prelude::LEN..].split_first_chunk::<4>()?;
    rest.get(..u32::from_le_bytes(*len) as usize)
}
