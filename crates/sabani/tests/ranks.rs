//! The example `pi`, alone and under real launchers.

#[path = "../../sabani-launch/tests/found/mod.rs"]
mod found;

use std::process::Command;

use found::{clean, example, hydra, open_mpi};

fn says_pi(command: &mut Command, ranks: u32) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let expected = format!("pi is 3.141592654, say {ranks} ranks\n");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, expected, "{complaint}");
    assert!(output.status.success());
}

#[test]
fn a_program_started_alone_is_a_world_of_one() {
    says_pi(&mut clean(example("pi")), 1);
}

#[test]
fn ranks_work_together_under_open_mpi() {
    let Some(mut mpirun) = open_mpi() else { return };
    says_pi(mpirun.args(["-n", "4"]).arg(example("pi")), 4);
}

#[test]
fn ranks_work_together_under_hydra() {
    let Some(mut mpiexec) = hydra() else { return };
    says_pi(mpiexec.args(["-n", "4"]).arg(example("pi")), 4);
}
