//! Making a lab.

use std::{fmt::Write, fs, path::Path};

use anyhow::{Error, Result};

use super::{
    ETHERNET_BYTES, MTU_BYTES,
    args::{LinkArgs, Rate, UpArgs},
    down,
    names::{Host, Lab},
    trunks::{self, Group, Trunks},
    turn::Turn,
};
use crate::{
    exit::{Interrupted, Usage},
    interrupt,
    tell::say,
    tools,
};

/// A host's interface.
pub const INTERFACE: &str = "eth0";
const FRAME_BYTES: u64 = MTU_BYTES + ETHERNET_BYTES;
/// What a port may send at once after a pause. Less than two packets, so that nothing passes as a train;
/// more than one, so that a timer that is late by a few µs costs no throughput.
const BURST_BYTES: u64 = 2 * FRAME_BYTES - 28;

/// A lab to be made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What it is called.
    pub lab: Lab,
    /// How many hosts it has.
    pub hosts: u16,
    /// What each port of its switch can do.
    pub link: LinkArgs,
    /// What joins its switches, if it has several.
    pub trunks: Option<Trunks>,
}

/// Runs `sabani lab up`.
///
/// # Errors
/// As [`Plan::make`].
pub fn run(args: &UpArgs) -> Result<()> {
    interrupt::install()?;
    let plan = Plan {
        lab: args.name.lab.clone(),
        hosts: args.hosts,
        link: args.link,
        trunks: Trunks::asked_for(args)?,
    };
    plan.make()?;
    let last = Host(args.hosts);
    say(format_args!(
        "lab `{}` is up: hosts h1 to {last} at {} to {}; `sabani lab exec --name {} h1 -- COMMAND` runs one on h1",
        plan.lab,
        Host(1).address(),
        last.address(),
        plan.lab,
    ))
}

impl Plan {
    /// Makes the lab, all of it or nothing.
    ///
    /// # Errors
    /// Without root or the tools, if there is such a lab already, and when the user interrupts.
    pub fn make(&self) -> Result<()> {
        tools::need_root("")?;
        let _turn = Turn::wait()?;
        if self.lab.exists()? {
            let lab = &self.lab;
            let what = format!(
                "there is a lab `{lab}`: `sabani lab down --name {lab}` ends it, another `--name` makes one beside it"
            );
            return Err(Usage(what).into());
        }
        self.build().map_err(|error| self.unmake(error))
    }

    /// Removes what there is after an error; what to say then.
    fn unmake(&self, error: Error) -> Error {
        let removed = down::remove(&self.lab);
        if !error.is::<Interrupted>() {
            // Why it failed matters more than why it can't be removed.
            return error;
        }
        let lab = &self.lab;
        let what = match removed {
            Ok(_) => format!("interrupted: nothing is left of the lab `{lab}`"),
            Err(why) => format!(
                "interrupted; the lab `{lab}` can't be removed now, `sabani lab down --name {lab}` does that: {why:#}"
            ),
        };
        Interrupted(what).into()
    }

    fn build(&self) -> Result<()> {
        // Looked for first, since inside `ip netns exec` their absence reads like any failure.
        for tool in ["ethtool --version", "nft --version"] {
            let (name, arguments) = tool.split_once(' ').unwrap_or((tool, ""));
            tools::run(name, arguments)?;
        }
        let steps = [
            Self::add_namespaces,
            Self::write_names,
            Self::join_to_switch,
            Self::teach_switch,
            Self::set_up_hosts,
            Self::cut_trains,
            Self::limit_ports,
        ];
        for step in steps {
            if interrupt::requested() {
                return Err(Interrupted("interrupted".into()).into());
            }
            step(self)?;
        }
        Ok(())
    }

    fn hosts(&self) -> impl Iterator<Item = Host> {
        (1..=self.hosts).map(Host)
    }

    /// One line for each host.
    fn for_hosts(&self, line: impl Fn(Host) -> String) -> String {
        self.hosts().map(|host| line(host) + "\n").collect()
    }

    fn add_namespaces(&self) -> Result<()> {
        let switch = format!("netns add {}\n", self.lab.switch());
        let hosts = self.for_hosts(|host| format!("netns add {}", self.lab.namespace(host)));
        batch("ip", "", &(switch + &hosts))
    }

    /// `ip netns exec` lays these files over those of the machine.
    fn write_names(&self) -> Result<()> {
        let names = self.for_hosts(|host| format!("{} {host}", host.address()));
        for host in self.hosts() {
            let folder = self.lab.overlay(host);
            fs::create_dir_all(&folder)?;
            fs::write(
                folder.join("hosts"),
                format!("127.0.0.1 localhost\n{names}"),
            )?;
            fs::write(folder.join("hostname"), format!("{host}\n"))?;
        }
        Ok(())
    }

    /// Interfaces have no address of IPv6, whose announcements would only be in the way.
    fn join_to_switch(&self) -> Result<()> {
        let root = trunks::ROOT;
        let mut lines = format!(
            "link add name {root} type bridge mcast_snooping 0\n\
             link set {root} addrgenmode none up\n"
        );
        lines.extend(self.trunks.map(Trunks::links));
        for host in self.hosts() {
            let (port, namespace) = (host.port(), self.lab.namespace(host));
            let hardware = host.hardware_address();
            let switch = self.trunks.map(|trunks| trunks.switch_of(host));
            let switch = switch.as_deref().unwrap_or(root);
            let _ = write!(
                lines,
                "link add name {port} mtu {MTU_BYTES} type veth peer name {INTERFACE} mtu {MTU_BYTES} \
                 address {hardware} netns {namespace}\n\
                 link set {port} addrgenmode none master {switch} up\n"
            );
        }
        batch("ip", &self.lab.switch(), &lines)
    }

    /// Packets to a host that has not sent anything yet would go to all others as well; and rules
    /// of iptables have no business here.
    fn teach_switch(&self) -> Result<()> {
        let lines = self.for_hosts(|host| {
            let (hardware, port) = (host.hardware_address(), host.port());
            let trunks = self.trunks.map(|trunks| trunks.routes(host));
            let trunks = trunks.unwrap_or_default();
            format!("{trunks}fdb replace {hardware} dev {port} master static")
        });
        batch("bridge", &self.lab.switch(), &lines)?;
        for rules in ["arptables", "iptables", "ip6tables"] {
            let file = format!("/proc/sys/net/bridge/bridge-nf-call-{rules}");
            if Path::new(&file).exists() {
                let tee = format!("netns exec {} tee {file}", self.lab.switch());
                tools::feed("ip", &tee, "0")?;
            }
        }
        Ok(())
    }

    /// Hosts know each other's hardware addresses: a lost question for one would stall a transport
    /// that has nothing to do with it.
    fn set_up_hosts(&self) -> Result<()> {
        let neighbours = self.for_hosts(|host| {
            format!(
                "neigh replace {} lladdr {} dev {INTERFACE} nud permanent",
                host.address(),
                host.hardware_address()
            )
        });
        for host in self.hosts() {
            let lines = format!(
                "link set lo up\n\
                 link set {INTERFACE} addrgenmode none up\n\
                 addr add {}/24 dev {INTERFACE}\n{neighbours}",
                host.address()
            );
            batch("ip", &self.lab.namespace(host), &lines)?;
        }
        Ok(())
    }

    /// Lets hosts send single packets only: their stack cuts trains just before the wire.
    fn cut_trains(&self) -> Result<()> {
        for host in self.hosts() {
            let namespace = self.lab.namespace(host);
            tools::run(
                "ip",
                &format!(
                    "netns exec {namespace} ethtool -K {INTERFACE} tso off tx-udp-segmentation off"
                ),
            )?;
        }
        Ok(())
    }

    /// A token bucket before a queue of bytes. `tbf` would be both in one, but sets a timer whenever a
    /// packet arrives, which takes so long on a virtual machine that it does not reach its rate;
    /// `htb` sets one when a packet leaves.
    fn limit_ports(&self) -> Result<()> {
        let ports = self.hosts().map(|host| (host.port(), self.link.rate));
        let trunks = self.trunks.into_iter().flat_map(|trunks| {
            let ends = |group: Group| [group.up(), group.down()];
            let ends = trunks.groups().flat_map(ends);
            ends.map(move |end| (end, trunks.rate))
        });
        let queue = self.link.queue;
        let limit = |(port, rate): (String, Rate)| {
            let rate = rate.0;
            format!(
                "qdisc add dev {port} root handle 1: htb default 1\n\
                 class add dev {port} parent 1: classid 1:1 htb rate {rate}bit ceil {rate}bit \
                 burst {BURST_BYTES} cburst {BURST_BYTES} quantum {FRAME_BYTES}\n\
                 qdisc add dev {port} parent 1:1 bfifo limit {queue}\n"
            )
        };
        let lines: String = ports.chain(trunks).map(limit).collect();
        batch("tc", &self.lab.switch(), &lines)
    }
}

/// Gives `ip`, `tc` or `bridge` many commands at once, in a namespace unless that is empty.
fn batch(tool: &str, namespace: &str, lines: &str) -> Result<()> {
    let arguments = match namespace {
        "" => "-batch -".into(),
        namespace => format!("-n {namespace} -batch -"),
    };
    tools::feed(tool, &arguments, lines).map(|_| ())
}
