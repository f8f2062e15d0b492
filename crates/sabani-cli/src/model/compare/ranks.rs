//! Algorithms run by the ranks of a job, on the network that was measured between them.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use indicatif::HumanBytes;
use sabani::Comm;
use sabani::comm::Sum;
use sabani_collective::{Collective, Hosts};
use sabani_model::{Network, Task};
use serde::{Deserialize, Serialize};

use super::cell::Cell;
use super::{CompareArgs, WARM, expect};
use crate::bench::transport::Transport;
use crate::counters::Counters;
use crate::exit::Usage;
use crate::job::{Buffers, Call, Calls, Carrier, hosts, tell};
use crate::model::progress::Progress;
use crate::model::{MOST_RANKS, load};
use crate::report::Reports;
use crate::tell::note;
use crate::units::format_size;

/// What ranks do, as rank 0 tells them: each of these in turn, so many times.
#[derive(Serialize, Deserialize)]
struct Plan {
    calls: Vec<Wanted>,
    runs: u32,
    /// What takes less has met none: a probe that came early.
    timeout_ns: f64,
}

/// An algorithm, as a user would wish for it.
#[derive(Serialize, Deserialize)]
struct Wanted {
    bytes: usize,
    wish: String,
}

/// What is compared, at rank 0: what has been predicted, and happened, and where it is to be told, which is open before anything runs.
///
/// # Errors
/// If this is no job, or not on the network that the file describes; if a rank is lost.
pub fn run(args: &CompareArgs, path: &Path) -> Result<Option<(Ended, Reports)>> {
    let comm = Comm::init()?;
    ensure!(
        comm.size() > 1,
        Usage(
            "--network compares what ranks do: start it as a job, as in `sabani run -n 8 -- sabani model compare \
             alltoall --network network.json`"
                .into()
        )
    );
    comm.set_network(None)?;
    let hosts = hosts(&comm);
    // What can't be written is told before anything runs.
    let reports = match comm.rank() {
        0 => Some(open(args, path)?),
        _ => None,
    };
    let (mut cells, plan) = match comm.rank() {
        0 => {
            let (cells, timeout_ns) = expected(args, path, &hosts)?;
            let plan = Plan {
                timeout_ns,
                calls: cells
                    .iter()
                    .map(|cell| Wanted::of(args.collective, cell))
                    .collect(),
                runs: args.runs,
            };
            tell(&comm, Some(plan)).map(|plan| (cells, plan))?
        }
        _ => (Vec::new(), tell(&comm, None)?),
    };
    let mut carrier = Carrier::open(args.transport, &comm, &hosts, None)?;
    let mut runner = Runner {
        comm: &comm,
        hosts: &hosts,
        collective: args.collective,
        transport: args.transport,
        carrier: &mut carrier,
    };
    runner.run_all(&plan, &mut cells)?;
    // Nobody closes a stream that another one still needs.
    comm.barrier()?;
    let Some(reports) = reports else {
        return Ok(None);
    };
    let ended = Ended {
        ranks: comm.size(),
        cells: known(cells)?,
    };
    Ok(Some((ended, reports)))
}

/// Where it is to be told. Rank 0 alone says what is wrong with the command line.
fn open(args: &CompareArgs, path: &Path) -> Result<Reports> {
    let mut lengths = args.lengths().iter();
    ensure!(
        lengths.all(|bytes| bytes % size_of::<f32>() == 0),
        Usage("ranks have numbers of 4 bytes: give --bytes multiples of 4".into())
    );
    args.output.expect_other_than("--network", path)?;
    Reports::open(&args.output)
}

/// Refuses ranks of which nobody would wait for a prediction.
fn expect_few(ranks: usize) -> Result<(), Usage> {
    match ranks as i64 <= MOST_RANKS {
        true => Ok(()),
        false => Err(Usage(format!(
            "{ranks} ranks are more than can be simulated in some minutes: start {MOST_RANKS} or fewer"
        ))),
    }
}

/// Refuses lengths for which the first host's memory has no room.
fn expect_room(args: &CompareArgs, hosts: &Hosts) -> Result<()> {
    let longest = args.longest()?;
    let (first, _) = hosts.place(0);
    let beside = (0..hosts.ranks()).filter(|&rank| hosts.place(rank).0 == first);
    // Each rank has a vector to send and one to receive into, of a block for each rank.
    let needed = 2 * longest as u64 * hosts.ranks() as u64 * beside.count() as u64;
    expect_memory("the ranks on this host", needed, longest)
}

/// Refuses lengths for which this host's memory has no room.
pub fn expect_memory(who: &str, needed: u64, longest: usize) -> Result<()> {
    if let Some(available) = available_memory() {
        ensure!(
            needed <= available,
            Usage(format!(
                "{who} need {} for vectors with {}, and {} are available: give smaller --bytes",
                HumanBytes(needed),
                format_size(longest),
                HumanBytes(available)
            ))
        );
    }
    Ok(())
}

/// Memory that programs may still take on this host, in bytes, if that is known.
fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let of_line = |line: &str| {
        let words = line.strip_prefix("MemAvailable:")?;
        let kib: u64 = words.split_whitespace().next()?.parse().ok()?;
        Some(kib << 10)
    };
    text.lines().find_map(of_line)
}

/// Nothing is known of an algorithm if a rank was late in every run.
fn known(mut cells: Vec<Cell>) -> Result<Vec<Cell>> {
    let all = cells.len();
    cells.retain(|cell| !cell.took_ns.is_empty());
    let unknown = all - cells.len();
    ensure!(
        unknown < all || all == 0,
        "no run counts: in each a rank began later than all had agreed on; leave the hosts more idle, or start fewer ranks on each"
    );
    if unknown > 0 {
        note(format_args!(
            "{unknown} of {all} are left out: in each of their runs a rank began later than all had agreed on; \
             leave the hosts more idle, or give more --runs"
        ));
    }
    Ok(cells)
}

/// What came of it.
pub struct Ended {
    pub ranks: usize,
    pub cells: Vec<Cell>,
}

/// All ways to do it, and what is predicted of them; how long a timeout takes.
fn expected(args: &CompareArgs, path: &Path, hosts: &Hosts) -> Result<(Vec<Cell>, f64)> {
    let network = load(path)?;
    let name = args.transport.name();
    let timeout_ns = crate::model::transport(&network, name)?
        .recovery
        .timeout_ns
        .low;
    let task = |bytes| Task::new(args.collective, hosts.ranks(), bytes, &network);
    ensure!(
        task(0).hosts() == hosts,
        Usage(format!(
            "{} is not the network between these ranks: {}",
            path.display(),
            difference(&network, hosts)
        ))
    );
    expect_room(args, hosts)?;
    expect_few(hosts.ranks())?;
    note("predicting");
    let of_length = |&bytes: &usize| expect(&network, name, &task(bytes), 0);
    Ok((
        args.lengths().iter().flat_map(of_length).collect(),
        timeout_ns,
    ))
}

fn difference(network: &Network, hosts: &Hosts) -> String {
    let described = match network.one_host {
        true => "one host".into(),
        false => format!(
            "{} hosts, the same number of ranks on each, host after host",
            network.graph.hosts.len()
        ),
    };
    format!(
        "it describes {described}; here {} ranks are on {}",
        hosts.ranks(),
        crate::units::count(hosts.len(), "host")
    )
}

impl Wanted {
    fn of(collective: Collective, cell: &Cell) -> Self {
        Wanted {
            bytes: cell.place.bytes,
            wish: format!("{collective}={}", cell.choice.in_full()),
        }
    }
}

/// A rank's part.
struct Runner<'r, 'c> {
    comm: &'r Comm,
    hosts: &'r Hosts,
    collective: Collective,
    transport: Transport,
    carrier: &'r mut Carrier<'c>,
}

impl Runner<'_, '_> {
    /// Everything once, then again: what changes meanwhile changes for all.
    fn run_all(&mut self, plan: &Plan, cells: &mut [Cell]) -> Result<()> {
        let turns = plan.calls.len() as u64 * u64::from(plan.runs);
        let leads = self.comm.rank() == 0;
        let progress = || Progress::new(turns, "{bar:30} {pos}/{len} runs, {eta} left");
        let (progress, mut done) = (leads.then(progress), 0);
        for _ in 0..plan.runs {
            for (index, wanted) in plan.calls.iter().enumerate() {
                let ran = self.run(wanted)?;
                if let (Some(cell), Some(took_ns)) = (cells.get_mut(index), ran.took_ns) {
                    cell.took_ns.push(took_ns);
                    let is_long = took_ns >= plan.timeout_ns;
                    cell.timeouts.push(if is_long { ran.timeouts } else { 0 });
                }
                done += 1;
                if let Some(progress) = &progress {
                    progress.set(done, "running what was predicted");
                }
            }
        }
        if let Some(progress) = progress {
            progress.end();
        }
        Ok(())
    }

    /// One run that counts, after some that don't: those leave the transport as this algorithm does.
    fn run(&mut self, wanted: &Wanted) -> Result<Ran> {
        self.carrier.set_algorithms(&wanted.wish)?;
        let call = Call {
            collective: self.collective,
            size_bytes: wanted.bytes,
        };
        let mut buffers = call.buffers(self.comm.size());
        self.warm(call, &mut buffers)?;
        let before = self.timeouts()?;
        let mut calls = Calls {
            comm: self.comm,
            carrier: self.carrier,
            call,
            starts: 1,
            apart_ns: 0,
            may_spin: true,
        };
        let times_ns = calls.times_ns(&mut buffers)?;
        let mut timeouts = [self.timeouts()? - before];
        self.comm.allreduce_in_place(&mut timeouts, Sum)?;
        Ok(Ran {
            took_ns: times_ns.first().copied(),
            timeouts: timeouts[0],
        })
    }

    /// Calls for [`WARM`], at least once; as often at all ranks. A root may have returned long before the others have all.
    fn warm(&mut self, call: Call, buffers: &mut Buffers) -> Result<()> {
        const MOST: u32 = 64;
        let (began, mut batch) = (Instant::now(), 1);
        loop {
            for _ in 0..batch {
                self.carrier.call(call, buffers, 0)?;
            }
            self.comm.barrier()?;
            let is_warm = (self.comm.rank() == 0).then(|| began.elapsed() >= WARM);
            if tell(self.comm, is_warm)? {
                return Ok(());
            }
            batch = MOST.min(2 * batch);
        }
    }

    /// Retransmission timeouts on this host so far, and probes of tails, as its system counts them; its first rank tells.
    fn timeouts(&self) -> Result<u64> {
        let (_, among_its_ranks) = self.hosts.place(self.comm.rank());
        let is_first = among_its_ranks == 0;
        match self.transport.is_tcp() && is_first {
            true => {
                let counters = Counters::netstat()?;
                let figure = |name| counters.figure("TcpExt", name);
                Ok(figure("TCPTimeouts")? + figure("TCPLossProbes")?)
            }
            false => Ok(0),
        }
    }
}

/// What came of a run; only rank 0 knows what it took, and nobody does if a rank was late.
struct Ran {
    took_ns: Option<f64>,
    timeouts: u64,
}

#[cfg(test)]
mod tests {
    use super::super::cell::tests::cell;
    use super::*;

    #[test]
    fn more_ranks_than_can_be_predicted_are_refused() {
        assert!(expect_few(512).is_ok());
        let Usage(why) = expect_few(4096).unwrap_err();
        assert!(why.contains("start 512 or fewer"), "{why}");
    }

    #[test]
    fn what_no_run_counts_of_is_left_out_and_if_that_is_all_it_is_an_error() {
        let unknown = || Cell {
            took_ns: Vec::new(),
            ..cell("chain", 10, 1.0, 1.0)
        };
        let cells = known(vec![unknown(), cell("binomial", 10, 1.0, 1.0)]).unwrap();
        assert_eq!(cells.len(), 1);
        assert!(cells[0].is_rule);
        let why = known(vec![unknown(), unknown()]).unwrap_err().to_string();
        assert!(why.starts_with("no run counts: "), "{why}");
    }
}
