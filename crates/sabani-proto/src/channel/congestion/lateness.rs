//! How late the timers come that pacing waits for: what was not sent meanwhile may be made up for.

/// At most so much is made up for: a process that waits for the next tick of 250 Hz waits for 4 ms.
const MOST_NS: f64 = 5e6;
/// Weight of one timer.
const WEIGHT: f64 = 1.0 / 4.0;
/// What is forgotten each time that no timer was waited for.
const FORGOTTEN: f64 = 1.0 / 16.0;

/// A timer that has come late, if anybody has waited for it: a sender with nothing to send has not.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    late_ns: u64,
    at_ns: u64,
}

/// The lateness of timers that come late as a rule: the lesser one of two, smoothed. To make up for a single one at
/// once would overflow the short queue of a path that is used in time otherwise.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    usual_ns: f64,
    /// That of the last one.
    last_ns: u64,
    suspect: Option<Suspect>,
}

impl Lateness {
    /// Time to make up for.
    pub fn usual_ns(&self) -> f64 {
        self.usual_ns.min(MOST_NS)
    }

    /// Packets that were to leave some time ago may leave at last.
    pub fn on_late(&mut self, late_ns: u64, now_ns: u64) {
        let suspect = self.suspect.get_or_insert(Suspect {
            late_ns,
            at_ns: now_ns,
        });
        suspect.late_ns = suspect.late_ns.min(late_ns);
    }

    /// All that may leave has left: there was something that waited.
    pub fn on_all_taken(&mut self) {
        if let Some(suspect) = self.suspect.take() {
            self.note(suspect.late_ns);
        }
    }

    /// Time passes. If nothing has made use of it for as long as it was late, nothing has waited.
    pub fn on_time(&mut self, now_ns: u64) {
        let is_over = |it: &mut Suspect| now_ns > it.at_ns + it.late_ns;
        if self.suspect.take_if(is_over).is_some() {
            self.note(0);
        }
    }

    /// Something else than the timer held packets back: how late that would be is forgotten slowly.
    pub fn on_other_limit(&mut self) {
        self.usual_ns -= self.usual_ns * FORGOTTEN;
    }

    /// One late timer between others that come in time is a stall, or was none: it counts as the one before.
    fn note(&mut self, late_ns: u64) {
        let least_ns = late_ns.min(self.last_ns) as f64;
        self.usual_ns += (least_ns - self.usual_ns) * WEIGHT;
        self.last_ns = late_ns;
    }
}
