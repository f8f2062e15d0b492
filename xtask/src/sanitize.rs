//! `cargo xtask sanitize`: the compiler's sanitizers, on what has unsafe code and uses real sockets and threads,
//! which Miri does not have.

use anyhow::Result;
use clap::ValueEnum;

use crate::shell;

/// What to look for.
#[derive(Clone, Copy, ValueEnum)]
pub enum Sanitizer {
    /// Memory that is used after it was freed, or beyond its end
    Address,
    /// Data races
    Thread,
}

/// Settings of `cargo xtask sanitize`.
#[derive(clap::Args)]
pub struct Options {
    /// Only this one.
    #[arg(value_enum)]
    only: Option<Sanitizer>,
}

const TESTS: &str = "--package sabani-udp --package sabani-ring --package sabani";

impl Sanitizer {
    fn name(self) -> &'static str {
        match self {
            Sanitizer::Address => "address",
            Sanitizer::Thread => "thread",
        }
    }

    /// The standard library must tell of its locks, or everything that they guard seems to race.
    fn standard_library(self) -> &'static str {
        match self {
            Sanitizer::Address => "",
            Sanitizer::Thread => "-Zbuild-std",
        }
    }

    /// A target is named so that what only runs while building is built without; the folder is another one, since the
    /// flag concerns all that is built.
    fn run(self) -> Result<()> {
        let name = self.name();
        let tests = format!(
            "+nightly test {} --target x86_64-unknown-linux-gnu --target-dir target/sanitize-{name} {TESTS}",
            self.standard_library(),
        );
        let mut command = shell::cargo(&tests);
        for flags in ["RUSTFLAGS", "RUSTDOCFLAGS"] {
            command.env(flags, format!("-Zsanitizer={name}"));
        }
        // Tests forget handles and run out of memory on purpose, to see that it does no harm.
        command.env("ASAN_OPTIONS", "detect_leaks=0:allocator_may_return_null=1");
        command.env("TSAN_OPTIONS", "allocator_may_return_null=1");
        shell::run(&mut command)
    }
}

/// Runs the tests under one sanitizer, or under each.
///
/// # Errors
/// If a test fails or a sanitizer finds something, or there is no nightly toolchain.
pub fn run(options: &Options) -> Result<()> {
    let all = Sanitizer::value_variants().iter().copied();
    let chosen = options.only.map_or(all.collect(), |only| vec![only]);
    chosen.into_iter().try_for_each(Sanitizer::run)
}
