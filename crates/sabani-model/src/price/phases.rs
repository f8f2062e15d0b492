//! A schedule as the closed-form models see it: phases, in each of which a rank sends at most one message
//! and receives at most one.

use std::collections::{HashMap, HashSet, VecDeque};

use sabani_collective::Choice;
use sabani_collective::execute::{MessageId, StepId};

use crate::cast::{Act, Cast};
use crate::task::Task;

/// Messages of one phase: C in g(m, C).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pattern {
    /// Sender, receiver and length of each.
    pub messages: Vec<(usize, usize, usize)>,
}

impl Pattern {
    /// The longest message.
    pub fn bytes(&self) -> usize {
        self.messages
            .iter()
            .map(|message| message.2)
            .max()
            .unwrap_or(0)
    }
}

/// What the closed forms need to know of a schedule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phases {
    /// C1 to Cn.
    pub patterns: Vec<Pattern>,
    /// The longest chain of messages each of which waits for the one before: how often L is paid.
    pub depth: usize,
    /// The most ranks that may send to one rank without waiting for each other: n in E_q(m, n).
    pub overlap: usize,
    /// The longest message among theirs: m in E_q(m, n).
    pub overlap_bytes: usize,
}

/// A message that waits to be sent.
#[derive(Clone, Copy)]
struct Waiting {
    to: usize,
    message: MessageId,
    bytes: usize,
    in_step: Option<StepId>,
    /// How many messages had to come before it, one after the other.
    level: usize,
}

/// A run through a schedule in which every message takes one phase.
struct Run<'t> {
    cast: Cast<'t>,
    waiting: Vec<VecDeque<Waiting>>,
    announcements: Vec<(usize, usize, MessageId)>,
    /// For each rank: messages that it had to wait for, one after the other.
    levels: Vec<usize>,
    /// For each receiver and level: its senders, and the longest message.
    senders: HashMap<(usize, usize), (HashSet<usize>, usize)>,
    phases: Phases,
}

impl Phases {
    /// Of an algorithm with its parameters.
    pub fn new(task: &Task, choice: &Choice) -> Self {
        let mut run = Run {
            cast: Cast::new(task, choice),
            waiting: vec![VecDeque::new(); task.ranks],
            announcements: Vec::new(),
            levels: vec![0; task.ranks],
            senders: HashMap::new(),
            phases: Phases::default(),
        };
        (0..task.ranks).for_each(|rank| run.advance(rank));
        run.announce();
        while run.phase() {
            run.announce();
        }
        run.result()
    }
}

impl Run<'_> {
    fn advance(&mut self, rank: usize) {
        let level = self.levels[rank];
        while let Some(act) = self.cast.next(rank) {
            match act {
                Act::Send {
                    to,
                    message,
                    bytes,
                    in_step,
                } => self.waiting[rank].push_back(Waiting {
                    to,
                    message,
                    bytes,
                    in_step,
                    level,
                }),
                Act::Announce { to, message, .. } => self.announcements.push((rank, to, message)),
                // As in the papers, work on memory is not counted.
                Act::Copy(_) | Act::Reduce(_) => {}
            }
        }
    }

    /// Receivers' announcements cost nothing here: the closed forms leave them out.
    fn announce(&mut self) {
        while let Some((receiver, sender, message)) = self.announcements.pop() {
            self.cast.peer_is_ready(sender, receiver, message);
            self.advance(sender);
        }
    }

    /// Sends what can be sent at a time; `false` if there is nothing.
    fn phase(&mut self) -> bool {
        let mut pattern = Pattern::default();
        let mut receives = vec![false; self.waiting.len()];
        let mut arrivals = Vec::new();
        for (from, waiting) in self.waiting.iter_mut().enumerate() {
            let Some(first) = waiting.front().copied().filter(|one| !receives[one.to]) else {
                continue;
            };
            waiting.pop_front();
            receives[first.to] = true;
            pattern.messages.push((from, first.to, first.bytes));
            arrivals.push((from, first));
        }
        if arrivals.is_empty() {
            return false;
        }
        self.phases.patterns.push(pattern);
        for &(
            from,
            Waiting {
                to,
                bytes,
                level,
                message,
                in_step,
            },
        ) in &arrivals
        {
            let (senders, longest) = self.senders.entry((to, level)).or_default();
            senders.insert(from);
            *longest = bytes.max(*longest);
            self.levels[to] = self.levels[to].max(level + 1);
            self.cast.arrive(to, from, message);
            if let Some(step) = in_step {
                self.cast.arrived(from, step);
            }
        }
        for (from, Waiting { to, .. }) in arrivals {
            self.advance(to);
            self.advance(from);
        }
        true
    }

    fn result(mut self) -> Phases {
        self.phases.depth = self.levels.into_iter().max().unwrap_or(0);
        let overlaps = self
            .senders
            .values()
            .map(|(senders, bytes)| (senders.len(), *bytes));
        let most = overlaps.max_by_key(|(senders, bytes)| senders.saturating_sub(1) * bytes);
        (self.phases.overlap, self.phases.overlap_bytes) = most.unwrap_or_default();
        self.phases
    }
}
