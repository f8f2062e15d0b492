//! Messages that the program sends.

use std::time::Duration;

use sabani_proto::{Outbound, SendError, SendTicket, Waiting};

use super::{Node, room};
use crate::engine::{Leave, TRAIN_BYTES};
use crate::pending::SendFate;
use crate::shared::State;
use crate::timing::Stage;
use crate::{Error, PeerId, Sent, Value};

/// Of a longer body a copy is made before the node is taken hold of. A shorter one takes some ten microseconds.
const COPIED_APART: usize = 256 << 10;

impl Node {
    /// Sends a message; the body is copied. Waits while the queue towards the peer is full.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`]; [`Error::Disconnected`]; [`Error::PeerLost`] once after a connection
    /// has ended, unless [`Node::connect`] was called since; [`Error::NoMemory`] for the copy; [`Error::Closed`], [`Error::Forked`].
    #[inline]
    pub fn send(&self, to: PeerId, tag: u64, body: &[u8]) -> Result<(), Error> {
        let sent = self.try_send(to, tag, body);
        // First of all, for a result that is passed on as a whole stalls on the part of it that has just been written.
        if sent.is_ok() {
            return Ok(());
        }
        self.send_again(sent, to, tag, body)
    }

    /// Once there is room, if that was missing.
    #[cold]
    fn send_again(
        &self,
        sent: Result<(), Error>,
        to: PeerId,
        tag: u64,
        body: &[u8],
    ) -> Result<(), Error> {
        match sent {
            Err(Error::Full { .. }) => {
                self.wait_for_room(to, body.len())?;
                self.send(to, tag, body)
            }
            failed => failed,
        }
    }

    /// Like [`Node::send`], but fails when the queue is full.
    ///
    /// # Errors
    /// [`Error::Full`], and those of [`Node::send`].
    #[inline]
    pub fn try_send(&self, to: PeerId, tag: u64, body: &[u8]) -> Result<(), Error> {
        if body.len() > COPIED_APART {
            return self.try_send_large(to, tag, body);
        }
        let mut state = self.0.shared.lock()?;
        state.engine.lap(Stage::Program);
        let now_ns = state.engine.now_ns();
        let sent = state.engine.node.send_copy(now_ns, to, tag, body, false);
        self.note_sent(&mut state, to, sent)
    }

    /// Makes the copy while others use the node: of gigabytes it may take longer than peers have patience.
    fn try_send_large(&self, to: PeerId, tag: u64, body: &[u8]) -> Result<(), Error> {
        let mut state = self.0.shared.lock()?;
        let room = state.engine.node.has_room(to, body.len());
        if room.is_err() {
            return self.note_sent(&mut state, to, room.map(|()| None));
        }
        let pool = state.engine.node.pool().clone();
        drop(state);
        let copy = pool.outbound(&[body])?;
        let mut state = self.0.shared.lock()?;
        let now_ns = state.engine.now_ns();
        let sent = state.engine.node.send(now_ns, to, tag, copy, false);
        self.note_sent(&mut state, to, sent)
    }

    #[inline]
    fn note_sent(
        &self,
        state: &mut State,
        to: PeerId,
        sent: Result<Option<SendTicket>, SendError>,
    ) -> Result<(), Error> {
        if let Err(error @ SendError::Full { .. }) = sent {
            self.0.shared.progress(state);
            return Err(error.into());
        }
        sent?;
        self.after_send(state, to);
        Ok(())
    }

    /// Sends a body that is handed over, or shared: no copy is made.
    ///
    /// # Errors
    /// As [`Node::send`].
    pub fn send_owned(&self, to: PeerId, tag: u64, body: impl Into<Outbound>) -> Result<(), Error> {
        self.post_send(to, tag, body.into(), Value::Reliable, false)
            .map(|_| ())
    }

    /// Sends a body that need not arrive (U17): `value` says how far to go for it. Order is kept, and
    /// later messages never wait for a body that does not come. What has been dropped is told to the
    /// receive that it had matched ([`Error::Expired`]), or to the receiving program as
    /// [`Event::Expired`](crate::Event::Expired); here, by the result. Waits while the queue towards the peer is full.
    ///
    /// Small messages take 24 bytes more on the wire than with [`Node::send`].
    ///
    /// # Errors
    /// As [`Node::send`].
    pub fn send_valued(
        &self,
        to: PeerId,
        tag: u64,
        body: impl Into<Outbound>,
        value: Value,
    ) -> Result<Sent, Error> {
        let ticket = self.post_send(to, tag, body.into(), value, true)?;
        Ok(self.sent(to, ticket))
    }

    /// Sends the pieces as one message.
    ///
    /// # Errors
    /// As [`Node::send`].
    pub fn send_gather(&self, to: PeerId, tag: u64, pieces: &[&[u8]]) -> Result<(), Error> {
        self.send_owned(to, tag, self.gather(pieces)?)
    }

    /// Like [`Node::send_gather`], without waiting for room; the result tells when the peer's library has it.
    pub(crate) fn send_gather_unbounded(
        &self,
        to: PeerId,
        tag: u64,
        pieces: &[&[u8]],
    ) -> Result<Sent, Error> {
        self.send_unbounded(to, tag, self.gather(pieces)?)
    }

    /// Like [`Node::send_gather_unbounded`]; [`Sent::is_kept_back`] tells when all of it has left, and nobody waits to
    /// hear of its arrival unless there was no room.
    pub(crate) fn send_gather_followed(
        &self,
        to: PeerId,
        tag: u64,
        pieces: &[&[u8]],
    ) -> Result<Sent, Error> {
        let body = self.gather(pieces)?;
        let mut state = self.0.shared.lock()?;
        state.engine.lap(Stage::Program);
        let now_ns = state.engine.now_ns();
        let node = &mut state.engine.node;
        let ticket = match node.has_room(to, body.bytes().len()) {
            Err(SendError::Full { .. }) => node.send_unbounded(now_ns, to, tag, body, true)?,
            _ => node.send_followed(now_ns, to, tag, body)?,
        };
        self.after_send(&mut state, to);
        drop(state);
        Ok(self.sent(to, ticket))
    }

    /// Puts the pieces together, while others use the node.
    fn gather(&self, pieces: &[&[u8]]) -> Result<Outbound, Error> {
        let pool = self.0.shared.lock()?.engine.node.pool().clone();
        Ok(pool.outbound(pieces)?)
    }

    /// Sends a body that is handed over; the result tells when the peer's library has it.
    ///
    /// # Errors
    /// As [`Node::send`].
    pub fn send_tracked(
        &self,
        to: PeerId,
        tag: u64,
        body: impl Into<Outbound>,
    ) -> Result<Sent, Error> {
        let ticket = self.post_send(to, tag, body.into(), Value::Reliable, true)?;
        Ok(self.sent(to, ticket))
    }

    /// Like [`Node::send_tracked`], without waiting for room: the program bounds what it hands over.
    ///
    /// # Errors
    /// As [`Node::send`].
    pub fn send_unbounded(
        &self,
        to: PeerId,
        tag: u64,
        body: impl Into<Outbound>,
    ) -> Result<Sent, Error> {
        let mut state = self.0.shared.lock()?;
        let now_ns = state.engine.now_ns();
        let node = &mut state.engine.node;
        let ticket = node.send_unbounded(now_ns, to, tag, body.into(), true)?;
        self.after_send(&mut state, to);
        drop(state);
        Ok(self.sent(to, ticket))
    }

    /// Waits until these long messages for a peer have left, and all short ones that its program leaves room for;
    /// `false` when the time is over.
    pub(crate) fn wait_left(
        &self,
        to: PeerId,
        long: &[Sent],
        timeout: Duration,
    ) -> Result<bool, Error> {
        let left = |state: &mut State| have_left(state, to, long).then_some(());
        Ok(self.0.shared.wait_until(Some(timeout), left)?.is_some())
    }

    /// Forgets those of these long messages that have left.
    pub(crate) fn forget_left(&self, long: &mut Vec<Sent>) -> Result<(), Error> {
        let state = self.0.shared.lock()?;
        let (kept, left) = std::mem::take(long)
            .into_iter()
            .partition(|sent| sent.is_kept_back(&state));
        drop(state);
        *long = kept;
        // Outside the lock, which each one takes in the end.
        drop::<Vec<_>>(left);
        Ok(())
    }

    fn sent(&self, to: PeerId, ticket: Option<SendTicket>) -> Sent {
        Sent {
            handle: self.0.clone(),
            to,
            fate: ticket.map_or(SendFate::Known(Ok(())), SendFate::UnderWay),
        }
    }

    fn post_send(
        &self,
        to: PeerId,
        tag: u64,
        body: Outbound,
        value: Value,
        tracked: bool,
    ) -> Result<Option<SendTicket>, Error> {
        let timed = matches!(value, Value::Within(_));
        self.accept_with(to, body, timed, |node, now_ns, body| {
            node.send_valued(now_ns, to, tag, body, value, tracked)
        })
    }

    /// Waits until there is room for a body, and has the node accept it; at a time just read if it is `timed`.
    fn accept_with(
        &self,
        to: PeerId,
        body: Outbound,
        timed: bool,
        accept: impl FnOnce(
            &mut sabani_proto::Node,
            u64,
            Outbound,
        ) -> Result<Option<SendTicket>, SendError>,
    ) -> Result<Option<SendTicket>, Error> {
        let len = body.bytes().len();
        loop {
            let mut state = self.0.shared.lock()?;
            state.engine.lap(Stage::Program);
            let now_ns = match timed {
                true => state.engine.clock(),
                false => state.engine.now_ns(),
            };
            match state.engine.node.has_room(to, len) {
                Err(SendError::Full { .. }) => {
                    drop(state);
                    self.wait_for_room(to, len)?;
                    continue;
                }
                room => room?,
            }
            let ticket = accept(&mut state.engine.node, now_ns, body)?;
            self.after_send(&mut state, to);
            return Ok(ticket);
        }
    }

    #[cold]
    fn wait_for_room(&self, to: PeerId, len: usize) -> Result<(), Error> {
        let room = self
            .0
            .shared
            .wait_until(None, |state| room(state, to, len))?;
        room.transpose()?;
        Ok(())
    }

    /// Sends what is to leave now that a message was accepted.
    #[inline]
    fn after_send(&self, state: &mut State, to: PeerId) {
        state.engine.lap(Stage::MessagesOut);
        if to == self.0.id {
            return self.0.shared.call_others(state, true);
        }
        let engine = &mut state.engine;
        let before_ns = engine.note_send(to);
        let waiting = engine.node.waiting(to);
        let waits = !waiting.idle && waiting.bytes < TRAIN_BYTES;
        let looks = engine.is_clock_due() || waiting.late || engine.keeps_rest;
        if waits && !looks {
            return;
        }
        let in_a_row = engine.clock_send(before_ns);
        let has_held = engine.has_held(waiting.rtt_ns);
        // The helper does not look after what waits where another thread sleeps.
        let in_a_row = in_a_row && !state.program_sleeps();
        if let Some(leave) = leave(to, &waiting, in_a_row, has_held) {
            self.send_now(state, to, leave);
        }
    }

    fn send_now(&self, state: &mut State, to: PeerId, leave: Leave) {
        let engine = &mut state.engine;
        engine.transmit(leave);
        // Acknowledgements make a difference when the window is used up.
        let looks = engine.node.waiting(to).bytes >= TRAIN_BYTES || engine.is_look_due();
        if looks {
            self.0.shared.note_look();
        }
        let received = looks && engine.progress_sending(leave);
        self.0.shared.call_others(state, received);
    }
}

/// Whether these long messages for a peer have left, and all short ones that its program leaves room for.
pub(crate) fn have_left(state: &mut State, to: PeerId, long: &[Sent]) -> bool {
    let node = &mut state.engine.node;
    let short = node.waiting(to).bytes == 0 || node.is_blocked(to);
    let left = short && !state.engine.below.is_blocked();
    left && !long.iter().any(|sent| sent.is_kept_back(state))
}

/// What leaves: all if the peer is idle, or if nothing has left for long enough. Where a train is full, all but what fills none if
/// the program sends to this peer in a row.
#[inline]
fn leave(to: PeerId, waiting: &Waiting, in_a_row: bool, has_held: bool) -> Option<Leave> {
    match waiting.bytes >= TRAIN_BYTES {
        _ if waiting.idle => Some(Leave::All),
        true if in_a_row => Some(Leave::Trains(to)),
        false if !has_held => None,
        _ => Some(Leave::All),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::Match;
    use crate::testing::pair;

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn messages_that_follow_each_other_slowly_leave_one_by_one() {
        let [here, _there] = pair();
        here.connect(PeerId(2), SOON).unwrap();
        // Many in a row before them make no difference.
        for _ in 0..1_000 {
            here.send(PeerId(2), 1, b"fast").unwrap();
        }
        assert!(here.wait_acknowledged(SOON).unwrap());
        let mut waited = 0;
        for _ in 0..200 {
            here.send(PeerId(2), 1, b"slow").unwrap();
            let state = here.shared().lock_raw();
            waited += usize::from(state.engine.node.waiting(PeerId(2)).bytes > 0);
            drop(state);
            thread::sleep(Duration::from_micros(200));
        }
        assert!(waited <= 40, "{waited} of 200");
    }

    #[test]
    fn what_collectives_send_does_not_wait_for_room_that_others_have_taken() {
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let [here, _there] = pair();
        let to = PeerId(3);
        here.add_peer(to, silent.local_addr().unwrap()).unwrap();
        let full = (0..).find_map(|_| here.try_send(to, 1, &[1; 60_000]).err());
        assert!(matches!(full, Some(Error::Full { .. })), "{full:?}");
        let mut followed = here
            .send_gather_followed(to, 1, &[&[1; 16], &[2; 60_000]])
            .unwrap();
        let mut unbounded = here.send_gather_unbounded(to, 1, &[&[1; 16]]).unwrap();
        assert!(!followed.test().unwrap() && !unbounded.test().unwrap());
        drop([followed, unbounded]);
        here.close(Duration::ZERO).unwrap_err();
    }

    #[test]
    fn peers_are_answered_while_the_program_takes_what_is_here() {
        const BACKLOG: usize = 2_000;
        let [here, there] = pair();
        for _ in 0..BACKLOG {
            here.send(PeerId(2), 1, b"backlog").unwrap();
        }
        assert!(here.wait_acknowledged(SOON).unwrap());
        let wanted = Match::any().from(PeerId(1)).tag(1);
        let take = || {
            assert_eq!(there.recv(wanted).unwrap().body(), b"backlog");
            thread::sleep(Duration::from_micros(500));
        };
        // From now on it calls, and its helper keeps away.
        (0..20).for_each(|_| take());
        let mut sent = here.send_tracked(PeerId(2), 2, vec![1; 100]).unwrap();
        here.flush().unwrap();
        let taken = (20..BACKLOG).take_while(|_| {
            take();
            !sent.test().unwrap()
        });
        assert!(taken.count() < BACKLOG - 21, "nobody looked at the socket");
    }

    #[test]
    fn the_rest_of_a_message_waits_where_the_program_sends_in_a_row() {
        let to = PeerId(1);
        let leaves = |bytes, idle, in_a_row, has_held| {
            let waiting = Waiting {
                bytes,
                idle,
                late: false,
                rtt_ns: 0,
            };
            leave(to, &waiting, in_a_row, has_held)
        };
        let (short, long) = (TRAIN_BYTES - 1, TRAIN_BYTES);
        assert_eq!(leaves(long, false, true, false), Some(Leave::Trains(to)));
        assert_eq!(leaves(long, false, false, false), Some(Leave::All));
        assert_eq!(leaves(short, false, true, false), None);
        assert_eq!(leaves(short, false, true, true), Some(Leave::All));
        for bytes in [short, long] {
            assert_eq!(leaves(bytes, true, true, false), Some(Leave::All));
        }
    }
}
