//! The lowest layer: gives trains to the socket, and takes what comes from it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use sabani_proto::seal::Opening;
use sabani_proto::{KeyNews, Keyring, Node, Obstacle, Transmit, Unsent};
use sabani_ring::Recycle;
use sabani_udp::{
    Ecn, HintKind, IcmpHint, MAX_TRAIN_BYTES, Received, RecvBatch, SendOutcome, Socket, Train,
    Waker,
};

use super::Clock;
use super::pause::Pause;
use super::uplink::{self, Uplink};

/// Trains of one sending call, and bytes that are not kept waiting for more of them: the peer takes
/// them in while the next are built.
const SEND_TRAINS: usize = 32;
const SEND_BYTES: usize = 16 << 10;
/// A load of no more than this is little.
const LITTLE_BYTES: usize = 8 << 10;
const LITTLE_TRAINS: usize = 4;
/// Buffers of one receiving call.
const RECV_BUFFERS: usize = 16;

/// A look at the socket that took longer was interrupted: what has come since is not known.
const INTERRUPTED_NS: u64 = 50_000;
/// After the system had no buffers, it is asked again so much later: the socket does not tell when.
const PAUSE_NS: u64 = 250_000;
/// A train that the system has no buffers for so long is lost. It is more than a full device queue:
/// some virtual devices refuse for ever, with this very error, what the far end does not take.
const REFUSED_NS: u64 = 20_000_000;

/// Trains that leave with one sending call, and what the seal's layer must hear of keys.
#[derive(Debug)]
pub(crate) struct Load {
    bytes: Box<[u8]>,
    /// Each with where it begins.
    trains: Vec<(usize, Transmit)>,
    key_news: Vec<KeyNews>,
    /// How many trains the socket is done with.
    settled: usize,
    /// It has been offered to the socket, which may have had no room.
    offered: bool,
}

impl Load {
    pub fn new() -> Self {
        Load {
            bytes: vec![0; SEND_BYTES + MAX_TRAIN_BYTES].into(),
            trains: Vec::with_capacity(SEND_TRAINS),
            key_news: Vec::new(),
            settled: 0,
            offered: false,
        }
    }

    /// Fills it anew with what may leave now; `false` if that is nothing.
    #[inline]
    pub fn fill(&mut self, node: &mut Node, now_ns: u64) -> bool {
        self.trains.clear();
        self.settled = 0;
        self.offered = false;
        node.take_key_news(&mut self.key_news);
        let mut used = 0;
        while used < SEND_BYTES && self.trains.len() < SEND_TRAINS && node.has_queued() {
            let room = &mut self.bytes[used..used + MAX_TRAIN_BYTES];
            let Some(train) = node.poll_transmit(now_ns, room) else {
                break;
            };
            let at = used;
            used += train.bytes;
            self.trains.push((at, train));
        }
        !self.trains.is_empty() || !self.key_news.is_empty()
    }

    /// Hands over what was told of keys.
    pub fn hand_keys_to(&mut self, keyring: &mut Keyring) {
        self.key_news.drain(..).for_each(|news| keyring.hear(news));
    }

    /// Seals what is not sealed.
    pub fn seal(&mut self) {
        for (at, train) in &mut self.trains {
            if let Some(unsealed) = train.unsealed.take() {
                unsealed.seal(&mut self.bytes[*at..*at + train.bytes], train.segment);
            }
        }
    }

    /// Whether it is so little that a call for it takes hardly longer than to hand it to another thread.
    #[inline]
    pub fn is_little(&self) -> bool {
        let bytes = self.trains.iter().map(|(_, train)| train.bytes);
        self.trains.len() <= LITTLE_TRAINS && bytes.sum::<usize>() <= LITTLE_BYTES
    }

    /// Whether the socket is done with all of it.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.settled == self.trains.len()
    }

    /// Bytes for other hosts in so many trains, and in the front of the one behind them.
    fn away_bytes(&self, trains: usize, part: usize) -> u64 {
        let waits = &self.trains[self.settled..];
        let whole = waits
            .iter()
            .take(trains)
            .map(|(_, train)| (train, train.bytes));
        let front = waits.get(trains).map(|(_, train)| (train, part));
        let away = whole.chain(front).filter(|(train, _)| !train.stays_here);
        away.map(|(_, bytes)| bytes as u64).sum()
    }

    fn train(&self, (at, transmit): &(usize, Transmit)) -> Train<'_> {
        Train {
            to: transmit.to,
            from: transmit.from,
            segment: transmit.segment,
            ecn: match transmit.ecn {
                true => Ecn::Capable,
                false => Ecn::NotCapable,
            },
            express: transmit.express,
            bytes: &self.bytes[*at..at + transmit.bytes],
        }
    }

    /// The socket is done with so many more trains, and with the front of the one behind them.
    #[inline]
    fn settle(&mut self, trains: usize, part: usize) {
        self.settled += trains;
        if let Some((at, transmit)) = self.trains.get_mut(self.settled) {
            *at += part;
            transmit.bytes -= part;
        }
    }
}

impl Recycle for Load {
    /// Keys go as soon as they are of no use.
    fn recycle(&mut self) {
        self.trains.clear();
        self.key_news.clear();
    }
}

/// What one receiving call brings, and what has been done about its seals.
#[derive(Debug)]
pub(crate) struct Arrivals {
    pub batch: RecvBatch,
    /// Of each datagram of each buffer; none if the seal has no layer of its own.
    openings: Vec<Opening>,
}

impl Arrivals {
    pub fn new() -> Self {
        Arrivals {
            batch: RecvBatch::new(RECV_BUFFERS),
            openings: Vec::new(),
        }
    }

    /// Opens what there are keys for.
    pub fn open(&mut self, keyring: &Keyring) {
        self.openings.clear();
        for Received { bytes, segment, .. } in self.batch.received() {
            keyring.open(bytes, segment, &mut self.openings);
        }
    }

    /// What has come, buffer by buffer, and what has been done about its seals.
    #[inline]
    pub fn received(&mut self) -> impl Iterator<Item = (Received<'_>, &[Opening])> {
        let mut openings = &self.openings[..];
        self.batch.received().map(move |received| {
            if openings.is_empty() {
                return (received, openings);
            }
            let datagrams = received.bytes.len().div_ceil(received.segment);
            let (these, others) = openings.split_at(datagrams.min(openings.len()));
            openings = others;
            (received, these)
        })
    }
}

impl Recycle for Arrivals {}

/// What a look at the socket has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Datagrams.
    Filled,
    /// Nothing, for the first time since something came: all of it has been taken out.
    Emptied,
    Nothing,
}

/// What the layers above must hear.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Report {
    /// The interface takes no datagrams of this length.
    TooBig { to: SocketAddr, bytes: usize },
    /// ICMP or the system itself says that nothing gets there.
    Unreachable { to: SocketAddr, obstacle: Obstacle },
    /// This local address is not the machine's any more.
    SourceGone { local: IpAddr },
    /// What waited for the host's own link before a sending call and behind it.
    Unsent([Unsent; 2]),
}

/// The system has no buffers.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    since_ns: u64,
    retry_ns: u64,
}

/// The lowest layer.
#[derive(Debug)]
pub(crate) struct Datagrams {
    pub socket: Socket,
    pub reports: Vec<Report>,
    refusal: Option<Refusal>,
    pub uplink: Uplink,
    /// Something has come since the socket was last found empty.
    unsettled: bool,
    pub pause: Pause,
    hints: Vec<IcmpHint>,
    /// Trains of the last sending call that did not simply leave.
    trouble: Vec<(usize, SendOutcome)>,
}

impl Datagrams {
    pub fn new(socket: Socket) -> Self {
        Datagrams {
            socket,
            reports: Vec::new(),
            refusal: None,
            uplink: Uplink::default(),
            unsettled: false,
            pause: Pause::default(),
            hints: Vec::new(),
            trouble: Vec::new(),
        }
    }

    /// Whether the layers above have something to hear.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.uplink.news.is_some() || !self.reports.is_empty()
    }

    /// What waits for the host's own link, if that is new.
    #[inline]
    pub fn take_unsent(&mut self) -> Option<Report> {
        self.uplink.news.take().map(Report::Unsent)
    }

    /// When the system is to be asked again, if it had no buffers.
    pub fn retry_ns(&self) -> Option<u64> {
        self.refusal.map(|refusal| refusal.retry_ns)
    }

    /// Makes sure that what waits in the socket is found by the next look.
    pub fn look_everywhere(&mut self) {
        self.pause.end();
        self.socket.look_everywhere();
    }

    /// The socket, for others who watch it: what it holds is taken out as soon as they ask for it, all through one
    /// descriptor.
    pub fn watched(&mut self) -> &Socket {
        self.pause.switch_off();
        self.socket.keep_together();
        &self.socket
    }

    /// Takes what one receiving call brings, and reads the clock if that is anything.
    #[inline]
    pub fn receive(&mut self, batch: &mut RecvBatch, clock: &mut Clock) -> Look {
        if self.pause.lasts(clock) {
            return Look::Nothing;
        }
        let filled = self.socket.recv(batch);
        self.take_hints();
        match filled {
            Ok(0) => return self.found_empty(clock),
            Ok(_) => {}
            Err(error) => {
                tracing::error!(%error, "receiving failed");
                return Look::Nothing;
            }
        }
        clock.read();
        self.unsettled = true;
        self.pause.on_taken(batch.bytes());
        Look::Filled
    }

    #[inline]
    fn found_empty(&mut self, clock: &mut Clock) -> Look {
        if self.unsettled {
            let looked_ns = clock.now_ns;
            self.pause.on_empty(clock.read());
            if clock.now_ns < looked_ns + INTERRUPTED_NS {
                self.unsettled = false;
                return Look::Emptied;
            }
        }
        Look::Nothing
    }

    /// Passes on what ICMP said. A router's word on the MTU is forgeable: the path's own probes
    /// decide.
    #[inline]
    pub fn take_hints(&mut self) {
        self.socket.take_icmp_hints(&mut self.hints);
        for hint in self.hints.drain(..) {
            if let HintKind::Unreachable(errno) = hint.kind {
                let (to, obstacle) = (hint.to, Obstacle::Network(errno));
                self.reports.push(Report::Unreachable { to, obstacle });
            }
        }
    }

    /// Offers what is left of a load; returns whether the socket is done with all of it.
    #[inline]
    pub fn send(&mut self, load: &mut Load, clock: &mut Clock) -> bool {
        if load.is_settled() {
            return true;
        }
        let now_ns = clock.now_ns;
        if self.retry_ns().is_some_and(|retry_ns| now_ns < retry_ns) {
            return false;
        }
        // Not each time that there is no room, which would be work without end.
        let asks = !std::mem::replace(&mut load.offered, true) && self.uplink.is_due(now_ns);
        let before = asks.then(|| self.look(clock));
        let taken = self.offer(load);
        let part = self.taken_part();
        if let Some(before) = before {
            let behind = self.look(clock);
            self.uplink
                .on_call(before, behind, load.away_bytes(taken, part));
        }
        self.note_refusal(taken + part > 0, now_ns);
        self.report_trouble(load);
        load.settle(taken, part);
        self.give_up_refused(load, now_ns);
        load.is_settled()
    }

    /// Seals and sends a load while nothing waits for the host's own link: what another thread has sent may wait in another queue of the
    /// card. Where that is of no avail, the other thread goes on with it; returns whether the socket is done with all of it.
    #[inline]
    pub fn send_alone(&mut self, load: &mut Load, clock: &mut Clock) -> bool {
        if self.socket.unsent_bytes() > 0 {
            return false;
        }
        self.refusal = None;
        load.seal();
        self.send(load, clock)
    }

    /// The first thing that is still to be heard above.
    pub fn next_report(&mut self) -> Option<Report> {
        (!self.reports.is_empty()).then(|| self.reports.remove(0))
    }

    /// Sleeps until something comes, or this bell rings; with `room_to_send` also until there is some, and for `timeout` at most. What
    /// comes does not wake it over and over where that is `full` to which it goes.
    ///
    /// # Errors
    /// Those of ppoll(2), except for interruptions.
    pub fn sleep(
        &mut self,
        bell: &Waker,
        full: bool,
        room_to_send: bool,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        let outcome = match full {
            true => bell.wait(timeout),
            false => {
                let watch = self.socket.watch();
                let ready = watch.wait(room_to_send, Some(bell.as_fd()), timeout);
                ready.map(|_| ())
            }
        };
        self.look_everywhere();
        outcome
    }

    /// Reads the clock, and asks what waits for the host's own link.
    #[inline]
    fn look(&self, clock: &mut Clock) -> uplink::Look {
        uplink::Look {
            at_ns: clock.read(),
            waiting: self.socket.unsent_bytes(),
        }
    }

    /// Offers trains to the socket; returns how many it is done with, and notes those that did not
    /// simply leave.
    #[inline]
    fn offer(&mut self, load: &Load) -> usize {
        self.trouble.clear();
        let trouble = &mut self.trouble;
        let mut report = |index: usize, outcome: SendOutcome| {
            if outcome != SendOutcome::Sent {
                trouble.push((index, outcome));
            }
        };
        let trains = &load.trains[load.settled..];
        let settled = match trains {
            [one] => self.socket.send(&[load.train(one)], &mut report),
            many => {
                let many: Vec<_> = many.iter().map(|train| load.train(train)).collect();
                self.socket.send(&many, &mut report)
            }
        };
        settled.unwrap_or_else(|error| {
            tracing::error!(%error, "sending failed");
            trains.len()
        })
    }

    /// How much of the train that the socket stopped at went before.
    #[inline]
    fn taken_part(&self) -> usize {
        match self.trouble.last() {
            Some(&(
                _,
                SendOutcome::Blocked { taken_bytes } | SendOutcome::NoBuffers { taken_bytes },
            )) => taken_bytes,
            _ => 0,
        }
    }

    /// Reports trains that did not simply leave.
    #[inline]
    fn report_trouble(&mut self, load: &Load) {
        for &(index, outcome) in &self.trouble {
            let &(
                _,
                Transmit {
                    to, from, segment, ..
                },
            ) = &load.trains[load.settled + index];
            match outcome {
                SendOutcome::TooBig => self.reports.push(Report::TooBig { to, bytes: segment }),
                SendOutcome::SourceGone => {
                    let gone = from.map(|local| Report::SourceGone { local });
                    self.reports.extend(gone);
                }
                SendOutcome::Failed(errno) => {
                    let error = io::Error::from_raw_os_error(errno);
                    tracing::debug!(%to, %error, "the system refused a datagram");
                    let obstacle = self.local_obstacle(to, errno);
                    self.reports.push(Report::Unreachable { to, obstacle });
                }
                _ => {}
            }
        }
    }

    /// Why the system refuses what goes to this address.
    fn local_obstacle(&self, to: SocketAddr, errno: i32) -> Obstacle {
        match self.socket.speaks_to(to.ip()) {
            true => Obstacle::System(errno),
            false => Obstacle::IpVersion { ipv6: to.is_ipv6() },
        }
    }

    /// Notes whether the system had no buffers, and since when nothing has left.
    #[inline]
    fn note_refusal(&mut self, left: bool, now_ns: u64) {
        let refused = matches!(
            self.trouble.last(),
            Some((_, SendOutcome::NoBuffers { .. }))
        );
        let before = self.refusal.filter(|_| !left);
        self.refusal = refused.then(|| Refusal {
            since_ns: before.map_or(now_ns, |refusal| refusal.since_ns),
            retry_ns: now_ns + PAUSE_NS,
        });
    }

    /// Counts a train as lost on the way that the system has refused for too long: it would hold up
    /// everybody else's.
    fn give_up_refused(&mut self, load: &mut Load, now_ns: u64) {
        if let Some(refusal) = self.refusal
            && now_ns >= refusal.since_ns + REFUSED_NS
        {
            self.refusal = None;
            load.settle(1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use sabani_udp::Options;

    use super::*;

    fn load(to: SocketAddr, trains: usize, bytes: usize) -> Load {
        let mut load = Load::new();
        load.trains.extend((0..trains).map(|at| {
            let train = Transmit {
                to,
                from: None,
                bytes,
                segment: 100,
                ecn: false,
                express: false,
                stays_here: false,
                unsealed: None,
            };
            (at * bytes, train)
        }));
        load
    }

    #[test]
    fn little_is_few_trains_of_few_bytes() {
        let to = ([127, 0, 0, 1], 1).into();
        for (trains, bytes, is_little) in [
            (1, LITTLE_BYTES, true),
            (1, LITTLE_BYTES + 1, false),
            (4, LITTLE_BYTES / 4, true),
            (4, LITTLE_BYTES / 4 + 1, false),
            (LITTLE_TRAINS, 1, true),
            (LITTLE_TRAINS + 1, 1, false),
        ] {
            let load = load(to, trains, bytes);
            assert_eq!(load.is_little(), is_little, "{trains} of {bytes} bytes");
        }
    }

    #[test]
    fn what_is_sent_beside_another_thread_is_not_asked_about() {
        let any = ([127, 0, 0, 1], 0).into();
        let mut datagrams = Datagrams::new(Socket::bind(any, &Options::default()).unwrap());
        datagrams.uplink = Uplink::silent();
        let (mut clock, to) = (Clock::new(), datagrams.socket.local_addr());
        let mut load = load(to, 2, 1_000);
        assert!(datagrams.send_alone(&mut load, &mut clock));
        assert!(!datagrams.has_news());
    }

    #[test]
    fn what_waits_is_asked_for_once_for_each_load() {
        let any = ([127, 0, 0, 1], 0).into();
        let mut datagrams = Datagrams::new(Socket::bind(any, &Options::default()).unwrap());
        let to = datagrams.socket.local_addr();
        let mut clock = Clock::new();
        let mut load = load(to, 2, 1_000);
        load.trains[1].1.stays_here = true;
        assert!(datagrams.send(&mut load, &mut clock));
        let [before, behind] = datagrams.uplink.news.take().expect("it was asked");
        assert_eq!((before.handed, before.waiting), (0, 0));
        assert_eq!((behind.handed, behind.waiting), (1_000, 0));
        assert!(behind.at_ns > before.at_ns);
        // As if there had been no room.
        load.settled = 0;
        assert!(datagrams.send(&mut load, &mut clock));
        assert_eq!(datagrams.uplink.news, None);
        (load.settled, load.offered) = (0, false);
        assert!(datagrams.send(&mut load, &mut clock));
        assert!(datagrams.uplink.news.is_some());
    }
}
