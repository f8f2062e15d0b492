//! `sabani bench breakdown`: where the time of a message goes.

pub mod args;
mod report;
mod turn;

use anyhow::Result;
use sabani_ring::{cores, pin};

use super::{args::once, machine::Machine, progress_bar, renewed::Renewed, transport::Key};
use crate::interrupt;
use crate::report::Reports;
use args::BreakdownArgs;
use turn::{Couple, Sample};

/// What was measured of one size.
struct Cell {
    size: usize,
    sealed: Vec<Sample>,
    plain: Vec<Sample>,
    copy_ns: Vec<f64>,
}

impl Cell {
    fn add(&mut self, (sealed, plain, copy_ns): (Sample, Sample, f64)) {
        self.sealed.push(sealed);
        self.plain.push(plain);
        self.copy_ns.push(copy_ns);
    }
}

/// Measures, and reports as the user wishes.
///
/// # Errors
/// If a node can't be opened, or a file can't be written.
pub fn run(args: &BreakdownArgs) -> Result<()> {
    let mut reports = Reports::open(&args.output)?;
    interrupt::install_end()?;
    Machine::here().watched(&cores(2)).head(&mut reports)?;
    let [sealed, plain] = [Some(Key::random()?), None].map(Couple::open);
    let (sealed, plain) = (sealed?, plain?);
    // Not before the other ends have their cores.
    pin(cores(1)[0]);
    let mut turns = Renewed::start(|| Ok(()))?;
    let seconds = args.turns.seconds;
    let sizes = once(&args.sizes);
    let progress = progress_bar(sizes.len() * args.turns.rounds as usize)?;
    let mut cells = Vec::new();
    for size in sizes {
        let mut cell = Cell {
            size,
            sealed: Vec::new(),
            plain: Vec::new(),
            copy_ns: Vec::new(),
        };
        for _ in 0..args.turns.rounds {
            cell.add(turns.turn(|()| {
                let [sealed, plain] = [&sealed, &plain].map(|couple| couple.turn(size, seconds));
                Ok((sealed?, plain?, turn::copy_ns(size)))
            })?);
            progress.inc(1);
        }
        cells.push(cell);
    }
    progress.finish_and_clear();
    reports.write(&report::render(&cells)?)
}
