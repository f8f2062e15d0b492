//! When a node must be woken, and what is due then.

use std::cmp::Reverse;

use super::session::Session;
use super::{GRANT_TIMER, HALF_OPEN_TIMER, Node};
use crate::error::PeerLost;

/// A timer that has been put off by more than this is looked at when it was due first: much that is done now and then
/// has no timer of its own, and one look for each keep-alive costs nothing.
const SOON_NS: u64 = 50_000_000;

/// What is overdue waits this long for packets that come all the time: the next may bring what would be asked for, and a sender
/// that asks while many send into a short queue asks in vain.
const OVERDUE_NS: u64 = 1_000_000;

impl Node {
    /// When [`Node::handle_deadline`] must be called, if nothing else happens before.
    #[inline]
    pub fn next_deadline(&mut self) -> Option<u64> {
        let queued = self.queue.len();
        self.arm_changed();
        let at = if self.queue.len() > queued {
            // Credit has been given, and must be told at once.
            Some(self.hub.clock.called_ns)
        } else {
            let opens_ns = self.hub.own_link.opens_ns();
            self.first_timer_ns()
                .into_iter()
                .chain(opens_ns.filter(|_| !self.deferred.is_empty()))
                .min()
                .map(|at| at + self.hub.clock.stalled_ns)
        };
        self.hub.clock.promised_ns = at;
        at
    }

    /// When the first timer is due. One that has been put off a little goes back into the heap: as long as packets come and
    /// go, the moment at which the tail is asked for moves on with each of them, and who sleeps would be woken in vain.
    fn first_timer_ns(&mut self) -> Option<u64> {
        let soon_ns = self.hub.clock.latest() + SOON_NS;
        loop {
            let &Reverse((at, index)) = self.timers.peek()?;
            if index == HALF_OPEN_TIMER || index == GRANT_TIMER {
                return Some(at);
            }
            let peer = &mut self.peers[index];
            let counts = peer.timer_at_ns == at;
            let due_ns = peer.due_ns();
            if counts && (due_ns <= at || due_ns > soon_ns) {
                return Some(at);
            }
            self.timers.pop();
            if counts {
                peer.set_timer(due_ns);
                self.timers.push(Reverse((due_ns, index)));
            }
        }
    }

    /// Does what is due.
    pub fn handle_deadline(&mut self, now_ns: u64) {
        let now_ns = self.hub.clock.lived(now_ns);
        self.arm_changed();
        // What waits for the link may leave from now on, if it is time.
        self.hub.own_link.is_full(now_ns);
        let mut came_due = false;
        while let Some(&Reverse((at, index))) = self.timers.peek() {
            if at > now_ns {
                break;
            }
            self.timers.pop();
            if index == HALF_OPEN_TIMER {
                self.on_half_open_timer(now_ns);
            } else if index == GRANT_TIMER {
                if self.grants_at_ns == at {
                    self.grants_at_ns = u64::MAX;
                    self.grant(now_ns);
                }
            } else if self.peers[index].timer_at_ns == at {
                self.peers[index].forget_timer();
                self.on_timer(index, now_ns);
                self.arm(index, now_ns);
                came_due = true;
            }
        }
        // Nobody tells when the system has memory again.
        if came_due && self.hub.mailbox.denied {
            self.feed_starved();
        }
        self.use_freed_memory();
    }

    pub(super) fn on_timer(&mut self, index: u32, now_ns: u64) {
        let peer = &mut self.peers[index];
        let Some(link) = peer.link.as_mut() else {
            return;
        };
        if let Some(session) = &mut link.session {
            if peer.deferred {
                session.channel.put_off_poll(now_ns);
            }
            let result = session.on_deadline(&mut link.outgoing, peer.id, &mut self.hub, now_ns);
            if session.is_closed() {
                self.lose(index, PeerLost::ClosedHere);
            } else if let Err(why) = result {
                self.lose(index, why);
            } else {
                self.note_news(index, now_ns);
                self.enqueue(index);
                self.inquire(index, now_ns);
            }
        } else if link.attempt.is_some() {
            self.retry_handshake(index, now_ns);
        }
    }

    /// The peer's next deadline may have changed.
    #[inline]
    pub(super) fn arm_later(&mut self, index: u32) {
        if !std::mem::replace(&mut self.peers[index].changed, true) {
            self.changed.push(index);
        }
    }

    /// Does for the peers of which something has come what was not pressing.
    #[inline]
    pub(super) fn arm_changed(&mut self) {
        self.catch_up();
        let now_ns = self.hub.clock.latest();
        while let Some(index) = self.changed.pop() {
            self.peers[index].changed = false;
            self.give_credit(index, now_ns);
            self.arm(index, now_ns);
        }
    }

    /// Makes sure that the peer's next deadline is in the timer heap. What may leave already, an acknowledgement that is due or
    /// what has waited for its time, needs no timer: the peer is queued for sending. With one, a driver whose socket is full
    /// would be woken again and again for what it can't send.
    pub(super) fn arm(&mut self, index: u32, now_ns: u64) {
        if self.peers[index].is_due_to_send(now_ns) {
            self.enqueue(index);
        }
        let peer = &mut self.peers[index];
        let Some(link) = &peer.link else {
            return;
        };
        let at = match (&link.session, &link.attempt) {
            (Some(session), attempt) => {
                let inquiry = attempt.as_ref().map_or(u64::MAX, |attempt| attempt.next_ns);
                let deadline = session.deadline(&link.outgoing, &self.hub.config, now_ns);
                deadline.min(inquiry)
            }
            (None, Some(attempt)) => attempt.next_ns,
            (None, None) => return,
        };
        // What is to be done within some time is not put off by what comes meanwhile, ...
        let is_awaited = link.session.as_ref().is_some_and(Session::is_awaited);
        // ... and the rest not for ever: where packets come in every turn it would never be done.
        let is_overdue = now_ns.saturating_sub(at) >= OVERDUE_NS;
        let at = at.max(now_ns + 1);
        let at = match is_awaited || is_overdue {
            true => at.min(peer.due_ns()),
            false => at,
        };
        if at >= peer.timer_at_ns {
            peer.put_off(at);
        } else {
            peer.set_timer(at);
            self.timers.push(Reverse((at, index)));
        }
        if self.timers.len() > 64 + self.peers.len() * 3 / 2 {
            self.drop_stale_timers();
        }
    }

    /// Takes out the entries that nearer ones have replaced, and those that stand there twice because a timer was put off to
    /// where it had been before: before they outnumber those that count.
    #[cold]
    pub(super) fn drop_stale_timers(&mut self) {
        let mut entries = std::mem::take(&mut self.timers).into_vec();
        entries.retain(|&Reverse((at, index))| {
            index == HALF_OPEN_TIMER || index == GRANT_TIMER || self.peers[index].timer_at_ns == at
        });
        entries.sort_unstable();
        entries.dedup();
        self.timers = entries.into();
    }
}
