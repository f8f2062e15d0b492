//! An open connection: its life, and what is due when.

mod inbound;
mod outbound;

pub(super) use outbound::Turn;

use super::apart::Apart;
use super::hub::Hub;
use super::path::Paths;
use super::peers::chunk_max;
use super::spans::PeerSpan;
use super::terms::Agreement;
use crate::channel::{Channel, ChannelConfig};
use crate::config::LATE_ACK_MOST_NS;
use crate::error::PeerLost;
use crate::message::{Content, Incoming, LogCredit, Outgoing, SendWindow};
use crate::seal::{SealRx, SealTx};
use crate::stats::Counters;
use crate::wire::{CloseReason, ConnectionId, Hello, INLINE_MAX, INLINE_MAX_AT_FIRST, Prelude};
use crate::{Config, Obstacle, PeerId};

/// A sender that waits for credit asks again after this long: the peer gives it unasked, but a
/// promise that only the peer keeps is not enough.
const STARVED_NS: u64 = 50_000_000;
/// The wait doubles with every question without credit, so many times: what is lost of them is repaired like all else,
/// and the questions of hundreds who wait for their turn on a slow link would take a part of it.
const STARVED_DOUBLINGS: u8 = 2;
/// What the program has taken is told within this time to a sender that waits for it, if it is too little to be
/// told at once: the next message may fit, and be what the program waits for.
const AWAITED_NS: u64 = 1_000_000;
/// Hints that the peer can't be reached make it be asked at most this often.
const HINT_EVERY_NS: u64 = 100_000_000;
/// A peer that is as far away as its last answers say is not doubted: where many first messages wait for each other on a slow link,
/// handshakes beside them would make them wait for longer.
const DOUBT_TRIPS: u64 = 4;
/// A connection that has used this many packet numbers, half of all, is ended before any could be
/// used twice; the next message makes a new one.
const WORN_OUT: u64 = Prelude::MAX_PACKET_NUMBER / 2;

/// An open connection to one peer.
#[derive(Debug)]
pub(crate) struct Session {
    pub channel: Channel<Content>,
    pub incoming: Incoming,
    pub tx: SealTx,
    pub rx: SealRx,
    /// Sealing is left to the layer below.
    seal_below: bool,
    pub local: ConnectionId,
    pub remote: ConnectionId,
    pub incarnation: u64,
    /// What the peer understands ([`Hello::FEATURES`]), and [`Hello::ECN`].
    pub features: u8,
    pub counters: Counters,
    /// What the peer may send above the largest packet that had come when this was given; what is
    /// left of it is told with every acknowledgement.
    pub credit: u32,
    /// The peer waits for that credit.
    pub credit_due: bool,
    request_told: u64,
    /// So many times no credit came when it was asked for.
    starved: u8,
    /// How much later the timer is due than its entry in the node's heap says; the most there is: or later still.
    pub put_off_ns: u32,
    ping: bool,
    poll: bool,
    pub log_limit_due: bool,
    /// Log credit was given back.
    returned_due: bool,
    /// When it was last looked whether there is any to give back: the low bits of milliseconds.
    looked_ms: u32,
    /// Nothing but signs of life has been sent since memory was last given back.
    resting: bool,
    /// The limit that the peer was told of last; `u64::MAX` for none.
    blocked_told: u64,
    pub seldom: Option<Box<Seldom>>,
    close: Closing,
    pub span: PeerSpan,
}

/// What most connections never need.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    pub apart: Apart,
    pub paths: Paths,
    pub agreement: Agreement,
    /// Messages that have expired, in either direction.
    pub expired_sent: u64,
    pub expired_received: u64,
    /// What was last said to be in the way, and when.
    pub obstacle: Option<(Obstacle, u64)>,
    /// The next hint that makes the peer be asked comes no sooner.
    next_hint_ns: u64,
}

/// How far a connection's end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    No,
    Due(CloseReason),
    Sent(CloseReason),
    Done,
}

/// What a handshake says of the round-trip time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RoundTrip {
    Took(u64),
    /// Something went more than once: nobody can tell which of them was answered, but none before the first.
    AtMost(u64),
}

/// What a new connection is made of.
pub(crate) struct Established {
    pub tx: SealTx,
    pub rx: SealRx,
    pub local: ConnectionId,
    pub hello: Hello,
    pub log_credit: LogCredit,
    pub datagram: usize,
    pub round_trip: RoundTrip,
    /// The peer's first packet on the connection leaves it later than this.
    pub alive_ns: u64,
}

impl Session {
    pub fn new(made: Established, config: &Config, now_ns: u64) -> Self {
        let channel = ChannelConfig {
            ack_policy: config.ack_policy,
            recovery: config.recovery,
            congestion: config.congestion,
            ack_delay_ns: config.ack_delay_ns,
            peer_ack_delay_ns: up_to_a_second(made.hello.ack_delay_us),
            late_ack_ns: config.late_ack_ns as u32,
            peer_late_ack_ns: up_to_a_second(made.hello.late_ack_us).min(LATE_ACK_MOST_NS as u32),
            salt: (made.local.0 >> 56) as u8,
            spare_ns: config.dead_after_ns - config.keep_alive_ns,
            window: made.hello.window,
            max_datagram: config.max_datagram.min(made.hello.max_datagram as usize),
            proven_datagram: made.datagram,
        };
        let mut channel = Channel::new(&channel, now_ns);
        channel.last_heard_ns = made.alive_ns;
        match made.round_trip {
            RoundTrip::Took(ns) => channel.rtt.on_sample(ns, 0),
            RoundTrip::AtMost(ns) => channel.rtt.begin_below(ns),
        }
        Session {
            credit: 0,
            credit_due: false,
            request_told: 0,
            starved: 0,
            put_off_ns: 0,
            channel,
            incoming: Incoming::new(made.log_credit),
            tx: made.tx,
            seal_below: config.seal_below,
            rx: made.rx,
            local: made.local,
            remote: made.hello.connection,
            incarnation: made.hello.incarnation,
            features: made.hello.features as u8,
            counters: Counters::default(),
            ping: false,
            poll: false,
            log_limit_due: false,
            returned_due: false,
            looked_ms: to_ms(now_ns),
            resting: false,
            blocked_told: u64::MAX,
            seldom: None,
            close: Closing::No,
            span: PeerSpan::connection(made.hello.sender, made.hello.incarnation),
        }
    }

    /// Since when nothing has come, if nothing ever has.
    #[inline]
    pub fn unheard_ns(&self) -> Option<u64> {
        let unheard = self.counters.packets_received == 0;
        unheard.then_some(self.channel.last_heard_ns)
    }

    /// Whether nothing has been sent since memory was last given back.
    #[inline]
    pub fn is_resting(&self) -> bool {
        self.resting
    }

    /// Gives the peer a reason to answer.
    pub fn ping(&mut self) {
        self.ping = true;
    }

    /// Somebody waits until all has been acknowledged: asks at once where the peer may take its time.
    pub fn hurry(&mut self) {
        self.poll |= self.channel.sent.in_flight_packets() > 0 && self.channel.is_peer_late();
    }

    /// The network hints that the peer can't be reached: asks it, but not for every hint.
    pub fn on_unreachable_hint(&mut self, obstacle: Obstacle, now_ns: u64) {
        let obstacle = obstacle.beside(self.obstacle());
        let seldom = self.seldom.get_or_insert_default();
        seldom.obstacle = Some((obstacle, now_ns));
        if now_ns >= seldom.next_hint_ns {
            seldom.next_hint_ns = now_ns + HINT_EVERY_NS;
            self.ping = true;
        }
    }

    /// What is said to be in the way: of all that has left since the peer was heard, or of what was to
    /// leave last.
    pub fn obstacle(&self) -> Option<Obstacle> {
        let (obstacle, said_ns) = self.seldom.as_ref()?.obstacle?;
        let since_ns = match obstacle.is_local() {
            true => self.channel.last_sent_ns().max(self.channel.last_heard_ns),
            false => self.channel.last_heard_ns,
        };
        (said_ns >= since_ns).then_some(obstacle)
    }

    /// Ends the connection from this side.
    pub fn close(&mut self, reason: CloseReason) {
        if self.close == Closing::No {
            self.close = Closing::Due(reason);
        }
    }

    pub fn is_closing(&self) -> bool {
        self.close != Closing::No
    }

    /// Whether the peer knows that the connection has ended, or does not answer any more.
    pub fn is_closed(&self) -> bool {
        self.close == Closing::Done || (self.is_closing() && self.channel.polls_unanswered >= 4)
    }

    /// What the packets of this connection let the messages do.
    pub fn send_window(&self, config: &Config) -> SendWindow {
        let reads_long = self.features & Hello::LONG_INLINE != 0;
        SendWindow {
            inline_max: match reads_long {
                true => INLINE_MAX,
                false => INLINE_MAX_AT_FIRST,
            },
            eager_max: config.eager_max,
            queue_max: config.send_queue_bytes,
            chunk_max: chunk_max(self.channel.mtu.current()),
        }
    }

    /// When something is due next; [`u64::MAX`]: never.
    pub fn deadline(&self, outgoing: &Outgoing, config: &Config, now_ns: u64) -> u64 {
        let heard_ns = self.channel.last_heard_ns;
        let patience = if self.channel.sent.in_flight_packets() > 0 {
            heard_ns + self.patience_ns(outgoing, config)
        } else if self.ping {
            // It waits for room below already, and not for time.
            u64::MAX
        } else if self.wants_credit(outgoing) {
            heard_ns + self.asks_every_ns().min(config.keep_alive_ns)
        } else {
            heard_ns + config.keep_alive_ns
        };
        let starves = self.starves_at(outgoing).filter(|_| !self.ping);
        let release = self.channel.release_ns();
        let awaited = self.is_awaited();
        [
            self.channel.deadline(now_ns),
            starves,
            release.filter(|&at| at > now_ns && outgoing.has_sendable()),
            outgoing.next_expiry(),
            awaited.then_some(now_ns + AWAITED_NS),
        ]
        .into_iter()
        .flatten()
        .fold(patience, u64::min)
    }

    /// Whether the peer has been asked again and again in vain, and not been heard for so long, nor for many round trips: it may be
    /// another process by now.
    pub fn is_doubted(&self, after_ns: u64, now_ns: u64) -> bool {
        let (rtt, heard_ns) = (&self.channel.rtt, self.channel.last_heard_ns);
        let after_ns = after_ns.max(DOUBT_TRIPS * rtt.patience_ns());
        let is_silent = now_ns.saturating_sub(heard_ns) >= after_ns && rtt.smoothed_ns() > 0;
        is_silent && self.channel.polls_unanswered >= 3 && !self.is_closing()
    }

    /// Whether something has waited for its time, and may leave.
    pub fn is_released(&self, outgoing: &Outgoing, now_ns: u64) -> bool {
        let release = self.channel.release_ns();
        release.is_some_and(|at| at <= now_ns) && outgoing.has_sendable()
    }

    /// Whether the peer is to be told soon that it may send a little more.
    pub fn is_awaited(&self) -> bool {
        self.incoming.log.is_awaited()
    }

    /// When a sender that waits for credit, with nothing on its way that will be answered, asks again. However
    /// much it hears meanwhile: a peer that takes its credit for unused has no reason to tell of it.
    fn starves_at(&self, outgoing: &Outgoing) -> Option<u64> {
        let starves = self.channel.sent.in_flight_packets() == 0
            && self.wants_credit(outgoing)
            && !self.may_leave(outgoing);
        starves.then(|| self.channel.last_sent_ns() + self.asks_every_ns())
    }

    /// How long it waits for credit before it asks for it again.
    fn asks_every_ns(&self) -> u64 {
        STARVED_NS << self.starved.min(STARVED_DOUBLINGS)
    }

    /// Whether something waits, and not for its time.
    fn wants_credit(&self, outgoing: &Outgoing) -> bool {
        let full = self.channel.mtu.current();
        outgoing.has_sendable() && !self.channel.is_held_to_rate(full, 1)
    }

    /// Drops what is worth nothing any more.
    fn expire(&mut self, outgoing: &mut Outgoing, hub: &mut Hub, now_ns: u64) {
        if outgoing.next_expiry().is_some_and(|at| at <= now_ns) {
            let (channel, mut told) = (&self.channel, Vec::new());
            let count = outgoing.expire(
                now_ns,
                channel.rtt.smoothed_ns(),
                self.counters.bytes_sent,
                &mut |ticket| told.push(ticket),
            );
            self.seldom.get_or_insert_default().expired_sent += count;
            hub.expire_sends(told);
        }
    }

    /// Does what is due.
    pub fn on_deadline(
        &mut self,
        outgoing: &mut Outgoing,
        peer: PeerId,
        hub: &mut Hub,
        now_ns: u64,
    ) -> Result<(), PeerLost> {
        self.expire(outgoing, hub, now_ns);
        let silent = now_ns.saturating_sub(self.channel.last_heard_ns);
        if self.channel.sent.in_flight_packets() > 0 {
            if self.channel.sent.next_number() > WORN_OUT {
                return Err(PeerLost::WornOut);
            }
            // A peer that talks but never acknowledges is as good as silent.
            let silent = silent.max(self.channel.stuck_ns(now_ns) / 2);
            if silent >= self.patience_ns(outgoing, &hub.config) {
                return Err(PeerLost::Silent {
                    time: std::time::Duration::from_nanos(silent),
                    obstacle: self.obstacle(),
                });
            }
        } else if silent >= hub.config.keep_alive_ns
            || (silent >= self.asks_every_ns() && self.wants_credit(outgoing))
            || self.starves_at(outgoing).is_some_and(|at| at <= now_ns)
        {
            self.ping = true;
            self.request_told = 0;
            self.starved = match outgoing.has_sendable() {
                true => self.starved.saturating_add(1),
                false => 0,
            };
        }
        self.return_credit(outgoing, hub.config.keep_alive_ns, now_ns);
        // Not tied to its own keep-alive: the peer's may always come first.
        let sent_ns = self.channel.last_sent_ns();
        if outgoing.is_settled() && now_ns >= sent_ns + hub.config.keep_alive_ns {
            self.resting = true;
            self.shrink(outgoing);
        }
        let fates = &mut hub.fates;
        let due = self
            .channel
            .on_deadline(now_ns, &mut |fate, content| fates.push((fate, content)));
        self.note_lost(due.lost, "out for too long", peer);
        if due.poll {
            self.poll = true;
            self.counters.polls += 1;
            self.counters.timeouts += u64::from(self.channel.polls_unanswered == 3);
            let (span, polls) = (self.span.id(), self.channel.polls_unanswered);
            tracing::debug!(parent: span, %peer, polls, "asking for the tail");
        }
        self.log_limit_due |= self.is_awaited();
        self.settle_fates(outgoing, hub, now_ns);
        Ok(())
    }

    /// Gives back log credit that was hardly used for as long as a keep-alive takes.
    fn return_credit(&mut self, outgoing: &mut Outgoing, every_ns: u64, now_ns: u64) {
        let since_ms = to_ms(now_ns).wrapping_sub(self.looked_ms);
        if since_ms < to_ms(every_ns) || self.features & Hello::RETURNED == 0 {
            return;
        }
        self.looked_ms = to_ms(now_ns);
        self.returned_due |= outgoing.return_credit(self.wished_memory());
    }

    /// The local interface refused datagrams of `bytes`: everything in flight goes again, smaller.
    pub fn on_too_big(
        &mut self,
        bytes: usize,
        outgoing: &mut Outgoing,
        hub: &mut Hub,
        now_ns: u64,
    ) {
        if bytes > self.channel.mtu.current() {
            self.channel.mtu.on_probe_lost(bytes, true, now_ns);
            return;
        }
        // Nothing smaller is left to try: the tail is asked for with ever longer pauses.
        if self.channel.mtu.is_base() {
            return;
        }
        self.channel.mtu.on_black_hole(now_ns);
        self.send_all_again(outgoing, hub, now_ns);
    }

    /// Everything in flight goes again.
    pub fn send_all_again(&mut self, outgoing: &mut Outgoing, hub: &mut Hub, now_ns: u64) {
        let fates = &mut hub.fates;
        self.channel
            .sent
            .give_back_all(&mut |fate, content| fates.push((fate, content)));
        self.settle_fates(outgoing, hub, now_ns);
    }

    /// Gives back memory that an idle connection does not need.
    fn shrink(&mut self, outgoing: &mut Outgoing) {
        self.channel.sent.shrink();
        self.channel.received.packets.shrink();
        self.incoming.shrink();
        outgoing.shrink();
    }
}

/// Nanoseconds as milliseconds: the low bits.
fn to_ms(ns: u64) -> u32 {
    (ns / 1_000_000) as u32
}

/// Microseconds as nanoseconds, one second at most.
fn up_to_a_second(us: u32) -> u32 {
    us.min(1_000_000) * 1_000
}
