//! Bodies that are worth sending for some time only, or once (U17).
//!
//! A body that has expired is dropped, and stands in its queue until the peer has been told: its
//! entry is sent like all others, so order and credit are what they would have been. The peer is
//! told once all entries up to it are there, for it can make nothing of it before.

use std::collections::{BTreeSet, VecDeque};

use super::{Content, Outgoing};
use crate::message::{Outbound, SendWindow, Ticket, Worth};
use crate::rare::Empty;

/// Of so many bodies that wait behind one that has expired it is asked whether they can be in time.
const LOOKED_AT: usize = 64;

/// A rate is measured over less than this.
const RECENT_NS: u64 = 1_000_000_000;

/// What few connections need.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Aside {
    /// What was lost and waits for the program's word, if that has asked for it (U6).
    pub kept: VecDeque<Content>,
    /// Who waits to hear of bodies that have arrived behind entries that have not: should the
    /// connection end, the receiver can't pass them on.
    pub behind: Vec<(u64, Ticket)>,
    /// Bytes queued that have to be asked for because credit runs short ([`super::Room::Asked`]).
    pub asked_bytes: usize,
    /// Until when bodies are worth sending, and which ones.
    until: BTreeSet<(u64, u64)>,
    /// Those that have expired, and whose entries the peer may not have.
    early: BTreeSet<u64>,
    /// Those that the peer is to be told of now.
    due: VecDeque<u64>,
    /// When something last expired, and how many bytes had been sent then.
    latest: Option<(u64, u64)>,
}

impl Empty for Aside {
    fn empty() -> &'static Self {
        const EMPTY: &Aside = &Aside {
            kept: VecDeque::new(),
            behind: Vec::new(),
            asked_bytes: 0,
            until: BTreeSet::new(),
            early: BTreeSet::new(),
            due: VecDeque::new(),
            latest: None,
        };
        EMPTY
    }
}

impl Outgoing {
    /// Accepts a body that may expire, however small it is.
    pub fn push_worth(
        &mut self,
        tag: u64,
        data: Outbound,
        worth: Worth,
        ticket: Option<Ticket>,
        window: &SendWindow,
    ) {
        self.push_body(tag, data, ticket, window);
        let body = self.bodies.back_mut().expect("just pushed");
        body.worth = worth;
        if worth.until_ns != u64::MAX {
            self.aside.until.insert((worth.until_ns, body.id));
        }
    }

    /// Whatever was pushed is reliable: the peer could not be told otherwise.
    pub fn make_reliable(&mut self) {
        for body in self.bodies.iter_mut() {
            self.aside.until.remove(&(body.worth.until_ns, body.id));
            body.worth = Worth::default();
        }
    }

    /// When the next body expires.
    pub fn next_expiry(&self) -> Option<u64> {
        self.aside.until.first().map(|&(until_ns, _)| until_ns)
    }

    /// Drops the bodies whose time is over, and those behind them that can't be in time at the rate
    /// since something last expired: sending these would make others late. `sent_bytes` is what the
    /// connection has sent in all. Returns how many they are; `told` hears of those that somebody
    /// waits for.
    pub fn expire(
        &mut self,
        now_ns: u64,
        rtt_ns: u64,
        sent_bytes: u64,
        told: &mut impl FnMut(Ticket),
    ) -> u64 {
        let mut count = 0;
        while let Some(&(until_ns, id)) = self.aside.until.first()
            && until_ns <= now_ns
        {
            self.give_up(id, told);
            count += 1;
        }
        if count == 0 {
            return 0;
        }
        let latest = self.aside.latest.replace((now_ns, sent_bytes));
        let Some((since_ns, since_bytes)) = latest.filter(|&(at_ns, _)| now_ns - at_ns < RECENT_NS)
        else {
            return count;
        };
        let bytes_per_ns = (sent_bytes - since_bytes) as f64 / (now_ns - since_ns).max(1) as f64;
        let (mut ends_ns, mut late) = (now_ns + rtt_ns, Vec::new());
        for &(until_ns, id) in self.aside.until.iter().take(LOOKED_AT) {
            let Some(body) = self.body_at(id).map(|at| &self.bodies[at]) else {
                continue;
            };
            let left_ns = ((body.total - body.next) as f64 / bytes_per_ns) as u64;
            if body.next == 0 && ends_ns.saturating_add(left_ns) > until_ns {
                late.push(id);
            } else {
                ends_ns = ends_ns.saturating_add(left_ns);
            }
        }
        for &id in &late {
            self.give_up(id, told);
        }
        count + late.len() as u64
    }

    /// Whether a body of which this is a piece is dropped when one gets lost.
    pub fn goes_once(&self, content: Content) -> bool {
        let Content::Body { id, .. } = content else {
            return false;
        };
        let body = self.body_at(id).map(|at| &self.bodies[at]);
        body.is_some_and(|body| body.worth.once && !body.expired)
    }

    /// Drops a body, if that has not been done already.
    pub fn give_up(&mut self, id: u64, told: &mut impl FnMut(Ticket)) {
        let Some(at) = self.body_at(id).filter(|&at| !self.bodies[at].expired) else {
            return;
        };
        let body = &mut self.bodies[at];
        body.expired = true;
        self.aside.until.remove(&(body.worth.until_ns, id));
        self.unsent_bytes -= body.granted.min(body.total).saturating_sub(body.next) as usize;
        let (bytes, room) = (body.data.bytes().len(), body.room);
        body.data = Outbound::Owned(Vec::new());
        (body.next, body.granted) = (body.total, body.total);
        if let Some(ticket) = body.ticket.take() {
            self.awaited -= u32::from(body.awaited);
            told(ticket);
        }
        self.let_go(bytes, room);
        let is_piece =
            |content: &Content| matches!(content, Content::Body { id: of, .. } if *of == id);
        if !self.resend.is_empty() {
            self.resend.retain(|content| !is_piece(content));
        }
        if !self.aside.kept.is_empty() {
            self.aside.kept.retain(|content| !is_piece(content));
        }
        for ids in [&mut self.eager, &mut self.granted] {
            if !ids.is_empty() {
                ids.retain(|&other| other != id);
            }
        }
        if id < self.safe_before() {
            self.aside.due.push_back(id);
        } else {
            self.aside.early.insert(id);
        }
    }

    /// More entries have arrived: the peer may be told of what expired behind them.
    #[inline]
    pub(super) fn tell_expired(&mut self) {
        if self.aside.early.is_empty() {
            return;
        }
        let safe_before = self.safe_before();
        let behind = self.aside.early.split_off(&safe_before);
        let told = std::mem::replace(&mut self.aside.early, behind);
        self.aside.due.extend(told);
    }

    /// Whether the peer is to be told that something has expired.
    #[inline]
    pub fn has_expired(&self) -> bool {
        !self.aside.due.is_empty()
    }

    /// What the peer is to be told of next.
    pub fn pop_expired(&mut self) -> Option<u64> {
        self.aside.due.pop_front()
    }

    /// The peer was not told: it is to be told again.
    pub fn expired_again(&mut self, id: u64) {
        if self.body_at(id).is_some() {
            self.aside.due.push_back(id);
        }
    }

    /// The peer knows that this body does not come.
    pub fn on_expired_told(&mut self, id: u64) {
        if let Some(at) = self.body_at(id) {
            self.remove_body(at);
        }
    }

    /// A body leaves the queue: it has arrived, or the peer knows that it never will.
    pub(super) fn remove_body(&mut self, at: usize) -> super::OutBody {
        let body = self.bodies.remove(at).expect("body is there");
        self.sending -= u32::from(at < self.sending as usize);
        self.let_go(body.data.bytes().len(), body.room);
        if body.worth.until_ns != u64::MAX {
            self.aside.until.remove(&(body.worth.until_ns, body.id));
        }
        body
    }

    pub(super) fn shrink_aside(&mut self) {
        if self.is_settled() && self.aside.kept.is_empty() && self.aside.behind.is_empty() {
            self.aside = Default::default();
        }
    }
}
