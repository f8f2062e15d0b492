//! Receives and sends under way.

use std::sync::Arc;
use std::time::Duration;

use sabani_proto::{RecvTicket, SendTicket, Undelivered};

use crate::node::Handle;
use crate::node::vain::{IN_VAIN_EVERY, Vain};
use crate::shared::State;
use crate::{Envelope, Error, Message, PeerId};

/// A receive that was posted. Dropping it withdraws the receive; a message that had begun to fill
/// it stays receivable. It keeps the node open, as a clone of [`Node`](crate::Node) does.
#[derive(Debug)]
pub struct Posted {
    pub(crate) handle: Arc<Handle>,
    pub(crate) ticket: Option<RecvTicket>,
}

impl Posted {
    /// Waits for the message; `None` when the time is over, and the receive stays posted.
    ///
    /// # Errors
    /// [`Error::TooSmall`], [`Error::TooLarge`], [`Error::Expired`], [`Error::PeerLost`],
    /// [`Error::Closed`]; [`Error::Ended`] once it has given a message or another error. Without a timeout also
    /// [`Error::Backlog`] and [`Error::Starved`]: the receive stays posted then, and can be waited for again.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<Message>, Error> {
        let mut vain = Vain::default();
        loop {
            let message = self.wait_for(timeout.unwrap_or(IN_VAIN_EVERY))?;
            if message.is_some() || timeout.is_some() {
                return Ok(message);
            }
            self.check_in_vain(&mut vain)?;
        }
    }

    fn wait_for(&mut self, time: Duration) -> Result<Option<Message>, Error> {
        let ticket = self.ticket.ok_or(Error::Ended)?;
        let result = self
            .handle
            .shared
            .wait_until(Some(time), |state| state.engine.node.take_received(ticket))?;
        self.finish(result)
    }

    /// Whether it waits in vain.
    pub(crate) fn check_in_vain(&self, vain: &mut Vain) -> Result<(), Error> {
        let ticket = self.ticket.ok_or(Error::Ended)?;
        vain.check_posted(&self.handle.shared, ticket)
    }

    /// Makes progress, and takes the message if it is here.
    ///
    /// # Errors
    /// As [`Posted::wait`].
    pub fn test(&mut self) -> Result<Option<Message>, Error> {
        let ticket = self.ticket.ok_or(Error::Ended)?;
        let mut state = self.handle.shared.lock()?;
        // What comes from now on makes it readable again.
        if let Some(fd) = &state.engine.poll_fd {
            fd.set_ready(false);
        }
        self.handle.shared.progress(&mut state);
        let result = state.engine.node.take_received(ticket);
        if let Some(fd) = &state.engine.poll_fd
            && state.engine.node.unmatched_messages() > 0
        {
            fd.set_ready(true);
        }
        drop(state);
        self.finish(result)
    }

    fn finish(
        &mut self,
        result: Option<Result<Message, sabani_proto::RecvError>>,
    ) -> Result<Option<Message>, Error> {
        let Some(result) = result else {
            return Ok(None);
        };
        self.ticket = None;
        Ok(Some(result?))
    }

    /// Withdraws the receive: gives back the message, if it had arrived already, or the buffer. A message that has begun to fill it
    /// stays receivable, and keeps it if there is no memory to go on without ([`Builder::memory`](crate::Builder::memory)).
    pub fn cancel(mut self) -> (Option<Message>, Option<Vec<u8>>) {
        self.withdraw()
    }

    fn withdraw(&mut self) -> (Option<Message>, Option<Vec<u8>>) {
        let Some(ticket) = self.ticket.take() else {
            return (None, None);
        };
        let Ok(mut state) = self.handle.shared.lock() else {
            return (None, None);
        };
        let shared = &self.handle.shared;
        let (result, buffer) = shared.withdraw(&mut state, ticket, sabani_proto::Node::cancel);
        let message = result.and_then(Result::ok);
        (message, buffer)
    }
}

impl Drop for Posted {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else {
            return;
        };
        if let Ok(mut state) = self.handle.shared.lock() {
            let shared = &self.handle.shared;
            shared.withdraw(&mut state, ticket, sabani_proto::Node::abandon);
        }
    }
}

/// A posted receive into a borrowed buffer. The message is copied into it by
/// [`PostedInto::wait`], so that forgetting the handle is harmless.
#[derive(Debug)]
pub struct PostedInto<'a> {
    pub(crate) posted: Posted,
    pub(crate) buffer: &'a mut [u8],
}

impl PostedInto<'_> {
    /// Waits for the message and copies it into the buffer; `None` when the time is over.
    ///
    /// # Errors
    /// As [`Posted::wait`]; a message longer than the buffer stays receivable.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<Envelope>, Error> {
        let Some(message) = self.posted.wait(timeout)? else {
            return Ok(None);
        };
        Ok(Some(copy_out(&message, self.buffer)))
    }
}

/// Copies a message that is known to fit.
pub(crate) fn copy_out(message: &Message, buffer: &mut [u8]) -> Envelope {
    let len = message.body().len();
    buffer[..len].copy_from_slice(message.body());
    Envelope {
        source: message.source,
        tag: message.tag,
        len: len as u64,
        complete: true,
    }
}

/// A send whose arrival was asked for. Dropping it changes nothing for the message. It keeps the node
/// open, as a clone of [`Node`](crate::Node) does.
#[derive(Debug)]
pub struct Sent {
    pub(crate) handle: Arc<Handle>,
    pub(crate) to: PeerId,
    pub(crate) fate: SendFate,
}

/// What is known of a send.
#[derive(Debug)]
pub(crate) enum SendFate {
    UnderWay(SendTicket),
    Known(Result<(), Undelivered>),
}

impl Sent {
    /// Waits until the peer's library has the message, whether its program takes it or discards it;
    /// `false` when the time is over. Says the same again once that is known, also when the node is
    /// closed.
    ///
    /// # Errors
    /// [`Error::PeerLost`], [`Error::Expired`] (see [`Value`](crate::Value)). [`Error::Closed`] if the
    /// message was not acknowledged before the node was closed: it may have arrived, or not.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, Error> {
        if let SendFate::UnderWay(ticket) = self.fate {
            let shared = &self.handle.shared;
            let take = |state: &mut State| state.engine.node.take_sent(ticket);
            let known = match shared.wait_until(timeout, take) {
                Err(Error::Closed) => Some(take(&mut shared.lock_raw()).ok_or(Error::Closed)?),
                known => known?,
            };
            let Some(result) = known else {
                return Ok(false);
            };
            self.fate = SendFate::Known(result);
        }
        self.outcome()
    }

    /// Whether it is known by now what became of it.
    pub(crate) fn is_known(&mut self, state: &mut State) -> bool {
        if let SendFate::UnderWay(ticket) = self.fate
            && let Some(result) = state.engine.node.take_sent(ticket)
        {
            self.fate = SendFate::Known(result);
        }
        matches!(self.fate, SendFate::Known(_))
    }

    /// Whether it is a long message, of which a part has not left yet.
    pub(crate) fn is_kept_back(&self, state: &State) -> bool {
        match self.fate {
            SendFate::UnderWay(ticket) => state.engine.node.keeps_back(self.to, ticket),
            SendFate::Known(_) => false,
        }
    }

    /// Makes progress, and says whether the peer's library has the message.
    ///
    /// # Errors
    /// As [`Sent::wait`].
    pub fn test(&mut self) -> Result<bool, Error> {
        self.wait(Some(Duration::ZERO))
    }

    fn outcome(&self) -> Result<bool, Error> {
        let peer = self.to;
        match &self.fate {
            SendFate::UnderWay(_) => Ok(false),
            SendFate::Known(Ok(())) => Ok(true),
            SendFate::Known(Err(Undelivered::Expired)) => Err(Error::Expired { peer }),
            SendFate::Known(Err(Undelivered::PeerLost(why))) => Err(Error::lost(peer, why.clone())),
        }
    }
}

impl Drop for Sent {
    /// The node keeps what became of a send until it is asked.
    fn drop(&mut self) {
        let shared = &self.handle.shared;
        if let SendFate::UnderWay(ticket) = self.fate
            && !shared.is_forked()
        {
            shared.lock_raw().engine.node.forget_sent(ticket);
        }
    }
}
