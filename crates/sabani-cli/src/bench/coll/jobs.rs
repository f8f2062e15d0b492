//! Jobs on this machine, one for each turn: this program, as the ranks of `sabani run`.

use std::{
    env,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use super::{
    args::CollArgs,
    cell::{self, Cell, Line, Turn},
    report,
};
use crate::{
    bench::{machine::Machine, progress_bar, transport::Transport},
    exit::Interrupted,
    interrupt,
    report::Reports,
};

const RANKS: [u32; 3] = [2, 4, 8];

/// Measures with each number of ranks over each transport, which take turns.
///
/// # Errors
/// If a job fails, the user interrupts, or a file can't be written.
pub fn run(args: &CollArgs) -> Result<()> {
    let mut reports = Reports::open(&args.output)?;
    let machine = Machine::here();
    interrupt::install()?;
    let ranks = match &args.ranks[..] {
        [] => &RANKS[..],
        given => given,
    };
    let transports = args.variants.transports();
    let baselines = args.baselines()?;
    let progress = progress_bar(args.rounds as usize * ranks.len() * transports.len())?;
    let mut cells = Vec::new();
    for round in 0..args.rounds {
        for &ranks in ranks {
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
                turn(args, ranks, [&[transport], against].concat(), &mut cells)?;
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    reports.write(&machine.head(report::render(&cells)?)?)
}

/// Runs one job.
fn turn(
    args: &CollArgs,
    ranks: u32,
    transports: Vec<Transport>,
    cells: &mut Vec<Cell>,
) -> Result<()> {
    let output = job(args, ranks, &transports)?
        .stdin(Stdio::null())
        .output()
        .context("cannot start ranks")?;
    if interrupt::requested() {
        bail!(Interrupted("stopped".into()));
    }
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{ranks} ranks failed: {}", said.trim());
    }
    // The first is about the machine.
    for line in String::from_utf8_lossy(&output.stdout).lines().skip(1) {
        let line: Line =
            serde_json::from_str(line).with_context(|| format!("a rank says {line}"))?;
        let turn = Turn {
            call_us: line.us_p50,
            loop_us: line.loop_us,
        };
        cell::add(cells, line.setup(), turn);
    }
    Ok(())
}

/// The command line of one job, with all that the user has said.
fn job(args: &CollArgs, ranks: u32, transports: &[Transport]) -> Result<Command> {
    let own = env::current_exe().context("cannot find this program's own file")?;
    let list = |words: Vec<String>| words.join(",");
    let collectives = args.collectives();
    let collectives = collectives.iter().map(|one| one.name().into()).collect();
    let mut command = Command::new(&own);
    command
        .args(["run", "--no-prefix", "-n", &ranks.to_string(), "--"])
        .arg(&own)
        .args(["bench", "coll", "--rounds", "1", "--json", "-"])
        .args(["--seconds", &args.seconds.as_secs_f64().to_string()])
        .args(["--collectives", &list(collectives)])
        .args([
            "--sizes",
            &list(args.sizes.iter().map(usize::to_string).collect()),
        ])
        .args(
            args.algorithms
                .iter()
                .map(|wanted| format!("--algorithm={wanted}")),
        );
    command.args(transports.iter().map(|transport| match transport {
        Transport::SabaniPlain => "--plain".into(),
        Transport::Sabani => "--sealed".into(),
        other => format!("--against={}", other.name()),
    }));
    args.layers.pass(&mut command);
    Ok(command)
}
