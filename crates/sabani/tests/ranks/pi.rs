//! The example `pi`.

use std::process::Command;

use crate::found::{example, hydra, open_mpi};
use crate::{ranks, said};

fn says_pi(command: &mut Command, ranks: u32) {
    let expected = format!("pi is 3.141592654; ranks: {ranks}\n");
    assert_eq!(said(command), expected);
}

#[test]
fn a_program_started_alone_is_a_world_of_one() {
    says_pi(&mut ranks(1, "pi").unwrap(), 1);
}

#[test]
fn ranks_work_together_under_sabani_run() {
    let Some(mut run) = ranks(4, "pi") else {
        return;
    };
    says_pi(&mut run, 4);
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
