//! Two levels of switches: hosts are at leaves, which trunks join at a root.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Result, ensure};
use serde::Deserialize;

use super::{
    MTU_BYTES,
    args::{Rate, UpArgs},
    names::{Host, Lab},
};
use crate::{exit::Usage, tools};

/// The switch that all others are at; in a lab without trunks the only one.
pub const ROOT: &str = "switch";

/// The trunks of a lab to be made.
#[derive(Clone, Copy, Debug)]
pub struct Trunks {
    /// Of so many hosts,
    hosts: u16,
    /// ... in so many groups, each at a leaf: blocks of equal length, as far as that goes.
    groups: u16,
    /// Of each trunk, in either direction.
    pub rate: Rate,
}

/// Hosts at a leaf: the n-th, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group(pub u16);

impl Group {
    /// The leaf.
    fn leaf(self) -> String {
        format!("leaf{}", self.0)
    }

    /// The leaf's interface towards the root.
    pub fn up(self) -> String {
        format!("up{}", self.0)
    }

    /// The root's interface towards the leaf.
    pub fn down(self) -> String {
        format!("down{}", self.0)
    }
}

impl Trunks {
    /// Those that the user asks for.
    ///
    /// # Errors
    /// If there is no trunk whose rate could be set, or a group had no host.
    pub fn asked_for(args: &UpArgs) -> Result<Option<Self>> {
        let UpArgs { hosts, groups, .. } = *args;
        ensure!(
            groups <= hosts,
            Usage(format!(
                "{hosts} hosts make {hosts} groups at most, not {groups}"
            ))
        );
        if groups == 1 {
            ensure!(
                args.trunk.is_none(),
                Usage("one group has no trunk: --trunk needs --groups".into())
            );
            return Ok(None);
        }
        let rate = args.trunk.unwrap_or(args.link.rate);
        Ok(Some(Self {
            hosts,
            groups,
            rate,
        }))
    }

    pub fn groups(self) -> impl Iterator<Item = Group> {
        (1..=self.groups).map(Group)
    }

    fn group_of(self, host: Host) -> Group {
        let before = u32::from(host.0 - 1) * u32::from(self.groups);
        Group((before / u32::from(self.hosts)) as u16 + 1)
    }

    /// The switch that a host is at.
    pub fn switch_of(self, host: Host) -> String {
        self.group_of(host).leaf()
    }

    /// Commands of `ip` that make leaves and trunks.
    pub fn links(self) -> String {
        let mut lines = String::new();
        for group in self.groups() {
            let (leaf, up, down) = (group.leaf(), group.up(), group.down());
            let _ = write!(
                lines,
                "link add name {leaf} type bridge mcast_snooping 0\n\
                 link set {leaf} addrgenmode none up\n\
                 link add name {up} mtu {MTU_BYTES} type veth peer name {down} mtu {MTU_BYTES}\n\
                 link set {up} addrgenmode none master {leaf} up\n\
                 link set {down} addrgenmode none master {ROOT} up\n"
            );
        }
        lines
    }

    /// Commands of `bridge` that tell switches on which trunk a host is.
    pub fn routes(self, host: Host) -> String {
        let (own, hardware) = (self.group_of(host), host.hardware_address());
        let mut lines = String::new();
        for group in self.groups() {
            let port = match group == own {
                true => group.down(),
                false => group.up(),
            };
            let _ = writeln!(lines, "fdb replace {hardware} dev {port} master static");
        }
        lines
    }
}

#[derive(Deserialize)]
struct Link {
    ifname: String,
    #[serde(default)]
    master: String,
}

/// The groups of a lab, and who is in each; none if all its hosts are at one switch.
///
/// # Errors
/// If its switches can't be asked.
pub fn groups(lab: &Lab) -> Result<BTreeMap<Group, Vec<Host>>> {
    let listed = tools::run("ip", &format!("-n {} -j link show", lab.switch()))?;
    let links: Vec<Link> = serde_json::from_str(&listed)?;
    let mut groups: BTreeMap<Group, Vec<Host>> = BTreeMap::new();
    for Link { ifname, master } in links {
        let group = master.strip_prefix("leaf").and_then(|n| n.parse().ok());
        let host = ifname.strip_prefix("port").and_then(|n| n.parse().ok());
        if let (Some(group), Some(host)) = (group, host) {
            groups.entry(Group(group)).or_default().push(Host(host));
        }
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_at_leaves_in_blocks() {
        let groups = |hosts, groups| {
            let trunks = Trunks {
                hosts,
                groups,
                rate: Rate(1),
            };
            let of = |host| trunks.group_of(Host(host)).0;
            (1..=hosts).map(of).collect::<Vec<_>>()
        };
        assert_eq!(groups(8, 2), [1, 1, 1, 1, 2, 2, 2, 2]);
        assert_eq!(groups(5, 2), [1, 1, 1, 2, 2]);
        assert_eq!(groups(3, 3), [1, 2, 3]);
        assert_eq!(groups(250, 250).last(), Some(&250));
    }
}
