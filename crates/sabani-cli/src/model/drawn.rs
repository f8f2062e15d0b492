//! Networks that are drawn from seeds, simulated, and measured in virtual time.

use std::fmt;

use anyhow::{Context, Result};
use sabani::CreditPolicy;
use sabani_model::measure::{Measured, Procedure, Repairs, Settings};
use sabani_model::network::Estimate;
use sabani_sim::{Cable, HostId, Network, Pause, Rng, Switch, sealed};

use super::simulated;

/// Bits per second of most hosts' links.
pub const LINK: u64 = 100_000_000;

/// A network that was drawn from a seed: hosts at switches, those at a common root.
pub struct Drawn {
    /// For each host its switch.
    pub group_of_host: Vec<usize>,
    /// Of each host, in bits per second.
    links: Vec<u64>,
    /// Of each switch, in bits per second.
    pub trunk: u64,
    switch: Switch,
    shuffled: bool,
}

impl Drawn {
    /// Draws one.
    pub fn new(hosts: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut choose = |choices: &[usize]| choices[rng.below(choices.len() as u64) as usize];
        let each = choose(&[hosts / 2, hosts / 4, hosts / 8, 4]).max(2);
        let part = choose(&[2, 3, 4]);
        let switch = match choose(&[0, 1, 2]) {
            0 => Switch::drop_tail(16 << 20),
            1 => Switch::drop_tail(256 << 10),
            _ => Switch {
                pause: Some(Pause {
                    stop_above: 64 << 10,
                    go_at: 32 << 10,
                }),
                ..Switch::default()
            },
        };
        let slow = choose(&[0, 0, 1, 3]);
        let shuffled = choose(&[0, 1]) == 1;
        let mut group_of_host: Vec<usize> = (0..hosts).map(|host| host / each).collect();
        if shuffled {
            for at in (1..hosts).rev() {
                group_of_host.swap(at, rng.below(at as u64 + 1) as usize);
            }
        }
        let mut links = vec![LINK; hosts];
        for _ in 0..slow {
            links[rng.below(hosts as u64) as usize] = LINK / 2;
        }
        Drawn {
            group_of_host,
            links,
            trunk: LINK * each as u64 / part as u64,
            switch,
            shuffled,
        }
    }

    /// Builds it, with a node on each host.
    pub fn build(&self, seed: u64, credit: CreditPolicy) -> Network {
        let hosts = self.links.len() as u32;
        let mut net = Network::mesh(seed, hosts, &sealed(), |config| {
            config.credit = credit;
        });
        let root = net.add_switch(self.switch.clone());
        let groups = self.group_of_host.iter().max().map_or(0, |last| last + 1);
        let leaves: Vec<_> = (0..groups)
            .map(|_| net.add_switch(self.switch.clone()))
            .collect();
        let cable = |bits_per_second| Cable {
            bits_per_second,
            ..Cable::default()
        };
        for leaf in &leaves {
            net.connect(*leaf, root, &cable(self.trunk));
        }
        for (host, (&group, &link)) in self.group_of_host.iter().zip(&self.links).enumerate() {
            net.connect(HostId(host as u32), leaves[group], &cable(link));
        }
        net
    }

    /// Measures it, as a job's ranks would.
    ///
    /// # Errors
    /// If a probe does not come to its end.
    pub fn measure(&self, seed: u64) -> Result<Measured> {
        let mut net = self.build(seed, CreditPolicy::Shares);
        let host = |host: usize| format!("host{host}");
        let mut procedure = Procedure::new(Settings {
            names: (0..self.links.len()).map(host).collect(),
            one_host: false,
            transport: "sabani".into(),
            repairs: Repairs::Sabani,
            seed,
            patterns: 36,
            network_ns: 60_000_000_000,
            copy_bytes_per_s: Estimate::exact(1e10),
            reduce_bytes_per_s: Estimate::exact(1e10),
        });
        while let Some(probe) = procedure.next_probe() {
            let outcome = simulated::run(&mut net, &probe)?;
            procedure.take(&probe, outcome);
        }
        procedure.finish().context("the time was too short")
    }
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = self.group_of_host.iter().max().map_or(0, |last| last + 1);
        let slow = self.links.iter().filter(|link| **link < LINK).count();
        let switch = match (self.switch.pause, self.switch.queue_bytes) {
            (Some(_), _) => "pause".into(),
            (None, bytes) => format!("{} KiB", bytes >> 10),
        };
        let order = if self.shuffled {
            "any order"
        } else {
            "in order"
        };
        let trunk = self.trunk as f64 / LINK as f64;
        write!(
            f,
            "{groups} groups, trunks of {trunk:.1}, {switch}, {slow} slow, {order}"
        )
    }
}
