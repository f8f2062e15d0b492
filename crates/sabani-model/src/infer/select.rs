//! Which candidates are there: those whose limits explain the rates better.
//!
//! A limit is judged by the flows that pass it. What it takes from them goes to others, and brings those
//! too much as long as further limits are missing: that does not speak against the one that was found.

use std::collections::{HashMap, HashSet};

use super::tree::{Tree, Trunk};
use super::{Observation, log_ratios, quantile};

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

impl Candidate {
    /// Whether it may be there beside a group.
    fn fits_in_with(&self, known: &Trunk) -> bool {
        !self.trunk.overlaps(known) && !self.trunk.equals(known)
    }
}

/// Adds groups that fit in with those that are there, each time the one that explains most, as long as one explains enough.
pub fn grow(tree: &mut Tree, candidates: Vec<Vec<usize>>, observations: &[Observation]) {
    let candidate = |hosts| Candidate {
        trunk: tree.trunk_of(hosts, observations),
        gain: f64::INFINITY,
    };
    let mut candidates: Vec<_> = candidates.into_iter().map(candidate).collect();
    for known in &tree.trunks {
        candidates.retain(|other| other.fits_in_with(known));
    }
    let mut errors = errors(tree, observations);
    while let Some(best) = best(tree, &mut candidates, &errors, observations) {
        candidates.retain(|other| other.fits_in_with(&best));
        tree.trunks.push(best);
        errors = self::errors(tree, observations);
    }
    narrow(tree, observations);
    prune(tree, observations);
}

/// Tells groups with others in them more simply where that explains as much.
fn narrow(tree: &mut Tree, observations: &[Observation]) {
    for wider in tree.trunks.clone() {
        if let Some(simpler) = simpler(tree, &wider, observations) {
            *tree = simpler;
        }
    }
}

/// A group with others in it may be those and a trunk of the rest, where a set of several groups came before each of
/// them; or have none in it, where its shares are uneven.
fn simpler(tree: &Tree, wider: &Trunk, observations: &[Observation]) -> Option<Tree> {
    let inside = tree.inside(wider);
    let rest = wider.without(&inside);
    if inside.is_empty() || rest.is_empty() {
        return None;
    }
    let (mut apart, mut alone) = (tree.clone(), tree.clone());
    apart.trunks.retain(|trunk| !trunk.equals(wider));
    apart.trunks.push(tree.trunk_of(rest, observations));
    let is_inside = |trunk: &Trunk| inside.iter().any(|inner| inner.equals(trunk));
    alone.trunks.retain(|trunk| !is_inside(trunk));
    let passes = |flow| wider.is_passed(flow) || inside.iter().any(|inner| inner.is_passed(flow));
    let explains = |better: &Tree, worse: &Tree, around: &[Trunk]| {
        let [before, after] = [worse, better].map(|tree| errors(tree, observations));
        gain(&before, &after, &voices(around, observations, passes)) > 0.0
    };
    if explains(tree, &apart, &[]) {
        None
    } else if explains(&apart, &alone, &tree.around(&inside[0])) {
        Some(apart)
    } else {
        Some(alone)
    }
}

/// Takes out what explains nothing any more: a set of several groups may have come before those. A group within
/// another one has to explain what stays there, for what leaves may be slow by uneven shares of the outer trunk.
fn prune(tree: &mut Tree, observations: &[Observation]) {
    let mut errors = self::errors(tree, observations);
    let mut index = 0;
    while index < tree.trunks.len() {
        let trunk = tree.trunks.remove(index);
        let without = self::errors(tree, observations);
        let around = tree.around(&trunk);
        let stays = |flow| !around.iter().any(|outer| outer.is_passed(flow));
        let passes = |flow| trunk.is_passed(flow) && stays(flow);
        let voices = voices(&around, observations, passes).into_iter();
        let voices: Vec<_> = voices.map(Voice::by_itself).collect();
        if gain(&without, &errors, &voices) > 0.0 {
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
        let passes = |(from, to)| from == host || to == host;
        if gain(&before, &after, &voices(&[], observations, passes)) > 0.0 {
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
        let voices = voices(&[], observations, |flow| candidate.trunk.is_passed(flow));
        candidate.gain = gain(errors, &with, &voices);
        tree.trunks.pop();
        if candidate.gain > best.map_or(0.0, |(gain, _)| gain) {
            best = Some((candidate.gain, index));
        }
    }
    best.map(|(_, index)| candidates[index].trunk.clone())
}

/// Of all flows of all observations: by how much each was faster than expected, as a difference of logarithms.
pub fn errors(tree: &Tree, observations: &[Observation]) -> Vec<f64> {
    let of = |seen: &Observation| log_ratios(&seen.rates, &tree.rates(&seen.flows));
    observations.iter().flat_map(of).collect()
}

/// What a flow says for a limit or against it.
#[derive(Clone, Copy)]
enum Voice {
    /// Nothing.
    Silent,
    /// What its error says.
    Loud,
    /// By how much its error differs from those of the same number.
    Beside(usize),
}

impl Voice {
    /// The same without comparisons.
    fn by_itself(self) -> Self {
        match self {
            Voice::Beside(_) => Voice::Silent,
            other => other,
        }
    }
}

/// What all flows of all observations say of limits: those that pass, loudly. Full queues and paused links hold up all that
/// a host sends: what it sends within the trunks around, as long as it sends something out of them, is slow with and
/// without a further limit, and says only which of those flows are slower than others.
fn voices(
    around: &[Trunk],
    observations: &[Observation],
    passes: impl Fn((usize, usize)) -> bool,
) -> Vec<Voice> {
    let leaves = |flow| around.iter().any(|outer| outer.is_passed(flow));
    let mut senders = 0;
    let mut of = |seen: &Observation| {
        let leaving = seen.flows.iter().filter(|flow| leaves(**flow));
        let held_up: HashSet<usize> = leaving.map(|(from, _)| *from).collect();
        let first = senders;
        senders += 1 + seen.flows.iter().map(|(from, _)| *from).max().unwrap_or(0);
        let voice = |&flow: &(usize, usize)| match flow {
            (from, _) if held_up.contains(&from) && !leaves(flow) => Voice::Beside(first + from),
            _ if passes(flow) => Voice::Loud,
            _ => Voice::Silent,
        };
        seen.flows.iter().map(voice).collect::<Vec<_>>()
    };
    observations.iter().flat_map(&mut of).collect()
}

/// How large the errors are of those that say something.
fn sizes(errors: &[f64], voices: &[Voice]) -> Vec<f64> {
    let mut beside: HashMap<usize, (f64, f64)> = HashMap::new();
    for (error, voice) in errors.iter().zip(voices) {
        if let Voice::Beside(number) = voice {
            let (sum, count) = beside.entry(*number).or_default();
            *sum += error;
            *count += 1.0;
        }
    }
    let size = |(error, voice): (&f64, &Voice)| match voice {
        Voice::Silent => None,
        Voice::Loud => Some(error.abs()),
        Voice::Beside(number) => {
            let (sum, count) = beside[number];
            Some((error - sum / count).abs())
        }
    };
    errors.iter().zip(voices).filter_map(size).collect()
}

/// By how much the errors are less; nothing if that may be chance.
fn gain(before: &[f64], after: &[f64], voices: &[Voice]) -> f64 {
    let (before, mut after) = (sizes(before, voices), sizes(after, voices));
    let (mut better, mut worse, mut sum) = (0.0_f64, 0.0_f64, 0.0);
    for (before, after) in before.iter().zip(&after) {
        let change = before - after;
        sum += change;
        better += f64::from(u8::from(change > NOTICED));
        worse += f64::from(u8::from(change < -NOTICED));
    }
    let usual = quantile(&mut after, 0.5).max(NOTICED);
    let is_one_sided = better - worse > ONE_SIDED * (better + worse).sqrt();
    let is_large = sum > SIGNIFICANT * usual * (better + worse).sqrt();
    if is_one_sided && is_large { sum } else { 0.0 }
}
