//! How long something takes that takes longer at some times than at others, and how often others
//! have the processor.

use std::fmt;
use std::str::FromStr;

use crate::units::{Time, as_text};
use crate::{Rng, US};

/// How long something takes: a sum of parts. `20us` takes that long each time, `~20us` that long in
/// the mean (exponentially distributed), `1% ~4ms` only one time in a hundred; `20us + 1% ~4ms` is
/// the sum of both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delay {
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    /// How often it counts.
    percent: f64,
    /// Exponentially distributed.
    spread: bool,
    /// How long it is, in the mean.
    time: Time,
}

impl Delay {
    /// The same each time.
    pub fn fixed(ns: u64) -> Self {
        let part = Part {
            percent: 100.0,
            spread: false,
            time: Time(ns),
        };
        Delay { parts: vec![part] }
    }

    /// How long it takes this time, in nanoseconds. What is certain draws no number.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let parts = self.parts.iter();
        parts.map(|part| part.draw(rng)).sum()
    }

    /// How long it takes in the mean, in nanoseconds.
    pub fn mean_ns(&self) -> u64 {
        let parts = self.parts.iter();
        parts
            .map(|part| (part.time.0 as f64 * part.percent / 100.0) as u64)
            .sum()
    }

    /// How long it takes where all its parts count, and each as long as in the mean, in nanoseconds.
    pub(crate) fn most_ns(&self) -> u64 {
        let parts = self.parts.iter();
        parts.fold(0, |sum, part| sum.saturating_add(part.time.0))
    }
}

impl Part {
    fn draw(&self, rng: &mut Rng) -> u64 {
        if self.percent < 100.0 && !rng.chance(self.percent / 100.0) {
            return 0;
        }
        match self.spread {
            true => (self.time.0 as f64 * rng.exponential()) as u64,
            false => self.time.0,
        }
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                f.write_str(" + ")?;
            }
            if part.percent < 100.0 {
                write!(f, "{}% ", part.percent)?;
            }
            if part.spread {
                f.write_str("~")?;
            }
            part.time.fmt(f)?;
        }
        Ok(())
    }
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split('+').map(|part| part.trim().parse());
        let parts = parts.collect::<Result<_, String>>().map_err(|why| {
            format!("{why}; a delay is a sum as in `20us + ~30us + 1% ~4ms`: always, in the mean, sometimes")
        })?;
        Ok(Delay { parts })
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (percent, rest) = match text.split_once('%') {
            None => (100.0, text),
            Some((percent, rest)) => {
                let percent = percent.trim().parse::<f64>().ok();
                let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
                (percent.ok_or("percent are 0 to 100")?, rest.trim())
            }
        };
        let time = rest.strip_prefix('~');
        Ok(Part {
            percent,
            spread: time.is_some(),
            time: time.unwrap_or(rest).parse()?,
        })
    }
}

as_text!(
    Delay,
    "a delay in quotes, as in \"20us\" or \"20us + ~30us + 1% ~4ms\""
);

/// Moments at which somebody else has the processor, as on a machine that many share: for so long,
/// so often. Written as `~4ms every 50ms`.
#[derive(Clone, Debug, PartialEq)]
pub struct Stalls {
    /// How long one lasts.
    pub lasts: Delay,
    /// From the end of one to the beginning of the next, in the mean; exponentially distributed, at
    /// least 1 µs.
    pub every: Time,
}

impl fmt::Display for Stalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} every {}", self.lasts, self.every)
    }
}

impl FromStr for Stalls {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (lasts, every) = text
            .split_once(" every ")
            .ok_or_else(|| format!("`{text}` does not say how often, as in `~4ms every 50ms`"))?;
        let every: Time = every.parse()?;
        if every == Time(0) {
            return Err(format!(
                "`{text}` leaves a process no time to run: write how long there is none, as in `~4ms every 50ms`"
            ));
        }
        Ok(Stalls {
            lasts: lasts.parse()?,
            every: every.max(Time(US)),
        })
    }
}

as_text!(Stalls, "stalls in quotes, as in \"~4ms every 50ms\"");

/// The stalls of one process, in order of time.
#[derive(Clone, Debug)]
pub(crate) struct StallClock {
    stalls: Stalls,
    rng: Rng,
    begins_ns: u64,
    ends_ns: u64,
}

impl StallClock {
    /// The first one begins after `now_ns`.
    pub fn new(stalls: Stalls, seed: u64, now_ns: u64) -> Self {
        let mut clock = StallClock {
            stalls,
            rng: Rng::new(seed),
            begins_ns: 0,
            ends_ns: now_ns,
        };
        clock.advance();
        clock
    }

    fn advance(&mut self) {
        let apart_ns = self.stalls.every.0 as f64 * self.rng.exponential();
        self.begins_ns = self.ends_ns + apart_ns as u64;
        self.ends_ns = self.begins_ns + self.stalls.lasts.draw(&mut self.rng);
    }

    /// When a process that would run now does run. Time never goes back.
    pub fn runs_at(&mut self, now_ns: u64) -> u64 {
        while self.ends_ns <= now_ns {
            self.advance();
        }
        if self.begins_ns <= now_ns {
            self.ends_ns
        } else {
            now_ns
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MS, SEC};

    #[test]
    fn what_is_written_reads_back() {
        for text in ["20us", "~30us", "20us + ~30us + 1% ~4ms", "0.5% 1ms"] {
            let delay: Delay = text.parse().expect(text);
            assert_eq!(delay.to_string(), text);
        }
        let stalls: Stalls = "1ms + ~4ms every 50ms".parse().expect("stalls");
        assert_eq!(stalls.to_string(), "1ms + ~4ms every 50ms");
    }

    #[test]
    fn mistakes_are_explained() {
        for text in ["", "20", "+ 20us", "101% 4ms", "many% 4ms", "~"] {
            let why = text.parse::<Delay>().expect_err(text);
            assert!(why.contains("20us + ~30us + 1% ~4ms"), "{why}");
        }
        assert!("4ms".parse::<Stalls>().is_err());
        let why = "~4ms every 0ms".parse::<Stalls>().unwrap_err();
        assert!(
            why.contains("no time to run") && why.contains("every 50ms"),
            "{why}"
        );
    }

    #[test]
    fn draws_have_the_mean_that_they_should_have() {
        let delay: Delay = "20us + ~30us + 1% ~4ms".parse().unwrap();
        assert_eq!(delay.mean_ns(), 90 * US);
        let mut rng = Rng::new(1);
        let count = 100_000;
        let draws: Vec<_> = (0..count).map(|_| delay.draw(&mut rng)).collect();
        let mean_ns = draws.iter().sum::<u64>() / count;
        assert!((85 * US..95 * US).contains(&mean_ns), "{mean_ns}");
        assert!(draws.iter().all(|&ns| ns >= 20 * US));
        assert!(draws.iter().any(|&ns| ns > 10 * MS));
    }

    #[test]
    fn stalls_take_their_part_of_the_time() {
        let mut clock = StallClock::new("~4ms every 36ms".parse().unwrap(), 1, 0);
        let moments = (0..100 * SEC).step_by(100_000);
        let (mut stalled, mut all) = (0, 0);
        for now_ns in moments {
            let runs_ns = clock.runs_at(now_ns);
            assert!(runs_ns >= now_ns);
            stalled += u64::from(runs_ns > now_ns);
            all += 1;
        }
        let percent = 100.0 * stalled as f64 / all as f64;
        assert!((9.0..11.0).contains(&percent), "{percent}");
    }
}
