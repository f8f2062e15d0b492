//! The project's own commands. `cargo xtask test` runs every test; `cargo xtask --help` lists the rest.

mod bench_mpi;
mod ci;
mod fuzz;
mod loom;
mod miri;
mod report;
mod rules;
mod sanitize;
mod shell;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tests, checks and house rules of this project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run every test: unit, scenario, socket and documentation tests, and seconds of each fuzzer
    Test(test::Options),
    /// Run the fast checks (format, lints, documentation, house rules), then every test
    Ci(test::Options),
    /// Check the house rules: who imports whom, where unsafe code may be, what must not be left behind
    Rules,
    /// Run what has unsafe code under Miri (needs a nightly toolchain with the `miri` component)
    Miri,
    /// Try all interleavings of what threads share without locks, with the model checker loom
    Loom,
    /// Run what has unsafe code, with its sockets and threads, under the compiler's sanitizers (needs a nightly
    /// toolchain with the `rust-src` component)
    Sanitize(sanitize::Options),
    /// Run each fuzz target for a while, on the stable compiler
    Fuzz(fuzz::Options),
    /// Measure collectives against those of MPI libraries, which are installed if they are missing
    BenchMpi(bench_mpi::Options),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Test(options) => test::run(&options),
        Command::Ci(options) => ci::run(&options),
        Command::Rules => rules::run(),
        Command::Miri => miri::run(),
        Command::Loom => loom::run(),
        Command::Sanitize(options) => sanitize::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::BenchMpi(options) => bench_mpi::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
