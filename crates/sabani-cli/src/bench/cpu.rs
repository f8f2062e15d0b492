//! How busy the machine is.

use std::fs;

use anyhow::{Context, Result};

/// In a lab: above this the processors, and not the network, may have decided.
pub const MAX_BUSY_RATIO: f64 = 0.6;
const FILE: &str = "/proc/stat";
/// Columns of the time in which a processor had nothing to do: idle, and waiting for a disk.
const IDLE: [usize; 2] = [3, 4];
/// Guests' time is part of other columns.
const COLUMNS: usize = 8;

/// Time of all processors, in the system's ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    busy: u64,
    all: u64,
}

impl CpuTime {
    /// Since the machine was started.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn now() -> Result<Self> {
        parse(&fs::read_to_string(FILE)?).with_context(|| format!("cannot understand {FILE}"))
    }

    /// Some ticks of which the processors were busy for a part.
    #[cfg(test)]
    pub fn of(busy: u64, all: u64) -> Self {
        Self { busy, all }
    }

    /// What has passed since then.
    pub fn since(self, start: Self) -> Self {
        Self {
            busy: self.busy - start.busy,
            all: self.all - start.all,
        }
    }

    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            busy: self.busy + other.busy,
            all: self.all + other.all,
        }
    }

    /// The part in which the processors were busy, 0 to 1. What was stolen by other machines counts: it
    /// was missing here.
    pub fn busy_ratio(self) -> f64 {
        self.busy as f64 / self.all.max(1) as f64
    }
}

fn parse(text: &str) -> Option<CpuTime> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let columns: Vec<u64> = line
        .split_whitespace()
        .take(COLUMNS)
        .map(|column| column.parse().ok())
        .collect::<Option<_>>()?;
    let idle: u64 = IDLE
        .iter()
        .map(|&at| columns.get(at))
        .sum::<Option<u64>>()?;
    let all: u64 = columns.iter().sum();
    Some(CpuTime {
        busy: all - idle,
        all,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_what_is_not_idle() {
        let before = parse("cpu  10 0 10 70 10 0 0 0 5 5\ncpu0 1 1 1\n").unwrap();
        let after = parse("cpu  20 0 30 130 20 0 0 10 9 9\n").unwrap();
        let expected = CpuTime { busy: 40, all: 110 };
        assert_eq!(after.since(before), expected);
        assert_eq!(expected.plus(expected).busy_ratio(), 40.0 / 110.0);
        assert_eq!(parse("cpu  1 2\n"), None);
        assert_eq!(parse("intr 1\n"), None);
    }
}
