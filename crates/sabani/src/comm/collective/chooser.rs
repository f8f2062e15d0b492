//! Which algorithm a call uses: what the program or its user wants, else what is best on a network that
//! was measured, else what the rule says.

use std::collections::HashSet;
use std::fmt::{self, Display};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sabani_collective::{Choice, Collective, Context, Hosts, Overrides, choose};
use sabani_model::choose::{Found, Lookup, length};

use crate::comm::locked;

/// What decides in a row of collectives: the same on all ranks.
#[derive(Clone, Default)]
pub struct Chooser {
    /// What the program or its user wants.
    pub overrides: Overrides,
    /// What was found to be best.
    pub table: Arc<Table>,
}

/// A network's table.
#[derive(Default)]
pub struct Table {
    pub lookup: Lookup,
    /// Where it is from.
    pub source: String,
}

/// What was chosen, and what for.
pub struct Chosen {
    pub choice: Choice,
    /// The table's line, if there is one.
    found: Option<Found>,
    is_wanted: bool,
}

impl Chooser {
    /// Chooses for a call.
    pub fn choose(&self, collective: Collective, cx: &Context) -> Chosen {
        let found = self.table.lookup.find(collective, cx);
        let best = match found {
            Some(found) => found.choice,
            None => choose(collective, cx),
        };
        let choice = self.overrides.apply(collective, cx, best);
        Chosen {
            choice,
            found,
            is_wanted: choice != best,
        }
    }

    /// Why that was chosen, in words.
    fn reason(&self, chosen: &Chosen) -> String {
        let table = &self.table;
        match chosen.found {
            _ if chosen.is_wanted => "as wanted".into(),
            Some(_) => format!("by {}", table.source),
            None if table.lookup.is_empty() => "by the rule".into(),
            None => format!("by the rule: {} has nothing that fits", table.source),
        }
    }
}

impl Chosen {
    /// What the table has to say of it, in words.
    fn expected(&self, collective: Collective, cx: &Context) -> String {
        let by_table = self.found.filter(|_| !self.is_wanted);
        let Some(found) = by_table.filter(|found| found.expected_ns >= 1.0) else {
            let bytes = length(collective, cx).filter(|_| collective != Collective::Barrier);
            return bytes.map_or_else(String::new, |bytes| format!(": first with {bytes} B"));
        };
        let expected = nanoseconds(found.expected_ns);
        let beside = match self.choice == choose(collective, cx) {
            true => "; the rule says the same".into(),
            false => format!(
                ", and {:.1?} with what the rule says",
                nanoseconds(found.rule_ns)
            ),
        };
        let (ranks, bytes) = (found.ranks, found.bytes);
        format!(": {expected:.1?} expected with {ranks} ranks and {bytes} B{beside}")
    }
}

fn nanoseconds(ns: f64) -> Duration {
    Duration::from_nanos(ns as u64)
}

/// Tells the user on standard error what was chosen, and why: each thing once.
#[derive(Default)]
pub struct Explainer {
    said: Mutex<HashSet<String>>,
    /// Collectives are its own job's, of which the user wants to hear nothing.
    silent: AtomicBool,
}

impl Explainer {
    /// Says nothing of collectives, or does so again.
    pub fn set_silent(&self, silent: bool) {
        self.silent.store(silent, Ordering::Relaxed);
    }

    /// Says something, unless it was said before.
    pub fn note(&self, text: impl Display) {
        self.note_with(text, "");
    }

    /// Says something and its details, unless it was said before, whatever the details.
    fn note_with(&self, text: impl Display, details: impl Display) {
        let text = text.to_string();
        let mut said = locked(&self.said);
        if !said.contains(&text) {
            // Nobody may read it any more, and the program has other things to do.
            let _ = writeln!(io::stderr(), "sabani: {text}{details}");
            said.insert(text);
        }
    }

    /// Says what a call of several ranks uses. Calls that differ in length only are said once for each choice.
    pub fn explain(
        &self,
        chooser: &Chooser,
        chosen: &Chosen,
        collective: Collective,
        cx: &Context,
    ) {
        if cx.size == 1 || self.silent.load(Ordering::Relaxed) {
            return;
        }
        let (ranks, choice, reason) = (Ranks(cx), chosen.choice, chooser.reason(chosen));
        self.note_with(
            format_args!("{collective}, {ranks}: {choice}, {reason}"),
            chosen.expected(collective, cx),
        );
    }
}

/// How many ranks there are, on how many hosts.
struct Ranks<'a>(&'a Context<'a>);

impl Display for Ranks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: usize, what: &str| match count {
            1 => format!("1 {what}"),
            _ => format!("{count} {what}s"),
        };
        let hosts = self.0.hosts.map_or(self.0.size, Hosts::len);
        write!(
            f,
            "{} on {}",
            count(self.0.size, "rank"),
            count(hosts, "host")
        )
    }
}

#[cfg(test)]
mod tests {
    use sabani_collective::{Counts, Hosts};
    use sabani_model::choose::Row;

    use super::*;

    fn chooser(algorithms: &str) -> Chooser {
        with_line("split_binary", algorithms)
    }

    /// A table of one line, with this choice, and what is wanted.
    fn with_line(choice: &str, algorithms: &str) -> Chooser {
        let row = Row {
            collective: "bcast".into(),
            ranks: 4,
            hosts: 4,
            bytes: 0,
            choice: choice.into(),
            expected_ns: 1e6,
            rule_ns: 2e6,
        };
        Chooser {
            overrides: algorithms.parse().unwrap(),
            table: Arc::new(Table {
                lookup: Lookup::new(&[row]).unwrap(),
                source: "n.json".into(),
            }),
        }
    }

    /// The algorithm for a broadcast among hosts with one rank each, and why.
    fn bcast(chooser: &Chooser, ranks: usize) -> (&'static str, String) {
        let hosts = Hosts::new(&(0..ranks).collect::<Vec<_>>());
        let cx = Context {
            hosts: Some(&hosts),
            ..Context::new(ranks, Counts::Vector(1))
        };
        let chosen = chooser.choose(Collective::Bcast, &cx);
        let expected = chosen.expected(Collective::Bcast, &cx);
        let reason = chooser.reason(&chosen) + &expected;
        (chosen.choice.algorithm.name, reason)
    }

    #[test]
    fn wishes_go_before_the_table_and_the_table_before_the_rule() {
        let (name, why) = bcast(&chooser("bcast=chain"), 4);
        assert_eq!((name, &why[..]), ("chain", "as wanted: first with 1 B"));
        let (name, why) = bcast(&chooser(""), 4);
        assert_eq!(name, "split_binary");
        let expected = "by n.json: 1.0ms expected with 4 ranks and 0 B";
        let beside = "and 2.0ms with what the rule says";
        assert_eq!(why, format!("{expected}, {beside}"));
        let (name, why) = bcast(&with_line("knomial:radix=4", ""), 4);
        assert_eq!(name, "knomial");
        assert_eq!(why, format!("{expected}; the rule says the same"));
        let (name, why) = bcast(&chooser(""), 100);
        assert_eq!(name, "knomial");
        assert!(why.contains("n.json has nothing that fits"), "{why}");
        let (name, why) = bcast(&Chooser::default(), 4);
        assert_eq!((name, &why[..]), ("knomial", "by the rule: first with 1 B"));
    }

    #[test]
    fn parameters_alone_change_the_tables_choice() {
        let chooser = chooser("bcast=:window=3");
        let (name, why) = bcast(&chooser, 4);
        assert_eq!(
            (name, &why[..]),
            ("split_binary", "as wanted: first with 1 B")
        );
    }
}
