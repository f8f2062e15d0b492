//! What the two processes do in a turn.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::measure::Limit;

/// The smallest message: raw UDP numbers its messages with four bytes.
pub const MIN_SIZE_BYTES: usize = 4;
/// The largest message.
pub const MAX_SIZE_BYTES: usize = 64 << 20;
/// How long a process may be late.
pub const GRACE: Duration = Duration::from_secs(20);
/// What a counted message or a transaction may take at worst, and each of its bytes on top.
const SLOW_MESSAGE: Duration = Duration::from_millis(2);
const SLOW_BYTE: Duration = Duration::from_nanos(100);
/// What a client asks with in a transaction.
pub const REQUEST_BYTES: usize = 128;
/// What it is answered with.
pub const ANSWER_BYTES: usize = 100 << 10;

/// What the two processes do in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// A message there and back, again and again.
    Ping { size: usize, limit: Limit },
    /// One way, as fast as it goes.
    Burst { size: usize, limit: Limit },
    /// Requests and answers, one after the other.
    Transactions { count: u64 },
}

impl Task {
    /// The bench's name, as in the JSON output.
    pub fn bench(self) -> &'static str {
        match self {
            Self::Ping { .. } => "ping",
            Self::Burst { .. } => "burst",
            Self::Transactions { .. } => "transactions",
        }
    }

    /// What varies from task to task of a bench: the message size in bytes, or the count.
    pub fn parameter(self) -> u64 {
        match self {
            Self::Ping { size, .. } | Self::Burst { size, .. } => size as u64,
            Self::Transactions { count } => count,
        }
    }

    /// Whether a greater figure is the better one.
    pub fn more_is_better(self) -> bool {
        matches!(self, Self::Burst { .. })
    }

    /// How long it may take before it counts as stuck.
    pub fn patience(self) -> Duration {
        let slowest = |count: u64, bytes: usize| {
            (SLOW_MESSAGE + SLOW_BYTE * bytes as u32).saturating_mul(count.min(1 << 20) as u32)
        };
        let work = match self {
            Self::Ping { size, limit } | Self::Burst { size, limit } => match limit {
                Limit::Time(time) => time,
                Limit::Count(count) => slowest(count, size),
            },
            Self::Transactions { count } => slowest(count, ANSWER_BYTES),
        };
        GRACE + work
    }

    /// Checks a task that came over the network.
    ///
    /// # Errors
    /// If it would take more memory or time than `sabani bench` ever asks for.
    pub fn check(self) -> Result<()> {
        if let Self::Ping { size, limit } | Self::Burst { size, limit } = self {
            let sane = (MIN_SIZE_BYTES..=MAX_SIZE_BYTES).contains(&size);
            ensure!(sane, "messages of {size} bytes are out of range");
            if let Limit::Time(time) = limit {
                ensure!(time <= Limit::LONGEST, "a turn of {time:?} is too long");
            }
        }
        Ok(())
    }
}
