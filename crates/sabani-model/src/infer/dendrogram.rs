//! Clusters of hosts that are alike: average linkage.

use super::affinity::Seen;

/// A cluster is a candidate if those in it are more alike, by this difference of logarithms, than it and
/// what it was merged with.
const CONTRAST: f64 = 0.05;
/// Most candidates: each costs shares of all observations, several times.
const MOST: usize = 96;

struct Cluster {
    hosts: Vec<usize>,
    /// How alike the two were that it was made from.
    within: f64,
}

/// Sets of two hosts and more, each within another or apart from it, those that stand out most first.
/// All hosts together are not among them.
pub fn clusters(mut alike: Vec<Vec<Seen>>) -> Vec<Vec<usize>> {
    let mut left: Vec<Cluster> = (0..alike.len())
        .map(|host| Cluster {
            hosts: vec![host],
            within: f64::INFINITY,
        })
        .collect();
    let mut found = Vec::new();
    while left.len() > 1 {
        let (one, other, alikeness) = closest(&alike);
        for done in [left.swap_remove(other), left.swap_remove(one)] {
            found.push((done.within - alikeness, done.hosts));
        }
        let [.., second, first] = &found[..] else {
            unreachable!("two were added");
        };
        let mut hosts = [&second.1[..], &first.1[..]].concat();
        hosts.sort_unstable();
        merge(&mut alike, one, other);
        left.push(Cluster {
            hosts,
            within: alikeness,
        });
    }
    found.retain(|(contrast, hosts)| hosts.len() > 1 && *contrast > CONTRAST);
    let weight = |(contrast, hosts): &(f64, Vec<usize>)| contrast * hosts.len() as f64;
    found.sort_by(|one, other| weight(other).total_cmp(&weight(one)));
    found.truncate(MOST);
    found.into_iter().map(|(_, hosts)| hosts).collect()
}

/// The two clusters that are most alike; the first is the one with the lower number.
fn closest(alike: &[Vec<Seen>]) -> (usize, usize, f64) {
    let mut best = (0, 1, f64::NEG_INFINITY);
    for (other, row) in alike.iter().enumerate() {
        for (one, seen) in row[..other].iter().enumerate() {
            let mean = seen.mean();
            if mean > best.2 {
                best = (one, other, mean);
            }
        }
    }
    best
}

/// Takes two clusters out, the later one first, as `swap_remove` does, and adds both as the last one.
fn merge(alike: &mut Vec<Vec<Seen>>, one: usize, other: usize) {
    let mut both: Vec<Seen> = alike[one]
        .iter()
        .zip(&alike[other])
        .map(|(one, other)| one.and(*other))
        .collect();
    for gone in [other, one] {
        alike.swap_remove(gone);
        alike.iter_mut().for_each(|row| {
            row.swap_remove(gone);
        });
        both.swap_remove(gone);
    }
    for (row, seen) in alike.iter_mut().zip(&both) {
        row.push(*seen);
    }
    both.push(Seen::default());
    alike.push(both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_alike_is_together() {
        let teams = [0, 1, 0, 1, 1, 2, 2, 2];
        let seen = |one: usize, other: usize| Seen {
            sum: if teams[one] == teams[other] {
                0.0
            } else {
                -1.0
            },
            count: 1.0,
        };
        let row = |one| (0..8).map(|other| seen(one, other)).collect();
        let mut found = clusters((0..8).map(row).collect());
        found.sort();
        assert_eq!(found, [vec![0, 2], vec![1, 3, 4], vec![5, 6, 7]]);
    }
}
