//! What all ranks do together. Every rank must call the same things in the same order; ranks that don't
//! are told so, both sides named, instead of waiting forever.

mod drive;
mod operation;

use std::env;
use std::sync::{Mutex, MutexGuard};

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use sabani_collective::execute::{Exchange, Fingerprint, Memory, Operation as Bytewise};
use sabani_collective::{Choice, Collective, Context, Counts, Overrides};

use super::{Comm, Error};
use drive::{Drive, Progress};
use operation::combine_all;
pub use operation::{And, Commutative, InOrder, Max, Min, Operation, Or, Product, Sum, Xor};

/// Chooses other algorithms than the rule does; see [`Comm::set_algorithms`].
const ALGORITHMS: &str = "SABANI_ALGORITHMS";

/// What the collectives of a communicator share.
pub(super) struct Collectives {
    progress: Mutex<Progress>,
    overrides: Mutex<Overrides>,
}

impl Collectives {
    pub fn new(overrides: Overrides) -> Self {
        Self {
            progress: Mutex::default(),
            overrides: Mutex::new(overrides),
        }
    }

    /// What is wanted instead of the rule.
    pub fn overrides(&self) -> Overrides {
        locked(&self.overrides).clone()
    }
}

/// What the user wants instead of the rule.
///
/// # Errors
/// [`Error::Algorithms`].
pub(super) fn overrides_of_environment() -> Result<Overrides, Error> {
    let text = env::var(ALGORITHMS).unwrap_or_default();
    text.parse().map_err(Error::Algorithms)
}

/// What is to be done together, as all ranks must agree on it.
struct Task {
    collective: Collective,
    root: usize,
    counts: Counts<'static>,
    in_place: bool,
    operation: u8,
    commutative: bool,
}

impl Task {
    fn new(collective: Collective, counts: Counts<'static>) -> Self {
        Self {
            collective,
            root: 0,
            counts,
            in_place: false,
            operation: u8::MAX,
            commutative: true,
        }
    }

    fn root(self, root: usize) -> Self {
        Self { root, ..self }
    }

    fn in_place(self) -> Self {
        Self {
            in_place: true,
            ..self
        }
    }

    fn by<T, O: Operation<T>>(self, _: &O) -> Self {
        Self {
            operation: O::ID,
            commutative: O::COMMUTATIVE,
            ..self
        }
    }
}

/// Collectives. Vectors have the same length at all ranks. For each call a rule chooses an algorithm
/// from the number of ranks, bytes and hosts; [`Comm::set_algorithms`] or the variable
/// `SABANI_ALGORITHMS` may choose another one. For a number of ranks and an algorithm, a reduction's
/// result is always the same.
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
        self.combined(
            &task.root(root).by(&operation),
            elements,
            result,
            &operation,
        )
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
        fits(result.len(), elements.len())?;
        let task = Task::new(Collective::Allreduce, Counts::Vector(elements.len()));
        self.combined(&task.by(&operation), elements, result, &operation)
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
        let task = Task::new(Collective::Allreduce, Counts::Vector(elements.len()));
        self.combined(&task.in_place().by(&operation), &[], elements, &operation)
    }

    /// The root gets all ranks' elements, in the order of ranks; `result` is not used elsewhere.
    ///
    /// # Errors
    /// See above.
    pub fn gather<T: Pod>(
        &self,
        root: usize,
        elements: &[T],
        result: &mut [T],
    ) -> Result<(), Error> {
        let task = Task::new(Collective::Gather, Counts::Each(elements.len())).root(root);
        let result = self.at_root(root, result, elements.len() * self.size())?;
        self.moved(&task, elements, result)
    }

    /// Each gets its part of the root's elements; they are not used elsewhere.
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
            fits(elements.len(), result.len() * self.size())?;
        }
        let task = Task::new(Collective::Scatter, Counts::Each(result.len())).root(root);
        self.moved(&task, elements, result)
    }

    /// All get all ranks' elements, in the order of ranks.
    ///
    /// # Errors
    /// See above.
    pub fn allgather<T: Pod>(&self, elements: &[T], result: &mut [T]) -> Result<(), Error> {
        fits(result.len(), elements.len() * self.size())?;
        let task = Task::new(Collective::Allgather, Counts::Each(elements.len()));
        self.moved(&task, elements, result)
    }

    /// Each gets its part of the combination of all ranks' elements.
    ///
    /// # Errors
    /// See above.
    pub fn reduce_scatter<T: Pod, O: Operation<T>>(
        &self,
        elements: &[T],
        result: &mut [T],
        operation: O,
    ) -> Result<(), Error> {
        fits(elements.len(), result.len() * self.size())?;
        let task = Task::new(Collective::ReduceScatter, Counts::Each(result.len()));
        self.combined(&task.by(&operation), elements, result, &operation)
    }

    /// Each has as many elements for each rank, in the order of ranks, and gets as many from each.
    ///
    /// # Errors
    /// See above.
    pub fn alltoall<T: Pod>(&self, elements: &[T], result: &mut [T]) -> Result<(), Error> {
        fits(result.len(), elements.len())?;
        let each = elements.len() / self.size();
        fits(elements.len(), each * self.size())?;
        let task = Task::new(Collective::Alltoall, Counts::Each(each));
        self.moved(&task, elements, result)
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
        fits(result.len(), elements.len())?;
        let task = Task::new(Collective::Scan, Counts::Vector(elements.len()));
        self.combined(&task.by(&operation), elements, result, &operation)
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
        fits(result.len(), elements.len())?;
        let task = Task::new(Collective::Exscan, Counts::Vector(elements.len()));
        self.combined(&task.by(&operation), elements, result, &operation)
    }

    /// Uses other algorithms than the rule does from now on, where they fit, as in
    /// `bcast=chain:segment=128KiB,alltoall=pairwise`. All ranks must do so, at the same place among
    /// their collectives.
    ///
    /// # Errors
    /// [`Error::Algorithms`], which names those there are.
    pub fn set_algorithms(&self, text: &str) -> Result<(), Error> {
        let overrides = text.parse().map_err(Error::Algorithms)?;
        *locked(&self.group.collectives.overrides) = overrides;
        Ok(())
    }

    /// A buffer that only the root uses.
    fn at_root<'a, T>(
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

    /// A collective that combines nothing.
    fn moved<T: Pod>(&self, task: &Task, input: &[T], output: &mut [T]) -> Result<(), Error> {
        self.run(task, input, output, &|_, _, _| {})
    }

    fn combined<T: Pod, O: Operation<T>>(
        &self,
        task: &Task,
        input: &[T],
        output: &mut [T],
        operation: &O,
    ) -> Result<(), Error> {
        // All memory is of elements, so spans of it lie as elements must.
        self.run(task, input, output, &|from, into, side| {
            combine_all(operation, cast_slice(from), cast_slice_mut(into), side);
        })
    }

    fn run<T: Pod>(
        &self,
        task: &Task,
        input: &[T],
        output: &mut [T],
        operation: &Bytewise,
    ) -> Result<(), Error> {
        self.peer(task.root)?;
        let element_bytes = size_of::<T>();
        if element_bytes == 0 {
            return Ok(());
        }
        let collectives = &self.group.collectives;
        let mut cx = Context {
            root: task.root,
            element_bytes,
            commutative: task.commutative,
            in_place: task.in_place,
            hosts: Some(&self.group.hosts),
            ..Context::new(self.size(), task.counts)
        };
        let choice = locked(&collectives.overrides).choose(task.collective, &cx);
        cx.parameters = choice.parameters;
        let schedule = choice.algorithm.schedule;
        let mut progress = locked(&collectives.progress);
        let fingerprint = Fingerprint {
            epoch: self.group.context.number(),
            ..fingerprint::<T>(task, &choice, progress.sequence)
        };
        progress.sequence = progress.sequence.wrapping_add(1);
        let mut scratch = vec![T::zeroed(); schedule.scratch(&cx, self.rank())];
        let memory = Memory {
            input: cast_slice(input),
            output: cast_slice_mut(output),
            scratch: cast_slice_mut(&mut scratch),
            element_bytes,
        };
        Drive {
            comm: self,
            progress: &mut progress,
            exchange: Exchange::new(schedule, cx, self.rank(), fingerprint, memory, operation),
        }
        .run()
    }
}

fn fingerprint<T>(task: &Task, choice: &Choice, sequence: u32) -> Fingerprint {
    // The same program runs at all ranks: its names for types are the same.
    let name = std::any::type_name::<T>().bytes();
    let element_type = name.fold(0_u8, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte));
    let size = match task.counts {
        Counts::Each(len) | Counts::Vector(len) => len,
        _ => 0,
    };
    Fingerprint {
        epoch: 0,
        sequence,
        collective: task.collective,
        algorithm: choice.algorithm.id(),
        operation: task.operation,
        element_type,
        size: size as u64,
        root: task.root as u32,
        parameters: Fingerprint::of_parameters(&choice.parameters),
    }
}

fn fits(len: usize, expected: usize) -> Result<(), Error> {
    if len == expected {
        Ok(())
    } else {
        Err(Error::Size { len, expected })
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
