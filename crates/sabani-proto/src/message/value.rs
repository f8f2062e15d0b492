//! How long a message is worth anything (U17).

use std::time::Duration;

/// What a message is worth to whom it is sent to, and so how far its sender goes for it. Its place
/// among other messages is kept in any case: what expires is the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Value {
    /// It arrives, or the connection ends. The default.
    #[default]
    Reliable,
    /// It is worth something for so long from now on, to the nanosecond. What has not been
    /// acknowledged then is dropped at both ends. Time in which this process was kept from running
    /// does not count.
    Within(Duration),
    /// It is sent once: with the first piece of it that is known to be lost, it is dropped at both
    /// ends.
    BestEffort,
}

/// What that means for a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Worth {
    /// When it is worth nothing any more.
    pub until_ns: u64,
    /// No piece of it goes twice.
    pub once: bool,
}

impl Worth {
    /// For a message sent now.
    pub fn of(value: Value, now_ns: u64) -> Self {
        let lasts_ns = match value {
            Value::Within(time) => u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
            Value::Reliable | Value::BestEffort => u64::MAX,
        };
        Worth {
            until_ns: now_ns.saturating_add(lasts_ns),
            once: value == Value::BestEffort,
        }
    }
}

impl Default for Worth {
    fn default() -> Self {
        Worth::of(Value::Reliable, 0)
    }
}
