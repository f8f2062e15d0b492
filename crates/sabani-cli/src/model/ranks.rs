//! Probes between the ranks of a job.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sabani::comm::Error as CommError;
use sabani::{Comm, CreditPolicy};
use sabani_model::measure::{Outcome, Part, Probe, Seen, Send, Traffic};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::wire::{Taken, Wire};
use crate::bench::transport::Transport;
use crate::job::tell;

/// The tag of what ranks tell rank 0 of a probe.
const REPORT: u32 = 1;
/// How long a rank with something to send waits before it looks again.
const BUSY: Duration = Duration::from_micros(200);
/// How long one that waits for others does.
const IDLE: Duration = Duration::from_millis(50);
/// A probe in which for so long nothing can be sent and nothing comes has failed. All of it may take longer: twenty trips of a megabyte take
/// minutes over links of a few megabits.
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
        let (members, several) = members(&comm.hosts());
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

    /// What rank 0 has to say, at all ranks; the others give `None`.
    ///
    /// # Errors
    /// If a rank is lost.
    pub fn tell<T: Serialize + DeserializeOwned>(&self, what: Option<T>) -> Result<T> {
        tell(&self.comm, what)
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
        let names = self.members.iter().map(name);
        Ok(told_apart(names.collect::<Result<_>>()?, &self.members))
    }

    /// Connects them over a transport, to try it.
    ///
    /// # Errors
    /// As [`Wire::open`].
    pub fn try_over(&self, transport: Transport) -> Result<Prober<'_>> {
        Ok(Prober {
            ranks: self,
            wire: Wire::open(transport, &self.comm)?,
        })
    }
}

/// Of ranks on these hosts those that measure, and whether there is more than one host.
fn members(hosts: &[usize]) -> (Vec<usize>, bool) {
    let mut known = HashSet::new();
    let firsts: Vec<usize> = (0..hosts.len())
        .filter(|&rank| known.insert(hosts[rank]))
        .collect();
    match firsts.len() > 1 {
        true => (firsts, true),
        false => ((0..hosts.len()).collect(), false),
    }
}

/// Names of hosts, with the rank that measures where several have the same one: machines that nobody has named are all called
/// localhost.
fn told_apart(names: Vec<String>, ranks: &[usize]) -> Vec<String> {
    let mut times: HashMap<&str, usize> = HashMap::new();
    for name in &names {
        *times.entry(name).or_default() += 1;
    }
    let told = |(name, rank): (&String, &usize)| match times[&name[..]] {
        1 => name.clone(),
        _ => format!("{name} (rank {rank})"),
    };
    names.iter().zip(ranks).map(told).collect()
}

/// The ranks, and the transport that they try.
pub struct Prober<'r> {
    ranks: &'r Ranks,
    wire: Wire<'r>,
}

impl Prober<'_> {
    /// Does a probe with all others, on rank 0.
    ///
    /// # Errors
    /// If a rank is lost.
    pub fn run(&mut self, probe: &Probe) -> Result<Outcome> {
        let began = Instant::now();
        self.announce(&postcard::to_stdvec(probe)?)?;
        let mut seen = vec![Seen::Trips(Vec::new()); probe.flows.len()];
        let own = self.take_part(probe)?;
        let others = self.ranks.members.iter().filter(|rank| **rank != 0);
        let mut reports = vec![own];
        for &rank in others {
            let report = self.ranks.comm.recv_vec::<u8>(rank, REPORT)?;
            reports.push(postcard::from_bytes(&report).context("a rank's report")?);
        }
        let mut lost_packets = 0;
        for report in reports {
            lost_packets += report.lost_packets;
            for (flow, of_flow) in report.seen {
                *seen.get_mut(flow).context("a flow that is not there")? = of_flow;
            }
        }
        Ok(Outcome {
            seen,
            lost_packets,
            took_ns: began.elapsed().as_nanos() as u64,
        })
    }

    /// Tells the others that there are no more probes.
    ///
    /// # Errors
    /// If a rank is lost.
    pub fn end(self) -> Result<()> {
        self.announce(&[])?;
        self.part()
    }

    /// Does what rank 0 says, to the end.
    ///
    /// # Errors
    /// If a rank is lost.
    pub fn follow(mut self) -> Result<()> {
        let comm = &self.ranks.comm;
        loop {
            let mut length = [0_u64];
            comm.bcast(0, &mut length)?;
            if length == [0] {
                return self.part();
            }
            let mut bytes = vec![0_u8; length[0] as usize];
            comm.bcast(0, &mut bytes)?;
            let probe: Probe = postcard::from_bytes(&bytes).context("rank 0's probe")?;
            let report = self.take_part(&probe)?;
            if self.ranks.members.contains(&comm.rank()) {
                comm.send(0, REPORT, &postcard::to_stdvec(&report)?)?;
            }
        }
    }

    /// Nobody closes a stream that another one still needs.
    fn part(self) -> Result<()> {
        Ok(self.ranks.comm.barrier()?)
    }

    fn announce(&self, bytes: &[u8]) -> Result<(), CommError> {
        let comm = &self.ranks.comm;
        comm.bcast(0, &mut [bytes.len() as u64])?;
        if !bytes.is_empty() {
            comm.bcast(0, &mut bytes.to_vec())?;
        }
        Ok(())
    }

    /// Begins with the others, and does this rank's part.
    fn take_part(&mut self, probe: &Probe) -> Result<Report> {
        let Ranks { comm, members, .. } = self.ranks;
        let own = members.iter().position(|rank| *rank == comm.rank());
        for flow in probe.flows.iter().filter(|flow| Some(flow.from) == own) {
            let yields = matches!(flow.traffic, Traffic::Stream { yields: true, .. });
            self.wire.yield_to_others(members[flow.to], yields)?;
        }
        comm.barrier()?;
        let Some(own) = own else {
            return Ok(Report::default());
        };
        let lost_before = self.wire.lost_packets()?;
        let longest = probe.flows.iter().map(|flow| flow.bytes).max();
        let body = vec![0; longest.unwrap_or(0)];
        let runner = Runner {
            comm,
            members,
            wire: &mut self.wire,
            began: Instant::now(),
            body,
        };
        Ok(Report {
            seen: runner.run(Part::new(probe, own, 0))?,
            lost_packets: self.wire.lost_packets()? - lost_before,
        })
    }
}

/// What a rank tells of a probe: of its flows, by their numbers, and how much it has found lost.
#[derive(Default, Serialize, Deserialize)]
struct Report {
    seen: Vec<(usize, Seen)>,
    lost_packets: u64,
}

/// One rank's part, between the wire and the plan.
struct Runner<'r, 'c> {
    comm: &'r Comm,
    members: &'r [usize],
    wire: &'r mut Wire<'c>,
    began: Instant,
    body: Vec<u8>,
}

impl Runner<'_, '_> {
    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn run(mut self, mut part: Part) -> Result<Vec<(usize, Seen)>> {
        let mut went_on = Instant::now();
        loop {
            while let Some(send) = self.next_of(&part) {
                if !self.send(&mut part, &send)? {
                    break;
                }
                went_on = Instant::now();
            }
            if part.is_done() && !self.wire.is_blocked() {
                return Ok(part.seen());
            }
            let busy = part.deadline_ns().is_some();
            let taken = self.wire.next(if busy { BUSY } else { IDLE })?;
            if let Some(Taken { label, took_ns }) = taken {
                part.handle(label, self.now_ns(), took_ns);
                went_on = Instant::now();
            } else if !busy && let Some((rank, why)) = self.comm.failed().pop_first() {
                bail!("rank {rank} {why}, and what it measures is missing: start the job again");
            }
            if went_on.elapsed() > PATIENCE {
                bail!("a probe did not go on for {PATIENCE:?}: is a rank stopped?");
            }
        }
    }

    fn next_of(&self, part: &Part) -> Option<Send> {
        part.poll(self.now_ns(), |host| self.wire.waiting(self.members[host]))
    }

    /// Whether there was room for it.
    fn send(&mut self, part: &mut Part, send: &Send) -> Result<bool> {
        let began_ns = self.now_ns();
        let body = &self.body[..send.bytes];
        let sent = self.wire.send(self.members[send.to], send.label, body)?;
        if sent {
            part.sent(send, began_ns, self.now_ns() - began_ns);
        }
        Ok(sent)
    }
}

#[cfg(test)]
mod tests {
    use sabani_model::network::{Capacity, Host};

    use super::*;

    #[test]
    fn the_first_rank_of_each_host_measures_and_on_one_host_all_do() {
        assert_eq!(members(&[0, 0, 1, 1, 0, 2]), (vec![0, 2, 5], true));
        assert_eq!(members(&[0, 0, 0]), (vec![0, 1, 2], false));
    }

    #[test]
    fn hosts_of_one_name_are_told_apart_by_their_ranks() {
        let names = ["localhost", "node", "localhost"].map(str::to_owned);
        let told = told_apart(names.into(), &[0, 2, 5]);
        assert_eq!(told, ["localhost (rank 0)", "node", "localhost (rank 5)"]);
        // Who uses the file there knows them by their own names.
        let host = |name: &String| Host {
            name: name.clone(),
            out: Capacity::default(),
            into: Capacity::default(),
            both: Capacity::default(),
        };
        assert!(host(&told[2]).is_called("localhost") && host(&told[1]).is_called("node"));
    }
}
