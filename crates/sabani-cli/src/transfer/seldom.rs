//! Notes that others can cause as often as they like.

use std::time::{Duration, Instant};

/// How long after a note the next one of its kind may come.
const PAUSE: Duration = Duration::from_secs(10);

/// What has happened and was not told yet, and when something was told last.
#[derive(Debug, Default)]
pub struct Seldom {
    untold: u64,
    told: Option<Instant>,
}

impl Seldom {
    /// It has happened so many times more. How often it has since the last note, if another one is due: that is told
    /// from `least` times on.
    pub fn add(&mut self, more: u64, least: u64, now: Instant) -> Option<u64> {
        self.untold += more;
        let rested = self.told.is_none_or(|told| now - told >= PAUSE);
        if self.untold < least || !rested {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_told_as_one() {
        let (mut seldom, begun) = (Seldom::default(), Instant::now());
        let mut add = |more, seconds| seldom.add(more, 3, begun + Duration::from_secs(seconds));
        assert_eq!(add(2, 0), None);
        assert_eq!(add(1, 1), Some(3));
        assert_eq!(add(1_000, 2), None);
        assert_eq!(add(0, 10), None);
        assert_eq!(add(0, 11), Some(1_000));
        assert_eq!(add(0, 60), None);
    }
}
