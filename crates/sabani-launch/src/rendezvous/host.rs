//! The host's sockets.

use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{Backlog, listen};

use super::frames::{End, Frames, Value};
use super::refusals::Refusals;
use super::server::{Outgoing, Refusal, Reply, Request, Server};
use super::stream::Stream;
use crate::Departure;

/// Connections of strangers at a time, beside as many as there are ranks: a bound on the memory that they can take.
const STRANGERS_MAX: usize = 256;
/// So long somebody may take to say who it is, if others can't come in meanwhile.
const STRANGER: Duration = Duration::from_secs(2);
/// How long nobody is let in once there was no room for a connection.
const FULL: Duration = Duration::from_millis(10);

#[derive(Debug)]
struct Connection {
    stream: Stream,
    /// Where it comes from, if that is not this host's own child.
    from: Option<IpAddr>,
    frames: Frames,
    since: Instant,
    /// Whose place this is, once that is known.
    place: Option<u32>,
    /// Whether the rank has joined through it.
    joined: bool,
    open: bool,
}

impl Connection {
    fn new(stream: Stream, from: Option<IpAddr>, frames: Frames, place: Option<u32>) -> Self {
        Self {
            stream,
            from,
            frames,
            since: Instant::now(),
            place,
            joined: false,
            open: true,
        }
    }

    /// The next one who calls.
    fn accept(listener: &TcpListener, job_key: &str) -> Result<Self> {
        let (stream, from) = listener.accept()?;
        stream.set_nonblocking(true)?;
        // Better late than not at all.
        let _ = stream.set_nodelay(true);
        let mut nonce = [0; 32];
        getrandom::fill(&mut nonce).map_err(Error::other)?;
        let frames = Frames::guarded(End::Host, job_key, nonce);
        let from = from.ip().to_canonical();
        Ok(Self::new(Stream::Tcp(stream), Some(from), frames, None))
    }

    /// Whether it may be anybody.
    fn is_stranger(&self) -> bool {
        self.open && self.place.is_none()
    }
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
        // All may call at once, and who finds no room in the queue tries again a second later only.
        listen(&listener, Backlog::MAXALLOWABLE)?;
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
        let connection = Connection::new(Stream::Unix(ours), None, Frames::private(), Some(rank));
        self.connections.push(connection);
        Ok(theirs)
    }

    /// What to wait for.
    pub fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let listener = match &self.door {
            // Who calls a full house waits outside.
            Door::Listener(listener, _) if self.room() > 0 => {
                Some(PollFd::new(listener.as_fd(), PollFlags::POLLIN))
            }
            Door::Listener(..) | Door::Children => None,
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
        // What has come counts before it is judged who says nothing.
        for at in 0..self.connections.len() {
            self.read(at);
        }
        self.accept();
        for at in 0..self.connections.len() {
            let Connection { stream, frames, .. } = &mut self.connections[at];
            if frames.write(stream).is_err() && self.connections[at].open {
                // Its last words may have come meanwhile.
                self.read(at);
                if std::mem::take(&mut self.connections[at].open) {
                    self.lose(at);
                }
            }
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
            let _ = poll(&mut fds, self.timeout());
            drop(fds);
            self.progress();
        }
    }

    /// How many more strangers are let in.
    fn room(&self) -> usize {
        let strangers = self.connections.iter().filter(|c| c.is_stranger());
        (STRANGERS_MAX + self.server.size()).saturating_sub(strangers.count())
    }

    /// Until somebody has to go who keeps others out.
    fn timeout(&self) -> PollTimeout {
        if self.room() > 0 {
            return PollTimeout::NONE;
        }
        let strangers = self.connections.iter().filter(|c| c.is_stranger());
        let longest = strangers.map(|c| c.since.elapsed()).max();
        let left = STRANGER.saturating_sub(longest.unwrap_or_default());
        // Rounded up, or the last millisecond would be spent asking.
        PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
    }

    fn accept(&mut self) {
        if self.room() == 0 {
            self.show_out();
        }
        let Door::Listener(listener, job_key) = &self.door else {
            return;
        };
        let room = self.room();
        for _ in 0..room {
            match Connection::accept(listener, job_key) {
                Ok(connection) => self.connections.push(connection),
                Err(error) => return self.cannot_accept(&error),
            }
        }
        if room > 0 {
            self.refuse_all(&format!(
                "{} have called and not said who they are: the next ones wait until these are sent away",
                STRANGERS_MAX + self.server.size()
            ));
        }
    }

    /// Ends the connections of those who have not said who they are for too long.
    fn show_out(&mut self) {
        for connection in &mut self.connections {
            if connection.is_stranger() && connection.since.elapsed() >= STRANGER {
                connection.open = false;
                if let Some(from) = connection.from {
                    let why =
                        format!("it did not say who it is within {STRANGER:?}, and others waited");
                    self.refusals.add(from, &why);
                }
            }
        }
    }

    /// Nobody is there to be let in, or there is no room: then whoever waits is told why, and the door is left alone for a while, for it would be
    /// found open again at once. It ends nothing: anybody may knock.
    fn cannot_accept(&mut self, error: &Error) {
        let Some(why) = why_full(error) else {
            return;
        };
        self.refuse_all(&why);
        self.show_out();
        thread::sleep(FULL);
    }

    /// Notes that nobody is let in, whoever it is.
    fn refuse_all(&self, why: &str) {
        if let Door::Listener(listener, _) = &self.door
            && let Ok(address) = listener.local_addr()
        {
            self.refusals.add(address.ip(), why);
        }
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
        self.connections[at].open &= !ended;
        if !self.connections[at].open {
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

    fn send(&mut self, Outgoing { to, replies }: Outgoing) {
        // Written once: what all are told of all at a fence would fill the memory.
        let replies: Vec<_> = replies.iter().map(Value::of).collect();
        if replies.is_empty() {
            return;
        }
        let is_meant = |connection: &&mut Connection| {
            let place = connection.place.filter(|_| connection.joined);
            place.is_some_and(|place| to.binary_search(&place).is_ok())
        };
        for connection in self.connections.iter_mut().filter(is_meant) {
            for reply in &replies {
                connection.frames.share(reply);
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
    use std::net::{SocketAddr, TcpStream};

    use super::*;

    #[test]
    fn a_lack_of_descriptors_is_told_with_its_cure_and_an_empty_door_is_not() {
        let why = |errno: Errno| why_full(&Error::from(errno));
        assert_eq!(why(Errno::EAGAIN), None);
        assert_eq!(why(Errno::ECONNABORTED), None);
        assert!(why(Errno::EMFILE).unwrap().contains("`ulimit -n`"));
        assert!(why(Errno::ENFILE).unwrap().contains("open files"));
    }

    /// A host at a port of this machine's.
    fn host(size: u32) -> (Host, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (
            Host::listening(size, listener, "key".into()).unwrap(),
            address,
        )
    }

    /// So many who call, and wait until the host has let them in.
    fn callers(host: &mut Host, address: SocketAddr, count: usize) -> Vec<TcpStream> {
        let callers = (0..count).map(|_| {
            let caller = TcpStream::connect(address).unwrap();
            host.progress();
            caller
        });
        callers.collect()
    }

    #[test]
    fn as_many_strangers_are_let_in_as_there_are_ranks_and_some_more() {
        let (mut host, address) = host(100);
        let _callers = callers(&mut host, address, 100 + STRANGERS_MAX);
        assert_eq!(host.connections.len(), 100 + STRANGERS_MAX);
        assert!(host.refusals().told()[0].contains("356 have called"));
    }

    #[test]
    fn who_is_silent_goes_when_others_wait() {
        let (mut host, address) = host(2);
        let silent = callers(&mut host, address, 2 + STRANGERS_MAX);
        let waiting = TcpStream::connect(address).unwrap();
        host.progress();
        assert_eq!(host.connections.len(), silent.len());
        // The door does not wake the host before somebody has to go.
        assert_eq!(host.poll_fds().count(), silent.len());
        assert!(host.timeout() <= PollTimeout::from(2_001_u16));
        let old = Instant::now().checked_sub(STRANGER).unwrap();
        for connection in &mut host.connections[..10] {
            connection.since = old;
        }
        host.progress();
        assert_eq!(host.connections.len(), silent.len() - 9);
        let Stream::Tcp(last) = &host.connections.last().unwrap().stream else {
            panic!("it came over TCP");
        };
        assert_eq!(last.peer_addr().unwrap(), waiting.local_addr().unwrap());
        let told = host.refusals().told();
        assert!(
            told[1].contains("did not say who it is") && told[1].ends_with("(10 times)"),
            "{told:?}"
        );
        assert_eq!(host.timeout(), PollTimeout::NONE);
    }
}
