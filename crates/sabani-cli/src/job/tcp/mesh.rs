//! Streams between all ranks, and a collective on its way over them.

use std::{
    collections::VecDeque,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::fd::AsFd,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sabani::Comm;
use sabani_collective::execute::{Exchange, Handled, Header, StepId};
use sabani_ring::{give_way, is_crowded};
use socket2::{SockRef, Socket};

use super::link::Link;
use crate::bench::transport::tcp;

/// How long a rank looks for messages before it sleeps, letting others have its core between two looks: as
/// long as those of a [`Comm`] that share cores.
const SPIN: Duration = Duration::from_micros(300);
/// How long a rank waits for the others.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes in which a rank tells its address.
const ADDRESS_BYTES: usize = 64;
/// What a rank says first: the job's token and who it is.
const HELLO_BYTES: usize = 12;

/// One rank's streams.
pub struct Mesh {
    rank: usize,
    /// To each rank; none to itself.
    links: Vec<Option<Link>>,
    /// What has come before its turn.
    early: VecDeque<(usize, Vec<u8>)>,
    spin: Duration,
}

impl Mesh {
    /// Connects all ranks of a job.
    ///
    /// # Errors
    /// If the system does not offer the congestion control, or ranks can't reach each other.
    pub fn connect(comm: &Comm, congestion: &str, spin: Option<Duration>) -> Result<Self> {
        let here = SocketAddr::new(comm.node().local_addr().ip(), 0);
        let listener = listen(here, congestion)?;
        let mut own = [0; ADDRESS_BYTES];
        let text = address(&listener)?.to_string();
        own[..text.len()].copy_from_slice(text.as_bytes());
        let mut all = vec![0; ADDRESS_BYTES * comm.size()];
        comm.allgather(&own, &mut all)?;
        let parse = |bytes: &[u8]| -> Result<SocketAddr> {
            Ok(std::str::from_utf8(bytes)?.trim_end_matches('\0').parse()?)
        };
        let addresses: Vec<_> = all
            .chunks(ADDRESS_BYTES)
            .map(parse)
            .collect::<Result<_>>()?;
        let mut token = [0; 8];
        if comm.rank() == 0 {
            getrandom::fill(&mut token).map_err(|error| anyhow!("no random numbers: {error}"))?;
        }
        comm.bcast(0, &mut token)?;
        let mesh = Self::join(comm.rank(), &listener, &addresses, token, congestion)?;
        Ok(Self {
            spin: spin.unwrap_or(SPIN),
            ..mesh
        })
    }

    /// Calls the ranks below, and is called by those above. Whoever does not know the token is none of them.
    fn join(
        rank: usize,
        listener: &Socket,
        addresses: &[SocketAddr],
        token: [u8; 8],
        congestion: &str,
    ) -> Result<Self> {
        let mut links: Vec<_> = addresses.iter().map(|_| None).collect();
        for (below, &address) in addresses[..rank].iter().enumerate() {
            let any = SocketAddr::new(self::address(listener)?.ip(), 0);
            let socket = tcp::socket(any, congestion)?;
            let connected = socket.connect_timeout(&address.into(), PATIENCE);
            connected.with_context(|| format!("cannot connect to rank {below} at {address}"))?;
            let hello = [&token[..], &(rank as u32).to_le_bytes()].concat();
            (&socket).write_all(&hello)?;
            links[below] = Some(Link::new(below, tcp::ready(socket)?));
        }
        listener.set_read_timeout(Some(PATIENCE))?;
        while links[rank + 1..].iter().any(Option::is_none) {
            let (socket, _) = listener
                .accept()
                .context("the ranks above do not connect")?;
            if let Some(above) = caller(&socket, token)? {
                ensure!(above > rank && above < links.len(), "rank {above} connects");
                links[above] = Some(Link::new(above, tcp::ready(socket)?));
            }
        }
        Ok(Self {
            rank,
            links,
            early: VecDeque::new(),
            spin: SPIN,
        })
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Bounds what the system keeps of each stream that has not left.
    ///
    /// # Errors
    /// Those of setsockopt(2).
    pub fn keep_at_most(&self, bytes: usize) -> Result<()> {
        for link in self.links() {
            SockRef::from(link).set_send_buffer_size(bytes)?;
        }
        Ok(())
    }

    /// Sends a message, or keeps what the system does not take now.
    ///
    /// # Errors
    /// If the rank is gone.
    pub fn post(&mut self, to: usize, pieces: [&[u8]; 2]) -> Result<()> {
        let link = self.links[to].as_mut();
        link.context("a rank sends to itself")?.send(pieces)
    }

    /// Whether something waits until the system takes more for this rank.
    pub fn is_blocked(&self, to: usize) -> bool {
        self.links[to].as_ref().is_some_and(Link::is_blocked)
    }

    /// The same for any rank.
    pub fn is_any_blocked(&self) -> bool {
        self.links().any(Link::is_blocked)
    }

    /// Takes a message that has come, or comes within this time.
    ///
    /// # Errors
    /// If a rank is gone.
    pub fn next<T>(
        &mut self,
        timeout: Duration,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        let has_come = |link: &Link| link.message().is_some();
        if !self.links().any(has_come) {
            self.poll(timeout)?;
        }
        let mut links = self.links.iter_mut().flatten();
        Ok(links.find(|link| has_come(link)).map(|link| {
            let taken = link.message().map(take);
            link.next();
            taken.expect("it has come")
        }))
    }

    /// Runs this rank's part of a collective, until the system has all that it sends.
    ///
    /// # Errors
    /// If a rank is gone, or says something else than it should.
    pub fn run(&mut self, mut exchange: Exchange) -> Result<()> {
        let mut idle = None;
        let mut under_way = Vec::new();
        loop {
            while let Some(outgoing) = exchange.poll() {
                under_way.extend(outgoing.in_step.map(|step| (outgoing.to, step)));
                self.post(outgoing.to, [&outgoing.header.encode(), outgoing.payload])?;
            }
            let complete = exchange.is_complete();
            if complete && !self.is_any_blocked() {
                return Ok(());
            }
            if !complete
                && (self.hear(&mut exchange, &mut under_way) || self.take(&mut exchange)?)
            {
                idle = None;
                continue;
            }
            if self.wait(*idle.get_or_insert_with(Instant::now))? {
                idle = None;
            }
        }
    }

    /// Tells what the system has taken of what is to keep in step: a stream does not say what has arrived. Whether it
    /// has taken any.
    fn hear(&self, exchange: &mut Exchange, under_way: &mut Vec<(usize, StepId)>) -> bool {
        let before = under_way.len();
        for (_, step) in under_way.extract_if(.., |(to, _)| !self.is_blocked(*to)) {
            exchange.arrived(step);
        }
        under_way.len() < before
    }

    fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().flatten()
    }

    /// Gives the exchange what is its own of all that has come; whether there was something.
    fn take(&mut self, exchange: &mut Exchange) -> Result<bool> {
        let mut any = false;
        for _ in 0..self.early.len() {
            if let Some((peer, message)) = self.early.pop_front() {
                match handle(exchange, peer, &message)? {
                    Handled::Taken => any = true,
                    Handled::Early | Handled::Later => self.early.push_back((peer, message)),
                }
            }
        }
        for (peer, link) in self.links.iter_mut().enumerate() {
            let Some(link) = link else { continue };
            while let Some(message) = link.message() {
                match handle(exchange, peer, message)? {
                    Handled::Taken => any = true,
                    Handled::Early | Handled::Later => self.early.push_back((peer, message.into())),
                }
                link.next();
            }
        }
        Ok(any)
    }

    /// Waits until something comes or leaves, or just looks while little time has passed since anything did, `idle`;
    /// whether something has.
    fn wait(&mut self, idle: Instant) -> Result<bool> {
        let waited = idle.elapsed();
        ensure!(
            waited < PATIENCE,
            "nothing has come for {} s",
            PATIENCE.as_secs()
        );
        let sleeps = waited >= self.spin || is_crowded();
        self.poll(if sleeps { PATIENCE } else { Duration::ZERO })
    }

    /// Sends and reads what it can, waiting so long for anything of that; whether there was something.
    fn poll(&mut self, timeout: Duration) -> Result<bool> {
        let timeout = PollTimeout::try_from(timeout)?;
        let interest = |link: &Link| match link.is_blocked() {
            true => PollFlags::POLLIN | PollFlags::POLLOUT,
            false => PollFlags::POLLIN,
        };
        let mut fds: Vec<_> = self
            .links
            .iter()
            .flatten()
            .map(|link| PollFd::new(link.as_fd(), interest(link)))
            .collect();
        let found = poll(&mut fds, timeout).or_else(|error| match error {
            nix::Error::EINTR => Ok(0),
            other => Err(other),
        })?;
        if found == 0 {
            give_way();
            return Ok(false);
        }
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(true)).collect();
        let mut any = false;
        for (link, _) in self
            .links
            .iter_mut()
            .flatten()
            .zip(ready)
            .filter(|(_, ready)| *ready)
        {
            any |= link.progress()?;
        }
        Ok(any)
    }
}

fn handle(exchange: &mut Exchange, peer: usize, message: &[u8]) -> Result<Handled> {
    let Some((header, payload)) = Header::decode(message) else {
        bail!("rank {peer} sends something else");
    };
    Ok(exchange.handle(peer, &header, payload)?)
}

/// Which rank calls; none if it does not know the token.
fn caller(socket: &Socket, token: [u8; 8]) -> Result<Option<usize>> {
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut hello = [0; HELLO_BYTES];
    let heard = TcpStream::from(socket.try_clone()?).read_exact(&mut hello);
    let (said, rank) = hello.split_at(token.len());
    if heard.is_err() || said != token {
        return Ok(None);
    }
    let rank = rank.first_chunk().context("four bytes of rank")?;
    Ok(Some(u32::from_le_bytes(*rank) as usize))
}

fn listen(here: SocketAddr, congestion: &str) -> Result<Socket> {
    let socket = tcp::socket(here, congestion)?;
    socket.listen(1024)?;
    Ok(socket)
}

fn address(listener: &Socket) -> Result<SocketAddr> {
    let address = listener.local_addr()?.as_socket();
    address.context("a TCP socket without an IP address")
}

#[cfg(test)]
pub mod tests {
    use std::thread;

    use std::net::Ipv4Addr;

    use super::*;

    /// So many ranks of this process, connected.
    pub fn meshes(ranks: usize) -> Vec<Mesh> {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listeners: Vec<_> = (0..ranks).map(|_| listen(here, "cubic").unwrap()).collect();
        let addresses: Vec<_> = listeners.iter().map(|one| address(one).unwrap()).collect();
        let addresses = &addresses;
        thread::scope(|scope| {
            let joined = listeners.iter().enumerate().map(|(rank, listener)| {
                scope.spawn(move || Mesh::join(rank, listener, addresses, [7; 8], "cubic").unwrap())
            });
            let joined: Vec<_> = joined.collect();
            joined
                .into_iter()
                .map(|mesh| mesh.join().unwrap())
                .collect()
        })
    }

    #[test]
    fn strangers_that_call_are_not_taken_for_ranks() {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = listen(here, "cubic").unwrap();
        for (said, expected) in [
            ([&[7; 8][..], &[1, 0, 0, 0]].concat(), Some(1)),
            ([&[8; 8][..], &[1, 0, 0, 0]].concat(), None),
            (vec![7; 3], None),
        ] {
            let mut stream = TcpStream::connect(address(&listener).unwrap()).unwrap();
            stream.write_all(&said).unwrap();
            drop(stream);
            let (socket, _) = listener.accept().unwrap();
            assert_eq!(caller(&socket, [7; 8]).unwrap(), expected);
        }
    }
}
