//! How far something long has come.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use crate::tell::note;

/// Where no bar can be drawn, as under a launcher, a line tells this often.
const EVERY: Duration = Duration::from_secs(10);

/// A bar on a terminal, else a line now and then, on standard error. When it is dropped it is gone.
pub struct Progress {
    bar: ProgressBar,
    teller: Option<Teller>,
}

/// Who tells lines, until the sender is dropped.
struct Teller {
    until: Sender<()>,
    thread: JoinHandle<()>,
}

impl Progress {
    /// Of so many steps; `template` is that of the bar.
    pub fn new(steps: u64, template: &str) -> Self {
        let style = ProgressStyle::with_template(template);
        let bar = ProgressBar::new(steps).with_style(style.expect("a template of ours"));
        bar.enable_steady_tick(Duration::from_millis(200));
        let teller = bar.is_hidden().then(|| tell(bar.clone()));
        Self { bar, teller }
    }

    /// So many are done, and this is being done.
    pub fn set(&self, done: u64, doing: &str) {
        self.bar.set_position(done);
        self.bar.set_message(doing.to_owned());
    }

    /// Does something that tells people of something else: not into the bar.
    pub fn beside<T>(&self, tell: impl FnOnce() -> T) -> T {
        self.bar.suspend(tell)
    }

    /// All is done, and no line comes any more.
    pub fn end(self) {
        if let Some(Teller { until, thread }) = self.teller {
            drop(until);
            thread.join().expect("it only tells lines");
        }
        self.bar.finish_and_clear();
    }
}

/// Tells lines, also while a single step takes long.
fn tell(bar: ProgressBar) -> Teller {
    let (until, dropped) = mpsc::channel();
    let thread = thread::spawn(move || {
        while dropped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
            let doing = bar.message();
            match bar.length() {
                Some(steps) if steps > 1 => {
                    note(format_args!("{} %  {doing}", 100 * bar.position() / steps));
                }
                _ => note(format_args!(
                    "{doing}, {} so far",
                    HumanDuration(bar.elapsed())
                )),
            }
        }
    });
    Teller { until, thread }
}
