//! Steps that may happen at the same time.

use super::structure::overlap;
use super::{Fault, Wrong};
use crate::round::Round;
use crate::step::{Action, Span, Step};

/// A step's place, what it waits for, and what it touches.
struct Placed {
    round: usize,
    index: usize,
    /// Steps of the round, and how many rounds back all rounds, that it waits for, be it because
    /// another step that it waits for does.
    steps: u8,
    back: Option<usize>,
    read: Vec<Span>,
    written: Vec<Span>,
}

/// Checks that steps of one rank that nothing orders don't disturb each other.
pub(super) fn check(rank: usize, rounds: &[Round]) -> Result<(), Fault> {
    let mut earlier: Vec<Placed> = Vec::new();
    for (k, round) in rounds.iter().enumerate() {
        for (index, step) in round.iter().enumerate() {
            let in_round = earlier.len() - index;
            let placed = place(k, index, step, &earlier[in_round..]);
            let others = earlier.iter().rev();
            let mut unordered = others.take_while(|other| !placed.finds_complete(other.round));
            let disturbed =
                unordered.find(|other| !placed.waits_for(other) && placed.conflicts(other));
            if let Some(other) = disturbed {
                return Err(Fault {
                    rank,
                    round: Some(k),
                    step: Some(index),
                    what: Wrong::Race(other.round, other.index),
                });
            }
            earlier.push(placed);
        }
    }
    Ok(())
}

fn place(round: usize, index: usize, step: &Step, in_round: &[Placed]) -> Placed {
    let mut steps = step.after.steps;
    let mut back = (step.after.back > 0).then_some(step.after.back as usize);
    for earlier in in_round {
        if step.after.steps & (1 << earlier.index) != 0 {
            steps |= earlier.steps;
            back = back.into_iter().chain(earlier.back).min();
        }
    }
    let (read, written) = touched(step);
    Placed {
        round,
        index,
        steps,
        back,
        read,
        written,
    }
}

impl Placed {
    /// Whether all steps of a round are complete when this one starts.
    fn finds_complete(&self, round: usize) -> bool {
        self.back.is_some_and(|back| round + back <= self.round)
    }

    fn waits_for(&self, other: &Placed) -> bool {
        other.round == self.round && self.steps & (1 << other.index) != 0
    }

    fn conflicts(&self, other: &Placed) -> bool {
        let any = |one: &[Span], other: &[Span]| {
            one.iter()
                .any(|one| other.iter().any(|other| overlap(*one, *other)))
        };
        any(&self.written, &other.written)
            || any(&self.written, &other.read)
            || any(&self.read, &other.written)
    }
}

/// What a step reads and what it writes.
fn touched(step: &Step) -> (Vec<Span>, Vec<Span>) {
    match step.action {
        Action::Send { from, .. } => (vec![from], Vec::new()),
        Action::Recv { into, .. } => (Vec::new(), vec![into]),
        Action::Reduce { from, into, .. } => (vec![from, into], vec![into]),
        Action::Copy { from, into, repeat } => (0..repeat.times)
            .map(|index| repeat.spans(index, from, into))
            .unzip(),
    }
}
