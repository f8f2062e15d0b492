//! One way to do a task: what was predicted, and what happened.

use sabani_collective::Choice;
use sabani_model::Estimate;
use sabani_model::price::Model;

/// Where something is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The network's seed.
    pub seed: u64,
    pub bytes: usize,
}

/// An algorithm for a task.
#[derive(Clone, Debug)]
pub struct Cell {
    pub place: Place,
    pub choice: Choice,
    /// Whether the documented rule chooses it.
    pub is_rule: bool,
    /// Whether the model chooses it for this length.
    pub is_decided: bool,
    /// By simulation with all that varies.
    pub predicted_ns: Estimate,
    /// In closed form, in the order of [`Model::ALL`].
    pub prices_ns: [f64; Model::ALL.len()],
    /// In which share of the runs a timeout is predicted, by simulation; and whether the paper's E_q says so.
    pub timeout_probability: f64,
    pub paper_timeout: bool,
    /// What its runs took.
    pub took_ns: Vec<f64>,
    /// The timeouts in each of them, where somebody counts them.
    pub timeouts: Vec<u64>,
}

/// A way to predict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Predictor {
    /// By simulation, with an interval.
    Simulation,
    /// In closed form.
    Closed(Model),
}

impl Predictor {
    /// All there are.
    pub fn all() -> impl Iterator<Item = Predictor> {
        let closed = Model::ALL.into_iter().rev().map(Predictor::Closed);
        [Predictor::Simulation].into_iter().chain(closed)
    }

    pub fn name(self) -> &'static str {
        match self {
            Predictor::Simulation => "simulation",
            Predictor::Closed(model) => model.name(),
        }
    }
}

impl Cell {
    /// The median of what its runs took.
    pub fn median_ns(&self) -> f64 {
        median(self.took_ns.iter().copied())
    }

    /// The median of every other run, from this one on: 0 or 1. Not a number if there are none.
    pub fn half_ns(&self, first: usize) -> f64 {
        median(self.took_ns.iter().copied().skip(first).step_by(2))
    }

    /// What is expected.
    pub fn expected_ns(&self, predictor: Predictor) -> f64 {
        match predictor {
            Predictor::Simulation => self.predicted_ns.value,
            Predictor::Closed(model) => self.prices_ns[model as usize],
        }
    }

    /// By how much that is off, as a part of what happened: positive if it is too much.
    pub fn error(&self, predictor: Predictor) -> f64 {
        self.expected_ns(predictor) / self.median_ns() - 1.0
    }

    /// How many runs met a timeout.
    pub fn with_timeout(&self) -> usize {
        self.timeouts
            .iter()
            .filter(|timeouts| **timeouts > 0)
            .count()
    }

    /// How many runs took what the interval says.
    pub fn within(&self) -> usize {
        let Estimate { low, high, .. } = self.predicted_ns;
        let inside = |took_ns: &&f64| (low..=high).contains(*took_ns);
        self.took_ns.iter().filter(inside).count()
    }
}

/// The median; not a number if there are none.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    quantile(values, 0.5)
}

/// The value below which such a share of all lie; not a number if there are none.
pub fn quantile(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut sorted: Vec<_> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let place = (last as f64 * share).round() as usize;
    sorted.get(place).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
pub mod tests {
    use sabani_collective::Collective;

    use super::*;

    /// A broadcast that was predicted, and took so long.
    pub fn cell(algorithm: &str, bytes: usize, predicted_ns: f64, took_ns: f64) -> Cell {
        Cell {
            place: Place { seed: 1, bytes },
            choice: Choice::parse(Collective::Bcast, algorithm).unwrap(),
            is_rule: algorithm == "binomial",
            is_decided: algorithm == "chain",
            predicted_ns: Estimate {
                value: predicted_ns,
                low: 0.9 * predicted_ns,
                high: 1.1 * predicted_ns,
            },
            prices_ns: [1.0, 2.0, 3.0, 4.0].map(|factor| factor * predicted_ns),
            timeout_probability: 0.0,
            paper_timeout: false,
            timeouts: Vec::new(),
            took_ns: vec![took_ns, 0.5 * took_ns, 2.0 * took_ns],
        }
    }

    #[test]
    fn errors_are_parts_of_what_happened() {
        let cell = cell("chain", 10, 90.0, 100.0);
        assert!((cell.error(Predictor::Simulation) + 0.1).abs() < 1e-9);
        let hockney = cell.error(Predictor::Closed(Model::Hockney));
        let plogp_br = cell.error(Predictor::Closed(Model::PLogPBr));
        assert!((hockney + 0.1).abs() < 1e-9 && (plogp_br - 2.6).abs() < 1e-9);
        // Of 50, 100 and 200.
        assert_eq!(cell.within(), 0);
        assert_eq!(super::tests::cell("chain", 10, 100.0, 100.0).within(), 1);
    }

    #[test]
    fn quantiles_are_values_that_there_are() {
        let values = || [3.0, 1.0, 2.0, 5.0, 4.0].into_iter();
        assert_eq!((median(values()), quantile(values(), 0.9)), (3.0, 5.0));
        assert!(median(std::iter::empty()).is_nan());
    }
}
