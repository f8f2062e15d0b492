//! Reads what `cargo test` prints, and counts.

use std::fmt;

/// How many tests ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tests that ran and held.
    pub passed: usize,
    /// Tests that did not.
    pub failed: usize,
    /// Tests that could not run here, each with its reason.
    pub skipped: usize,
}

impl Counts {
    /// Adds others.
    pub fn add(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            passed,
            failed,
            skipped,
        } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// One line worth showing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A suite has ended: its name, its counts, and the time it took.
    Suite(String, Counts, String),
    /// A test was skipped: its name and the reason.
    Skipped(String, String),
    /// Anything else that a reader wants to see.
    Line(String),
}

/// Follows the output of `cargo test -- --show-output`, line by line.
///
/// A test says that it can't run here by printing `skipped: why`. A test may run its own binary
/// again, whose output is then mixed in: of several results within one suite, the last one counts.
#[derive(Debug, Default)]
pub struct Reader {
    suite: String,
    result: Option<(Counts, String)>,
    test: String,
    skipped: Vec<(String, String)>,
    /// Those that say so in their attributes: `cargo test` counts them itself.
    ignored: Vec<Shown>,
    in_failures: bool,
    /// Suites that ended without a result.
    silent: Vec<String>,
    total: Counts,
}

impl Reader {
    /// Takes one line; returns what to show.
    pub fn line(&mut self, line: &str) -> Vec<Shown> {
        let text = line.trim_start();
        if let Some(suite) = suite_name(text) {
            let shown = self.end_suite();
            self.suite = suite;
            return shown;
        }
        if let Some(result) = result(text) {
            self.result = Some(result);
            self.in_failures = false;
            return Vec::new();
        }
        if let Some((test, why)) = ignored(text) {
            self.ignored.push(Shown::Skipped(test, why));
            return Vec::new();
        }
        if let Some(test) = section(text) {
            self.test = test.to_owned();
        }
        match text {
            "failures:" => self.in_failures = true,
            "successes:" => self.in_failures = false,
            _ => {}
        }
        if let Some(why) = text.strip_prefix("skipped: ") {
            let known = self.skipped.iter().any(|(test, _)| *test == self.test);
            if !known && !self.test.is_empty() {
                self.skipped.push((self.test.clone(), why.to_owned()));
            }
            return Vec::new();
        }
        let is_news = self.in_failures || is_news(text);
        is_news
            .then(|| Shown::Line(line.to_owned()))
            .into_iter()
            .collect()
    }

    /// Ends the last suite. `succeeded` is cargo's own verdict: each suite that died without a result
    /// counts as one failure, and what else made cargo fail as one if there is no other.
    pub fn finish(mut self, succeeded: bool) -> (Vec<Shown>, Counts) {
        let mut shown = self.end_suite();
        if !succeeded {
            let died = self.silent.iter();
            let died = died.map(|suite| Shown::Line(format!("{suite}: died without a result")));
            shown.extend(died);
            self.total.failed += self.silent.len();
            self.total.failed = self.total.failed.max(1);
        }
        (shown, self.total)
    }

    fn end_suite(&mut self) -> Vec<Shown> {
        self.test.clear();
        self.in_failures = false;
        let skipped = std::mem::take(&mut self.skipped);
        let ignored = std::mem::take(&mut self.ignored);
        let suite = std::mem::take(&mut self.suite);
        let Some((mut counts, time)) = self.result.take() else {
            self.silent.extend((!suite.is_empty()).then_some(suite));
            return Vec::new();
        };
        counts.passed = counts.passed.saturating_sub(skipped.len());
        counts.skipped += skipped.len();
        self.total.add(counts);
        let suite = Shown::Suite(suite, counts, time);
        let skipped = skipped
            .into_iter()
            .map(|(test, why)| Shown::Skipped(test, why));
        let suite = std::iter::once(suite);
        suite.chain(skipped).chain(ignored).collect()
    }
}

/// Of `Running unittests src/lib.rs (target/debug/deps/sabani-0123)`: `sabani: unittests src/lib.rs`.
fn suite_name(text: &str) -> Option<String> {
    if let Some(krate) = text.strip_prefix("Doc-tests ") {
        return Some(format!("{krate}: documentation"));
    }
    let (what, binary) = text.strip_prefix("Running ")?.rsplit_once(" (")?;
    let binary = binary.strip_suffix(')')?.rsplit('/').next()?;
    let (name, _hash) = binary.rsplit_once('-')?;
    Some(format!("{name}: {what}"))
}

/// Of `---- module::test stdout ----`: `module::test`.
fn section(text: &str) -> Option<&str> {
    text.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

/// Of `test name ... ignored, reason`: the name and the reason.
fn ignored(text: &str) -> Option<(String, String)> {
    let (test, rest) = text.strip_prefix("test ")?.split_once(" ... ignored")?;
    let why = rest.strip_prefix(", ").unwrap_or("ignored");
    Some((test.to_owned(), why.to_owned()))
}

/// Of `test result: ok. 5 passed; 0 failed; 1 ignored; …; finished in 0.01s`: the counts and the time.
fn result(text: &str) -> Option<(Counts, String)> {
    let (_, fields) = text.strip_prefix("test result: ")?.split_once(". ")?;
    let mut counts = Counts::default();
    let mut time = String::new();
    for field in fields.split("; ") {
        match field.split_once(' ')? {
            (number, "passed") => counts.passed = number.parse().ok()?,
            (number, "failed") => counts.failed = number.parse().ok()?,
            (number, "ignored") => counts.skipped = number.parse().ok()?,
            ("finished", rest) => time = rest.trim_start_matches("in ").to_owned(),
            _ => {}
        }
    }
    Some((counts, time))
}

/// What cargo and the compiler say, but not the output of tests that pass.
fn is_news(text: &str) -> bool {
    const NEWS: [&str; 6] = [
        "error",
        "warning",
        "-->",
        "Compiling ",
        "Finished ",
        "process didn't",
    ];
    NEWS.iter().any(|news| text.starts_with(news)) || text.ends_with(" FAILED")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
    Finished `test` profile [optimized + debuginfo] target(s) in 0.10s
     Running unittests src/lib.rs (target/debug/deps/sabani_udp-0af3)

running 3 tests
test one ... ok
test two ... ok
test three ... FAILED

successes:

---- one stdout ----
skipped: no `ip` here
skipped: again

---- two stdout ----
running 1 test
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

successes:
    one
    two

failures:

---- three stdout ----
it broke

failures:
    three

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.25s

   Doc-tests sabani_udp

running 2 tests
test whole ... ignored, minutes: --ignored
test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.00s
";

    fn read(output: &str, succeeded: bool) -> (Vec<Shown>, Counts) {
        let mut reader = Reader::default();
        let mut shown: Vec<_> = output.lines().flat_map(|line| reader.line(line)).collect();
        let (rest, counts) = reader.finish(succeeded);
        shown.extend(rest);
        (shown, counts)
    }

    #[test]
    fn suites_are_counted_and_skipped_tests_have_not_passed() {
        let (shown, counts) = read(OUTPUT, false);
        assert_eq!(counts.to_string(), "2 passed, 1 failed, 2 skipped");
        let skipped = Shown::Skipped("one".into(), "no `ip` here".into());
        assert!(shown.contains(&skipped), "{shown:?}");
        assert!(shown.contains(&Shown::Line("it broke".into())));
        assert!(!shown.contains(&Shown::Line("running 1 test".into())));
        let [.., Shown::Suite(name, _, time), ignored] = &shown[..] else {
            panic!("{shown:?}");
        };
        let why = "minutes: --ignored".into();
        assert_eq!(*ignored, Shown::Skipped("whole".into(), why));
        assert_eq!(
            (&name[..], &time[..]),
            ("sabani_udp: documentation", "1.00s")
        );
    }

    #[test]
    fn a_suite_that_dies_has_failed() {
        let died = "     Running tests/x.rs (target/debug/deps/x-1)\nrunning 1 test\n";
        let (_, counts) = read(died, false);
        assert_eq!(counts.failed, 1);
        // Each of them, beside tests that failed, and whichever comes first.
        let (shown, counts) = read(&[died, OUTPUT, died].concat(), false);
        assert_eq!(counts.to_string(), "2 passed, 3 failed, 2 skipped");
        let named = |shown: &&Shown| matches!(shown, Shown::Line(line) if line == "x: tests/x.rs: died without a result");
        assert_eq!(shown.iter().filter(named).count(), 2, "{shown:?}");
        // Of benches that `cargo test` runs once nothing is told.
        assert_eq!(read(died, true).1, Counts::default());
    }
}
