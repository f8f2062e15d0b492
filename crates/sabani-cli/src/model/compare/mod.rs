//! `sabani model compare`: what is predicted beside what happens, on simulated networks or between the ranks of a job.

mod cell;
mod ranks;
mod report;
mod scores;
mod simulated;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use sabani_collective::{Choice, Collective, Mode, Parameters};
use sabani_model::choose::{candidates, decide};
use sabani_model::price::{Model, Prices};
use sabani_model::simulate::{REPLICATES, Simulation};
use sabani_model::{Network, Task};
use sabani_sim::Rate;

use super::drawn::{DEFAULT_LINK, Drawn, Kind, parse_link};
use super::predict::parse_collective;
use super::progress::Progress;
use super::wire;
use crate::bench::transport::Transport;
use crate::exit::Usage;
use crate::report::{OutputArgs, Reports};
use crate::tell::note;
use crate::units::{format_size, parse_size};
use cell::{Cell, Place};
use report::{Ground, Report};

/// Headings of options that go together.
const SIMULATED: &str = "On simulated networks";
const RANKS: &str = "Between the ranks of a job";

/// Compare what is predicted of a collective with what it takes, on simulated networks or between ranks
///
/// Networks are drawn from seeds as by `sabani model trial`, and measured by the same procedure. Then every algorithm
/// with every parameter that makes a difference runs for each length, one packet after the other through
/// the simulated hosts, links and switches, of which the predictor knows nothing but the measurement. Told
/// are the errors of all models, how often the intervals hold, and what the choice costs beside the best one of all
/// (its regret), beside the documented rule's, and for an all-to-all beside the paper's A and B.
///
/// With --network a job's ranks, at most 512, run the algorithms for real, each a call at a time that all begin at the same moment, over
/// the network that the file describes; with --transport tcp-cubic over streams of TCP, of which it is also told how often
/// a retransmission timeout came and was predicted.
///
/// Examples:
///   sabani model compare alltoall --hosts 8 --seed 1 --count 4 --html alltoall.html
///   mpirun --map-by node sabani model compare alltoall --network network.json --transport tcp-cubic
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct CompareArgs {
    /// The collective: barrier, bcast, reduce, allreduce, gather, scatter, allgather, reduce_scatter,
    /// alltoall, scan or exscan.
    #[arg(value_parser = parse_collective)]
    collective: Collective,
    /// Number of simulated hosts, each with a rank, from 8 on.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(8..=256), conflicts_with = "network", help_heading = SIMULATED)]
    hosts: u32,
    /// What sort of networks.
    #[arg(long, value_name = "SORT", value_enum, default_value_t, conflicts_with = "network", help_heading = SIMULATED)]
    networks: Kind,
    /// Rate of most hosts' links, Ethernet's headers included.
    #[arg(long, value_name = "RATE", default_value = DEFAULT_LINK, value_parser = parse_link, conflicts_with = "network", help_heading = SIMULATED)]
    link: Rate,
    /// The first simulated network's seed.
    #[arg(long, default_value_t = 1, conflicts_with = "network", help_heading = SIMULATED)]
    seed: u64,
    /// How many simulated networks.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "network", help_heading = SIMULATED)]
    count: u64,
    /// Compare what this job's ranks do, on the network that this file of `sabani model measure` describes.
    #[arg(long, value_name = "FILE", help_heading = RANKS)]
    network: Option<PathBuf>,
    /// What the ranks' messages go over: sabani, tcp-cubic or tcp-bbr. It must have been measured.
    #[arg(long, value_name = "NAME", default_value = "sabani", value_parser = wire::transport, requires = "network",
          conflicts_with_all = ["hosts", "networks", "link", "seed", "count"], help_heading = RANKS)]
    transport: Transport,
    /// Lengths of the vector; of a block for gather, scatter, allgather, reduce_scatter and alltoall. Between
    /// ranks, multiples of 4. A barrier has none.
    #[arg(long, value_delimiter = ',', value_parser = parse_size, default_value = "16,256,2k,16k,64k,256k")]
    bytes: Vec<usize>,
    /// How often each algorithm runs. Runs before that, for 110 ms, open connections and do not count; between ranks, where all take
    /// turns, before each one.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    #[command(flatten)]
    output: OutputArgs,
}

/// What a message has at most, but for a collective's header.
const MOST_BYTES: usize = (1 << 30) - 1024;
/// Before a run counts its algorithm runs for so long: connections open, and receivers divide the credit that they give unasked by what
/// came in the last 100 ms.
const WARM: Duration = Duration::from_millis(110);

/// Runs it.
///
/// # Errors
/// If a measurement or a collective does not come to its end, or an output can't be written.
pub fn run(args: &CompareArgs) -> Result<()> {
    match &args.network {
        Some(path) => run_on_ranks(args, path),
        None => super::alone(|| run_simulated(args)),
    }
}

fn run_on_ranks(args: &CompareArgs, path: &Path) -> Result<()> {
    let Some((ended, mut reports)) = ranks::run(args, path)? else {
        return Ok(());
    };
    let report = Report {
        collective: args.collective,
        ranks: ended.ranks,
        ground: Ground::Ranks(args.transport),
        networks: &[(0, path.display().to_string())],
        cells: &ended.cells,
    };
    reports.write(&report.render()?)
}

fn run_simulated(args: &CompareArgs) -> Result<()> {
    let is_empty = args.lengths().contains(&0) && args.collective != Collective::Barrier;
    ensure!(
        !is_empty,
        Usage("simulated hosts send nothing for 0 bytes: give other --bytes".into())
    );
    expect_room(args)?;
    let mut reports = Reports::open(&args.output)?;
    let mut cells = Vec::new();
    let mut networks = Vec::new();
    let steps = args.count.saturating_mul(args.lengths().len() as u64);
    let progress = Progress::new(steps, "{bar:30} {pos}/{len}  {msg}  {elapsed}");
    let mut done = 0;
    for seed in (0..args.count).map(|more| args.seed.wrapping_add(more)) {
        let drawn = Drawn::new(args.networks, args.hosts as usize, args.link, seed);
        let network = drawn.measure(seed)?.network;
        let fit = network.graph.fit.unwrap_or_default();
        progress.beside(|| note(format_args!("seed {seed}: {drawn}; {fit}")));
        networks.push((seed, drawn.to_string()));
        for &bytes in args.lengths() {
            let doing = format!(
                "seed {seed}: running all algorithms with {}",
                format_size(bytes)
            );
            progress.set(done, &doing);
            done += 1;
            let task = Task::new(args.collective, args.hosts as usize, bytes, &network);
            for mut cell in expect(&network, Transport::Sabani.name(), &task, seed) {
                cell.took_ns = simulated::run(&drawn, &task, &cell.choice, seed, args.runs)?;
                cells.push(cell);
            }
        }
    }
    progress.end();
    let report = Report {
        collective: args.collective,
        ranks: args.hosts as usize,
        ground: Ground::Simulated,
        networks: &networks,
        cells: &cells,
    };
    reports.write(&report.render()?)
}

/// Refuses lengths for which this machine has no room: all simulated hosts' vectors are in it.
fn expect_room(args: &CompareArgs) -> Result<()> {
    let longest = args.longest()?;
    let needed = simulated::needed(args.collective, args.hosts as usize, longest);
    ranks::expect_memory("simulated hosts", needed, longest)
}

impl CompareArgs {
    /// The lengths to look at: a barrier has none.
    fn lengths(&self) -> &[usize] {
        match self.collective {
            Collective::Barrier => &[0],
            _ => &self.bytes,
        }
    }

    /// The longest of them.
    ///
    /// # Errors
    /// [`Usage`], if it does not fit into a message.
    fn longest(&self) -> Result<usize, Usage> {
        let longest = self.lengths().iter().copied().max().unwrap_or(0);
        match longest < MOST_BYTES {
            true => Ok(longest),
            false => Err(Usage(
                "a rank sends less than 1 GiB at a time: give smaller --bytes".into(),
            )),
        }
    }
}

/// All ways to do a task over one of a network's transports, and what is predicted of them.
fn expect(network: &Network, transport: &str, task: &Task, seed: u64) -> Vec<Cell> {
    let transport = &network.transports[transport];
    let prices = Prices::new(network, transport, task);
    let decided = decide(network, transport, task).choice;
    let expected = |(index, choice): (usize, &Choice)| {
        let simulation = Simulation {
            network,
            transport,
            task,
            choice,
        };
        let predicted = simulation.predict(REPLICATES);
        Cell {
            place: Place {
                seed,
                bytes: task.bytes,
            },
            choice: *choice,
            is_rule: index == 0,
            is_decided: *choice == decided,
            predicted_ns: predicted.ns,
            prices_ns: Model::ALL.map(|model| prices.price(model, task, choice)),
            timeout_probability: predicted.timeout_probability,
            paper_timeout: prices.expects_timeout(task, choice),
            took_ns: Vec::new(),
            timeouts: Vec::new(),
        }
    };
    candidates(task).iter().enumerate().map(expected).collect()
}

/// The paper's all-to-all A: everything is posted at once. B: one pair at a time, and a message waits
/// for its receiver.
fn of_the_paper(ranks: usize) -> [(&'static str, Choice); 2] {
    let windowed = |window, mode| Choice {
        algorithm: Collective::Alltoall
            .algorithm("windowed")
            .expect("it is there"),
        parameters: Parameters {
            window,
            mode,
            ..Parameters::default()
        },
    };
    [
        ("A", windowed(ranks - 1, Mode::Eager)),
        ("B", windowed(1, Mode::Rendezvous)),
    ]
}
