//! Where the two processes live: on the loopback interface, or in network namespaces of their own.

use std::{
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr},
    os::unix::process::CommandExt,
    process::{self, Command},
};

use anyhow::{Context, Result, bail, ensure};
use nix::unistd::geteuid;

use super::{args::Where, transport::Role};

/// The interface, in each namespace.
const INTERFACE: &str = "veth0";

/// A place to measure in. Namespaces made for it go with it.
pub enum Place {
    /// The loopback interface.
    Loopback,
    /// Two namespaces joined by a veth pair.
    Joined(Namespaces),
}

impl Place {
    /// Makes the place ready.
    ///
    /// # Errors
    /// For namespaces: without root, or without the tools `ip` and `ethtool`.
    pub fn create(kind: Where) -> Result<Self> {
        Ok(match kind {
            Where::Loopback => Self::Loopback,
            Where::Veth => Self::Joined(Namespaces::create(true)?),
            Where::VethNogso => Self::Joined(Namespaces::create(false)?),
        })
    }

    /// The address of one side.
    pub fn address(&self, role: Role) -> IpAddr {
        match (self, role) {
            (Self::Loopback, _) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            (Self::Joined(_), Role::Client) => IpAddr::from([10, 77, 0, 1]),
            (Self::Joined(_), Role::Server) => IpAddr::from([10, 77, 0, 2]),
        }
    }

    /// A command that runs on one side.
    pub fn command(&self, role: Role, program: &std::path::Path) -> Command {
        match self {
            Self::Loopback => Command::new(program),
            Self::Joined(namespaces) => {
                let mut command = Command::new("ip");
                command
                    .args(["netns", "exec", namespaces.name(role)])
                    .arg(program);
                command
            }
        }
    }
}

/// Two network namespaces, deleted when dropped, with all that is in them.
pub struct Namespaces {
    client: String,
    server: String,
}

impl Namespaces {
    fn create(segmentation_offload: bool) -> Result<Self> {
        ensure!(
            geteuid().is_root(),
            "network namespaces need root: run this with sudo, or use --where loopback"
        );
        let id = process::id();
        let namespaces = Self {
            client: format!("sabani-bench-{id}-a"),
            server: format!("sabani-bench-{id}-b"),
        };
        namespaces.set_up(segmentation_offload)?;
        Ok(namespaces)
    }

    fn name(&self, role: Role) -> &str {
        match role {
            Role::Client => &self.client,
            Role::Server => &self.server,
        }
    }

    fn set_up(&self, segmentation_offload: bool) -> Result<()> {
        let (a, b) = (&self.client, &self.server);
        ip(&format!("netns add {a}"))?;
        ip(&format!("netns add {b}"))?;
        ip(&format!(
            "-n {a} link add {INTERFACE} mtu 1500 type veth peer name {INTERFACE} mtu 1500 netns {b}"
        ))?;
        for (namespace, address) in [(a, "10.77.0.1/24"), (b, "10.77.0.2/24")] {
            ip(&format!(
                "-n {namespace} addr add {address} dev {INTERFACE}"
            ))?;
            ip(&format!("-n {namespace} link set lo up"))?;
            ip(&format!("-n {namespace} link set {INTERFACE} up"))?;
            if !segmentation_offload {
                let offload = format!("-K {INTERFACE} tx-udp-segmentation off");
                // Looked for first, since inside `ip netns exec` its absence reads like any failure.
                tool("ethtool", "--version")?;
                ip(&format!("netns exec {namespace} ethtool {offload}"))?;
            }
        }
        Ok(())
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in [&self.client, &self.server] {
            // One that was never made cannot be deleted, and there is nobody left to tell.
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

fn ip(arguments: &str) -> Result<()> {
    tool("ip", arguments)
}

/// Runs a system tool, out of reach of the terminal's Ctrl-C, so that cleaning up is not cut short.
fn tool(name: &str, arguments: &str) -> Result<()> {
    let output = Command::new(name)
        .args(arguments.split(' '))
        .process_group(0)
        .output();
    let output = match output {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let package = if name == "ip" { "iproute2" } else { name };
            bail!("the tool `{name}` is missing: install the package {package}")
        }
        output => output.with_context(|| format!("cannot run `{name}`"))?,
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{name} {arguments}` failed: {}", said.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tools_are_named() {
        let error = tool("sabani-no-such-tool", "x").unwrap_err().to_string();
        assert!(
            error.contains("install the package sabani-no-such-tool"),
            "{error}"
        );
    }

    #[test]
    fn failures_say_what_was_tried() {
        let error = tool("ls", "/nonexistent/path").unwrap_err().to_string();
        assert!(
            error.starts_with("`ls /nonexistent/path` failed: "),
            "{error}"
        );
    }
}
