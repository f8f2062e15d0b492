//! The example `survivors`.

use std::process::Command;

use crate::found::{example, open_mpi};
use crate::{ranks, said};

/// Ranks 0 and 3 die; what do the others say, in order?
fn lines(command: &mut Command) -> Vec<String> {
    let output = command.args(["0", "3"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        !said.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut lines: Vec<_> = said.lines().map(String::from).collect();
    lines.sort_unstable();
    lines
}

fn expected() -> [String; 3] {
    [1, 2, 4].map(|rank| format!("rank {rank} is one of 3 left, whose sum is 7"))
}

#[test]
fn nobody_dies() {
    let expected = "rank 0 is one of 1 left, whose sum is 0\n";
    assert_eq!(said(&mut ranks(1, "survivors").unwrap()), expected);
}

#[test]
fn examples_without_options_tell_their_usage() {
    for name in ["hello", "pi", "survivors"] {
        let told = said(Command::new(example(name)).arg("--help"));
        assert!(told.contains(&format!("Usage: {name}")), "{told}");
    }
}

/// It does not tell who has died: silence does.
#[test]
fn open_mpi_lets_survivors_live_if_it_is_asked_to() {
    let Some(mut mpirun) = open_mpi() else { return };
    mpirun.args(["--enable-recovery", "-n", "5"]);
    assert_eq!(lines(mpirun.arg(example("survivors"))), expected());
}
