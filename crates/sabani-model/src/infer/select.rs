//! Which candidates are there: those whose limits explain the rates better.

use super::tree::{Tree, Trunk};
use super::{Observation, differences};

/// A limit must bring more flows closer to what was seen than it takes away, by so many standard
/// deviations of a fair coin, to be taken for real.
const SIGNIFICANT: f64 = 3.0;
/// A change of a flow's error that is less than this, as a difference of logarithms, counts for nothing:
/// capacities are not known better.
const NOTICED: f64 = 0.1;

/// A set of hosts that may be behind a trunk.
struct Candidate {
    trunk: Trunk,
    /// How much it explained when it was last tried.
    gain: f64,
}

/// Adds groups, each time the one that explains most, as long as one explains enough.
pub fn grow(tree: &mut Tree, candidates: Vec<Vec<usize>>, observations: &[Observation]) {
    let candidate = |hosts| Candidate {
        trunk: tree.trunk_of(hosts, observations),
        gain: f64::INFINITY,
    };
    let mut candidates: Vec<_> = candidates.into_iter().map(candidate).collect();
    let mut errors = errors(tree, observations);
    while let Some(best) = best(tree, &mut candidates, &errors, observations) {
        candidates.retain(|other| !other.trunk.overlaps(&best) && !other.trunk.equals(&best));
        tree.trunks.push(best);
        errors = self::errors(tree, observations);
    }
    narrow(tree, &mut errors, observations);
    prune(tree, errors, observations);
}

/// A group together with one that was found later says of the rest of its hosts what a trunk of their
/// own says more simply.
fn narrow(tree: &mut Tree, errors: &mut Vec<f64>, observations: &[Observation]) {
    for index in 0..tree.trunks.len() {
        let Some(rest) = tree.rest_of(index) else {
            continue;
        };
        let narrower = tree.trunk_of(rest, observations);
        let wider = std::mem::replace(&mut tree.trunks[index], narrower);
        let with_narrower = self::errors(tree, observations);
        if gain(&with_narrower, errors) > 0.0 {
            tree.trunks[index] = wider;
        } else {
            *errors = with_narrower;
        }
    }
}

/// Takes out what explains nothing any more: a set of several groups may have come before those.
fn prune(tree: &mut Tree, mut errors: Vec<f64>, observations: &[Observation]) {
    let mut index = 0;
    while index < tree.trunks.len() {
        let trunk = tree.trunks.remove(index);
        let without = self::errors(tree, observations);
        if gain(&without, &errors) > 0.0 {
            tree.trunks.insert(index, trunk);
            index += 1;
        } else {
            errors = without;
        }
    }
}

/// Limits what hosts send and receive together where that explains enough.
pub fn limit_sums(tree: &mut Tree, observations: &[Observation]) {
    let mut before = errors(tree, observations);
    for (host, sum) in tree.possible_sums(observations) {
        tree.set_sum(host, sum);
        let after = errors(tree, observations);
        if gain(&before, &after) > 0.0 {
            before = after;
        } else {
            tree.set_sum(host, f64::INFINITY);
        }
    }
}

/// The candidate that explains most of what is left. What one explained earlier is taken for the most
/// that it can explain now, so that few have to be tried.
fn best(
    tree: &mut Tree,
    candidates: &mut [Candidate],
    errors: &[f64],
    observations: &[Observation],
) -> Option<Trunk> {
    candidates.sort_by(|one, other| other.gain.total_cmp(&one.gain));
    let mut best: Option<(f64, usize)> = None;
    for (index, candidate) in candidates.iter_mut().enumerate() {
        if best.is_some_and(|(gain, _)| gain >= candidate.gain) {
            break;
        }
        tree.trunks.push(candidate.trunk.clone());
        candidate.gain = gain(errors, &self::errors(tree, observations));
        tree.trunks.pop();
        if candidate.gain > best.map_or(0.0, |(gain, _)| gain) {
            best = Some((candidate.gain, index));
        }
    }
    best.map(|(_, index)| candidates[index].trunk.clone())
}

/// Of all flows of all observations.
fn errors(tree: &Tree, observations: &[Observation]) -> Vec<f64> {
    let of = |seen: &Observation| differences(&seen.rates, &tree.rates(&seen.flows));
    observations.iter().flat_map(of).collect()
}

/// By how much the errors are less; nothing if that may be chance.
fn gain(before: &[f64], after: &[f64]) -> f64 {
    let changes = before
        .iter()
        .zip(after)
        .map(|(before, after)| before - after);
    let (mut better, mut worse, mut sum) = (0.0_f64, 0.0_f64, 0.0);
    for change in changes {
        sum += change;
        better += f64::from(u8::from(change > NOTICED));
        worse += f64::from(u8::from(change < -NOTICED));
    }
    let significant = better - worse > SIGNIFICANT * (better + worse).sqrt();
    if significant { sum.max(0.0) } else { 0.0 }
}
