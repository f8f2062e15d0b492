//! A schedule as part of another one.

use crate::step::{Action, Span};
use crate::{Buffer, Context, Hosts, Round, Schedule};

/// The ranks of a phase.
#[derive(Clone, Copy, Debug)]
enum Group<'p> {
    /// Those of one host.
    Host(&'p [usize]),
    /// One for each host, given the root.
    Leaders(&'p Hosts, usize),
}

impl Group<'_> {
    fn rank(&self, member: usize) -> usize {
        match self {
            Group::Host(ranks) => ranks[member],
            Group::Leaders(hosts, root) => hosts.leader(member, *root),
        }
    }
}

/// A place in a buffer.
type Place = (Buffer, usize);

/// An algorithm among some of the ranks.
pub(in crate::algorithms) struct Phase<'p> {
    schedule: &'p dyn Schedule,
    /// As its ranks see it.
    cx: Context<'p>,
    group: Group<'p>,
    /// This rank's number among them, if it is one.
    member: Option<usize>,
    /// At least as many as any group has.
    rounds: usize,
    input: Place,
    output: Place,
    scratch: Place,
}

impl<'p> Phase<'p> {
    /// Among the ranks of `rank`'s host, whose leader is the root.
    pub(super) fn within(schedule: &'p dyn Schedule, cx: &Context<'p>, rank: usize) -> Self {
        let hosts = hosts(cx);
        let (host, place) = hosts.place(rank);
        let ranks = hosts.members(host);
        let cx_of = |size, leader| Context {
            size,
            root: hosts.place(leader).1,
            hosts: None,
            ..*cx
        };
        let rounds = schedule.rounds(&cx_of(hosts.largest(), cx.root));
        let cx = cx_of(ranks.len(), hosts.leader(host, cx.root));
        Phase::new(schedule, cx, Group::Host(ranks), Some(place), rounds)
    }

    /// Among the leaders of all hosts, of which that of the root's host is the root.
    pub(super) fn across(schedule: &'p dyn Schedule, cx: &Context<'p>, rank: usize) -> Self {
        let hosts = hosts(cx);
        let (host, _) = hosts.place(rank);
        let is_leader = hosts.leader(host, cx.root) == rank;
        let group = Group::Leaders(hosts, cx.root);
        let cx = Context {
            size: hosts.len(),
            root: hosts.place(cx.root).0,
            hosts: None,
            ..*cx
        };
        let rounds = schedule.rounds(&cx);
        Phase::new(schedule, cx, group, is_leader.then_some(host), rounds)
    }

    fn new(
        schedule: &'p dyn Schedule,
        cx: Context<'p>,
        group: Group<'p>,
        member: Option<usize>,
        rounds: usize,
    ) -> Self {
        Phase {
            schedule,
            cx,
            group,
            member,
            rounds,
            input: (Buffer::Input, 0),
            output: (Buffer::Output, 0),
            scratch: (Buffer::Scratch, 0),
        }
    }

    /// With its input elsewhere.
    pub(super) fn input(self, buffer: Buffer, start: usize) -> Self {
        let input = (buffer, start);
        Phase { input, ..self }
    }

    /// With its output elsewhere.
    pub(super) fn output(self, buffer: Buffer, start: usize) -> Self {
        let output = (buffer, start);
        Phase { output, ..self }
    }

    /// With its scratch memory behind some elements.
    pub(super) fn scratch_from(self, start: usize) -> Self {
        let scratch = (Buffer::Scratch, start);
        Phase { scratch, ..self }
    }

    fn round(&self, k: usize, start: usize) -> Option<Round> {
        let member = self.member?;
        if k >= self.schedule.rounds(&self.cx) {
            return None;
        }
        let mut round = self.schedule.round(&self.cx, member, k);
        for step in round.iter_mut() {
            let back = step.after.back as usize;
            if start > 0 && (back == 0 || back > k) {
                // What was before the phase is complete.
                step.after.back = k as u32 + 1;
            }
            self.translate(&mut step.action);
        }
        Some(round)
    }

    fn translate(&self, action: &mut Action) {
        let place = |span: &mut Span| {
            let (buffer, start) = match span.buffer {
                Buffer::Input => self.input,
                Buffer::Output => self.output,
                Buffer::Scratch => self.scratch,
            };
            span.buffer = buffer;
            span.start += start;
        };
        match action {
            Action::Send {
                to: peer,
                from: span,
                ..
            }
            | Action::Recv {
                from: peer,
                into: span,
                ..
            } => {
                *peer = self.group.rank(*peer);
                place(span);
            }
            Action::Copy { from, into, .. } | Action::Reduce { from, into, .. } => {
                place(from);
                place(into);
            }
        }
    }

    fn room(&self) -> usize {
        let own = self
            .member
            .map_or(0, |member| self.schedule.scratch(&self.cx, member));
        self.scratch.1 + own
    }
}

fn hosts<'p>(cx: &Context<'p>) -> &'p Hosts {
    cx.hosts.expect("only asked where there are hosts")
}

/// The most phases that an algorithm has.
pub(in crate::algorithms) const PHASES: usize = 3;

/// An algorithm in phases.
pub(in crate::algorithms) trait Phases: Sync {
    fn fits(&self, cx: &Context) -> bool;

    /// The phases, as `rank` sees them.
    fn phases<'p>(&'p self, cx: &'p Context<'p>, rank: usize) -> [Option<Phase<'p>>; PHASES];
}

/// One phase after the other.
pub(in crate::algorithms) struct Phased<T>(pub(in crate::algorithms) T);

impl<T: Phases> Schedule for Phased<T> {
    fn fits(&self, cx: &Context) -> bool {
        self.0.fits(cx)
    }

    fn rounds(&self, cx: &Context) -> usize {
        let phases = self.0.phases(cx, cx.root);
        phases.iter().flatten().map(|phase| phase.rounds).sum()
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let mut start = 0;
        for phase in self.0.phases(cx, rank).iter().flatten() {
            if k < start + phase.rounds {
                let round = phase.round(k - start, start);
                return round.unwrap_or_else(|| Round::new(cx));
            }
            start += phase.rounds;
        }
        Round::new(cx)
    }

    fn scratch(&self, cx: &Context, rank: usize) -> usize {
        let phases = self.0.phases(cx, rank);
        phases.iter().flatten().map(Phase::room).max().unwrap_or(0)
    }
}
