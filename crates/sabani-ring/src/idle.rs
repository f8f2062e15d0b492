//! What a thread does while its layers have nothing to do.

use std::{hint, time::Duration};

use crate::bell::Bell;
use crate::crowd::{give_way, is_crowded};

/// What a thread does while its layers have nothing to do: looks again at once, then lets other threads run
/// between looks, then sleeps until a neighbour has something for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Fruitless looks in a row. Default 2,000, some 50 µs: about as long as waking takes. None
    /// are made where threads share cores: they would only keep the others from working.
    pub spins: u32,
    /// Looks after that, between which others may run. Default 100: some 50 µs as well, if there are no others. Left out
    /// for a while where one has taken long ([`is_crowded`]).
    pub yields: u32,
    /// The longest sleep. Default 1 ms. It bounds what no neighbour rings for: buffers that come back to a pool
    /// from further away, and the end of the stack.
    pub nap: Duration,
}

impl Default for Idle {
    fn default() -> Self {
        Self {
            spins: 2_000,
            yields: 100,
            nap: Duration::from_millis(1),
        }
    }
}

impl Idle {
    /// As it suits so many threads on so many cores.
    pub(crate) fn among(self, threads: usize, cores: usize) -> Self {
        Self {
            spins: if threads > cores { 0 } else { self.spins },
            ..self
        }
    }

    /// Waits a while after so many fruitless looks in a row; how many it is now. `look` says whether there is
    /// work, and does it.
    pub(crate) fn wait(self, fruitless: u32, bell: &Bell, look: impl FnOnce() -> bool) -> u32 {
        if fruitless < self.spins {
            hint::spin_loop();
        } else if fruitless < self.spins.saturating_add(self.yields) && !is_crowded() {
            give_way();
        } else if bell.sleep(self.nap, look) {
            return 0;
        }
        fruitless.saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(loom))]
    fn it_sleeps_only_after_looking_often() {
        let idle = Idle {
            spins: 2,
            yields: 1,
            nap: Duration::ZERO,
        };
        let bell = Bell::new();
        for fruitless in 0..3 {
            let next = idle.wait(fruitless, &bell, || panic!("does not sleep yet"));
            assert_eq!(next, fruitless + 1);
        }
        assert_eq!(idle.wait(3, &bell, || true), 0);
        assert_eq!(idle.wait(3, &bell, || false), 4);
    }

    #[test]
    fn nobody_spins_on_a_shared_core() {
        let idle = Idle::default();
        assert_eq!(idle.among(2, 2), idle);
        assert_eq!(idle.among(3, 2).spins, 0);
    }
}
