//! A collective with its data.

use std::collections::VecDeque;
use std::fmt;

use super::executor::{Command, Executor, MessageId, StepId};
use super::header::{Fingerprint, Header, Kind, Mismatch};
use super::memory::Memory;
use crate::context::Context;
use crate::schedule::Schedule;
use crate::step::{Side, Span};

/// Combines elements: with `Side::Left`, `into = from ∘ into`, else `into = into ∘ from`.
pub type Operation<'a> = dyn Fn(&[u8], &mut [u8], Side) + 'a;

/// A message to be sent.
#[derive(Debug, PartialEq, Eq)]
pub struct Outgoing<'m> {
    /// To whom.
    pub to: usize,
    /// What comes first.
    pub header: Header,
    /// What follows.
    pub payload: &'m [u8],
    /// What [`Exchange::arrived`] must be told when the receiver's node has it, if that makes a difference.
    pub in_step: Option<StepId>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// It is where it belongs.
    Taken,
    /// Its turn has not come: offer it again when something else has been taken.
    Early,
    /// It belongs to a later collective.
    Later,
}

/// Why a message can't be taken. The collective can't be completed any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// Its sender is in something else.
    Mismatch(Box<Mismatch>),
    /// Its sender is in the same collective, but the schedule has no such message.
    Unknown {
        /// Its sender.
        peer: usize,
        /// Its name.
        message: MessageId,
    },
    /// It is not as long as it should be.
    Length {
        /// Its sender.
        peer: usize,
        /// Bytes expected.
        expected: usize,
        /// Bytes that came.
        got: usize,
    },
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejected::Mismatch(mismatch) => mismatch.fmt(f),
            Rejected::Unknown { peer, message } => {
                write!(
                    f,
                    "rank {peer} speaks of a message that there is not: {message:?}"
                )
            }
            Rejected::Length {
                peer,
                expected,
                got,
            } => write!(f, "rank {peer} sent {got} bytes where {expected} belong"),
        }
    }
}

impl std::error::Error for Rejected {}

/// One rank's part in a collective, data included.
///
/// # Driving
/// Send what [`poll`](Exchange::poll) says until it says nothing; give each message that comes to
/// [`handle`](Exchange::handle); poll again. A message's bytes may be reused as soon as `poll` is called
/// again. Of those that are to keep in step, tell when they have [`arrived`](Exchange::arrived).
/// [`sources`](Exchange::sources) are the ranks to receive data from. When nothing has come for long,
/// [`remind`](Exchange::remind): if a peer is in something else, one side then finds out.
pub struct Exchange<'a> {
    executor: Executor<'a>,
    rank: usize,
    fingerprint: Fingerprint,
    memory: Memory<'a>,
    operation: &'a Operation<'a>,
    /// Receivers' messages to senders, which go before everything else.
    announcements: VecDeque<(usize, MessageId)>,
    /// Ranks that messages are awaited from, and how many.
    sources: Vec<(usize, usize)>,
    /// The step whose bytes were handed out by the last poll.
    sending: Option<StepId>,
}

impl<'a> Exchange<'a> {
    /// Begins a collective as `rank`.
    pub fn new(
        schedule: &'a dyn Schedule,
        cx: Context<'a>,
        rank: usize,
        fingerprint: Fingerprint,
        memory: Memory<'a>,
        operation: &'a Operation<'a>,
    ) -> Self {
        Exchange {
            executor: Executor::new(schedule, cx, rank),
            rank,
            fingerprint,
            memory,
            operation,
            announcements: VecDeque::new(),
            sources: Vec::new(),
            sending: None,
        }
    }

    /// Whether this rank is done.
    pub fn is_complete(&self) -> bool {
        self.executor.is_complete() && self.announcements.is_empty()
    }

    /// What to send next. Copies and combines on its way there.
    pub fn poll(&mut self) -> Option<Outgoing<'_>> {
        if let Some(step) = self.sending.take() {
            self.executor.complete(step);
        }
        loop {
            if let Some((to, message)) = self.announcements.pop_front() {
                return Some(self.outgoing(to, Kind::Ready, message, Span::EMPTY, None));
            }
            let (step, command) = self.executor.poll()?;
            match command {
                Command::Send {
                    to,
                    message,
                    from,
                    in_step,
                } => {
                    self.sending = (!in_step).then_some(step);
                    let in_step = in_step.then_some(step);
                    return Some(self.outgoing(to, Kind::Data, message, from, in_step));
                }
                Command::Receive {
                    from,
                    message,
                    announce,
                    ..
                } => {
                    self.await_from(from);
                    if announce {
                        self.announcements.push_back((from, message));
                    }
                    continue;
                }
                Command::Copy { from, into, repeat } => self.memory.copy(from, into, repeat),
                Command::Reduce { from, into, side } => {
                    let (from, into) = self.memory.pair(from, into);
                    (self.operation)(from, into, side);
                }
            }
            self.executor.complete(step);
        }
    }

    /// A message that is to keep in step has come to its receiver's node ([`Outgoing::in_step`]).
    ///
    /// # Panics
    /// If it was told before.
    pub fn arrived(&mut self, step: StepId) {
        self.executor.complete(step);
    }

    /// Takes a message that has come from `peer`.
    ///
    /// # Errors
    /// If it shows that the peer is in something else.
    pub fn handle(
        &mut self,
        peer: usize,
        header: &Header,
        payload: &[u8],
    ) -> Result<Handled, Rejected> {
        let theirs = &header.fingerprint;
        let ahead = theirs.sequence.wrapping_sub(self.fingerprint.sequence) as i32;
        if theirs.epoch == self.fingerprint.epoch && ahead > 0 {
            return Ok(Handled::Later);
        }
        if ahead < 0 && header.kind == Kind::Ready {
            // A reminder that was not needed.
            return Ok(Handled::Taken);
        }
        if *theirs != self.fingerprint {
            return Err(Rejected::Mismatch(Box::new(Mismatch {
                rank: self.rank,
                ours: self.fingerprint,
                peer,
                theirs: *theirs,
            })));
        }
        let message = header.message;
        let unknown = |_| Rejected::Unknown { peer, message };
        if header.kind == Kind::Ready {
            let told = self.executor.peer_is_ready(peer, message);
            return told.map(|()| Handled::Taken).map_err(unknown);
        }
        let Some((step, into)) = self.executor.expects(peer, message).map_err(unknown)? else {
            return Ok(Handled::Early);
        };
        let place = self.memory.bytes_mut(into);
        if place.len() != payload.len() {
            return Err(Rejected::Length {
                peer,
                expected: place.len(),
                got: payload.len(),
            });
        }
        place.copy_from_slice(payload);
        self.executor.complete(step);
        self.has_come_from(peer);
        Ok(Handled::Taken)
    }

    /// The ranks that messages with data are awaited from now, each once.
    pub fn sources(&self) -> impl Iterator<Item = usize> {
        self.sources.iter().map(|(source, _)| *source)
    }

    /// Asks for every message that this rank waits for.
    pub fn remind(&mut self) {
        self.announcements.extend(self.executor.awaited());
    }

    fn await_from(&mut self, source: usize) {
        match self.sources.iter_mut().find(|(known, _)| *known == source) {
            Some((_, messages)) => *messages += 1,
            None => self.sources.push((source, 1)),
        }
    }

    fn has_come_from(&mut self, source: usize) {
        let place = self.sources.iter().position(|(known, _)| *known == source);
        let place = place.expect("what is taken was awaited");
        self.sources[place].1 -= 1;
        if self.sources[place].1 == 0 {
            self.sources.swap_remove(place);
        }
    }

    fn outgoing(
        &self,
        to: usize,
        kind: Kind,
        message: MessageId,
        from: Span,
        in_step: Option<StepId>,
    ) -> Outgoing<'_> {
        Outgoing {
            to,
            header: Header {
                fingerprint: self.fingerprint,
                kind,
                message,
            },
            payload: self.memory.bytes(from),
            in_step,
        }
    }
}
