//! From rates of simultaneous traffic to the graph of resources that explains them.
//!
//! What is seen are flows that all lasted equally long, and what each of them moved. A resource is never
//! loaded beyond its capacity, so the largest load seen is a lower bound of it, and is the capacity if
//! flows through it were slower than everything else allows. That needs no model of how flows share.
//! Which hosts are behind a common trunk is found in three steps: flows that were faster than others of
//! the same hosts make pairs of hosts alike (`affinity`), clusters of such hosts are candidates
//! (`dendrogram`), and a candidate becomes a group if max-min shares with its trunk come closer to the
//! rates of significantly more flows than without (`select`).

mod affinity;
mod compare;
mod dendrogram;
mod select;
mod tree;

use crate::network::{Fit, Graph, Group};
use tree::Tree;

pub use compare::adjusted_rand;

/// Flows that were there at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// From which host to which one; no flow from a host to itself.
    pub flows: Vec<(usize, usize)>,
    /// What each moved, in bytes of payload per second.
    pub rates: Vec<f64>,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Inferred {
    tree: Tree,
}

/// What is left unexplained is clearly less if it is less than this part.
const CLEARLY: f64 = 0.8;

/// Finds the graph that explains the observations; hosts are numbered from 0 to `hosts` - 1. `hints` are
/// sets of hosts that may well be groups, such as neighbours in the order of ranks.
///
/// # Panics
/// If a flow ends at a host that is not there. One that moved nothing says nothing of its hosts.
pub fn infer(hosts: usize, observations: &[Observation], hints: &[Vec<usize>]) -> Inferred {
    let apart = Tree::of_hosts(hosts, observations);
    let clusters = dendrogram::clusters(affinity::matrix(hosts, &apart, observations));
    // Where all trunks are full, any set of hosts explains that flows are slow, and may come before those that were seen;
    // where groups lie in groups, a hint may come closer than what was seen.
    let together = [clusters.clone(), hints.to_vec()].concat();
    let ways = [vec![together], vec![clusters, hints.to_vec()]];
    let [together, in_turn] = ways.map(|steps| tree_of(apart.clone(), steps, observations));
    let unexplained = |tree: &Tree| -> f64 {
        let errors = select::errors(tree, observations);
        errors.iter().map(|error| error.abs()).sum()
    };
    let is_better = unexplained(&in_turn) < CLEARLY * unexplained(&together);
    Inferred {
        tree: if is_better { in_turn } else { together },
    }
}

/// What comes of candidates that are added in so many steps.
fn tree_of(mut tree: Tree, steps: Vec<Vec<Vec<usize>>>, observations: &[Observation]) -> Tree {
    for candidates in steps {
        select::grow(&mut tree, candidates, observations);
    }
    select::limit_sums(&mut tree, observations);
    tree.settle(observations);
    tree.forget_what_the_other_ends_limit(observations);
    tree
}

impl Inferred {
    /// The hosts of each group, those of groups inside included.
    pub fn groups(&self) -> impl Iterator<Item = &[usize]> {
        self.tree.trunks.iter().map(|trunk| &trunk.hosts[..])
    }

    /// What the graph expects flows to move that are there at the same time, in bytes per second.
    pub fn predict(&self, flows: &[(usize, usize)]) -> Vec<f64> {
        self.tree.rates(flows)
    }

    /// Compares with what the graph was not made from; `again` are second measurements of the same. How
    /// many patterns there were is the caller's to say.
    pub fn check(&self, held_out: &[Observation], again: &[Observation]) -> Fit {
        let predicted = held_out.iter().map(|seen| self.predict(&seen.flows));
        let errors = held_out
            .iter()
            .zip(predicted)
            .flat_map(|(seen, rates)| differences(&seen.rates, &rates));
        let noise = held_out
            .iter()
            .zip(again)
            .flat_map(|(one, other)| differences(&one.rates, &other.rates));
        let (mut errors, mut noise): (Vec<_>, Vec<_>) = (errors.collect(), noise.collect());
        Fit {
            patterns: 0,
            error: quantile(&mut errors, 0.5),
            error_p90: quantile(&mut errors, 0.9),
            noise: quantile(&mut noise, 0.5),
        }
    }

    /// As it is kept in a file.
    pub fn graph(&self, names: &[String], observations: &[Observation]) -> Graph {
        let mut graph = self.tree.hosts(names, observations);
        let order = self.tree.outermost_first();
        for (index, &trunk) in order.iter().enumerate() {
            let trunk = &self.tree.trunks[trunk];
            let inside = |other: &usize| {
                let outer = &self.tree.trunks[order[*other]].hosts;
                trunk.hosts.iter().all(|host| outer.contains(host))
            };
            let parent = (0..index).rev().find(inside);
            for &host in &trunk.hosts {
                graph.groups.iter_mut().for_each(|group: &mut Group| {
                    group.hosts.retain(|&other| other != host);
                });
            }
            let mut group = Group::new(format!("group{index}"), trunk.hosts.clone());
            group.parent = parent;
            (group.out, group.into) = self.tree.trunk(trunk, observations);
            graph.groups.push(group);
        }
        graph
    }
}

/// Differences of logarithms, without their signs; what moved nothing differs by as much as is counted at all.
fn differences(seen: &[f64], expected: &[f64]) -> Vec<f64> {
    let mut ratios = log_ratios(seen, expected);
    ratios.iter_mut().for_each(|ratio| *ratio = ratio.abs());
    ratios
}

fn log_ratios(seen: &[f64], expected: &[f64]) -> Vec<f64> {
    let both = seen.iter().zip(expected);
    both.map(|(&seen, &expected)| log_ratio(seen, expected))
        .collect()
}

/// Beyond a factor of this, further differences say nothing more: e^2.
const MOST_DIFFERENT: f64 = 2.0;

fn log_ratio(seen: f64, expected: f64) -> f64 {
    let ratio = (seen.max(f64::MIN_POSITIVE) / expected.max(f64::MIN_POSITIVE)).ln();
    ratio.clamp(-MOST_DIFFERENT, MOST_DIFFERENT)
}

/// A quantile of values; zero if there are none.
fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1) as f64;
    let at = (last * share).round() as usize;
    values.get(at).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests;
