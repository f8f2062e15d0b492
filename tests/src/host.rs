//! Network namespaces joined by veth pairs. They have no names: each lives as long as a process in
//! it, so nothing is left behind, however a test ends.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// A network namespace.
#[derive(Debug)]
pub struct Host {
    /// Keeps the namespace alive, and ends with its standard input.
    holder: Child,
}

impl Host {
    fn new() -> Result<Self> {
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c"])
            .arg("ip link set lo up && echo ready && exec cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("no `unshare` here")?;
        let output = holder.stdout.take().context("it has an output")?;
        let host = Host { holder };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        ensure!(
            line == "ready\n",
            "network namespaces need root and `ip` (package iproute2)"
        );
        Ok(host)
    }

    /// A command that runs in this namespace.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/proc/{}/ns/net", self.holder.id()))
            .arg(program);
        command
    }

    /// Runs a line of shell in this namespace.
    ///
    /// # Panics
    /// If it fails.
    pub fn shell(&self, line: &str) {
        self.try_shell(line).expect("the network obeys");
    }

    fn try_shell(&self, line: &str) -> Result<()> {
        let output = self.command("sh").args(["-ec", line]).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("`{line}` failed: {}", said.trim());
        }
        Ok(())
    }

    /// Drops arriving datagrams that match this nftables expression.
    pub fn drop_arriving(&self, what: &str) {
        self.shell(&format!(
            "nft 'add table inet faults;
                add chain inet faults arriving {{ type filter hook prerouting priority -300; }};
                add rule inet faults arriving {what} drop'"
        ));
    }

    /// Refuses leaving datagrams that match this nftables expression, as a firewall does.
    pub fn reject_leaving(&self, what: &str) {
        self.shell(&format!(
            "nft 'add table inet faults;
                add chain inet faults leaving {{ type filter hook output priority 0; }};
                add rule inet faults leaving {what} reject'"
        ));
    }

    /// Sends each packet by itself, as on a card without segmentation offload.
    pub fn segment_in_software(&self) {
        self.shell("ethtool -K eth0 tx-udp-segmentation off");
    }

    /// Joins two hosts by a wire.
    fn join(&self, to: &Host, mtu: usize, names: [&str; 2]) -> Result<()> {
        let [here, there] = names;
        let peer = to.holder.id();
        self.try_shell(&format!(
            "ip link add {here} mtu {mtu} type veth peer name {there} mtu {mtu} netns {peer}"
        ))?;
        self.try_shell(&format!("ip link set {here} up"))?;
        to.try_shell(&format!("ip link set {there} up"))
    }

    fn address(&self, device: &str, addresses: &[&str]) -> Result<()> {
        for address in addresses {
            let nodad = if address.contains(':') { "nodad" } else { "" };
            self.try_shell(&format!("ip addr add {address} dev {device} {nodad}"))?;
        }
        Ok(())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Says why a test can't run here.
fn or_skip<T>(made: Result<T>) -> Option<T> {
    made.inspect_err(|why| println!("skipped: {why:#}")).ok()
}

fn need(tools: &[(&str, &str)]) -> Result<()> {
    for (tool, package) in tools {
        let found = Command::new(tool).arg("--version").output();
        found.with_context(|| format!("no `{tool}` here: install the package {package}"))?;
    }
    Ok(())
}

const TOOLS: [(&str, &str); 2] = [("nft", "nftables"), ("ethtool", "ethtool")];

/// Two hosts on one wire, both with `eth0`: 10.77.0.1 and fd77::1, 10.77.0.2 and fd77::2.
#[derive(Debug)]
pub struct Pair {
    /// The one that ends in 1.
    pub left: Host,
    /// The one that ends in 2.
    pub right: Host,
}

impl Pair {
    /// Makes them; `None`, and the reason is printed, where that can't be done.
    pub fn new(mtu: usize) -> Option<Self> {
        or_skip(need(&TOOLS).and_then(|()| {
            let pair = Pair {
                left: Host::new()?,
                right: Host::new()?,
            };
            pair.wire(mtu)?;
            Ok(pair)
        }))
    }

    fn wire(&self, mtu: usize) -> Result<()> {
        self.left.join(&self.right, mtu, ["eth0"; 2])?;
        self.left.address("eth0", &["10.77.0.1/24", "fd77::1/64"])?;
        self.right.address("eth0", &["10.77.0.2/24", "fd77::2/64"])
    }

    /// Takes the wire away, devices and all.
    pub fn cut(&self) {
        self.left.shell("ip link del eth0");
    }

    /// Lays it again.
    ///
    /// # Panics
    /// If it is still there.
    pub fn mend(&self, mtu: usize) {
        self.wire(mtu).expect("the wire was cut");
    }
}

/// Two hosts with a router between them: 10.77.1.1 on the left, 10.77.2.1 on the right.
#[derive(Debug)]
pub struct Path {
    /// One end.
    pub left: Host,
    /// Its devices are `left` and `right`.
    pub router: Host,
    /// The other end.
    pub right: Host,
}

impl Path {
    /// Makes them; `None`, and the reason is printed, where that can't be done.
    pub fn new(mtu: usize) -> Option<Self> {
        or_skip(need(&TOOLS).and_then(|()| {
            let path = Path {
                left: Host::new()?,
                router: Host::new()?,
                right: Host::new()?,
            };
            path.wire(mtu)?;
            Ok(path)
        }))
    }

    fn wire(&self, mtu: usize) -> Result<()> {
        let ends = [(&self.left, "left", 1), (&self.right, "right", 2)];
        for (end, device, net) in ends {
            end.join(&self.router, mtu, ["eth0", device])?;
            end.address("eth0", &[&format!("10.77.{net}.1/24")])?;
            self.router
                .address(device, &[&format!("10.77.{net}.254/24")])?;
            end.try_shell(&format!("ip route add default via 10.77.{net}.254"))?;
        }
        self.router
            .try_shell("echo 1 > /proc/sys/net/ipv4/ip_forward")
    }

    /// The way to the right carries only smaller packets from now on, and nobody is told.
    pub fn shrink(&self, mtu: usize) {
        self.router.shell(
            "nft 'add table ip faults;
                add chain ip faults leaving { type filter hook output priority 0; };
                add rule ip faults leaving meta l4proto icmp drop'",
        );
        self.router.shell(&format!("ip link set right mtu {mtu}"));
    }
}
