//! `sabani bench schedules`: what more cores bring to a node.

pub mod args;
mod places;
mod report;
mod turn;

use anyhow::{Context, Result};
use sabani::Schedule;
use sabani_ring::cores;

use super::{
    args::once,
    machine::Machine,
    progress_bar,
    renewed::Renewed,
    transport::{Key, Transport},
};
use crate::interrupt;
use crate::report::Reports;
use crate::units::format_size;
use args::SchedulesArgs;
use places::Places;
use turn::Ends;

/// One transport, size and schedule, and what arrived in each turn, in megabytes (10⁶ bytes) per second.
struct Cell {
    transport: Transport,
    size: usize,
    schedule: Schedule,
    mb_per_s: Vec<f64>,
}

impl Cell {
    /// What it is, for people.
    fn told(&self) -> String {
        let (label, size) = (self.transport.label(), format_size(self.size));
        format!("{label}, messages of {size}, schedule {}", self.schedule)
    }
}

/// Measures, and reports as the user wishes.
///
/// # Errors
/// If a node can't be opened, a message is lost, or a file can't be written.
pub fn run(args: &SchedulesArgs) -> Result<()> {
    let mut reports = Reports::open(&args.output)?;
    interrupt::install_end()?;
    Machine::here().watched(&cores(2)).head(&mut reports)?;
    let mut cells = cells(args);
    let places = Places::find();
    let progress = progress_bar(cells.len() * args.turns.rounds as usize)?;
    let mut turns = Renewed::start(|| Ok(()))?;
    for _ in 0..args.turns.rounds {
        for cell in &mut cells {
            progress.set_message(cell.schedule.to_string());
            let key = cell.transport.is_sealed().then(Key::random).transpose()?;
            let turn = || {
                // Anew for each turn: two nodes at a time have the cores for themselves.
                let ends = Ends::open(&cell.schedule, key, &places)?;
                ends.turn(cell.size, args.turns.seconds)
            };
            let mb_per_s = turns.turn(|()| turn().with_context(|| cell.told()))?;
            cell.mb_per_s.push(mb_per_s);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    reports.write(&report::render(&cells, &places)?)
}

/// All cells, those that are compared next to each other.
fn cells(args: &SchedulesArgs) -> Vec<Cell> {
    let mut cells = Vec::new();
    for transport in args.variants.transports() {
        for size in once(&args.sizes) {
            cells.extend(once(&args.layers).into_iter().map(|schedule| Cell {
                transport,
                size,
                schedule,
                mb_per_s: Vec::new(),
            }));
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: SchedulesArgs,
    }

    #[test]
    fn doubles_are_measured_once() {
        let words = [
            "x",
            "--layers",
            "inline,per-layer,inline",
            "--sizes",
            "1k,1024",
        ];
        let line = Line::parse_from(words);
        // Sealed and plain.
        assert_eq!(cells(&line.args).len(), 2 * 2);
    }
}
