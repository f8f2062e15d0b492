//! How far something long has come.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::tell::note;

/// Where no bar can be drawn, as under a launcher, a line tells this often.
const EVERY: Duration = Duration::from_secs(10);

/// A bar on a terminal, else a line now and then, on standard error.
pub struct Progress {
    bar: ProgressBar,
    told: Instant,
}

impl Progress {
    /// Of so many steps; `template` is that of the bar.
    pub fn new(steps: u64, template: &str) -> Self {
        let style = ProgressStyle::with_template(template);
        let bar = ProgressBar::new(steps).with_style(style.expect("a template of ours"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self {
            bar,
            told: Instant::now(),
        }
    }

    /// So many are done, and this is being done.
    pub fn set(&mut self, done: u64, doing: &str) {
        self.bar.set_position(done);
        self.bar.set_message(doing.to_owned());
        if self.bar.is_hidden() && self.told.elapsed() >= EVERY {
            self.told = Instant::now();
            let percent = 100 * done / self.bar.length().unwrap_or(0).max(1);
            note(format_args!("{percent} %  {doing}"));
        }
    }

    /// All is done.
    pub fn end(self) {
        self.bar.finish_and_clear();
    }
}
