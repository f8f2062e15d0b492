//! Measuring goes on where this program was stopped, by Ctrl-Z for example, and continued.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::interrupt::TICK;
use crate::tell::{expect_reader, note};

/// What is measured with, made anew where this program was stopped meanwhile: processes that were left
/// alone, or stopped as well, may be anywhere in their turn.
pub struct Renewed<T, F> {
    start: F,
    current: Option<T>,
    pulse: Pulse,
}

impl<T, F: Fn() -> Result<T>> Renewed<T, F> {
    /// Makes the first one.
    ///
    /// # Errors
    /// As `start`.
    pub fn start(start: F) -> Result<Self> {
        let mut renewed = Self {
            start,
            current: None,
            pulse: Pulse::start(),
        };
        renewed.turn(|_| Ok(()))?;
        Ok(renewed)
    }

    /// Does a turn that this program was not stopped in. What comes of others is thrown away, so a turn has to
    /// return all that it measures.
    ///
    /// # Errors
    /// As `turn`, and as `start`; [`Unread`](crate::exit::Unread).
    pub fn turn<R>(&mut self, mut turn: impl FnMut(&mut T) -> Result<R>) -> Result<R> {
        loop {
            expect_reader()?;
            let outcome = self.current().and_then(&mut turn);
            let stopped = self.pulse.longest_pause();
            if stopped < STOPPED {
                return outcome;
            }
            note(format_args!(
                "stopped for {:.0} s: what was measured meanwhile is measured again",
                stopped.as_secs_f64()
            ));
            self.current = None;
        }
    }

    fn current(&mut self) -> Result<&mut T> {
        Ok(match &mut self.current {
            Some(current) => current,
            none => none.insert((self.start)()?),
        })
    }
}

/// A busy machine makes nobody wait for as long.
const STOPPED: Duration = Duration::from_secs(1);

/// Beats while this process runs, in a thread of its own.
struct Pulse(Arc<Mutex<Beats>>);

struct Beats {
    last: Instant,
    longest_pause: Duration,
}

impl Pulse {
    fn start() -> Self {
        let beats = Arc::new(Mutex::new(Beats {
            last: Instant::now(),
            longest_pause: Duration::ZERO,
        }));
        let watched = Arc::downgrade(&beats);
        thread::spawn(move || {
            while watched.upgrade().map(|beats| drop(beat(&beats))).is_some() {
                thread::sleep(TICK);
            }
        });
        Self(beats)
    }

    /// The longest pause since this was last asked.
    fn longest_pause(&self) -> Duration {
        // The thread may not have woken yet.
        mem::take(&mut beat(&self.0).longest_pause)
    }
}

fn beat(beats: &Mutex<Beats>) -> MutexGuard<'_, Beats> {
    let mut beats = beats.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    beats.longest_pause = beats.longest_pause.max(now - beats.last);
    beats.last = now;
    beats
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use anyhow::bail;

    use super::*;

    #[test]
    fn a_turn_that_was_stopped_is_done_again_with_another_one() {
        let started = Cell::new(0);
        let mut renewed = Renewed::start(|| {
            started.set(started.get() + 1);
            Ok(started.get())
        })
        .unwrap();
        let pulse = Arc::clone(&renewed.pulse.0);
        let outcome = renewed.turn(|&mut turn| {
            if turn == 1 {
                beat(&pulse).last -= STOPPED;
                bail!("no answer");
            }
            Ok(turn)
        });
        assert_eq!(outcome.unwrap(), 2);
        let error = renewed.turn(|_| -> Result<()> { bail!("no answer") });
        assert!(error.is_err());
        assert_eq!(started.get(), 2);
    }
}
