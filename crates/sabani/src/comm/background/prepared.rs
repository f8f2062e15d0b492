//! Collectives that are described once and started again and again.

use std::ops::DerefMut;
use std::sync::{Arc, Mutex};

use super::Started;
use crate::comm::{Comm, Error, locked};

impl Comm {
    /// Describes collectives to be started many times (MPI's persistent ones), with buffers that they
    /// keep.
    ///
    /// ```
    /// use sabani::comm::Sum;
    ///
    /// # fn main() -> Result<(), sabani::comm::Error> {
    /// # let comm = sabani::Comm::init()?;
    /// let mut sum = comm.prepare(vec![0.0; 3], |comm, v| comm.allreduce_in_place(v, Sum));
    /// for step in 0..10 {
    ///     sum.buffers()?.fill(step as f64);
    ///     sum.start()?;
    ///     // Something is computed meanwhile.
    ///     assert_eq!(sum.buffers()?[2], (step * comm.size()) as f64);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn prepare<B: Send + 'static>(
        &self,
        buffers: B,
        work: impl Fn(&Comm, &mut B) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Prepared<B> {
        Prepared {
            comm: self.clone(),
            work: Arc::new(work),
            buffers: Arc::new(Mutex::new(buffers)),
            under_way: None,
        }
    }
}

/// Collectives that can be started again and again; see [`Comm::prepare`].
pub struct Prepared<B> {
    comm: Comm,
    work: Arc<Work<B>>,
    /// Held by the work while it is under way.
    buffers: Arc<Mutex<B>>,
    under_way: Option<Started<()>>,
}

type Work<B> = dyn Fn(&Comm, &mut B) -> Result<(), Error> + Send + Sync;

impl<B: Send + 'static> Prepared<B> {
    /// Starts the work once more, as [`Comm::start`] does, after waiting until it is done if it is under
    /// way.
    ///
    /// # Errors
    /// Those of the work that was under way, and of [`Comm::start`].
    pub fn start(&mut self) -> Result<(), Error> {
        self.wait()?;
        let (work, buffers) = (Arc::clone(&self.work), Arc::clone(&self.buffers));
        let run = move |comm: &Comm| work(comm, &mut locked(&buffers));
        self.under_way = Some(self.comm.start(run)?);
        Ok(())
    }

    /// Whether the work is done.
    pub fn test(&mut self) -> bool {
        self.under_way.as_mut().is_none_or(Started::test)
    }

    /// Waits until the work is done, if it is under way.
    ///
    /// # Errors
    /// Those of the work.
    ///
    /// # Panics
    /// If the work has.
    pub fn wait(&mut self) -> Result<(), Error> {
        self.under_way.take().map_or(Ok(()), Started::wait)
    }

    /// The buffers, after waiting until the work is done if it is under way.
    ///
    /// # Errors
    /// As [`Prepared::wait`].
    pub fn buffers(&mut self) -> Result<impl DerefMut<Target = B> + '_, Error> {
        self.wait()?;
        // Not a guard of the lock: one that is leaked would leave the work waiting for it.
        let buffers = Arc::get_mut(&mut self.buffers).expect("work that is over has let go");
        let buffers = buffers.get_mut();
        Ok(buffers.unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}
