//! The system's own tools for networks: `ip`, `bridge`, `tc`, `nft`, `ethtool`.

use std::{
    io::{ErrorKind, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use nix::{sys::signal::Signal, unistd::geteuid};

use crate::exit::{Interrupted, Usage};

/// Fails where this process may not make network namespaces.
///
/// # Errors
/// Without root, saying what to do: `instead`, as in `use --where loopback`, may be empty.
pub fn need_root(instead: &str) -> Result<()> {
    let why = || {
        Usage(format!(
            "network namespaces need root: run this with sudo{instead}"
        ))
    };
    ensure!(geteuid().is_root(), why());
    Ok(())
}

/// Runs a tool and returns what it prints.
///
/// # Errors
/// If the tool is missing, naming the package, or fails.
pub fn run(name: &str, arguments: &str) -> Result<String> {
    feed(name, arguments, "")
}

/// Runs a tool that reads its commands from standard input, and returns what it prints.
///
/// The terminal's Ctrl-C does not reach it, so that nothing is left half done, and cleaning up is not cut
/// short; but for the moment before it has a process group of its own.
///
/// # Errors
/// As [`run`], and [`Interrupted`] if the user's signal has ended the tool after all.
pub fn feed(name: &str, arguments: &str, input: &str) -> Result<String> {
    let child = Command::new(name)
        .args(arguments.split(' '))
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!(
                "the tool `{name}` is missing: install the package {}",
                package(name)
            )
        }
        child => child.with_context(|| format!("cannot run `{name}`"))?,
    };
    if let Some(mut stdin) = child.stdin.take() {
        // One that ends early says why itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output()?;
    match output.status.signal().map(Signal::try_from) {
        _ if output.status.success() => {}
        Some(Ok(signal @ (Signal::SIGINT | Signal::SIGTERM))) => {
            let what = format!("interrupted: {signal} has ended `{name} {arguments}`");
            bail!(Interrupted(what));
        }
        // Who is killed says nothing.
        Some(_) => bail!("`{name} {arguments}` failed: {}", output.status),
        None => {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("`{name} {arguments}` failed: {}", said.trim());
        }
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The package that a tool comes in, on Debian.
fn package(tool: &str) -> &str {
    match tool {
        "bridge" | "ip" | "tc" => "iproute2",
        "nft" => "nftables",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tools_are_named() {
        let error = run("sabani-no-such-tool", "x").unwrap_err().to_string();
        assert!(
            error.contains("install the package sabani-no-such-tool"),
            "{error}"
        );
        assert_eq!(package("tc"), "iproute2");
    }

    #[test]
    fn failures_say_what_was_tried() {
        let error = run("ls", "/nonexistent/path").unwrap_err().to_string();
        assert!(
            error.starts_with("`ls /nonexistent/path` failed: "),
            "{error}"
        );
    }

    #[test]
    fn who_ended_a_tool_is_told() {
        // Who runs tests in the background may have left SIGINT ignored, and a shell can't change that.
        let shell = "--default-signal=INT,TERM sh -s";
        let killed_by =
            |signal: &str| feed("env", shell, &format!("kill -{signal} $$")).unwrap_err();
        for signal in ["INT", "TERM"] {
            assert!(killed_by(signal).is::<Interrupted>(), "{signal}");
        }
        let error = killed_by("KILL");
        assert!(!error.is::<Interrupted>(), "{error}");
        assert!(error.to_string().contains("SIGKILL"), "{error}");
    }

    #[test]
    fn tools_are_fed() {
        assert_eq!(feed("cat", "-", "two words").unwrap(), "two words");
    }
}
