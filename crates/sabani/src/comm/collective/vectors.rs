//! Collectives in which all ranks have vectors of one length.

use bytemuck::Pod;
use sabani_collective::{Collective, Counts};

use super::task::Task;
use super::{Operation, fits};
use crate::comm::{Comm, Error};

/// Collectives on vectors, which have the same length at all ranks.
///
/// Each fails with [`Error::RankLost`] if a rank has failed or left, [`Error::Collective`] if ranks are
/// in different collectives, [`Error::Size`] if lengths don't fit together, [`Error::NoSuchRank`] or
/// [`Error::Node`].
impl Comm {
    /// Waits until all ranks have come here.
    ///
    /// # Errors
    /// See above.
    pub fn barrier(&self) -> Result<(), Error> {
        let task = Task::new(Collective::Barrier, Counts::Vector(0));
        self.moved::<u8>(&task, &[], &mut [])
    }

    /// All get the root's elements.
    ///
    /// # Errors
    /// See above.
    pub fn bcast<T: Pod>(&self, root: usize, elements: &mut [T]) -> Result<(), Error> {
        let task = Task::new(Collective::Bcast, Counts::Vector(elements.len())).root(root);
        self.moved(&task, &[], elements)
    }

    /// The root gets the combination of all ranks' elements; `result` is not used elsewhere.
    ///
    /// # Errors
    /// See above.
    pub fn reduce<T: Pod, O: Operation<T>>(
        &self,
        root: usize,
        elements: &[T],
        result: &mut [T],
        operation: O,
    ) -> Result<(), Error> {
        let task = Task::new(Collective::Reduce, Counts::Vector(elements.len()));
        let result = self.at_root(root, result, elements.len())?;
        self.combined(task.root(root), elements, result, &operation)
    }

    /// The same; the root gets it in place of what it gives.
    ///
    /// # Errors
    /// See above.
    pub fn reduce_in_place<T: Pod, O: Operation<T>>(
        &self,
        root: usize,
        elements: &mut [T],
        operation: O,
    ) -> Result<(), Error> {
        let task = Task::new(Collective::Reduce, Counts::Vector(elements.len()));
        let task = task.root(root).in_place();
        if self.rank() == root {
            self.combined(task, &[], elements, &operation)
        } else {
            self.combined(task, elements, &mut [], &operation)
        }
    }

    /// All get the combination of all ranks' elements.
    ///
    /// # Errors
    /// See above.
    pub fn allreduce<T: Pod, O: Operation<T>>(
        &self,
        elements: &[T],
        result: &mut [T],
        operation: O,
    ) -> Result<(), Error> {
        self.onto_all(Collective::Allreduce, elements, result, operation)
    }

    /// The same, in place of what each rank gives.
    ///
    /// # Errors
    /// See above.
    pub fn allreduce_in_place<T: Pod, O: Operation<T>>(
        &self,
        elements: &mut [T],
        operation: O,
    ) -> Result<(), Error> {
        self.in_place_at_all(Collective::Allreduce, elements, operation)
    }

    /// Each gets the combination of the elements of all ranks up to its own.
    ///
    /// # Errors
    /// See above.
    pub fn scan<T: Pod, O: Operation<T>>(
        &self,
        elements: &[T],
        result: &mut [T],
        operation: O,
    ) -> Result<(), Error> {
        self.onto_all(Collective::Scan, elements, result, operation)
    }

    /// The same, in place of what each rank gives.
    ///
    /// # Errors
    /// See above.
    pub fn scan_in_place<T: Pod, O: Operation<T>>(
        &self,
        elements: &mut [T],
        operation: O,
    ) -> Result<(), Error> {
        self.in_place_at_all(Collective::Scan, elements, operation)
    }

    /// Each gets the combination of the elements of all ranks before its own; rank 0's result means
    /// nothing.
    ///
    /// # Errors
    /// See above.
    pub fn exscan<T: Pod, O: Operation<T>>(
        &self,
        elements: &[T],
        result: &mut [T],
        operation: O,
    ) -> Result<(), Error> {
        self.onto_all(Collective::Exscan, elements, result, operation)
    }

    /// The same, in place of what each rank gives.
    ///
    /// # Errors
    /// See above.
    pub fn exscan_in_place<T: Pod, O: Operation<T>>(
        &self,
        elements: &mut [T],
        operation: O,
    ) -> Result<(), Error> {
        self.in_place_at_all(Collective::Exscan, elements, operation)
    }

    fn onto_all<T: Pod, O: Operation<T>>(
        &self,
        collective: Collective,
        elements: &[T],
        result: &mut [T],
        operation: O,
    ) -> Result<(), Error> {
        fits(result.len(), elements.len())?;
        let task = Task::new(collective, Counts::Vector(elements.len()));
        self.combined(task, elements, result, &operation)
    }

    fn in_place_at_all<T: Pod, O: Operation<T>>(
        &self,
        collective: Collective,
        elements: &mut [T],
        operation: O,
    ) -> Result<(), Error> {
        let task = Task::new(collective, Counts::Vector(elements.len()));
        self.combined(task.in_place(), &[], elements, &operation)
    }

    /// A buffer that only the root uses.
    pub(super) fn at_root<'a, T>(
        &self,
        root: usize,
        buffer: &'a mut [T],
        len: usize,
    ) -> Result<&'a mut [T], Error> {
        self.peer(root)?;
        if self.rank() != root {
            return Ok(&mut []);
        }
        fits(buffer.len(), len)?;
        Ok(buffer)
    }
}
