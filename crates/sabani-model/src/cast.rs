//! All ranks of a collective at once, each with its own executor: what each of them does next, without
//! data and without time, which is the caller's.

use std::collections::HashSet;

use sabani_collective::Choice;
use sabani_collective::execute::{Command, Executor, HEADER_BYTES, MessageId, StepId};

use crate::task::Task;

/// What a rank does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Act {
    /// Sends a message.
    Send {
        /// To whom.
        to: usize,
        /// Its name.
        message: MessageId,
        /// Its length, with its header.
        bytes: usize,
        /// What [`Cast::arrived`] must be told when its sender knows that it has arrived, if that makes a difference.
        in_step: Option<StepId>,
    },
    /// Tells a sender that it is ready to receive a message.
    Announce {
        /// Whom.
        to: usize,
        /// The message.
        message: MessageId,
        /// Length of the word.
        bytes: usize,
    },
    /// Copies so many bytes.
    Copy(usize),
    /// Combines so many bytes with what it has.
    Reduce(usize),
}

/// The ranks.
pub struct Cast<'t> {
    ranks: Vec<Rank<'t>>,
    unfinished: usize,
}

struct Rank<'t> {
    executor: Executor<'t>,
    /// Messages that have come before they were expected.
    early: HashSet<(usize, MessageId)>,
    complete: bool,
}

impl<'t> Cast<'t> {
    /// Everybody at the beginning.
    pub fn new(task: &'t Task, choice: &Choice) -> Self {
        let cx = task.context(choice.parameters);
        let rank = |rank| Rank {
            executor: Executor::new(choice.algorithm.schedule, cx, rank),
            early: HashSet::new(),
            complete: false,
        };
        Cast {
            ranks: (0..task.ranks).map(rank).collect(),
            unfinished: task.ranks,
        }
    }

    /// Whether all are done.
    pub fn is_complete(&self) -> bool {
        self.unfinished == 0
    }

    /// What a rank does next; `None` until something comes for it. Whatever it does counts as done, but for
    /// messages that are to keep in step: the caller sees to it that what follows takes place later.
    pub fn next(&mut self, rank: usize) -> Option<Act> {
        let Rank {
            executor,
            early,
            complete,
        } = &mut self.ranks[rank];
        loop {
            let Some((step, command)) = executor.poll() else {
                self.unfinished -= usize::from(executor.is_complete() && !*complete);
                *complete = executor.is_complete();
                return None;
            };
            let act = match command {
                Command::Send {
                    to,
                    message,
                    from,
                    in_step,
                } => {
                    if !in_step {
                        executor.complete(step);
                    }
                    return Some(Act::Send {
                        to,
                        message,
                        bytes: HEADER_BYTES + from.len,
                        in_step: in_step.then_some(step),
                    });
                }
                Command::Copy { from, repeat, .. } => Act::Copy(from.len * repeat.times),
                Command::Reduce { from, .. } => Act::Reduce(from.len),
                Command::Receive {
                    from,
                    message,
                    announce,
                    ..
                } => {
                    if early.remove(&(from, message)) {
                        executor.complete(step);
                    }
                    if announce {
                        return Some(Act::Announce {
                            to: from,
                            message,
                            bytes: HEADER_BYTES,
                        });
                    }
                    continue;
                }
            };
            executor.complete(step);
            return Some(act);
        }
    }

    /// A message has come to a rank.
    ///
    /// # Panics
    /// If the schedule has no such message: the checker proves that it has.
    pub fn arrive(&mut self, rank: usize, from: usize, message: MessageId) {
        let rank = &mut self.ranks[rank];
        let expected = rank.executor.expects(from, message);
        let expected: Option<(StepId, _)> = expected.expect("both ends have the message");
        match expected {
            Some((step, _)) => rank.executor.complete(step),
            None => {
                rank.early.insert((from, message));
            }
        }
    }

    /// A rank knows that a message of its own that is to keep in step has arrived.
    pub fn arrived(&mut self, rank: usize, step: StepId) {
        self.ranks[rank].executor.complete(step);
    }

    /// A receiver's announcement has come to a rank.
    ///
    /// # Panics
    /// If the schedule has no such message.
    pub fn peer_is_ready(&mut self, rank: usize, peer: usize, message: MessageId) {
        let told = self.ranks[rank].executor.peer_is_ready(peer, message);
        told.expect("both ends have the message");
    }
}
