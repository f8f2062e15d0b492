//! `sabani bench layers`: what it costs to run layers of protocol on cores of their own.

pub mod args;
mod ends;
mod fletcher;
mod handover;
mod ip;
mod pdu;
mod report;
mod tp4;
mod turn;

use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;

use super::{args::once, machine::Machine, progress_bar, renewed::Renewed};
use crate::exit::Usage;
use crate::interrupt;
use crate::report::Reports;
use args::{LayersArgs, ProtocolName};
use handover::Handover;
use tp4::Tp4Options;
use turn::{Protocol, Setup};

/// The user's data under TP4, as in the paper.
const TP4_SIZE_BYTES: usize = 1024;

/// One setup, and the time for a PDU in each turn, in nanoseconds.
struct Cell {
    setup: Setup,
    ns_per_pdu: Vec<f64>,
}

impl Cell {
    fn new(setup: Setup) -> Self {
        Self {
            setup,
            ns_per_pdu: Vec::new(),
        }
    }
}

/// All that was measured in one run.
struct Results {
    handovers: Vec<Handover>,
    cells: Vec<Cell>,
}

/// Measures, and reports as the user wishes.
///
/// # Errors
/// If groups fit no stack, or a file can't be written.
pub fn run(args: &LayersArgs) -> Result<()> {
    let mut reports = Reports::open(&args.output)?;
    interrupt::install_end()?;
    let mut results = Results {
        handovers: Vec::new(),
        cells: cells(args)?,
    };
    let machine = Machine::here().watched(&sabani_ring::allowed());
    machine.head(&mut reports)?;
    let progress = progress_bar(results.cells.len() * args.rounds as usize)?;
    let outcome = take_turns(args, &mut results, &progress);
    progress.finish_and_clear();
    // What was measured before something failed has taken its time, and is good.
    if outcome.is_ok() || results.keep_measured() {
        reports.write(&report::render(&results)?)?;
    }
    outcome
}

/// Everything in turn, round after round.
fn take_turns(args: &LayersArgs, results: &mut Results, progress: &ProgressBar) -> Result<()> {
    let batch = args.batches.iter().copied().max().unwrap_or(1);
    let mut turns = Renewed::start(|| Ok(()))?;
    for _ in 0..args.rounds {
        let handover = turns.turn(|()| Ok(Handover::measure(batch.into())))?;
        results.handovers.extend(handover);
        for cell in &mut results.cells {
            progress.set_message(cell.setup.protocol.name());
            let ns =
                turns.turn(|()| cell.setup.run(args.pdus).with_context(|| cell.setup.told()))?;
            cell.ns_per_pdu.push(ns);
            progress.inc(1);
        }
    }
    Ok(())
}

/// All setups, those that are shown together next to each other.
///
/// # Errors
/// If a schedule's groups fit none of the stacks.
fn cells(args: &LayersArgs) -> Result<Vec<Cell>> {
    let variants = once(&args.protocols)
        .into_iter()
        .flat_map(|name| variants(name, args));
    let mut cells = Vec::new();
    for columns in variants {
        for batch in once(&args.batches) {
            for layers in once(&args.depths) {
                for schedule in once(&args.layers) {
                    let setups = columns.iter().map(|&(protocol, size_bytes)| Setup {
                        protocol,
                        layers: layers.into(),
                        schedule: schedule.clone(),
                        batch: batch.into(),
                        size_bytes,
                    });
                    cells.extend(setups.filter(Setup::makes_sense).map(Cell::new));
                }
            }
        }
    }
    for schedule in &args.layers {
        let fits = cells.iter().any(|cell| cell.setup.schedule == *schedule);
        ensure!(fits, Usage(format!("{schedule} fits none of the stacks")));
    }
    Ok(cells)
}

/// For each table: the protocol and the user's data of each column.
fn variants(protocol: ProtocolName, args: &LayersArgs) -> Vec<Vec<(Protocol, usize)>> {
    match protocol {
        ProtocolName::Ip => {
            let sizes = once(&args.sizes).into_iter();
            vec![sizes.map(|size| (Protocol::Ip, size)).collect()]
        }
        ProtocolName::Tp4 => [(false, false), (false, true), (true, false), (true, true)]
            .map(|(checksum, retain)| {
                let tp4 = |credit| {
                    Protocol::Tp4(Tp4Options {
                        credit,
                        retain,
                        checksum,
                    })
                };
                let credits = once(&args.credits).into_iter();
                credits
                    .map(|credit| (tp4(credit), TP4_SIZE_BYTES))
                    .collect()
            })
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: LayersArgs,
    }

    #[test]
    fn doubles_are_measured_once() {
        let each = [
            ("--protocols", "ip,ip"),
            ("--depths", "2,2"),
            ("--layers", "inline,inline"),
            ("--batches", "8,8"),
            ("--sizes", "1k,1024"),
        ];
        let words = each.iter().flat_map(|&(option, values)| [option, values]);
        let line = Line::parse_from(["x"].into_iter().chain(words));
        assert_eq!(cells(&line.args).unwrap().len(), 1);
        let words = [
            "x",
            "--protocols",
            "tp4",
            "--credits",
            "4,4",
            "--depths",
            "1",
        ];
        let line =
            Line::parse_from(
                words
                    .into_iter()
                    .chain(["--layers", "inline", "--batches", "1"]),
            );
        // With and without a checksum, and with and without resending.
        assert_eq!(cells(&line.args).unwrap().len(), 4);
    }
}
