//! Where the two processes live: on the loopback interface, or in network namespaces of their own.

use std::{
    net::{IpAddr, Ipv4Addr},
    process::{self, Command},
};

use anyhow::Result;

use super::{
    args::{GuardArgs, Where},
    transport::Role,
};
use crate::{
    guard::{self, Guard},
    tools,
};

/// The interface, in each namespace.
const INTERFACE: &str = "veth0";

/// Makes sure that this process may make the place ready: that is known before anything is measured or told.
///
/// # Errors
/// For namespaces: without root.
pub fn expect_rights(kind: Where) -> Result<()> {
    match kind {
        Where::Loopback => Ok(()),
        Where::Veth | Where::VethNogso => tools::need_root(", or use --where loopback"),
    }
}

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
    /// As [`expect_rights`]; for namespaces also without the tools `ip` and `ethtool`.
    pub fn create(kind: Where) -> Result<Self> {
        expect_rights(kind)?;
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

/// Two network namespaces, deleted with all that is in them when dropped, and also when this process is
/// killed.
pub struct Namespaces {
    client: String,
    server: String,
    _guard: Guard,
}

impl Namespaces {
    fn create(segmentation_offload: bool) -> Result<Self> {
        let [client, server] =
            ["a", "b"].map(|end| format!("sabani-bench-{}-{end}", process::id()));
        let namespaces = Self {
            _guard: Guard::start(["bench-guard", &client, &server])?,
            client,
            server,
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
                tools::run("ethtool", "--version")?;
                ip(&format!("netns exec {namespace} ethtool {offload}"))?;
            }
        }
        Ok(())
    }
}

/// Runs the guard.
///
/// # Errors
/// If standard input can't be read.
pub fn guard(args: &GuardArgs) -> Result<()> {
    guard::wait()?;
    for name in &args.namespaces {
        // One that was never made cannot be deleted, and there is nobody left to tell.
        let _ = ip(&format!("netns del {name}"));
    }
    Ok(())
}

fn ip(arguments: &str) -> Result<String> {
    tools::run("ip", arguments)
}
