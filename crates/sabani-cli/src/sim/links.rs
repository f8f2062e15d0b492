//! What the links of a plan carry between hosts.

use sabani_sim::plan::{Hosts, Shape};
use sabani_sim::{HostId, Plan, Rate};

/// How much faster than between its halves a dumbbell's cables are.
const FASTER: f64 = 10.0;

/// Bits per second of the links that those who send to others can fill at the same time; infinite if nothing limits
/// them. In a dumbbell there is one link for each direction between the halves, and cables within them.
pub fn bits_per_second(plan: &Plan, from: &Hosts, to: &Hosts) -> f64 {
    let network = carried(plan.network.rate);
    // What is said of the way between two hosts, if something is.
    let own = |(from, to)| {
        let mut ways = plan.ways(HostId(from), HostId(to));
        ways.find_map(|way| way.rate).map(carried)
    };
    let pairs = from.paired_with(to, plan.hosts);
    let cable = match plan.network.shape {
        Shape::Mesh => return pairs.map(|pair| own(pair).unwrap_or(network)).sum(),
        Shape::Star => network,
        Shape::Dumbbell => FASTER * network,
    };
    // Those of one half, or both, to those of the same, or the other.
    let mut parts = [(); 4].map(|()| Part::new(plan.hosts));
    let half = |host| match plan.network.shape {
        Shape::Dumbbell => usize::from(host >= plan.hosts.div_ceil(2)),
        Shape::Star | Shape::Mesh => 0,
    };
    for (from, to) in pairs {
        let way = own((from, to)).unwrap_or(f64::INFINITY);
        parts[2 * half(from) + half(to)].add((from, to), way);
    }
    let [left, rightwards, leftwards, right] = parts.map(|part| part.carries(cable));
    left + right + rightwards.min(network) + leftwards.min(network)
}

/// Bits per second; infinite if it is unlimited.
pub fn carried(rate: Rate) -> f64 {
    match rate.0 {
        0 => f64::INFINITY,
        bits => bits as f64,
    }
}

/// What each of some hosts could send to others, and each of those receive, if their cables were unlimited.
struct Part {
    sent: Vec<f64>,
    received: Vec<f64>,
}

impl Part {
    fn new(hosts: u32) -> Self {
        let none = vec![0.0; hosts as usize];
        Part {
            sent: none.clone(),
            received: none,
        }
    }

    fn add(&mut self, (from, to): (u32, u32), way: f64) {
        self.sent[from as usize] += way;
        self.received[to as usize] += way;
    }

    /// What they carry with a cable for each host.
    fn carries(&self, cable: f64) -> f64 {
        let [sent, received] = [&self.sent, &self.received].map(|all| {
            let carried = all.iter().map(|way| way.min(cable));
            carried.sum::<f64>()
        });
        sent.min(received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: f64 = 1e6;

    fn carried_mbit(shape: &str, paths: &str, from: &str, to: &str) -> f64 {
        let text = format!(
            "hosts = 5\n[network]\nshape = \"{shape}\"\nrate = \"1gbit\"\n[[traffic]]\n{paths}"
        );
        let plan = Plan::from_toml(&text).unwrap();
        let hosts = |text: &str| text.parse::<Hosts>().unwrap();
        bits_per_second(&plan, &hosts(from), &hosts(to)) / MBIT
    }

    #[test]
    fn the_halves_of_a_dumbbell_have_faster_links_than_are_between_them() {
        for (from, to, links) in [
            ("0", "4", 1.0),
            ("0-2", "3-4", 1.0),
            ("0", "1", 10.0),
            ("all", "0", 11.0),
            ("all", "all", 52.0),
        ] {
            let carried = carried_mbit("dumbbell", "", from, to);
            assert_eq!(carried, 1_000.0 * links, "{from} {to}");
        }
    }

    #[test]
    fn hosts_of_a_star_have_a_cable_each_and_those_of_a_mesh_one_for_each_other() {
        for (from, to, star, mesh) in [("1-4", "0", 1.0, 4.0), ("all", "all", 5.0, 20.0)] {
            assert_eq!(carried_mbit("star", "", from, to), 1_000.0 * star);
            assert_eq!(carried_mbit("mesh", "", from, to), 1_000.0 * mesh);
        }
    }

    #[test]
    fn paths_with_a_rate_of_their_own_carry_that() {
        let slow = "[[path]]\nfrom = 1\nto = 0\nrate = \"100mbit\"\n";
        for (shape, from, to, mbit) in [
            ("star", "1", "0", 100.0),
            ("mesh", "1", "0", 100.0),
            ("dumbbell", "1", "0", 100.0),
            ("star", "0", "1", 1_000.0),
            // The others fill the receiver's cable.
            ("star", "1-2", "0", 1_000.0),
            ("mesh", "1-2", "0", 1_100.0),
            ("star", "1", "0-1", 100.0),
            ("star", "1", "0-2", 1_000.0),
            ("dumbbell", "all", "0", 11_000.0),
        ] {
            assert_eq!(
                carried_mbit(shape, slow, from, to),
                mbit,
                "{shape} {from} {to}"
            );
        }
        let all = "[[path]]\nrate = \"100mbit\"\n";
        assert_eq!(carried_mbit("star", all, "1-4", "0"), 400.0);
        let unlimited = "[[path]]\nrate = \"unlimited\"\n";
        assert_eq!(carried_mbit("mesh", unlimited, "1", "0"), f64::INFINITY);
        assert_eq!(carried_mbit("star", unlimited, "1", "0"), 1_000.0);
    }
}
