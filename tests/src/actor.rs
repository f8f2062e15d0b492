//! The director's end of an actor.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command as Process, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::{Arrival, Command, Host, Reply, Setup, Snapshot};

/// Long enough for any machine; tests that pass never wait for it.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A process with a node. Killed when dropped.
#[derive(Debug)]
pub struct Actor {
    child: Child,
    input: ChildStdin,
    replies: Receiver<Reply>,
    addr: SocketAddr,
}

impl Actor {
    /// Starts the program, in a namespace if one is given, and opens its node.
    ///
    /// # Panics
    /// If that fails; so do all methods when the actor does not answer as it should.
    pub fn start(program: &str, host: Option<&Host>, setup: &Setup) -> Self {
        let program = Path::new(program);
        let mut command = match host {
            Some(host) => host.command(program),
            None => Process::new(program),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("an actor starts");
        let input = child.stdin.take().expect("its input is piped");
        let output = BufReader::new(child.stdout.take().expect("its output is piped"));
        let (sender, replies) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let reply = serde_json::from_str(&line).expect("actors speak the protocol");
                if sender.send(reply).is_err() {
                    break;
                }
            }
        });
        let mut actor = Actor {
            child,
            input,
            replies,
            addr: setup.bind,
        };
        actor.addr = match actor.ask(&Command::Open(setup.clone())) {
            Reply::Opened(addr) => addr,
            other => panic!("opening: {other:?}"),
        };
        actor
    }

    /// Where its node is.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Has it begin something.
    pub fn tell(&mut self, command: &Command) {
        let line = serde_json::to_string(command).expect("commands are plain data");
        writeln!(self.input, "{line}").expect("the actor lives");
    }

    /// Waits for its answer.
    pub fn reply(&mut self) -> Reply {
        match self.replies.recv_timeout(PATIENCE) {
            Ok(reply) => reply,
            Err(RecvTimeoutError::Timeout) => panic!("no answer in {PATIENCE:?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("the actor has died"),
        }
    }

    /// Whether it is still at what it was told.
    pub fn is_busy(&mut self) -> bool {
        match self.replies.try_recv() {
            Ok(reply) => panic!("not busy any more: {reply:?}"),
            Err(TryRecvError::Empty) => true,
            Err(TryRecvError::Disconnected) => panic!("the actor has died"),
        }
    }

    /// Has it do something, and waits.
    pub fn ask(&mut self, command: &Command) -> Reply {
        self.tell(command);
        self.reply()
    }

    /// Waits until it has done what it was told.
    pub fn done(&mut self) {
        match self.reply() {
            Reply::Done => {}
            other => panic!("not done: {other:?}"),
        }
    }

    /// Has it do something that succeeds.
    pub fn run(&mut self, command: &Command) {
        self.tell(command);
        self.done();
    }

    /// Has it fail, and returns the error's text.
    pub fn fails(&mut self, command: &Command) -> String {
        match self.ask(command) {
            Reply::Failed(error) => error,
            other => panic!("{command:?} has not failed: {other:?}"),
        }
    }

    /// Tells it where another one is.
    pub fn knows(&mut self, peer: u32, addr: SocketAddr) {
        self.run(&Command::Know { peer, addr });
    }

    /// Begins to send messages, tags counting up.
    pub fn begin_sending(&mut self, peer: u32, first_tag: u64, sizes: &[usize]) {
        let sizes = sizes.to_vec();
        self.tell(&Command::Send {
            peer,
            first_tag,
            sizes,
        });
    }

    /// Sends messages, tags counting up.
    pub fn send(&mut self, peer: u32, first_tag: u64, sizes: &[usize]) {
        self.begin_sending(peer, first_tag, sizes);
        self.done();
    }

    /// Sends messages one by one, each when the peer has the one before.
    pub fn track(&mut self, peer: u32, first_tag: u64, sizes: &[usize]) {
        let sizes = sizes.to_vec();
        self.run(&Command::Track {
            peer,
            first_tag,
            sizes,
        });
    }

    /// Receives what comes, up to so many messages.
    pub fn receive(&mut self, count: usize, timeout: Duration) -> Vec<Arrival> {
        let timeout_ms = timeout.as_millis() as u64;
        match self.ask(&Command::Receive { count, timeout_ms }) {
            Reply::Received(arrivals) => arrivals,
            other => panic!("receiving: {other:?}"),
        }
    }

    /// Receives exactly these messages, in this order, each intact.
    pub fn expect(&mut self, source: u32, first_tag: u64, sizes: &[usize]) {
        let arrivals = self.receive(sizes.len(), PATIENCE / 2);
        let expected = sizes.iter().zip(first_tag..).map(|(&len, tag)| Arrival {
            source,
            tag,
            len,
            intact: true,
        });
        let expected: Vec<_> = expected.collect();
        let wrong = arrivals.iter().zip(&expected).position(|(a, b)| a != b);
        if let Some(at) = wrong {
            panic!("{:?} instead of {:?}", arrivals[at], expected[at]);
        }
        assert_eq!(arrivals.len(), expected.len(), "messages are missing");
    }

    /// Processor time that it has used.
    pub fn cpu(&mut self) -> Duration {
        match self.ask(&Command::Cpu) {
            Reply::Cpu(us) => Duration::from_micros(us),
            other => panic!("processor time: {other:?}"),
        }
    }

    /// How its flow to a peer is doing.
    pub fn flow(&mut self, peer: u32) -> Snapshot {
        match self.ask(&Command::Look { peer }) {
            Reply::Flow(flow) => flow,
            other => panic!("looking: {other:?}"),
        }
    }

    /// What has happened to it since this was last asked.
    pub fn events(&mut self) -> Vec<String> {
        match self.ask(&Command::Events) {
            Reply::Events(events) => events,
            other => panic!("events: {other:?}"),
        }
    }

    /// Waits until something with this text happens, and tells what else did before.
    pub fn wait_for(&mut self, what: &str) -> Vec<String> {
        let start = Instant::now();
        let mut seen = Vec::new();
        while start.elapsed() < PATIENCE {
            seen.extend(self.events());
            if seen.iter().any(|event| event.contains(what)) {
                return seen;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("no event with `{what}`, only {seen:?}");
    }

    /// Fails if it lost any peer since this was last asked.
    pub fn lost_nobody(&mut self) {
        let events = self.events();
        let lost = events.iter().any(|event| event.starts_with("Lost"));
        assert!(!lost, "{events:?}");
    }

    /// Closes its node.
    pub fn close(&mut self) {
        self.run(&Command::Close { linger_ms: 60_000 });
    }

    /// Sends it a signal. One that stops it has done so when this returns: on another core it would still answer.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32);
        kill(pid, signal).expect("it has not been waited for");
        if signal == Signal::SIGSTOP {
            let stopped = waitpid(pid, Some(WaitPidFlag::WUNTRACED));
            assert!(
                matches!(stopped, Ok(WaitStatus::Stopped(..))),
                "{stopped:?}"
            );
        }
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
