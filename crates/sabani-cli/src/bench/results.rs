//! From turns to medians, spreads and ratios.

use anyhow::{Result, bail};
use sabani::Schedule;

use super::{control::Outcome, task::Task, transport::Transport};

/// What one turn measured.
#[derive(Clone, Debug, PartialEq)]
pub enum Sample {
    /// All round trips.
    Ping { histogram: Histogram, lost: u64 },
    /// Megabytes (10⁶ bytes) and messages per second.
    Burst {
        mb_per_s: f64,
        messages_per_s: f64,
        lost: u64,
    },
    /// Seconds for all transactions.
    Transactions { seconds: f64 },
}

impl Sample {
    /// Puts together what the two ends of a turn have to tell.
    ///
    /// # Errors
    /// If that does not fit the task.
    pub fn new(task: Task, client: Outcome, server: Outcome) -> Result<Self> {
        Ok(match (task, client, server) {
            (
                Task::Ping { .. },
                Outcome::Ping {
                    round_trips_ns,
                    lost,
                },
                _,
            ) => Self::Ping {
                histogram: Histogram(round_trips_ns),
                lost,
            },
            (
                Task::Burst { size, .. },
                Outcome::Sent { messages: sent },
                Outcome::Burst {
                    bytes,
                    elapsed,
                    messages,
                },
            ) => {
                let bytes_per_s = bytes as f64 / elapsed.as_secs_f64();
                Self::Burst {
                    mb_per_s: bytes_per_s / 1e6,
                    messages_per_s: bytes_per_s / size as f64,
                    lost: sent.saturating_sub(messages),
                }
            }
            (Task::Transactions { .. }, Outcome::Transactions { elapsed }, _) => {
                Self::Transactions {
                    seconds: elapsed.as_secs_f64(),
                }
            }
            (task, client, server) => bail!("{task:?} brought {client:?} and {server:?}"),
        })
    }

    /// The figure that is compared: µs, MB/s or s.
    pub fn headline(&self) -> f64 {
        match *self {
            Self::Ping { .. } => self.half_rtt_us(0.5),
            Self::Burst { mb_per_s, .. } => mb_per_s,
            Self::Transactions { seconds } => seconds,
        }
    }

    /// Half of the round trip that `quantile` of all do not exceed, in µs; NaN if this is no ping.
    pub fn half_rtt_us(&self, quantile: f64) -> f64 {
        match self {
            Self::Ping { histogram, .. } => histogram.half_us(quantile),
            Self::Burst { .. } | Self::Transactions { .. } => f64::NAN,
        }
    }

    /// Messages that did not arrive.
    pub fn lost(&self) -> u64 {
        match *self {
            Self::Ping { lost, .. } | Self::Burst { lost, .. } => lost,
            Self::Transactions { .. } => 0,
        }
    }
}

/// Whole round trips in ns and how many of each, ascending.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram(pub Vec<(u64, u64)>);

impl Histogram {
    /// Half of the round trip that `quantile` of all do not exceed, in µs.
    pub fn half_us(&self, quantile: f64) -> f64 {
        let total: u64 = self.0.iter().map(|(_, count)| count).sum();
        let rank = (quantile * total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for &(ns, count) in &self.0 {
            seen += count;
            if seen >= rank {
                return ns as f64 / 2000.0;
            }
        }
        f64::NAN
    }

    /// All in one.
    pub fn merge<'a>(parts: impl Iterator<Item = &'a Self>) -> Self {
        let mut all: Vec<_> = parts.flat_map(|part| part.0.iter().copied()).collect();
        all.sort_unstable();
        Self(all)
    }
}

/// Median and range of some figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Summary {
    /// `None` of nothing.
    pub fn of(figures: impl Iterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let upper = *sorted.get(middle)?;
        let lower = if sorted.len().is_multiple_of(2) {
            sorted[middle - 1]
        } else {
            upper
        };
        Some(Self {
            median: f64::midpoint(lower, upper),
            min: sorted[0],
            max: sorted[sorted.len() - 1],
        })
    }
}

/// All turns of one transport at one task.
#[derive(Clone, Debug)]
pub struct Cell {
    /// What was done.
    pub task: Task,
    /// By which transport.
    pub transport: Transport,
    /// A turn per round.
    pub samples: Vec<Sample>,
}

impl Cell {
    /// The headline figure's median and spread.
    ///
    /// # Panics
    /// If there was no turn.
    pub fn headline(&self) -> Summary {
        self.median_of(Sample::headline)
    }

    /// The median of some figure, turn by turn.
    ///
    /// # Panics
    /// If there was no turn.
    pub fn median_of(&self, figure: impl Fn(&Sample) -> f64) -> Summary {
        Summary::of(self.samples.iter().map(figure)).expect("a cell has at least one turn")
    }

    /// The headline figure over that of another transport in the same round: the median of these ratios.
    pub fn ratio_to(&self, other: &Self) -> Option<f64> {
        let rounds = self.samples.iter().zip(&other.samples);
        let ratios = rounds.map(|(mine, theirs)| mine.headline() / theirs.headline());
        Summary::of(ratios).map(|summary| summary.median)
    }

    /// Messages that did not arrive, in all turns.
    pub fn lost(&self) -> u64 {
        self.samples.iter().map(Sample::lost).sum()
    }

    /// All round trips of all turns.
    pub fn histogram(&self) -> Histogram {
        Histogram::merge(self.samples.iter().filter_map(|sample| match sample {
            Sample::Ping { histogram, .. } => Some(histogram),
            _ => None,
        }))
    }
}

/// What the transports of a task are compared with for people: raw UDP, the unconnected one if there
/// are both, and the better TCP.
pub fn references(cells: &[Cell]) -> Vec<&Cell> {
    let rank = |cell: &Cell| match cell.task.more_is_better() {
        true => -cell.headline().median,
        false => cell.headline().median,
    };
    let raw = cells.iter().filter(|cell| cell.transport.is_raw_udp());
    let tcp = cells.iter().filter(|cell| cell.transport.is_tcp());
    let raw = raw.min_by_key(|cell| cell.transport == Transport::RawUdpConnected);
    let tcp = tcp.min_by(|a, b| rank(a).total_cmp(&rank(b)));
    raw.into_iter().chain(tcp).collect()
}

/// All that was measured in one run.
#[derive(Clone, Debug)]
pub struct Results {
    /// Where: `loopback`, `veth`, `veth-nogso` or an address.
    pub place: String,
    /// Which layers of Sabani's nodes share a thread.
    pub schedule: Schedule,
    /// In the order of measurement: task by task, and within each by transport.
    pub cells: Vec<Cell>,
}

impl Results {
    /// The cells of each task, in the order of measurement.
    pub fn by_task(&self) -> impl DoubleEndedIterator<Item = &[Cell]> {
        self.cells.chunk_by(|a, b| a.task == b.task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn cell(transport: Transport, seconds: &[f64]) -> Cell {
        let samples = seconds
            .iter()
            .map(|&seconds| Sample::Transactions { seconds });
        Cell {
            task: Task::Transactions { count: 1 },
            transport,
            samples: samples.collect(),
        }
    }

    #[test]
    fn summaries() {
        let odd = Summary::of([3.0, 1.0, 2.0].into_iter()).unwrap();
        assert_eq!((odd.median, odd.min, odd.max), (2.0, 1.0, 3.0));
        let even = Summary::of([4.0, 1.0, 2.0, 3.0].into_iter()).unwrap();
        assert_eq!(even.median, 2.5);
        assert_eq!(Summary::of(std::iter::empty()), None);
    }

    #[test]
    fn ratios_are_formed_turn_by_turn() {
        // The machine doubles its speed from the third round on; the ratio doesn't care.
        let slow = cell(Transport::TcpCubic, &[4.0, 4.0, 2.0, 2.0, 2.0]);
        let fast = cell(Transport::RawUdp, &[2.0, 2.0, 1.0, 1.0, 1.0]);
        assert_eq!(slow.ratio_to(&fast), Some(2.0));
    }

    #[test]
    fn references_are_raw_udp_and_the_better_tcp() {
        let cells = [
            cell(Transport::Sabani, &[3.0]),
            cell(Transport::RawUdpConnected, &[1.0]),
            cell(Transport::RawUdp, &[2.0]),
            cell(Transport::TcpCubic, &[5.0]),
            cell(Transport::TcpBbr, &[4.0]),
        ];
        let named: Vec<_> = references(&cells).iter().map(|c| c.transport).collect();
        assert_eq!(named, [Transport::RawUdp, Transport::TcpBbr]);
        assert!(references(&cells[..1]).is_empty());
    }

    #[test]
    fn quantiles_of_a_histogram() {
        let histogram = Histogram(vec![(2000, 50), (4000, 49), (20000, 1)]);
        assert_eq!(histogram.half_us(0.5), 1.0);
        assert_eq!(histogram.half_us(0.99), 2.0);
        assert_eq!(histogram.half_us(0.999), 10.0);
        assert!(Histogram::default().half_us(0.5).is_nan());
    }

    #[test]
    fn a_burst_is_what_arrived() {
        let task = Task::Burst {
            size: 1000,
            limit: crate::bench::measure::Limit::Count(10),
        };
        let served = Outcome::Burst {
            bytes: 8000,
            elapsed: Duration::from_millis(2),
            messages: 9,
        };
        let sample = Sample::new(task, Outcome::Sent { messages: 10 }, served).unwrap();
        let expected = Sample::Burst {
            mb_per_s: 4.0,
            messages_per_s: 4000.0,
            lost: 1,
        };
        assert_eq!(sample, expected);
        assert!(Sample::new(task, Outcome::Served, Outcome::Served).is_err());
    }
}
