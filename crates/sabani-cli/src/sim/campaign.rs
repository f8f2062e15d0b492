//! `sabani sim campaign`: swarm testing.

use std::fmt::Write;
use std::num::NonZero;
use std::panic;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use std::{fs, thread};

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use sabani_sim::plan::{Seal, shrink};
use sabani_sim::{Bug, Plan};

/// Run many plans, each drawn from a seed, until one breaks a rule.
///
/// Each seed picks hosts, network, settings, faults, mishaps and traffic of its own, and turns most
/// of them off, so that what never happens together with everything else is found when it is alone.
/// The first seed that breaks a rule ends the campaign: its plan is made as small as it can be
/// while it still breaks the rule, and printed with the command that runs the seed again. Exit
/// status 1 then.
#[derive(Args)]
pub struct CampaignArgs {
    /// Seeds to run.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first of them.
    #[arg(long, value_name = "N", default_value_t = 0)]
    first_seed: u64,
    /// Seeds to run at a time; as many as there are cores by default.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
    /// Runs to spend on making a plan that fails smaller.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    shrink: u32,
    /// Write the small plan to this file as well, for `sabani sim FILE`.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Plant a known bug in every run, to see that it is found: for example deliver-twice.
    #[arg(long, value_name = "BUG")]
    canary: Option<Bug>,
}

impl CampaignArgs {
    fn plan(&self, seed: u64) -> Plan {
        let mut plan = Plan::from_seed(seed);
        if self.canary.is_some() {
            plan.canary = self.canary;
            // Some bugs are planted inside packets.
            plan.seal = Seal::Plain;
        }
        plan
    }

    /// The command that runs one seed again.
    fn replay(&self, seed: u64) -> String {
        let canary = self.canary.map(|bug| format!(" --canary {bug}"));
        let canary = canary.unwrap_or_default();
        format!("sabani sim campaign --seeds 1 --first-seed {seed}{canary}")
    }
}

/// Runs `sabani sim campaign`.
///
/// # Errors
/// If a seed breaks a rule.
pub fn run(args: &CampaignArgs) -> Result<()> {
    // What panics is reported with its seed, once it is small.
    panic::set_hook(Box::new(|_| {}));
    let cores = thread::available_parallelism();
    let jobs = args.jobs.or(cores.ok()).map_or(1, NonZero::get);
    let began = Instant::now();
    let failed = first_failure(args, jobs);
    let seconds = began.elapsed().as_secs_f64();
    let Some(seed) = failed else {
        let rate = args.seeds as f64 / seconds;
        let (seeds, last) = (args.seeds, args.first_seed + args.seeds - 1);
        println!(
            "{seeds} seeds, {} to {last}, in {seconds:.1} s ({rate:.0} per second): no rule was broken",
            args.first_seed
        );
        return Ok(());
    };
    report(args, seed)
}

/// The lowest seed that breaks a rule, among those that had to be run to know.
fn first_failure(args: &CampaignArgs, jobs: usize) -> Option<u64> {
    let next = AtomicU64::new(args.first_seed);
    let end = AtomicU64::new(args.first_seed.saturating_add(args.seeds));
    let bar = progress(args.seeds, "seeds");
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end.load(Ordering::Relaxed) {
                        break;
                    }
                    if args.plan(seed).run().failure.is_some() {
                        end.fetch_min(seed, Ordering::Relaxed);
                    }
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    let end = end.into_inner();
    (end < args.first_seed.saturating_add(args.seeds)).then_some(end)
}

fn progress(len: u64, what: &str) -> ProgressBar {
    let template = format!("{{bar:40}} {{pos}}/{{len}} {what}, {{per_sec}}, {{eta}} left");
    let style = ProgressStyle::with_template(&template).expect("the template is right");
    ProgressBar::new(len).with_style(style)
}

/// Says what a seed does wrong, and how little it takes.
fn report(args: &CampaignArgs, seed: u64) -> Result<()> {
    let plan = args.plan(seed);
    let Some(failure) = plan.run().failure else {
        bail!("seed {seed} failed, and now it does not: the simulation is not deterministic");
    };
    let rule = failure.violations[0].rule;
    println!("{failure}\n");
    eprintln!("making the plan smaller …");
    let shrunk = shrink(&plan, rule, args.shrink);
    let toml = shrunk.plan.to_toml();
    println!(
        "the smallest plan found that breaks the same rule ({} runs):\n",
        shrunk.runs
    );
    println!("{toml}");
    if let Some(failure) = shrunk.plan.run().failure {
        println!("it ends so: {failure}\n");
    }
    let mut advice = format!("seed {seed} breaks the rule `{}`; ", rule.name());
    let _ = write!(advice, "again: `{}`", args.replay(seed));
    if let Some(path) = &args.save {
        fs::write(path, toml).with_context(|| format!("cannot write {}", path.display()))?;
        let _ = write!(advice, "; the small plan: `sabani sim {}`", path.display());
    }
    bail!(advice)
}
