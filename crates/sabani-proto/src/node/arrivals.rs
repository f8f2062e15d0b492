//! Packets of one connection that arrived together: opened one by one, and noted by runs where
//! they carry a long body.

use std::slice;

use super::Opened;
use super::hub::Hub;
use super::session::Session;
use crate::PeerId;
use crate::channel::{Arrival, Data, Owed};
use crate::error::PeerLost;
use crate::message::{Inbox, Landing, LinkRef, Mailbox, Outgoing};
use crate::seal::Opening;
use crate::stats::Dropped;
use crate::wire::{ConnectionId, Fragment, Kind, Prelude};

/// Datagrams that arrived together, all of one size but the last.
pub(crate) struct Batch<'a> {
    rest: &'a mut [u8],
    segment: usize,
    openings: slice::Iter<'a, Opening>,
    /// A switch has marked them all: congestion experienced.
    pub marked: bool,
}

impl<'a> Batch<'a> {
    pub fn new(datagrams: Opened<'a>, marked: bool) -> Self {
        Batch {
            rest: datagrams.bytes,
            segment: datagrams.segment.max(1),
            openings: datagrams.openings.iter(),
            marked,
        }
    }

    /// Whether there are no more.
    #[inline]
    fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes the next packet if it is on this connection.
    #[inline]
    fn next_of(&mut self, connection: ConnectionId) -> Option<Packet<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let front = &self.rest[..self.segment.min(self.rest.len())];
        let (prelude, _) = Prelude::parse(front).ok()?;
        let follows = prelude.kind == Kind::Data && prelude.connection == connection;
        let (datagram, opening) = follows.then(|| self.next())??;
        Some(Packet {
            prelude,
            datagram,
            opening,
        })
    }
}

impl<'a> Iterator for Batch<'a> {
    type Item = (&'a mut [u8], Opening);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.rest);
        let (datagram, rest) = rest.split_at_mut(self.segment.min(rest.len()));
        self.rest = rest;
        let opening = self.openings.next().copied().unwrap_or(Opening::Sealed);
        (!datagram.is_empty()).then_some((datagram, opening))
    }
}

/// A datagram with what its prelude says.
pub(crate) struct Packet<'a> {
    pub prelude: Prelude,
    pub datagram: &'a mut [u8],
    pub opening: Opening,
}

/// Where and when packets came from.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    pub peer: PeerId,
    pub link: LinkRef,
    pub now_ns: u64,
    /// A switch has marked them all: congestion experienced.
    pub marked: bool,
}

impl Origin {
    #[inline]
    pub fn inbox<'a>(&self, mailbox: &'a mut Mailbox) -> Inbox<'a> {
        Inbox {
            mailbox,
            source: self.peer,
            link: self.link,
        }
    }
}

/// Packets in a row, each with nothing but a piece of one body, in a row too: put to their place,
/// and not noted yet.
struct Run {
    owed: Owed,
    landing: Landing,
    data: Data,
}

impl Session {
    /// Takes in `first`, and the packets behind it in `batch` that are of the same connection;
    /// returns whether the peer has closed.
    pub fn on_packets<'a>(
        &mut self,
        outgoing: &mut Outgoing,
        first: Packet<'a>,
        batch: &mut Batch<'a>,
        origin: Origin,
        hub: &mut Hub,
        dropped: &mut Dropped,
    ) -> Result<bool, PeerLost> {
        let epoch = self.rx.epoch();
        let taken = self.take_in(outgoing, first, batch, origin, hub, dropped);
        if self.rx.epoch() != epoch {
            hub.keys.set(self.local, &self.rx);
        }
        taken
    }

    fn take_in<'a>(
        &mut self,
        outgoing: &mut Outgoing,
        first: Packet<'a>,
        batch: &mut Batch<'a>,
        origin: Origin,
        hub: &mut Hub,
        dropped: &mut Dropped,
    ) -> Result<bool, PeerLost> {
        let connection = first.prelude.connection;
        let (mut first, mut run) = (Some(first), None);
        while let Some(packet) = first.take().or_else(|| batch.next_of(connection)) {
            let Some((owed, payload)) = self.open(packet, origin.now_ns, dropped) else {
                continue;
            };
            if origin.marked {
                self.channel.received.on_mark();
            }
            let fragment = Fragment::alone(payload);
            if let (Some(run), Some(fragment)) = (&mut run, &fragment)
                && self.extend(run, &owed, fragment)
            {
                continue;
            }
            if let Some(run) = run.take() {
                self.settle_run(&run, origin, hub)?;
            }
            let Some(fragment) = fragment else {
                if self.on_payload(outgoing, payload, &owed, batch.is_over(), origin, hub)? {
                    return Ok(true);
                }
                continue;
            };
            let inbox = &mut origin.inbox(&mut hub.mailbox);
            let landing = self.incoming.land(&fragment, inbox)?;
            let data = Data::of(fragment.total);
            run = Some(Run {
                owed,
                landing,
                data,
            });
        }
        if let Some(run) = run {
            self.settle_run(&run, origin, hub)?;
        }
        Ok(false)
    }

    /// Opens a packet in place, unless that has been done, or it is a replay or forged, and records its number.
    #[inline]
    fn open<'a>(
        &mut self,
        packet: Packet<'a>,
        now_ns: u64,
        dropped: &mut Dropped,
    ) -> Option<(Owed, &'a [u8])> {
        let Packet {
            prelude,
            datagram,
            opening,
        } = packet;
        let received = &mut self.channel.received;
        if received.packets.contains(prelude.packet_number) {
            dropped.replayed += 1;
            return None;
        }
        let bytes = datagram.len();
        let (head, sealed) = datagram.split_at_mut(Prelude::LEN);
        let opened = self.rx.go_on(opening, prelude.packet_number, head, sealed);
        let Ok(payload) = opened else {
            dropped.forged += 1;
            return None;
        };
        self.channel.last_heard_ns = now_ns;
        self.counters.packets_received += 1;
        self.counters.bytes_received += bytes as u64;
        Some((received.on_packet(&prelude, bytes, now_ns), payload))
    }

    /// Adds a packet to the run if it is the next.
    #[inline]
    fn extend(&mut self, run: &mut Run, owed: &Owed, fragment: &Fragment<'_>) -> bool {
        let extends = owed.arrival == Arrival::Next
            && owed.bytes == run.owed.bytes
            && self.incoming.follow(&mut run.landing, fragment);
        if extends {
            run.owed.packets += 1;
            run.owed.says |= owed.says;
        }
        extends
    }

    /// Takes note of what a run carried, and of what is owed for it.
    #[inline]
    fn settle_run(&mut self, run: &Run, origin: Origin, hub: &mut Hub) -> Result<(), PeerLost> {
        let inbox = &mut origin.inbox(&mut hub.mailbox);
        self.incoming.settle(&run.landing, inbox)?;
        self.channel.received.note_data(run.data);
        self.channel.received.owe(&run.owed, origin.now_ns);
        Ok(())
    }
}
