//! Messages that don't wait.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bytemuck::{Pod, cast_slice};

use crate::comm::lives::LOOK;
use crate::comm::message::to_vec;
use crate::comm::tag::Kind;
use crate::comm::{Comm, Error};
use crate::{Message, Posted, Sent};

impl Comm {
    /// Sends elements to a rank without waiting, however many wait for that rank already: they are handed
    /// over, and no copy is made. What is sent goes on while the program computes, also if the handle is
    /// dropped.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`], [`Error::RankLost`], [`Error::Node`].
    pub fn isend<T: Pod + Send + Sync>(
        &self,
        to: usize,
        tag: u32,
        elements: Vec<T>,
    ) -> Result<Sending, Error> {
        let peer = self.peer(to)?;
        self.usable()?;
        let tag = self.group.context.tag(Kind::Message, tag);
        let body = Arc::new(Elements(elements));
        let sent = self.node().send_unbounded(peer, tag, body);
        Ok(Sending {
            sent: sent.map_err(|error| self.explained(error))?,
            comm: self.clone(),
            to,
        })
    }

    /// Begins to receive elements from a rank. They come while the program computes, into memory that the
    /// handle gives away in the end. Receives from one rank with one tag get its messages in the order in
    /// which they were begun; a handle that is dropped leaves its message to others.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`], [`Error::Node`].
    pub fn irecv<T: Pod>(&self, from: usize, tag: u32) -> Result<Receiving<T>, Error> {
        self.usable()?;
        let context = self.group.context;
        let wanted = context.matching(Kind::Message, tag).from(self.peer(from)?);
        Ok(Receiving {
            posted: self.node().post(wanted, None)?,
            come: None,
            comm: self.clone(),
            from,
            tag,
            elements: PhantomData,
        })
    }
}

/// Elements as the bytes that are sent.
struct Elements<T>(Vec<T>);

impl<T: Pod> AsRef<[u8]> for Elements<T> {
    fn as_ref(&self) -> &[u8] {
        cast_slice(&self.0)
    }
}

/// A message on its way out; see [`Comm::isend`].
pub struct Sending {
    sent: Sent,
    comm: Comm,
    to: usize,
}

impl Sending {
    /// Whether the receiver's library has the message.
    ///
    /// # Errors
    /// [`Error::RankLost`], [`Error::Node`].
    pub fn test(&mut self) -> Result<bool, Error> {
        let arrived = self.look(Duration::ZERO)?;
        if !arrived {
            self.comm.check_at_times(Some(self.to))?;
        }
        Ok(arrived)
    }

    /// Waits until the receiver's library has the message: not until its program has asked for it, but
    /// a long one comes only then.
    ///
    /// # Errors
    /// [`Error::RankLost`], [`Error::Node`].
    pub fn wait(mut self) -> Result<(), Error> {
        while !self.look(LOOK)? {
            self.comm.check_alive(self.to)?;
        }
        Ok(())
    }

    fn look(&mut self, timeout: Duration) -> Result<bool, Error> {
        let arrived = self.sent.wait(Some(timeout));
        arrived.map_err(|error| self.comm.explained(error))
    }
}

/// A message on its way in; see [`Comm::irecv`].
pub struct Receiving<T> {
    posted: Posted,
    come: Option<Message>,
    comm: Comm,
    from: usize,
    tag: u32,
    elements: PhantomData<T>,
}

impl<T: Pod> Receiving<T> {
    /// Whether the message is here.
    ///
    /// # Errors
    /// [`Error::RankLost`], [`Error::Node`].
    pub fn test(&mut self) -> Result<bool, Error> {
        if self.come.is_none() {
            self.come = self.ask()?;
        }
        if self.come.is_none()
            && let Err(lost) = self.comm.check_at_times(Some(self.from))
        {
            // Whoever has ended has waited until its last messages were here.
            self.come = Some(self.ask()?.ok_or(lost)?);
        }
        Ok(self.come.is_some())
    }

    fn ask(&mut self) -> Result<Option<Message>, Error> {
        let come = self.posted.test();
        come.map_err(|error| self.comm.explained(error))
    }

    /// Waits for the message, and returns its elements.
    ///
    /// # Errors
    /// [`Error::RankLost`], [`Error::Length`], [`Error::Node`].
    pub fn wait(self) -> Result<Vec<T>, Error> {
        let message = match self.come {
            Some(message) => message,
            None => self.comm.wait_posted(self.posted, self.from)?,
        };
        to_vec(&message, self.from, self.tag)
    }
}
