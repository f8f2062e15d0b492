//! Where the system starts no more threads or processes.

use std::process::{self, Command};

/// The exit status and last words of `sabani` with these arguments, whose user may have so many threads; `None` where
/// that can't be tried.
fn with_threads(most: u32, arguments: &str) -> Option<(i32, String)> {
    // A user who has no other processes: root has no such limit.
    let user = 1_000_000 + process::id();
    let output = Command::new("setpriv")
        .arg(format!("--reuid={user}"))
        .args(["--clear-groups", "prlimit", &format!("--nproc={most}")])
        .arg(env!("CARGO_BIN_EXE_sabani"))
        .args(arguments.split(' '))
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().last().unwrap_or_default().to_owned();
    let is_tried = !["setpriv: ", "prlimit: "]
        .iter()
        .any(|by| said.starts_with(by));
    is_tried.then(|| (output.status.code().unwrap_or(-1), said))
}

#[test]
fn the_limit_is_named() {
    let commands = [
        "run -n 2 -- true",
        "sim mix",
        "sim campaign --seeds 1",
        "bench coll --collectives barrier --sizes 4 --ranks 2 --rounds 1 --seconds 0.01",
        "bench layers --rounds 1",
        "bench schedules --seconds 0.01",
    ];
    for command in commands {
        let Some((status, said)) = with_threads(2, command) else {
            return eprintln!("skipped: no root, no setpriv, or programs that root alone may run");
        };
        assert!(
            status == 1 && said.starts_with("sabani: ") && said.contains("`ulimit -u`"),
            "{command}: {status}: {said}"
        );
    }
}
