//! The two processes that are measured, as the one that reports sees them.

use std::{
    collections::HashSet,
    io::{BufRead, BufReader, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    os::unix::process::CommandExt,
    process::{Child, Stdio},
    sync::mpsc::{Receiver, Sender},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{
    args::Pin,
    control::{Command, Outcome, Reply, VERSION},
    place::Place,
    results::Sample,
    task::{GRACE, Task},
    transport::{Key, Role, Transport},
};

/// What the reporting process waits for.
pub enum Event {
    /// A process has answered.
    Reply(Role, Reply),
    /// A process is gone, or talks nonsense.
    Gone(Role, String),
    /// The user has had enough.
    Interrupted,
}

/// Two processes, ended when dropped.
pub struct Pair {
    client: Process,
    server: Process,
    events: Receiver<Event>,
    joined: HashSet<Transport>,
    key: Key,
}

/// How to reach a process, and the address that its endpoints get.
struct Process {
    input: Box<dyn Write + Send>,
    child: Option<Child>,
    bind: IpAddr,
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Pair {
    /// Starts both processes on this machine.
    ///
    /// # Errors
    /// If one does not start or cannot have its core.
    pub fn start(
        place: &Place,
        pin: Pin,
        events: Receiver<Event>,
        sender: &Sender<Event>,
    ) -> Result<Self> {
        let (client_core, server_core) = cores(pin);
        let client = spawn(place, Role::Client, client_core, sender)?;
        let server = spawn(place, Role::Server, server_core, sender)?;
        Self::greet(client, server, events)
    }

    /// Starts the client here and meets the server elsewhere.
    ///
    /// # Errors
    /// If the client does not start or nobody serves at `to`.
    pub fn start_with(
        to: SocketAddr,
        pin: Pin,
        events: Receiver<Event>,
        sender: &Sender<Event>,
    ) -> Result<Self> {
        let mut client = spawn(&Place::Loopback, Role::Client, cores(pin).0, sender)?;
        client.bind = unspecified(to.ip());
        let stream = TcpStream::connect_timeout(&to, Duration::from_secs(5))
            .with_context(|| format!("is `sabani bench serve` running at {to}?"))?;
        stream.set_nodelay(true)?;
        forward(Role::Server, stream.try_clone()?, sender.clone());
        let server = Process {
            input: Box::new(stream),
            child: None,
            bind: to.ip(),
        };
        Self::greet(client, server, events)
    }

    fn greet(client: Process, server: Process, events: Receiver<Event>) -> Result<Self> {
        let mut pair = Self {
            client,
            server,
            events,
            joined: HashSet::new(),
            key: Key::random()?,
        };
        for role in [Role::Client, Role::Server] {
            pair.tell(role, Command::Hello { version: VERSION })?;
            pair.expect(role, Reply::Hello)?;
        }
        Ok(pair)
    }

    /// Does one turn.
    ///
    /// # Errors
    /// If something fails in one of the processes, or the user interrupts.
    pub fn turn(&mut self, transport: Transport, task: Task) -> Result<Sample> {
        self.turn_inner(transport, task)
            .with_context(|| format!("{} with {}", task.bench(), transport.label()))
    }

    fn turn_inner(&mut self, transport: Transport, task: Task) -> Result<Sample> {
        if !self.joined.contains(&transport) {
            self.join(transport)?;
            self.joined.insert(transport);
        }
        self.tell(Role::Server, Command::Serve { transport, task })?;
        self.expect(Role::Server, Reply::Serving)?;
        self.tell(Role::Client, Command::Run { transport, task })?;
        let run = self.finished(Role::Client, task.patience())?;
        let messages = match run {
            Outcome::Sent { messages } => messages,
            _ => 0,
        };
        self.tell(Role::Server, Command::Stop { messages })?;
        let served = self.finished(Role::Server, GRACE)?;
        Sample::new(task, run, served)
    }

    fn join(&mut self, transport: Transport) -> Result<()> {
        // A server elsewhere binds to all its addresses: the one it is reached at may not be its own.
        let bind = match self.server.child {
            Some(_) => self.server.bind,
            None => unspecified(self.server.bind),
        };
        let server = self.open(transport, Role::Server, bind)?;
        let client = self.open(transport, Role::Client, self.client.bind)?;
        let server = SocketAddr::new(self.server.bind, server.port());
        self.tell(
            Role::Server,
            Command::Join {
                transport,
                peer: client,
            },
        )?;
        self.tell(
            Role::Client,
            Command::Join {
                transport,
                peer: server,
            },
        )?;
        let mut waiting = HashSet::from(["client", "server"]);
        while !waiting.is_empty() {
            match self.next()? {
                (role, Reply::Joined) => waiting.remove(name(role)),
                (role, reply) => bail!("the {} answers {reply:?}", name(role)),
            };
        }
        Ok(())
    }

    fn open(&mut self, transport: Transport, role: Role, bind: IpAddr) -> Result<SocketAddr> {
        let key = self.key;
        self.tell(
            role,
            Command::Open {
                transport,
                role,
                bind,
                key,
            },
        )?;
        match self.next()? {
            (from, Reply::Opened { addr }) if from == role => Ok(addr),
            (from, reply) => bail!("the {} answers {reply:?}", name(from)),
        }
    }

    fn tell(&mut self, role: Role, command: Command) -> Result<()> {
        let mut line = serde_json::to_vec(&command)?;
        line.push(b'\n');
        let process = match role {
            Role::Client => &mut self.client,
            Role::Server => &mut self.server,
        };
        if process
            .input
            .write_all(&line)
            .and_then(|()| process.input.flush())
            .is_err()
        {
            // It is gone; the last that was heard of it says why.
            let (from, reply) = self.next()?;
            bail!("the {} answers {reply:?}", name(from));
        }
        Ok(())
    }

    fn finished(&mut self, role: Role, patience: Duration) -> Result<Outcome> {
        match self.next_within(patience)? {
            (from, Reply::Finished(outcome)) if from == role => Ok(outcome),
            (from, reply) => bail!("the {} answers {reply:?}", name(from)),
        }
    }

    fn expect(&mut self, role: Role, expected: Reply) -> Result<()> {
        match self.next()? {
            (from, reply) if from == role && reply == expected => Ok(()),
            (from, reply) => bail!("the {} answers {reply:?}", name(from)),
        }
    }

    fn next(&mut self) -> Result<(Role, Reply)> {
        self.next_within(GRACE)
    }

    fn next_within(&mut self, patience: Duration) -> Result<(Role, Reply)> {
        match self.events.recv_timeout(patience) {
            Ok(Event::Reply(role, Reply::Failed { error })) => bail!("{}: {error}", name(role)),
            Ok(Event::Reply(role, reply)) => Ok((role, reply)),
            Ok(Event::Gone(role, why)) => bail!("the {}'s process is gone: {why}", name(role)),
            Ok(Event::Interrupted) => bail!("interrupted"),
            Err(_) => bail!("stuck: no answer for {patience:?}"),
        }
    }
}

fn name(role: Role) -> &'static str {
    match role {
        Role::Client => "client",
        Role::Server => "server",
    }
}

fn cores(pin: Pin) -> (Option<usize>, Option<usize>) {
    match pin {
        Pin::None => (None, None),
        Pin::Cores(client, server) => (Some(client), Some(server)),
    }
}

fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn spawn(
    place: &Place,
    role: Role,
    core: Option<usize>,
    events: &Sender<Event>,
) -> Result<Process> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = place.command(role, &program);
    command.arg("bench-worker");
    if let Some(core) = core {
        command.args(["--core", &core.to_string()]);
    }
    // Out of reach of the terminal's Ctrl-C: ending it is this process's affair.
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("cannot start a process to measure")?;
    let input = child
        .stdin
        .take()
        .context("no way to talk to the process")?;
    let output = child.stdout.take().context("no way to hear the process")?;
    forward(role, output, events.clone());
    Ok(Process {
        input: Box::new(input),
        child: Some(child),
        bind: place.address(role),
    })
}

/// Turns what a process says into events, in a thread that ends with the process.
fn forward(role: Role, output: impl Read + Send + 'static, events: Sender<Event>) {
    thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let parsed = line
                .map_err(anyhow::Error::from)
                .and_then(|line| Ok(serde_json::from_str(&line)?));
            let event = match parsed {
                Ok(reply) => Event::Reply(role, reply),
                Err(error) => Event::Gone(role, error.to_string()),
            };
            if events.send(event).is_err() {
                return;
            }
        }
        // Nobody listens any more when the measurement is over.
        let _ = events.send(Event::Gone(role, "it has ended".into()));
    });
}
