//! A lab, a receiver on its first host, and senders on all others.

use std::{env, process, time::Duration};

use anyhow::{Context, Result};

use super::{
    cell::Cell,
    protocol::{Command, Counts, Reply, Setup, Turn},
};
use crate::{
    bench::{
        cpu::CpuTime,
        transport::{Key, Transport},
        workers::{Id, Workers},
    },
    lab::{self, Host, LinkArgs, OwnedLab, Plan, Port},
    layers::LayersOption,
};

/// How long a process may take to begin, or to say something.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a turn may take: the worst that was seen are timeouts of TCP's in most of its rounds.
const TURN_PATIENCE: Duration = Duration::from_secs(300);
const RECEIVER: Host = Host(1);

/// All processes; they end before the lab does.
pub struct Fleet {
    workers: Workers<Reply>,
    senders: Vec<Id>,
    receiver: Id,
    owned: OwnedLab,
}

impl Fleet {
    /// Makes the lab, starts all processes, and lets them meet.
    ///
    /// # Errors
    /// Without root or the tools, or if something does not start.
    pub fn start(
        senders: u16,
        link: LinkArgs,
        transports: &[Transport],
        layers: &LayersOption,
    ) -> Result<Self> {
        let plan = Plan {
            lab: format!("incast-{}", process::id()).parse()?,
            hosts: senders + 1,
            link,
            trunks: None,
        };
        let owned = OwnedLab::make(&plan)?;
        let key = Key::random()?;
        let setup = |host: Host| Setup {
            host: host.address(),
            transports: transports.to_vec(),
            key,
        };
        let hosts: Vec<Host> = (2..=senders + 1).map(Host).collect();
        let mut workers = Workers::new();
        let mut start = |host, first| start(&mut workers, &owned, layers, host, first);
        let mut senders = Vec::new();
        for &host in &hosts {
            senders.push(start(host, Command::Answer(setup(host)))?);
        }
        let ask = Command::Ask {
            setup: setup(RECEIVER),
            senders: hosts.iter().map(|host| host.address()).collect(),
        };
        let receiver = start(RECEIVER, ask)?;
        Ok(Self {
            workers,
            senders,
            receiver,
            owned,
        })
    }

    /// How long a packet takes to a sender and back when nobody else sends.
    ///
    /// # Errors
    /// If the receiver can't tell.
    pub fn round_trip(&mut self) -> Result<Duration> {
        let receiver = self.receiver;
        match self.workers.ask(receiver, &Command::RoundTrip, PATIENCE)? {
            Reply::RoundTrip { ns } => Ok(Duration::from_nanos(ns)),
            other => Err(self.workers.nonsense(receiver, &other)),
        }
    }

    /// Does one turn; what was measured in it.
    ///
    /// # Errors
    /// If something fails in one of the processes, or the user interrupts.
    pub fn turn(&mut self, turn: Turn) -> Result<Cell> {
        let what = turn.transport.label();
        let (sent, port) = (self.count(turn.transport)?, self.port()?);
        let cpu = CpuTime::now()?;
        let asked = Command::Turn(turn);
        let times = match self.workers.ask(self.receiver, &asked, TURN_PATIENCE) {
            Ok(Reply::Done(times)) => times,
            Ok(other) => return Err(self.workers.nonsense(self.receiver, &other)),
            Err(error) => return Err(error).context(what),
        };
        let cpu = CpuTime::now()?.since(cpu);
        let (sent_now, port_now) = (self.count(turn.transport)?, self.port()?);
        Ok(Cell {
            transport: turn.transport,
            times,
            packets: sent_now.packets - sent.packets,
            resent: sent_now.resent - sent.resent,
            dropped: port_now.dropped - port.dropped,
            cpu,
        })
    }

    /// What all senders have sent by a transport.
    fn count(&mut self, transport: Transport) -> Result<Counts> {
        let mut sum = Counts::default();
        for &sender in &self.senders {
            let asked = Command::Count { transport };
            match self.workers.ask(sender, &asked, PATIENCE)? {
                Reply::Counts(counts) => {
                    sum.packets += counts.packets;
                    sum.resent += counts.resent;
                }
                other => return Err(self.workers.nonsense(sender, &other)),
            }
        }
        Ok(sum)
    }

    /// The switch's port towards the receiver.
    fn port(&self) -> Result<Port> {
        Port::of(&self.owned.lab, RECEIVER)
    }
}

/// Starts a process on a host, and waits until it is ready for what it is told first.
fn start(
    workers: &mut Workers<Reply>,
    owned: &OwnedLab,
    layers: &LayersOption,
    host: Host,
    first: Command,
) -> Result<Id> {
    let own = env::current_exe().context("cannot find this program's own file")?;
    let mut command = lab::exec_command(&own, &owned.lab, host, &own);
    command.arg("incast-worker");
    layers.pass(&mut command);
    let id = workers.start(format!("the process on host {host}"), command)?;
    match workers.ask(id, &first, PATIENCE)? {
        Reply::Ready => Ok(id),
        other => Err(workers.nonsense(id, &other)),
    }
}
