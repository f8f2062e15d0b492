//! Counts the entries and table cells that look-ups visit, in tests; costs nothing elsewhere.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// One entry or cell was visited.
#[inline(always)]
pub(super) fn step() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}

/// The steps that `work` takes in this thread.
#[cfg(test)]
pub(in crate::message) fn during(work: impl FnOnce()) -> u64 {
    let before = STEPS.get();
    work();
    STEPS.get() - before
}
