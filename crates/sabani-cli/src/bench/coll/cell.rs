//! What was measured, turn by turn.

use serde::{Deserialize, Serialize};

use sabani_collective::Collective;

use crate::{
    bench::{cpu::MAX_BUSY_RATIO, results::Summary},
    lab::Rate,
};

/// One call of one algorithm over one transport.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    pub collective: String,
    /// With those of its parameters that are not usual, as in `linear:window=8`.
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

impl Setup {
    /// How long the bytes take that must come in through the busiest port, whatever the algorithm, at its payload
    /// rate; each rank on a host of its own.
    pub fn ideal_us(&self, rate: Rate) -> f64 {
        let (size, others) = (self.size_bytes as f64, self.ranks as f64 - 1.0);
        let collective = Collective::ALL
            .into_iter()
            .find(|one| one.name() == self.collective);
        let bytes = match collective {
            _ if self.ranks == 1 => 0.0,
            Some(Collective::Barrier) | None => 0.0,
            Some(
                Collective::Gather
                | Collective::Allgather
                | Collective::ReduceScatter
                | Collective::Alltoall,
            ) => others * size,
            // Each rank's part comes to it from all others, and its sum goes to them.
            Some(Collective::Allreduce) => 2.0 * others / self.ranks as f64 * size,
            Some(
                Collective::Bcast
                | Collective::Reduce
                | Collective::Scatter
                | Collective::Scan
                | Collective::Exscan,
            ) => size,
        };
        bytes / rate.payload_bytes_per_s() * 1e6
    }
}

/// What came of one turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// The median time of one call.
    pub call_us: f64,
    /// The mean time of calls back to back.
    pub loop_us: f64,
    /// How busy the processors of rank 0's machine were, 0 to 1.
    pub cpu_busy_ratio: f64,
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
    /// The mean of all turns.
    cpu_busy_ratio: f64,
    #[serde(flatten)]
    wire: Option<Wire>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    threads: Option<String>,
}

/// What the ports of a lab's switch have to do with it.
#[derive(Serialize, Deserialize)]
struct Wire {
    r#where: String,
    /// The bytes that must pass the busiest port, at its payload rate.
    ideal_us: f64,
    /// Whether the processors had time enough.
    valid: bool,
}

impl Line {
    /// What a rank has measured in one turn.
    pub fn turn(&self) -> Turn {
        Turn {
            call_us: self.us_p50,
            loop_us: self.loop_us,
            cpu_busy_ratio: self.cpu_busy_ratio,
        }
    }

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

    /// How busy the processors were in all turns, 0 to 1.
    pub fn cpu_busy_ratio(&self) -> f64 {
        let sum: f64 = self.turns.iter().map(|turn| turn.cpu_busy_ratio).sum();
        sum / self.turns.len() as f64
    }

    /// Whether they had time enough for a lab.
    pub fn is_valid(&self) -> bool {
        self.cpu_busy_ratio() <= MAX_BUSY_RATIO
    }

    /// The cell as a line; with the rate of the lab's ports, if there is one.
    pub fn line(&self, rate: Option<Rate>) -> Line {
        let call = self.call_us();
        let wire = rate.map(|rate| Wire {
            r#where: "lab".into(),
            ideal_us: self.setup.ideal_us(rate),
            valid: self.is_valid(),
        });
        Line {
            bench: "coll".into(),
            setup: self.setup.clone(),
            us_p50: call.median,
            us_min: call.min,
            us_max: call.max,
            loop_us: self.loop_us().median,
            rounds: self.turns.len(),
            cpu_busy_ratio: self.cpu_busy_ratio(),
            wire,
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
