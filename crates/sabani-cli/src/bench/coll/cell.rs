//! What was measured, turn by turn.

use serde::{Deserialize, Serialize};

use crate::bench::results::Summary;

/// One call of one algorithm over one transport.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    pub collective: String,
    pub algorithm: String,
    /// What the user had wished for in place of the rule.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub wish: String,
    pub ranks: usize,
    pub size_bytes: usize,
    pub transport: String,
    pub sealed: bool,
    /// The schedule of a node's layers, which a line tells at its end; none of what has no node.
    #[serde(skip)]
    pub threads: Option<String>,
}

/// What came of one turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// The median time of one call.
    pub call_us: f64,
    /// The mean time of calls back to back.
    pub loop_us: f64,
}

/// All turns of one setup.
#[derive(Clone, Debug)]
pub struct Cell {
    pub setup: Setup,
    pub turns: Vec<Turn>,
}

/// A line of JSON.
#[derive(Serialize, Deserialize)]
pub struct Line {
    bench: String,
    #[serde(flatten)]
    setup: Setup,
    /// The median of all turns.
    pub us_p50: f64,
    us_min: f64,
    us_max: f64,
    /// The median of all turns.
    pub loop_us: f64,
    rounds: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    threads: Option<String>,
}

impl Line {
    /// What it tells of.
    pub fn setup(&self) -> Setup {
        Setup {
            threads: self.threads.clone(),
            ..self.setup.clone()
        }
    }
}

impl Cell {
    /// Median and range of the time of one call.
    pub fn call_us(&self) -> Summary {
        self.summary(|turn| turn.call_us)
    }

    /// Median and range of the mean time of calls back to back.
    pub fn loop_us(&self) -> Summary {
        self.summary(|turn| turn.loop_us)
    }

    /// How long a call takes beside one of another cell: the median of the ratios turn by turn.
    pub fn over(&self, other: &Self) -> Option<f64> {
        let turns = self.turns.iter().zip(&other.turns);
        let ratios = turns.map(|(own, other)| own.call_us / other.call_us);
        Summary::of(ratios).map(|summary| summary.median)
    }

    /// The cell as a line.
    pub fn line(&self) -> Line {
        let call = self.call_us();
        Line {
            bench: "coll".into(),
            setup: self.setup.clone(),
            us_p50: call.median,
            us_min: call.min,
            us_max: call.max,
            loop_us: self.loop_us().median,
            rounds: self.turns.len(),
            threads: self.setup.threads.clone(),
        }
    }

    fn summary(&self, figure: impl Fn(&Turn) -> f64) -> Summary {
        Summary::of(self.turns.iter().map(figure)).expect("a cell has at least one turn")
    }
}

/// Adds a turn to the cell of its setup, which is a new one the first time.
pub fn add(cells: &mut Vec<Cell>, setup: Setup, turn: Turn) {
    match cells.iter_mut().find(|cell| cell.setup == setup) {
        Some(cell) => cell.turns.push(turn),
        None => cells.push(Cell {
            setup,
            turns: vec![turn],
        }),
    }
}
