//! Jobs, one for each turn: this program, as ranks.

use anyhow::{Context, Result};

use super::{
    args::CollArgs,
    cell::{self, Cell, Line},
    place::Place,
    report,
};
use crate::{
    bench::{args::once, machine::Machine, progress_bar, transport::Transport},
    interrupt,
    report::Reports,
    tools,
};

const RANKS: [u32; 3] = [2, 4, 8];

/// Measures with each number of ranks over each transport, which take turns.
///
/// # Errors
/// If a job fails, the user interrupts, or a file can't be written.
pub fn run(args: &CollArgs) -> Result<()> {
    if args.lab {
        tools::need_root("")?;
    }
    let mut reports = Reports::open(&args.output)?;
    Machine::here().head(&mut reports)?;
    interrupt::install()?;
    let ranks = ranks(args);
    let transports = args.variants.transports();
    let baselines = args.baselines()?;
    let place = Place::open(ranks.iter().copied().max().unwrap_or(1), args.link())?;
    let progress = progress_bar(args.rounds as usize * ranks.len() * transports.len())?;
    let mut cells = Vec::new();
    for round in 0..args.rounds {
        for &ranks in &ranks {
            let mut order = transports.clone();
            if round % 2 == 1 {
                order.reverse();
            }
            for transport in order {
                progress.set_message(format!("{ranks} ranks {}", transport.label()));
                let against = match transport == transports[0] {
                    true => &baselines[..],
                    false => &[],
                };
                let transports = [&[transport], against].concat();
                turn(&place, args, ranks, &transports, &mut cells)?;
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    let rate = args.link().map(|link| link.rate);
    reports.write(&report::render(&cells, rate)?)
}

/// The numbers of ranks, each once.
fn ranks(args: &CollArgs) -> Vec<u32> {
    match &args.ranks[..] {
        [] => RANKS.into(),
        given => once(given),
    }
}

/// Runs one job.
fn turn(
    place: &Place,
    args: &CollArgs,
    ranks: u32,
    transports: &[Transport],
    cells: &mut Vec<Cell>,
) -> Result<()> {
    let said = place.run(ranks, &arguments(args, transports), &args.layers)?;
    // The first is about the machine.
    for line in said.lines().skip(1) {
        let line: Line =
            serde_json::from_str(line).with_context(|| format!("a rank says {line}"))?;
        cell::add(cells, line.setup(), line.turn());
    }
    Ok(())
}

/// The command line of a rank, with all that the user has said.
fn arguments(args: &CollArgs, transports: &[Transport]) -> Vec<String> {
    let list = |words: Vec<String>| words.join(",");
    let collectives = args.collectives();
    let collectives = collectives.iter().map(|one| one.name().into()).collect();
    let sizes = once(&args.sizes);
    let sizes = sizes.iter().map(usize::to_string).collect();
    let mut words: Vec<String> = ["bench", "coll", "--rounds=1", "--json=-"]
        .map(Into::into)
        .into();
    words.extend([
        format!("--seconds={}", args.seconds.as_secs_f64()),
        format!("--collectives={}", list(collectives)),
        format!("--sizes={}", list(sizes)),
    ]);
    words.extend(
        args.algorithms
            .iter()
            .map(|wanted| format!("--algorithm={wanted}")),
    );
    words.extend(transports.iter().map(|transport| match transport {
        Transport::SabaniPlain => "--plain".into(),
        Transport::Sabani => "--sealed".into(),
        other => format!("--against={}", other.name()),
    }));
    words.extend(args.lab.then(|| "--no-spin".into()));
    words
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: CollArgs,
    }

    #[test]
    fn doubles_are_measured_once() {
        let line = Line::parse_from(["x", "--ranks", "4,2,4", "--sizes", "1k,64,1024"]);
        assert_eq!(ranks(&line.args), [4, 2]);
        let words = arguments(&line.args, &[]);
        assert!(words.contains(&"--sizes=1024,64".into()), "{words:?}");
    }
}
