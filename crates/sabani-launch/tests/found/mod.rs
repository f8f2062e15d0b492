//! Launchers that are installed, and examples to start with them.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

const VARIABLES: [&str; 6] = [
    "SABANI_RUN_FD",
    "SABANI_RANK",
    "SABANI_SIZE",
    "SABANI_RENDEZVOUS",
    "SABANI_JOB_KEY_FILE",
    "SABANI_IF",
];

/// A command that knows nothing of a job that these tests may be part of.
pub fn clean(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for name in VARIABLES {
        command.env_remove(name);
    }
    command
}

/// A program of this package's examples.
pub fn example(name: &str) -> PathBuf {
    let tests = env::current_exe().unwrap();
    let target = tests.parent().and_then(|deps| deps.parent()).unwrap();
    let program = target.join("examples").join(name);
    assert!(
        program.exists(),
        "`cargo test` of the whole package builds {name}"
    );
    program
}

/// The first of these programs that says so of itself.
fn find(names: &[&str], version: &str, package: &str) -> Option<Command> {
    let is_it = |name: &&&str| {
        let output = Command::new(name).arg("--version").output();
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(version))
    };
    let found = names.iter().find(is_it);
    if found.is_none() {
        println!(
            "skipped: no `{}` here: install the package {package}",
            names[0]
        );
    }
    found.map(clean)
}

/// Open MPI's launcher.
pub fn open_mpi() -> Option<Command> {
    let mut command = find(&["mpirun.openmpi", "mpirun"], "Open MPI", "openmpi-bin")?;
    command.args(["--allow-run-as-root", "--oversubscribe"]);
    Some(command)
}

/// MPICH's launcher.
pub fn hydra() -> Option<Command> {
    find(&["mpiexec.hydra"], "HYDRA", "mpich")
}
