//! Probes between the ranks of a job.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sabani::comm::Error as CommError;
use sabani::{Comm, Congestion, CreditPolicy, Error, PeerId};
use sabani_model::measure::{Label, Part, Probe, Seen, Send, Traffic};

use super::{any_probe, tag_of};

/// The tag of what ranks tell rank 0 of a probe.
const REPORT: u32 = 1;
/// How long a rank with something to send waits before it looks again.
const BUSY: Duration = Duration::from_micros(200);
/// How long one that waits for others does.
const IDLE: Duration = Duration::from_millis(50);
/// A probe that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The ranks that measure: the first of each host; if there is only one host, all.
pub struct Ranks {
    comm: Comm,
    /// For each host that takes part: its rank.
    members: Vec<usize>,
    /// Whether there is more than one host.
    several: bool,
}

impl Ranks {
    /// Joins the job. Streams share trunks most evenly with congestion control and with windows that are
    /// fixed shares, so that is how these nodes are made.
    ///
    /// # Errors
    /// As [`Comm::init`].
    pub fn join() -> Result<Self> {
        let comm = Comm::init_with(|builder| builder.credit(CreditPolicy::Shares))?;
        let hosts = (0..comm.size()).map(|rank| comm.host_of(rank));
        let hosts = hosts.collect::<Result<Vec<_>, _>>()?;
        let first = |rank: &usize| hosts[..*rank].iter().all(|host| *host != hosts[*rank]);
        let firsts: Vec<usize> = (0..hosts.len()).filter(first).collect();
        let several = firsts.len() > 1;
        let members = if several {
            firsts
        } else {
            (0..hosts.len()).collect()
        };
        Ok(Ranks {
            comm,
            members,
            several,
        })
    }

    /// How many take part.
    pub fn hosts(&self) -> usize {
        self.members.len()
    }

    /// Whether there is more than one host; if not, all its ranks measure.
    pub fn are_on_several_hosts(&self) -> bool {
        self.several
    }

    /// Whether this rank says what is tried.
    pub fn leads(&self) -> bool {
        self.comm.rank() == 0
    }

    /// What those that take part are called.
    ///
    /// # Errors
    /// None for ranks that are there.
    pub fn names(&self) -> Result<Vec<String>> {
        let name = |rank: &usize| match self.several {
            true => Ok(self.comm.host_of(*rank)?),
            false => Ok(format!("rank {rank}")),
        };
        self.members.iter().map(name).collect()
    }

    /// Does a probe with all others, on rank 0.
    ///
    /// # Errors
    /// If a rank is lost.
    pub fn run(&self, probe: &Probe) -> Result<Vec<Seen>> {
        self.announce(&postcard::to_stdvec(probe)?)?;
        let mut seen = vec![Seen::Trips(Vec::new()); probe.flows.len()];
        let own = self.take_part(probe)?;
        let others = self.members.iter().filter(|rank| **rank != 0);
        let mut reports = vec![own];
        for &rank in others {
            let report = self.comm.recv_vec::<u8>(rank, REPORT)?;
            reports.push(postcard::from_bytes(&report).context("a rank's report")?);
        }
        for (flow, of_flow) in reports.into_iter().flatten() {
            *seen.get_mut(flow).context("a flow that is not there")? = of_flow;
        }
        Ok(seen)
    }

    /// Tells the others that there are no more probes.
    ///
    /// # Errors
    /// If a rank is lost.
    pub fn end(&self) -> Result<()> {
        Ok(self.announce(&[])?)
    }

    /// Does what rank 0 says, to the end.
    ///
    /// # Errors
    /// If a rank is lost.
    pub fn follow(&self) -> Result<()> {
        loop {
            let mut length = [0_u64];
            self.comm.bcast(0, &mut length)?;
            if length == [0] {
                return Ok(());
            }
            let mut bytes = vec![0_u8; length[0] as usize];
            self.comm.bcast(0, &mut bytes)?;
            let probe: Probe = postcard::from_bytes(&bytes).context("rank 0's probe")?;
            let seen = self.take_part(&probe)?;
            if self.members.contains(&self.comm.rank()) {
                self.comm.send(0, REPORT, &postcard::to_stdvec(&seen)?)?;
            }
        }
    }

    fn announce(&self, bytes: &[u8]) -> Result<(), CommError> {
        self.comm.bcast(0, &mut [bytes.len() as u64])?;
        if !bytes.is_empty() {
            self.comm.bcast(0, &mut bytes.to_vec())?;
        }
        Ok(())
    }

    /// Begins with the others, and does this rank's part.
    fn take_part(&self, probe: &Probe) -> Result<Vec<(usize, Seen)>> {
        let own = self
            .members
            .iter()
            .position(|rank| *rank == self.comm.rank());
        self.prepare(probe, own)?;
        self.comm.barrier()?;
        let Some(own) = own else {
            return Ok(Vec::new());
        };
        let longest = probe.flows.iter().map(|flow| flow.bytes).max();
        let body = vec![0; longest.unwrap_or(0)];
        Runner {
            ranks: self,
            began: Instant::now(),
            body,
        }
        .run(Part::new(probe, own, 0))
    }

    /// Gives way to others, or not, as the probe wants it.
    fn prepare(&self, probe: &Probe, own: Option<usize>) -> Result<(), Error> {
        for flow in probe.flows.iter().filter(|flow| Some(flow.from) == own) {
            let kind = match flow.traffic {
                Traffic::Stream { yields: true, .. } => Congestion::Cubic,
                _ => Congestion::None,
            };
            let peer = PeerId(self.members[flow.to] as u32);
            self.comm.node().set_congestion(peer, Some(kind))?;
        }
        Ok(())
    }
}

/// One rank's part, between the node and the plan.
struct Runner<'r> {
    ranks: &'r Ranks,
    began: Instant,
    body: Vec<u8>,
}

impl Runner<'_> {
    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn run(&self, mut part: Part) -> Result<Vec<(usize, Seen)>> {
        let node = self.ranks.comm.node();
        let wanted = any_probe();
        let mut posted = node.post(wanted, None)?;
        loop {
            while let Some(send) = part.poll(self.now_ns(), |host| self.waiting(host)) {
                if !self.send(&mut part, &send)? {
                    break;
                }
            }
            if part.is_done() {
                return Ok(part.seen());
            }
            let began_ns = self.now_ns();
            let mut message = posted.test()?;
            let mut took_ns = self.now_ns() - began_ns;
            if message.is_none() {
                let busy = part.deadline_ns().is_some();
                message = posted.wait(Some(if busy { BUSY } else { IDLE }))?;
                took_ns = 0;
            }
            if let Some(message) = message {
                posted = node.post(wanted, None)?;
                part.handle(Label(message.tag as u32), self.now_ns(), took_ns);
            }
            if self.began.elapsed() > PATIENCE {
                bail!("a probe was not done within {PATIENCE:?}: is a rank stopped?");
            }
        }
    }

    /// How many messages wait here for a host.
    fn waiting(&self, host: usize) -> usize {
        let peer = PeerId(self.ranks.members[host] as u32);
        let stats = self.ranks.comm.node().peer_stats(peer);
        stats.map_or(0, |stats| stats.queued_messages as usize)
    }

    /// Whether there was room for it.
    fn send(&self, part: &mut Part, send: &Send) -> Result<bool> {
        let began_ns = self.now_ns();
        let peer = PeerId(self.ranks.members[send.to] as u32);
        let tag = tag_of(send.label);
        match self
            .ranks
            .comm
            .node()
            .try_send(peer, tag, &self.body[..send.bytes])
        {
            Err(Error::Full { .. }) => return Ok(false),
            sent => sent?,
        }
        part.sent(send, began_ns, self.now_ns() - began_ns);
        Ok(true)
    }
}
