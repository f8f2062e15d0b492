//! Which work that was started a thread is in.

use std::cell::RefCell;
use std::sync::Arc;

use crate::comm::Comm;
use crate::comm::collective::Series;
use crate::comm::tag::Context;

/// The work that a thread is in: its communicator and its row.
struct Within {
    context: Context,
    series: Arc<Series>,
}

thread_local! {
    static WITHIN: RefCell<Option<Within>> = const { RefCell::new(None) };
}

/// Does what a piece of work consists of, which gets this communicator.
pub(super) fn within<R>(comm: &Comm, work: impl FnOnce() -> R) -> R {
    let within = Within {
        context: comm.group.context,
        series: Arc::clone(&comm.series),
    };
    let _entered = Entered(WITHIN.replace(Some(within)));
    work()
}

/// Puts back what was before, when the work returns or panics.
struct Entered(Option<Within>);

impl Drop for Entered {
    fn drop(&mut self) {
        WITHIN.set(self.0.take());
    }
}

impl Comm {
    /// Whether what this communicator starts is started by work of its own, whichever handle that uses: it may have
    /// kept one that the program has.
    pub(super) fn is_within_its_work(&self) -> bool {
        let is_of_this = |within: &Option<Within>| {
            within
                .as_ref()
                .is_some_and(|it| it.context == self.group.context)
        };
        self.series.number != 0 || WITHIN.with_borrow(is_of_this)
    }

    /// Whether the program waits for what this call waits for: else it may still do what is waited for. Not while the
    /// call is made by work that it does not wait for, be it on a communicator which that has made.
    pub(in crate::comm) fn is_awaited(&self) -> bool {
        let is_awaited = |within: &Option<Within>| match within {
            Some(within) => within.series.is_awaited(),
            None => true,
        };
        self.series.is_awaited() && WITHIN.with_borrow(is_awaited)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::comm::Error;

    #[test]
    fn work_starts_nothing_on_its_communicator_whichever_handle_it_uses() {
        let comm = Comm::init().unwrap();
        let kept = comm.clone();
        let started = comm.start(move |comm| {
            let own = comm.start(|_| Ok(())).err();
            let kept = kept.start(|_| Ok(())).err();
            // Nobody else starts anything on what only it has.
            comm.dup()?.start(|_| Ok(()))?.wait()?;
            Ok([own, kept])
        });
        for refused in started.unwrap().wait().unwrap() {
            assert!(matches!(refused, Some(Error::Nested)), "{refused:?}");
        }
        comm.start(|_| Ok(())).unwrap().wait().unwrap();
    }

    #[test]
    fn communicators_that_work_makes_are_waited_for_when_it_is() {
        let comm = Comm::init().unwrap();
        let (go_on, may_go_on) = channel();
        let (tell, hear) = channel();
        let started = comm.start(move |comm| {
            let made = comm.dup()?;
            tell.send(made.is_awaited()).unwrap();
            may_go_on.recv().unwrap();
            while !made.is_awaited() {
                std::thread::yield_now();
            }
            Ok(made)
        });
        assert!(!hear.recv().unwrap(), "the program computes");
        go_on.send(()).unwrap();
        let made = started.unwrap().wait().unwrap();
        assert!(made.is_awaited());
    }
}
