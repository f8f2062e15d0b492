//! Common shapes of networks.

use crate::fabric::{Cable, PortId, Switch, SwitchId};
use crate::{HostId, Network};

/// Two switches with a cable between them that all traffic from one side to the other shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dumbbell {
    /// The port from the left switch to the right one.
    pub rightwards: PortId,
    /// The port from the right switch to the left one.
    pub leftwards: PortId,
}

impl Network {
    /// Plugs all hosts that have no cable yet into one switch.
    pub fn star(&mut self, cable: &Cable, switch: Switch) -> SwitchId {
        let switch = self.add_switch(switch);
        for host in self.loose_hosts() {
            self.connect(host, switch, cable);
        }
        switch
    }

    /// Plugs the first `left` of the hosts that have no cable yet into one switch, the others into
    /// another, and joins the two.
    pub fn dumbbell(
        &mut self,
        left: usize,
        cable: &Cable,
        between: &Cable,
        switch: &Switch,
    ) -> Dumbbell {
        let hosts = self.loose_hosts();
        let sides = [(); 2].map(|()| self.add_switch(switch.clone()));
        for (index, host) in hosts.into_iter().enumerate() {
            let side = sides[usize::from(index >= left)];
            self.connect(host, side, cable);
        }
        let (rightwards, leftwards) = self.connect(sides[0], sides[1], between);
        Dumbbell {
            rightwards,
            leftwards,
        }
    }

    /// Plugs the hosts that have no cable yet into switches of `per_leaf` hosts each, and those
    /// into one at the root. Returns, for each leaf, its port to the root and the root's to it.
    pub fn tree(
        &mut self,
        per_leaf: usize,
        cable: &Cable,
        uplink: &Cable,
        switch: &Switch,
    ) -> Vec<(PortId, PortId)> {
        let hosts = self.loose_hosts();
        let root = self.add_switch(switch.clone());
        let mut uplinks = Vec::new();
        for group in hosts.chunks(per_leaf.max(1)) {
            let leaf = self.add_switch(switch.clone());
            for &host in group {
                self.connect(host, leaf, cable);
            }
            uplinks.push(self.connect(leaf, root, uplink));
        }
        uplinks
    }

    fn loose_hosts(&self) -> Vec<HostId> {
        let loose = |&host: &HostId| self.nic(host).is_none();
        self.host_ids().filter(loose).collect()
    }
}
