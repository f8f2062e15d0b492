//! A rank's side of a rendezvous.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{IpAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use super::Host;
use super::frames::{End, Frames};
use super::refusals::Refusals;
use super::server::{Reply, Request};
use super::stream::Stream;
use crate::start::Meeting;
use crate::store::Store;
use crate::{Departure, Error, Launcher};

/// How long to wait before rank 0 is called again that did not answer.
const AGAIN: Duration = Duration::from_millis(50);
/// How long leaving may take. A host in rank 0 should end after what it owes the others is sent.
const GOODBYE: Duration = Duration::from_secs(1);

/// A rank's connection to the host.
#[derive(Debug)]
pub struct Client {
    launcher: Launcher,
    stream: Stream,
    frames: Frames,
    values: HashMap<(u32, String), String>,
    departures: Vec<Departure>,
    /// Those among them that the program has not been told of.
    untold: usize,
    fenced: bool,
    missing: Option<Vec<u32>>,
    /// Those that the host in this process has turned away.
    refusals: Refusals,
    left: bool,
    patience: Duration,
}

impl Client {
    /// Joins through the socket pair that `sabani run` has left open. Returns the job key as well.
    ///
    /// # Errors
    /// If the launcher is gone or refuses.
    pub fn inherited(
        fd: OwnedFd,
        rank: u32,
        size: u32,
        patience: Duration,
    ) -> Result<(Self, Option<String>), Error> {
        let stream = Stream::Unix(UnixStream::from(fd));
        let mut client = Self::new(Launcher::Run, stream, Frames::private(), patience);
        let job_key = client.join((rank, size), Instant::now() + patience)?;
        Ok((client, job_key))
    }

    /// Joins over TCP. Rank 0 becomes the host, in a thread of its own.
    ///
    /// # Errors
    /// If rank 0 can't be reached in time, or has another job key.
    pub fn meet(meeting: &Meeting, job_key: &str, patience: Duration) -> Result<Self, Error> {
        let failed = |doing: String, problem: String| Error::Launcher {
            launcher: meeting.launcher,
            doing,
            problem,
        };
        let address = &meeting.address;
        let deadline = Instant::now() + patience;
        let mut refusals = Refusals::default();
        if meeting.rank == 0 {
            let host = listen(address)
                .and_then(|listener| Host::listening(meeting.size, listener, job_key.to_owned()));
            let doing = format!("rank 0 waiting for the others at {address}");
            let host = host.map_err(|error| failed(doing, error.to_string()))?;
            refusals = host.refusals();
            let thread = thread::Builder::new().name("sabani-rendezvous".into());
            thread
                .spawn(move || host.serve())
                .map_err(|error| failed("starting a thread".into(), error.to_string()))?;
        }
        let stream = call(address, deadline, patience)
            .map_err(|problem| failed(format!("reaching rank 0 at {address}"), problem))?;
        let mut nonce = [0; 32];
        getrandom::fill(&mut nonce).map_err(|error| {
            failed("asking the system for randomness".into(), error.to_string())
        })?;
        let frames = Frames::guarded(End::Rank, job_key, nonce);
        let mut client = Self::new(meeting.launcher, Stream::Tcp(stream), frames, patience);
        client.refusals = refusals;
        client.join((meeting.rank, meeting.size), deadline)?;
        Ok(client)
    }

    fn new(launcher: Launcher, stream: Stream, frames: Frames, patience: Duration) -> Self {
        Self {
            launcher,
            stream,
            frames,
            values: HashMap::new(),
            departures: Vec::new(),
            untold: 0,
            fenced: false,
            missing: None,
            refusals: Refusals::default(),
            left: false,
            patience,
        }
    }

    /// This side's address on the way to the host, if that leads over a network.
    pub fn local_address(&self) -> Option<IpAddr> {
        match &self.stream {
            Stream::Unix(_) => None,
            Stream::Tcp(stream) => stream.local_addr().ok().map(|address| address.ip()),
        }
    }

    /// Takes this rank's place, and returns the job key if the host gives one.
    fn join(
        &mut self,
        (rank, size): (u32, u32),
        deadline: Instant,
    ) -> Result<Option<String>, Error> {
        let doing = "joining the job";
        while !self.frames.is_begun() {
            self.write(doing)?;
            self.hear(doing, deadline)?;
        }
        self.say(&Request::Join { rank, size }, doing)?;
        let reply = loop {
            match self.next(doing)? {
                Some(reply) => break reply,
                None => self.hear(doing, deadline)?,
            }
        };
        match reply {
            Reply::Welcome { job_key } => Ok(job_key),
            Reply::Refused(why) => Err(self.failed(doing, why)),
            other => Err(self.failed(doing, format!("it answers {other:?}"))),
        }
    }

    fn failed(&self, doing: &str, problem: impl Into<String>) -> Error {
        Error::Launcher {
            launcher: self.launcher,
            doing: doing.into(),
            problem: problem.into(),
        }
    }

    /// The host is there, and says nothing.
    fn silence(&self, doing: &str) -> Error {
        let (who, else_) = match self.launcher {
            Launcher::Run => ("it", ""),
            _ => ("rank 0", ", or does another program answer at its address"),
        };
        let waited = self.patience;
        let problem = format!(
            "{who} says nothing, for {waited:?}: is it stopped{else_}? SABANI_START_TIMEOUT \
             (seconds) waits longer"
        );
        self.failed(doing, problem)
    }

    fn say(&mut self, request: &Request, doing: &str) -> Result<(), Error> {
        self.frames.push(request);
        self.write(doing)
    }

    fn write(&mut self, doing: &str) -> Result<(), Error> {
        let written = self.frames.write(&mut self.stream);
        written.map_err(|error| self.failed(doing, error.to_string()))
    }

    /// Reads once what must come by then.
    fn hear(&mut self, doing: &str, deadline: Instant) -> Result<(), Error> {
        match self.read_by(doing, deadline)? {
            true => Ok(()),
            false => Err(self.silence(doing)),
        }
    }

    /// Reads once; `false` if nothing came by then.
    fn read_by(&mut self, doing: &str, deadline: Instant) -> Result<bool, Error> {
        let left = deadline.saturating_duration_since(Instant::now());
        // As a timeout, nothing would mean forever.
        if left.is_zero() {
            return Ok(false);
        }
        let set = self.stream.set_read_timeout(Some(left));
        set.map_err(|error| self.failed(doing, error.to_string()))?;
        self.read(doing)
    }

    /// Reads once; `false` if nothing came in time.
    fn read(&mut self, doing: &str) -> Result<bool, Error> {
        match self.frames.read(&mut self.stream) {
            Ok(true) => Ok(true),
            Ok(false) => Err(self.failed(
                doing,
                "the connection has ended: has every rank the same job key, and is rank 0 alive?",
            )),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(self.failed(doing, error.to_string())),
        }
    }

    fn next(&mut self, doing: &str) -> Result<Option<Reply>, Error> {
        let next = self.frames.next();
        next.map_err(|problem| self.failed(doing, format!("it sends {problem}")))
    }

    /// Takes notice of what has come.
    fn take_replies(&mut self, doing: &str) -> Result<(), Error> {
        while let Some(reply) = self.next(doing)? {
            match reply {
                Reply::Fenced(values) => {
                    let values = values.into_iter();
                    self.values
                        .extend(values.map(|(rank, key, value)| ((rank, key), value)));
                    self.fenced = true;
                }
                Reply::Missing(ranks) => self.missing = Some(ranks),
                Reply::Farewell => self.left = true,
                Reply::Left(departure) => self.departures.push(departure),
                Reply::Welcome { .. } | Reply::Refused(_) => {}
            }
        }
        Ok(())
    }

    fn is_fence_over(&self) -> bool {
        self.fenced || !self.departures.is_empty()
    }

    /// Fails with those who have not come, unless the last ones came before the question did.
    fn ask_who_is_missing(&mut self, doing: &str) -> Result<(), Error> {
        self.missing = None;
        self.say(&Request::WhoIsMissing, doing)?;
        if !self.wait(doing, |client| client.missing.is_some())? {
            return Err(self.silence(doing));
        }
        if self.is_fence_over() {
            return Ok(());
        }
        Err(Error::Missing {
            ranks: self.missing.take().unwrap_or_default(),
            waited: self.patience,
            turned_away: self.refusals.told(),
        })
    }

    /// Waits until `is` holds; `false` when the time is over.
    fn wait(&mut self, doing: &str, is: impl Fn(&Self) -> bool) -> Result<bool, Error> {
        let deadline = Instant::now() + self.patience;
        loop {
            self.take_replies(doing)?;
            if is(self) {
                return Ok(true);
            }
            if !self.read_by(doing, deadline)? {
                return Ok(false);
            }
        }
    }
}

impl Store for Client {
    fn put(&mut self, key: &str, value: &str) -> Result<(), Error> {
        let request = Request::Put {
            key: key.into(),
            value: value.into(),
        };
        self.say(&request, "putting a value")
    }

    fn fence(&mut self) -> Result<(), Error> {
        let doing = "waiting for all ranks";
        self.fenced = false;
        self.say(&Request::Fence, doing)?;
        if !self.wait(doing, Self::is_fence_over)? {
            self.ask_who_is_missing(doing)?;
        }
        match self.departures.first() {
            Some(departure) if !self.fenced => Err(Error::Left(departure.clone())),
            _ => Ok(()),
        }
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<String, Error> {
        let value = self.values.get(&(rank, key.to_owned())).cloned();
        value.ok_or_else(|| self.failed("getting a value", format!("rank {rank} put no `{key}`")))
    }

    fn departures(&mut self) -> Vec<Departure> {
        let doing = "looking who has ended";
        // A host that is gone has nothing more to tell; the connections to its rank break as well.
        let _ = self.stream.set_nonblocking(true);
        while let Ok(true) = self.read(doing) {}
        let _ = self.take_replies(doing);
        let _ = self.stream.set_nonblocking(false);
        let untold = self.departures[self.untold..].to_vec();
        self.untold = self.departures.len();
        untold
    }

    fn fail(&mut self, why: &str) {
        self.abort(1, why);
    }

    fn abort(&mut self, status: i32, why: &str) {
        let why = why.into();
        let _ = self.say(&Request::Abort { status, why }, "aborting");
    }

    fn finish(&mut self) {
        let doing = "leaving";
        self.patience = GOODBYE;
        // A launcher that is gone needs no goodbye.
        let _ = self
            .say(&Request::Leave, doing)
            .and_then(|()| self.wait(doing, |client| client.left));
    }
}

/// Listens at the address, or, if it is no address of this host, as a service's may be, at its port.
fn listen(address: &str) -> std::io::Result<TcpListener> {
    let port = address
        .rsplit_once(':')
        .and_then(|(_, port)| port.parse().ok());
    let port: u16 = port.ok_or_else(|| std::io::Error::other("expected host:port"))?;
    match TcpListener::bind(address) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => Err(error),
        Err(_) => TcpListener::bind(("::", port)).or_else(|_| TcpListener::bind(("0.0.0.0", port))),
        bound => bound,
    }
}

/// Calls rank 0 until it answers: it may start later, and its name may become known later.
fn call(address: &str, deadline: Instant, patience: Duration) -> Result<TcpStream, String> {
    loop {
        let problem = match try_call(address, deadline) {
            Ok(stream) => return Ok(stream),
            Err(error) => error.to_string(),
        };
        if Instant::now() + AGAIN >= deadline {
            return Err(format!(
                "{problem}, for {patience:?}: is rank 0 running, is the address right, and does \
                 the network let TCP through?"
            ));
        }
        thread::sleep(AGAIN);
    }
}

fn try_call(address: &str, deadline: Instant) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::other("no address is known for this name");
    for address in address.to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now());
        match TcpStream::connect_timeout(&address, left.max(AGAIN)) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(patience: Duration) -> (Client, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let stream = Stream::Unix(ours);
        let client = Client::new(Launcher::Run, stream, Frames::private(), patience);
        (client, theirs)
    }

    #[test]
    fn a_host_that_says_nothing_is_told_from_ranks_that_do_not_come() {
        let (mut client, _theirs) = pair(Duration::from_millis(5));
        let why = client.fence().unwrap_err().to_string();
        assert!(
            why.contains("it says nothing, for 5ms: is it stopped?"),
            "{why}"
        );
    }

    #[test]
    fn those_who_came_before_the_question_are_not_missing() {
        let (mut client, mut theirs) = pair(Duration::from_secs(20));
        let mut frames = Frames::private();
        frames.push(&Reply::Fenced(Vec::new()));
        frames.push(&Reply::Missing(vec![0, 1]));
        frames.write(&mut theirs).unwrap();
        client.ask_who_is_missing("waiting").unwrap();
        assert!(client.fenced);
        frames.push(&Reply::Missing(vec![1]));
        frames.write(&mut theirs).unwrap();
        client.fenced = false;
        let why = client.ask_who_is_missing("waiting").unwrap_err();
        assert!(why.to_string().contains("ranks [1] have not come"));
    }
}
