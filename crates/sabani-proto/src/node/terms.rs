//! Qualities (U10): what the program wishes for its messages to a peer, what the peer grants, and
//! the same the other way round. Only the receiver of messages decides; a wish changes nothing by
//! itself, and is bounded by what the receiver may give to anybody.

use super::Node;
use super::hub::Hub;
use super::session::Session;
use crate::channel::AckPolicy;
use crate::wire::{Frame, Hello, Terms};
use crate::{PeerId, Quality, SendError};

/// A sender that hears of fewer packets learns too late of losses.
const ACK_EVERY_MAX: u32 = 256;

/// What the two sides have asked of each other, and granted.
#[derive(Debug, Default)]
pub(crate) struct Agreement {
    /// How often this side has wished, and what.
    number: u32,
    wish: Terms,
    wish_due: bool,
    granted: Option<Terms>,
    prompt: bool,
    /// The peer's newest wish that has come, and what it was granted.
    heard: u32,
    answer: Terms,
    answer_due: bool,
}

impl Agreement {
    /// Whether the peer is to be told anything.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.wish_due || self.answer_due
    }
}

impl Session {
    fn agreement(&self) -> Option<&Agreement> {
        self.seldom.as_ref().map(|seldom| &seldom.agreement)
    }

    fn agreement_mut(&mut self) -> &mut Agreement {
        &mut self.seldom.get_or_insert_default().agreement
    }

    /// The program wishes this of the flow to the peer from now on.
    pub fn prefer(&mut self, quality: &Quality) {
        let tell = self.features & Hello::TERMS != 0;
        let agreement = self.agreement_mut();
        agreement.prompt = quality.is_prompt();
        agreement.granted = None;
        if tell {
            agreement.number += 1;
            agreement.wish = quality.terms();
            agreement.wish_due = true;
        }
    }

    /// Whether small messages leave at once although something is on its way.
    pub fn is_prompt(&self) -> bool {
        self.agreement().is_some_and(|agreement| agreement.prompt)
    }

    /// What the peer has granted to the newest wish.
    pub fn granted(&self) -> Option<Terms> {
        self.agreement()?.granted
    }

    /// The log credit that the program has wished for, in bytes.
    pub fn wished_memory(&self) -> u64 {
        let wish = self.agreement().map(|agreement| agreement.wish);
        u64::from(wish.and_then(|wish| wish.memory_bytes).unwrap_or(0))
    }

    /// What the peer is to be told of wishes and grants, if anything.
    pub fn take_terms(&mut self) -> Option<Frame<'static>> {
        let agreement = &mut self.seldom.as_mut()?.agreement;
        if std::mem::take(&mut agreement.wish_due) {
            let (number, terms) = (agreement.number, agreement.wish);
            return Some(Frame::Wish { number, terms });
        }
        let (number, terms) = (agreement.heard, agreement.answer);
        std::mem::take(&mut agreement.answer_due).then_some(Frame::Terms { number, terms })
    }

    /// A packet that told of them is lost: the newest go again.
    pub fn tell_terms_again(&mut self) {
        let agreement = self.agreement_mut();
        agreement.wish_due |= agreement.granted.is_none() && agreement.number > 0;
        agreement.answer_due |= agreement.heard > 0;
    }

    /// The peer has answered a wish.
    pub fn hear_terms(&mut self, number: u32, terms: Terms) {
        let agreement = self.agreement_mut();
        if number == agreement.number {
            agreement.granted = Some(terms);
        }
    }

    /// The peer wishes something of what it sends here: grants what there is.
    pub fn hear_wish(&mut self, number: u32, wish: Terms, peer: u32, hub: &mut Hub, now_ns: u64) {
        if number < self.agreement_mut().heard {
            return;
        }
        let (window, allowance) = hub.granter.set_terms(peer, &wish, now_ns);
        self.credit = hub.granter.window(peer);
        if let Some(wanted) = wish.memory_bytes {
            let wanted = u64::from(wanted);
            self.log_limit_due |= self.incoming.log.widen(wanted, &mut hub.mailbox);
        }
        let every = wish
            .ack_every
            .map(|packets| packets.clamp(1, ACK_EVERY_MAX));
        let config = &hub.config;
        let delay_ns = wish
            .ack_delay_us
            .map(|delay_us| u64::from(delay_us) * 1_000);
        let delay_ns = delay_ns.map(|delay_ns| delay_ns.min(config.max_ack_delay_ns));
        self.channel.received.set_policy(
            every.map_or(config.ack_policy, AckPolicy::EveryPackets),
            delay_ns.unwrap_or(config.ack_delay_ns),
            delay_ns.is_some(),
        );
        let memory = self.incoming.log.window();
        let agreement = self.agreement_mut();
        agreement.heard = number;
        agreement.answer_due = true;
        agreement.answer = Terms {
            window_bytes: Some(window),
            allowance_bytes: Some(allowance),
            memory_bytes: Some(memory.min(u64::from(u32::MAX - 1)) as u32),
            ack_every: every,
            ack_delay_us: delay_ns.map(|delay_ns| (delay_ns / 1_000) as u32),
        };
    }
}

impl Node {
    /// What comes first in what this program sends to a peer (U10), from now on and for later
    /// connections, too. The peer's library is asked for what that takes, in a packet that is sent
    /// at once; [`crate::PeerStats::granted`] says what it has granted.
    ///
    /// # Errors
    /// [`SendError::UnknownPeer`].
    pub fn set_quality(&mut self, peer: PeerId, quality: Quality) -> Result<(), SendError> {
        let index = self.known(peer)?;
        let peer = &mut self.peers[index];
        peer.wants.quality = quality;
        if let Some(session) = peer.session_mut() {
            session.prefer(&quality);
        }
        self.enqueue(index);
        Ok(())
    }
}
