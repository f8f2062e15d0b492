//! What to do next.

use std::collections::{BTreeSet, VecDeque};

use crate::context::Context;
use crate::round::Round;
use crate::schedule::Schedule;
use crate::step::{Action, Mode, Repeat, Side, Span, Step};

/// Names a step of the running schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StepId {
    /// Its round.
    pub round: usize,
    /// Its place in the round.
    pub index: usize,
}

/// Names a message among those between two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId {
    /// The round in which both ends have it.
    pub round: usize,
    /// Its lane in the round.
    pub lane: u8,
}

/// Something to do now. When it is done, [`Executor::complete`] must be told: for a send, when its span
/// may be written again, and if it is to keep in step, when the receiver's node has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Send a message.
    Send {
        /// To whom.
        to: usize,
        /// Its name.
        message: MessageId,
        /// What.
        from: Span,
        /// Whether it is done only when it has arrived.
        in_step: bool,
    },
    /// Be ready to receive a message; done when it lies in its place.
    Receive {
        /// From whom.
        from: usize,
        /// Its name.
        message: MessageId,
        /// Where to.
        into: Span,
        /// Whether its sender waits to be told.
        announce: bool,
    },
    /// Copy.
    Copy {
        /// From where, the first time.
        from: Span,
        /// To where, the first time.
        into: Span,
        /// How often.
        repeat: Repeat,
    },
    /// Combine.
    Reduce {
        /// What comes in.
        from: Span,
        /// What it is combined with.
        into: Span,
        /// On which side it comes in.
        side: Side,
    },
}

/// A message that this rank's schedule does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown;

/// One rank's way through a schedule. Holds [`Executor::WINDOW`] rounds at most, of which it keeps some
/// bits each: 5 KiB, whatever the schedule's length; and the names of messages whose receivers are ready
/// before it is, up to 50 KiB more if a pipeline with rendezvous has a thousand rounds under way.
///
/// # Driving
/// Do what [`poll`](Executor::poll) says until it says nothing, in any order; tell
/// [`complete`](Executor::complete) and [`peer_is_ready`](Executor::peer_is_ready) what has happened;
/// poll again. [`is_complete`](Executor::is_complete) says when all is done.
pub struct Executor<'a> {
    schedule: &'a dyn Schedule,
    cx: Context<'a>,
    rank: usize,
    rounds: usize,
    /// All rounds before this one are complete.
    base: usize,
    /// The rounds from `base` on that were looked at.
    window: VecDeque<Progress>,
    /// The rounds before this one need not be looked at, but for those that were stirred.
    frontier: usize,
    /// Rounds of which something has happened.
    stirred: Vec<usize>,
    /// Nothing has happened since nothing could start.
    idle: bool,
    /// What has its turn when nothing more can be received.
    due: VecDeque<(StepId, Command)>,
    /// Receivers that are ready for a message that can't leave yet.
    ready: BTreeSet<(MessageId, usize)>,
}

#[derive(Clone, Copy)]
struct Progress {
    /// Bit for each step.
    all: u8,
    started: u8,
    done: u8,
    /// Nothing can start before something of this round happens.
    waits: bool,
}

/// Behind so many rounds that wait for others, none is looked at: it will mostly wait, too.
const LOOK_AHEAD: usize = 4;

/// Behind so many steps that are due, none is looked for that receives: its word to a sender is not to stand behind data of this
/// rank, but a rank that sends a thousand segments of a pipeline need not look at all of them first.
const DUE_MOST: usize = 8;

/// Why a step has not started.
enum Hindrance {
    /// Earlier rounds.
    Rounds,
    /// Something of its own round, or its peer.
    Round,
}

impl<'a> Executor<'a> {
    /// The most rounds under way.
    pub const WINDOW: usize = 1024;

    /// Begins a schedule as `rank`.
    pub fn new(schedule: &'a dyn Schedule, cx: Context<'a>, rank: usize) -> Self {
        Executor {
            schedule,
            cx,
            rank,
            rounds: schedule.rounds(&cx),
            base: 0,
            window: VecDeque::new(),
            frontier: 0,
            stirred: Vec::new(),
            idle: false,
            due: VecDeque::new(),
            ready: BTreeSet::new(),
        }
    }

    /// Whether all steps are complete.
    pub fn is_complete(&self) -> bool {
        self.base == self.rounds
    }

    /// What to do next, receives first; `None` until something is told.
    ///
    /// # Cost
    /// Some 100 ns for each round looked at; a round is looked at again when something of it happens.
    pub fn poll(&mut self) -> Option<(StepId, Command)> {
        while self.due.len() < DUE_MOST {
            match self.find_next() {
                Some(receive @ (_, Command::Receive { .. })) => return Some(receive),
                Some(other) => self.due.push_back(other),
                None => break,
            }
        }
        self.due.pop_front()
    }

    fn find_next(&mut self) -> Option<(StepId, Command)> {
        if self.idle {
            return None;
        }
        while let Some(k) = self.stirred.last().copied() {
            if k >= self.base
                && let Ok(found) = self.poll_round(k)
            {
                return Some(found);
            }
            self.stirred.pop();
        }
        let mut k = self.frontier;
        let mut hindered = 0;
        while k < self.rounds.min(self.base + Self::WINDOW) && hindered < LOOK_AHEAD {
            match self.poll_round(k) {
                Ok(found) => return Some(found),
                Err(Hindrance::Rounds) => hindered += 1,
                Err(Hindrance::Round) => self.frontier += usize::from(k == self.frontier),
            }
            k = (k + 1).max(self.base);
        }
        self.idle = true;
        None
    }

    /// A step is done.
    ///
    /// # Panics
    /// If it was not under way.
    pub fn complete(&mut self, step: StepId) {
        let progress = &mut self.window[step.round - self.base];
        let bit = 1 << step.index;
        assert!(
            progress.started & bit != 0 && progress.done & bit == 0,
            "{step:?} is not under way"
        );
        progress.done |= bit;
        self.stir(step.round);
        self.leave_complete();
    }

    /// A peer is ready to receive a message. May be told more than once.
    ///
    /// # Errors
    /// If this rank has no such message for it: the peer is in something else.
    pub fn peer_is_ready(&mut self, peer: usize, message: MessageId) -> Result<(), Unknown> {
        let (index, step) = self.find(message, |action| {
            matches!(*action, Action::Send { to, lane, .. } if (to, lane) == (peer, message.lane))
        })?;
        let waits_for_peer = matches!(
            step.action,
            Action::Send {
                mode: Mode::Rendezvous,
                ..
            }
        );
        let started = match message.round.checked_sub(self.base) {
            None => true,
            Some(place) => {
                let progress = self.window.get(place);
                progress.is_some_and(|progress| progress.started & (1 << index) != 0)
            }
        };
        if waits_for_peer && !started {
            self.ready.insert((message, peer));
            self.stir(message.round);
        }
        Ok(())
    }

    /// The step that waits for a message, and where it goes; `None` if the message has come too early,
    /// or once too often.
    ///
    /// # Errors
    /// If this rank expects no such message from the peer: it is in something else.
    pub fn expects(
        &self,
        peer: usize,
        message: MessageId,
    ) -> Result<Option<(StepId, Span)>, Unknown> {
        let (index, step) = self.find(message, |action| {
            matches!(*action, Action::Recv { from, lane, .. } if (from, lane) == (peer, message.lane))
        })?;
        let Action::Recv { into, .. } = step.action else {
            return Err(Unknown);
        };
        let progress = message
            .round
            .checked_sub(self.base)
            .and_then(|place| self.window.get(place));
        let waits =
            progress.is_some_and(|progress| progress.started & !progress.done & (1 << index) != 0);
        let step = StepId {
            round: message.round,
            index,
        };
        Ok(waits.then_some((step, into)))
    }

    /// The messages that this rank is ready to receive, each with its sender: what to ask for when
    /// nothing has come for long.
    ///
    /// # Cost
    /// As [`poll`](Executor::poll), for each round under way.
    pub fn awaited(&self) -> impl Iterator<Item = (usize, MessageId)> {
        let rounds = self.window.iter().enumerate();
        rounds.flat_map(|(place, progress)| {
            let k = self.base + place;
            let under_way = progress.started & !progress.done;
            let round = self.schedule.round(&self.cx, self.rank, k);
            let messages = (0..round.len()).filter_map(move |index| match round[index].action {
                Action::Recv { from, lane, .. } if under_way & (1 << index) != 0 => {
                    Some((from, MessageId { round: k, lane }))
                }
                _ => None,
            });
            messages.collect::<Vec<_>>()
        })
    }

    fn find(
        &self,
        message: MessageId,
        is_it: impl Fn(&Action) -> bool,
    ) -> Result<(usize, Step), Unknown> {
        if message.round >= self.rounds {
            return Err(Unknown);
        }
        let round = self.schedule.round(&self.cx, self.rank, message.round);
        let index = round.iter().position(|step| is_it(&step.action));
        index.map(|index| (index, round[index])).ok_or(Unknown)
    }

    /// Finds a step of a round that can start, or why there is none.
    fn poll_round(&mut self, k: usize) -> Result<(StepId, Command), Hindrance> {
        let known = self.window.get(k - self.base).copied();
        if known.is_some_and(|progress| progress.waits || progress.started == progress.all) {
            return Err(Hindrance::Round);
        }
        let round = self.schedule.round(&self.cx, self.rank, k);
        let progress = known.unwrap_or_else(|| self.enter(&round));
        let mut hindrance = Hindrance::Round;
        for (index, step) in round.iter().enumerate() {
            if progress.started & (1 << index) != 0 {
                continue;
            }
            match self.may_start(k, progress, step) {
                Ok(()) => return Ok(self.start(StepId { round: k, index }, step)),
                Err(Hindrance::Rounds) => hindrance = Hindrance::Rounds,
                Err(Hindrance::Round) => {}
            }
        }
        if let Hindrance::Round = hindrance {
            self.window[k - self.base].waits = true;
            self.leave_complete();
        }
        Err(hindrance)
    }

    fn enter(&mut self, round: &Round) -> Progress {
        let all = ((1_u16 << round.len()) - 1) as u8;
        let progress = Progress {
            all,
            started: 0,
            done: 0,
            waits: false,
        };
        self.window.push_back(progress);
        progress
    }

    fn may_start(&self, k: usize, progress: Progress, step: &Step) -> Result<(), Hindrance> {
        let back = step.after.back as usize;
        if back > 0 && k >= back && self.base <= k - back {
            return Err(Hindrance::Rounds);
        }
        if step.after.steps & !progress.done != 0 {
            return Err(Hindrance::Round);
        }
        match step.action {
            Action::Send {
                to,
                lane,
                mode: Mode::Rendezvous,
                ..
            } if !self.ready.contains(&(MessageId { round: k, lane }, to)) => Err(Hindrance::Round),
            _ => Ok(()),
        }
    }

    /// Whether a message of a round is done only when it has arrived.
    fn keeps_in_step(&self, k: usize, from: Span) -> bool {
        let bytes = from.len * self.cx.element_bytes;
        k + 1 < self.rounds && bytes >= self.schedule.in_step_from_bytes(&self.cx)
    }

    fn start(&mut self, id: StepId, step: &Step) -> (StepId, Command) {
        self.window[id.round - self.base].started |= 1 << id.index;
        let message = |lane| MessageId {
            round: id.round,
            lane,
        };
        let command = match step.action {
            Action::Send { to, from, lane, .. } => {
                self.ready.remove(&(message(lane), to));
                Command::Send {
                    to,
                    message: message(lane),
                    from,
                    in_step: self.keeps_in_step(id.round, from),
                }
            }
            Action::Recv {
                from,
                into,
                lane,
                mode,
            } => Command::Receive {
                from,
                message: message(lane),
                into,
                announce: mode == Mode::Rendezvous,
            },
            Action::Copy { from, into, repeat } => Command::Copy { from, into, repeat },
            Action::Reduce { from, into, side } => Command::Reduce { from, into, side },
        };
        (id, command)
    }

    /// Something of a round has happened.
    fn stir(&mut self, k: usize) {
        self.idle = false;
        if let Some(progress) = self.window.get_mut(k - self.base)
            && progress.waits
        {
            progress.waits = false;
            self.stirred.push(k);
        }
    }

    /// Lets go of rounds that are complete.
    fn leave_complete(&mut self) {
        while self
            .window
            .front()
            .is_some_and(|progress| progress.done == progress.all)
        {
            self.window.pop_front();
            self.base += 1;
        }
        self.frontier = self.frontier.max(self.base);
    }
}
