//! The MPI libraries, and the twin of `sabani bench coll` built with each.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::contest::{Contestant, Role};
use crate::shell;

/// Open MPI's words: over TCP alone, on the loopback interface.
const OPEN_MPI_TCP: &[&str] = &[
    "--mca",
    "pml",
    "ob1",
    "--mca",
    "btl",
    "tcp,self",
    "--mca",
    "btl_tcp_if_include",
    "lo",
];
/// Whoever waits yields its core: there may be more ranks than cores.
const OPEN_MPI: &[&str] = &[
    "--allow-run-as-root",
    "--oversubscribe",
    "--mca",
    "mpi_yield_when_idle",
    "1",
];
/// An equal part of all ranks on each core: the system leaves those that yield on one while another has nothing to do.
const SABANI_BOUND: &[&str] = &["--bind", "cores"];
const OPEN_MPI_BOUND: &[&str] = &["--bind-to", "core:overload-allowed"];
const MPICH_BOUND: &[&str] = &["-bind-to", "core"];
/// MPICH's variables: over TCP alone, also between ranks of one machine.
const MPICH_TCP: &[(&str, &str)] = &[
    ("MPIR_CVAR_CH4_NETMOD", "ofi"),
    ("FI_PROVIDER", "tcp"),
    ("MPIR_CVAR_NOLOCAL", "1"),
];
/// What TCP uses where a program asks for nothing else; neither library does.
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Everybody, with what is missing installed and built; all ranks bound to cores, or none.
///
/// # Errors
/// If something can't be installed or built.
pub fn contestants(bound: bool) -> Result<Vec<Contestant>> {
    let target = target()?;
    let folder = target.join("bench-mpi");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mpich = install_mpich(&folder)?;
    install_open_mpi()?;
    let open_mpi_twin = twin(&folder, "open-mpi", Path::new("mpicc.openmpi"))?;
    let mpich_twin = twin(&folder, "mpich", &mpich.join("mpicc"))?;
    shell::run(&mut shell::cargo("build --release -p sabani-cli"))?;
    let sabani = target.join("release/sabani");
    let if_bound = |options: &'static [&str]| if bound { options } else { &[] };
    let ours = |role, name, variant| ranks_of(&sabani, if_bound(SABANI_BOUND), role, name, variant);
    let open_mpi = |role, name: &str, options: &[&str]| Contestant {
        role,
        name: name.into(),
        launcher: words(
            "mpirun.openmpi",
            &[OPEN_MPI, if_bound(OPEN_MPI_BOUND), options].concat(),
        ),
        program: vec![shown(&open_mpi_twin)],
        environment: &[],
    };
    Ok(vec![
        ours(Role::Plain, "Sabani, plain", "--plain"),
        ours(Role::Sealed, "Sabani, sealed", "--sealed"),
        open_mpi(Role::Tcp, "Open MPI, TCP", OPEN_MPI_TCP),
        Contestant {
            role: Role::Tcp,
            name: "MPICH, TCP".into(),
            launcher: words(&shown(&mpich.join("mpiexec.hydra")), if_bound(MPICH_BOUND)),
            program: vec![shown(&mpich_twin)],
            environment: MPICH_TCP,
        },
        open_mpi(Role::SharedMemory, "Open MPI, shared memory", &[]),
    ])
}

/// The versions of both libraries and TCP's congestion control, for the record.
///
/// # Errors
/// If one of the libraries can't be asked.
pub fn versions() -> Result<String> {
    let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
    let open_mpi = shell::output(Command::new("mpirun.openmpi").arg("--version"))?;
    let mpich = target()?.join("bench-mpi/venv/bin/mpichversion");
    let mpich = first(shell::output(&mut Command::new(mpich))?);
    let mpich: Vec<&str> = mpich.split_whitespace().collect();
    let congestion = fs::read_to_string(CONGESTION).unwrap_or_default();
    Ok(format!(
        "{}; {}; TCP with {}",
        first(open_mpi),
        mpich.join(" "),
        congestion.trim()
    ))
}

fn ranks_of(sabani: &Path, bound: &[&str], role: Role, name: &str, variant: &str) -> Contestant {
    let sabani = shown(sabani);
    let program = [
        "--", &sabani, "bench", "coll", "--rounds", "1", "--json", "-", variant,
    ];
    Contestant {
        role,
        name: name.into(),
        launcher: words(&sabani, &[&["run", "--no-prefix"], bound].concat()),
        program: program.map(String::from).into(),
        environment: &[],
    }
}

/// Debian's Open MPI and its headers: its compiler wrapper comes without them.
fn install_open_mpi() -> Result<()> {
    let folders = Command::new("mpicc.openmpi")
        .arg("--showme:incdirs")
        .output();
    if let Ok(output) = folders {
        let folders = String::from_utf8_lossy(&output.stdout);
        let mut folders = folders.split_whitespace().map(Path::new);
        if folders.any(|folder| folder.join("mpi.h").exists()) {
            return Ok(());
        }
    }
    let mut install = Command::new("apt-get");
    install
        .args(["install", "--quiet", "--yes", "--no-install-recommends"])
        .args(["openmpi-bin", "libopenmpi-dev"])
        .env("DEBIAN_FRONTEND", "noninteractive");
    shell::run(&mut install)
}

/// MPICH from PyPI, in an environment of its own; returns the folder of its programs. Debian's has no
/// compiler wrapper beside that of Open MPI, and is older.
fn install_mpich(folder: &Path) -> Result<PathBuf> {
    let venv = folder.join("venv");
    let programs = venv.join("bin");
    if !programs.join("mpicc").exists() {
        shell::run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        shell::run(Command::new(programs.join("pip")).args(["install", "--quiet", "mpich"]))?;
    }
    Ok(programs)
}

fn twin(folder: &Path, library: &str, compiler: &Path) -> Result<PathBuf> {
    let twin = folder.join(format!("coll-{library}"));
    let mut compile = Command::new(compiler);
    compile.args(["-O2", "-Wall", "-Wextra", "-o"]).arg(&twin);
    compile.arg(shell::root().join("xtask/src/bench_mpi/coll.c"));
    shell::run(&mut compile)?;
    Ok(twin)
}

/// Where cargo has built this very program, and builds Sabani.
fn target() -> Result<PathBuf> {
    let own = env::current_exe().context("cannot find this program's own file")?;
    let target = own
        .ancestors()
        .nth(2)
        .context("it lies in no target folder")?;
    Ok(target.into())
}

fn words(first: &str, others: &[&str]) -> Vec<String> {
    let others = others.iter().copied();
    std::iter::once(first)
        .chain(others)
        .map(String::from)
        .collect()
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
