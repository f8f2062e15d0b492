//! What varies from one replicate to the next.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::network::Estimate;

/// Random numbers of one replicate; `None` is the one in which everything is as usual.
pub struct Chance(Option<ChaCha8Rng>);

impl Chance {
    /// Everything is at its median, and everything that is more likely than not happens.
    pub fn none() -> Self {
        Chance(None)
    }

    /// Replicate with this number.
    pub fn seeded(seed: u64) -> Self {
        Chance(Some(ChaCha8Rng::seed_from_u64(seed)))
    }

    /// Between 0 and 1.
    pub fn share(&mut self) -> f64 {
        let random = self.0.as_mut().map(|rng| rng.next_u64() >> 11);
        random.map_or(0.5, |bits| bits as f64 / (1_u64 << 53) as f64)
    }

    /// A value of an interval, in which 90 % of all lie.
    pub fn pick(&mut self, estimate: Estimate) -> f64 {
        estimate.at((self.share() - 0.5) / 0.45)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_values_of_ten_lie_in_the_interval() {
        let mut chance = Chance::seeded(1);
        let estimate = Estimate {
            value: 10.0,
            low: 9.0,
            high: 14.0,
        };
        let inside = (0..10_000).filter(|_| {
            let value = chance.pick(estimate);
            (9.0..=14.0).contains(&value)
        });
        let inside = inside.count();
        assert!((8_900..9_100).contains(&inside), "{inside}");
        assert_eq!(Chance::none().pick(estimate), 10.0);
    }
}
