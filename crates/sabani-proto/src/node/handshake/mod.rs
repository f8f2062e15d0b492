//! Making connections (U13): three messages, begun by either side or both, that prove the job key,
//! the address and a fresh incarnation before anything changes.
//!
//! 1. `Init`: the initiator's hello, sealed under the job key. Padded, so that the answer is never
//!    larger than what it answers.
//! 2. `Reply`: the responder's hello, under fresh keys. The responder keeps a bounded number of
//!    such half-open connections; an established one is untouched.
//! 3. The first data packet that opens under the fresh keys proves that the initiator is alive and
//!    reachable where it says: only now does the new connection take the place of an old one.

mod initiate;
mod respond;

use super::session::{Established, Session};
use super::{Node, Path, PeerLost};
use crate::PeerId;
use crate::event::Event;
use crate::message::{Inbox, LogCredit};
use crate::state::Happening;
use crate::wire::{ConnectionId, Hello, Kind, Prelude, VERSION};
pub(crate) use initiate::Attempt;
use respond::HALF_OPEN_NS;
pub(crate) use respond::HalfOpen;
#[cfg(test)]
pub(super) use respond::{HALF_OPEN_MAX, UNPROVEN_PART};

/// What binds the handshake to this protocol and version.
const PROLOGUE: &[u8] = &[b's', b'a', b'b', b'a', b'n', b'i', VERSION];
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

impl Node {
    /// Memory that a new peer's small messages may take at once.
    fn first_log_credit(&mut self) -> LogCredit {
        LogCredit::reserve(self.hub.config.log_window, &mut self.hub.mailbox)
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

    pub(in crate::node) fn post_letter(&mut self, path: Path, bytes: Vec<u8>) {
        if self.outbox.len() < OUTBOX_MAX && !bytes.is_empty() {
            self.outbox.push_back(Letter { path, bytes });
        }
    }

    /// Ends the connection that a new one replaces, or the attempt that it makes superfluous.
    fn displace(&mut self, index: u32, hello: &Hello, now_ns: u64) {
        let mine = self.id();
        let peer = &mut self.peers[index];
        if let Some(session) = peer.session() {
            if mine > hello.sender && is_unheard(session, hello, now_ns) {
                self.drop_attempt(index);
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

    /// The peer chose the other one of two connections made at once: it has seen nothing of this
    /// one, so what was sent here goes there, from the start.
    fn follow(&mut self, index: u32, log_limit: u64) {
        self.catch_up_with(index);
        let peer = &mut self.peers[index];
        let mut inbox = Inbox {
            mailbox: &mut self.hub.mailbox,
            source: peer.id,
            link: peer.reference(index),
        };
        let Some(link) = peer.link.as_mut() else {
            return;
        };
        let mut counters = link.counters();
        if let Some(mut session) = link.session.take() {
            session.incoming.on_lost(&mut inbox, &PeerLost::Replaced);
            self.hub.granter.forget(index);
            let window = link.send_window(&self.hub.config);
            link.outgoing.rewind(log_limit, &window);
            // What goes again counts there.
            counters.messages_sent -= link.outgoing.messages();
            self.hub.past.add(&counters);
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
        if peer.wants.quality != crate::Quality::Even {
            session.prefer(&peer.wants.quality);
        }
        if let Some(kind) = peer.wants.congestion {
            session.channel.set_congestion(kind, now_ns);
        }
        if let Some(rate) = peer.wants.max_pacing_rate {
            session.channel.set_max_pacing_rate(Some(rate), now_ns);
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
        peer.forget_timer();
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
