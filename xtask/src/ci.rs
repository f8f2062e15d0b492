//! `cargo xtask ci`: what a change must pass, what fails fast first.

use anyhow::Result;

use crate::{rules, shell, test};

/// Runs the fast checks, then every test.
///
/// # Errors
/// If anything fails.
pub fn run(options: &test::Options) -> Result<()> {
    shell::run(&mut shell::cargo("fmt --all --check"))?;
    shell::run(&mut shell::cargo(
        "fmt --manifest-path fuzz/Cargo.toml --check",
    ))?;
    rules::run()?;
    shell::run(&mut shell::cargo(
        "clippy --quiet --workspace --all-targets -- --deny warnings",
    ))?;
    let mut doc = shell::cargo("doc --quiet --workspace --no-deps --document-private-items");
    shell::run(doc.env("RUSTDOCFLAGS", "--deny warnings"))?;
    test::run(options)
}
