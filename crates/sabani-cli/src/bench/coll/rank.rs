//! What a rank does: all that the user has asked for, in this job.

use std::env;

use anyhow::{Result, ensure};
use sabani::Comm;
use sabani_collective::{Collective, Hosts};

use super::{
    args::CollArgs,
    cell::{self, Setup},
    measure::Measurement,
    report,
};
use crate::{
    bench::{args::once, machine::Machine, transport::Transport},
    exit::Usage,
    job::{Call, Carrier, hosts},
    report::Reports,
    tell::note,
};

/// What chooses algorithms for other programs.
const ELSEWHERE: [&str; 2] = ["SABANI_NETWORK", "SABANI_ALGORITHMS"];

/// One cell: the call, over which of the carriers, and what is told of it.
struct Task {
    call: Call,
    carrier: usize,
    setup: Setup,
}

/// Measures, and has rank 0 report.
///
/// # Errors
/// If options don't suit a job that was started by a launcher, another rank fails, or a file can't be
/// written.
pub fn run(comm: &Comm, args: &CollArgs, transport: Transport) -> Result<()> {
    ensure!(
        !args.lab,
        Usage("the launcher says where ranks run: leave --lab out".into())
    );
    ensure!(
        args.ranks.is_empty(),
        Usage("the launcher says how many ranks there are: leave --ranks out".into())
    );
    let is_first = comm.rank() == 0;
    // What is told to be measured is what is.
    comm.set_network(None)?;
    if is_first && ELSEWHERE.iter().any(|name| env::var_os(name).is_some()) {
        note(format_args!(
            "{} play no part here: it is the rule that chooses, or --algorithm",
            ELSEWHERE.join(" and ")
        ));
    }
    let mut reports = is_first.then(|| Reports::open(&args.output)).transpose()?;
    if let Some(reports) = &mut reports {
        Machine::here().head(reports)?;
    }
    let hosts = hosts(comm);
    let transports = [vec![transport], args.baselines()?].concat();
    let open = |&transport| Carrier::open(transport, comm, &hosts, args.spin());
    let mut carriers: Vec<_> = transports.iter().map(open).collect::<Result<_>>()?;
    let tasks = tasks(&hosts, args, &transports)?;
    let mut cells = Vec::new();
    for _ in 0..args.rounds {
        for task in &tasks {
            let carrier = &mut carriers[task.carrier];
            carrier.set_algorithms(&task.setup.wish)?;
            let mut measurement = Measurement {
                comm,
                carrier,
                call: task.call,
                time: args.seconds,
                may_spin: !args.no_spin,
            };
            let turn = measurement.run()?;
            cell::add(&mut cells, task.setup.clone(), turn);
        }
    }
    // Nobody closes a stream that another one still needs.
    comm.barrier()?;
    match &mut reports {
        Some(reports) => reports.write(&report::render(&cells, None)?),
        None => Ok(()),
    }
}

/// All cells, as far as algorithms fit; what is compared follows each other.
fn tasks(hosts: &Hosts, args: &CollArgs, transports: &[Transport]) -> Result<Vec<Task>> {
    let schedule = args.layers.schedule()?;
    let mut tasks = Vec::new();
    for collective in args.collectives() {
        let sizes = match collective {
            Collective::Barrier => &[0][..],
            _ => &once(&args.sizes),
        };
        for wish in args.wishes(collective) {
            for &size_bytes in sizes {
                let call = Call {
                    collective,
                    size_bytes,
                };
                let Some(algorithm) = call.algorithm(hosts, &wish) else {
                    continue;
                };
                let setup = |transport: &Transport| Setup {
                    collective: collective.name().into(),
                    algorithm: algorithm.clone(),
                    wish: wish.clone(),
                    ranks: hosts.ranks(),
                    size_bytes,
                    transport: transport.name().into(),
                    sealed: transport.is_sealed(),
                    threads: transport.threads(&schedule),
                };
                let setups = transports.iter().map(setup).enumerate();
                tasks.extend(setups.map(|(carrier, setup)| Task {
                    call,
                    carrier,
                    setup,
                }));
            }
        }
    }
    Ok(tasks)
}
