//! Reading and writing plans as TOML, and what may be wrong in them.

use std::fmt;

use strsim::levenshtein;

use super::Plan;
use super::settings::{Setting, Settings};

/// What is wrong with a plan, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// Its line, from 1 on, if it has one.
    pub line: Option<usize>,
    /// The cause, and the cure.
    pub what: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => self.what.fmt(f),
        }
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// If it is no TOML, was not in UTF-8 before it was read, says what a plan can't say, or names hosts that there are not.
    pub fn from_toml(text: &str) -> Result<Plan, PlanError> {
        if let Some(at) = text.find(['\0', char::REPLACEMENT_CHARACTER]) {
            return Err(PlanError {
                line: Some(line_at(text, at)),
                what: "this is no text in UTF-8: save the file as such".into(),
            });
        }
        let plan: Plan = toml::from_str(text).map_err(|error| PlanError {
            line: error.span().map(|span| line_at(text, span.start)),
            what: with_nearest(error.message()),
        })?;
        plan.check().map_err(|(table, index, what)| PlanError {
            line: line_of_table(text, table, index),
            what,
        })?;
        Ok(plan)
    }

    /// Changes one of the settings of all nodes, written as `name=value`.
    ///
    /// # Errors
    /// If there is no such setting, or nothing can work with this value.
    pub fn set(&mut self, assignment: &str) -> Result<(), PlanError> {
        let wrong = |what: String| PlanError { line: None, what };
        let Some((name, value)) = assignment.split_once('=') else {
            let what = format!("`{assignment}` sets nothing: write a name, `=` and a value");
            return Err(wrong(what));
        };
        let (name, value) = (name.trim(), value.trim());
        let value = match (value.parse(), value.parse()) {
            (Ok(number), _) => toml::Value::Integer(number),
            (_, Ok(on)) => toml::Value::Boolean(on),
            _ => toml::Value::String(value.into()),
        };
        let mut table = toml::Table::try_from(&self.settings).expect("settings are a table");
        table.insert(name.into(), value);
        let settings: Result<Settings, _> = table.try_into();
        let settings = settings.map_err(|error: toml::de::Error| {
            let range = Settings::named(name).and_then(Setting::cure);
            let cure = range.map(|range| format!("; {range}")).unwrap_or_default();
            let what = with_nearest(error.message().trim());
            wrong(format!("`{assignment}`: {what}{cure}"))
        })?;
        // Others that are unfit were so before, and have been said to be.
        match settings.unfit().filter(|setting| setting.name == name) {
            Some(setting) => Err(wrong(format!(
                "`{assignment}` can't work{}",
                setting.ending()
            ))),
            None => {
                self.settings = settings;
                Ok(())
            }
        }
    }

    /// Whether it can be run as it is, whoever has made or changed it.
    ///
    /// # Errors
    /// Those of [`Plan::from_toml`], without a line.
    pub fn expect_sound(&self) -> Result<(), PlanError> {
        let wrong = |(_, _, what)| PlanError { line: None, what };
        self.check().map_err(wrong)
    }

    /// Writes it as [`Plan::from_toml`] reads it.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a plan is made of tables, numbers and strings")
    }
}

/// Tells the one of the names in a message that is most like the first of them, which there is not.
fn with_nearest(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let (true, Some(wrong)) = (message.starts_with("unknown "), names.next()) else {
        return message.to_owned();
    };
    let nearest = names.min_by_key(|name| levenshtein(name, wrong));
    let is_like = |name: &&str| levenshtein(name, wrong) <= wrong.chars().count().div_ceil(3);
    match nearest.filter(is_like) {
        Some(name) => format!("{message}: is `{name}` meant?"),
        None => message.to_owned(),
    }
}

/// The line, from 1 on, that holds this byte.
fn line_at(text: &str, byte: usize) -> usize {
    text[..byte.min(text.len())].matches('\n').count() + 1
}

/// Where a table begins, or the one with this index in an array of tables.
fn line_of_table(text: &str, table: &str, index: usize) -> Option<usize> {
    let headers = [format!("[[{table}]]"), format!("[{table}]")];
    let is_header = |line: &str| headers.iter().any(|header| line.starts_with(header));
    let lines = text.lines().enumerate();
    let mut headers = lines.filter(|(_, line)| is_header(line.trim_start()));
    headers.nth(index).map(|(line, _)| line + 1)
}

#[cfg(test)]
mod tests {
    use super::super::{Congestion, Credit, Recovery};
    use super::*;

    #[test]
    fn a_drawn_plan_reads_back() {
        for seed in 0..2_000 {
            let plan = Plan::from_seed(seed);
            let text = plan.to_toml();
            assert_eq!(Plan::from_toml(&text), Ok(plan), "{text}");
        }
    }

    #[test]
    fn settings_are_set_one_by_one() {
        let mut plan = Plan::default();
        for assignment in [
            "recovery=go-back-n",
            " ack_every = 1 ",
            "window_max=64KiB",
            "ecn=true",
        ] {
            plan.set(assignment).unwrap();
        }
        let settings = &plan.settings;
        assert_eq!(settings.recovery, Some(Recovery::GoBackN));
        assert_eq!((settings.ack_every, settings.ecn), (Some(1), Some(true)));
        assert_eq!(settings.window_max, Some(crate::Size(64 << 10)));
        for (wrong, said) in [
            ("recovery", "a name, `=` and a value"),
            ("recovery=prayer", "`go-back-n`"),
            ("congestion=cubik", "is `cubic` meant?"),
            ("ack_evry=1", "is `ack_every` meant?"),
            ("colour=blue", "`colour`"),
            ("memory=0", "write memory = 64KiB to 1024GiB"),
            ("ack_every=0", "1 to 1000000"),
            ("ack_every=-1", "1 to 1000000"),
            ("memory=-1", "64KiB to 1024GiB"),
            ("send_queue=9223372036854775807", "1 to 1024GiB"),
            ("max_datagram=100KiB", "1200 to 65507"),
            ("keep_alive = 0ns", "1ms to 1000s"),
        ] {
            let error = plan.set(wrong).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn settings_with_names_as_values_tell_all_of_them() {
        fn tell<T: serde::Serialize>(name: &str, values: &[T]) {
            let told = Settings::named(name).unwrap().what;
            for value in values {
                let value = toml::Value::try_from(value).unwrap();
                assert!(told.contains(value.as_str().unwrap()), "{told}: {value}");
            }
        }
        tell("credit", Credit::ALL);
        tell("recovery", Recovery::ALL);
        tell("congestion", Congestion::ALL);
    }

    #[test]
    fn the_plan_in_the_documentation_runs() {
        let text = include_str!("../../../../docs/simulation.md");
        let (_, plan) = text.split_once("```toml").expect("there is a plan");
        let (plan, _) = plan.split_once("```").expect("it ends");
        let outcome = Plan::from_toml(plan).expect("it can be read").run();
        assert_eq!(outcome.failure, None);
    }

    #[test]
    fn plans_of_windows_editors_are_read_and_other_encodings_named() {
        let plan = Plan::from_toml("\u{feff}hosts = 3\r\n\r\n[[traffic]]\r\n");
        assert_eq!(plan.map(|plan| plan.hosts), Ok(3));
        for (text, line) in [("\u{fffd}\u{fffd}h\0", 1), ("hosts = 2\n\0", 2)] {
            let error = Plan::from_toml(text).unwrap_err();
            assert_eq!(error.line, Some(line), "{error}");
            assert!(error.what.contains("no text in UTF-8"), "{error}");
        }
    }

    const FAULT: &str = "hosts = 2\n\n[[fault]]\nloss = 0.1\n\n[[fault]]\nloss = 2.0\n";
    /// What is wrong, in which line, and what is said of it.
    const MISTAKES: &[(&str, Option<usize>, &str)] = &[
        ("hosts = 2\nhots = 3\n", Some(2), "hots"),
        ("hosts = 1\n", None, "write `hosts =`"),
        ("hosts = 2\n[network]\nrate = \"fast\"\n", Some(3), "1gbit"),
        ("hosts = 2\n[network]\nrate = 1.5\n", Some(3), "1gbit"),
        (
            "hosts = 2\n[[traffic]]\nto = 2\n",
            Some(2),
            "numbered 0 to 1",
        ),
        (FAULT, Some(6), "0.0 to 1.0"),
        (
            "hosts = 2\n[[fault]]\ncut = true\nagain = 2\n",
            Some(2),
            "write `until =`",
        ),
        (
            "hosts = 2\n[[traffic]]\nfrom = \"3-1\"\n",
            Some(3),
            "a range as in",
        ),
        (
            "hosts = 2\nseal = \"plain\"\n[[traffic]]\n[[fault]]\ntruncate = 0.1\n",
            Some(4),
            "write `seal = \"checked\"`",
        ),
        ("hosts = ", Some(1), ""),
        (
            "hosts = 2\n[settings]\nmemory = 65536\n[[traffic]]\nbytes = 65537\n",
            Some(4),
            "no room in a `memory` of 64KiB",
        ),
        (
            "hosts = 2\n[settings]\nmemory = 1\n",
            Some(2),
            "64KiB to 1024GiB",
        ),
        ("hosts = 2\n", None, "nothing is sent: write `[[traffic]]`"),
        (
            "hosts = 2\n[[traffic]]\nfrom = 1\nto = 1\n",
            Some(2),
            "host 1 sends nothing to itself",
        ),
        (
            "hosts = 2\n[[traffic]]\nrounds = 0\n",
            Some(2),
            "no message is sent: write `rounds =`",
        ),
        (
            "hosts = 2\n[[traffic]]\n[[tcp]]\nat = \"2ms\"\nuntil = \"2ms\"\n",
            Some(3),
            "it ends at 2ms and begins at 2ms",
        ),
        (
            "hosts = 2\n[[traffic]]\n[[fault]]\nat = \"2ms\"\nuntil = \"1ms\"\ncut = true\n",
            Some(3),
            "it ends at 1ms and begins at 2ms",
        ),
        (
            "hosts = 2\n[[traffic]]\n[[program]]\nbatch = 0\n",
            Some(3),
            "write `batch =` 1 or more",
        ),
        (
            "hosts = 2\n[[traffic]]\nbytes = \"999GiB\"\n",
            Some(2),
            "`bytes` of at most 4GiB",
        ),
        (
            "hosts = 2\n[[traffic]]\nbytes = \"2GiB\"\n",
            Some(2),
            "no room in a `memory` of 1GiB",
        ),
        (
            "hosts = 2\n[[traffic]]\n[[program]]\npost = 5\nbuffer = \"1GiB\"\n",
            Some(3),
            "of at most 4GiB",
        ),
        (
            "hosts = 3\n[[program]]\nhost = 2\n[[program]]\npost = 1\nbuffer = \"1KiB\"\n[[traffic]]\nbytes = 1025\n",
            Some(4),
            "have no room in its buffers of 1KiB: write `buffer =`",
        ),
        (
            "hosts = 2\n[[traffic]]\nbytes = \"2GiB\"\nto = 0\n[[program]]\nhost = 1\npost = 1\nbuffer = \"2GiB\"\n",
            Some(2),
            "for host 0)",
        ),
        (
            "hosts = 2\n[[traffic]]\nmessages = 4000000000\nrounds = 4000000000\n",
            Some(2),
            "write fewer `rounds`",
        ),
        (
            "hosts = 2\n[[traffic]]\nrounds = 1002\nevery = \"1000s\"\n",
            Some(2),
            "or a shorter `every`",
        ),
        (
            "hosts = 2\n[network]\nrate = \"0gbit\"\n[[traffic]]\n",
            Some(3),
            "`unlimited`",
        ),
        (
            "hosts = 2\n[network]\nrate = \"unlimited\"\n[[tcp]]\nuntil = \"1s\"\n",
            Some(4),
            "nothing limits TCP from host 0 to host 1",
        ),
        (
            "hosts = 2\n[network]\nalpha = -1.0\n[[traffic]]\n",
            Some(2),
            "write `alpha =` above 0.0",
        ),
        (
            "hosts = 2\n[network]\nqueue = 0\n[[traffic]]\n",
            Some(2),
            "a `queue` of 0, so that",
        ),
        (
            "hosts = 2\n[[traffic]]\n[[path]]\nqueue = \"1KiB\"\n",
            Some(3),
            "write at least 1500",
        ),
        (
            "hosts = 2\n[[traffic]]\n[[program]]\nstalls = \"~4ms every 0s\"\n",
            Some(4),
            "no time to run",
        ),
        (
            "hosts = 2\n[network]\nmark_above = \"8KiB\"\n[[traffic]]\n",
            Some(2),
            "`mark_above` could be of: write `shape = \"star\"` or \"dumbbell\"",
        ),
        (
            "hosts = 2\n[[traffic]]\n[network]\nshape = \"mesh\"\npause_above = \"8KiB\"\n",
            Some(3),
            "or leave `pause_above` away",
        ),
        (
            "hosts = 2\n[network]\nbuffer = \"8KiB\"\n[[traffic]]\n",
            Some(2),
            "a mesh has no switch that `buffer`",
        ),
        (
            "hosts = 2\n[settings]\nkeep_alive = \"2s\"\ndead_after = \"3s\"\n[[traffic]]\n",
            Some(2),
            "at most half of `dead_after`",
        ),
        (
            "hosts = 2\n[[traffic]]\n[[mishap]]\nat = \"1ms\"\nhost = 0\nwhat = \"stall\"\n",
            Some(3),
            "write `lasts =`",
        ),
        (
            "hosts = 2\n[[traffic]]\n[[mishap]]\nat = \"1ms\"\nhost = 0\nwhat = \"crash\"\nlasts = \"1s\"\n",
            Some(3),
            "leave `lasts` away",
        ),
        (
            "hosts = 2\n[[traffic]]\nrouns = 2\n",
            Some(3),
            "is `rounds` meant?",
        ),
        (
            "hosts = 2\n[[traffic]]\nname = \"a\\u001b[2J\"\n",
            Some(2),
            "has a control character",
        ),
        (
            "hosts = 2\n[[traffic]]\n[[program]]\npost = 4000000000\n",
            Some(3),
            "`post =` at most 100000",
        ),
        (
            "hosts = 2\n[[traffic]]\n[[program]]\nfair_queue = true\n",
            Some(3),
            "write `shape = \"star\"`",
        ),
        (
            "hosts = 2\n[[traffic]]\n[[program]]\ndrift_ppm = 9000000000000\n",
            Some(3),
            "`drift_ppm =` -900000 to 1000000",
        ),
        (
            "hosts = 2\n[settings]\ndead_after = \"1ms\"\n[network]\ndelay = \"2ms\"\n[[traffic]]\n",
            Some(2),
            "there and back takes 4ms, and `dead_after` is 1ms: write `dead_after =` above 4ms",
        ),
        (
            "hosts = 2\n[[traffic]]\n[network]\ndelay = \"4s\"\n",
            Some(3),
            "`connect_timeout` is 5s: write `connect_timeout =` above 8s",
        ),
        (
            "hosts = 2\n[settings]\nconnect_timeout = \"2s\"\n[network]\ndelay = \"1s\"\n[[traffic]]\n",
            Some(2),
            "no connection could be made",
        ),
        (
            "hosts = 2\n[[traffic]]\n[[program]]\ncall_cost = \"1000s\"\n",
            Some(3),
            "`call_cost =` of at most 1ms",
        ),
        (
            "hosts = 2\n[[traffic]]\n[[program]]\npacket_cost = \"2ms\"\n",
            Some(3),
            "`packet_cost =` of at most 1ms",
        ),
        (
            "hosts = 2\n[[traffic]]\n[[program]]\nwake = \"1000000s\"\n",
            Some(3),
            "`wake =` of at most 100s",
        ),
        (
            "hosts = 2\n[[traffic]]\n[[program]]\nstalls = \"1000s every 1s\"\n",
            Some(3),
            "`stalls =` of at most 100s",
        ),
        (
            "hosts = 2\n[[traffic]]\n[[fault]]\nlate = \"1ms\"\nburst_len = 3\n",
            Some(3),
            "this fault does nothing",
        ),
        (
            "hosts = 2\n[[traffic]]\n[[fault]]\ncut = true\nuntil = \"1ms\"\nevery = \"2ms\"\nagain = 4000000000\n",
            Some(3),
            "too often",
        ),
        (
            "hosts = 2\n[[traffic]]\n[[fault]]\ncut = true\nuntil = \"1s\"\nevery = \"1000s\"\nagain = 1000\n",
            Some(3),
            "write fewer `again`, or a shorter `every`",
        ),
        (
            "hosts = 2\n[[traffic]]\n[network]\nmtu = 1199\n",
            Some(3),
            "write `mtu =` at least 1200",
        ),
        (
            "hosts = 2\n[[traffic]]\n[[path]]\nmtu = 0\n",
            Some(3),
            "write `mtu =` at least 1200",
        ),
    ];

    #[test]
    fn mistakes_have_a_line_a_cause_and_a_cure() {
        for &(text, line, said) in MISTAKES {
            let error = Plan::from_toml(text).expect_err(text);
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.what.contains(said), "{text}: {error}");
        }
    }
}
