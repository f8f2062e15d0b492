//! What people see while files move.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{BinaryBytes, HumanCount, ProgressBar, ProgressStyle};

use super::protocol::Bytes;
use crate::tell;
use crate::units::count;

/// A progress bar on the terminal, if there is one, and the figures for a summary.
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    files: AtomicU64,
    files_known: AtomicU64,
    moved: AtomicU64,
    spared: AtomicU64,
}

impl Progress {
    /// For a sender, who learns how much there is.
    pub fn of_sender() -> Self {
        let template = "{bar:30} {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  \
                        {msg}  {eta} left";
        Progress::new(ProgressBar::new(0), template)
    }

    /// For a receiver, who doesn't.
    pub fn of_receiver() -> Self {
        let template = "{spinner} {binary_bytes}  {binary_bytes_per_sec}  {msg}";
        Progress::new(ProgressBar::new_spinner(), template)
    }

    fn new(bar: ProgressBar, template: &str) -> Self {
        let style = ProgressStyle::with_template(template).expect("a template of ours");
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress {
            bar,
            started: Instant::now(),
            files: AtomicU64::new(0),
            files_known: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            spared: AtomicU64::new(0),
        }
    }

    /// There is one more file to move.
    pub fn expect(&self, bytes: u64) {
        self.files_known.fetch_add(1, Ordering::Relaxed);
        self.bar.inc_length(bytes);
    }

    /// A file turned out to have another length than expected.
    pub fn correct(&self, expected: u64, found: u64) {
        self.bar.inc_length(found.saturating_sub(expected));
        self.bar.dec_length(expected.saturating_sub(found));
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

    /// A file is where it should be.
    pub fn file_done(&self) {
        let files = self.files.fetch_add(1, Ordering::Relaxed) + 1;
        self.bar
            .set_message(match self.files_known.load(Ordering::Relaxed) {
                0 => count(files, "file"),
                known => format!("{}/{}", HumanCount(files), count(known, "file")),
            });
    }

    /// Files that are where they should be.
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
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
        let files = count(self.files(), "file");
        // A receiver, who does not know how much there is, waits for most of its time.
        let is_sender = self.bar.length().is_some();
        let time = is_sender.then(|| self.started.elapsed());
        tell::note(format_args!(
            "sabani: {done} {files}: {}",
            sum_up(self.bytes(), time)
        ));
    }
}

/// What was moved, in what time if that tells anything, and what was there already.
pub fn sum_up(bytes: Bytes, time: Option<Duration>) -> String {
    let mut text = format!("{} moved", BinaryBytes(bytes.moved));
    if let Some(time) = time.filter(|_| bytes.moved > 0) {
        let seconds = time.as_secs_f64();
        let rate = BinaryBytes((bytes.moved as f64 / seconds.max(1e-3)) as u64);
        text.push_str(&format!(" in {seconds:.1} s ({rate}/s)"));
    }
    if bytes.spared > 0 {
        let (spared, sum) = (BinaryBytes(bytes.spared), BinaryBytes(bytes.sum()));
        text.push_str(&format!(", {spared} there already, {sum} in all"));
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
        let time = Some(Duration::from_secs(2));
        for (bytes, time, text) in [
            (mib(48, 0), None, "48.00 MiB moved"),
            (mib(48, 0), time, "48.00 MiB moved in 2.0 s (24.00 MiB/s)"),
            (
                mib(0, 16),
                time,
                "0 B moved, 16.00 MiB there already, 16.00 MiB in all",
            ),
            (
                mib(48, 16),
                time,
                "48.00 MiB moved in 2.0 s (24.00 MiB/s), 16.00 MiB there already, 64.00 MiB in all",
            ),
        ] {
            assert_eq!(sum_up(bytes, time), text);
        }
    }
}
