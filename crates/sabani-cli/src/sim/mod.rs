//! `sabani sim`: the transport on a simulated network, in virtual time.

mod campaign;
mod links;
mod named;
mod report;

use std::fmt::Write;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::error::{ContextKind, ContextValue};
use clap::{Args, Subcommand};
use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};
use sabani_sim::plan::Settings;
use sabani_sim::{Plan, Watch};

use crate::exit::Usage;
use crate::interrupt;
use crate::report::{OutputArgs, Reports};
use crate::tell::print;
use report::Run;

/// No plan is longer; some files have no end.
const PLAN_MOST_BYTES: u64 = 1 << 20;

/// Run the transport on a simulated network, in virtual time: no root, no sockets, no noise.
///
/// The hosts run the same protocol core as real ones. Links, switches, host costs and faults are
/// models. A run is a function of its plan: the same plan and the same version give the same run,
/// packet by packet. While it runs, every message is followed: it must arrive once, unchanged and
/// in order; nodes must keep their bounds, give back what they hold, and be silent once closed.
///
/// Exit status: 0 if no rule was broken, also where some messages did not arrive because a connection could not
/// be made or has ended, or were never sent because their sender had died or closed: the output
/// says how many; 1 if a rule was broken, or programs have received nothing at all; 2 for a mistake on the command
/// line or in a plan; 130 after Ctrl-C or a TERM signal.
///
/// A plan is a TOML file; `--plan` prints that of a named scenario, to begin with.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true, after_long_help = settings_help())]
pub struct SimArgs {
    #[command(subcommand)]
    scenario: Option<Scenario>,
    /// A plan to run, for example scenario.toml.
    #[arg(value_name = "SCENARIO.toml")]
    file: Option<PathBuf>,
    #[command(flatten)]
    changes: ChangeArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// A scenario with a name.
#[derive(Subcommand)]
enum Scenario {
    Incast(named::Incast),
    Loss(named::Loss),
    LongPath(named::LongPath),
    Mix(named::Mix),
    Video(named::Video),
    Rivals(named::Rivals),
    Exchange(named::Exchange),
    Campaign(campaign::CampaignArgs),
}

/// What all named scenarios have in common.
#[derive(Args)]
#[command(next_help_heading = "In all scenarios")]
struct CommonArgs {
    /// Where all chance comes from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Packets in the clear, with a checksum; sealed by default.
    #[arg(long)]
    plain: bool,
    #[command(flatten)]
    host: named::HostArgs,
    #[command(flatten)]
    changes: ChangeArgs,
    /// Print the plan as TOML and run nothing.
    #[arg(long)]
    plan: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// What is to be other than in the plan.
#[derive(Args)]
struct ChangeArgs {
    /// Change a setting of all nodes, as in a plan: `recovery=go-back-n`, `ack_every=1`,
    /// `window_max=64KiB`. May be given again; the end of `sabani sim --help` lists all
    /// settings.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
}

/// All settings, with the ranges of those that have one.
fn settings_help() -> String {
    let mut text = String::from("Settings for --set:");
    for setting in Settings::ALL {
        let _ = write!(text, "\n  {}: {}", setting.name, setting.what);
        if let Some((least, most)) = setting.range {
            let _ = write!(text, " {least} to {most}.");
        }
    }
    text
}

impl ChangeArgs {
    fn apply(&self, plan: &mut Plan) -> Result<(), Usage> {
        let mut changes = self.set.iter().map(|assignment| plan.set(assignment));
        let changed = changes.try_for_each(|set| set);
        changed.context("--set").map_err(Usage::of)?;
        plan.expect_sound().map_err(Usage::of)
    }
}

impl Scenario {
    /// What it is called, what it runs, and how; `None` for a campaign.
    fn plan(&self) -> Option<(&'static str, Plan, &CommonArgs)> {
        Some(match self {
            Scenario::Campaign(_) => return None,
            Scenario::Incast(args) => ("incast", args.plan(), &args.common),
            Scenario::Loss(args) => ("loss", args.plan(), &args.common),
            Scenario::LongPath(args) => ("long-path", args.plan(), &args.common),
            Scenario::Mix(args) => ("mix", args.plan(), &args.common),
            Scenario::Video(args) => ("video", args.plan(), &args.common),
            Scenario::Rivals(args) => ("rivals", args.plan(), &args.common),
            Scenario::Exchange(args) => ("exchange", args.plan(), &args.common),
        })
    }
}

/// Runs `sabani sim`.
///
/// # Errors
/// If a plan can't be read, an output can't be written, or a rule was broken.
pub fn run(args: &SimArgs) -> Result<()> {
    if let Some(Scenario::Campaign(args)) = &args.scenario {
        return campaign::run(args);
    }
    let Some((name, mut plan, common)) = args.scenario.as_ref().and_then(Scenario::plan) else {
        return run_file(args);
    };
    common.changes.apply(&mut plan)?;
    if common.plan {
        return print(plan.to_toml());
    }
    run_plan(name, plan, &common.output)
}

fn run_file(args: &SimArgs) -> Result<()> {
    let Some(path) = &args.file else {
        return Err(Usage("which scenario? See `sabani sim --help`".into()).into());
    };
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    args.output.expect_other_than("the plan", path)?;
    let mut plan = read_plan(path)?;
    args.changes.apply(&mut plan)?;
    run_plan(&name, plan, &args.output)
}

fn read_plan(path: &Path) -> Result<Plan, Usage> {
    let shown = path.display();
    let bytes = read_start(path, PLAN_MOST_BYTES + 1)
        .map_err(|error| match suggestion(path) {
            _ if error.kind() == ErrorKind::NotFound && is_named(path) => {
                anyhow!("options come after a scenario's name: `sabani sim {shown} --set ...`")
            }
            Some(name) if error.kind() == ErrorKind::NotFound => {
                anyhow!("there is no scenario and no file `{shown}`: is `sabani sim {name}` meant?")
            }
            _ => anyhow!(
                "cannot read {shown} (named scenarios are listed by `sabani sim --help`): {error}"
            ),
        })
        .map_err(Usage::of)?;
    if bytes.len() as u64 > PLAN_MOST_BYTES {
        return Err(Usage(format!(
            "{shown} is not a plan: it has more than 1 MiB"
        )));
    }
    Plan::from_toml(&String::from_utf8_lossy(&bytes))
        .with_context(|| format!("{shown} is not a plan"))
        .map_err(Usage::of)
}

/// A file, or as much of it.
fn read_start(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether a scenario has this name: it is taken for a file behind an option.
fn is_named(name: &Path) -> bool {
    let scenarios = Scenario::augment_subcommands(clap::Command::new("sim"));
    scenarios.find_subcommand(name).is_some()
}

/// The named scenario that is most like this name, if one is.
fn suggestion(name: &Path) -> Option<String> {
    let scenarios = Scenario::augment_subcommands(clap::Command::new("sim"));
    let words = ["sim".as_ref(), name.as_os_str()];
    let error = scenarios.try_get_matches_from(words).err()?;
    match error.get(ContextKind::SuggestedSubcommand)? {
        ContextValue::String(name) => Some(name.clone()),
        // The most like comes last.
        ContextValue::Strings(names) => names.last().cloned(),
        _ => None,
    }
}

/// Says how far a run is in which so many messages are to be sent. How long it takes in virtual time is known to nobody.
fn progress(messages: u64, watch: Arc<Watch>) -> ProgressBar {
    let done = move |_: &ProgressState, text: &mut dyn Write| {
        let (seconds, delivered) = (watch.now_ns() as f64 / 1e9, watch.delivered());
        let (delivered, messages) = (HumanCount(delivered), HumanCount(messages));
        // A failure would only leave it out.
        let _ = write!(
            text,
            "{seconds:.3} s of virtual time, {delivered} of {messages} messages"
        );
    };
    let style = ProgressStyle::with_template("{spinner} simulating: {done}, {elapsed}");
    let style = style.expect("a template of ours").with_key("done", done);
    let bar = ProgressBar::new_spinner().with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn run_plan(name: &str, plan: Plan, output: &OutputArgs) -> Result<()> {
    let mut reports = Reports::open(output)?;
    interrupt::install_end()?;
    let watch = Arc::<Watch>::default();
    let bar = progress(plan.messages(), watch.clone());
    let run = Run::new(name, plan, output.html.is_some(), &watch);
    bar.finish_and_clear();
    reports.write(&run.render()?)?;
    if let Some(failure) = &run.outcome.failure {
        bail!("a rule was broken; {failure}");
    }
    match run.in_vain() {
        Some(why) => bail!("{why}"),
        None => Ok(()),
    }
}

/// The plan that these arguments ask for.
#[cfg(test)]
fn named_plan(arguments: &[&str]) -> Plan {
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        sim: SimArgs,
    }
    let command = Command::try_parse_from(arguments).expect("the arguments are right");
    let scenario = command.sim.scenario.expect("a scenario has a name");
    let (_, plan, _) = scenario.plan().expect("it is no campaign");
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_mistypes_a_scenario_is_told_its_name() {
        for (name, expected) in [("campain", Some("campaign")), ("incas", Some("incast"))] {
            assert_eq!(suggestion(Path::new(name)).as_deref(), expected);
        }
        assert_eq!(suggestion(Path::new("plans/of-mine.toml")), None);
        let error = read_plan(Path::new("campain")).unwrap_err().to_string();
        assert!(error.contains("`sabani sim campaign`"), "{error}");
        // As in `sabani sim --set ack_every=1 incast`.
        let error = read_plan(Path::new("incast")).unwrap_err().to_string();
        assert!(error.contains("`sabani sim incast --set"), "{error}");
    }

    #[test]
    fn help_lists_all_settings_and_bugs() {
        let mut sim = SimArgs::augment_args(clap::Command::new("sim"));
        let help = sim.render_long_help().to_string();
        assert!(
            Settings::ALL
                .iter()
                .all(|setting| help.contains(setting.name))
        );
        assert!(help.contains("64KiB to 1024GiB"), "{help}");
        let campaign = sim.find_subcommand_mut("campaign").expect("there is one");
        let help = campaign.render_long_help().to_string();
        assert!(help.contains("forget-wake"), "{help}");
    }
}
