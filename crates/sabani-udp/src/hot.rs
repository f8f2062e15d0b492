//! A connected socket of its own for the one peer that a quiet socket talks to.
//!
//! On a connected socket the kernel looks up no route and no receiver: half a round trip of a small
//! datagram takes some 0.4 µs less. The hot socket shares the main one's port, so that the peer sees no
//! difference, and the main one goes on serving everybody else. It is a shortcut only: whatever does not
//! work on it goes the ordinary way, and without it nothing is missing but time.

use crate::receive::Told;
use crate::setup;
use crate::sys;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;

/// Receiving calls in a row that bring something of one peer alone, which makes the peer hot. It takes
/// some 30 µs.
const HOT_AFTER: u32 = 256;
/// After each time in a row that no hot socket could be opened it takes twice as many, this often at most:
/// descriptors or memory may be short for a while, or for good. Then it is tried once in a million calls.
const DOUBLINGS: u32 = 12;
/// Buffers in a row that came for the main socket before the peer counts as hot no more.
const COLD_AFTER: u32 = 1_024;
/// Large datagrams after which trains are received coalesced. Until then nothing need be told beside a
/// datagram. There is no way back: what is coalesced when that ends would be taken for one datagram.
const COALESCE_AFTER: u32 = 8;
/// Empty looks at the hot socket for each look at the main one.
const LOOKS: u32 = 4;
/// Buffers in a row that the hot socket may fill before the main one has its turn.
const TURNS: u32 = 32;
/// Sends in a row without an answer of which the last goes the ordinary way: a connected socket may go on
/// sending from an address that is gone, and does not tell.
const UNANSWERED: u32 = 8;
/// The same of trains, of which more leave before an answer comes.
const UNANSWERED_TRAINS: u32 = 32;
/// Trains of one size in a row after which the kernel is told once and for all how to cut them, and no more with each: that takes two
/// calls, to begin and to end, and saves 0.15 µs of each train.
const CUT_AFTER: u32 = 8;
/// Buffers that may still come of the main socket first when a hot one has been opened: what was sent
/// before must not be overtaken.
const BEFORE: u32 = 512;

/// The two ends of what has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub peer: SocketAddr,
    /// The local address, where the main socket reports it.
    pub local: Option<IpAddr>,
}

/// The hot socket.
#[derive(Debug)]
pub(crate) struct Hot {
    pub socket: Arc<UdpSocket>,
    pub ends: Ends,
    /// Empty looks since the main socket was looked at.
    looks: u32,
    /// Looks that found something since then.
    turns: u32,
    /// Sends since something came here.
    sends: u32,
    /// Buffers of the main socket that come first, unless it is found empty.
    before: u32,
    /// Buffers that came for the main socket since the last one here.
    elsewhere: u32,
    /// Large datagrams so far, while trains are not coalesced.
    large: u32,
    coalesced: bool,
    /// Datagrams into which the kernel cuts what is sent, in bytes; 0: none.
    cut: u16,
    /// Datagrams of the last train, in bytes, and trains of such in a row.
    segment: u16,
    trains: u32,
    /// It has been found empty: what came before it was connected, from anybody, is gone.
    emptied: bool,
}

impl Hot {
    fn new(socket: UdpSocket, ends: Ends) -> Self {
        Hot {
            socket: Arc::new(socket),
            ends,
            looks: 0,
            turns: 0,
            sends: 0,
            before: BEFORE,
            elsewhere: 0,
            large: 0,
            coalesced: false,
            cut: 0,
            segment: 0,
            trains: 0,
            emptied: false,
        }
    }

    /// Something has come.
    #[inline]
    pub fn note_filled(&mut self, large: bool, gro: bool) {
        self.elsewhere = 0;
        self.sends = 0;
        self.turns += 1;
        if large && gro && !self.coalesced {
            self.note_large();
        }
    }

    fn note_large(&mut self) {
        self.large += 1;
        if self.large >= COALESCE_AFTER {
            self.coalesce();
        }
    }

    /// Has trains arrive coalesced from now on.
    pub fn coalesce(&mut self) {
        self.coalesced = setup::coalesce(self.socket.as_fd()).is_ok();
    }

    /// What the kernel is to be asked for beside what has come.
    #[inline]
    pub fn told(&self) -> Told<'_> {
        if self.coalesced || !self.emptied {
            Told::AllHere(&self.ends)
        } else {
            Told::Nothing(&self.ends)
        }
    }

    /// Next time both are looked at, the hot one first.
    pub fn look_at_both(&mut self) {
        self.looks = LOOKS - 1;
        self.turns = 0;
    }

    /// Whether the main socket must have its turn first: so much has come here, or what waits there may
    /// be older.
    #[inline]
    pub fn stands_back(&mut self) -> bool {
        if self.before > 0 {
            self.before -= 1;
            return true;
        }
        let enough = self.turns >= TURNS;
        if enough {
            self.turns = 0;
        }
        enough
    }

    /// The main socket holds nothing of what came before this one was opened.
    #[inline]
    pub fn note_main_empty(&mut self) {
        self.before = 0;
    }

    /// Nothing has come: whether it is the main socket's turn.
    #[inline]
    pub fn yields(&mut self) -> bool {
        self.emptied = true;
        self.looks = (self.looks + 1) % LOOKS;
        self.looks == 0
    }

    /// Leaves the peer to the main socket before it is closed: a forked child may have this one, too, and
    /// what it never reads would go there. A socket that is connected to another port takes nothing of the
    /// peer's; one that is not connected might take everything.
    fn let_go(self) {
        let elsewhere = self.socket.peer_addr().map(|mut peer| {
            peer.set_port(if peer.port() == 1 { 2 } else { 1 });
            peer
        });
        if let Err(error) = elsewhere.and_then(|to| self.socket.connect(to)) {
            tracing::debug!(%error, "a hot peer's socket was not disconnected");
        }
    }

    fn drops(&self) -> u64 {
        sys::drops(self.socket.as_fd()).map_or(0, u64::from)
    }

    /// Something is to be sent, one datagram `alone` or a train: whether it had better go the ordinary way.
    #[inline]
    pub fn is_doubtful(&mut self, alone: bool) -> bool {
        self.sends += 1;
        let most = if alone { UNANSWERED } else { UNANSWERED_TRAINS };
        let is_doubtful = self.sends >= most;
        if is_doubtful {
            self.sends = 0;
        }
        is_doubtful
    }

    /// Something is to be sent: whether the kernel knows how to cut it, into datagrams of so many bytes or, with 0, not at all. It
    /// must not stay told for longer than trains follow each other: what goes alone would be laid out like them, for more.
    #[inline]
    pub fn knows_cut(&mut self, segment: u16) -> bool {
        let goes_on = segment == std::mem::replace(&mut self.segment, segment);
        self.trains = if goes_on {
            self.trains.saturating_add(1)
        } else {
            1
        };
        segment == self.cut || self.tell_cut(segment)
    }

    #[cold]
    fn tell_cut(&mut self, segment: u16) -> bool {
        let tells = segment == 0 || self.trains >= CUT_AFTER;
        let told = tells && setup::cut(self.socket.as_fd(), segment).is_ok();
        if told {
            self.cut = segment;
        }
        told
    }

    /// Whether it leads to the same two ends. Without a local address any will do.
    pub fn serves(&self, to: SocketAddr, from: Option<IpAddr>) -> bool {
        self.ends.peer == to && (from.is_none() || from == self.ends.local)
    }
}

/// Finds out which peer is hot.
#[derive(Debug, Default)]
pub(crate) struct Thermometer {
    last: Option<Ends>,
    in_a_row: u32,
    /// Times in a row that no hot socket could be opened, as far as they count.
    failures: u32,
    /// No hot peers are wanted.
    off: bool,
    /// What the kernel dropped on the way into hot sockets of the past.
    past_drops: u64,
}

impl Thermometer {
    /// `on`: hot peers are wanted.
    pub fn new(on: bool) -> Self {
        Self {
            off: !on,
            ..Self::default()
        }
    }

    /// No peer is hot any more.
    pub fn switch_off(&mut self, hot: &mut Option<Hot>) {
        self.off = true;
        self.close(hot);
    }

    /// Closes the hot socket if it is bound to a local address that is gone.
    #[cold]
    pub fn leave(&mut self, local: IpAddr, hot: &mut Option<Hot>) {
        let bound = hot.as_ref().and_then(|hot| hot.ends.local);
        if bound == Some(local) {
            self.close(hot);
        }
    }

    fn close(&mut self, hot: &mut Option<Hot>) {
        self.past_drops = self.drops(hot);
        if let Some(hot) = hot.take() {
            hot.let_go();
        }
    }

    /// What the kernel has dropped on the way into hot sockets.
    pub fn drops(&self, hot: &Option<Hot>) -> u64 {
        self.past_drops + hot.as_ref().map_or(0, Hot::drops)
    }

    /// Notes what came for the main socket: `ends` are those of all that one call has brought, if they are
    /// the same. Opens or closes the hot socket where that calls for it; returns whether it was opened.
    pub fn note(
        &mut self,
        ends: Option<Ends>,
        filled: usize,
        main: &UdpSocket,
        hot: &mut Option<Hot>,
    ) -> bool {
        if let Some(open) = hot {
            open.elsewhere += filled as u32;
            if open.elsewhere >= COLD_AFTER {
                self.close(hot);
            }
        }
        self.in_a_row = match ends {
            Some(_) if ends == self.last => self.in_a_row + 1,
            _ => 0,
        };
        self.last = ends;
        if let Some(ends) = ends
            && self.in_a_row >= HOT_AFTER << self.failures
            && hot.is_none()
            && !self.off
        {
            self.in_a_row = 0;
            *hot = self.open(main, ends);
            return hot.is_some();
        }
        false
    }

    #[cold]
    fn open(&mut self, main: &UdpSocket, ends: Ends) -> Option<Hot> {
        let opened = setup::open_beside(main, ends.peer, ends.local);
        self.failures = match opened {
            Ok(_) => 0,
            Err(_) => (self.failures + 1).min(DOUBLINGS),
        };
        log(ends.peer, opened.as_ref().err());
        Some(Hot::new(opened.ok()?, ends))
    }
}

fn log(peer: SocketAddr, error: Option<&io::Error>) {
    match error {
        None => tracing::debug!(%peer, "a socket of its own for a hot peer"),
        Some(error) => tracing::debug!(%peer, %error, "no socket of its own for a hot peer"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "opens sockets")]
    fn what_can_not_be_opened_is_tried_again_ever_more_seldom() {
        let main = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let ends = |peer: &str| {
            let (peer, local) = (peer.parse().unwrap(), None);
            Some(Ends { peer, local })
        };
        // No socket is connected to all hosts unless it says that it means that.
        let (refused, usual) = (ends("255.255.255.255:9"), ends("127.0.0.1:9"));
        let (mut thermometer, mut hot) = (Thermometer::new(true), None);
        let mut failures = 0;
        for _ in 0..100_000 {
            assert!(!thermometer.note(refused, 1, &main, &mut hot));
            failures = thermometer.failures;
        }
        assert!((5..10).contains(&failures), "{failures}");
        let opened = (0..100_000).any(|_| thermometer.note(usual, 1, &main, &mut hot));
        assert!(opened && hot.is_some());
        assert_eq!(thermometer.failures, 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "opens a socket")]
    fn the_kernel_knows_how_to_cut_trains_that_follow_each_other() {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let peer = socket.local_addr().unwrap();
        let mut hot = Hot::new(socket, Ends { peer, local: None });
        let mut known = |segment, times| {
            let known = (0..times).map(|_| hot.knows_cut(segment));
            known.filter(|known| *known).count() as u32
        };
        assert_eq!(known(1_400, 2 * CUT_AFTER), CUT_AFTER + 1);
        assert_eq!(known(0, 3), 3);
        assert_eq!(known(1_400, CUT_AFTER - 1), 0);
        assert_eq!(known(0, 1), 1);
        assert_eq!(known(1_400, CUT_AFTER), 1);
        assert_eq!(known(1_000, CUT_AFTER - 1), 0);
        assert_eq!(known(1_400, 1), 1, "it is still told");
        assert_eq!(known(1_000, CUT_AFTER), 1);
    }

    #[test]
    #[cfg_attr(miri, ignore = "opens a socket")]
    fn senders_are_told_until_the_socket_has_been_empty_and_while_trains_are_coalesced() {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let peer = socket.local_addr().unwrap();
        let ends = Ends { peer, local: None };
        let mut hot = Hot::new(socket, ends);
        hot.note_filled(false, true);
        assert_eq!(hot.told(), Told::AllHere(&ends));
        hot.yields();
        assert_eq!(hot.told(), Told::Nothing(&ends));
        for _ in 0..COALESCE_AFTER {
            hot.note_filled(true, true);
        }
        assert_eq!(hot.told(), Told::AllHere(&ends));
    }
}
