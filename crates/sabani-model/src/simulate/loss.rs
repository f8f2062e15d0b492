//! Queues that overflow, and what repairs the loss.
//!
//! What a flow has on its way waits before the resource that limits it. Where that is more than the queue
//! holds, each packet there is lost with the same probability. A loss is found by packets that come
//! later, by a probe of the sender's, or by a timeout: which of them is a matter of where in the
//! message the loss is, and of chance.

use super::chance::Chance;
use super::traffic::{Message, Traffic, patience};
use crate::network::Recovery;
use crate::route::Resource;

/// How a loss is repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Packets behind it showed it.
    Later,
    /// Its sender asked.
    Probe,
    /// Nothing came for long.
    Timeout,
}

impl Repair {
    /// All there are.
    pub const ALL: [Repair; 3] = [Repair::Later, Repair::Probe, Repair::Timeout];
}

/// What losses cost in one replicate, and those that there were.
pub struct Losses {
    pub window_bytes: f64,
    pub later_ns: f64,
    probe_ns: Option<f64>,
    timeout_ns: f64,
    /// One was seen, and with it the queue that was full.
    seen: bool,
    pub packet_bytes: f64,
    later_packets: f64,
    pub granted: bool,
    pub repairs: [u32; Repair::ALL.len()],
    chance: Chance,
    /// Whether there is a queue at all that may overflow.
    pub can_happen: bool,
}

/// The part of lost tails of a window of so many packets of which the last packet alone is missing, without credit of receivers: whoever
/// waits for a single packet waits as long as for a timeout. What overflows a queue loses packets that follow each other; in labs of 8 to
/// 40 hosts (docs/model.md) this comes nearest to how many runs had to wait; `1 / packets` would make too many wait.
fn alone(packets: f64) -> f64 {
    1.0 / (packets * packets)
}

impl Losses {
    /// Where each rank may send to so many others. Where receivers grant credit, senders share what may come unasked.
    pub fn new(recovery: &Recovery, others: usize, can_happen: bool, mut chance: Chance) -> Self {
        let mut pick = |estimate| chance.pick(estimate).max(0.0);
        let window_bytes = pick(recovery.window_bytes);
        let window_bytes = if recovery.granted {
            (window_bytes / others.max(1) as f64).max(recovery.packet_bytes)
        } else {
            window_bytes
        };
        Losses {
            window_bytes,
            later_ns: pick(recovery.later_ns),
            probe_ns: recovery.probe_ns.map(&mut pick),
            timeout_ns: pick(recovery.timeout_ns),
            seen: recovery.seen,
            packet_bytes: recovery.packet_bytes,
            later_packets: f64::from(recovery.later_packets),
            granted: recovery.granted,
            repairs: [0; Repair::ALL.len()],
            chance,
            can_happen,
        }
    }

    /// Whether a message does not wait for those before it: where receivers grant credit, which is for bodies,
    /// what fits a packet goes beside them.
    pub fn overtakes(&self, message: &Message) -> bool {
        self.granted && message.cost.wire_bytes <= self.packet_bytes
    }

    /// How long a probe takes. Where receivers grant no credit, its sender waits for two round trips through the queue that is full.
    fn probed_ns(&self, full: &Resource) -> f64 {
        let timeout_ns = self.timed_out_ns(full);
        let queue_ns = 2.0 * self.queue_ns(full);
        let probe_ns = self.probe_ns.map(|probe_ns| probe_ns + queue_ns);
        probe_ns.map_or(timeout_ns, |probe_ns| probe_ns.min(timeout_ns))
    }

    /// How long a timeout takes: a round trip (RFC 6298) beside what the timer is set to, which is Linux's least variance of that. One that was seen
    /// had both in it.
    fn timed_out_ns(&self, full: &Resource) -> f64 {
        match self.seen {
            true => self.timeout_ns,
            false => self.timeout_ns + self.queue_ns(full),
        }
    }

    /// How much longer a round trip is through the queue that is full. Where receivers grant credit, they keep it from that.
    fn queue_ns(&self, full: &Resource) -> f64 {
        match self.granted {
            true => 0.0,
            false => full.queue_bytes * full.ns_per_byte,
        }
    }

    /// What becomes of `packets` under way, each lost with this probability; if `is_tail`, nothing
    /// follows them.
    fn fate(&mut self, packets: f64, lost: f64, is_tail: bool) -> Option<Repair> {
        let all_pass = |packets: f64| (1.0 - lost).powf(packets);
        // Packets are lost among the last ones, of which no later ones tell; or all of them, so that nothing comes behind.
        let unseen = match is_tail {
            true => 1.0 - all_pass(packets.min(self.later_packets)),
            // What is granted goes on all the same.
            false if self.granted => 0.0,
            false => lost.powf(packets),
        };
        let draw = self.chance.share();
        if draw < unseen {
            let fails = match self.granted {
                true => lost,
                false => alone(packets),
            };
            let passes = self.chance.share() >= fails;
            return Some(if passes && self.probe_ns.is_some() {
                Repair::Probe
            } else {
                Repair::Timeout
            });
        }
        (draw < 1.0 - all_pass(packets)).then_some(Repair::Later)
    }
}

/// When a flow is to be tested for losses again.
struct Due {
    next_ns: f64,
    /// How long all that it has on its way takes to pass.
    window_ns: f64,
}

impl Traffic<'_> {
    /// Tests every queue, and makes those wait who have lost something. It is looked again when the next flow is due, but where there are
    /// many for no fewer of them than may begin or end before shares are divided anew, as long as each is tested once in its window.
    pub(super) fn lose(&mut self, now_ns: f64) {
        let waiting: Vec<_> = self
            .active
            .iter()
            .map(|&index| self.in_queue(index))
            .collect();
        let mut queued = vec![0.0; self.routes.resources.len()];
        for (resource, bytes) in waiting.iter().flatten() {
            queued[*resource] += bytes;
        }
        let overflows = |resource: usize| {
            let room = self.routes.resources[resource].queue_bytes;
            (queued[resource] > room).then(|| 1.0 - room / queued[resource])
        };
        let lossy: Vec<_> = (0..queued.len()).map(overflows).collect();
        let (mut count, mut due_per_ns) = (0, 0.0);
        let (mut next_ns, mut least_ns) = (f64::INFINITY, f64::INFINITY);
        for (index, waits) in self.active.clone().into_iter().zip(waiting) {
            let lost = waits.and_then(|(resource, _)| lossy[resource]);
            if let Some(due) = lost.and_then(|lost| self.test(now_ns, index, lost)) {
                count += 1;
                due_per_ns += 1.0 / due.window_ns;
                next_ns = due.next_ns.min(next_ns);
                least_ns = due.window_ns.min(least_ns);
            }
        }
        self.look_again_ns = next_ns;
        if patience(count) > 0 {
            let together_ns = patience(count) as f64 / due_per_ns;
            self.look_again_ns = next_ns.max(now_ns + together_ns.min(least_ns));
        }
        // So late that nothing is added by what a few bytes take, time goes on all the same.
        self.look_again_ns = self.look_again_ns.max(now_ns.next_up());
    }

    /// Where a flow waits, and how much of it, if it does.
    fn in_queue(&self, index: usize) -> Option<(usize, f64)> {
        let flow = self.flows[index].as_ref()?;
        let pair = &self.pairs[flow.pair?];
        if self.losses.granted && flow.passed_bytes() > pair.window.bytes {
            return None;
        }
        let on_the_wire = flow.bytes_per_ns * pair.round_trip_ns;
        let bytes = pair.window.bytes.min(flow.left_bytes) - on_the_wire;
        (bytes > 0.0).then_some((flow.bound_by as usize, bytes))
    }

    /// Decides whether a flow loses something; no more than once in each of its windows. When that is to be decided again.
    fn test(&mut self, now_ns: f64, index: usize, lost: f64) -> Option<Due> {
        let flow = self.flows[index].as_mut()?;
        let pair = &mut self.pairs[flow.pair?];
        let left_bytes = flow.left_bytes;
        let window_bytes = pair.window.bytes;
        let window_ns = window_bytes / flow.bytes_per_ns;
        let untested = window_bytes - (flow.tested_bytes - left_bytes);
        if untested > 1.0 {
            return Some(Due {
                window_ns,
                next_ns: now_ns + untested / flow.bytes_per_ns,
            });
        }
        let due = Some(Due {
            window_ns,
            next_ns: now_ns + window_ns,
        });
        flow.tested_bytes = left_bytes;
        let under_way = window_bytes.min(left_bytes);
        let Losses {
            packet_bytes,
            granted,
            ..
        } = self.losses;
        let packets = (under_way / packet_bytes).ceil();
        let is_tail = left_bytes <= window_bytes && pair.waiting.is_empty();
        let Some(repair) = self.losses.fate(packets, lost, is_tail) else {
            return due;
        };
        self.losses.repairs[repair as usize] += 1;
        if !granted {
            let passed_bytes = flow.grown_bytes - left_bytes;
            pair.window.grow(passed_bytes, packet_bytes);
        }
        let full = &self.routes.resources[flow.bound_by as usize];
        let again = (lost * under_way).max(packet_bytes.min(under_way));
        let wait_ns = match repair {
            Repair::Later => {
                pair.window.shrink(lost, packet_bytes, granted);
                flow.left_bytes += again;
                flow.grown_bytes = flow.left_bytes;
                flow.not_before_ns = now_ns + self.losses.later_ns;
                return due;
            }
            Repair::Probe => {
                pair.window.shrink(lost, packet_bytes, granted);
                self.losses.probed_ns(full)
            }
            Repair::Timeout => {
                pair.window.begin_anew(lost, packet_bytes, granted);
                self.losses.timed_out_ns(full)
            }
        };
        self.stall(index, now_ns + wait_ns, left_bytes - under_way + again);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::switched;

    fn losses(granted: bool, probes: bool) -> Losses {
        let mut recovery = switched(2).transports["tcp"].recovery;
        recovery.granted = granted;
        if !probes {
            recovery.probe_ns = None;
        }
        Losses::new(&recovery, 1, true, Chance::seeded(7))
    }

    fn shares(mut losses: Losses, packets: f64, lost: f64, is_tail: bool) -> [f64; 4] {
        let mut counts = [0.0; 4];
        for _ in 0..20_000 {
            let fate = losses.fate(packets, lost, is_tail);
            counts[fate.map_or(3, |repair| repair as usize)] += 1.0 / 20_000.0;
        }
        counts
    }

    #[test]
    fn senders_share_what_receivers_take_unasked() {
        let window = |granted, others| {
            let mut recovery = switched(2).transports["tcp"].recovery;
            recovery.granted = granted;
            Losses::new(&recovery, others, true, Chance::none()).window_bytes
        };
        assert_eq!(window(false, 7), window(false, 1));
        assert_eq!(window(true, 4), window(true, 1) / 4.0);
        let packet_bytes = switched(2).transports["tcp"].recovery.packet_bytes;
        assert_eq!(window(true, 1 << 20), packet_bytes);
    }

    #[test]
    fn later_packets_probes_and_timeouts_repair_what_they_should() {
        let close = |got: [f64; 4], expected: [f64; 4]| {
            let off = got
                .iter()
                .zip(expected)
                .map(|(got, expected)| (got - expected).abs());
            assert!(off.fold(0.0, f64::max) < 0.02, "{got:?} {expected:?}");
        };
        // One of ten packets is lost, or none; the last three have none behind them.
        let tail = 1.0 - 0.9_f64.powi(3);
        let none = 0.9_f64.powi(10);
        for granted in [false, true] {
            let losses = |probes| losses(granted, probes);
            close(
                shares(losses(true), 10.0, 0.1, false),
                [1.0 - none, 0.0, 0.0, none],
            );
            // A probe is lost as others are; without credit, a sender waits who misses a single packet.
            let fails = if granted { 0.1 } else { 0.01 };
            let probed = [1.0 - none - tail, tail * (1.0 - fails), tail * fails, none];
            close(shares(losses(true), 10.0, 0.1, true), probed);
            close(
                shares(losses(false), 10.0, 0.1, true),
                [1.0 - none - tail, 0.0, tail, none],
            );
            close(shares(losses(true), 2.0, 0.0, true), [0.0, 0.0, 0.0, 1.0]);
        }
        // Nothing of a window of two comes, or the second packet is all that is missing.
        close(
            shares(losses(false, true), 2.0, 0.5, false),
            [0.5, 0.1875, 0.0625, 0.25],
        );
        close(
            shares(losses(true, true), 2.0, 0.5, false),
            [0.75, 0.0, 0.0, 0.25],
        );
        close(
            shares(losses(false, true), 1.0, 0.3, true),
            [0.0, 0.0, 0.3, 0.7],
        );
    }

    #[test]
    fn probes_and_timeouts_wait_for_the_queue_where_receivers_grant_no_credit() {
        let full = Resource {
            name: "a port".into(),
            ns_per_byte: 8.0,
            queue_bytes: 1e6,
            probed_bytes_per_ns: 0.0,
        };
        assert_eq!(losses(true, true).probed_ns(&full), 2e6);
        assert_eq!(losses(false, true).probed_ns(&full), 18e6);
        let timeout_ns = losses(false, true).timeout_ns;
        assert_eq!(losses(true, false).probed_ns(&full), timeout_ns);
        assert_eq!(losses(false, false).probed_ns(&full), timeout_ns + 8e6);
        let seen = Losses {
            seen: true,
            ..losses(false, false)
        };
        assert_eq!(seen.timed_out_ns(&full), timeout_ns, "with the queue");
        let endless = Resource {
            queue_bytes: 1e9,
            ..full
        };
        assert_eq!(losses(false, true).probed_ns(&endless), timeout_ns + 8e9);
    }
}
