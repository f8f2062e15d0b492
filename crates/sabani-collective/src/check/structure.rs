//! What can be seen of each step by itself.

use super::value::Memory;
use super::{Fault, Wrong};
use crate::round::Round;
use crate::step::{Action, Buffer, Repeat, Span, Step};

/// Checks one rank's rounds.
pub(super) fn check(
    rank: usize,
    size: usize,
    memory: &Memory,
    rounds: &[Round],
) -> Result<(), Fault> {
    for (k, round) in rounds.iter().enumerate() {
        for (index, step) in round.iter().enumerate() {
            let checked = check_step(rank, size, memory, step)
                .and_then(|()| check_order(step, index))
                .and_then(|()| check_messages(&round[..index], step));
            checked.map_err(|what| Fault {
                rank,
                round: Some(k),
                step: Some(index),
                what,
            })?;
        }
    }
    Ok(())
}

fn check_step(rank: usize, size: usize, memory: &Memory, step: &Step) -> Result<(), Wrong> {
    let fits = |span: Span| match span.end() <= memory.buffer(span.buffer).len() {
        true => Ok(()),
        false if span.len == 0 => Ok(()),
        false => Err(Wrong::Span),
    };
    let is_writable = |span: Span| match span.buffer {
        Buffer::Input => Err(Wrong::InputWritten),
        _ => fits(span),
    };
    let is_other = |peer: usize| match peer < size && peer != rank {
        true => Ok(()),
        false => Err(Wrong::Peer),
    };
    match step.action {
        Action::Send { to, from, .. } => is_other(to).and_then(|()| fits(from)),
        Action::Recv { from, into, .. } => is_other(from).and_then(|()| is_writable(into)),
        Action::Copy { from, into, repeat } => {
            for index in 0..repeat.times {
                let (from, into) = repeat.spans(index, from, into);
                fits(from)?;
                is_writable(into)?;
            }
            apart(from, into, repeat)
        }
        Action::Reduce { from, into, .. } => {
            fits(from)?;
            is_writable(into)?;
            apart(from, into, Repeat::ONCE)
        }
    }
}

/// What is read and what is written are equally long, and not the same elements.
fn apart(from: Span, into: Span, repeat: Repeat) -> Result<(), Wrong> {
    let times = 0..repeat.times;
    let overlaps = times.clone().any(|one| {
        let read = repeat.spans(one, from, into).0;
        let mut written = times.clone().map(|other| repeat.spans(other, from, into).1);
        written.any(|written| overlap(read, written))
    });
    match from.len == into.len && !overlaps {
        true => Ok(()),
        false => Err(Wrong::Span),
    }
}

/// Whether two spans have an element in common.
pub(super) fn overlap(one: Span, other: Span) -> bool {
    one.buffer == other.buffer
        && one.len.min(other.len) > 0
        && one.start < other.end()
        && other.start < one.end()
}

fn check_order(step: &Step, index: usize) -> Result<(), Wrong> {
    match usize::from(step.after.steps) >> index {
        0 => Ok(()),
        _ => Err(Wrong::Order),
    }
}

fn check_messages(earlier: &[Step], step: &Step) -> Result<(), Wrong> {
    let name = |step: &Step| match step.action {
        Action::Send { to, lane, .. } => Some((true, to, lane)),
        Action::Recv { from, lane, .. } => Some((false, from, lane)),
        _ => None,
    };
    match name(step).is_some() && earlier.iter().any(|other| name(other) == name(step)) {
        true => Err(Wrong::Ambiguous),
        false => Ok(()),
    }
}
