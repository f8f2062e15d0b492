//! `sabani sim campaign`: swarm testing.

use std::fmt::Write;
use std::num::NonZero;
use std::ops::Range;
use std::panic;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use sabani_sim::plan::shrink;
use sabani_sim::{Bug, Failure, Plan};

use crate::exit::Interrupted;
use crate::files;
use crate::interrupt::{self, TICK};
use crate::tell::{note, say};
use crate::threads::Started;
use crate::units::count;

/// Seeds are numbers of 64 bits, and there is room for all behind the first one.
const MOST_SEEDS: u64 = 1 << 62;

/// More threads than any machine has cores.
const MOST_JOBS: i64 = 4_096;

/// Where there is no terminal for a bar, a line tells this often how far it has come.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Run many plans, each drawn from a seed, until one breaks a rule.
///
/// Each seed picks hosts, network, settings, faults, mishaps and traffic of its own, and turns most
/// of them off, so that what never happens together with everything else is found when it is alone.
/// The first seed that breaks a rule ends the campaign: the command that runs it again is printed, what was
/// broken, and its plan, made as small as it can be while it still breaks the rule. Exit
/// status 1 then. Where standard error is no terminal, a line a minute tells how far it has come. Ctrl-C ends
/// it at once, and says how far it came and how to go on. Exit status 130 then.
#[derive(Args, Clone)]
pub struct CampaignArgs {
    /// Seeds to run.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=MOST_SEEDS))]
    seeds: u64,
    /// The first of them.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=MOST_SEEDS))]
    first_seed: u64,
    /// Seeds to run at a time; as many as there are cores by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_JOBS))]
    jobs: Option<u32>,
    /// Runs to spend on making a plan that fails smaller.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    shrink: u32,
    /// Write the small plan to this file as well, for `sabani sim FILE`.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[arg(long, value_name = "BUG", help = canary_help())]
    canary: Option<Bug>,
}

impl CampaignArgs {
    fn plan(&self, seed: u64) -> Plan {
        let mut plan = Plan::from_seed(seed);
        if self.canary.is_some() {
            plan.canary = self.canary;
            // Some bugs are planted inside packets.
            plan.unseal();
        }
        plan
    }

    /// The command that runs these seeds.
    fn command(&self, seeds: Range<u64>) -> String {
        let canary = self.canary.map(|bug| format!(" --canary {bug}"));
        let canary = canary.unwrap_or_default();
        let count = seeds.end - seeds.start;
        let first = seeds.start;
        format!("sabani sim campaign --seeds {count} --first-seed {first}{canary}")
    }

    fn all_seeds(&self) -> Range<u64> {
        self.first_seed..self.first_seed.saturating_add(self.seeds)
    }
}

fn canary_help() -> String {
    let names = Bug::ALL.map(Bug::name).join(", ");
    format!(
        "Plant a known bug in every run, to see that it is found (what each does is told in docs/simulation.md): {names}"
    )
}

/// Runs `sabani sim campaign`.
///
/// # Errors
/// If a seed breaks a rule, and after Ctrl-C.
pub fn run(args: &CampaignArgs) -> Result<()> {
    args.save
        .as_deref()
        .map_or(Ok(()), files::expect_writable)?;
    interrupt::install()?;
    silence_panics_of_runs();
    let began = Instant::now();
    let end = search(args)?;
    let seconds = began.elapsed().as_secs_f64();
    // That one was run, too.
    let seeds = end.done - args.first_seed + u64::from(end.failed.is_some());
    say(format_args!(
        "{} from {} on, in {seconds:.1} s ({:.0} per second): {}",
        count(seeds, "seed"),
        args.first_seed,
        seeds as f64 / seconds,
        match end.failed {
            Some(seed) => format!("seed {seed} breaks a rule"),
            None => "no rule was broken".into(),
        }
    ))?;
    if let Some(seed) = end.failed {
        thread::scope(|scope| {
            let reporter = runs_thread().spawn_scoped(scope, || report(args, seed))?;
            reporter.join().expect("plans that panic are caught")
        })
    } else if interrupt::requested() {
        let rest = args.command(end.done..args.all_seeds().end);
        Err(Interrupted(format!("interrupted; the rest: `{rest}`")).into())
    } else {
        Ok(())
    }
}

/// Name of the threads that run plans.
const RUNS: &str = "runs";

/// A plan that panics is reported with its seed, once it is small: until then it is silent.
fn silence_panics_of_runs() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if thread::current().name() != Some(RUNS) {
            usual(info);
        }
    }));
}

/// A thread that runs plans.
fn runs_thread() -> thread::Builder {
    thread::Builder::new().name(RUNS.into())
}

/// Where a search ended.
struct End {
    /// All seeds before this one were run, and broke no rule.
    done: u64,
    /// This one breaks a rule.
    failed: Option<u64>,
}

/// What the threads of a search share.
struct Search {
    args: CampaignArgs,
    next: AtomicU64,
    /// No seed from this one on need be run: there are no more, or it breaks a rule.
    end: AtomicU64,
    /// For each thread, a seed before which it has no more to run.
    reached: Vec<AtomicU64>,
    bar: ProgressBar,
}

impl Search {
    fn new(args: &CampaignArgs, threads: usize) -> Self {
        let all = args.all_seeds();
        Search {
            args: args.clone(),
            next: AtomicU64::new(all.start),
            end: AtomicU64::new(all.end),
            reached: (0..threads).map(|_| AtomicU64::new(all.start)).collect(),
            bar: progress(args.seeds, "seeds"),
        }
    }

    /// What one of the threads does.
    fn work(&self, thread: usize) {
        let reached = &self.reached[thread];
        while !interrupt::requested() {
            reached.store(self.next.load(SeqCst), SeqCst);
            let seed = self.next.fetch_add(1, SeqCst);
            reached.store(seed, SeqCst);
            if seed >= self.end.load(SeqCst) {
                break;
            }
            if self.args.plan(seed).run().failure.is_some() {
                self.end.fetch_min(seed, SeqCst);
            }
            self.bar.inc(1);
        }
        reached.store(u64::MAX, SeqCst);
    }

    /// Where it ends, should the threads run nothing more.
    fn end(&self) -> End {
        let reached = self.reached.iter().map(|seed| seed.load(SeqCst)).min();
        let reached = reached.unwrap_or(u64::MAX);
        let (next, end) = (self.next.load(SeqCst), self.end.load(SeqCst));
        End {
            done: reached.min(next).min(end),
            failed: (end < self.args.all_seeds().end).then_some(end),
        }
    }
}

/// Runs seeds until one breaks a rule, none is left, or the user interrupts: then plans that are being run
/// are not waited for.
fn search(args: &CampaignArgs) -> Result<End> {
    let cores = thread::available_parallelism();
    let jobs = args.jobs.map(|jobs| jobs as usize);
    let threads = jobs.unwrap_or(cores.map_or(1, NonZero::get));
    let search = Arc::new(Search::new(args, threads));
    let (working, ended) = mpsc::channel::<()>();
    for thread in 0..threads {
        let (search, working) = (Arc::clone(&search), working.clone());
        let work = move || {
            search.work(thread);
            drop(working);
        };
        runs_thread().spawn(work).started("a thread")?;
    }
    drop(working);
    let mut told = Instant::now();
    while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) && !interrupt::requested() {
        if search.bar.is_hidden() && told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            let (done, all) = (HumanCount(search.bar.position()), HumanCount(args.seeds));
            note(format_args!("{done} of {all} seeds so far"));
        }
    }
    search.bar.finish_and_clear();
    Ok(search.end())
}

fn progress(len: u64, what: &str) -> ProgressBar {
    let template = format!("{{bar:40}} {{pos}}/{{len}} {what}, {{per_sec}}, {{eta}} left");
    let style = ProgressStyle::with_template(&template).expect("the template is right");
    ProgressBar::new(len).with_style(style)
}

/// Says what a seed does wrong, and how little it takes: first how to see it again, last the plan.
fn report(args: &CampaignArgs, seed: u64) -> Result<()> {
    let plan = args.plan(seed);
    let Some(failure) = plan.run().failure else {
        bail!("seed {seed} failed, and now it does not: the simulation is not deterministic");
    };
    let rule = failure.violations[0].rule;
    let what = format!(
        "seed {seed} breaks the rule `{}`; again: `{}`",
        rule.name(),
        args.command(seed..seed + 1)
    );
    say(format_args!("{what}\n{}", beginning(&failure)))?;
    note("making the plan smaller …");
    let shrunk = shrink(&plan, rule, args.shrink, interrupt::requested);
    let toml = shrunk.plan.to_toml();
    say(format_args!(
        "the smallest plan found that breaks the same rule ({}):\n\n{toml}",
        count(shrunk.runs, "run")
    ))?;
    let small = match &args.save {
        Some(path) => {
            files::write(path, toml)?;
            format!("`sabani sim {}` runs the small plan", path.display())
        }
        None => "with `--save FILE` as well, `sabani sim FILE` runs the small plan".into(),
    };
    bail!("{what}; {small}, and says what its hosts were doing in the end")
}

/// What was broken first, in a few lines.
fn beginning(failure: &Failure) -> String {
    const SHOWN: usize = 3;
    let mut text = String::new();
    for violation in failure.violations.iter().take(SHOWN) {
        let _ = writeln!(text, "  {violation}");
    }
    let hidden = failure.violations.len().saturating_sub(SHOWN);
    if hidden > 0 {
        let _ = writeln!(text, "  and {hidden} more");
    }
    text
}
