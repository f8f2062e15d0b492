//! Who is measured, and what came of it, turn by turn.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Options;
use super::statistics::{Interval, geometric_mean, median};
use crate::shell;

/// What somebody is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sabani without encryption.
    Plain,
    /// Sabani as it is by default.
    Sealed,
    /// Whom Sabani is compared with.
    Tcp,
    /// Shown beside them.
    SharedMemory,
}

/// How ranks are started that measure collectives and print lines of JSON.
pub struct Contestant {
    pub role: Role,
    pub name: String,
    /// The launcher, up to its number of ranks.
    pub launcher: Vec<String>,
    /// What it starts.
    pub program: Vec<String>,
    pub environment: &'static [(&'static str, &'static str)],
}

/// One of the two times that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Of one call.
    Call,
    /// Of calls back to back, the mean.
    Loop,
}

/// One collective, size and number of ranks.
pub struct Cell {
    pub ranks: usize,
    pub collective: String,
    pub size_bytes: u64,
    /// For each contestant: a pair of times for each turn, in µs.
    turns: Vec<Vec<[f64; 2]>>,
}

/// All that was measured.
pub struct Contest {
    pub contestants: Vec<Contestant>,
    pub cells: Vec<Cell>,
}

impl Contestant {
    fn run(&self, options: &Options, ranks: usize) -> Result<String> {
        let sizes: Vec<_> = options.sizes.iter().map(usize::to_string).collect();
        let mut command = Command::new(&self.launcher[0]);
        command
            .args(&self.launcher[1..])
            .args(["-n", &ranks.to_string()])
            .args(&self.program)
            .args(["--collectives", &options.collectives.join(",")])
            .args(["--sizes", &sizes.join(",")])
            .args(["--seconds", &options.seconds.to_string()])
            .envs(self.environment.iter().copied());
        shell::output(&mut command).with_context(|| self.name.clone())
    }
}

impl Contest {
    pub fn new(contestants: Vec<Contestant>) -> Self {
        Contest {
            contestants,
            cells: Vec::new(),
        }
    }

    /// Lets everybody measure all cells of a number of ranks, one after the other.
    ///
    /// # Errors
    /// If one of them fails, or says what nobody understands.
    pub fn turn(&mut self, options: &Options, ranks: usize, reversed: bool) -> Result<()> {
        let mut order: Vec<usize> = (0..self.contestants.len()).collect();
        if reversed {
            order.reverse();
        }
        for place in order {
            let said = self.contestants[place].run(options, ranks)?;
            for line in said.lines() {
                let taken = self.take(place, line);
                taken.with_context(|| format!("{} says {line}", self.contestants[place].name))?;
            }
        }
        Ok(())
    }

    fn take(&mut self, contestant: usize, line: &str) -> Result<()> {
        let line: Value = serde_json::from_str(line)?;
        if line["bench"] == "machine" {
            return Ok(());
        }
        let number = |field: &str| line[field].as_u64().context("a number is missing");
        let time = |field: &str| line[field].as_f64().context("a time is missing");
        let (ranks, size_bytes) = (number("ranks")? as usize, number("size_bytes")?);
        let collective = line["collective"].as_str().context("a name is missing")?;
        let is_it = |cell: &Cell| {
            (cell.ranks, cell.size_bytes) == (ranks, size_bytes) && cell.collective == collective
        };
        let place = self.cells.iter().position(is_it).unwrap_or_else(|| {
            self.cells.push(Cell {
                ranks,
                collective: collective.into(),
                size_bytes,
                turns: vec![Vec::new(); self.contestants.len()],
            });
            self.cells.len() - 1
        });
        let times = [time("us_p50")?, time("loop_us")?];
        self.cells[place].turns[contestant].push(times);
        Ok(())
    }

    fn places(&self, role: Role) -> impl Iterator<Item = usize> {
        let contestants = self.contestants.iter().enumerate();
        contestants
            .filter(move |(_, one)| one.role == role)
            .map(|(place, _)| place)
    }

    /// For each turn, how many times as fast Sabani was as the best TCP peer of this cell.
    fn ratios(&self, cell: &Cell, role: Role, figure: Figure) -> Vec<f64> {
        let peers = self.places(Role::Tcp);
        let median_of = |place: &usize| cell.median(*place, figure).middle;
        let best = peers.min_by(|a, b| median_of(a).total_cmp(&median_of(b)));
        let (Some(best), Some(own)) = (best, self.places(role).next()) else {
            return Vec::new();
        };
        let turns = cell.times(best, figure).zip(cell.times(own, figure));
        turns.map(|(theirs, ours)| theirs / ours).collect()
    }

    /// How many times as fast Sabani is as the best TCP peer of this cell.
    pub fn ratio(&self, cell: &Cell, role: Role, figure: Figure) -> Interval {
        median(&self.ratios(cell, role, figure))
    }

    /// The geometric mean of these ratios over all cells of more than two ranks.
    pub fn mean_ratio(&self, role: Role, figure: Figure) -> Interval {
        let cells = self.cells.iter().filter(|cell| cell.ranks > 2);
        let ratios: Vec<_> = cells.map(|cell| self.ratios(cell, role, figure)).collect();
        let turns = ratios.iter().map(Vec::len).min().unwrap_or(0);
        let mean = |turn: usize| geometric_mean(ratios.iter().map(|cell| cell[turn]));
        median(&(0..turns).map(mean).collect::<Vec<_>>())
    }
}

impl Cell {
    fn times(&self, contestant: usize, figure: Figure) -> impl Iterator<Item = f64> {
        self.turns[contestant]
            .iter()
            .map(move |times| times[figure as usize])
    }

    /// A contestant's time.
    pub fn median(&self, contestant: usize, figure: Figure) -> Interval {
        median(&self.times(contestant, figure).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contest() -> Contest {
        let one = |role, name: &str| Contestant {
            role,
            name: name.into(),
            launcher: Vec::new(),
            program: Vec::new(),
            environment: &[],
        };
        Contest::new(vec![
            one(Role::Plain, "ours"),
            one(Role::Tcp, "slow"),
            one(Role::Tcp, "fast"),
        ])
    }

    #[test]
    fn ratios_are_to_the_best_peer_turn_by_turn() {
        let mut contest = contest();
        // The machine halves its speed in the second turn.
        for factor in [1.0, 2.0] {
            for (place, us) in [10.0, 40.0, 20.0].into_iter().enumerate() {
                let (call, back_to_back) = (us * factor, 5.0);
                let line = format!(
                    r#"{{"collective":"bcast","ranks":4,"size_bytes":64,"us_p50":{call},"loop_us":{back_to_back}}}"#
                );
                contest.take(place, &line).unwrap();
            }
        }
        let cell = &contest.cells[0];
        assert_eq!(contest.ratio(cell, Role::Plain, Figure::Call).middle, 2.0);
        assert_eq!(contest.ratio(cell, Role::Plain, Figure::Loop).middle, 1.0);
        let mean = contest.mean_ratio(Role::Plain, Figure::Call);
        assert!((mean.middle - 2.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_a_result_is_refused() {
        for line in [
            "",
            "{}",
            r#"{"collective":"bcast","ranks":4,"size_bytes":64}"#,
        ] {
            assert!(contest().take(0, line).is_err(), "{line}");
        }
    }
}
