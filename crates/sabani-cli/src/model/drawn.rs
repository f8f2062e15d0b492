//! Networks that are drawn from seeds, simulated, and measured in virtual time.

use std::fmt;

use anyhow::{Context, Result};
use clap::ValueEnum;
use sabani::{CreditPolicy, GrantOrder};
use sabani_model::measure::{Measured, Procedure, Repairs, Settings};
use sabani_model::network::Estimate;
use sabani_sim::{
    Cable, Cost, Delay, Host, HostId, MS, Network, Pause, Rate, Rng, SEC, Switch, sealed,
};

use super::simulated;

/// The rate of most hosts' links, unless something else is asked for.
pub const DEFAULT_LINK: &str = "100mbit";

/// Reads the rate of most hosts' links.
///
/// # Errors
/// If it is none, or none that takes a sensible time to simulate.
pub fn parse_link(text: &str) -> Result<Rate, String> {
    let rate: Rate = text.parse()?;
    match rate.0 {
        1_000_000..=100_000_000_000 => Ok(rate),
        _ => Err("from 1mbit to 100gbit".to_owned()),
    }
}

/// What sort of network is drawn. All but the first are only reported on: nothing was developed with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Hosts at switches, those at a common root.
    #[default]
    Tree,
    /// Several roots, between which switches choose for each pair of hosts by hashing (ECMP).
    Multipath,
    /// A tree of switches whose ports share a small buffer, by dynamic thresholds.
    SharedBuffer,
    /// A tree of hosts whose processors have as much to do as their links, or more.
    BusyHosts,
    /// A tree on which others' TCP connections come and go.
    Background,
    /// A tree of hosts that send to their peers in turn, as Linux does with fq_codel or fq.
    FairHosts,
}

/// What a network is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// To be measured.
    Measures,
    /// To run collectives.
    Runs,
}

impl Job {
    fn credit(self) -> CreditPolicy {
        match self {
            Job::Measures => CreditPolicy::Shares,
            Job::Runs => CreditPolicy::Paced(GrantOrder::default()),
        }
    }
}

/// A network that was drawn from a seed: hosts at switches, those at one root or several.
pub struct Drawn {
    kind: Kind,
    /// Bits per second of most hosts' links.
    pub link: u64,
    /// For each host its switch.
    pub group_of_host: Vec<usize>,
    /// Of each host, in bits per second.
    links: Vec<u64>,
    /// From each switch to all roots together, in bits per second.
    pub trunk: u64,
    roots: usize,
    /// By which switches choose among several roots.
    hash: u64,
    switch: Switch,
    shuffled: bool,
    /// What hosts' processors have to do for each datagram, read or sent, and how late they are.
    packet_ns: u64,
    wake: Option<Delay>,
    /// Who sends to whom by TCP, now and then.
    others: Vec<(HostId, HostId)>,
}

/// Most time on a network with links of 100 Mbit/s or more; on slower ones all takes as much longer.
const MOST_NS: u64 = 60 * SEC;
const MOST_NS_FROM: u64 = 100_000_000;

/// Others' connections last so long in the mean, and there are so long none.
const COME_AND_GO_NS: u64 = 50 * MS;

impl Drawn {
    /// Draws one.
    pub fn new(kind: Kind, hosts: usize, link: Rate, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut drawn = Drawn::tree(hosts, link.0, &mut rng);
        drawn.kind = kind;
        match kind {
            Kind::Tree | Kind::FairHosts => {}
            Kind::Multipath => drawn.add_roots(&mut rng),
            Kind::SharedBuffer => drawn.share_buffers(&mut rng),
            Kind::BusyHosts => drawn.occupy_hosts(&mut rng),
            Kind::Background => drawn.add_others(&mut rng),
        }
        drawn
    }

    fn tree(hosts: usize, link: u64, rng: &mut Rng) -> Self {
        let each = choose(rng, &[hosts / 2, hosts / 4, hosts / 8, 4]).max(2);
        let part = choose(rng, &[2, 3, 4]);
        let switch = match choose(rng, &[0, 1, 2]) {
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
        let slow = choose(rng, &[0, 0, 1, 3]);
        let shuffled = choose(rng, &[false, true]);
        let mut group_of_host: Vec<usize> = (0..hosts).map(|host| host / each).collect();
        if shuffled {
            for at in (1..hosts).rev() {
                group_of_host.swap(at, rng.below(at as u64 + 1) as usize);
            }
        }
        let mut links = vec![link; hosts];
        for _ in 0..slow {
            links[rng.below(hosts as u64) as usize] = link / 2;
        }
        Drawn {
            kind: Kind::Tree,
            link,
            group_of_host,
            links,
            trunk: link * each as u64 / part,
            roots: 1,
            hash: 0,
            switch,
            shuffled,
            packet_ns: 0,
            wake: None,
            others: Vec::new(),
        }
    }

    /// In place of the one root: together they carry all that hosts send, or half of it.
    fn add_roots(&mut self, rng: &mut Rng) {
        let each = self
            .group_of_host
            .iter()
            .filter(|group| **group == 0)
            .count();
        self.roots = choose(rng, &[2, 4]);
        self.trunk = self.link * each as u64 / choose(rng, &[1, 2]);
        self.hash = rng.next_u64();
    }

    fn share_buffers(&mut self, rng: &mut Rng) {
        self.switch = Switch {
            buffer_bytes: choose(rng, &[128, 256, 1024]) << 10,
            alpha: choose(rng, &[0.5, 1.0, 2.0]),
            ..Switch::default()
        };
    }

    /// At seven tenths hosts can send or receive as fast as their links, but not both at the same time.
    fn occupy_hosts(&mut self, rng: &mut Rng) {
        self.packet_ns = self.full_packet_ns() * choose(rng, &[7, 10, 14]) / 10;
        let late = choose(
            rng,
            &["10us + ~20us", "20us + ~100us", "20us + ~50us + 1% ~2ms"],
        );
        self.wake = Some(late.parse().expect("these are delays"));
    }

    fn add_others(&mut self, rng: &mut Rng) {
        let hosts = self.links.len() as u64;
        for _ in 0..choose(rng, &[hosts / 8, hosts / 4, hosts / 2]) {
            let from = rng.below(hosts);
            let to = (from + 1 + rng.below(hosts - 1)) % hosts;
            self.others.push((HostId(from as u32), HostId(to as u32)));
        }
    }

    /// Time that a full packet takes on most hosts' links.
    fn full_packet_ns(&self) -> u64 {
        const FULL_BITS: u64 = 12_300;
        FULL_BITS * SEC / self.link
    }

    fn groups(&self) -> usize {
        self.group_of_host.iter().max().map_or(0, |last| last + 1)
    }

    /// Builds it, with a node on each host, for a job: each job has other ports, by which switches hash.
    pub fn build(&self, seed: u64, job: Job) -> Network {
        let hosts = self.links.len() as u32;
        let mut net = Network::mesh(seed, hosts, &sealed(), |config| {
            config.credit = job.credit();
        });
        self.lay_cables(&mut net, job);
        for host in net.host_ids() {
            self.occupy(net.host(host));
            if let Some(cable) = net.nic(host) {
                net.port(cable).take_turns(self.kind == Kind::FairHosts);
            }
        }
        for &(from, to) in &self.others {
            come_and_go(&mut net, from, to);
        }
        net
    }

    fn lay_cables(&self, net: &mut Network, job: Job) {
        let roots: Vec<_> = (0..self.roots)
            .map(|_| net.add_switch(self.switch.clone()))
            .collect();
        let mut hashes = Rng::new(self.hash ^ job as u64);
        let leaf = |_| {
            net.add_switch(Switch {
                hash: Some(hashes.next_u64()),
                ..self.switch.clone()
            })
        };
        let leaves: Vec<_> = (0..self.groups()).map(leaf).collect();
        let cable = |bits_per_second| Cable {
            bits_per_second,
            ..Cable::default()
        };
        let trunk = cable(self.trunk / self.roots as u64);
        for leaf in &leaves {
            for root in &roots {
                net.connect(*leaf, *root, &trunk);
            }
        }
        for (host, (&group, &link)) in self.group_of_host.iter().zip(&self.links).enumerate() {
            net.connect(HostId(host as u32), leaves[group], &cable(link));
        }
    }

    fn occupy(&self, host: &mut Host) {
        if let Some(wake) = &self.wake {
            host.wake = wake.clone();
            let cost = Cost {
                packet_ns: self.packet_ns,
                ..Cost::default()
            };
            (host.reading, host.sending) = (cost, cost);
        }
    }

    /// Measures it, as a job's ranks would.
    ///
    /// # Errors
    /// If a probe does not come to its end.
    pub fn measure(&self, seed: u64) -> Result<Measured> {
        let mut net = self.build(seed, Job::Measures);
        let host = |host: usize| format!("host{host}");
        let mut procedure = Procedure::new(Settings {
            names: (0..self.links.len()).map(host).collect(),
            one_host: false,
            transport: "sabani".into(),
            repairs: Repairs::Sabani,
            seed,
            patterns: 36,
            network_ns: (MOST_NS * MOST_NS_FROM / self.link).max(MOST_NS),
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

/// One of these.
fn choose<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.below(choices.len() as u64) as usize]
}

/// A connection from now on, and another one some time after its end, and so on.
fn come_and_go(net: &mut Network, from: HostId, to: HostId) {
    let mut draw_ns = || (net.rng().exponential() * COME_AND_GO_NS as f64) as u64;
    let (lasts_ns, rests_ns) = (draw_ns(), draw_ns());
    let now_ns = net.now_ns();
    net.add_tcp(from, to, now_ns, now_ns + lasts_ns);
    net.at(now_ns + lasts_ns + rests_ns, move |net| {
        come_and_go(net, from, to)
    });
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = self.groups();
        let slow = self.links.iter().filter(|link| **link < self.link).count();
        let order = if self.shuffled {
            "any order"
        } else {
            "in order"
        };
        let trunk = self.trunk as f64 / self.link as f64;
        write!(f, "{groups} groups, trunks of {trunk:.1}")?;
        if self.roots > 1 {
            write!(f, " over {} roots", self.roots)?;
        }
        match (self.switch.pause, self.switch.queue_bytes) {
            (Some(_), _) => write!(f, ", pause")?,
            (None, u64::MAX) => {
                let (buffer, alpha) = (self.switch.buffer_bytes >> 10, self.switch.alpha);
                write!(f, ", {buffer} KiB for all ports, alpha {alpha}")?;
            }
            (None, bytes) => write!(f, ", {} KiB", bytes >> 10)?,
        }
        write!(f, ", {slow} slow, {order}")?;
        if let Some(wake) = &self.wake {
            let busy = self.packet_ns as f64 / self.full_packet_ns() as f64;
            write!(
                f,
                ", processors busy for {busy:.1} of a packet, {wake} late"
            )?;
        }
        if self.kind == Kind::FairHosts {
            write!(f, ", peers in turn")?;
        }
        match self.others.len() {
            0 => Ok(()),
            others => write!(f, ", {others} of others"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sort_of_network_is_a_tree_with_something_else() {
        let link = parse_link(DEFAULT_LINK).expect("it is a rate");
        for seed in 0..20 {
            let tree = Drawn::new(Kind::Tree, 8, link, seed);
            for &kind in Kind::value_variants() {
                let drawn = Drawn::new(kind, 8, link, seed);
                assert_eq!(drawn.group_of_host, tree.group_of_host);
                assert_eq!(drawn.links, tree.links);
                let same_words = drawn.to_string() == tree.to_string();
                assert_eq!(same_words, kind == Kind::Tree, "{drawn}");
                let sent = bytes_of_others(&drawn, seed);
                assert_eq!(sent > 0, kind == Kind::Background, "{drawn}: {sent}");
            }
        }
    }

    #[test]
    fn links_as_slow_as_may_be_asked_for_can_be_measured() {
        let link = parse_link("1mbit").expect("it is a rate");
        let measured = Drawn::new(Kind::Tree, 8, link, 1).measure(1).unwrap();
        let graph = &measured.network.graph;
        let known = graph.hosts.iter().filter_map(|host| host.into.bytes_per_s);
        let speeds: Vec<_> = known.map(|speed| speed.value).collect();
        assert_eq!(speeds.len(), 8);
        assert!(
            speeds.iter().all(|speed| (100e3..125e3).contains(speed)),
            "{speeds:?}"
        );
        assert!(graph.fit.is_some(), "it was checked");
    }

    /// What waits at hosts' ports while no node has anything to send.
    fn bytes_of_others(drawn: &Drawn, seed: u64) -> u64 {
        let mut net = drawn.build(seed, Job::Runs);
        net.run_for(100 * MS);
        let hosts: Vec<_> = net.host_ids().collect();
        let nics: Vec<_> = hosts.iter().filter_map(|host| net.nic(*host)).collect();
        nics.into_iter().map(|nic| net.port(nic).queued_max()).sum()
    }
}
