//! Long pipelines are looked at for shorter vectors, and continued: a pipeline that runs goes on as it
//! does.

use sabani_collective::{Action, Choice, Step};

use crate::task::Task;

/// Schedules with more messages than this are looked at with shorter vectors, if that makes them fewer.
const MOST_MESSAGES: f64 = 60_000.0;

/// The same task with shorter vectors.
pub struct Shorter {
    /// With half the length of the other one.
    pub half: Task,
    /// With few enough messages.
    pub whole: Task,
    /// How many times what `whole` has on top of `half` is still to come.
    times: f64,
}

impl Shorter {
    /// Of a task that has too many messages; `None` if it hasn't, or shorter vectors don't change that.
    pub fn new(task: &Task, choice: &Choice) -> Option<Self> {
        let messages = messages(task, choice);
        if messages <= MOST_MESSAGES {
            return None;
        }
        let bytes = (task.bytes as f64 * MOST_MESSAGES / 2.0 / messages) as usize;
        let (half, whole) = (task.with_bytes(bytes / 2), task.with_bytes(bytes));
        let is_fewer = bytes > 1 && self::messages(&whole, choice) <= MOST_MESSAGES;
        let times = (task.bytes - bytes) as f64 / (bytes - bytes / 2) as f64;
        is_fewer.then_some(Shorter { half, whole, times })
    }

    /// What a quantity of both becomes.
    pub fn continued(&self, half: f64, whole: f64) -> f64 {
        (whole + (whole - half) * self.times).max(whole)
    }
}

/// About how many messages there are: counted in some of the rounds.
fn messages(task: &Task, choice: &Choice) -> f64 {
    const SAMPLES: usize = 64;
    let cx = task.context(choice.parameters);
    let schedule = choice.algorithm.schedule;
    let rounds = schedule.rounds(&cx);
    let samples = rounds.min(SAMPLES);
    let sends = (0..samples).map(|sample| {
        let k = sample * rounds / samples;
        let of_rank = |rank| {
            let is_send = |step: &&Step| matches!(step.action, Action::Send { .. });
            schedule.round(&cx, rank, k).iter().filter(is_send).count()
        };
        (0..task.ranks).map(of_rank).sum::<usize>()
    });
    let sends: usize = sends.sum();
    sends as f64 * rounds as f64 / samples.max(1) as f64
}

#[cfg(test)]
mod tests {
    use sabani_collective::Collective;

    use super::*;
    use crate::testing::switched;

    #[test]
    fn pipelines_are_shortened_and_nothing_else() {
        let network = switched(8);
        let shorter = |collective, name, bytes| {
            let choice = Choice::parse(collective, name).unwrap();
            Shorter::new(&Task::new(collective, 8, bytes, &network), &choice)
        };
        let long = shorter(Collective::Bcast, "chain:segment=1KiB", 100 << 20).unwrap();
        assert!(long.whole.bytes < 10 << 20);
        assert_eq!(long.half.bytes, long.whole.bytes / 2);
        let exact = |bytes: usize| 7.0 + bytes as f64;
        let continued = long.continued(exact(long.half.bytes), exact(long.whole.bytes));
        assert!((continued / exact(100 << 20) - 1.0).abs() < 1e-9);
        assert!(shorter(Collective::Bcast, "chain:segment=1KiB", 1 << 20).is_none());
        assert!(shorter(Collective::Alltoall, "xor", 1 << 30).is_none());
    }
}
