//! Collectives over the simulated network: each host is a rank, and runs its part of a schedule over
//! its node, whenever its process has a turn.

use std::collections::VecDeque;
use std::fmt;

use sabani_collective::execute::{Exchange, Handled, Header, Kind, Rejected, StepId};
use sabani_proto::{Match, Message, Node, PeerId, SendError, SendTicket, Undelivered};

use crate::traffic::Reading;
use crate::{HostId, Network};

/// The tags of a collective's messages: a rank's word that it is ready waits behind no data of others.
fn tag(kind: Kind) -> u64 {
    match kind {
        Kind::Data => 1 << 63,
        Kind::Ready => 1 << 63 | 1,
    }
}

/// Why a collective did not come to its end.
#[derive(Debug)]
pub enum Unfinished {
    /// The time is over: how many ranks were not done.
    Late(usize),
    /// A rank refused a message.
    Rejected(usize, Rejected),
    /// A rank could not send.
    Send(usize, SendError),
    /// A message of a rank was lost with a connection.
    Undelivered(usize, Undelivered),
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfinished::Late(ranks) => write!(f, "{ranks} ranks were not done in time"),
            Unfinished::Rejected(rank, why) => write!(f, "rank {rank}: {why}"),
            Unfinished::Send(rank, why) => write!(f, "rank {rank} can't send: {why}"),
            Unfinished::Undelivered(rank, why) => write!(f, "rank {rank} sends in vain: {why:?}"),
        }
    }
}

impl std::error::Error for Unfinished {}

/// One rank's part, between the node and the exchange.
struct Rank<'r, 'e> {
    rank: usize,
    exchange: &'r mut Exchange<'e>,
    /// What has come before its turn.
    early: VecDeque<Message>,
    /// What the node had no room for.
    held: Option<Held>,
    /// What has not arrived, of what is to keep in step.
    under_way: Vec<(SendTicket, StepId)>,
    done_ns: Option<u64>,
}

/// A message for which there was no room.
struct Held {
    to: PeerId,
    tag: u64,
    bytes: Vec<u8>,
    in_step: Option<StepId>,
}

/// What became of the messages that a rank had to send.
enum Sending {
    Nothing,
    /// They wait for a train to be full, or for the rank to have nothing else to do.
    Waits,
    /// The last one found nothing on its way to its peer, and leaves before anything else is done, as a real node's would.
    Leaves,
}

impl Network {
    /// Runs a collective: host `i` is rank `i`. All ranks begin now. Returns when each one was done,
    /// in nanoseconds of virtual time. The hosts' programs receive nothing from now on.
    ///
    /// # Errors
    /// If it has not come to its end within this time, or a rank has failed.
    pub fn run_collective(
        &mut self,
        ranks: &mut [Exchange],
        within_ns: u64,
    ) -> Result<Vec<u64>, Unfinished> {
        let until_ns = self.now_ns() + within_ns;
        let mut ranks: Vec<_> = ranks.iter_mut().enumerate().map(Rank::new).collect();
        let mut left = ranks.len();
        for rank in &mut ranks {
            self.host(rank.host()).program.reading = Reading::Nothing;
            left -= usize::from(self.advance(rank)?);
        }
        while left > 0 {
            let Some(host) = self.next_turn(until_ns) else {
                return Err(Unfinished::Late(left));
            };
            if let Some(rank) = ranks.get_mut(host.0 as usize)
                && rank.done_ns.is_none()
            {
                left -= usize::from(self.advance(rank)?);
            }
        }
        Ok(ranks.iter().filter_map(|rank| rank.done_ns).collect())
    }

    /// A rank does what it can; whether it is done.
    fn advance(&mut self, rank: &mut Rank) -> Result<bool, Unfinished> {
        let now_ns = self.now_ns();
        let host = self.host(rank.host());
        let clock_ns = host.clock.read(now_ns);
        let did = rank.advance(host.node(), clock_ns)?;
        if rank.exchange.is_complete() && rank.held.is_none() {
            rank.done_ns = Some(now_ns);
        }
        if did {
            self.kick(rank.host());
        }
        Ok(rank.done_ns.is_some())
    }
}

impl<'r, 'e> Rank<'r, 'e> {
    fn new((rank, exchange): (usize, &'r mut Exchange<'e>)) -> Self {
        Rank {
            rank,
            exchange,
            early: VecDeque::new(),
            held: None,
            under_way: Vec::new(),
            done_ns: None,
        }
    }

    fn host(&self) -> HostId {
        HostId(self.rank as u32)
    }

    /// Sends and receives until nothing is left to do, or something has to leave first; whether there was anything.
    fn advance(&mut self, node: &mut Node, clock_ns: u64) -> Result<bool, Unfinished> {
        let mut did = false;
        loop {
            let sent = match self.send(node, clock_ns)? {
                Sending::Leaves => return Ok(true),
                Sending::Waits => true,
                Sending::Nothing => false,
            };
            let heard = self.hear(node)?;
            let took = self.take_early()? || self.receive(node)?;
            if !sent && !heard && !took {
                return Ok(did);
            }
            did = true;
        }
    }

    fn send(&mut self, node: &mut Node, clock_ns: u64) -> Result<Sending, Unfinished> {
        let mut did = Sending::Nothing;
        loop {
            if self.held.is_none() {
                let Some(outgoing) = self.exchange.poll() else {
                    return Ok(did);
                };
                let bytes = [&outgoing.header.encode()[..], outgoing.payload].concat();
                self.held = Some(Held {
                    to: PeerId(outgoing.to as u32),
                    tag: tag(outgoing.header.kind),
                    bytes,
                    in_step: outgoing.in_step,
                });
            }
            let Some(Held {
                to,
                tag,
                bytes,
                in_step,
            }) = &self.held
            else {
                return Ok(did);
            };
            let idle = node.waiting(*to).idle;
            match node.send_copy(clock_ns, *to, *tag, bytes, in_step.is_some()) {
                Ok(ticket) => {
                    self.under_way.extend(ticket.zip(*in_step));
                    self.held = None;
                }
                Err(SendError::Full { .. }) => return Ok(did),
                Err(why) => return Err(Unfinished::Send(self.rank, why)),
            }
            if idle {
                return Ok(Sending::Leaves);
            }
            did = Sending::Waits;
        }
    }

    /// Tells what has arrived of what is to keep in step; whether anything has.
    fn hear(&mut self, node: &mut Node) -> Result<bool, Unfinished> {
        let before = self.under_way.len();
        for (ticket, step) in std::mem::take(&mut self.under_way) {
            match node.take_sent(ticket) {
                None => self.under_way.push((ticket, step)),
                Some(Ok(())) => self.exchange.arrived(step),
                Some(Err(why)) => return Err(Unfinished::Undelivered(self.rank, why)),
            }
        }
        Ok(self.under_way.len() < before)
    }

    /// Takes the messages that have come, data from those who owe some; whether one was what this rank waits for.
    fn receive(&mut self, node: &mut Node) -> Result<bool, Unfinished> {
        while let Some(message) = self.next_message(node) {
            if self.take(message)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn next_message(&self, node: &mut Node) -> Option<Message> {
        let of = |kind| Match::any().tag(tag(kind));
        let mut owed = self.exchange.sources();
        let data = owed.find_map(|rank| node.try_take(&of(Kind::Data).from(PeerId(rank as u32))));
        let found = data.or_else(|| node.try_take(&of(Kind::Ready)));
        // What is not awaited yet may fill the memory that a peer waits for, which would else take what this rank sends.
        match self.held {
            Some(_) => found.or_else(|| node.try_take(&of(Kind::Data))),
            None => found,
        }
    }

    /// Takes one of the messages that came too early, if its turn has come.
    fn take_early(&mut self) -> Result<bool, Unfinished> {
        for _ in 0..self.early.len() {
            if let Some(message) = self.early.pop_front()
                && self.take(message)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn take(&mut self, message: Message) -> Result<bool, Unfinished> {
        let peer = message.source.0 as usize;
        let (header, payload) = Header::decode(message.body()).expect("ranks send headers");
        let handled = self.exchange.handle(peer, &header, payload);
        match handled.map_err(|why| Unfinished::Rejected(self.rank, why))? {
            Handled::Taken => Ok(true),
            Handled::Early | Handled::Later => {
                self.early.push_back(message);
                Ok(false)
            }
        }
    }
}
