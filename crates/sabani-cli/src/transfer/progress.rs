//! What people see while files move.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{
    BinaryBytes, HumanCount, HumanDuration, ProgressBar, ProgressState, ProgressStyle,
};

use super::protocol::{Bytes, Files};
use crate::tell;
use crate::units::count;

/// A progress bar on the terminal, if there is one, and the figures for a summary.
pub struct Progress {
    bar: ProgressBar,
    checks: Arc<Checks>,
    started: Instant,
    files_moved: AtomicU64,
    files_spared: AtomicU64,
    files_known: AtomicU64,
    moved: AtomicU64,
    spared: AtomicU64,
}

/// Files of which is read what is there already: nothing moves meanwhile.
#[derive(Debug, Default)]
struct Checks {
    /// Bytes to read.
    all: AtomicU64,
    /// Bytes of them that were.
    done: AtomicU64,
}

impl Checks {
    /// How far they are, if there are any.
    fn shown(&self) -> Option<String> {
        let all = self.all.load(Ordering::Relaxed);
        let done = self.done.load(Ordering::Relaxed);
        let percent = (100 * u128::from(done)).checked_div(all.into())?;
        Some(format!("checking what is there: {percent} %"))
    }
}

/// One of the checks, until it is dropped.
pub struct Check {
    checks: Arc<Checks>,
    all: u64,
    done: u64,
}

impl Check {
    /// So many bytes have been read of it.
    pub fn reach(&mut self, bytes: u64) {
        let more = bytes.min(self.all).saturating_sub(self.done);
        self.done += more;
        self.checks.done.fetch_add(more, Ordering::Relaxed);
    }
}

impl Drop for Check {
    fn drop(&mut self) {
        self.checks.done.fetch_sub(self.done, Ordering::Relaxed);
        self.checks.all.fetch_sub(self.all, Ordering::Relaxed);
    }
}

/// What a sender shows.
const OF_SENDER: &str =
    "{bar:30} {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {msg}  {doing}";

/// A template, with what is being done at its end.
fn style(template: &str, checks: &Arc<Checks>) -> ProgressStyle {
    let checks = checks.clone();
    let doing = move |state: &ProgressState, text: &mut dyn Write| {
        // A failure would only leave it out.
        let _ = match (checks.shown(), state.len()) {
            (Some(checks), _) => text.write_str(&checks),
            (None, Some(_)) if state.pos() > 0 => {
                write!(text, "{:#} left", HumanDuration(state.eta()))
            }
            _ => Ok(()),
        };
    };
    let style = ProgressStyle::with_template(template).expect("a template of ours");
    style.with_key("doing", doing)
}

impl Progress {
    /// For a sender, who learns how much there is.
    pub fn of_sender() -> Self {
        let bar = ProgressBar::new(0).with_message("nothing sent yet");
        Progress::new(bar, "{spinner} {msg}  {doing}")
    }

    /// For a receiver, who doesn't.
    pub fn of_receiver() -> Self {
        let template = "{spinner} {binary_bytes}  {binary_bytes_per_sec}  {msg}  {doing}";
        Progress::new(ProgressBar::new_spinner(), template)
    }

    fn new(bar: ProgressBar, template: &str) -> Self {
        let checks = Arc::<Checks>::default();
        bar.set_style(style(template, &checks));
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress {
            bar,
            checks,
            started: Instant::now(),
            files_moved: AtomicU64::new(0),
            files_spared: AtomicU64::new(0),
            files_known: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            spared: AtomicU64::new(0),
        }
    }

    /// There is one more file to move.
    pub fn expect(&self, bytes: u64) {
        self.files_known.fetch_add(1, Ordering::Relaxed);
        let is_first = bytes > 0 && self.bar.length() == Some(0);
        self.bar.inc_length(bytes);
        // Not before: of nothing all is done, so that the bar would begin full.
        if is_first {
            self.bar.set_style(style(OF_SENDER, &self.checks));
            self.bar.set_message("");
        }
    }

    /// A file turned out to have another length than expected.
    pub fn correct(&self, expected: u64, found: u64) {
        self.bar.inc_length(found.saturating_sub(expected));
        self.bar.dec_length(expected.saturating_sub(found));
    }

    /// So many bytes are to be read of what is there already.
    pub fn check(&self, bytes: u64) -> Check {
        self.checks.all.fetch_add(bytes, Ordering::Relaxed);
        Check {
            checks: self.checks.clone(),
            all: bytes,
            done: 0,
        }
    }

    /// Bytes are there.
    pub fn done(&self, bytes: Bytes) {
        self.moved.fetch_add(bytes.moved, Ordering::Relaxed);
        self.spared.fetch_add(bytes.spared, Ordering::Relaxed);
        self.bar.inc(bytes.sum());
    }

    /// They are no longer sure to be there.
    pub fn undone(&self, bytes: Bytes) {
        self.moved.fetch_sub(bytes.moved, Ordering::Relaxed);
        self.spared.fetch_sub(bytes.spared, Ordering::Relaxed);
        self.bar.dec(bytes.sum());
    }

    /// A file is where it should be, or was before.
    pub fn file_done(&self, spared: bool) {
        match spared {
            true => &self.files_spared,
            false => &self.files_moved,
        }
        .fetch_add(1, Ordering::Relaxed);
        let files = self.files().sum();
        self.bar
            .set_message(match self.files_known.load(Ordering::Relaxed) {
                0 => count(files, "file"),
                known => format!("{}/{}", HumanCount(files), count(known, "file")),
            });
    }

    /// Files that are where they should be.
    pub fn files(&self) -> Files {
        Files {
            moved: self.files_moved.load(Ordering::Relaxed),
            spared: self.files_spared.load(Ordering::Relaxed),
        }
    }

    /// Bytes that are there.
    pub fn bytes(&self) -> Bytes {
        Bytes {
            moved: self.moved.load(Ordering::Relaxed),
            spared: self.spared.load(Ordering::Relaxed),
        }
    }

    /// Tells the user something, above the bar.
    pub fn note(&self, text: impl fmt::Display) {
        self.bar
            .suspend(|| tell::note(format_args!("sabani: {text}")));
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Takes the bar away, and sums up what was `done` ("sent", say).
    pub fn finish(&self, done: &str) {
        self.clear();
        // A receiver, who does not know how much there is, waits for most of its time.
        let is_sender = self.bar.length().is_some();
        let time = is_sender.then(|| self.started.elapsed());
        tell::note(format_args!(
            "sabani: {done} {}",
            sum_up(self.files(), self.bytes(), time)
        ));
    }
}

/// What was moved, in what time if that tells anything, and what was there already. At both ends a file that was there
/// before, and bytes of one that was there in part, are none that were sent or received.
pub fn sum_up(files: Files, bytes: Bytes, time: Option<Duration>) -> String {
    let moved = count(files.moved, "file");
    let mut text = format!("{moved}: {} moved", BinaryBytes(bytes.moved));
    if let Some(time) = time.filter(|_| bytes.moved > 0) {
        let seconds = time.as_secs_f64();
        let rate = BinaryBytes((bytes.moved as f64 / seconds.max(1e-3)) as u64);
        text.push_str(&format!(" in {seconds:.1} s ({rate}/s)"));
    }
    if bytes.spared > 0 || files.spared > 0 {
        let (spared, sum) = (BinaryBytes(bytes.spared), BinaryBytes(bytes.sum()));
        let files = count(files.sum(), "file");
        text.push_str(&format!(", {spared} there already, {sum} in all ({files})"));
    }
    text
}

/// Files, folders and links: `one thing`, `2 things`.
pub fn count_things(things: u64) -> String {
    match things {
        1 => "one thing".into(),
        _ => format!("{} things", HumanCount(things)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_tell_what_moved_from_what_was_there() {
        let mib = |moved: u64, spared: u64| Bytes {
            moved: moved << 20,
            spared: spared << 20,
        };
        let files = |moved, spared| Files { moved, spared };
        let time = Some(Duration::from_secs(2));
        for (files, bytes, time, text) in [
            (files(1, 0), mib(48, 0), None, "1 file: 48.00 MiB moved"),
            (
                files(2, 0),
                mib(48, 0),
                time,
                "2 files: 48.00 MiB moved in 2.0 s (24.00 MiB/s)",
            ),
            (
                files(0, 3),
                mib(0, 16),
                time,
                "0 files: 0 B moved, 16.00 MiB there already, 16.00 MiB in all (3 files)",
            ),
            (
                files(1, 0),
                mib(48, 16),
                time,
                "1 file: 48.00 MiB moved in 2.0 s (24.00 MiB/s), 16.00 MiB there already, \
                 64.00 MiB in all (1 file)",
            ),
        ] {
            assert_eq!(sum_up(files, bytes, time), text);
        }
    }

    #[test]
    fn checks_are_shown_while_there_are_any() {
        let progress = Progress::of_receiver();
        let shown = || progress.checks.shown();
        let (mut one, other) = (progress.check(100), progress.check(100));
        one.reach(84);
        one.reach(30);
        assert_eq!(shown().as_deref(), Some("checking what is there: 42 %"));
        drop(other);
        assert_eq!(shown().as_deref(), Some("checking what is there: 84 %"));
        drop(one);
        assert_eq!(shown(), None);
    }
}
