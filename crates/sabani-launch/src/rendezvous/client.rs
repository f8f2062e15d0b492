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
use super::server::{Refusal, Reply, Request};
use super::stream::Stream;
use crate::start::Meeting;
use crate::store::Store;
use crate::{Departure, Error, Launcher};

/// How long to wait before rank 0 is called again that did not answer.
const AGAIN: Duration = Duration::from_millis(50);
/// Where its calls end without a word, it is called less and less often: so often at least.
const AGAIN_MAX: Duration = Duration::from_secs(1);
/// How long one of its addresses is tried: another one may be that at which it can be reached.
const CALL_MAX: Duration = Duration::from_secs(3);
/// How long leaving may take. A host in rank 0 should end after what it owes the others is sent.
const GOODBYE: Duration = Duration::from_secs(1);

/// So often in a row a call may end, without a word, behind what this rank has to say: once as rank 0 ends a program,
/// but each time if it has another job key.
const ENDED_MAX: u32 = 4;
const JOINING: &str = "joining the job";

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
    /// Whether the connection is of no more use.
    has_ended: bool,
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
        match client.join((rank, size), Instant::now() + patience)? {
            Ok(job_key) => Ok((client, job_key)),
            Err(refusal) => Err(client.failed(JOINING, refusal.why)),
        }
    }

    /// Joins over TCP. Rank 0 becomes the host, in a thread of its own.
    ///
    /// # Errors
    /// If rank 0 can't be reached in time, or has another job key.
    pub fn meet(meeting: &Meeting, job_key: &str, patience: Duration) -> Result<Self, Error> {
        let deadline = Instant::now() + patience;
        let refusals = match meeting.rank {
            0 => host(meeting, job_key)?,
            _ => Refusals::default(),
        };
        let (mut pause, mut ended) = (AGAIN, 0);
        loop {
            let mut client = Self::call(meeting, job_key, deadline, patience)?;
            client.refusals = refusals.clone();
            let error = match client.join((meeting.rank, meeting.size), deadline) {
                Ok(Ok(_)) => return Ok(client),
                Ok(Err(refusal)) => {
                    let error = client.failed(JOINING, refusal.why);
                    if !refusal.again {
                        return Err(error);
                    }
                    // The line is held: it ends with the program before.
                    while let Ok(true) = client.read_by(JOINING, deadline) {}
                    (pause, ended) = (AGAIN, 0);
                    error
                }
                Err(error) => {
                    ended += u32::from(client.frames.is_begun());
                    if !client.has_ended || ended == ENDED_MAX {
                        return Err(error);
                    }
                    error
                }
            };
            if Instant::now() + pause >= deadline {
                return Err(error);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(AGAIN_MAX);
        }
    }

    fn call(
        meeting: &Meeting,
        job_key: &str,
        deadline: Instant,
        patience: Duration,
    ) -> Result<Self, Error> {
        let address = &meeting.address;
        let stream = call(address, deadline, patience)
            .map_err(|problem| meeting.failed(&format!("reaching rank 0 at {address}"), problem))?;
        let mut nonce = [0; 32];
        getrandom::fill(&mut nonce).map_err(|error| {
            meeting.failed("asking the system for randomness", error.to_string())
        })?;
        let frames = Frames::guarded(End::Rank, job_key, nonce);
        let stream = Stream::Tcp(stream);
        Ok(Self::new(meeting.launcher, stream, frames, patience))
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
            has_ended: false,
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

    /// Takes this rank's place, and returns the job key if the host gives one; or what the host has
    /// against it.
    fn join(
        &mut self,
        (rank, size): (u32, u32),
        deadline: Instant,
    ) -> Result<Result<Option<String>, Refusal>, Error> {
        let doing = JOINING;
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
            Reply::Welcome { job_key } => Ok(Ok(job_key)),
            Reply::Refused(refusal) => Ok(Err(refusal)),
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
        let (who, or) = match self.launcher {
            Launcher::Run => ("it", ""),
            _ => ("rank 0", ", or does another program answer at its address"),
        };
        let waited = self.patience;
        let problem = format!(
            "{who} says nothing, for {waited:?}: is it stopped{or}? SABANI_START_TIMEOUT \
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
        written.map_err(|error| self.ended(doing, error.to_string()))
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
            Ok(false) => Err(self.ended(doing, "the connection has ended".into())),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(self.ended(doing, error.to_string())),
        }
    }

    fn ended(&mut self, doing: &str, problem: String) -> Error {
        self.has_ended = true;
        let cure = match self.launcher {
            Launcher::Run => "is it alive?",
            _ => "has every rank the same job key, and is rank 0 alive?",
        };
        self.failed(doing, format!("{problem}: {cure}"))
    }

    fn next(&mut self, doing: &str) -> Result<Option<Reply>, Error> {
        let next = self.frames.next();
        next.map_err(|problem| self.failed(doing, format!("it sends {problem}")))
    }

    /// Takes notice of what has come.
    fn take_replies(&mut self, doing: &str) -> Result<(), Error> {
        while let Some(reply) = self.next(doing)? {
            match reply {
                Reply::Values(values) => {
                    let values = values.into_iter();
                    self.values
                        .extend(values.map(|(rank, key, value)| ((rank, key), value)));
                }
                Reply::Fenced => self.fenced = true,
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

/// Begins to wait for the others of a meeting, in a thread.
fn host(meeting: &Meeting, job_key: &str) -> Result<Refusals, Error> {
    let address = &meeting.address;
    let host = listen(address)
        .and_then(|listener| Host::listening(meeting.size, listener, job_key.to_owned()))
        .map_err(|error| {
            let doing = format!("rank 0 waiting for the others at {address}");
            meeting.failed(&doing, error.to_string())
        })?;
    let refusals = host.refusals();
    thread::Builder::new()
        .name("sabani-rendezvous".into())
        .spawn(move || host.serve())
        .map_err(|error| meeting.failed("starting a thread", error.to_string()))?;
    Ok(refusals)
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
        match TcpStream::connect_timeout(&address, left.clamp(AGAIN, CALL_MAX)) {
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
    use std::io::{Read, Write};
    use std::sync::mpsc::{TryRecvError, channel};

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
        frames.push(&Reply::Fenced);
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

    const PATIENCE: Duration = Duration::from_secs(20);

    /// Rank 1 of two, and where it expects rank 0.
    fn meeting() -> (Meeting, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let meeting = Meeting {
            launcher: Launcher::Rendezvous,
            rank: 1,
            size: 2,
            address: listener.local_addr().unwrap().to_string(),
        };
        (meeting, listener)
    }

    /// Ends a call once the rank has said what it has to say.
    fn hear_and_end(listener: &TcpListener) {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&[7; 32]).unwrap();
        stream.read_exact(&mut [0; 40]).unwrap();
    }

    #[test]
    fn a_call_that_ends_without_a_word_is_made_again() {
        let (meeting, listener) = meeting();
        let (all, done) = channel::<()>();
        let host = thread::spawn(move || {
            for _ in 0..ENDED_MAX + 1 {
                drop(listener.accept().unwrap());
            }
            hear_and_end(&listener);
            let mut host = Host::listening(2, listener, "key".into()).unwrap();
            while let Err(TryRecvError::Empty) = done.try_recv() {
                host.progress();
                thread::yield_now();
            }
        });
        Client::meet(&meeting, "key", PATIENCE).unwrap();
        drop(all);
        host.join().unwrap();
    }

    #[test]
    fn who_is_cut_off_each_time_gives_up_early() {
        let (meeting, listener) = meeting();
        let host = thread::spawn(move || {
            (0..ENDED_MAX).for_each(|_| hear_and_end(&listener));
            listener
        });
        let why = Client::meet(&meeting, "key", PATIENCE).unwrap_err();
        assert!(why.to_string().contains("the same job key"), "{why}");
        let listener = host.join().unwrap();
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "called once more");
    }

    #[test]
    fn a_rank_whose_stream_is_spoilt_has_ended_for_the_others() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let join = |rank| {
            let meeting = Meeting {
                launcher: Launcher::Rendezvous,
                rank,
                size: 2,
                address: address.clone(),
            };
            Client::meet(&meeting, "key", PATIENCE).unwrap()
        };
        let (mut first, mut second) = (join(0), join(1));
        second.stream.write_all(&[9; 64]).unwrap();
        let deadline = Instant::now() + PATIENCE;
        let mut departures = Vec::new();
        while departures.is_empty() && Instant::now() < deadline {
            departures = first.departures();
            thread::yield_now();
        }
        assert_eq!(departures.len(), 1);
        assert!(departures[0].rank == 1 && departures[0].failed);
    }
}
