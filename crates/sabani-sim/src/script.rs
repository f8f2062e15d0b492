//! Things that happen at their time, without the scenario stopping to make them happen.

use std::fmt;

use crate::delay::{StallClock, Stalls};
use crate::engine::Action;
use crate::{HostId, Network};

/// What is still to be done, in no particular order; the agenda knows the times.
#[derive(Default)]
pub(crate) struct Script {
    steps: Vec<Option<Step>>,
}

type Step = Box<dyn FnOnce(&mut Network)>;

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.steps.iter().flatten().count();
        f.debug_struct("Script").field("waiting", &waiting).finish()
    }
}

impl Network {
    /// Does something to the network at a time of its own; at once if that is past.
    pub fn at(&mut self, at_ns: u64, step: impl FnOnce(&mut Network) + 'static) {
        let number = self.script.steps.len() as u32;
        self.script.steps.push(Some(Box::new(step)));
        let at_ns = at_ns.max(self.engine.now_ns);
        self.engine.agenda.push(at_ns, Action::Script(number));
    }

    pub(crate) fn follow_script(&mut self, number: u32) {
        if let Some(step) = self.script.steps[number as usize].take() {
            step(self);
        }
    }

    /// The process at `id` does not run for this long (SIGSTOP, a long computation).
    pub fn stall(&mut self, id: HostId, duration_ns: u64) {
        let until = self.engine.now_ns + duration_ns;
        let host = self.host(id);
        host.busy_until_ns = host.busy_until_ns.max(until);
    }

    /// From now on others have the processor of the process at `id` now and then.
    pub fn share_processor(&mut self, id: HostId, stalls: Stalls) {
        let (seed, now_ns) = (self.engine.rng.next_u64(), self.engine.now_ns);
        self.host(id).stalls = Some(StallClock::new(stalls, seed, now_ns));
    }

    /// Nothing passes from any of `from` to any of `to` between these times; the other direction
    /// is as it was.
    pub fn partition(&mut self, from: &[HostId], to: &[HostId], begin_ns: u64, end_ns: u64) {
        let pairs = from
            .iter()
            .flat_map(|&from| to.iter().map(move |&to| (from, to)));
        let pairs: Vec<_> = pairs.filter(|(from, to)| from != to).collect();
        let mend = pairs.clone();
        self.at(begin_ns, move |net| net.cut(&pairs, true));
        self.at(end_ns, move |net| net.cut(&mend, false));
    }

    /// The path between two hosts is down and up again, in turn, `times` times from `begin_ns` on.
    pub fn flap(
        &mut self,
        (one, other): (HostId, HostId),
        begin_ns: u64,
        (down_ns, up_ns): (u64, u64),
        times: u64,
    ) {
        for turn in 0..times {
            let down_at_ns = begin_ns + turn * (down_ns + up_ns);
            for (from, to) in [(one, other), (other, one)] {
                self.partition(&[from], &[to], down_at_ns, down_at_ns + down_ns);
            }
        }
    }

    fn cut(&mut self, pairs: &[(HostId, HostId)], cut: bool) {
        for &(from, to) in pairs {
            self.link(from, to).faults.cut = cut;
        }
    }
}
