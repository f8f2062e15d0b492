//! Where the time of a node's calls goes.

use std::time::Instant;

/// What a thread that uses a node is at, in the order of a message's way out and in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Outside of the library.
    Program,
    /// A message is taken over.
    MessagesOut,
    /// Packets are built and sealed; bodies are copied into them.
    ChannelOut,
    /// The system takes packets.
    CallOut,
    /// Nothing is there, for one look at the socket and what is due besides.
    Waiting,
    /// The system hands over packets.
    CallIn,
    /// Packets are opened and taken in; bodies are copied out of them.
    ChannelIn,
    /// A message is handed over.
    MessagesIn,
}

/// How long something took in all, and how often it was timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Nanoseconds, those for reading the clock included: one reading for each time.
    pub ns: u64,
    /// How many times.
    pub times: u64,
}

/// Where all the time went since the node was opened; see [`crate::Builder::timed`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings([Spent; 8]);

impl Timings {
    /// What a stage took.
    pub fn of(&self, stage: Stage) -> Spent {
        self.0[stage as usize]
    }
}

/// Splits all time among stages: what passed since the last one ended is the next one's.
#[derive(Clone, Debug)]
pub(crate) struct Stopwatch {
    last: Instant,
    pub timings: Timings,
}

impl Stopwatch {
    pub fn new() -> Self {
        Stopwatch {
            last: Instant::now(),
            timings: Timings::default(),
        }
    }

    /// A stage ends.
    pub fn lap(&mut self, stage: Stage) {
        let now = Instant::now();
        let spent = &mut self.timings.0[stage as usize];
        spent.ns += (now - self.last).as_nanos() as u64;
        spent.times += 1;
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_time_belongs_to_some_stage() {
        let mut watch = Stopwatch::new();
        let begun = watch.last;
        let stages = [Stage::Program, Stage::CallOut, Stage::Waiting];
        for stage in stages.into_iter().chain(stages) {
            watch.lap(stage);
        }
        let spent = stages.map(|stage| watch.timings.of(stage));
        assert!(spent.iter().all(|spent| spent.times == 2));
        let all: u64 = spent.iter().map(|spent| spent.ns).sum();
        assert_eq!(u128::from(all), (watch.last - begun).as_nanos());
        assert_eq!(watch.timings.of(Stage::CallIn), Spent::default());
    }
}
