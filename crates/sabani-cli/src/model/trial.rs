//! `sabani model trial`: the measurement itself is tried, on networks that are known.

use std::fmt;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use sabani::CreditPolicy;
use sabani_model::infer::adjusted_rand;
use sabani_model::measure::{Measured, Procedure, Settings};
use sabani_model::network::{Estimate, Graph};
use sabani_sim::{Cable, HostId, Network, Pause, Rng, Switch, sealed};

use super::measure::summary;
use super::simulated;
use crate::units::format_time;

/// Try the measurement on simulated networks that are drawn from seeds, and compare what it finds.
///
/// Hosts are at switches, those at a common root, with trunks that carry a half to a quarter of what
/// the hosts could send; hosts are at their switches in order or not; switches drop what their queues,
/// deep or shallow, have no room for, or pause their neighbours. Some hosts have slower links.
#[derive(Args)]
pub struct TrialArgs {
    /// Number of hosts, from 8 on.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(8..))]
    hosts: u32,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Also print what was found.
    #[arg(long)]
    verbose: bool,
}

/// Bits per second of most hosts' links.
const LINK: u64 = 100_000_000;

/// A network that is known.
struct Known {
    group_of_host: Vec<usize>,
    /// Of each host, in bits per second.
    links: Vec<u64>,
    trunk: u64,
    switch: Switch,
    shuffled: bool,
}

impl Known {
    fn draw(hosts: usize, seed: u64) -> Self {
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
        Known {
            group_of_host,
            links,
            trunk: LINK * each as u64 / part as u64,
            switch,
            shuffled,
        }
    }

    fn build(&self, seed: u64) -> Network {
        let hosts = self.links.len() as u32;
        let mut net = Network::mesh(seed, hosts, &sealed(), |config| {
            config.credit = CreditPolicy::Shares;
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
}

impl fmt::Display for Known {
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

/// Tries all seeds.
///
/// # Errors
/// If a probe does not come to its end.
pub fn run(args: &TrialArgs) -> Result<()> {
    for seed in args.seed..args.seed + args.count {
        let began = Instant::now();
        let known = Known::draw(args.hosts as usize, seed);
        let measured = measure(&known, seed)?;
        let graph = &measured.network.graph;
        let fit = graph.fit.unwrap_or_default();
        let errors = capacity_errors(&known, graph);
        let largest = errors
            .iter()
            .fold(0.0_f64, |most, error| most.max(error.abs()));
        println!(
            "seed {seed}: {known}: adjusted Rand {:.3}, {} of {} trunk capacities known, off by {:.1} % at \
             most; held back: {:.1} % ({:.1} % twice); {} patterns, {} on the network, {} here",
            adjusted_rand(&partition(graph), &known.group_of_host),
            errors.len(),
            2 * graph.groups.len(),
            100.0 * largest,
            100.0 * fit.error.exp_m1(),
            100.0 * fit.noise.exp_m1(),
            fit.patterns,
            format_time(measured.network_ns as f64 / 1e9),
            format_time(began.elapsed().as_secs_f64()),
        );
        if args.verbose {
            print!("{}", summary(&measured));
        }
    }
    Ok(())
}

fn measure(known: &Known, seed: u64) -> Result<Measured> {
    let mut net = known.build(seed);
    let host = |host: usize| format!("host{host}");
    let mut procedure = Procedure::new(Settings {
        names: (0..known.links.len()).map(host).collect(),
        one_host: false,
        transport: "sabani".into(),
        seed,
        patterns: 36,
        network_ns: 60_000_000_000,
        copy_bytes_per_s: Estimate::exact(1e10),
        reduce_bytes_per_s: Estimate::exact(1e10),
    });
    while let Some(probe) = procedure.next_probe() {
        let (seen, took_ns) = simulated::run(&mut net, &probe)?;
        procedure.take(&probe, seen, took_ns);
    }
    procedure.finish().context("the time was too short")
}

/// For each host the innermost group that it is in.
fn partition(graph: &Graph) -> Vec<usize> {
    let of_hosts = graph.groups_of_hosts().into_iter();
    of_hosts
        .map(|groups| groups.first().copied().unwrap_or(usize::MAX))
        .collect()
}

/// Errors of trunks' capacities, as parts of what they are. Headers cost hosts and trunks alike, so both
/// are compared with what most hosts do.
fn capacity_errors(known: &Known, graph: &Graph) -> Vec<f64> {
    let hosts = graph.hosts.iter();
    let mut speeds: Vec<f64> = hosts
        .filter_map(|host| Some(host.out.bytes_per_s?.value))
        .collect();
    speeds.sort_by(f64::total_cmp);
    let expected = speeds[speeds.len() / 2] * known.trunk as f64 / LINK as f64;
    let trunks = graph
        .groups
        .iter()
        .flat_map(|group| [&group.out, &group.into]);
    let known = trunks.filter_map(|trunk| Some(trunk.bytes_per_s?.value));
    known.map(|value| value / expected - 1.0).collect()
}
