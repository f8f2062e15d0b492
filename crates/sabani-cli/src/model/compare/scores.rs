//! How good predictions and choices are.

use std::collections::BTreeMap;

use sabani_collective::Choice;
use sabani_model::price::Model;

use super::cell::{Cell, Place, Predictor, median, quantile};

/// Lengths that are judged together: from so many bytes on.
pub const CLASSES: [(&str, usize); 3] = [
    ("below 8 KiB", 0),
    ("8 to 64 KiB", 8 << 10),
    ("from 64 KiB", 64 << 10),
];

/// Long messages have so many bytes.
const LONG: usize = CLASSES[2].1;

/// The cells of a class of lengths.
pub fn of_class(cells: &[Cell], class: usize) -> impl Iterator<Item = &Cell> + Clone {
    let from = CLASSES[class].1;
    let below = CLASSES.get(class + 1).map_or(usize::MAX, |next| next.1);
    let inside = move |cell: &&Cell| (from..below).contains(&cell.place.bytes);
    cells.iter().filter(inside)
}

/// Median and 90th percentile of absolute errors, and the median of the errors as they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    pub median: f64,
    pub p90: f64,
    pub bias: f64,
}

impl Errors {
    pub fn of<'c>(cells: impl Iterator<Item = &'c Cell> + Clone, predictor: Predictor) -> Self {
        let errors = || cells.clone().map(|cell| cell.error(predictor));
        Errors {
            median: median(errors().map(f64::abs)),
            p90: quantile(errors().map(f64::abs), 0.9),
            bias: median(errors()),
        }
    }
}

/// Which share of all runs took what the interval of their prediction says.
pub fn coverage<'c>(cells: impl Iterator<Item = &'c Cell>) -> f64 {
    let counts = cells.map(|cell| (cell.within(), cell.took_ns.len()));
    let (within, all) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    within as f64 / all as f64
}

/// In which share of the cells the simulation is closer than another predictor.
pub fn closer<'c>(cells: impl Iterator<Item = &'c Cell> + Clone, than: Predictor) -> f64 {
    let error = |cell: &Cell, predictor| cell.error(predictor).abs();
    let is_closer = |cell: &&Cell| error(cell, Predictor::Simulation) <= error(cell, than);
    let all = cells.clone().count();
    cells.filter(is_closer).count() as f64 / all as f64
}

/// The cells with long messages that meet others on their way, for which PlogP-BR expects a part more than PlogP.
pub fn contended(cells: &[Cell]) -> impl Iterator<Item = &Cell> + Clone {
    const MORE: f64 = 1.05;
    let expects = |cell: &Cell, model| cell.expected_ns(Predictor::Closed(model));
    let meets =
        move |cell: &&Cell| expects(cell, Model::PLogPBr) > MORE * expects(cell, Model::PLogP);
    cells
        .iter()
        .filter(|cell| cell.place.bytes >= LONG)
        .filter(meets)
}

/// How well it was foreseen which runs meet a timeout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Foresight {
    /// The share of runs that did.
    pub happened: f64,
    /// The mean square of the difference between what was expected and what came, 0 or 1 (Brier's score): 0 is best.
    pub brier: f64,
}

impl Foresight {
    /// Nothing where nobody has counted.
    pub fn of(cells: &[Cell], expected: impl Fn(&Cell) -> f64) -> Option<Self> {
        let (mut runs, mut happened, mut squares) = (0.0, 0.0, 0.0);
        for cell in cells {
            let (all, with) = (cell.timeouts.len() as f64, cell.with_timeout() as f64);
            let share = expected(cell);
            runs += all;
            happened += with;
            squares += with * (1.0 - share).powi(2) + (all - with) * share.powi(2);
        }
        (happened > 0.0).then(|| Foresight {
            happened: happened / runs,
            brier: squares / runs,
        })
    }

    /// The score of somebody who knows the share of all runs, and nothing of each.
    pub fn brier_of_share(self) -> f64 {
        self.happened * (1.0 - self.happened)
    }

    /// The part of that score that is spared: 1 is best, 0 is no better than that, and less is worse. Nothing where all runs are alike.
    pub fn skill(self) -> Option<f64> {
        let of_share = self.brier_of_share();
        (of_share > 0.0).then(|| 1.0 - self.brier / of_share)
    }
}

/// What decides on an algorithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decider {
    /// What happened: the best of all.
    Best,
    /// The prediction, as a table has it for lengths that are powers of 4; the rule, where it is not believed.
    Model,
    /// The documented rule.
    Rule,
    /// Always the same.
    Always(&'static str, Choice),
}

impl Decider {
    pub fn name(self) -> &'static str {
        match self {
            Decider::Best => "the best",
            Decider::Model => "the model",
            Decider::Rule => "the rule",
            Decider::Always(name, _) => name,
        }
    }

    /// Its choice for a place, if there is one.
    fn choose<'c>(self, cells: &[&'c Cell]) -> Option<&'c Cell> {
        let mut all = cells.iter().copied();
        match self {
            Decider::Best => best_of(cells),
            Decider::Model => all.find(|cell| cell.is_decided),
            Decider::Rule => all.find(|cell| cell.is_rule),
            Decider::Always(_, choice) => all.find(|cell| cell.choice == choice),
        }
    }
}

/// One task on one network: the best algorithm, and what one decides for.
#[derive(Clone, Copy, Debug)]
pub struct Decision<'c> {
    pub place: Place,
    pub best: &'c Cell,
    pub chosen: &'c Cell,
    /// Its regret where the best one is measured again: it is the best of every other run, and both times are those of the others, in the
    /// mean of both halves. The least of many medians is less than what it takes. Not a number where one of them has one run only.
    pub again: f64,
}

impl Decision<'_> {
    /// What the choice takes more than the best one, as a part of that.
    pub fn regret(&self) -> f64 {
        self.chosen.median_ns() / self.best.median_ns() - 1.0
    }
}

/// What took the least time.
fn best_of<'c>(cells: &[&'c Cell]) -> Option<&'c Cell> {
    least(cells, Cell::median_ns)
}

fn least<'c>(cells: &[&'c Cell], time_ns: impl Fn(&Cell) -> f64) -> Option<&'c Cell> {
    let by_time = |one: &&Cell, other: &&Cell| time_ns(one).total_cmp(&time_ns(other));
    cells.iter().copied().min_by(by_time)
}

/// See [`Decision::again`].
fn regret_again(chosen: &Cell, cells: &[&Cell]) -> f64 {
    let regret = |[ranked, timed]: [usize; 2]| {
        let best = least(cells, |cell| cell.half_ns(ranked));
        best.map_or(f64::NAN, |best| {
            chosen.half_ns(timed) / best.half_ns(timed) - 1.0
        })
    };
    [[0, 1], [1, 0]].map(regret).iter().sum::<f64>() / 2.0
}

/// What one decides for at each place.
pub fn decisions(cells: &[Cell], decider: Decider) -> Vec<Decision<'_>> {
    let mut places: BTreeMap<Place, Vec<&Cell>> = BTreeMap::new();
    for cell in cells {
        places.entry(cell.place).or_default().push(cell);
    }
    places
        .into_iter()
        .filter_map(|(place, cells)| {
            let chosen = decider.choose(&cells)?;
            Some(Decision {
                place,
                best: best_of(&cells)?,
                chosen,
                again: regret_again(chosen, &cells),
            })
        })
        .collect()
}

/// That of these which is for a place, if there is one.
pub fn at<'c>(decisions: &[Decision<'c>], place: Place) -> Option<Decision<'c>> {
    let here = |decision: &&Decision| decision.place == place;
    decisions.iter().find(here).copied()
}

/// Of regrets the mean, and the worst; of those that are known.
pub fn mean_and_worst(regrets: impl Iterator<Item = f64>) -> (f64, f64) {
    let regrets: Vec<_> = regrets.filter(|regret| !regret.is_nan()).collect();
    let mean = regrets.iter().sum::<f64>() / regrets.len() as f64;
    let worst = regrets.into_iter().reduce(f64::max);
    (mean, worst.unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::super::cell::tests::cell;
    use super::*;

    #[test]
    fn regret_is_what_the_choice_takes_more_than_the_best() {
        // The model takes the chain for the fastest, which it is not.
        let cells = [
            cell("binomial", 10, 100.0, 200.0),
            cell("chain", 10, 90.0, 120.0),
            cell("split_binary", 10, 110.0, 100.0),
        ];
        let regret = |decider| decisions(&cells, decider)[0].regret();
        assert!((regret(Decider::Model) - 0.2).abs() < 1e-9);
        assert!((regret(Decider::Rule) - 1.0).abs() < 1e-9);
        assert_eq!(regret(Decider::Always("S", cells[2].choice)), 0.0);
        // No run counted of what the model chooses for another length.
        let unknown = cell("binomial", 20, 100.0, 200.0);
        let with_unknown = [&cells[..], &[unknown]].concat();
        let all = decisions(&with_unknown, Decider::Model);
        assert!(at(&all, cells[0].place).is_some());
        assert!(at(&all, Place { seed: 1, bytes: 20 }).is_none());
        let all = decisions(&cells, Decider::Model);
        assert_eq!(all[0].best.choice.algorithm.name, "split_binary");
        let regrets = mean_and_worst(all.iter().map(Decision::regret));
        assert_eq!(regrets, (all[0].regret(), all[0].regret()));
    }

    #[test]
    fn the_best_one_is_measured_again_by_the_runs_that_did_not_make_it_the_best() {
        let took = |algorithm, took_ns: &[f64]| Cell {
            took_ns: took_ns.into(),
            ..cell(algorithm, 10, 100.0, 100.0)
        };
        // Both take 100 in truth; by each half another one seems to take less.
        let cells = [
            took("chain", &[90.0, 110.0, 90.0, 110.0]),
            took("binomial", &[110.0, 90.0, 110.0, 90.0]),
        ];
        let again = decisions(&cells, Decider::Model)[0].again;
        // By the even runs the chain: 0 in the odd ones. By the odd ones the other: 90 in place of 110 in the even ones.
        assert!((again - (90.0 / 110.0 - 1.0) / 2.0).abs() < 1e-9, "{again}");
        let once = [took("chain", &[90.0]), took("binomial", &[100.0])];
        assert!(decisions(&once, Decider::Model)[0].again.is_nan());
    }

    #[test]
    fn who_foresees_timeouts_has_the_better_score() {
        let with = |timeouts: &[u64], probability| Cell {
            timeouts: timeouts.into(),
            timeout_probability: probability,
            ..cell("chain", 10, 1.0, 1.0)
        };
        let cells = [with(&[1, 0, 2, 1], 0.75), with(&[0; 4], 0.0)];
        let foresight = Foresight::of(&cells, |cell| cell.timeout_probability).unwrap();
        assert_eq!(foresight.happened, 0.375);
        // Three times a quarter off, once three quarters, four times not at all.
        assert_eq!(foresight.brier, (3.0 * 0.0625 + 0.5625) / 8.0);
        assert!(foresight.brier < foresight.brier_of_share());
        assert_eq!(foresight.skill(), Some(1.0 - 0.09375 / 0.234375));
        let always = Foresight::of(&[with(&[1, 2], 0.9)], |cell| cell.timeout_probability);
        assert_eq!(always.unwrap().skill(), None);
        assert_eq!(Foresight::of(&[with(&[0; 4], 0.5)], |_| 0.5), None);
    }

    #[test]
    fn classes_have_all_lengths_once() {
        let lengths = [0, 8191, 8192, 65_535, 65_536, usize::MAX - 1];
        let cells = lengths.map(|bytes| cell("chain", bytes, 1.0, 1.0));
        let count = |class| of_class(&cells, class).count();
        assert_eq!([0, 1, 2].map(count), [2, 2, 2]);
    }

    #[test]
    fn errors_coverage_and_comparisons_are_over_all_cells() {
        let cells = [
            cell("chain", 10, 100.0, 100.0),
            cell("chain", 10, 100.0, 200.0),
            cell("chain", 10, 300.0, 100.0),
        ];
        let all = || cells.iter();
        let errors = Errors::of(all(), Predictor::Simulation);
        assert_eq!((errors.median, errors.p90, errors.bias), (0.5, 2.0, 0.0));
        // Runs of 100; of 100; of none.
        assert!((coverage(all()) - 2.0 / 9.0).abs() < 1e-9);
        // Hockney says the same here; PlogP-BR four times as much: closer only for the second cell.
        let hockney = Predictor::Closed(sabani_model::price::Model::Hockney);
        assert_eq!(closer(all(), hockney), 1.0);
    }
}
