//! Runs one rank of a collective over the node.

use std::time::Duration;

use sabani_collective::execute::{Exchange, Fingerprint, Handled, Header, Kind as For, Mismatch};
use sabani_collective::execute::{Outgoing, Rejected, StepId};
use sabani_proto::Config;

use super::series::Progress;
use crate::comm::lives::LOOK;
use crate::comm::tag::Kind;
use crate::comm::{Comm, Error};
use crate::node::sends::have_left;
use crate::node::vain::Vain;
use crate::shared::State;
use crate::{Error as NodeError, Match, Message, PeerId, Sent};

/// How long a sender that finds no room waits for messages before it tries again.
const NO_ROOM: Duration = Duration::from_millis(1);
/// And so often, before it does without: what takes the room may be messages that are received only after the
/// collective.
const NO_ROOM_TIMES: u32 = 100;

/// One collective on its way.
pub struct Drive<'a, 'e> {
    pub comm: &'a Comm,
    pub progress: &'a mut Progress,
    pub fingerprint: Fingerprint,
    pub exchange: Exchange<'e>,
    /// What has not arrived, of what is to keep in step.
    pub under_way: Vec<UnderWay>,
}

/// A message that counts as sent when it has arrived.
pub struct UnderWay {
    to: usize,
    sent: Sent,
    step: StepId,
}

impl Drive<'_, '_> {
    /// Runs it to its end.
    ///
    /// # Errors
    /// [`Error::RankLost`], [`Error::Collective`] if ranks are in different ones, [`Error::Node`].
    pub fn run(mut self) -> Result<(), Error> {
        loop {
            self.send_all()?;
            if self.exchange.is_complete() {
                break;
            }
            if !self.hear()?
                && !self.take_early()?
                && let Some(message) = self.wait()?
            {
                self.take(message)?;
            }
        }
        self.progress.leave(self.fingerprint);
        self.see_off()
    }

    /// Nobody may call in for a while: what this rank has sent leaves before that, also what its receivers
    /// have to ask for. They will: they are in the same collective.
    fn see_off(&mut self) -> Result<(), Error> {
        let comm = self.comm;
        let explained = |error| comm.explained(error);
        comm.node().flush().map_err(explained)?;
        while let Some((receiver, long)) = self.progress.receivers.pop_first() {
            let peer = comm.peer(receiver)?;
            let node = comm.node();
            while !node.wait_left(peer, &long, LOOK).map_err(explained)? {
                comm.check_alive(receiver)?;
                self.hear_while_seeing_off(peer, &long)?;
            }
        }
        Ok(())
    }

    /// Takes a message while this one's own have not left. Their receiver does not ask for them for a while: it may be
    /// in something else, which only what it sends shows, and wait itself until that is asked for.
    fn hear_while_seeing_off(&mut self, to: PeerId, long: &[Sent]) -> Result<(), Error> {
        let comm = self.comm;
        let (context, series) = (comm.group.context, comm.series.number);
        let data = context.matching(Kind::Collective, series).from(to);
        let wanted = [data, context.matching(Kind::Ready, series)];
        let left = |state: &mut State| have_left(state, to, long);
        let message = comm.node().recv_one_of_unless(&wanted, LOOK, left);
        let Some(message) = message.map_err(|error| comm.explained(error))? else {
            return Ok(());
        };
        let (peer, header, _) = self.read(&message)?;
        let theirs = header.fingerprint;
        match self.progress.left(theirs.sequence) {
            Some(ours) if ours != theirs => {
                let mismatch = Box::new(self.mismatch(ours, peer, theirs));
                let why = Rejected::Mismatch(mismatch).to_string();
                Err(Error::Collective(why))
            }
            // A reminder that was not needed.
            Some(_) if header.kind == For::Ready => Ok(()),
            _ => {
                self.progress.early.push_back(message);
                Ok(())
            }
        }
    }

    /// Sends what is due.
    fn send_all(&mut self) -> Result<(), Error> {
        while let Some(outgoing) = self.exchange.poll() {
            let under_way = send(self.comm, self.progress, &outgoing)?;
            self.under_way.extend(under_way);
        }
        Ok(())
    }

    /// Tells what has arrived of what is to keep in step; whether anything has.
    fn hear(&mut self) -> Result<bool, Error> {
        let before = self.under_way.len();
        for mut one in std::mem::take(&mut self.under_way) {
            let arrived = one.sent.test();
            match arrived.map_err(|error| self.comm.explained(error))? {
                true => self.exchange.arrived(one.step),
                false => self.under_way.push(one),
            }
        }
        Ok(self.under_way.len() < before)
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

    /// A message's sender, and what it has.
    fn read<'m>(&self, message: &'m Message) -> Result<(usize, Header, &'m [u8]), Error> {
        let peer = self.comm.rank_of(message.source)?;
        let Some((header, payload)) = Header::decode(message.body()) else {
            return Err(Error::Collective(format!(
                "rank {peer} sends something of another version"
            )));
        };
        Ok((peer, header, payload))
    }

    /// Takes a message, or puts it aside; whether it was taken.
    fn take(&mut self, message: Message) -> Result<bool, Error> {
        let (peer, header, payload) = self.read(&message)?;
        let handled = match self.contradiction(peer, &header) {
            Some(mismatch) => Err(Rejected::Mismatch(Box::new(mismatch))),
            None => self.exchange.handle(peer, &header, payload),
        };
        match handled.map_err(|rejected| Error::Collective(rejected.to_string()))? {
            Handled::Taken => Ok(true),
            Handled::Early | Handled::Later => {
                self.progress.early.push_back(message);
                Ok(false)
            }
        }
    }

    /// A peer that still waits in what is over here, if it was something else here: then it waits in vain.
    fn contradiction(&self, peer: usize, header: &Header) -> Option<Mismatch> {
        let theirs = header.fingerprint;
        let ours = self.progress.left(theirs.sequence)?;
        (header.kind == For::Ready && ours != theirs).then(|| self.mismatch(ours, peer, theirs))
    }

    fn mismatch(&self, ours: Fingerprint, peer: usize, theirs: Fingerprint) -> Mismatch {
        Mismatch {
            rank: self.comm.rank(),
            ours,
            peer,
            theirs,
        }
    }

    /// Waits for the next message: of data from those who owe some, of other things from anybody; or until
    /// something has arrived elsewhere. When nothing happens, those who owe something are reminded, and looked for.
    fn wait(&mut self) -> Result<Option<Message>, Error> {
        let wanted = self.wanted()?;
        let (mut looks, mut vain) = (0_u32, Vain::default());
        loop {
            let message = self.receive(&wanted, LOOK)?;
            if message.is_some() || self.hear()? {
                return Ok(message);
            }
            let lost = self.any_lost();
            // Whoever has ended has waited until its last messages were here.
            let message = self.receive(&wanted, Duration::ZERO)?;
            if message.is_some() {
                return Ok(message);
            }
            if let Some(lost) = lost {
                return Err(lost);
            }
            self.comm.check_in_vain(&wanted, &mut vain)?;
            looks += 1;
            // It asks for each rank: where many wait for long, that need not be done for each look.
            if looks.is_power_of_two() && self.take_from_others()? {
                return Ok(None);
            }
            // Once is enough: a reminder arrives, too.
            if looks == 1 {
                self.exchange.remind();
                self.send_all()?;
                // What is waited for may have come while there was no room for the reminder, and lies there.
                if self.take_early()? {
                    return Ok(None);
                }
            }
        }
    }

    /// Looks at what has come from ranks whose turn it is not: one that is in something else may show by nothing else, when
    /// those that are waited for have forgotten what this rank is in. One message of each, for what is here but not
    /// taken holds back its sender. Whether it was of use.
    fn take_from_others(&mut self) -> Result<bool, Error> {
        let comm = self.comm;
        let data = comm.group.context;
        let data = data.matching(Kind::Collective, comm.series.number);
        let mut is_of_use = false;
        for rank in 0..comm.size() {
            let peer = comm.peer(rank)?;
            let is_known = |message: &Message| message.source == peer;
            if self.progress.early.iter().any(is_known) {
                continue;
            }
            let wanted = data.from(peer);
            let message = match comm.node().probe(wanted) {
                Ok(Some(envelope)) if envelope.complete => comm.node().try_recv(wanted),
                Ok(_) => Ok(None),
                Err(error) => Err(error),
            };
            if let Some(message) = message.map_err(|error| comm.explained(error))? {
                is_of_use |= self.take(message)?;
            }
        }
        Ok(is_of_use)
    }

    fn receive(&mut self, wanted: &[Match], timeout: Duration) -> Result<Option<Message>, Error> {
        let under_way = &mut self.under_way;
        let heard = |state: &mut State| under_way.iter_mut().any(|one| one.sent.is_known(state));
        let node = self.comm.node();
        let message = node.recv_one_of_unless(wanted, timeout, heard);
        message.map_err(|error| self.comm.explained(error))
    }

    fn wanted(&self) -> Result<Vec<Match>, Error> {
        let context = self.comm.group.context;
        let series = self.comm.series.number;
        let data = context.matching(Kind::Collective, series);
        let sources = self.exchange.sources();
        let data = sources.map(|source| Ok(data.from(self.comm.peer(source)?)));
        let ready = context.matching(Kind::Ready, series);
        data.chain([Ok(ready)]).collect()
    }

    /// The end of the communicator, or the loss of a rank that this one waits for.
    fn any_lost(&self) -> Option<Error> {
        let receivers = self.under_way.iter().map(|one| one.to);
        let mut peers = self.exchange.sources().chain(receivers);
        let ended = self.comm.look().err();
        ended.or_else(|| peers.find_map(|peer| self.comm.check_alive(peer).err()))
    }
}

/// Sends one message; what is to be waited for, if anything is.
fn send(
    comm: &Comm,
    progress: &mut Progress,
    outgoing: &Outgoing,
) -> Result<Option<UnderWay>, Error> {
    let explained = |error| comm.explained(error);
    let peer = comm.peer(outgoing.to)?;
    let kind = match outgoing.header.kind {
        For::Data => Kind::Collective,
        For::Ready => Kind::Ready,
    };
    let tag = comm.group.context.tag(kind, comm.series.number);
    let header = outgoing.header.encode();
    let bytes = header.len() + outgoing.payload.len();
    wait_for_room(comm, progress, outgoing.to, bytes)?;
    // From here on nothing waits: another thread may have taken the room, and a rank that waited for it would neither
    // take what comes nor look who has ended.
    let node = comm.node();
    let pieces = [&header[..], outgoing.payload];
    let long = progress.receivers.entry(outgoing.to).or_default();
    if let Some(step) = outgoing.in_step {
        let sent = node.send_gather_unbounded(peer, tag, &pieces);
        return Ok(Some(UnderWay {
            to: outgoing.to,
            sent: sent.map_err(explained)?,
            step,
        }));
    }
    // A node copies once more what it does not keep among its entries.
    let sent = if bytes > Config::INLINE_MAX {
        node.send_gather_followed(peer, tag, &pieces)
    } else {
        let buffer = &mut progress.buffer;
        buffer.clear();
        buffer.extend(header);
        buffer.extend(outgoing.payload);
        match node.try_send(peer, tag, buffer) {
            Ok(()) => return Ok(None),
            Err(NodeError::Full { .. }) => node.send_gather_unbounded(peer, tag, &pieces),
            Err(error) => Err(error),
        }
    };
    if long.len() == long.capacity() {
        node.forget_left(long).map_err(explained)?;
    }
    long.push(sent.map_err(explained)?);
    Ok(None)
}

/// Waits for room towards a rank, and takes what comes meanwhile: a peer that sends as well may have no room before
/// this rank has taken something. Not for long.
fn wait_for_room(
    comm: &Comm,
    progress: &mut Progress,
    to: usize,
    bytes: usize,
) -> Result<(), Error> {
    let explained = |error| comm.explained(error);
    let peer = comm.peer(to)?;
    let data = comm.group.context;
    let data = data.matching(Kind::Collective, comm.series.number);
    let mut in_vain = 0;
    while !comm.node().is_writable(peer, bytes).map_err(explained)? {
        let message = comm.node().recv_timeout(data, NO_ROOM);
        match message.map_err(explained)? {
            Some(message) => progress.early.push_back(message),
            None if in_vain == NO_ROOM_TIMES => break,
            None => {
                comm.check_alive(to)?;
                in_vain += 1;
            }
        }
    }
    Ok(())
}
