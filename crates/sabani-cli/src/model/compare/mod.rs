//! `sabani model compare`: what is predicted beside what happens, on simulated networks.

mod cell;
mod collective;
mod report;
mod scores;

use anyhow::Result;
use clap::Args;
use sabani_collective::{Choice, Collective, Mode, Parameters};
use sabani_model::choose::candidates;
use sabani_model::price::{Model, Prices};
use sabani_model::simulate::{REPLICATES, Simulation};
use sabani_model::{Network, Task};

use super::drawn::Drawn;
use super::predict::parse_collective;
use crate::report::{OutputArgs, Reports};
use crate::tell::note;
use crate::units::parse_size;
use cell::{Cell, Place};
use report::Report;

/// Compare what is predicted of a collective with what it takes, on simulated networks
///
/// Networks are drawn from seeds as by `sabani model trial`, and measured by the same procedure. Then every algorithm
/// with every parameter that makes a difference runs for each length, one packet after the other through
/// the simulated hosts, links and switches, of which the predictor knows nothing but the measurement. Told
/// are the errors of all models, how often the intervals hold, and what the choice costs beside the best one of all
/// (its regret), beside the documented rule's, and for an all-to-all beside the paper's A and B.
///
/// Example:
///   sabani model compare alltoall --hosts 8 --seed 1 --count 4 --html alltoall.html
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct CompareArgs {
    /// The collective: barrier, bcast, reduce, allreduce, gather, scatter, allgather, reduce_scatter,
    /// alltoall, scan or exscan.
    #[arg(value_parser = parse_collective)]
    collective: Collective,
    /// Number of hosts, each with a rank, from 8 on.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(8..=256))]
    hosts: u32,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Lengths of the vector; of a block for gather, scatter, allgather, reduce_scatter and alltoall.
    #[arg(long, value_delimiter = ',', value_parser = parse_size, default_value = "16,256,2k,16k,64k,256k")]
    bytes: Vec<usize>,
    /// How often each algorithm runs; runs before that, for 110 ms, open connections and do not count.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs it.
///
/// # Errors
/// If a measurement or a collective does not come to its end, or an output can't be written.
pub fn run(args: &CompareArgs) -> Result<()> {
    let mut reports = Reports::open(&args.output)?;
    let mut cells = Vec::new();
    let mut networks = Vec::new();
    for seed in args.seed..args.seed + args.count {
        let drawn = Drawn::new(args.hosts as usize, seed);
        note(format_args!("seed {seed}: {drawn}"));
        let network = drawn.measure(seed)?.network;
        networks.push((seed, drawn.to_string()));
        for &bytes in &args.bytes {
            let task = Task::new(args.collective, args.hosts as usize, bytes, &network);
            cells.extend(compare(&drawn, &network, &task, seed, args.runs)?);
        }
    }
    let report = Report {
        collective: args.collective,
        ranks: args.hosts as usize,
        networks: &networks,
        cells: &cells,
    };
    reports.write(&report.render()?)
}

/// All ways to do a task: what is predicted, and what happens.
fn compare(
    drawn: &Drawn,
    network: &Network,
    task: &Task,
    seed: u64,
    runs: u32,
) -> Result<Vec<Cell>> {
    let transport = &network.transports["sabani"];
    let prices = Prices::new(network, transport, task);
    let mut cells = Vec::new();
    for (index, choice) in candidates(task).iter().enumerate() {
        let simulation = Simulation {
            network,
            transport,
            task,
            choice,
        };
        let usual = simulation.usual(f64::INFINITY);
        cells.push(Cell {
            place: Place {
                seed,
                bytes: task.bytes,
            },
            choice: *choice,
            is_rule: index == 0,
            usual_ns: usual.expect("without a limit runs come to their end").ns,
            predicted_ns: simulation.predict(REPLICATES).ns,
            prices_ns: Model::ALL.map(|model| prices.price(model, task, choice)),
            took_ns: collective::run(drawn, task, choice, seed, runs)?,
        });
    }
    Ok(cells)
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
