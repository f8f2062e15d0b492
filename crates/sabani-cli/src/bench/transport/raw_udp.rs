//! The ceiling: UDP sockets with trains of segments in both directions and credit, and nothing else.
//! Nothing is resent; messages are not numbered beyond what a ping needs to survive a loss.

use std::{
    io::{ErrorKind, IoSlice, IoSliceMut},
    net::{IpAddr, SocketAddr, UdpSocket},
    os::fd::AsRawFd,
    time::Duration,
};

use anyhow::{Context, Result};
use nix::{
    errno::Errno,
    sys::socket::{
        MsgFlags, MultiHeaders, SockaddrLike, SockaddrStorage, recvmmsg, sendmmsg, setsockopt,
        sockopt::{UdpGroSegment, UdpGsoSegment},
    },
};
use socket2::{Domain, Socket, Type};

use super::{Delivery, Endpoint, Role, send_until};
use crate::bench::measure::{Idle, Limit, Stop, Tally};

/// What fits into an Ethernet frame besides the headers of UDP and IPv4.
const SEGMENT_V4_BYTES: usize = 1472;
/// The same beside those of IPv6.
const SEGMENT_V6_BYTES: usize = 1452;
/// What every Linux with GSO takes per train, in segments. Newer ones take 128, which doubles the
/// rate of tiny datagrams, and changes nothing where a train is full of bytes before.
const TRAIN_SEGMENTS: usize = 64;
/// What fits into the largest packet of IP, in which a train travels through the kernel.
const TRAIN_BYTES: usize = 65_000;
/// Trains per system call.
const BATCH_TRAINS: usize = 8;
/// Receive buffers per system call, for a train each.
const BATCH_BUFFERS: usize = 16;
const BUFFER_BYTES: usize = 1 << 16;
/// What may be under way, in bytes.
const WINDOW_BYTES: usize = 1 << 20;
/// What may be under way, in segments: the kernel charges a small one about a kilobyte, against a
/// socket buffer of 8 MiB.
const WINDOW_SEGMENTS: usize = 4096;
const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// A credit that has not come by now is lost, with what it was for.
const CREDIT_TIMEOUT: Duration = Duration::from_millis(20);
/// A message that is not back by now is lost.
const MESSAGE_TIMEOUT: Duration = Duration::from_millis(200);
/// The first four bytes of a credit, which no message has.
const CREDIT: u32 = u32::MAX;

/// One UDP socket.
pub struct RawUdp {
    socket: UdpSocket,
    role: Role,
    connected: bool,
    peer: Option<SocketAddr>,
    full_segment: usize,
    /// The kernel's present setting; 0 for none.
    segment: usize,
    source: Vec<u8>,
    sink: Vec<u8>,
    /// Number of the last message sent by a client, received by a server.
    number: u32,
    /// Bytes the peer has confirmed of the present message or burst.
    credited: usize,
}

impl RawUdp {
    /// Opens a socket with buffers as large as an ordinary user gets them.
    pub fn open(role: Role, bind: IpAddr, connected: bool) -> Result<Self> {
        let addr = SocketAddr::new(bind, 0);
        let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, None)?;
        socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES)?;
        socket.set_send_buffer_size(SOCKET_BUFFER_BYTES)?;
        socket
            .bind(&addr.into())
            .with_context(|| format!("cannot bind to {addr}"))?;
        socket.set_nonblocking(true)?;
        let socket = UdpSocket::from(socket);
        setsockopt(&socket, UdpGroSegment, &true).context("this kernel has no UDP GRO")?;
        Ok(Self {
            socket,
            role,
            connected,
            peer: None,
            full_segment: if bind.is_ipv4() {
                SEGMENT_V4_BYTES
            } else {
                SEGMENT_V6_BYTES
            },
            segment: 0,
            source: Vec::new(),
            sink: Vec::new(),
            number: 0,
            credited: 0,
        })
    }

    fn peer(&self) -> Result<SocketAddr> {
        self.peer.context("not joined")
    }

    /// Makes the kernel cut what is sent into segments; 0: not at all.
    fn set_segment(&mut self, segment: usize) -> Result<()> {
        if segment != self.segment {
            setsockopt(&self.socket, UdpGsoSegment, &(segment as i32))
                .context("this kernel has no UDP GSO")?;
            self.segment = segment;
        }
        Ok(())
    }

    /// Prepares for messages of `size` bytes, which are cut if they must be. A connected socket
    /// needs GRO just for those.
    fn prepare(&mut self, size: usize) -> Result<()> {
        let cut = size > self.full_segment;
        let segment = if cut { self.full_segment } else { 0 };
        if segment != self.segment || self.sink.is_empty() {
            setsockopt(&self.socket, UdpGroSegment, &(cut || !self.connected))?;
            self.set_segment(segment)?;
        }
        if self.source.len() < size {
            self.source.resize(size, 1);
        }
        if self.sink.len() < size + BUFFER_BYTES {
            self.sink.resize(size + BUFFER_BYTES, 0);
        }
        Ok(())
    }

    /// Sends a train of the source, trying again while the kernel has no room.
    fn send_train(&self, peer: SocketAddr, from: usize, to: usize) -> Result<()> {
        let train = &self.source[from..to];
        while !sent(self.send_now(peer, train))? {}
        Ok(())
    }

    fn send_now(&self, peer: SocketAddr, bytes: &[u8]) -> std::io::Result<usize> {
        if self.connected {
            self.socket.send(bytes)
        } else {
            self.socket.send_to(bytes, peer)
        }
    }

    /// Takes what has arrived, if anything has, to `at` in the sink.
    fn poll(&mut self, at: usize) -> Result<Option<usize>> {
        let buffer = &mut self.sink[at..];
        let taken = if self.connected {
            self.socket.recv(buffer)
        } else {
            let taken = self.socket.recv_from(buffer);
            match taken {
                Ok((_, from)) if Some(from) != self.peer => return Ok(None),
                taken => taken.map(|(bytes, _)| bytes),
            }
        };
        match taken {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if is_passing(error.kind()) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn first_word(&self, at: usize) -> u32 {
        let mut word = [0; 4];
        word.copy_from_slice(&self.sink[at..at + 4]);
        u32::from_le_bytes(word)
    }

    /// Tells the sender how many bytes of the present message or burst are here. Credit that the
    /// kernel doesn't take is made good by the next.
    fn send_credit(&self, bytes: usize) -> Result<()> {
        let mut credit = [0; 16];
        credit[..4].copy_from_slice(&CREDIT.to_le_bytes());
        credit[8..].copy_from_slice(&(bytes as u64).to_le_bytes());
        sent(self.send_now(self.peer()?, &credit)).map(|_| ())
    }

    /// Takes credit, if some has come. Credit beyond what was `sent` is an old burst's.
    fn poll_credit(&mut self, sent: usize) -> Result<bool> {
        let Some(16) = self.poll(0)? else {
            return Ok(false);
        };
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.sink[8..16]);
        let bytes = u64::from_le_bytes(bytes) as usize;
        if self.first_word(0) == CREDIT && bytes <= sent {
            self.credited = self.credited.max(bytes);
        }
        Ok(true)
    }

    /// Waits until `more` bytes may follow those `sent`, under a window. What gets no credit for
    /// too long is lost and holds nothing up.
    fn await_credit(&mut self, sent: usize, more: usize, window: usize) -> Result<()> {
        let mut idle = Idle::default();
        while self.credited < sent && sent + more - self.credited > window {
            if self.poll_credit(sent)? {
                idle = Idle::default();
            } else if idle.longer_than(CREDIT_TIMEOUT) {
                self.credited = sent;
            }
        }
        Ok(())
    }

    /// Writes the message's number at the head of each of its datagrams.
    fn stamp(&mut self, size: usize) {
        let number = self.number.to_le_bytes();
        for segment in self.source[..size].chunks_mut(self.full_segment) {
            if let Some(head) = segment.first_chunk_mut() {
                *head = number;
            }
        }
    }

    /// Whether a datagram with this number belongs to the message that is waited for: a client
    /// waits for its own to come back, a server for a new one.
    fn is_awaited(&self, number: u32) -> bool {
        number != CREDIT && (number == self.number) == (self.role == Role::Client)
    }

    fn receive_burst<S: SockaddrLike + Copy>(
        &mut self,
        tally: &mut Tally,
        stop: &Stop,
        window: usize,
    ) -> Result<()> {
        let mut headers = MultiHeaders::<S>::preallocate(BATCH_BUFFERS, None);
        let mut buffers = vec![0; BATCH_BUFFERS * BUFFER_BYTES];
        let mut credited = 0;
        let mut idle = Idle::default();
        loop {
            let arrived = receive_batch(&self.socket, &mut headers, &mut buffers)?;
            if arrived > 0 {
                idle = Idle::default();
                tally.add(arrived as u64);
            }
            let bytes = tally.bytes() as usize;
            if bytes - credited >= window / 4 || (arrived == 0 && bytes != credited) {
                self.send_credit(bytes)?;
                credited = bytes;
            }
            if arrived > 0 {
                continue;
            }
            tally.pause();
            if let Some(messages) = stop.messages()
                && (tally.messages() >= messages || idle.longer_than(MESSAGE_TIMEOUT))
            {
                return Ok(());
            }
        }
    }
}

impl Endpoint for RawUdp {
    fn local_addr(&self) -> Result<SocketAddr> {
        Ok(self.socket.local_addr()?)
    }

    fn join(&mut self, peer: SocketAddr) -> Result<()> {
        self.peer = Some(peer);
        if self.connected {
            self.socket.connect(peer)?;
        }
        Ok(())
    }

    fn send(&mut self, size: usize) -> Result<()> {
        let peer = self.peer()?;
        self.prepare(size)?;
        if self.role == Role::Client {
            self.number = (self.number + 1) % CREDIT;
        }
        self.stamp(size);
        self.credited = 0;
        let step = train_bytes(self.full_segment);
        for from in (0..size).step_by(step) {
            let to = size.min(from + step);
            self.await_credit(from, to - from, WINDOW_BYTES)?;
            self.send_train(peer, from, to)?;
        }
        Ok(())
    }

    fn receive(&mut self, size: usize, stop: &Stop) -> Result<Delivery> {
        self.prepare(size)?;
        let mut idle = Idle::default();
        let (mut have, mut credited) = (0, 0);
        let mut number = None;
        while have < size {
            let Some(bytes) = self.poll(have)? else {
                if stop.is_raised() {
                    return Ok(Delivery::Stopped);
                }
                if self.role == Role::Client && idle.longer_than(MESSAGE_TIMEOUT) {
                    return Ok(Delivery::Lost);
                }
                continue;
            };
            idle = Idle::default();
            let found = self.first_word(have);
            if bytes < 4 || !self.is_awaited(found) {
                continue;
            }
            if number.is_some_and(|known| known != found) {
                (have, credited) = (0, 0);
            }
            number = Some(found);
            have += bytes;
            if size > WINDOW_BYTES && have - credited >= WINDOW_BYTES / 4 {
                self.send_credit(have)?;
                credited = have;
            }
        }
        self.number = number.unwrap_or(self.number);
        Ok(Delivery::Message)
    }

    fn burst_send(&mut self, size: usize, limit: Limit) -> Result<u64> {
        let peer = self.peer()?;
        let segment = size.min(self.full_segment);
        self.prepare(size.max(train_bytes(segment)))?;
        self.set_segment(segment)?;
        let batches = batches(size, segment);
        let window = window_bytes(segment);
        let messages = (batches.iter().map(|batch| batch.bytes).sum::<usize>() / size) as u64;
        let mut sender = BatchSender::new(self.connected, peer);
        while self.poll_credit(0)? {}
        self.credited = 0;
        let mut sent = 0;
        send_until(limit, |left| {
            let last = (left < messages).then(|| batches_of(left as usize, size, segment));
            for batch in last.as_ref().unwrap_or(&batches) {
                self.await_credit(sent, batch.bytes, window)?;
                sender.send(&self.socket, &self.source, &batch.trains)?;
                sent += batch.bytes;
            }
            Ok(messages.min(left))
        })
    }

    fn burst_receive(&mut self, size: usize, tally: &mut Tally, stop: &Stop) -> Result<()> {
        self.set_segment(0)?;
        setsockopt(&self.socket, UdpGroSegment, &true)?;
        let window = window_bytes(size.min(self.full_segment));
        if self.connected {
            self.receive_burst::<()>(tally, stop, window)
        } else {
            self.receive_burst::<SockaddrStorage>(tally, stop, window)
        }
    }
}

/// What goes with one system call: where its trains begin and end in the source, and its bytes.
struct Batch {
    trains: Vec<(usize, usize)>,
    bytes: usize,
}

impl Batch {
    fn of(trains: &[(usize, usize)]) -> Self {
        Batch {
            trains: trains.to_vec(),
            bytes: trains.iter().map(|(from, to)| to - from).sum(),
        }
    }
}

/// Cuts whole messages into trains and puts these together for as few system calls as possible,
/// none of which needs more than a quarter of the window. Small messages are segments of a train.
fn batches(size: usize, segment: usize) -> Vec<Batch> {
    let train = train_bytes(segment);
    let unit = if size > segment { size } else { train };
    let trains: Vec<_> = (0..unit)
        .step_by(train)
        .map(|from| (from, unit.min(from + train)))
        .collect();
    let per_call = trains_per_call(segment);
    let repeats = (per_call / trains.len()).max(1);
    trains
        .repeat(repeats)
        .chunks(per_call)
        .map(Batch::of)
        .collect()
}

/// The same for so many messages and no more.
fn batches_of(messages: usize, size: usize, segment: usize) -> Vec<Batch> {
    let train = train_bytes(segment);
    let (unit, units) = match size > segment {
        true => (size, messages),
        false => (messages * size, 1),
    };
    // What is cut into trains begins at the head of the source each time: there lies no more than a message, or a train.
    let begins = |from: usize| if size > segment { from } else { 0 };
    let trains = (0..unit)
        .step_by(train)
        .map(|from| (begins(from), begins(from) + train.min(unit - from)));
    let trains: Vec<_> = trains.collect();
    trains
        .repeat(units)
        .chunks(trains_per_call(segment))
        .map(Batch::of)
        .collect()
}

/// As many trains as need no more than a quarter of the window.
fn trains_per_call(segment: usize) -> usize {
    (window_bytes(segment) / 4 / train_bytes(segment)).clamp(1, BATCH_TRAINS)
}

/// The largest train of `segment`s, in bytes.
fn train_bytes(segment: usize) -> usize {
    segment * (TRAIN_BYTES / segment).min(TRAIN_SEGMENTS)
}

/// What may be under way when the datagrams are `segment` bytes long.
fn window_bytes(segment: usize) -> usize {
    WINDOW_BYTES.min(WINDOW_SEGMENTS * segment)
}

/// Sends several trains per system call.
struct BatchSender {
    headers: MultiHeaders<SockaddrStorage>,
    peers: [Option<SockaddrStorage>; BATCH_TRAINS],
}

impl BatchSender {
    fn new(connected: bool, peer: SocketAddr) -> Self {
        let peer = (!connected).then(|| SockaddrStorage::from(peer));
        Self {
            headers: MultiHeaders::preallocate(BATCH_TRAINS, None),
            peers: [peer; BATCH_TRAINS],
        }
    }

    fn send(
        &mut self,
        socket: &UdpSocket,
        source: &[u8],
        mut trains: &[(usize, usize)],
    ) -> Result<()> {
        while !trains.is_empty() {
            let slices: Vec<[IoSlice; 1]> = trains
                .iter()
                .map(|&(from, to)| [IoSlice::new(&source[from..to])])
                .collect();
            let fd = socket.as_raw_fd();
            let flags = MsgFlags::MSG_DONTWAIT;
            match sendmmsg(fd, &mut self.headers, &slices, self.peers, [], flags) {
                Ok(results) => trains = &trains[results.count()..],
                Err(errno) if is_passing_errno(errno) => {}
                Err(errno) => return Err(errno).context("sendmmsg"),
            }
        }
        Ok(())
    }
}

/// Takes several trains with one system call. Returns how many bytes.
fn receive_batch<S: SockaddrLike + Copy>(
    socket: &UdpSocket,
    headers: &mut MultiHeaders<S>,
    buffers: &mut [u8],
) -> Result<usize> {
    let mut slices: Vec<[IoSliceMut; 1]> = buffers
        .chunks_mut(BUFFER_BYTES)
        .map(|buffer| [IoSliceMut::new(buffer)])
        .collect();
    let flags = MsgFlags::MSG_DONTWAIT;
    match recvmmsg(socket.as_raw_fd(), headers, &mut slices, flags, None) {
        Ok(messages) => Ok(messages.map(|message| message.bytes).sum()),
        Err(errno) if is_passing_errno(errno) => Ok(0),
        Err(errno) => Err(errno).context("recvmmsg"),
    }
}

/// Whether it went; `false` if it is worth trying again.
fn sent(result: std::io::Result<usize>) -> Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(error) if is_passing(error.kind()) || is_full(&error) => Ok(false),
        Err(error) => Err(error).context("cannot send"),
    }
}

/// Refused: the other end was not there at some moment, which is for its own error to say.
fn is_passing(kind: ErrorKind) -> bool {
    use ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
    matches!(kind, WouldBlock | Interrupted | ConnectionRefused)
}

fn is_full(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(Errno::ENOBUFS as i32)
}

fn is_passing_errno(errno: Errno) -> bool {
    use Errno::{EAGAIN, ECONNREFUSED, EINTR, ENOBUFS};
    matches!(errno, EAGAIN | EINTR | ECONNREFUSED | ENOBUFS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_hold_whole_messages() {
        for size in [
            4,
            5,
            64,
            1000,
            1472,
            1473,
            4096,
            64768,
            64769,
            65536,
            4 << 20,
        ] {
            let segment = size.min(SEGMENT_V4_BYTES);
            let batches = batches(size, segment);
            let total: usize = batches.iter().map(|batch| batch.bytes).sum();
            assert_eq!(total % size, 0, "{size}");
            for count in [1, 7, 1_000] {
                let exact = batches_of(count, size, segment);
                let bytes = exact.iter().map(|batch| batch.bytes).sum::<usize>();
                assert_eq!(bytes, count * size, "{count} of {size}");
                let mut ends = exact.iter().flat_map(|batch| &batch.trains);
                assert!(ends.all(|(_, to)| *to <= size.max(train_bytes(segment))));
            }
            for batch in &batches {
                assert!(batch.trains.len() <= BATCH_TRAINS);
                assert!(batch.bytes <= window_bytes(segment));
                let sizes = batch.trains.iter().map(|(from, to)| to - from);
                assert!(
                    sizes
                        .into_iter()
                        .all(|n| (1..=train_bytes(segment)).contains(&n))
                );
            }
        }
    }

    #[test]
    fn small_messages_fill_trains() {
        assert_eq!(train_bytes(4), 256);
        let batches = batches(4, 4);
        assert_eq!(batches.len(), 1);
        assert_eq!(batches[0].trains, [(0, 256); BATCH_TRAINS]);
    }

    #[test]
    fn ends_talk_to_each_other() {
        for connected in [false, true] {
            let local = IpAddr::from([127, 0, 0, 1]);
            let mut client = RawUdp::open(Role::Client, local, connected).unwrap();
            let mut server = RawUdp::open(Role::Server, local, connected).unwrap();
            client.join(server.local_addr().unwrap()).unwrap();
            server.join(client.local_addr().unwrap()).unwrap();
            let stop = Stop::default();
            for size in [4, 100_000, 5000] {
                client.send(size).unwrap();
                assert_eq!(server.receive(size, &stop).unwrap(), Delivery::Message);
                server.send(size).unwrap();
                assert_eq!(client.receive(size, &stop).unwrap(), Delivery::Message);
            }
            assert_eq!(client.receive(4, &stop).unwrap(), Delivery::Lost);
            stop.raise(0);
            assert_eq!(server.receive(4, &stop).unwrap(), Delivery::Stopped);
        }
    }
}
