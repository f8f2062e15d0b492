//! Collectives in which each rank has a block of its own, all of one length or of different ones.

use bytemuck::Pod;
use sabani_collective::{Collective, Counts};

use super::task::Task;
use super::{Operation, fits};
use crate::comm::{Comm, Error};

/// Collectives on blocks: each rank has one, or one for each rank. Where a buffer holds several, they
/// follow each other in the order of ranks. The forms with a `v` have blocks of different lengths,
/// given as `counts` of elements, a number for each rank.
///
/// Each fails as those on vectors do.
impl Comm {
    /// The root gets all ranks' blocks; `result` is not used elsewhere.
    ///
    /// # Errors
    /// See above.
    pub fn gather<T: Pod>(
        &self,
        root: usize,
        elements: &[T],
        result: &mut [T],
    ) -> Result<(), Error> {
        let task = Task::new(Collective::Gather, Counts::Each(elements.len()));
        let result = self.at_root(root, result, self.times_size(elements.len()))?;
        self.moved(&task.root(root), elements, result)
    }

    /// The same, with the root's own block in its place: `elements` are all blocks at the root, and
    /// elsewhere the rank's own.
    ///
    /// # Errors
    /// See above.
    pub fn gather_in_place<T: Pod>(&self, root: usize, elements: &mut [T]) -> Result<(), Error> {
        let each = self.each_of(root, elements.len())?;
        let task = Task::new(Collective::Gather, Counts::Each(each)).root(root);
        if self.rank() == root {
            self.moved(&task.in_place(), &[], elements)
        } else {
            self.moved(&task.in_place(), elements, &mut [])
        }
    }

    /// The root gets blocks of different lengths. Only the root has to know `counts`.
    ///
    /// # Errors
    /// See above.
    pub fn gatherv<T: Pod>(
        &self,
        root: usize,
        elements: &[T],
        counts: &[usize],
        result: &mut [T],
    ) -> Result<(), Error> {
        self.peer(root)?;
        if self.rank() != root {
            let task = Task::new(Collective::Gather, Counts::Own(elements.len()));
            return self.moved(&task.root(root), elements, &mut []);
        }
        let offsets = self.offsets(counts)?;
        fits(elements.len(), counts[root])?;
        fits(result.len(), offsets[self.size()])?;
        let task = Task::new(Collective::Gather, Counts::Offsets(&offsets));
        self.moved(&task.root(root), elements, result)
    }

    /// Each gets its block from the root, whose `elements` are not used elsewhere.
    ///
    /// # Errors
    /// See above.
    pub fn scatter<T: Pod>(
        &self,
        root: usize,
        elements: &[T],
        result: &mut [T],
    ) -> Result<(), Error> {
        self.peer(root)?;
        let elements = if self.rank() == root { elements } else { &[] };
        if self.rank() == root {
            fits(elements.len(), self.times_size(result.len()))?;
        }
        let task = Task::new(Collective::Scatter, Counts::Each(result.len()));
        self.moved(&task.root(root), elements, result)
    }

    /// The same, with the root's own block left where it is: `elements` are all blocks at the root, and
    /// elsewhere the rank's own.
    ///
    /// # Errors
    /// See above.
    pub fn scatter_in_place<T: Pod>(&self, root: usize, elements: &mut [T]) -> Result<(), Error> {
        let each = self.each_of(root, elements.len())?;
        let task = Task::new(Collective::Scatter, Counts::Each(each)).root(root);
        if self.rank() == root {
            self.moved(&task.in_place(), elements, &mut [])
        } else {
            self.moved(&task.in_place(), &[], elements)
        }
    }

    /// Each gets a block of its length from the root. Only the root has to know `counts`.
    ///
    /// # Errors
    /// See above.
    pub fn scatterv<T: Pod>(
        &self,
        root: usize,
        elements: &[T],
        counts: &[usize],
        result: &mut [T],
    ) -> Result<(), Error> {
        self.peer(root)?;
        if self.rank() != root {
            let task = Task::new(Collective::Scatter, Counts::Own(result.len()));
            return self.moved(&task.root(root), &[], result);
        }
        let offsets = self.offsets(counts)?;
        fits(elements.len(), offsets[self.size()])?;
        fits(result.len(), counts[root])?;
        let task = Task::new(Collective::Scatter, Counts::Offsets(&offsets));
        self.moved(&task.root(root), elements, result)
    }

    /// All get all ranks' blocks.
    ///
    /// # Errors
    /// See above.
    pub fn allgather<T: Pod>(&self, elements: &[T], result: &mut [T]) -> Result<(), Error> {
        fits(result.len(), self.times_size(elements.len()))?;
        let task = Task::new(Collective::Allgather, Counts::Each(elements.len()));
        self.moved(&task, elements, result)
    }

    /// The same, with each rank's own block in its place.
    ///
    /// # Errors
    /// See above.
    pub fn allgather_in_place<T: Pod>(&self, elements: &mut [T]) -> Result<(), Error> {
        let each = self.each(elements.len())?;
        let task = Task::new(Collective::Allgather, Counts::Each(each));
        self.moved(&task.in_place(), &[], elements)
    }

    /// All get blocks of different lengths from all. All ranks have the same `counts`.
    ///
    /// # Errors
    /// See above.
    pub fn allgatherv<T: Pod>(
        &self,
        elements: &[T],
        counts: &[usize],
        result: &mut [T],
    ) -> Result<(), Error> {
        let offsets = self.offsets(counts)?;
        fits(elements.len(), counts[self.rank()])?;
        fits(result.len(), offsets[self.size()])?;
        let task = Task::new(Collective::Allgather, Counts::Offsets(&offsets));
        self.moved(&task, elements, result)
    }

    /// Each gets its block of the combination of all ranks' elements.
    ///
    /// # Errors
    /// See above.
    pub fn reduce_scatter<T: Pod, O: Operation<T>>(
        &self,
        elements: &[T],
        result: &mut [T],
        operation: O,
    ) -> Result<(), Error> {
        fits(elements.len(), self.times_size(result.len()))?;
        let task = Task::new(Collective::ReduceScatter, Counts::Each(result.len()));
        self.combined(task, elements, result, &operation)
    }

    /// The same, with blocks of different lengths. All ranks have the same `counts`.
    ///
    /// # Errors
    /// See above.
    pub fn reduce_scatterv<T: Pod, O: Operation<T>>(
        &self,
        elements: &[T],
        counts: &[usize],
        result: &mut [T],
        operation: O,
    ) -> Result<(), Error> {
        let offsets = self.offsets(counts)?;
        fits(elements.len(), offsets[self.size()])?;
        fits(result.len(), counts[self.rank()])?;
        let task = Task::new(Collective::ReduceScatter, Counts::Offsets(&offsets));
        self.combined(task, elements, result, &operation)
    }

    /// Each has a block for each rank, and gets one from each.
    ///
    /// # Errors
    /// See above.
    pub fn alltoall<T: Pod>(&self, elements: &[T], result: &mut [T]) -> Result<(), Error> {
        fits(result.len(), elements.len())?;
        let each = self.each(elements.len())?;
        let task = Task::new(Collective::Alltoall, Counts::Each(each));
        self.moved(&task, elements, result)
    }

    /// The same, in place of what each rank gives, of which a copy is made.
    ///
    /// # Errors
    /// See above.
    pub fn alltoall_in_place<T: Pod>(&self, elements: &mut [T]) -> Result<(), Error> {
        let own = elements.to_vec();
        self.alltoall(&own, elements)
    }

    /// Each has blocks of different lengths for all (`counts`), and gets such from all
    /// (`result_counts`): what one rank has for another must be what that one expects.
    ///
    /// # Errors
    /// See above.
    pub fn alltoallv<T: Pod>(
        &self,
        elements: &[T],
        counts: &[usize],
        result: &mut [T],
        result_counts: &[usize],
    ) -> Result<(), Error> {
        let (outgoing, incoming) = (self.offsets(counts)?, self.offsets(result_counts)?);
        fits(elements.len(), outgoing[self.size()])?;
        fits(result.len(), incoming[self.size()])?;
        fits(result_counts[self.rank()], counts[self.rank()])?;
        let counts = Counts::Pairs {
            outgoing: &outgoing,
            incoming: &incoming,
        };
        self.moved(&Task::new(Collective::Alltoall, counts), elements, result)
    }

    /// Where blocks begin that follow each other, and where the last one ends.
    fn offsets(&self, counts: &[usize]) -> Result<Vec<usize>, Error> {
        fits(counts.len(), self.size())?;
        Ok(offsets(counts))
    }

    /// So many elements for each rank. Of elements that take no memory there may be more than can be counted.
    fn times_size(&self, each: usize) -> usize {
        each.saturating_mul(self.size())
    }

    /// The length of each of as many blocks as there are ranks.
    fn each(&self, len: usize) -> Result<usize, Error> {
        let each = len / self.size();
        fits(len, each * self.size())?;
        Ok(each)
    }

    /// The length of each block, where the root has all of them and the others one.
    fn each_of(&self, root: usize, len: usize) -> Result<usize, Error> {
        self.peer(root)?;
        if self.rank() == root {
            self.each(len)
        } else {
            Ok(len)
        }
    }
}

/// As [`Comm::offsets`]. What is beyond all numbers ends where no vector does.
fn offsets(counts: &[usize]) -> Vec<usize> {
    let ends = counts.iter().scan(0_usize, |end, &count| {
        *end = end.saturating_add(count);
        Some(*end)
    });
    [0].into_iter().chain(ends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_follow_each_other_and_counts_beyond_all_numbers_fit_nothing() {
        assert_eq!(offsets(&[2, 0, 3]), [0, 2, 2, 5]);
        assert_eq!(offsets(&[usize::MAX, 2]), [0, usize::MAX, usize::MAX]);
    }
}
