//! What all connections of a node share.

use std::collections::VecDeque;

use super::clock::Clock;
use super::keyring::KeyJournal;
use super::later::LateAck;
use super::own_link::OwnLink;
use crate::channel::{Fate, datagram_cost};
use crate::credit::{CreditConfig, Granter};
use crate::error::PeerLost;
use crate::event::Event;
use crate::message::{Content, Mailbox, SendTicket, Tickets};
use crate::rare;
use crate::stats::Counters;
use crate::{Config, PeerId};

/// Events that nobody fetches are dropped, oldest first, beyond this many.
const MAX_EVENTS: usize = 4_096;

/// What became of a send whose arrival was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SendState {
    Pending,
    Arrived,
    Expired,
    /// With a connection, the one that ended as this one.
    Lost {
        peer: PeerId,
        end: u64,
        why: PeerLost,
    },
}

/// State that connections share, and scratch space for building packets.
#[derive(Debug)]
pub(crate) struct Hub {
    pub config: Config,
    pub clock: Clock,
    pub mailbox: Mailbox,
    pub sends: Tickets<SendState>,
    /// Connections that have ended so far.
    pub ends: u64,
    /// What each peer may have on its way here.
    pub granter: Granter,
    pub own_link: OwnLink,
    /// For the train that is built: less than this stays behind it, in bytes.
    pub rest_bytes: usize,
    pub contents: Vec<Content>,
    /// Bytes of words before the messages in the packet that was built last.
    pub words_bytes: usize,
    pub fates: Vec<(Fate, Content)>,
    pub late_ack: Option<LateAck>,
    pub keys: KeyJournal,
    /// Counters of connections that have ended.
    pub past: Counters,
    events: VecDeque<Event>,
    pub events_dropped: u64,
}

impl Hub {
    pub fn new(config: Config, seed: u64) -> Self {
        Hub {
            mailbox: Mailbox::new(
                seed,
                config.memory_bytes,
                config.peer_memory_bytes,
                config.log_window..=config.log_window_max,
                config.eager_max,
            ),
            sends: Tickets::default(),
            ends: 0,
            granter: Granter::new(CreditConfig {
                socket_bytes: config.socket_buffer_bytes,
                full_cost: datagram_cost(config.max_datagram),
                window_max: config.window_max,
                expected_peers: config.expected_peers,
                policy: config.credit,
            }),
            own_link: OwnLink::default(),
            rest_bytes: 0,
            contents: Vec::new(),
            words_bytes: 0,
            fates: Vec::new(),
            late_ack: None,
            keys: KeyJournal::new(config.open_below),
            past: Counters::default(),
            events: VecDeque::new(),
            events_dropped: 0,
            clock: Clock::default(),
            config,
        }
    }

    pub fn push_event(&mut self, event: Event) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
            self.events_dropped += 1;
        }
        self.events.push_back(event);
    }

    /// These sends have expired.
    pub fn expire_sends(&mut self, tickets: Vec<SendTicket>) {
        for ticket in tickets {
            if let Some(state) = self.sends.get_mut(ticket) {
                *state = SendState::Expired;
            }
        }
    }

    pub fn pop_event(&mut self) -> Option<Event> {
        rare::pop_front(&mut self.events)
    }
}
