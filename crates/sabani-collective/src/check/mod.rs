//! The checker: proves by symbolic execution that an algorithm does what its collective should, for one
//! situation (size, root, counts, …) and for every order in which the steps of its ranks may happen.
//!
//! 1. `structure`: spans lie within their buffers, the input is never written, no message can be
//!    mistaken for another.
//! 2. `races`: steps that may happen at the same time don't disturb each other, so the order in which
//!    they happen makes no difference to the result.
//! 3. `run`: one execution, the one with the most waiting: each rank finishes a round before it begins
//!    the next, and each send waits for its receive. If it ends, all do. Elements are symbols that say
//!    whose contributions are in them; combining refuses to count one twice or to change the order.
//! 4. `meaning`: what each rank should end with, from the collective's definition.

mod meaning;
mod races;
mod run;
mod structure;
mod value;

use std::fmt;

use crate::algorithms::Collective;
use crate::context::Context;
use crate::schedule::Schedule;
use crate::step::Buffer;

/// The most ranks that can be checked.
pub const MOST_RANKS: usize = u128::BITS as usize;

/// What is wrong with a schedule, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// At which rank.
    pub rank: usize,
    /// In which round, unless at the end.
    pub round: Option<usize>,
    /// At which step of the round, if at one.
    pub step: Option<usize>,
    /// What.
    pub what: Wrong,
}

/// Ways to be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A span goes beyond its buffer, or spans that should be of equal length are not.
    Span,
    /// The input is written.
    InputWritten,
    /// A message to or from itself, or a rank that does not exist.
    Peer,
    /// It waits for a step that is not an earlier one of its round.
    Order,
    /// A message that can't be told from another one of its round.
    Ambiguous,
    /// A step of this round, or of an earlier one, may happen at the same time and touches the same
    /// elements: the other's round and number.
    Race(usize, usize),
    /// It waits for a rank forever.
    Stuck(Option<usize>),
    /// The two ends of a message differ in length or mode.
    Ends,
    /// It uses an element that nobody has written.
    Undefined,
    /// It combines different elements, or a contribution that is already there.
    Mixed,
    /// It combines in another order than that of the ranks.
    Unordered,
    /// An element of the result is not what it should be.
    Result(Buffer, usize),
    /// It leaves the barrier without knowing that this rank has come.
    LeavesBefore(usize),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}", self.rank)?;
        if let Some(round) = self.round {
            write!(f, ", round {round}")?;
        }
        if let Some(step) = self.step {
            write!(f, ", step {step}")?;
        }
        write!(f, ": {:?}", self.what)
    }
}

impl std::error::Error for Fault {}

/// Proves that a schedule does what a collective should. `contexts` has one for each rank; they differ in
/// counts at most.
///
/// # Errors
/// The first fault found.
///
/// # Panics
/// With more than [`MOST_RANKS`] ranks.
///
/// # Cost
/// Memory for all elements of all ranks, and time for each of them that moves; beside this, in each rank,
/// the square of the number of rounds.
pub fn prove(
    collective: Collective,
    schedule: &dyn Schedule,
    contexts: &[Context],
) -> Result<(), Fault> {
    assert!(contexts.len() <= MOST_RANKS, "too many ranks to be checked");
    let ranks = meaning::ranks(collective, schedule, contexts);
    for (rank, memory) in ranks.iter().enumerate() {
        let cx = &contexts[rank];
        let rounds: Vec<_> = (0..schedule.rounds(cx))
            .map(|k| schedule.round(cx, rank, k))
            .collect();
        structure::check(rank, contexts.len(), memory, &rounds)?;
        races::check(rank, &rounds)?;
    }
    let (ranks, heard) = run::to_the_end(schedule, contexts, ranks)?;
    meaning::check(collective, contexts, &ranks)?;
    if collective == Collective::Barrier {
        meaning::check_barrier(&heard)?;
    }
    Ok(())
}
