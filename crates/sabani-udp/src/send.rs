//! Sending: trains of datagrams, whole where the kernel takes them, in pieces where it does not.

use crate::address::{Family, RawAddr};
use crate::counters::Counters;
use crate::hints::Hints;
use crate::setup;
use crate::sys::{self, BATCH, Errno, Head};
use crate::train::{MAX_TRAIN_BYTES, SendOutcome, Train, datagrams};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

/// Times that one call is repeated because ICMP errors about other peers got in its way.
const MAX_REPEATS: u32 = 8;

/// Trains that go in pieces after the kernel has refused to segment one, before it is asked again. The
/// refusal may concern one device or route only, so it should not last for ever; one wasted call in a
/// thousand costs nothing.
const TRAINS_UNTIL_RETRY: u32 = 1_024;

/// What a failed call means.
enum Verdict {
    /// It spoke of something else: make it again.
    Repeat,
    /// The kernel does not like to segment this train: send it in single datagrams.
    Refused,
    /// That is the train's fate.
    Settled(SendOutcome),
}

/// Calls for the same train that were repeated, since none of them has said what becomes of it.
#[derive(Default)]
struct Repeats {
    made: u32,
    /// The error of the last one, if no ICMP error about another peer explained it.
    unexplained: Option<Errno>,
}

/// How far the sender got with a row of trains.
enum Progress {
    /// The kernel took this many of the first ones.
    Sent(usize),
    /// This became of the first one.
    Settled(SendOutcome),
}

/// The sending half of a socket.
#[derive(Debug)]
pub(crate) struct Sender {
    family: Family,
    max_segments: usize,
    /// Trains still to be sent in single datagrams since the kernel last refused to segment one.
    single_for: u32,
    /// The local address that was found gone last, until somebody asks.
    gone_source: Option<IpAddr>,
    heads: Box<[Head; BATCH]>,
}

/// What the sender needs of the rest of the socket.
pub(crate) struct Context<'a> {
    pub fd: BorrowedFd<'a>,
    pub hints: &'a mut Hints,
    pub counters: &'a mut Counters,
}

impl Sender {
    /// `max_segments` is 1 without segmentation offload.
    pub fn new(family: Family, max_segments: usize) -> Self {
        Self {
            family,
            max_segments,
            single_for: 0,
            gone_source: None,
            heads: Box::new([Head::EMPTY; BATCH]),
        }
    }

    /// That of another handle of the same socket.
    pub fn another(&self) -> Self {
        Self::new(self.family, self.max_segments)
    }

    /// Whether it can send to such an address.
    pub fn speaks_to(&self, peer: IpAddr) -> bool {
        self.family.takes(peer)
    }

    /// A local address that was found gone since this was last asked.
    #[inline]
    pub fn take_gone_source(&mut self) -> Option<IpAddr> {
        self.gone_source.take()
    }

    pub fn send(
        &mut self,
        mut context: Context<'_>,
        trains: &[Train<'_>],
        report: &mut impl FnMut(usize, SendOutcome),
    ) -> io::Result<usize> {
        let mut done = 0;
        if let [train] = trains
            && self.send_single(&mut context, train)
        {
            report(0, SendOutcome::Sent);
            return Ok(1);
        }
        while done < trains.len() {
            match self.advance(&mut context, &trains[done..])? {
                Progress::Sent(count) => {
                    (done..done + count).for_each(|index| report(index, SendOutcome::Sent));
                    done += count;
                }
                Progress::Settled(outcome) => {
                    let outcome = self.blame_source(outcome, trains[done].from);
                    context.count_outcome(outcome);
                    report(done, outcome);
                    if outcome.stops() {
                        break;
                    }
                    done += 1;
                }
            }
        }
        Ok(done)
    }

    /// A failure for want of the local address that a train was to leave from is another outcome.
    fn blame_source(&mut self, outcome: SendOutcome, source: Option<IpAddr>) -> SendOutcome {
        match (outcome, source) {
            (SendOutcome::Failed(_), Some(source)) if setup::is_gone(source) => {
                self.gone_source = Some(source);
                SendOutcome::SourceGone
            }
            _ => outcome,
        }
    }

    /// Sends a datagram that goes alone and needs nothing said beside it, in the shortest way; `false` if
    /// it is another, or did not leave.
    #[inline]
    fn send_single(&self, context: &mut Context<'_>, train: &Train<'_>) -> bool {
        if !train.is_plain() || train.from.is_some() || !self.speaks_to(train.to.ip()) {
            return false;
        }
        let to = RawAddr::encode(train.to, self.family);
        context.send_plainly(Some(&to), train)
    }

    /// Whether a train may leave over a socket that is connected to where it goes.
    #[inline]
    pub fn takes_connected(&self, train: &Train<'_>) -> bool {
        train.class() == 0 && self.fits(train)
    }

    /// Settles the first of the trains, at least.
    fn advance(&mut self, context: &mut Context<'_>, trains: &[Train<'_>]) -> io::Result<Progress> {
        let train = &trains[0];
        if !self.fits(train) {
            let outcome = self.send_in_pieces(context, train, self.piece_bytes(train))?;
            return Ok(Progress::Settled(outcome));
        }
        let mut repeats = Repeats::default();
        loop {
            let errno = match self.send_whole(context, trains) {
                Ok(count) => return Ok(Progress::Sent(count)),
                Err(errno) => errno,
            };
            let outcome =
                match context.judge(errno, train.to, train.is_divisible(), &mut repeats)? {
                    Verdict::Repeat => continue,
                    Verdict::Refused => self.send_refused(context, train, errno)?,
                    Verdict::Settled(outcome) => outcome,
                };
            return Ok(Progress::Settled(outcome));
        }
    }

    /// Whether the train can leave as one message. A single datagram always can: how large it may be is
    /// for the kernel to say.
    fn fits(&self, train: &Train<'_>) -> bool {
        let short =
            train.bytes.len() <= MAX_TRAIN_BYTES && train.datagrams() <= self.allowed_segments();
        (short || !train.is_divisible()) && self.addressable(train)
    }

    fn addressable(&self, train: &Train<'_>) -> bool {
        self.speaks_to(train.to.ip()) && train.from.is_none_or(|ip| self.family.takes(ip))
    }

    /// Datagrams that one message may hold now.
    fn allowed_segments(&self) -> usize {
        if self.single_for > 0 {
            1
        } else {
            self.max_segments
        }
    }

    /// Bytes to send in each message of a train that does not fit into one.
    fn piece_bytes(&self, train: &Train<'_>) -> usize {
        let segment = train.segment();
        segment * (MAX_TRAIN_BYTES / segment).clamp(1, self.allowed_segments())
    }

    fn head(&self, train: &Train<'_>, segmented: bool) -> Head {
        let mut head = Head {
            to: RawAddr::encode(train.to, self.family),
            ..Head::EMPTY
        };
        if segmented {
            head.control.push_segment(train.segment() as u16);
        }
        if let Some(source) = train.from {
            head.control.push_source(source, self.family);
        }
        if train.class() != 0 {
            head.control.push_class(train.class(), train.to.ip());
        }
        head
    }

    /// Sends as many of the first trains as fit into one call, each as one message.
    fn send_whole(
        &mut self,
        context: &mut Context<'_>,
        trains: &[Train<'_>],
    ) -> Result<usize, Errno> {
        let mut count = 0;
        while count < BATCH && trains.get(count).is_some_and(|train| self.fits(train)) {
            let train = &trains[count];
            self.heads[count] = self.head(train, train.is_divisible());
            count += 1;
        }
        let bodies = trains.iter().map(|train| train.bytes);
        let sent = send_messages(context, &self.heads[..count], bodies)?;
        for train in &trains[..sent] {
            context.count_sent(train.bytes.len(), train.segment());
        }
        Ok(sent)
    }

    /// Sends a train that the kernel would not segment, and draws the conclusion.
    #[cold]
    fn send_refused(
        &mut self,
        context: &mut Context<'_>,
        train: &Train<'_>,
        errno: Errno,
    ) -> io::Result<SendOutcome> {
        let outcome = self.send_in_pieces(context, train, train.segment())?;
        // Bad addresses are EINVAL too, and so are, on older kernels, segments too large for the device.
        // Only what goes in pieces was refused as a whole.
        let refused = match outcome {
            SendOutcome::Sent => true,
            SendOutcome::Blocked { taken_bytes } | SendOutcome::NoBuffers { taken_bytes } => {
                taken_bytes > 0
            }
            SendOutcome::TooBig | SendOutcome::SourceGone | SendOutcome::Failed(_) => false,
        };
        if refused {
            self.single_for = TRAINS_UNTIL_RETRY;
            context.counters.gso_refusals += 1;
            let error = io::Error::from_raw_os_error(errno);
            tracing::warn!(to = %train.to, %error, "segmentation offload refused; cutting trains into datagrams");
        }
        Ok(outcome)
    }

    /// Sends a train as several messages of `piece_bytes` (a multiple of the segment).
    fn send_in_pieces(
        &mut self,
        context: &mut Context<'_>,
        train: &Train<'_>,
        piece_bytes: usize,
    ) -> io::Result<SendOutcome> {
        if !self.addressable(train) {
            return Ok(SendOutcome::Failed(libc::EAFNOSUPPORT));
        }
        context.counters.trains_cut += 1;
        self.single_for = self.single_for.saturating_sub(1);
        let segmented = piece_bytes > train.segment();
        let head = self.head(train, segmented);
        self.heads.fill(head);
        let mut rest = train.bytes;
        let mut repeats = Repeats::default();
        while !rest.is_empty() {
            let pieces = rest.chunks(piece_bytes);
            let count = pieces.len().min(BATCH);
            let errno = match send_messages(context, &self.heads[..count], pieces) {
                Ok(sent) => {
                    let bytes = rest.len().min(sent * piece_bytes);
                    context.count_sent(bytes, train.segment());
                    rest = &rest[bytes..];
                    repeats = Repeats::default();
                    continue;
                }
                Err(errno) => errno,
            };
            let outcome = match context.judge(errno, train.to, segmented, &mut repeats)? {
                Verdict::Repeat => continue,
                Verdict::Refused => self.send_refused(context, &train.with(rest), errno)?,
                Verdict::Settled(outcome) => outcome,
            };
            return Ok(outcome.after(train.bytes.len() - rest.len()));
        }
        Ok(SendOutcome::Sent)
    }
}

/// One system call: `sendto` or `sendmsg` for a single message, which is quicker, else `sendmmsg`.
fn send_messages<'a>(
    context: &mut Context<'_>,
    heads: &[Head],
    mut bodies: impl Iterator<Item = &'a [u8]>,
) -> Result<usize, Errno> {
    context.counters.send_calls += 1;
    if let [head] = heads {
        let body = bodies.next().unwrap_or_default();
        return sys::send_one(context.fd, head, body).map(|_| 1);
    }
    let sent = sys::send_many(context.fd, heads, bodies)?;
    if sent < heads.len() {
        // The kernel has forgotten the error that stopped it, but its error queue may hold the reason.
        context.drain_hints(|_, _| ());
    }
    Ok(sent)
}

impl Context<'_> {
    /// Sends a train over a socket that is connected to where it goes, and knows how to cut it or has to be told; `false` if it
    /// did not leave.
    #[inline]
    pub fn send_connected(mut self, train: &Train<'_>, knows_cut: bool) -> bool {
        let sent = match knows_cut {
            true => self.send_plainly(None, train),
            false => self.send_segmented(train),
        };
        if !sent {
            self.drain_hints(|_, _| ());
        }
        sent
    }

    #[inline]
    fn send_plainly(&mut self, to: Option<&RawAddr>, train: &Train<'_>) -> bool {
        let result = sys::send_plainly(self.fd, to, train.bytes);
        self.has_left(result, train)
    }

    /// Sends several datagrams over a connected socket.
    fn send_segmented(&mut self, train: &Train<'_>) -> bool {
        let mut head = Head {
            to: RawAddr::NONE,
            ..Head::EMPTY
        };
        head.control.push_segment(train.cut());
        let result = sys::send_one(self.fd, &head, train.bytes);
        self.has_left(result, train)
    }

    /// Counts a train that was sent as one message.
    #[inline]
    fn has_left(&mut self, result: Result<usize, Errno>, train: &Train<'_>) -> bool {
        self.counters.send_calls += 1;
        if result.is_ok() {
            self.count_sent(train.bytes.len(), train.segment());
        }
        result.is_ok()
    }

    /// Decides what a failed call means. An error may belong to another peer: an ICMP error that was
    /// pending. Then the call is worth repeating, and the error queue says so; where the queue was emptied
    /// a moment before the error was raised, the repetition itself tells. So an error is the train's own
    /// once it has come twice in a row without one of another peer in the queue that explains it. While the
    /// receive buffer is full, the kernel raises errors without queueing them: then any may be of others.
    ///
    /// Fails when the socket itself is unusable.
    #[cold]
    fn judge(
        &mut self,
        errno: Errno,
        to: SocketAddr,
        segmented: bool,
        repeats: &mut Repeats,
    ) -> io::Result<Verdict> {
        use SendOutcome::{Blocked, Failed, NoBuffers, TooBig};
        match errno {
            libc::EAGAIN => return Ok(Verdict::Settled(Blocked { taken_bytes: 0 })),
            libc::ENOBUFS | libc::ENOMEM => {
                return Ok(Verdict::Settled(NoBuffers { taken_bytes: 0 }));
            }
            libc::EBADF | libc::ENOTSOCK => return Err(io::Error::from_raw_os_error(errno)),
            libc::EIO | libc::EINVAL if segmented => return Ok(Verdict::Refused),
            _ => {}
        }
        let mut explained = !sys::has_room_for_errors(self.fd);
        self.drain_hints(|of, queued| explained |= queued == errno && of != Some(to));
        let certain = !explained && repeats.unexplained == Some(errno);
        if !certain && repeats.made < MAX_REPEATS {
            repeats.made += 1;
            repeats.unexplained = (!explained).then_some(errno);
            self.counters.repeated_calls += 1;
            return Ok(Verdict::Repeat);
        }
        Ok(match errno {
            // Errors about others come too thick to learn anything of this train.
            _ if !certain => Verdict::Settled(NoBuffers { taken_bytes: 0 }),
            libc::EMSGSIZE => Verdict::Settled(TooBig),
            libc::ENOPROTOOPT if segmented => Verdict::Refused,
            errno => Verdict::Settled(Failed(errno)),
        })
    }

    /// Empties the error queue; tells of whom each ICMP error in it was, and its number.
    fn drain_hints(&mut self, seen: impl FnMut(Option<SocketAddr>, Errno)) {
        self.counters.icmp_errors += self.hints.drain(self.fd, seen);
    }

    fn count_sent(&mut self, bytes: usize, segment: usize) {
        self.counters.datagrams_sent += datagrams(bytes, segment) as u64;
        self.counters.bytes_sent += bytes as u64;
    }

    fn count_outcome(&mut self, outcome: SendOutcome) {
        let counter = match outcome {
            SendOutcome::Sent => return,
            SendOutcome::Blocked { .. } => &mut self.counters.would_block,
            SendOutcome::NoBuffers { .. } => &mut self.counters.no_buffers,
            SendOutcome::TooBig => &mut self.counters.too_big,
            SendOutcome::SourceGone | SendOutcome::Failed(_) => &mut self.counters.failed,
        };
        *counter += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    /// After how many calls a train is found at fault for an error that comes again and again, if it is.
    fn blamed_after(socket: &UdpSocket, hints: &mut Hints) -> Option<u32> {
        let mut context = Context {
            fd: socket.as_fd(),
            hints,
            counters: &mut Counters::default(),
        };
        let (to, mut repeats) = (socket.local_addr().unwrap(), Repeats::default());
        (1..=MAX_REPEATS + 1).find(|_| {
            let verdict = context.judge(libc::ECONNREFUSED, to, false, &mut repeats);
            matches!(verdict, Ok(Verdict::Settled(SendOutcome::Failed(_))))
        })
    }

    #[test]
    #[cfg_attr(miri, ignore = "opens a socket")]
    fn what_another_handle_has_taken_off_the_queue_explains_an_error_once() {
        let opened = setup::open(([127, 0, 0, 1], 0).into(), &Options::default()).unwrap();
        let socket = opened.socket;
        let mut receiving = Hints::new();
        let mut sending = receiving.another();
        // Nobody listens at a port that the kernel never hands out by itself.
        socket.send_to(b"anybody?", ("127.0.0.1", 1)).unwrap();
        while receiving.drain(socket.as_fd(), |_, _| ()) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(blamed_after(&socket, &mut sending), Some(3));
        assert_eq!(blamed_after(&socket, &mut sending), Some(2));
    }

    #[test]
    #[cfg_attr(miri, ignore = "opens a socket")]
    fn no_train_is_blamed_for_errors_that_there_was_no_room_to_explain() {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        assert_eq!(blamed_after(&socket, &mut Hints::new()), Some(2));
        while sys::drops(socket.as_fd()).unwrap() == 0 {
            let to = socket.local_addr().unwrap();
            socket.send_to(b"to itself", to).unwrap();
        }
        assert_eq!(blamed_after(&socket, &mut Hints::new()), None);
    }
}
