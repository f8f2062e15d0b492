//! Which candidates are there: those whose limits explain the rates better.
//!
//! A limit is judged by the flows that pass it. What it takes from them goes to others, and brings those
//! too much as long as further limits are missing: that does not speak against the one that was found.

use super::tree::{Tree, Trunk};
use super::{Observation, differences, quantile};

/// A limit must bring more flows closer to what was seen than it takes away, by so many standard
/// deviations of a fair coin, to be taken for real.
const ONE_SIDED: f64 = 2.5;
/// And it must bring them closer altogether by so many standard deviations of what stays unexplained: few
/// flows are enough if each of them speaks clearly.
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
        let passes = |flow| wider.is_passed(flow) || tree.trunks[index].is_passed(flow);
        let passing = passing(observations, passes);
        if gain(&with_narrower, errors, &passing) > 0.0 {
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
        let passing = passing(observations, |flow| trunk.is_passed(flow));
        if gain(&without, &errors, &passing) > 0.0 {
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
        let passing = passing(observations, |(from, to)| from == host || to == host);
        if gain(&before, &after, &passing) > 0.0 {
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
        let with = self::errors(tree, observations);
        let passing = passing(observations, |flow| candidate.trunk.is_passed(flow));
        candidate.gain = gain(errors, &with, &passing);
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

/// Which flows of all observations pass a limit.
fn passing(observations: &[Observation], passes: impl Fn((usize, usize)) -> bool) -> Vec<bool> {
    let flows = observations.iter().flat_map(|seen| &seen.flows);
    flows.map(|&flow| passes(flow)).collect()
}

/// By how much the errors of those that pass are less; nothing if that may be chance.
fn gain(before: &[f64], after: &[f64], passing: &[bool]) -> f64 {
    let errors = before.iter().zip(after).zip(passing);
    let passed = || errors.clone().filter(|(_, passes)| **passes);
    let (mut better, mut worse, mut sum) = (0.0_f64, 0.0_f64, 0.0);
    for ((before, after), _) in passed() {
        let change = before - after;
        sum += change;
        better += f64::from(u8::from(change > NOTICED));
        worse += f64::from(u8::from(change < -NOTICED));
    }
    let mut left: Vec<f64> = passed().map(|((_, after), _)| *after).collect();
    let usual = quantile(&mut left, 0.5).max(NOTICED);
    let is_one_sided = better - worse > ONE_SIDED * (better + worse).sqrt();
    let is_large = sum > SIGNIFICANT * usual * (better + worse).sqrt();
    if is_one_sided && is_large { sum } else { 0.0 }
}
