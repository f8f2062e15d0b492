//! What the system says of the host's own link: what waits for it before a sending call and behind it.

use sabani_proto::Unsent;

/// It is asked with every sending call, and once nothing has waited so many times in a row only this often: it takes 0.2 µs each time.
const LOOKS: u8 = 16;
const EVERY_NS: u64 = 250_000;

/// What waited when the system was asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub at_ns: u64,
    pub waiting: u64,
}

/// What is known of the host's own link.
#[derive(Debug, Default)]
pub(super) struct Uplink {
    /// Times in a row that nothing waited, and when to ask again.
    unhindered: u8,
    ask_ns: u64,
    /// Bytes that have come to wait, or left at once, so far.
    handed: u64,
    /// What the layers above have not heard yet, of one call.
    pub news: Option<[Unsent; 2]>,
}

impl Uplink {
    /// One that never asks.
    pub fn silent() -> Self {
        Uplink {
            ask_ns: u64::MAX,
            ..Uplink::default()
        }
    }

    /// Whether to ask, with the next sending call.
    #[inline]
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.ask_ns
    }

    /// What waited before a call and behind it, which has sent so many bytes to other hosts. Where something waits only what has come
    /// to wait counts: the rest went another way.
    pub fn on_call(&mut self, before: Look, behind: Look, sent: u64) {
        let first = self.unsent(before);
        self.handed += match behind.waiting {
            0 => sent,
            waiting => waiting.saturating_sub(before.waiting),
        };
        self.news = Some([first, self.unsent(behind)]);
        self.unhindered = match behind.waiting {
            0 => (self.unhindered + 1).min(LOOKS),
            _ => 0,
        };
        if self.unhindered == LOOKS {
            self.ask_ns = behind.at_ns + EVERY_NS;
        }
    }

    fn unsent(&self, Look { at_ns, waiting }: Look) -> Unsent {
        Unsent {
            at_ns,
            handed: self.handed,
            waiting,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(at_ns: u64, waiting: u64) -> Look {
        Look { at_ns, waiting }
    }

    #[test]
    fn a_link_of_which_nothing_waits_is_asked_of_now_and_then() {
        let mut uplink = Uplink::default();
        for at_ns in 0..u64::from(LOOKS) {
            assert!(uplink.is_due(at_ns));
            uplink.on_call(look(at_ns, 0), look(at_ns, 0), 1);
        }
        let last_ns = u64::from(LOOKS) - 1;
        assert!(!uplink.is_due(last_ns + EVERY_NS - 1));
        assert!(uplink.is_due(last_ns + EVERY_NS));
        let busy_ns = last_ns + EVERY_NS;
        uplink.on_call(look(busy_ns, 0), look(busy_ns, 1_000), 1_000);
        assert!(uplink.is_due(busy_ns), "something waits");
    }

    #[test]
    fn what_goes_another_way_while_something_waits_does_not_count() {
        let mut uplink = Uplink::default();
        uplink.on_call(look(0, 0), look(5, 0), 700);
        assert_eq!(uplink.news.map(|news| news[1].handed), Some(700));
        // Of 5,000 bytes 3,000 came to wait, as they are charged.
        uplink.on_call(look(10, 0), look(15, 3_000), 5_000);
        assert_eq!(uplink.news.map(|news| news[1].handed), Some(3_700));
        // Of 5,000 more none, and meanwhile some left.
        uplink.on_call(look(20, 2_500), look(25, 2_000), 5_000);
        let [before, behind] = uplink.news.unwrap();
        assert_eq!((before.handed, before.waiting), (3_700, 2_500));
        assert_eq!((behind.handed, behind.waiting), (3_700, 2_000));
    }
}
