//! A lab, a receiver on its first host, and senders on all others.

use std::{env, process, time::Duration};

use anyhow::{Context, Result, bail};

use super::{
    cell::Cell,
    cpu::CpuTime,
    process::Process,
    protocol::{Command, Counts, Reply, Setup, Turn},
};
use crate::{
    bench::transport::{Key, Transport},
    lab::{self, Host, LinkArgs, OwnedLab, Plan, Port},
};

/// How long a process may take to begin, or to say something.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a turn may take: the worst that was seen are timeouts of TCP's in most of its rounds.
const TURN_PATIENCE: Duration = Duration::from_secs(300);
const RECEIVER: Host = Host(1);

/// All processes; they end before the lab does.
pub struct Fleet {
    senders: Vec<Process>,
    receiver: Process,
    owned: OwnedLab,
}

impl Fleet {
    /// Makes the lab, starts all processes, and lets them meet.
    ///
    /// # Errors
    /// Without root or the tools, or if something does not start.
    pub fn start(senders: u16, link: LinkArgs, transports: &[Transport]) -> Result<Self> {
        let plan = Plan {
            lab: format!("incast-{}", process::id()).parse()?,
            hosts: senders + 1,
            link,
        };
        let owned = OwnedLab::make(&plan)?;
        let key = Key::random()?;
        let setup = |host: Host| Setup {
            host: host.address(),
            transports: transports.to_vec(),
            key,
        };
        let hosts: Vec<Host> = (2..=senders + 1).map(Host).collect();
        let mut senders = Vec::new();
        for &host in &hosts {
            let mut sender = start_on(&owned, host)?;
            expect_ready(sender.ask(&Command::Answer(setup(host)), PATIENCE)?)?;
            senders.push(sender);
        }
        let mut receiver = start_on(&owned, RECEIVER)?;
        let ask = Command::Ask {
            setup: setup(RECEIVER),
            senders: hosts.iter().map(|host| host.address()).collect(),
        };
        expect_ready(receiver.ask(&ask, PATIENCE)?)?;
        Ok(Self {
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
        match self.receiver.ask(&Command::RoundTrip, PATIENCE)? {
            Reply::RoundTrip { ns } => Ok(Duration::from_nanos(ns)),
            other => bail!("the receiver answers {other:?}"),
        }
    }

    /// Does one turn, and adds it to a cell.
    ///
    /// # Errors
    /// If something fails in one of the processes, or the user interrupts.
    pub fn turn(&mut self, turn: Turn, cell: &mut Cell) -> Result<()> {
        let what = turn.transport.label();
        let (sent, port) = (self.count(turn.transport)?, self.port()?);
        let cpu = CpuTime::now()?;
        let times = match self.receiver.ask(&Command::Turn(turn), TURN_PATIENCE) {
            Ok(Reply::Done(times)) => times,
            Ok(other) => bail!("the receiver answers {other:?}"),
            Err(error) => return Err(error).context(what),
        };
        cell.cpu = cell.cpu.plus(CpuTime::now()?.since(cpu));
        cell.add_times(times);
        let (sent_now, port_now) = (self.count(turn.transport)?, self.port()?);
        cell.packets += sent_now.packets - sent.packets;
        cell.resent += sent_now.resent - sent.resent;
        cell.dropped += port_now.dropped - port.dropped;
        Ok(())
    }

    /// What all senders have sent by a transport.
    fn count(&mut self, transport: Transport) -> Result<Counts> {
        let mut sum = Counts::default();
        for sender in &mut self.senders {
            match sender.ask(&Command::Count { transport }, PATIENCE)? {
                Reply::Counts(counts) => {
                    sum.packets += counts.packets;
                    sum.resent += counts.resent;
                }
                other => bail!("a sender answers {other:?}"),
            }
        }
        Ok(sum)
    }

    /// The switch's port towards the receiver.
    fn port(&self) -> Result<Port> {
        Port::of(&self.owned.lab, RECEIVER)
    }
}

fn start_on(owned: &OwnedLab, host: Host) -> Result<Process> {
    let own = env::current_exe().context("cannot find this program's own file")?;
    let mut command = lab::exec_command(&own, &owned.lab, host, &own);
    command.arg("incast-worker");
    Process::start(format!("the process on host {host}"), command)
}

fn expect_ready(reply: Reply) -> Result<()> {
    match reply {
        Reply::Ready => Ok(()),
        other => bail!("a process answers {other:?}"),
    }
}
