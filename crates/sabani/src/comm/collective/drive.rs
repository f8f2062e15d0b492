//! Runs one rank of a collective over the node.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use sabani_collective::execute::{Exchange, Handled, Header};

use crate::comm::lives::LOOK;
use crate::comm::tag::Kind;
use crate::comm::{Comm, Error};
use crate::{Match, Message};

/// A body of this length is worth being handed over instead of copied.
const HAND_OVER_BYTES: usize = 16 << 10;
/// How long a sender that finds no room waits for messages before it tries again.
const NO_ROOM: Duration = Duration::from_millis(1);

/// What belongs to the collectives of a communicator, one after the other.
#[derive(Default)]
pub struct Progress {
    /// The number of the next one.
    sequence: u32,
    /// Messages whose turn has not come.
    early: VecDeque<Message>,
    /// Where short messages are put together.
    buffer: Vec<u8>,
    /// To whom something was sent.
    receivers: BTreeSet<usize>,
}

impl Progress {
    /// Numbers the next collective.
    pub fn next_number(&mut self) -> u32 {
        let number = self.sequence;
        self.sequence = number.wrapping_add(1);
        number
    }
}

/// One collective on its way.
pub struct Drive<'a, 'e> {
    pub comm: &'a Comm,
    pub progress: &'a mut Progress,
    pub exchange: Exchange<'e>,
}

impl Drive<'_, '_> {
    /// Runs it to its end.
    ///
    /// # Errors
    /// [`Error::RankLost`], [`Error::Collective`] if ranks are in different ones, [`Error::Node`].
    pub fn run(mut self) -> Result<(), Error> {
        loop {
            while self.send_next()? {}
            if self.exchange.is_complete() {
                break;
            }
            if !self.take_early()? {
                let message = self.wait()?;
                self.take(message)?;
            }
        }
        self.see_off()
    }

    /// Nobody may call in for a while: what this rank has sent leaves before that.
    fn see_off(&mut self) -> Result<(), Error> {
        let comm = self.comm;
        let explained = |error| comm.explained(error);
        comm.node().flush().map_err(explained)?;
        while let Some(receiver) = self.progress.receivers.pop_first() {
            let peer = comm.peer(receiver)?;
            while !comm.node().wait_sent(peer, LOOK).map_err(explained)? {
                comm.check_alive(receiver)?;
            }
        }
        Ok(())
    }

    fn wanted(&self) -> Match {
        self.comm.group.context.matching(Kind::Collective, 0)
    }

    /// Sends one message; `false` if none is due.
    fn send_next(&mut self) -> Result<bool, Error> {
        let wanted = self.wanted();
        let Some(outgoing) = self.exchange.poll() else {
            return Ok(false);
        };
        let comm = self.comm;
        let peer = comm.peer(outgoing.to)?;
        self.progress.receivers.insert(outgoing.to);
        let tag = comm.group.context.tag(Kind::Collective, 0);
        let header = outgoing.header.encode();
        let bytes = header.len() + outgoing.payload.len();
        // A peer that sends as well may have no room before this rank has taken something.
        let explained = |error| comm.explained(error);
        let room = || comm.node().wait_writable(peer, bytes, Duration::ZERO);
        while !room().map_err(explained)? {
            let message = comm.node().recv_timeout(wanted, NO_ROOM);
            match message.map_err(explained)? {
                Some(message) => self.progress.early.push_back(message),
                None => comm.check_alive(outgoing.to)?,
            }
        }
        if bytes >= HAND_OVER_BYTES {
            let body = [&header[..], outgoing.payload].concat();
            comm.node().send_owned(peer, tag, body).map_err(explained)?;
        } else {
            let buffer = &mut self.progress.buffer;
            buffer.clear();
            buffer.extend(header);
            buffer.extend(outgoing.payload);
            comm.node().send(peer, tag, buffer).map_err(explained)?;
        }
        Ok(true)
    }

    /// Takes one of the messages that have come before their turn, if that is over for one.
    fn take_early(&mut self) -> Result<bool, Error> {
        for _ in 0..self.progress.early.len() {
            let message = self.progress.early.pop_front();
            if let Some(message) = message
                && self.take(message)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes a message, or puts it aside; whether it was taken.
    fn take(&mut self, message: Message) -> Result<bool, Error> {
        let peer = self.comm.rank_of(message.source)?;
        let Some((header, payload)) = Header::decode(message.body()) else {
            return Err(Error::Collective(format!(
                "rank {peer} sends something of another version"
            )));
        };
        let handled = self.exchange.handle(peer, &header, payload);
        match handled.map_err(|rejected| Error::Collective(rejected.to_string()))? {
            Handled::Taken => Ok(true),
            Handled::Early | Handled::Later => {
                self.progress.early.push_back(message);
                Ok(false)
            }
        }
    }

    /// Waits for the next message. When none comes, those who owe one are reminded, and looked for.
    fn wait(&mut self) -> Result<Message, Error> {
        loop {
            let message = self.comm.node().recv_timeout(self.wanted(), LOOK);
            if let Some(message) = message.map_err(|error| self.comm.explained(error))? {
                return Ok(message);
            }
            let lost = self.remind()?;
            if let Some(message) = self.comm.node().try_recv(self.wanted())? {
                return Ok(message);
            }
            if let Some(lost) = lost {
                return Err(lost);
            }
        }
    }

    /// Reminds all whom this rank waits for; returns the loss of one of them, or of any other rank: those
    /// in between may wait for that one.
    fn remind(&mut self) -> Result<Option<Error>, Error> {
        self.exchange.remind();
        let mut lost = self.comm.look().err();
        while let Some(outgoing) = self.exchange.poll() {
            let to = outgoing.to;
            if let Err(gone) = self.comm.check_alive(to) {
                lost.get_or_insert(gone);
                continue;
            }
            let body = [&outgoing.header.encode()[..], outgoing.payload].concat();
            let tag = self.comm.group.context.tag(Kind::Collective, 0);
            let sent = self.comm.node().send(self.comm.peer(to)?, tag, &body);
            sent.map_err(|error| self.comm.explained(error))?;
        }
        Ok(lost)
    }
}
