//! TCP as a careful program uses it: without delay, one stream, read and written while spinning.

use std::{
    io::{ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, TcpStream},
};

use anyhow::{Context, Result, bail};
use socket2::{Domain, Socket, Type};

use super::{Delivery, Endpoint, PATIENCE, Role, send_until};
use crate::bench::measure::{Idle, Limit, Stop, Tally};

/// What small messages of a burst are collected in, and what is written at once.
const WRITE_BYTES: usize = 64 << 10;
const READ_BYTES: usize = 1 << 20;

/// Whether this system knows a congestion control and lets this user choose it.
pub fn is_available(congestion: &str) -> bool {
    Socket::new(Domain::IPV4, Type::STREAM, None)
        .and_then(|socket| socket.set_tcp_congestion(congestion.as_bytes()))
        .is_ok()
}

/// One connection, and for the server the socket that listens for more.
pub struct Tcp {
    role: Role,
    congestion: &'static str,
    bind: IpAddr,
    listener: Option<Socket>,
    peer: Option<SocketAddr>,
    stream: Option<TcpStream>,
    source: Vec<u8>,
    gathered: Vec<u8>,
    sink: Vec<u8>,
}

impl Tcp {
    /// Opens one end. A server listens from now on.
    pub fn open(role: Role, bind: IpAddr, congestion: &'static str) -> Result<Self> {
        let listener = match role {
            Role::Client => None,
            Role::Server => Some(listen(bind, congestion)?),
        };
        Ok(Self {
            role,
            congestion,
            bind,
            listener,
            peer: None,
            stream: None,
            source: Vec::new(),
            gathered: Vec::new(),
            sink: Vec::new(),
        })
    }

    fn connect(&self) -> Result<TcpStream> {
        let peer = self.peer.context("not joined")?;
        let socket = socket(SocketAddr::new(self.bind, 0), self.congestion)?;
        socket
            .connect(&peer.into())
            .with_context(|| format!("cannot connect to {peer}"))?;
        ready(socket)
    }

    /// Waits for a connection, as long as `give_up` does not say otherwise.
    fn accept(&self, mut give_up: impl FnMut() -> bool) -> Result<Option<TcpStream>> {
        let listener = self.listener.as_ref().context("a client doesn't listen")?;
        loop {
            match listener.accept() {
                Ok((socket, _)) => return ready(socket).map(Some),
                Err(error) if is_passing(error.kind()) => {}
                Err(error) => return Err(error).context("cannot accept"),
            }
            if give_up() {
                return Ok(None);
            }
        }
    }

    fn prepare(&mut self, size: usize) {
        if self.source.len() < size {
            self.source.resize(size, 1);
        }
        if self.sink.len() < size.max(READ_BYTES) {
            self.sink.resize(size.max(READ_BYTES), 0);
        }
    }
}

impl Endpoint for Tcp {
    fn local_addr(&self) -> Result<SocketAddr> {
        let Some(listener) = &self.listener else {
            return Ok(SocketAddr::new(self.bind, 0));
        };
        let addr = listener.local_addr()?.as_socket();
        addr.context("a TCP socket without an IP address")
    }

    fn join(&mut self, peer: SocketAddr) -> Result<()> {
        self.peer = Some(peer);
        let mut idle = Idle::default();
        self.stream = match self.role {
            Role::Client => Some(self.connect()?),
            Role::Server => self.accept(|| idle.longer_than(PATIENCE))?,
        };
        self.stream
            .as_ref()
            .context("the other end did not connect")
            .map(|_| ())
    }

    fn send(&mut self, size: usize) -> Result<()> {
        self.prepare(size);
        let stream = self.stream.as_mut().context("not joined")?;
        write_all(stream, &self.source[..size])
    }

    fn receive(&mut self, size: usize, stop: &Stop) -> Result<Delivery> {
        self.prepare(size);
        let stream = self.stream.as_mut().context("not joined")?;
        read_exact(stream, &mut self.sink[..size], self.role, stop)
    }

    fn burst_send(&mut self, size: usize, limit: Limit) -> Result<u64> {
        self.prepare(size);
        let stream = self.stream.as_mut().context("not joined")?;
        let message = &self.source[..size];
        if size >= WRITE_BYTES {
            return send_until(limit, |_| write_all(stream, message).map(|()| 1));
        }
        let at_once = (WRITE_BYTES / size) as u64;
        send_until(limit, |left| {
            let count = at_once.min(left);
            self.gathered.clear();
            for _ in 0..count {
                self.gathered.extend_from_slice(message);
            }
            write_all(stream, &self.gathered).map(|()| count)
        })
    }

    fn burst_receive(&mut self, size: usize, tally: &mut Tally, stop: &Stop) -> Result<()> {
        self.prepare(size);
        let stream = self.stream.as_mut().context("not joined")?;
        let mut idle = Idle::default();
        while stop.messages().is_none_or(|sent| tally.messages() < sent) {
            match read(stream, &mut self.sink)? {
                Some(bytes) => {
                    idle = Idle::default();
                    tally.add(bytes as u64);
                }
                None => {
                    tally.pause();
                    if stop.is_raised() && idle.longer_than(PATIENCE) {
                        bail!("what was sent does not arrive");
                    }
                }
            }
        }
        Ok(())
    }

    fn ask(&mut self, request: usize, answer: usize, stop: &Stop) -> Result<Delivery> {
        self.prepare(request.max(answer));
        let mut stream = self.connect()?;
        write_all(&mut stream, &self.source[..request])?;
        read_exact(&mut stream, &mut self.sink[..answer], Role::Client, stop)
    }

    fn answer(&mut self, request: usize, answer: usize, stop: &Stop) -> Result<Delivery> {
        self.prepare(request.max(answer));
        let Some(mut stream) = self.accept(|| stop.is_raised())? else {
            return Ok(Delivery::Stopped);
        };
        let sink = &mut self.sink[..request];
        let delivery = read_exact(&mut stream, sink, Role::Client, stop)?;
        write_all(&mut stream, &self.source[..answer])?;
        Ok(delivery)
    }
}

/// A socket with a congestion control.
pub fn socket(addr: SocketAddr, congestion: &str) -> Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None)?;
    socket
        .set_tcp_congestion(congestion.as_bytes())
        .with_context(|| {
            format!("this system does not offer TCP's congestion control {congestion}")
        })?;
    socket
        .bind(&addr.into())
        .with_context(|| format!("cannot bind to {addr}"))?;
    Ok(socket)
}

fn listen(bind: IpAddr, congestion: &str) -> Result<Socket> {
    let socket = socket(SocketAddr::new(bind, 0), congestion)?;
    socket.listen(128)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Makes a connected socket what all of them are here.
pub fn ready(socket: Socket) -> Result<TcpStream> {
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Writes all, spinning where the system takes no more.
pub fn write_all(stream: &mut TcpStream, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(taken) => bytes = &bytes[taken..],
            Err(error) if is_passing(error.kind()) => {}
            Err(error) => return Err(error).context("cannot send"),
        }
    }
    Ok(())
}

/// Reads what is there, if anything.
pub fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<Option<usize>> {
    match stream.read(buffer) {
        Ok(0) => bail!("the other end has closed the connection"),
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if is_passing(error.kind()) => Ok(None),
        Err(error) => Err(error).context("cannot receive"),
    }
}

/// Reads a whole message. A server waits for its beginning until it is told to stop; what has
/// begun, or is owed to a client, must come.
fn read_exact(
    stream: &mut TcpStream,
    buffer: &mut [u8],
    role: Role,
    stop: &Stop,
) -> Result<Delivery> {
    let mut idle = Idle::default();
    let mut have = 0;
    while have < buffer.len() {
        if let Some(bytes) = read(stream, &mut buffer[have..])? {
            idle = Idle::default();
            have += bytes;
        } else if have == 0 && role == Role::Server {
            if stop.is_raised() {
                return Ok(Delivery::Stopped);
            }
        } else if idle.longer_than(PATIENCE) {
            bail!("nothing has come for {PATIENCE:?}");
        }
    }
    Ok(Delivery::Message)
}

fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
