//! How promptly a peer sends what it was granted. The uplink of a peer that others have granted
//! as well is busy, and what waits there keeps our link idle: it is granted less at a time, and what
//! is overdue leaves room for others. Where all send to all, that is half of what links carry.

/// How much later than the path takes a host may answer, in nanoseconds, at both ends together.
const HOST_DELAY_NS: u64 = 50_000;
/// Everybody may have an equal part of what one peer alone could have, and this part where there
/// are more, however late it is: or the path is not full before it is known who is prompt, and
/// trains become too short for hosts that are late by themselves.
const LEAST_PART: u64 = 4;
/// A late answer makes it less by this at most.
const LEAST_CUT: f64 = 0.25;

/// Credit whose use is waited for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at_ns: u64,
    /// When all of it should have come.
    due_ns: u64,
    /// What the peer could send then, in charge, and what of it has not come.
    charge: u64,
    left: u64,
}

/// What one peer may be granted ahead of what has come, in charge.
#[derive(Debug)]
pub(super) struct Reach {
    most: u64,
    asked: Option<Asked>,
}

impl Default for Reach {
    fn default() -> Self {
        Reach {
            most: u64::MAX,
            asked: None,
        }
    }
}

impl Reach {
    /// What it may be granted as one of `peers` where one alone could have `cap`.
    #[inline]
    pub fn get(&self, cap: u64, peers: usize) -> u64 {
        self.most.max(cap.div_ceil(LEAST_PART.min(peers as u64)))
    }

    /// The peer can now send `charge`, which the path brings within `path_ns`; only the first counts until
    /// it has come.
    #[inline]
    pub fn expect(&mut self, charge: u64, path_ns: impl FnOnce() -> u64, now_ns: u64) {
        self.asked.get_or_insert_with(|| Asked {
            at_ns: now_ns,
            due_ns: now_ns + path_ns() + HOST_DELAY_NS,
            charge,
            left: charge,
        });
    }

    /// `advanced` has come; less than `full` is of no use to the peer.
    #[inline]
    pub fn on_arrival(&mut self, advanced: u64, full: u64, now_ns: u64) {
        let Some(asked) = &mut self.asked else {
            return;
        };
        asked.left = asked.left.saturating_sub(advanced);
        if asked.left >= full {
            return;
        }
        if now_ns <= asked.due_ns {
            let used = self.most.max(asked.charge);
            self.most = used.saturating_add(used / 2);
        } else {
            let part = (asked.due_ns - asked.at_ns) as f64 / (now_ns - asked.at_ns) as f64;
            let used = (asked.charge as f64 * part.max(LEAST_CUT)) as u64;
            self.most = self.most.min(used);
        }
        self.asked = None;
    }

    /// The peer has nothing more to send, or has forgotten its credit.
    pub fn forget(&mut self) {
        self.asked = None;
    }

    pub fn is_waited_for(&self) -> bool {
        self.asked.is_some()
    }

    /// When what it was granted is overdue; never if nothing is waited for.
    #[inline]
    pub fn due_ns(&self) -> u64 {
        self.asked.map_or(u64::MAX, |asked| asked.due_ns)
    }
}
