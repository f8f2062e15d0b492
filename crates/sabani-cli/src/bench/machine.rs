//! What a run was made on: at the head of its results, for figures say little without it.

use std::{
    env, fs, thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use serde::Serialize;

use crate::report::Reports;

/// How long others are watched before anything is measured.
const WATCH: Duration = Duration::from_millis(300);
/// The part of the cores that others may use without a warning.
const BUSY: f64 = 0.1;

/// The machine and the command.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    bench: &'static str,
    kernel: String,
    processor: String,
    /// Cores that this process may use.
    cores: usize,
    /// When it began (UTC).
    date: String,
    command: String,
    /// The part of the cores to be measured on that others used just before.
    #[serde(skip_serializing_if = "Option::is_none")]
    others: Option<f64>,
}

impl Machine {
    /// This one, now.
    pub fn here() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let words: Vec<_> = env::args().map(|word| quoted(&word)).collect();
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            bench: "machine",
            kernel: read("/proc/sys/kernel/osrelease").trim().into(),
            processor: processor(&read("/proc/cpuinfo")),
            cores: sabani_ring::allowed().len(),
            date: date(since.unwrap_or_default().as_secs()),
            command: words.join(" "),
            others: None,
        }
    }

    /// The same, once it is known what others use of these cores.
    pub fn watched(self, cores: &[usize]) -> Self {
        let ticks = || Ticks::read(&fs::read_to_string("/proc/stat").unwrap_or_default(), cores);
        let before = ticks();
        thread::sleep(WATCH);
        Self {
            others: ticks().busy_since(before),
            ..self
        }
    }

    /// Puts it at the head of what is measured.
    ///
    /// # Errors
    /// If an output fails.
    pub fn head(&self, reports: &mut Reports) -> Result<()> {
        reports.head(self.lines(), &serde_json::to_string(self)?)
    }

    fn lines(&self) -> Vec<String> {
        let Self {
            kernel,
            processor,
            cores,
            date,
            command,
            ..
        } = self;
        let mut lines = vec![
            format!("Linux {kernel}; {processor}; cores: {cores}; {date}"),
            command.clone(),
        ];
        if let Some(others) = self.others.filter(|&others| others > BUSY) {
            lines.push(format!(
                "warning: others use {:.0} % of the cores that are measured on: figures are worse than the \
                 machine's, and spread; ratios, formed turn by turn, suffer less",
                others * 100.0
            ));
        }
        lines
    }
}

/// What some cores have been at since the system was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    idle: u64,
}

impl Ticks {
    /// Adds up the lines of these cores: user, nice, system, idle, iowait, irq, softirq, steal.
    fn read(stat: &str, cores: &[usize]) -> Self {
        let mut all = Ticks::default();
        for line in stat.lines() {
            let mut words = line.split_whitespace();
            let core = words.next().and_then(|name| name.strip_prefix("cpu"));
            if !core.is_some_and(|core| core.parse().is_ok_and(|core| cores.contains(&core))) {
                continue;
            }
            for (column, ticks) in words.take(8).enumerate() {
                let ticks: u64 = ticks.parse().unwrap_or(0);
                match column {
                    3 | 4 => all.idle += ticks,
                    _ => all.busy += ticks,
                }
            }
        }
        all
    }

    /// The part of the time since then in which they were busy.
    fn busy_since(self, before: Self) -> Option<f64> {
        let busy = self.busy.checked_sub(before.busy)? as f64;
        let idle = self.idle.checked_sub(before.idle)? as f64;
        (busy + idle > 0.0).then(|| busy / (busy + idle))
    }
}

/// The name of the first processor that has one.
fn processor(cpuinfo: &str) -> String {
    let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let mut names = fields.filter(|(field, _)| field.trim() == "model name");
    let name = names.next().map_or(env::consts::ARCH, |(_, name)| name);
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_=+./,:@%".contains(letter);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Seconds since 1970 as RFC 3339 has them. Years begin in March, so that leap days end them.
fn date(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = 400 * era + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_772_323_199, "2026-02-28T23:59:59Z"),
            (1_795_399_265, "2026-11-23T02:01:05Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(date(seconds), expected);
        }
    }

    #[test]
    fn only_the_cores_that_are_measured_on_count() {
        let before = Ticks::read("cpu  9 9 9 9\ncpu0 10 0 5 80 5\ncpu1 7 7 7 7\n", &[0]);
        let after = Ticks::read("cpu0 12 0 6 86 6\ncpu1 99 7 7 7\nintr 5\n", &[0]);
        assert_eq!(before, Ticks { busy: 15, idle: 85 });
        assert_eq!(after.busy_since(before), Some(0.3));
        assert_eq!(before.busy_since(before), None);
    }

    #[test]
    fn names_and_words_are_readable() {
        assert_eq!(
            processor("x: y\nmodel name\t: AMD  EPYC\nmodel name\t: b"),
            "AMD EPYC"
        );
        assert_eq!(processor(""), env::consts::ARCH);
        assert_eq!(quoted("--sizes=4,64k"), "--sizes=4,64k");
        assert_eq!(quoted("[a][b's]"), r"'[a][b'\''s]'");
    }

    #[test]
    fn the_head_warns_of_others() {
        let idle = Machine::here();
        let busy = Machine {
            others: Some(0.34),
            ..idle.clone()
        };
        assert_eq!(idle.lines().len(), 2);
        assert!(busy.lines()[2].contains("others use 34 %"));
    }
}
