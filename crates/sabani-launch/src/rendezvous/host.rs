//! The host's sockets.

use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::frames::{End, Frames};
use super::refusals::Refusals;
use super::server::{Outgoing, Refusal, Reply, Request, Server};
use super::stream::Stream;
use crate::Departure;

/// Connections of strangers at a time: a bound on the memory that they can take.
const STRANGERS_MAX: usize = 256;
/// How long nobody is let in once there was no room for a connection.
const FULL: Duration = Duration::from_millis(10);

#[derive(Debug)]
struct Connection {
    stream: Stream,
    /// Where it comes from, if that is not this host's own child.
    from: Option<IpAddr>,
    frames: Frames,
    /// Whose place this is, once that is known.
    place: Option<u32>,
    /// Whether the rank has joined through it.
    joined: bool,
    open: bool,
}

/// Where ranks come from.
#[derive(Debug)]
enum Door {
    /// They were started with their ends of socket pairs, and who started them knows how they end.
    Children,
    /// They come over TCP, with the job key.
    Listener(TcpListener, String),
}

/// The host of a rendezvous. Non-blocking: wait for one of [`Host::poll_fds`], then call
/// [`Host::progress`].
#[derive(Debug)]
pub struct Host {
    server: Server,
    door: Door,
    connections: Vec<Connection>,
    refusals: Refusals,
    aborted: Option<(Departure, i32)>,
}

impl Host {
    /// A host for processes that this one starts: gives each the job key. Tell it with
    /// [`Host::left`] when one has ended.
    pub fn of_children(size: u32, job_key: String) -> Self {
        Self::new(Server::new(size, Some(job_key)), Door::Children)
    }

    /// A host that ranks reach over TCP and who prove that they know the job key. A connection that
    /// breaks is a rank that has ended.
    pub(crate) fn listening(size: u32, listener: TcpListener, job_key: String) -> Result<Self> {
        listener.set_nonblocking(true)?;
        let door = Door::Listener(listener, job_key);
        Ok(Self::new(Server::new(size, None), door))
    }

    fn new(server: Server, door: Door) -> Self {
        Self {
            server,
            door,
            connections: Vec::new(),
            refusals: Refusals::default(),
            aborted: None,
        }
    }

    /// Makes the socket pair of a rank that is to be started, and returns the rank's end, which is
    /// closed on `exec`.
    ///
    /// # Errors
    /// If the system has no more descriptors.
    pub fn add_child(&mut self, rank: u32) -> Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        self.connections.push(Connection {
            stream: Stream::Unix(ours),
            from: None,
            frames: Frames::private(),
            place: Some(rank),
            joined: false,
            open: true,
        });
        Ok(theirs)
    }

    /// What to wait for.
    pub fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let listener = match &self.door {
            Door::Children => None,
            Door::Listener(listener, _) => Some(PollFd::new(listener.as_fd(), PollFlags::POLLIN)),
        };
        let connections = self.connections.iter().map(|connection| {
            let mut flags = PollFlags::POLLIN;
            flags.set(PollFlags::POLLOUT, connection.frames.has_output());
            PollFd::new(connection.stream.as_fd(), flags)
        });
        listener.into_iter().chain(connections)
    }

    /// Reads, serves and writes whatever is ready.
    pub fn progress(&mut self) {
        self.accept();
        for at in 0..self.connections.len() {
            self.read(at);
        }
        for connection in &mut self.connections {
            let Connection {
                stream,
                frames,
                open,
                ..
            } = connection;
            *open &= frames.write(stream).is_ok();
        }
        self.connections.retain(|connection| connection.open);
    }

    /// A child has ended: the others are told.
    pub fn left(&mut self, departure: Departure) {
        let replies = self.server.left(departure);
        self.send(replies);
    }

    /// Who has been turned away so far, and will be.
    pub(crate) fn refusals(&self) -> Refusals {
        self.refusals.clone()
    }

    /// Who has asked to end the whole job, and with which exit status.
    pub fn aborted(&self) -> Option<&(Departure, i32)> {
        self.aborted.as_ref()
    }

    /// Serves until nobody is here any more.
    pub(crate) fn serve(mut self) {
        while !self.server.is_over() {
            let mut fds: Vec<_> = self.poll_fds().collect();
            // An interruption is followed by another look.
            let _ = poll(&mut fds, PollTimeout::NONE);
            drop(fds);
            self.progress();
        }
    }

    fn accept(&mut self) {
        let Door::Listener(listener, job_key) = &self.door else {
            return;
        };
        loop {
            let (stream, from) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) => return self.cannot_accept(listener, &error),
            };
            let strangers = self.connections.iter().filter(|c| c.place.is_none());
            let mut nonce = [0; 32];
            let refused = strangers.count() >= STRANGERS_MAX
                || stream.set_nonblocking(true).is_err()
                || getrandom::fill(&mut nonce).is_err();
            if refused {
                continue;
            }
            // Better late than not at all.
            let _ = stream.set_nodelay(true);
            self.connections.push(Connection {
                stream: Stream::Tcp(stream),
                from: Some(from.ip().to_canonical()),
                frames: Frames::guarded(End::Host, job_key, nonce),
                place: None,
                joined: false,
                open: true,
            });
        }
    }

    /// Nobody is there to be let in, or there is no room: then whoever waits is told why, and the door is left alone for a while, for it would be
    /// found open again at once. It ends nothing: anybody may knock.
    fn cannot_accept(&self, listener: &TcpListener, error: &Error) {
        let Some(why) = why_full(error) else {
            return;
        };
        if let Ok(address) = listener.local_addr() {
            self.refusals.add(address.ip(), &why);
        }
        thread::sleep(FULL);
    }

    fn read(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        let Connection { stream, frames, .. } = connection;
        let ended = match frames.read(stream) {
            Ok(true) => false,
            Ok(false) => true,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        };
        while let Some(request) = self.next_request(at) {
            self.serve_request(at, request);
        }
        if ended {
            self.connections[at].open = false;
            self.lose(at);
        }
    }

    fn next_request(&mut self, at: usize) -> Option<Request> {
        let connection = &mut self.connections[at];
        if !connection.open {
            return None;
        }
        match connection.frames.next() {
            Ok(next) => next,
            Err(why) => {
                connection.open = false;
                self.refuse(at, &format!("it sent {why}"));
                None
            }
        }
    }

    fn serve_request(&mut self, at: usize, request: Request) {
        let connection = &mut self.connections[at];
        match (request, connection.place) {
            (Request::Join { rank, size }, place) => {
                let known = place.is_none_or(|place| place == rank);
                let joined = match known {
                    true => self.server.join(rank, size, place.is_some()),
                    false => Err(Refusal::last(format!(
                        "this is the place of another rank than {rank}"
                    ))),
                };
                match joined {
                    Ok(replies) => {
                        connection.place = Some(rank);
                        connection.joined = true;
                        self.send(replies);
                    }
                    Err(refusal) => {
                        self.refuse(at, &refusal.why);
                        let frames = &mut self.connections[at].frames;
                        frames.push(&Reply::Refused(refusal));
                    }
                }
            }
            (Request::Abort { status, why }, Some(rank)) if connection.joined => {
                let departure = Departure {
                    rank,
                    why,
                    failed: true,
                };
                self.aborted.get_or_insert((departure.clone(), status));
                self.left(departure);
            }
            (request, Some(rank)) if connection.joined => {
                let replies = self.server.handle(rank, request);
                self.send(replies);
            }
            _ => connection.open = false,
        }
    }

    fn refuse(&self, at: usize, why: &str) {
        if let Some(from) = self.connections[at].from {
            self.refusals.add(from, why);
        }
    }

    /// A connection has ended. Over TCP that is all that is known of a rank's end.
    fn lose(&mut self, at: usize) {
        let connection = &self.connections[at];
        if let (Door::Listener(..), Some(rank), true) =
            (&self.door, connection.place, connection.joined)
        {
            let failed = !self.server.is_done(rank);
            let why = if failed {
                "ended without a word, or its host is out of reach"
            } else {
                "has ended"
            };
            self.left(Departure {
                rank,
                why: why.into(),
                failed,
            });
        }
    }

    fn send(&mut self, replies: Vec<Outgoing>) {
        for (to, reply) in replies {
            let joined = self
                .connections
                .iter_mut()
                .filter(|connection| connection.joined);
            for connection in joined.filter(|connection| connection.place == Some(to)) {
                connection.frames.push(&reply);
            }
        }
    }
}

/// Why nobody can be let in, unless there is just nobody.
fn why_full(error: &Error) -> Option<String> {
    let cure = match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EAGAIN | Errno::EINTR | Errno::ECONNABORTED) => return None,
        Some(Errno::EMFILE) => ": raise this process's limit (`ulimit -n`)",
        _ => "",
    };
    Some(format!("nobody can be let in: {error}{cure}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_descriptors_is_told_with_its_cure_and_an_empty_door_is_not() {
        let why = |errno: Errno| why_full(&Error::from(errno));
        assert_eq!(why(Errno::EAGAIN), None);
        assert_eq!(why(Errno::ECONNABORTED), None);
        assert!(why(Errno::EMFILE).unwrap().contains("`ulimit -n`"));
        assert!(why(Errno::ENFILE).unwrap().contains("open files"));
    }
}
