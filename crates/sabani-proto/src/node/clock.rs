//! Time as this process has lived it.

/// Missing a deadline by more than this means that this process was kept from running.
const STALL_NS: u64 = 20_000_000;

/// Time as this process has lived it: stalls of its own are left out.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// Length of all stalls.
    pub stalled_ns: u64,
    /// When the node asked to be called, in real time.
    pub promised_ns: Option<u64>,
    /// When it was last called, for whatever reason, in real time.
    pub called_ns: u64,
    /// Lived time of the last stall.
    stall_ns: u64,
}

impl Clock {
    /// Lived time; a deadline missed by far counts as a stall.
    #[inline]
    pub fn lived(&mut self, now_ns: u64) -> u64 {
        let now_ns = now_ns.max(self.called_ns);
        if let Some(promised) = self.promised_ns {
            let attended = promised.max(self.called_ns);
            if now_ns > attended + STALL_NS {
                self.stalled_ns += now_ns - attended;
                self.stall_ns = now_ns - self.stalled_ns;
            }
        }
        self.called_ns = now_ns;
        self.latest()
    }

    /// Lived time when the node was last called.
    #[inline]
    pub fn latest(&self) -> u64 {
        self.called_ns - self.stalled_ns
    }

    /// What began after this, in lived time, took as long for this process as for its peers.
    #[inline]
    pub fn unbroken_from_ns(&self) -> u64 {
        self.stall_ns
    }
}
