//! Memory that messages nobody has asked for yet may take.

/// An amount of bytes and how much of it is in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub limit: u64,
    pub used: u64,
    /// Some has come back since somebody looked for it.
    pub freed: bool,
}

impl Budget {
    pub fn new(limit: u64) -> Self {
        Budget {
            limit,
            used: 0,
            freed: false,
        }
    }

    /// What is not in use.
    pub fn free(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }

    /// Charges `bytes`, if they are free.
    pub fn charge(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.free();
        if fits {
            self.used += bytes;
        }
        fits
    }

    /// Charges `bytes` that are in use already, whether or not they were free.
    pub fn charge_kept(&mut self, bytes: u64) {
        self.used += bytes;
    }

    /// Gives `bytes` back.
    pub fn release(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.used);
        self.used = self.used.saturating_sub(bytes);
        self.freed |= bytes > 0;
    }
}
