//! The examples that are programs of ranks, alone and under real launchers.

#[path = "../../../sabani-launch/tests/found/mod.rs"]
mod found;
mod heat;
mod pi;
mod sample_sort;
mod survivors;

use std::env;
use std::process::Command;

use found::{clean, example};

/// An example, alone or as so many ranks of `sabani run`, if that has been built.
fn ranks(count: u32, name: &str) -> Option<Command> {
    if count == 1 {
        return Some(clean(example(name)));
    }
    let tests = env::current_exe().unwrap();
    let target = tests.parent().and_then(|deps| deps.parent()).unwrap();
    let sabani = target.join("sabani");
    if !sabani.exists() {
        println!("skipped: no `sabani` here: `cargo build -p sabani-cli` makes it");
        return None;
    }
    let mut command = clean(sabani);
    command.args(["run", "--no-prefix", "-n", &count.to_string(), "--"]);
    command.arg(example(name));
    Some(command)
}

/// What a program says that ends well.
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    String::from_utf8(output.stdout).unwrap()
}

/// What a program complains of that fails.
fn complaint(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{complaint}");
    complaint
}
