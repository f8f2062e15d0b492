//! What people see while files move.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{BinaryBytes, HumanCount, ProgressBar, ProgressStyle};

/// A progress bar on the terminal, if there is one, and the figures for a summary.
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    files: AtomicU64,
    files_known: AtomicU64,
    /// Bytes that were moved, in contrast to those that were there already.
    moved: AtomicU64,
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

    /// Bytes were moved.
    pub fn moved(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
        self.bar.inc(bytes);
    }

    /// Bytes need not be moved, because they are there.
    pub fn spared(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// Bytes must be moved again.
    pub fn undone(&self, bytes: u64) {
        self.bar.dec(bytes);
    }

    /// A file is where it should be.
    pub fn file_done(&self) {
        let files = self.files.fetch_add(1, Ordering::Relaxed) + 1;
        self.bar
            .set_message(match self.files_known.load(Ordering::Relaxed) {
                0 => count_files(files),
                known => format!("{}/{}", HumanCount(files), count_files(known)),
            });
    }

    /// Files that are where they should be.
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// Bytes moved.
    pub fn bytes(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Tells the user something, above the bar.
    pub fn note(&self, text: impl fmt::Display) {
        self.bar.suspend(|| eprintln!("sabani: {text}"));
    }

    /// Takes the bar away, and sums up what was `done` ("sent", say).
    pub fn finish(&self, done: &str) {
        self.bar.finish_and_clear();
        let bytes = self.bytes();
        let files = count_files(self.files());
        eprint!("sabani: {done} {files}; {} moved", BinaryBytes(bytes));
        // A receiver, who does not know how much there is, waits for most of its time.
        let is_sender = self.bar.length().is_some();
        if is_sender && bytes > 0 {
            let seconds = self.started.elapsed().as_secs_f64();
            let rate = BinaryBytes((bytes as f64 / seconds.max(1e-3)) as u64);
            eprint!(" in {seconds:.1} s, {rate}/s");
        }
        eprintln!();
    }
}

/// `1 file`, `2 files`.
pub fn count_files(files: u64) -> String {
    let plural = if files == 1 { "" } else { "s" };
    format!("{} file{plural}", HumanCount(files))
}
