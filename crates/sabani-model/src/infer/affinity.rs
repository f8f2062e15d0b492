//! How alike two hosts are: whether what they send each other is faster than what they send others.

use super::tree::Tree;
use super::{Observation, log_ratio};

/// For pairs of hosts: the sum of what was seen of them, and how often.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Logarithms of rates over what the hosts' own links allow.
    pub sum: f64,
    /// How many.
    pub count: f64,
}

impl Seen {
    /// What was seen of both.
    pub fn and(self, other: Seen) -> Seen {
        Seen {
            sum: self.sum + other.sum,
            count: self.count + other.count,
        }
    }

    /// The mean; far below everything where nothing was seen.
    pub fn mean(self) -> f64 {
        if self.count > 0.0 {
            self.sum / self.count
        } else {
            -10.0
        }
    }
}

/// A symmetric matrix: how much faster flows between two of so many hosts were than if only the hosts' own
/// links limited anybody. Only hosts that sent to several at the same time can compare.
pub fn matrix(hosts: usize, tree: &Tree, observations: &[Observation]) -> Vec<Vec<Seen>> {
    let mut alike = vec![vec![Seen::default(); hosts]; hosts];
    for seen in observations {
        let allowed = tree.rates(&seen.flows);
        let mut degree = vec![0; hosts];
        seen.flows.iter().for_each(|(from, _)| degree[*from] += 1);
        let flows = seen.flows.iter().zip(&seen.rates).zip(allowed);
        for ((&(from, to), &rate), allowed) in flows.filter(|((flow, _), _)| degree[flow.0] > 1) {
            let more = Seen {
                sum: log_ratio(rate, allowed),
                count: 1.0,
            };
            alike[from][to] = alike[from][to].and(more);
            alike[to][from] = alike[to][from].and(more);
        }
    }
    alike
}
