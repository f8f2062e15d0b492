//! The command `sabani`.

#![forbid(unsafe_code)]

mod address;
mod bench;
mod counters;
mod exit;
mod files;
mod guard;
mod interrupt;
mod job;
mod key;
mod key_log;
mod lab;
mod layers;
mod model;
mod program;
mod report;
mod run;
mod sim;
mod tell;
mod threads;
mod tools;
mod transfer;
mod units;

use std::env;
use std::io::Write;
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};

use tell::note;

/// The program's version, and that of the protocol, which two ends must have in common.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let (program, protocol) = (env!("CARGO_PKG_VERSION"), sabani::PROTOCOL_VERSION);
    format!("{program}, protocol {protocol}")
});

/// Sabani carries messages between processes over one UDP socket each: whole, in order, encrypted.
///
/// Exit status: 0 when all went well, 1 when something failed, 2 for a mistake on the command line, or
/// in a file, folder or variable that it relies on, or for want of rights, before anything was begun, 130
/// after Ctrl-C or a TERM signal, 141 if nobody reads the results any more. That of `sabani run`,
/// `sabani lab run` and `sabani lab exec` is their program's, or 126 or 127 if it can't be run.
#[derive(Parser)]
#[command(name = "sabani", version = VERSION.as_str(), max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bench(Box<bench::args::BenchArgs>),
    #[command(hide = true)]
    BenchWorker(bench::args::WorkerArgs),
    #[command(hide = true)]
    BenchGuard(bench::args::GuardArgs),
    #[command(hide = true)]
    IncastWorker,
    Run(run::RunArgs),
    #[command(hide = true)]
    RunKeeper(run::KeeperArgs),
    #[command(hide = true)]
    RunRank(run::RankArgs),
    Lab(lab::LabArgs),
    Sim(Box<sim::SimArgs>),
    Model(model::ModelArgs),
    Send(transfer::sender::SendArgs),
    Receive(transfer::receiver::ReceiveArgs),
    Key(key::KeyArgs),
}

/// Adds the cure to clap's word on what it did not expect, given all words of the command line.
fn explained(mut error: clap::Error, words: &[String]) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let tips = match tip(word, words, &error) {
        Some(tip) => {
            // What is most like it in the wrong place.
            error.remove(ContextKind::SuggestedArg);
            vec![StyledStr::from(tip)]
        }
        // To write `--` before an option that there is not makes a file or a program's name of it.
        None => match error.remove(ContextKind::Suggested) {
            Some(ContextValue::StyledStrs(tips)) => tips
                .into_iter()
                .filter(|tip| !tip.to_string().contains("as a value, use"))
                .collect(),
            _ => return error,
        },
    };
    if !tips.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

fn tip(word: &str, words: &[String], error: &clap::Error) -> Option<String> {
    if word.starts_with('-') && word.parse::<f64>().is_ok() {
        return Some("numbers here are 0 or more".into());
    }
    let command = Arguments::command();
    if command
        .find_subcommand("bench")?
        .find_subcommand(word)
        .is_some()
    {
        let tip =
            "one bench at a time; none stands for an overview of ping, burst and transactions";
        return Some(tip.into());
    }
    // Where it was expected is told by the usage alone.
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else {
        return None;
    };
    if !word.starts_with('-') && usage.to_string().contains(" -- <") {
        let before = words.iter().position(|one| one == word)?;
        let before = words.get(1..before)?.join(" ");
        return Some(format!(
            "the program and its arguments come after `--`, as in 'sabani {before} -- {word}'"
        ));
    }
    let usage = usage.to_string();
    let of_sim = [
        " sim [OPTIONS] [SCENARIO.toml]",
        " sim <SCENARIO.toml>",
        " sim --",
    ];
    let is_sim = of_sim.iter().any(|line| usage.contains(line));
    let mut scenarios = command.find_subcommand("sim")?.get_subcommands();
    let has_it = |scenario: &&clap::Command| {
        let long = |arg: &clap::Arg| {
            arg.get_long()
                .is_some_and(|long| word == format!("--{long}"))
        };
        scenario.get_arguments().any(long)
    };
    let scenario = scenarios.find(has_it).filter(|_| is_sim)?.get_name();
    if words.iter().any(|word| word.ends_with(".toml")) {
        return Some(match word {
            "--seed" => {
                "a plan has its seed in the file: write `seed =` there, above all tables".into()
            }
            _ => format!(
                "a plan takes no `{word}`: write what it is to do into the file, or use `--set`"
            ),
        });
    }
    Some(format!(
        "a scenario's options come after its name, as in 'sabani sim {scenario} {word} ...'"
    ))
}

/// Shows what clap has to say: what is wrong, or the help that was asked for.
fn show(error: &clap::Error) -> ExitCode {
    let shown = error.print().and_then(|()| std::io::stdout().flush());
    match tell::explained_stdout(shown) {
        Err(why) if !error.use_stderr() => failed(&why),
        _ => ExitCode::from(error.exit_code() as u8),
    }
}

/// Says what has failed.
fn failed(error: &anyhow::Error) -> ExitCode {
    if let Some(interrupted) = error.downcast_ref::<exit::Interrupted>() {
        // What was being done just then is not its cause.
        note(format_args!("sabani: {interrupted}"));
    } else if !error.is::<exit::Unread>() {
        note(format_args!("sabani: {}", threads::told(error)));
    }
    exit::code(error)
}

fn execute(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Bench(args) => bench::run(*args),
        Command::BenchWorker(args) => bench::worker::run(&args),
        Command::BenchGuard(args) => bench::guard(&args),
        Command::IncastWorker => bench::incast::worker::run(),
        Command::Run(args) => run::run(&args),
        Command::RunKeeper(args) => run::run_keeper(&args),
        Command::RunRank(args) => run::run_rank(&args),
        Command::Lab(args) => lab::run(args),
        Command::Sim(args) => sim::run(&args),
        Command::Model(args) => model::run(&args),
        Command::Send(args) => {
            tell::show_warnings();
            transfer::sender::run(&args)
        }
        Command::Receive(args) => {
            tell::show_warnings();
            transfer::receiver::run(&args)
        }
        Command::Key(args) => key::run(&args),
    }
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let words = env::args_os().map(|word| word.to_string_lossy().into_owned());
            return show(&explained(error, &words.collect::<Vec<_>>()));
        }
    };
    match threads::heed(|| execute(arguments.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said to a command line that clap does not take.
    fn said(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let Err(error) = Arguments::try_parse_from(&words) else {
            panic!("it was taken: {line}");
        };
        explained(error, &words).to_string()
    }

    #[test]
    fn a_program_without_its_dashes_is_told_with_them() {
        for (line, cure) in [
            ("sabani run -n 2 true", "'sabani run -n 2 -- true'"),
            (
                "sabani lab run -n 2 true -x",
                "'sabani lab run -n 2 -- true'",
            ),
            ("sabani lab exec h1 true", "'sabani lab exec h1 -- true'"),
        ] {
            assert!(said(line).contains(cure), "{}", said(line));
        }
    }

    #[test]
    fn a_plan_says_in_its_file_what_scenarios_have_options_for() {
        let of_file = said("sabani sim plan.toml --seed 4");
        assert!(of_file.contains("write `seed =` there"), "{of_file}");
        let of_file = said("sabani sim plan.toml --loss 0.1");
        assert!(
            of_file.contains("into the file, or use `--set`"),
            "{of_file}"
        );
        let of_name = said("sabani sim --seed 4 incast");
        assert!(of_name.contains("after its name"), "{of_name}");
    }

    #[test]
    fn what_is_no_option_is_not_offered_as_a_value() {
        let said_of_number = said("sabani run --grace -1 -- true");
        assert!(said_of_number.contains("0 or more"), "{said_of_number}");
        for line in ["sabani run --grace -1 -- true", "sabani key --force"] {
            assert!(!said(line).contains("as a value"), "{}", said(line));
        }
        // What helps stays.
        let near = said("sabani run --grac 1 -- true");
        assert!(near.contains("'--grace'"), "{near}");
    }
}
