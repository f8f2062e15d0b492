//! `sabani bench`: two processes, several transports taking turns in them, and what came of it.

pub mod args;
mod breakdown;
mod burst;
mod coll;
mod control;
mod cores;
mod cpu;
pub mod incast;
mod layers;
mod machine;
mod measure;
mod pair;
mod ping;
mod place;
mod renewed;
mod report;
mod results;
mod schedules;
mod serve;
mod task;
mod transactions;
pub mod transport;
pub mod worker;
mod workers;

pub use place::guard;

use anyhow::{Context, Result, anyhow};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{address::resolve, exit::Usage, interrupt, report::Reports};
use args::{
    Against, BenchArgs, BenchCommand, CommonArgs, DEFAULT_PORT, Pin, SizedArgs, TransactionArgs,
    TurnArgs, once,
};
use machine::Machine;
use measure::Limit;
use pair::Pair;
use place::Place;
use renewed::Renewed;
use results::{Cell, Results};
use task::Task;
use transport::Transport;

/// Sizes of the overview.
const OVERVIEW_PING_BYTES: [usize; 3] = [4, 1 << 10, 64 << 10];
const OVERVIEW_BURST_BYTES: [usize; 4] = [4, 64, 64 << 10, 512 << 10];
const OVERVIEW_COUNTS: [u64; 2] = [1, 100];

/// Does what the command line says.
///
/// # Errors
/// If something fails in this process or in one of those that are measured.
pub fn run(args: BenchArgs) -> Result<()> {
    match args.bench {
        None => measure(&args.common, args.turns.rounds, &overview(args.turns)),
        Some(BenchCommand::Ping(args)) => measure(&args.common, args.turns.rounds, &pings(&args)),
        Some(BenchCommand::Burst(args)) => measure(&args.common, args.turns.rounds, &bursts(&args)),
        Some(BenchCommand::Transactions(args)) => {
            measure(&args.common, args.rounds, &transactions(&args))
        }
        Some(BenchCommand::Incast(args)) => incast::run(&args),
        Some(BenchCommand::Mix(args)) => incast::run_mix(&args),
        Some(BenchCommand::Layers(args)) => layers::run(&args),
        Some(BenchCommand::Coll(args)) => coll::run(&args),
        Some(BenchCommand::Breakdown(args)) => breakdown::run(&args),
        Some(BenchCommand::Schedules(args)) => schedules::run(&args),
        Some(BenchCommand::Serve(args)) => serve::run(&args),
    }
}

fn overview(turns: TurnArgs) -> Vec<Task> {
    let limit = Limit::Time(turns.seconds);
    let pings = OVERVIEW_PING_BYTES.map(|size| Task::Ping { size, limit });
    let bursts = OVERVIEW_BURST_BYTES.map(|size| Task::Burst { size, limit });
    let transactions = OVERVIEW_COUNTS.map(|count| Task::Transactions { count });
    [&pings[..], &bursts, &transactions].concat()
}

fn pings(args: &SizedArgs) -> Vec<Task> {
    let limit = args.limit();
    once(&args.sizes)
        .into_iter()
        .map(|size| Task::Ping { size, limit })
        .collect()
}

fn bursts(args: &SizedArgs) -> Vec<Task> {
    let limit = args.limit();
    once(&args.sizes)
        .into_iter()
        .map(|size| Task::Burst { size, limit })
        .collect()
}

fn transactions(args: &TransactionArgs) -> Vec<Task> {
    once(&args.counts)
        .into_iter()
        .map(|count| Task::Transactions { count })
        .collect()
}

/// Measures, and reports as the user wishes.
fn measure(common: &CommonArgs, rounds: u32, tasks: &[Task]) -> Result<()> {
    let transports = [common.variants.transports(), baselines(&common.against)?].concat();
    place::expect_rights(common.place)?;
    let mut reports = Reports::open(&common.output)?;
    // The processes open it themselves; here only what is wrong with it is found.
    common.node.key_log.open()?;
    interrupt::install()?;
    let to = common.to.as_ref();
    let to = to.map(|to| resolve(to, DEFAULT_PORT)).transpose()?;
    let pin = common
        .pin
        .unwrap_or_else(|| match common.node.layers.needs_cores() {
            true => Pin::None,
            false => cores::default_pin(),
        });
    match (pin, to) {
        (Pin::None, _) => {}
        (Pin::Client(client) | Pin::Cores(client, _), Some(_)) => cores::expect([client])?,
        (Pin::Client(_), None) => {
            let why = "`--pin` needs two cores, as in `0,1`: both processes are on this machine";
            return Err(Usage::of(anyhow!(why)).into());
        }
        (Pin::Cores(client, server), None) => cores::expect([client, server])?,
    }
    let mut results = Results {
        place: to.map_or(common.place.name().into(), |to| to.to_string()),
        schedule: common.node.layers.schedule()?,
        cells: Vec::new(),
    };
    Machine::here().watched(&pin.cores()).head(&mut reports)?;
    let place = Place::create(common.place)?;
    let mut pair = Renewed::start(|| match to {
        Some(to) => Pair::start_with(to, pin, &common.node),
        None => Pair::start(&place, pin, &common.node),
    })?;
    let progress = progress_bar(tasks.len() * transports.len() * rounds as usize)?;
    for &task in tasks {
        let cells = take_turns(&mut pair, task, &transports, rounds, &progress)?;
        results.cells.extend(cells);
        progress.suspend(|| report::tell_last(&results, &mut reports))?;
    }
    progress.finish_and_clear();
    drop(pair);
    drop(place);
    reports.write(&report::rest(&results))
}

/// One task by all transports, which take turns; the order is reversed from round to round, so that
/// none always follows the same other.
fn take_turns(
    pair: &mut Renewed<Pair, impl Fn() -> Result<Pair>>,
    task: Task,
    transports: &[Transport],
    rounds: u32,
    progress: &ProgressBar,
) -> Result<Vec<Cell>> {
    let mut cells: Vec<Cell> = transports
        .iter()
        .map(|&transport| Cell {
            task,
            transport,
            samples: Vec::new(),
        })
        .collect();
    for round in 0..rounds {
        let mut order: Vec<_> = cells.iter_mut().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for cell in order {
            progress.set_message(format!("{} {}", task.bench(), cell.transport.label()));
            let sample = pair.turn(|pair| pair.turn(cell.transport, task))?;
            cell.samples.push(sample);
            progress.inc(1);
        }
    }
    Ok(cells)
}

/// What the user wants to compare with, or all that this system offers.
fn baselines(against: &[Against]) -> Result<Vec<Transport>> {
    if against.is_empty() {
        let all = Transport::BASELINES.into_iter();
        return Ok(all.filter(|transport| transport.is_available()).collect());
    }
    let listed: Vec<Transport> = against.iter().flat_map(|word| word.0.clone()).collect();
    for transport in &listed {
        if !transport.is_available() {
            return Err(Usage(format!(
                "this system does not let you use {}; see net.ipv4.tcp_allowed_congestion_control",
                transport.name()
            ))
            .into());
        }
    }
    Ok(once(&listed))
}

/// What the user wants to compare with where only TCP can be; `why` says of others why they can't.
fn tcp_baselines(against: &[Against], why: &str) -> Result<Vec<Transport>> {
    let wanted = baselines(against)?;
    match wanted.iter().find(|transport| !transport.is_tcp()) {
        Some(other) => Err(Usage(format!("{} {why}", other.name())).into()),
        None => Ok(wanted),
    }
}

/// It moves between turns only: redrawing it would disturb them.
fn progress_bar(turns: usize) -> Result<ProgressBar> {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} turns, {eta} left  {msg}")
        .context("progress bar")?;
    Ok(ProgressBar::new(turns as u64).with_style(style))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_measured_once() {
        use clap::Parser;

        let words = ["raw-udp", "raw-udp"].map(|word| word.parse().unwrap());
        assert_eq!(baselines(&words).unwrap(), [Transport::RawUdp]);
        let tasks = |line: &str| match crate::Arguments::parse_from(line.split(' ')).command {
            crate::Command::Bench(args) => match args.bench {
                Some(BenchCommand::Ping(args)) => pings(&args).len(),
                Some(BenchCommand::Burst(args)) => bursts(&args).len(),
                Some(BenchCommand::Transactions(args)) => transactions(&args).len(),
                other => panic!("{other:?}"),
            },
            _ => panic!("{line}"),
        };
        assert_eq!(tasks("sabani bench ping --sizes 1k,4,1024,4"), 2);
        assert_eq!(tasks("sabani bench burst --sizes 4,4"), 1);
        assert_eq!(tasks("sabani bench transactions --counts 1,2,1"), 2);
    }
}
