//! The execution with the most waiting.

use super::value::Memory;
use super::{Fault, Wrong};
use crate::context::Context;
use crate::round::Round;
use crate::schedule::Schedule;
use crate::step::{Action, Mode, Span, Step};

/// Ranks, as sets of bits.
type Ranks = u128;

/// Where one rank is.
struct Runner {
    k: usize,
    round: Round,
    done: u8,
    /// Whose begin each step of the round comes after.
    heard: [Ranks; Round::MOST],
    /// Whose begin the end of each round, and of those before it, comes after.
    heard_in_round: Vec<Ranks>,
    memory: Memory,
}

/// A step whose turn it is.
#[derive(Clone, Copy)]
struct Turn {
    rank: usize,
    index: usize,
}

struct Run<'a> {
    schedule: &'a dyn Schedule,
    contexts: &'a [Context<'a>],
    runners: Vec<Runner>,
    /// Ranks that may have something to do.
    waiting: Vec<usize>,
}

/// Runs all ranks to the end. Returns what they end with, and whose begin each one's end comes after.
pub(super) fn to_the_end(
    schedule: &dyn Schedule,
    contexts: &[Context],
    memories: Vec<Memory>,
) -> Result<(Vec<Memory>, Vec<Ranks>), Fault> {
    let runner = |(rank, memory): (usize, Memory)| Runner {
        k: 0,
        round: first(schedule, &contexts[rank], rank),
        done: 0,
        heard: [0; Round::MOST],
        heard_in_round: Vec::new(),
        memory,
    };
    let mut run = Run {
        schedule,
        contexts,
        runners: memories.into_iter().enumerate().map(runner).collect(),
        waiting: (0..contexts.len()).rev().collect(),
    };
    while let Some(rank) = run.waiting.pop() {
        run.advance(rank)?;
    }
    for rank in 0..run.runners.len() {
        run.must_be_at_end(rank)?;
    }
    let end = |runner: Runner| {
        let heard = runner.heard_in_round.last().copied();
        (runner.memory, heard.unwrap_or_default())
    };
    Ok(run.runners.into_iter().map(end).unzip())
}

fn first(schedule: &dyn Schedule, cx: &Context, rank: usize) -> Round {
    match schedule.rounds(cx) {
        0 => Round::new(cx),
        _ => schedule.round(cx, rank, 0),
    }
}

impl Run<'_> {
    fn rounds(&self, rank: usize) -> usize {
        self.schedule.rounds(&self.contexts[rank])
    }

    /// Does all that a rank can do now.
    fn advance(&mut self, rank: usize) -> Result<(), Fault> {
        while self.runners[rank].k < self.rounds(rank) {
            for index in 0..self.runners[rank].round.len() {
                let turn = Turn { rank, index };
                if self.may_start(turn) {
                    self.step(turn).map_err(|what| self.fault(turn, what))?;
                }
            }
            let runner = &mut self.runners[rank];
            if usize::from(runner.done) + 1 != 1 << runner.round.len() {
                break;
            }
            let (cx, k) = (&self.contexts[rank], runner.k + 1);
            let heard = runner.heard[..runner.round.len()].iter();
            let heard = heard.fold(1 << rank, |all, heard| all | heard);
            let before = runner.heard_in_round.last().copied().unwrap_or_default();
            runner.heard_in_round.push(heard | before);
            (runner.k, runner.done) = (k, 0);
            if k < self.schedule.rounds(cx) {
                runner.round = self.schedule.round(cx, rank, k);
            }
        }
        Ok(())
    }

    fn may_start(&self, turn: Turn) -> bool {
        let runner = &self.runners[turn.rank];
        let after = runner.round[turn.index].after;
        runner.done & (1 << turn.index) == 0 && after.steps & !runner.done == 0
    }

    /// Does a step, a message if its other end is ready, too.
    fn step(&mut self, turn: Turn) -> Result<(), Wrong> {
        let runner = &mut self.runners[turn.rank];
        match runner.round[turn.index].action {
            Action::Copy { from, into, repeat } => {
                for time in 0..repeat.times {
                    let (from, into) = repeat.spans(time, from, into);
                    let values = runner.memory.read(from)?;
                    runner.memory.write(into, &values);
                }
            }
            Action::Reduce { from, into, side } => {
                let commutative = self.contexts[turn.rank].commutative;
                runner.memory.reduce(from, into, side, commutative)?;
            }
            Action::Send { to: peer, .. } | Action::Recv { from: peer, .. } => {
                return self.meet(turn, peer);
            }
        }
        self.complete(turn, 0);
        Ok(())
    }

    fn meet(&mut self, turn: Turn, peer: usize) -> Result<(), Wrong> {
        let (mine, other) = (&self.runners[turn.rank], &self.runners[peer]);
        if other.k != mine.k || other.k >= self.rounds(peer) {
            return Ok(());
        }
        let step = &mine.round[turn.index];
        let is_end = |other: &Step| ends(turn.rank, step, peer, other);
        let Some(index) = other.round.iter().position(is_end) else {
            return Ok(());
        };
        let other = Turn { rank: peer, index };
        if !self.may_start(other) {
            return Ok(());
        }
        let (sender, receiver) = match step.action {
            Action::Send { .. } => (turn, other),
            _ => (other, turn),
        };
        let (from, sent) = message(self.step_at(sender));
        let (into, expected) = message(self.step_at(receiver));
        if from.len != into.len || sent != expected {
            return Err(Wrong::Ends);
        }
        let values = self.runners[sender.rank].memory.read(from)?;
        self.runners[receiver.rank].memory.write(into, &values);
        let heard = self.complete(sender, 0);
        self.complete(receiver, heard);
        self.waiting.push(peer);
        Ok(())
    }

    fn step_at(&self, turn: Turn) -> &Step {
        &self.runners[turn.rank].round[turn.index]
    }

    /// A step is done that also comes after the begins of some ranks that it was told of. Returns all
    /// that it comes after.
    fn complete(&mut self, turn: Turn, told: Ranks) -> Ranks {
        let runner = &mut self.runners[turn.rank];
        let after = runner.round[turn.index].after;
        let mut heard = told | 1 << turn.rank;
        for index in (0..Round::MOST).filter(|index| after.steps & (1 << index) != 0) {
            heard |= runner.heard[index];
        }
        let back = after.back as usize;
        if back > 0 && back <= runner.k {
            heard |= runner.heard_in_round[runner.k - back];
        }
        runner.heard[turn.index] = heard;
        runner.done |= 1 << turn.index;
        heard
    }

    fn must_be_at_end(&self, rank: usize) -> Result<(), Fault> {
        let runner = &self.runners[rank];
        if runner.k == self.rounds(rank) {
            return Ok(());
        }
        let mut turns = (0..runner.round.len()).map(|index| Turn { rank, index });
        let turn = turns.find(|turn| self.may_start(*turn));
        let turn = turn.unwrap_or(Turn { rank, index: 0 });
        let peer = match self.step_at(turn).action {
            Action::Send { to: peer, .. } | Action::Recv { from: peer, .. } => Some(peer),
            _ => None,
        };
        Err(self.fault(turn, Wrong::Stuck(peer)))
    }

    fn fault(&self, turn: Turn, what: Wrong) -> Fault {
        Fault {
            rank: turn.rank,
            round: Some(self.runners[turn.rank].k),
            step: Some(turn.index),
            what,
        }
    }
}

/// Whether two steps of two ranks are the ends of one message.
fn ends(rank: usize, step: &Step, peer: usize, other: &Step) -> bool {
    match (step.action, other.action) {
        (
            Action::Send { to, lane: sent, .. },
            Action::Recv {
                from,
                lane: expected,
                ..
            },
        )
        | (
            Action::Recv {
                from: to,
                lane: sent,
                ..
            },
            Action::Send {
                to: from,
                lane: expected,
                ..
            },
        ) => (to, from, sent) == (peer, rank, expected),
        _ => false,
    }
}

/// A message's span and mode.
fn message(step: &Step) -> (Span, Mode) {
    match step.action {
        Action::Send { from, mode, .. } => (from, mode),
        Action::Recv { into, mode, .. } => (into, mode),
        Action::Copy { from, .. } | Action::Reduce { from, .. } => (from, Mode::Eager),
    }
}
