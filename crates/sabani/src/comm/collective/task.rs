//! From a call to a schedule that runs.

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use sabani_collective::execute::{Exchange, Fingerprint, Memory, Operation as Bytewise};
use sabani_collective::{Choice, Collective, Context, Counts};

use super::Operation;
use super::drive::Drive;
use super::operation::combine_all;
use crate::comm::{Comm, Error, locked};

/// What is to be done together, as all ranks must agree on it.
pub(super) struct Task<'a> {
    collective: Collective,
    root: usize,
    counts: Counts<'a>,
    in_place: bool,
    operation: u8,
    commutative: bool,
}

impl<'a> Task<'a> {
    pub fn new(collective: Collective, counts: Counts<'a>) -> Self {
        Self {
            collective,
            root: 0,
            counts,
            in_place: false,
            operation: u8::MAX,
            commutative: true,
        }
    }

    pub fn root(self, root: usize) -> Self {
        Self { root, ..self }
    }

    pub fn in_place(self) -> Self {
        Self {
            in_place: true,
            ..self
        }
    }

    pub fn by<T, O: Operation<T>>(self, _: &O) -> Self {
        Self {
            operation: O::ID,
            commutative: O::COMMUTATIVE,
            ..self
        }
    }

    /// The counts by which an algorithm is chosen: those that all ranks know.
    fn counts_known_to_all(&self) -> Counts<'a> {
        match (self.collective, self.counts) {
            (Collective::Gather | Collective::Scatter, Counts::Offsets(_)) => Counts::Own(0),
            (_, counts) => counts,
        }
    }

    /// How many elements, and what else of the counts all ranks must agree on.
    fn size(&self) -> (u64, u32) {
        match self.counts_known_to_all() {
            Counts::Each(len) | Counts::Vector(len) => (len as u64, 0),
            Counts::Offsets(offsets) => {
                let mix =
                    |hash: u32, offset: &usize| hash.wrapping_mul(0x0100_0193) ^ *offset as u32;
                let total = offsets.last().copied().unwrap_or(0);
                (total as u64, offsets.iter().fold(0, mix))
            }
            _ => (0, 0),
        }
    }

    fn fingerprint<T>(&self, epoch: u32, sequence: u32, choice: &Choice) -> Fingerprint {
        let (size, counts) = self.size();
        Fingerprint {
            epoch,
            sequence,
            collective: self.collective,
            algorithm: choice.algorithm.id(),
            operation: self.operation,
            element_type: Fingerprint::of_type::<T>(),
            size,
            root: self.root as u32,
            parameters: Fingerprint::of_parameters(&choice.parameters) ^ counts,
        }
    }
}

impl Comm {
    /// Chooses an algorithm, and explains the choice to whom it concerns.
    fn choose(&self, collective: Collective, cx: &Context) -> Choice {
        let chooser = locked(&self.series.chooser);
        let chosen = chooser.choose(collective, cx);
        if let Some(explainer) = &self.job.explainer {
            explainer.explain(&chooser, &chosen, collective, cx);
        }
        chosen.choice
    }

    /// Runs a collective that combines nothing.
    pub(super) fn moved<T: Pod>(
        &self,
        task: &Task,
        input: &[T],
        output: &mut [T],
    ) -> Result<(), Error> {
        self.run(task, input, output, &|_, _, _| {})
    }

    /// Runs one that combines elements.
    pub(super) fn combined<T: Pod, O: Operation<T>>(
        &self,
        task: Task,
        input: &[T],
        output: &mut [T],
        operation: &O,
    ) -> Result<(), Error> {
        // All memory is of elements, so spans of it lie as elements must.
        self.run(&task.by(operation), input, output, &|from, into, side| {
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
        self.usable()?;
        self.peer(task.root)?;
        let element_bytes = size_of::<T>();
        if element_bytes == 0 {
            return Ok(());
        }
        let mut cx = Context {
            root: task.root,
            element_bytes,
            commutative: task.commutative,
            in_place: task.in_place,
            hosts: Some(&self.group.hosts),
            ..Context::new(self.size(), task.counts_known_to_all())
        };
        let choice = self.choose(task.collective, &cx);
        cx.counts = task.counts;
        cx.parameters = choice.parameters;
        let schedule = choice.algorithm.schedule;
        let mut progress = self.series.enter().ok_or(Error::WithinOperation)?;
        let epoch = self.group.context.number();
        let fingerprint = task.fingerprint::<T>(epoch, progress.next_sequence(), &choice);
        let unwound = Unwound(self);
        let mut scratch = vec![T::zeroed(); schedule.scratch(&cx, self.rank())];
        let memory = Memory {
            input: cast_slice(input),
            output: cast_slice_mut(output),
            scratch: cast_slice_mut(&mut scratch),
            element_bytes,
        };
        let drive = Drive {
            comm: self,
            progress: &mut progress,
            fingerprint,
            exchange: Exchange::new(schedule, cx, self.rank(), fingerprint, memory, operation),
            under_way: Vec::new(),
        };
        let outcome = drive.run();
        // That the thread unwinds says nothing of it: it may have done so before.
        std::mem::forget(unwound);
        outcome.inspect_err(|error| {
            // Others may wait for this rank, which does not come any more.
            match error {
                Error::Collective(difference) => self.revoke(difference),
                Error::Node(failure) => self.revoke(&failure.to_string()),
                _ => {}
            }
        })
    }
}

/// Ends the communicator when it is dropped, because the program's operation has panicked, and the program may go on:
/// the others wait for this rank, which does not come any more.
struct Unwound<'c>(&'c Comm);

impl Drop for Unwound<'_> {
    fn drop(&mut self) {
        self.0.revoke("an operation has panicked");
    }
}
