//! The two processes that are measured, as the one that reports sees them.

use std::{
    collections::HashSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context, Result, anyhow};

use super::{
    args::{NodeArgs, Pin},
    control::{Command, Outcome, Reply, VERSION},
    place::Place,
    results::Sample,
    task::{GRACE, Task},
    transport::{Key, Role, Transport},
    workers::{Id, Stuck, Workers},
};
use crate::key_log::KeyLogArgs;

/// Two processes, ended when dropped.
pub struct Pair {
    workers: Workers<Reply>,
    client: End,
    server: End,
    /// Where the client reaches the server.
    server_ip: IpAddr,
    joined: HashSet<Transport>,
    key: Key,
}

/// A process, and the address that its endpoints get.
struct End {
    id: Id,
    bind: IpAddr,
}

impl Pair {
    /// Starts both processes on this machine.
    ///
    /// # Errors
    /// If one does not start or cannot have its core.
    pub fn start(place: &Place, pin: Pin, node: &NodeArgs) -> Result<Self> {
        let mut workers = Workers::new();
        let (client_core, server_core) = cores(pin);
        let client = spawn(&mut workers, place, Role::Client, client_core, node)?;
        // One side's secrets are those of both.
        let silent = NodeArgs {
            key_log: KeyLogArgs::default(),
            ..node.clone()
        };
        let server = spawn(&mut workers, place, Role::Server, server_core, &silent)?;
        let server_ip = server.bind;
        Self::greet(workers, client, server, server_ip)
    }

    /// Starts the client here and meets the server elsewhere.
    ///
    /// # Errors
    /// If the client does not start or nobody serves at `to`.
    pub fn start_with(to: SocketAddr, pin: Pin, node: &NodeArgs) -> Result<Self> {
        let mut workers = Workers::new();
        let (here, core) = (Place::Loopback, cores(pin).0);
        let mut client = spawn(&mut workers, &here, Role::Client, core, node)?;
        client.bind = unspecified(to.ip());
        let stream = TcpStream::connect_timeout(&to, Duration::from_secs(5)).map_err(|error| {
            anyhow!(
                "no TCP connection to {to}: {error}: is `sabani bench serve` running there, and does no firewall \
                 turn it away?"
            )
        })?;
        let server = End {
            id: workers.connect("server", stream)?,
            // The address it is reached at may not be its own.
            bind: unspecified(to.ip()),
        };
        Self::greet(workers, client, server, to.ip()).map_err(|error| match error.is::<Stuck>() {
            true => anyhow!(
                "{error}: is another machine being measured at {to}? `sabani bench serve` takes them one \
                 after the other"
            ),
            false => error,
        })
    }

    fn greet(
        mut workers: Workers<Reply>,
        client: End,
        server: End,
        server_ip: IpAddr,
    ) -> Result<Self> {
        for end in [&client, &server] {
            match workers.ask(end.id, &Command::Hello { version: VERSION }, GRACE)? {
                Reply::Hello => {}
                other => return Err(workers.nonsense(end.id, &other)),
            }
        }
        Ok(Self {
            workers,
            client,
            server,
            server_ip,
            joined: HashSet::new(),
            key: Key::random()?,
        })
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
        let (client, server) = (self.client.id, self.server.id);
        match self.ask(server, Command::Serve { transport, task })? {
            Reply::Serving => {}
            other => return Err(self.workers.nonsense(server, &other)),
        }
        self.workers
            .tell(client, &Command::Run { transport, task })?;
        let run = self.finished(client, task.patience())?;
        let messages = match run {
            Outcome::Sent { messages } => messages,
            _ => 0,
        };
        self.workers.tell(server, &Command::Stop { messages })?;
        let served = self.finished(server, GRACE)?;
        Sample::new(task, run, served)
    }

    fn join(&mut self, transport: Transport) -> Result<()> {
        let server = self.open(transport, Role::Server)?;
        let client = self.open(transport, Role::Client)?;
        let server = SocketAddr::new(self.server_ip, server.port());
        for (end, peer) in [(&self.server, client), (&self.client, server)] {
            let join = Command::Join { transport, peer };
            self.workers.tell(end.id, &join)?;
        }
        for _both in 0..2 {
            match self.workers.next(GRACE)? {
                (_, Reply::Joined) => {}
                (id, other) => return Err(self.workers.nonsense(id, &other)),
            }
        }
        Ok(())
    }

    fn open(&mut self, transport: Transport, role: Role) -> Result<SocketAddr> {
        let &End { id, bind } = match role {
            Role::Client => &self.client,
            Role::Server => &self.server,
        };
        let open = Command::Open {
            transport,
            role,
            bind,
            key: self.key,
        };
        match self.ask(id, open)? {
            Reply::Opened { addr } => Ok(addr),
            other => Err(self.workers.nonsense(id, &other)),
        }
    }

    fn ask(&mut self, id: Id, command: Command) -> Result<Reply> {
        self.workers.ask(id, &command, GRACE)
    }

    fn finished(&mut self, id: Id, patience: Duration) -> Result<Outcome> {
        match self.workers.answer_of(id, patience)? {
            Reply::Finished(outcome) => Ok(outcome),
            other => Err(self.workers.nonsense(id, &other)),
        }
    }
}

fn cores(pin: Pin) -> (Option<usize>, Option<usize>) {
    match pin {
        Pin::None => (None, None),
        Pin::Client(client) => (Some(client), None),
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
    workers: &mut Workers<Reply>,
    place: &Place,
    role: Role,
    core: Option<usize>,
    node: &NodeArgs,
) -> Result<End> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = place.command(role, &program);
    command.arg("bench-worker");
    if let Some(core) = core {
        command.args(["--core", &core.to_string()]);
    }
    node.pass(&mut command);
    let name = match role {
        Role::Client => "client",
        Role::Server => "server",
    };
    Ok(End {
        id: workers.start(name, command)?,
        bind: place.address(role),
    })
}
