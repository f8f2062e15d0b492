//! What the collectives mean: what ranks begin with, and what they should end with.

use super::value::{Memory, Value};
use super::{Fault, Wrong};
use crate::algorithms::Collective;
use crate::context::{Context, Counts};
use crate::schedule::Schedule;
use crate::step::Buffer;

/// What all ranks begin with.
pub(super) fn ranks(
    collective: Collective,
    schedule: &dyn Schedule,
    contexts: &[Context],
) -> Vec<Memory> {
    let begin = |(rank, cx): (usize, &Context)| {
        let given = begin(collective, cx, rank);
        let length = result(collective, contexts, rank).len();
        let mut output = vec![Value::default(); length];
        let in_place = starts_in_output(collective, cx, rank);
        let mut input = given;
        if let Some(start) = in_place {
            output[start..start + input.len()].copy_from_slice(&input);
            input.clear();
        }
        Memory {
            input,
            output,
            scratch: vec![Value::default(); schedule.scratch(cx, rank)],
        }
    };
    contexts.iter().enumerate().map(begin).collect()
}

/// What a rank contributes.
fn begin(collective: Collective, cx: &Context, rank: usize) -> Vec<Value> {
    let len = match collective {
        Collective::Barrier => 0,
        Collective::Bcast | Collective::Scatter if rank != cx.root => 0,
        Collective::Gather | Collective::Allgather => cx.own_len(rank),
        Collective::Alltoall => match cx.counts {
            Counts::Pairs { outgoing, .. } => outgoing[cx.size],
            _ => cx.total(),
        },
        _ => cx.total(),
    };
    (0..len).map(|index| Value::of(rank, index)).collect()
}

/// Where in the output a rank's contribution lies, if it does.
fn starts_in_output(collective: Collective, cx: &Context, rank: usize) -> Option<usize> {
    let at_root = rank == cx.root;
    match collective {
        Collective::Bcast => at_root.then_some(0),
        _ if !cx.in_place => None,
        Collective::Allreduce | Collective::Scan | Collective::Exscan => Some(0),
        Collective::Reduce => at_root.then_some(0),
        Collective::Gather => at_root.then(|| cx.offset(rank)),
        Collective::Allgather => Some(cx.offset(rank)),
        _ => None,
    }
}

/// What a rank should end with; `None` where it does not matter.
fn result(collective: Collective, contexts: &[Context], rank: usize) -> Vec<Option<Value>> {
    let (cx, size) = (&contexts[rank], contexts.len());
    let combined = |from: usize, to: usize| {
        let range = 0..cx.total();
        range.map(move |index| Some(Value::combined(from, to, index)))
    };
    let at_root = rank == cx.root;
    match collective {
        Collective::Barrier => Vec::new(),
        Collective::Bcast => combined(cx.root, cx.root + 1).collect(),
        Collective::Reduce | Collective::Gather if !at_root => Vec::new(),
        Collective::Reduce | Collective::Allreduce => combined(0, size).collect(),
        Collective::Scan => combined(0, rank + 1).collect(),
        Collective::Exscan if rank == 0 => vec![None; cx.total()],
        Collective::Exscan => combined(0, rank).collect(),
        Collective::Scatter if at_root && cx.in_place => Vec::new(),
        Collective::Gather | Collective::Allgather => {
            let block = |rank| {
                let range = 0..cx.own_len(rank);
                range.map(move |index| Some(Value::of(rank, index)))
            };
            (0..size).flat_map(block).collect()
        }
        Collective::Scatter => {
            let first = contexts[cx.root].offset(rank);
            let range = first..first + cx.own_len(rank);
            range.map(|index| Some(Value::of(cx.root, index))).collect()
        }
        Collective::ReduceScatter => {
            let range = cx.offset(rank)..cx.offset(rank + 1);
            range
                .map(|index| Some(Value::combined(0, size, index)))
                .collect()
        }
        Collective::Alltoall => {
            let block = |source: usize| {
                let sent = contexts[source].outgoing(rank);
                let range = sent.start..sent.end();
                range.map(move |index| Some(Value::of(source, index)))
            };
            (0..size).flat_map(block).collect()
        }
    }
}

/// Compares what ranks ended with and what they should have.
pub(super) fn check(
    collective: Collective,
    contexts: &[Context],
    ranks: &[Memory],
) -> Result<(), Fault> {
    for (rank, memory) in ranks.iter().enumerate() {
        let should = result(collective, contexts, rank);
        let pairs = memory.output.iter().zip(&should);
        let wrong =
            |(is, should): (&Value, &Option<Value>)| should.is_some_and(|value| value != *is);
        if let Some(place) = pairs.into_iter().position(wrong) {
            return Err(at_end(rank, Wrong::Result(Buffer::Output, place)));
        }
    }
    Ok(())
}

/// Nobody may have left before all had come: each one's end comes after the begin of all.
pub(super) fn check_barrier(heard: &[u128]) -> Result<(), Fault> {
    for (rank, known) in heard.iter().enumerate() {
        let missing = known.trailing_ones() as usize;
        if missing < heard.len() && heard.len() > 1 {
            return Err(at_end(rank, Wrong::LeavesBefore(missing)));
        }
    }
    Ok(())
}

fn at_end(rank: usize, what: Wrong) -> Fault {
    Fault {
        rank,
        round: None,
        step: None,
        what,
    }
}
