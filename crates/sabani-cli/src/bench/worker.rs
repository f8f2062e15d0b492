//! The process that is measured: obeys lines on its standard input, answers on its standard output.

use std::{
    collections::HashMap,
    io::{BufRead, ErrorKind, Read},
    net::{IpAddr, SocketAddr},
    process,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use super::{
    args::WorkerArgs,
    burst,
    control::{Command, Outcome, Reply, VERSION},
    cores,
    measure::Stop,
    ping,
    task::Task,
    transactions,
    transport::{Endpoint, Transport},
    workers::answer,
};
use crate::key_log::KeyLog;
use crate::tell::note;
use crate::threads::told;
use anyhow::{Context, Result, bail, ensure};

/// Most bytes of a command; it takes a few hundred. Whoever sends no end of a line is not listened to.
const LINE_MAX: u64 = 64 << 10;

/// Obeys until standard input ends.
///
/// # Errors
/// If standard output is gone. What else fails is answered.
pub fn run(args: &WorkerArgs) -> Result<()> {
    if let Some(core) = args.core
        && let Err(error) = cores::pin(core)
    {
        return answer::<Reply>(Err(error));
    }
    let stop = Arc::new(Stop::default());
    let mut worker = Worker {
        only: args.only,
        key_log: args.key_log.open()?,
        endpoints: HashMap::new(),
        stop: Arc::clone(&stop),
    };
    for command in listen(stop, args.only) {
        answer(worker.obey(command))?;
    }
    Ok(())
}

/// Reads commands in a thread that sleeps while the main one spins. `Stop` takes effect at once;
/// the end of the input ends the process, whatever it is doing.
fn listen(stop: Arc<Stop>, only: Option<IpAddr>) -> Receiver<Command> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        if let Err(error) = forward(&sender, &stop, only) {
            note(format_args!("sabani: {}", told(&error)));
            process::exit(1);
        }
        process::exit(0);
    });
    receiver
}

fn forward(commands: &Sender<Command>, stop: &Stop, only: Option<IpAddr>) -> Result<()> {
    let mut input = std::io::stdin().lock();
    loop {
        let mut line = Vec::new();
        match input.by_ref().take(LINE_MAX).read_until(b'\n', &mut line) {
            Ok(0) => return Ok(()),
            // Over TCP this is how it ends where an answer was not read any more.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            read => read?,
        };
        let command = serde_json::from_slice(&line).with_context(|| match only {
            Some(peer) => {
                format!(
                    "what {peer} sent is no bench's: is it `sabani bench --to` of the same build?"
                )
            }
            None => "not a command".into(),
        });
        match command? {
            Command::Stop { messages } => stop.raise(messages),
            command => commands.send(command)?,
        }
    }
}

struct Worker {
    only: Option<IpAddr>,
    key_log: KeyLog,
    endpoints: HashMap<Transport, Box<dyn Endpoint>>,
    stop: Arc<Stop>,
}

impl Worker {
    fn obey(&mut self, command: Command) -> Result<Reply> {
        Ok(match command {
            Command::Hello { version } => {
                ensure!(
                    version == VERSION,
                    "the other end speaks version {version} and this one {VERSION}: use the same build"
                );
                Reply::Hello
            }
            Command::Open {
                transport,
                role,
                bind,
                key,
            } => {
                let endpoint = transport.open(role, bind, key, &self.key_log)?;
                let addr = endpoint.local_addr()?;
                self.endpoints.insert(transport, endpoint);
                Reply::Opened { addr }
            }
            Command::Join { transport, peer } => {
                let peer = self.allowed(peer)?;
                self.endpoint(transport)?.join(peer)?;
                Reply::Joined
            }
            Command::Serve { transport, task } => Reply::Finished(self.serve(transport, task)?),
            Command::Run { transport, task } => {
                task.check()?;
                Reply::Finished(run_task(self.endpoint(transport)?, task)?)
            }
            Command::Stop { .. } => bail!("nothing to stop"),
        })
    }

    fn endpoint(&mut self, transport: Transport) -> Result<&mut dyn Endpoint> {
        let endpoint = self.endpoints.get_mut(&transport);
        Ok(endpoint.context("no such endpoint is open")?.as_mut())
    }

    /// A peer without an address is the one that drives this process from another machine.
    fn allowed(&self, mut peer: SocketAddr) -> Result<SocketAddr> {
        if let Some(only) = self.only {
            if peer.ip().is_unspecified() {
                peer.set_ip(only);
            }
            ensure!(
                peer.ip() == only,
                "{peer} is not the machine that drives this one"
            );
        }
        Ok(peer)
    }

    fn serve(&mut self, transport: Transport, task: Task) -> Result<Outcome> {
        task.check()?;
        let stop = Arc::clone(&self.stop);
        let endpoint = self.endpoint(transport)?;
        stop.lower();
        answer(Ok(Reply::Serving))?;
        match task {
            Task::Ping { size, .. } => ping::server(endpoint, size, &stop),
            Task::Burst { size, limit } => burst::server(endpoint, size, limit, &stop),
            Task::Transactions { .. } => transactions::server(endpoint, &stop),
        }
    }
}

fn run_task(endpoint: &mut dyn Endpoint, task: Task) -> Result<Outcome> {
    match task {
        Task::Ping { size, limit } => ping::client(endpoint, size, limit),
        Task::Burst { size, limit } => burst::client(endpoint, size, limit),
        Task::Transactions { count } => transactions::client(endpoint, count),
    }
}
