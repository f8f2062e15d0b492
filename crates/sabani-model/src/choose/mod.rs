//! Which algorithm is fastest: a ranking of all there are, and a table of the best ones in which a
//! communicator looks up its choice.

mod candidates;
mod ranking;
mod table;

pub use candidates::{candidates, rule};
pub use ranking::{Ranked, rank};
pub use table::{BadRow, Found, Lookup, Row, compile, length, usual_ranks};

use crate::network::Network;

/// What is not expected to take less than this part of what the rule's choice takes is not chosen: the simulation is
/// not exact enough to tell which one is faster. Smaller parts were tried on the networks that it was developed with: they
/// leave more to the rule than they save.
const WORTH: f64 = 0.97;

/// The part of what the rule's choice takes that another one has to stay below to be chosen: less where two measurements of the
/// same differed by more than that, for then nobody knows which one is faster, and nothing where they can't be believed.
pub fn worth(network: &Network) -> f64 {
    match network.graph.fit {
        Some(fit) if !fit.is_steady() => 0.0,
        Some(fit) => WORTH.min((-fit.noise).exp()),
        None => WORTH,
    }
}

/// Which of these is chosen, each with what it is expected to take: the best one if it is [`worth`] leaving the rule's choice, else that.
pub fn chosen<T: Copy>(
    candidates: impl Iterator<Item = T>,
    rule: T,
    worth: f64,
    expected_ns: impl Fn(T) -> f64,
) -> T {
    let best = candidates.min_by(|one, other| expected_ns(*one).total_cmp(&expected_ns(*other)));
    let is_worth = |one: &T| expected_ns(*one) < worth * expected_ns(rule);
    best.filter(is_worth).unwrap_or(rule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Fit;
    use crate::testing::switched;

    #[test]
    fn what_differs_by_less_than_two_measurements_do_is_left_to_the_rule() {
        let mut network = switched(4);
        let mut with_noise = |noise| {
            network.graph.fit = Some(Fit {
                noise,
                ..Fit::default()
            });
            worth(&network)
        };
        assert_eq!(with_noise(0.01), WORTH);
        assert!((with_noise(0.15) - 0.861).abs() < 0.001);
        assert_eq!(with_noise(0.4), 0.0, "nothing can be believed");
    }
}
