//! The system's own tools for networks: `ip`, `bridge`, `tc`, `nft`, `ethtool`.

use std::{
    io::{ErrorKind, Write},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use nix::unistd::geteuid;

/// Fails where this process may not make network namespaces.
///
/// # Errors
/// Without root, saying what to do: `instead`, as in `use --where loopback`, may be empty.
pub fn need_root(instead: &str) -> Result<()> {
    ensure!(
        geteuid().is_root(),
        "network namespaces need root: run this with sudo{instead}"
    );
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
/// short.
///
/// # Errors
/// As [`run`].
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
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{name} {arguments}` failed: {}", said.trim());
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
    fn tools_are_fed() {
        assert_eq!(feed("cat", "-", "two words").unwrap(), "two words");
    }
}
