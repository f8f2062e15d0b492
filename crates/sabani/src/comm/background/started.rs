//! Collectives that don't wait.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

use super::within::within;
use crate::Error as NodeError;
use crate::comm::collective::Series;
use crate::comm::tag::Kind;
use crate::comm::{Comm, Error};

impl Comm {
    /// Starts collectives, and returns at once: any of them, or several one after the other. They make
    /// progress **while the program computes**, on a thread that they have to themselves.
    ///
    /// ```
    /// use sabani::comm::Sum;
    ///
    /// # fn main() -> Result<(), sabani::comm::Error> {
    /// # let comm = sabani::Comm::init()?;
    /// let mut residual = vec![0.25_f64];
    /// let sum = comm.start(move |comm| {
    ///     comm.allreduce_in_place(&mut residual, Sum)?;
    ///     Ok(residual)
    /// })?;
    /// // The next step is computed meanwhile.
    /// let residual = sum.wait()?;
    /// # assert_eq!(residual, [0.25 * comm.size() as f64]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The work owns its buffers, so a handle may be dropped or leaked: the work goes on. It gets a
    /// communicator of the same ranks, whose collectives never meet those of others that are under way.
    /// All ranks must start the same things in the same order; collectives that they call themselves
    /// meanwhile are not concerned. A program must wait for what it has started before it ends.
    ///
    /// Work that panics ends the communicator, as an operation that does.
    ///
    /// Costs a thread for each piece of work that is under way; threads are used again.
    ///
    /// # Errors
    /// [`Error::Nested`] if called by such work; [`Error::Node`] if the system gives no thread, which ends the
    /// communicator.
    pub fn start<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Comm) -> Result<R, Error> + Send + 'static,
    ) -> Result<Started<R>, Error> {
        if self.is_within_its_work() {
            return Err(Error::Nested);
        }
        let number = self.group.started.fetch_add(1, Relaxed).wrapping_add(1);
        let series = Arc::new(Series::new(number, self.series.chooser()));
        let comm = Comm {
            series: Arc::clone(&series),
            ..self.clone()
        };
        let (tell, outcome) = channel();
        let run = move || {
            let outcome = panic::catch_unwind(AssertUnwindSafe(|| within(&comm, || work(&comm))));
            // The others may wait for what it would have done next, and nobody here for its end.
            if outcome.is_err() {
                comm.revoke("work that was started has panicked");
            }
            comm.forget_reminders();
            // Whoever hears of the end may drop the last handle, and with it the node.
            drop(comm);
            // Nobody may listen any more.
            let _ = tell.send(outcome);
        };
        let begun = self.job.workers.run(Box::new(run));
        let begun = begun.map_err(NodeError::io("starting a thread for a collective"));
        // The others wait for this rank there, and what it started next would be taken for that.
        begun.inspect_err(|error| self.revoke(&error.to_string()))?;
        Ok(Started {
            series,
            outcome,
            known: None,
        })
    }

    /// A row of collectives is over, and whoever has waited for long in it may have asked for what it has got.
    fn forget_reminders(&self) {
        let (context, number) = (self.group.context, self.series.number);
        self.job.leftovers.over(context, Kind::Ready, number);
        // What can't be done now is done at a later look.
        let _ = self.job.sweep_tags();
    }
}

/// Collectives under way; see [`Comm::start`].
#[must_use = "others may end before what was started is over: wait for it"]
pub struct Started<R> {
    series: Arc<Series>,
    outcome: Receiver<Outcome<R>>,
    known: Option<Outcome<R>>,
}

type Outcome<R> = thread::Result<Result<R, Error>>;

impl<R> Started<R> {
    /// Whether the work is done. Makes no progress by itself, and needs not be called for it.
    pub fn test(&mut self) -> bool {
        if self.known.is_none() {
            self.known = match self.outcome.try_recv() {
                Ok(outcome) => Some(outcome),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => unreachable!("work tells how it ends"),
            };
        }
        self.known.is_some()
    }

    /// Waits until the work is done, and returns what it did.
    ///
    /// # Errors
    /// Those of the work.
    ///
    /// # Panics
    /// If the work has.
    pub fn wait(self) -> Result<R, Error> {
        self.series.await_it();
        let outcome = self.known.or_else(|| self.outcome.recv().ok());
        match outcome.expect("work tells how it ends") {
            Ok(outcome) => outcome,
            Err(panic) => panic::resume_unwind(panic),
        }
    }
}
