//! `sabani bench incast` and `sabani bench mix`: many senders, one receiver, a bottleneck before it.
//!
//! [`fleet`] makes a lab and starts a process on each host; they are driven by the lines of [`protocol`]
//! and obey in [`worker`], as a [`sender`] or as the [`receiver`], which measures. [`cell`] makes
//! figures of its times, and [`report`] shows them.

pub mod args;
mod cell;
mod fleet;
mod protocol;
mod receiver;
mod report;
mod requester;
mod sender;
pub mod worker;

use anyhow::Result;

use super::{machine::Machine, progress_bar, renewed::Renewed, transport::Transport};
use crate::interrupt;
use crate::report::Reports;
use crate::tools;

use args::{FanInArgs, IncastArgs, MixArgs};
use cell::{Cell, Link};
use fleet::Fleet;
use protocol::{Pattern, Turn};
use report::Results;

/// Rounds after which another transport has its turn.
const ROUNDS_PER_TURN: u32 = 20;
const SHORT_BYTES: usize = 1 << 10;
const LONG_BYTES: usize = 1 << 20;

/// Runs `sabani bench incast`.
///
/// # Errors
/// Without root, or if something fails in one of the processes.
pub fn run(args: &IncastArgs) -> Result<()> {
    let bytes = args.bytes;
    measure(args.senders, Pattern::Incast { bytes }, &args.common)
}

/// Runs `sabani bench mix`.
///
/// # Errors
/// As [`run`].
pub fn run_mix(args: &MixArgs) -> Result<()> {
    let pattern = Pattern::Mix {
        short: SHORT_BYTES,
        long: LONG_BYTES,
    };
    measure(args.senders, pattern, &args.common)
}

fn measure(senders: u16, pattern: Pattern, args: &FanInArgs) -> Result<()> {
    let transports = args.transports()?;
    let schedule = args.layers.schedule()?;
    tools::need_root("")?;
    let mut reports = Reports::open(&args.output)?;
    Machine::here().head(&mut reports)?;
    interrupt::install()?;
    let mut fleet = Renewed::start(|| Fleet::start(senders, args.link, &transports, &args.layers))?;
    let link = Link {
        rate: args.link.rate,
        round_trip: fleet.turn(Fleet::round_trip)?,
    };
    let mut cells = take_turns(&mut fleet, &transports, pattern, args.rounds)?;
    for cell in &mut cells {
        cell.finish(&link, pattern);
    }
    let results = Results {
        senders,
        pattern,
        link,
        queue_bytes: args.link.queue,
        schedule,
        cells,
    };
    drop(fleet);
    reports.write(&report::render(&results)?)
}

/// Every other time in the reverse order, so that none always follows the same other.
fn take_turns(
    fleet: &mut Renewed<Fleet, impl Fn() -> Result<Fleet>>,
    transports: &[Transport],
    pattern: Pattern,
    rounds: u32,
) -> Result<Vec<Cell>> {
    let mut cells: Vec<Cell> = transports.iter().copied().map(Cell::new).collect();
    let turns = rounds.div_ceil(ROUNDS_PER_TURN);
    let progress = progress_bar(turns as usize * cells.len())?;
    for turn in 0..turns {
        let mut order: Vec<_> = cells.iter_mut().collect();
        if turn % 2 == 1 {
            order.reverse();
        }
        for cell in order {
            progress.set_message(cell.transport.label());
            let turn = Turn {
                transport: cell.transport,
                pattern,
                rounds: ROUNDS_PER_TURN.min(rounds - turn * ROUNDS_PER_TURN),
            };
            cell.add(fleet.turn(|fleet| fleet.turn(turn))?);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    Ok(cells)
}
