//! What may wait for this host's own link.

/// To whom data have left, as far as a word for somebody else may stand behind them.
#[derive(Debug, Default)]
pub(crate) struct OwnLink {
    /// The last one, and when.
    last: Option<(u32, u64)>,
    /// When data left last for anybody but that one.
    others_ns: Option<u64>,
}

/// Nothing waits for longer: a thousand packets, Linux's usual queue, take 0.1 s at 120 Mbit/s.
const WAITS_NS: u64 = 100_000_000;

impl OwnLink {
    /// Data leave for a peer.
    #[inline]
    pub fn on_data(&mut self, peer: u32, now_ns: u64) {
        if let Some((last, at_ns)) = self.last.replace((peer, now_ns))
            && last != peer
        {
            self.others_ns = Some(at_ns);
        }
    }

    /// Whether data for others may wait.
    #[inline]
    pub fn may_hold_others(&self, peer: u32, now_ns: u64) -> bool {
        let others_ns = match self.last {
            Some((last, at_ns)) if last != peer => Some(at_ns),
            _ => self.others_ns,
        };
        others_ns.is_some_and(|at_ns| now_ns < at_ns + WAITS_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_for_others_may_wait_and_ones_own_do_not_count() {
        let mut link = OwnLink::default();
        assert!(!link.may_hold_others(1, 0));
        link.on_data(1, 5);
        link.on_data(1, 6);
        assert!(!link.may_hold_others(1, 6) && link.may_hold_others(2, 6));
        link.on_data(2, 10);
        assert!(
            link.may_hold_others(1, 10)
                && link.may_hold_others(2, 10)
                && link.may_hold_others(3, 10)
        );
        link.on_data(2, 6 + WAITS_NS);
        assert!(
            !link.may_hold_others(2, 6 + WAITS_NS),
            "what left for the first has gone by now"
        );
        assert!(link.may_hold_others(1, 6 + WAITS_NS));
    }
}
