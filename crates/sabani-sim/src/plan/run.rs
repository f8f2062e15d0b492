//! A plan's network, and its course.

use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::Arc;

use sabani_proto::{Config, Match, PeerId};

use super::{
    Fault, Hosts, Medium, Outcome, PathSettings, Plan, ProgramSettings, Shape, TcpFlows, Traffic,
    What,
};
use crate::{
    Cable, Failure, Faults, HostId, Network, Pause, Reading, SEC, Size, Sorting, Switch, TcpId,
    Time, US, Watch, Wish,
};

/// How often streams look whether their round has been delivered.
const LOOK_NS: u64 = 20 * US;
/// How long nodes must be silent once they have closed: until they have forgotten handshakes that
/// others began, too.
const SILENCE_NS: u64 = 6 * SEC;

impl Plan {
    /// Does what it says.
    pub fn run(&self) -> Outcome {
        self.run_watched(None, None)
    }

    /// Does what it says, and records queues and rates at these intervals, if any; tells whoever watches how far it is.
    /// What panics breaks a rule.
    pub fn run_watched(&self, every: Option<Time>, watch: Option<Arc<Watch>>) -> Outcome {
        let run = panic::catch_unwind(AssertUnwindSafe(|| self.follow(every, watch)));
        run.unwrap_or_else(|payload| {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
            Outcome::panicked(self.seed, text.unwrap_or("without words"))
        })
    }

    fn follow(&self, every: Option<Time>, watch: Option<Arc<Watch>>) -> Outcome {
        let mut net = self.network();
        net.engine.watch = watch;
        if let Some(Time(every_ns)) = every {
            net.record(every_ns);
        }
        self.schedule(&mut net);
        let tcp = self.add_tcp(&mut net);
        self.pass(&mut net);
        net.end_tcp();
        let patience_ns = self.patience_ns();
        let verdict = net
            .settle(patience_ns)
            .and_then(|()| self.check_waits(&mut net))
            .and_then(|()| net.close_all(patience_ns, SILENCE_NS));
        Outcome::of(&mut net, self.traffic.len(), &tcp, verdict.err())
    }

    fn check_waits(&self, net: &mut Network) -> Result<(), Failure> {
        let now_ns = net.now_ns();
        // Who shares links with TCP may get ever so little of them.
        if self.tcp.is_empty() {
            net.checker
                .check_late(now_ns, self.last_ns(), self.patience_ns());
        }
        if let Some(calm_ns) = self.calm_ns() {
            net.checker.check_waits(now_ns, calm_ns, self.wait_ns());
        }
        net.verdict()
    }

    /// Returns the flows of each part of the plan.
    fn add_tcp(&self, net: &mut Network) -> Vec<Vec<TcpId>> {
        let began_ns = net.now_ns();
        let mut flows_of = |part: &TcpFlows| {
            let begin_ns = began_ns + part.at.0;
            let until_ns = part.until.map_or(u64::MAX, |until| began_ns + until.0);
            let pairs = pairs(&part.from, &part.to, self.hosts).into_iter();
            let flows = pairs.map(|(from, to)| net.add_tcp(from, to, begin_ns, until_ns));
            flows.collect()
        };
        self.tcp.iter().map(&mut flows_of).collect()
    }

    fn network(&self) -> Network {
        let mut net = Network::new(self.seed);
        for index in 0..self.hosts {
            let mut config = Config::new(PeerId(index), self.seal.mode());
            self.settings.apply(&mut config);
            net.add_host(config);
        }
        net.introduce_circles(self.circles());
        self.join(&mut net);
        for program in &self.programs {
            for host in program.host.numbers(self.hosts) {
                adjust_program(&mut net, HostId(host), program);
            }
        }
        if let Some(bug) = self.canary {
            net.plant(bug);
        }
        net
    }

    /// Of each host: those that it talks with, whoever begins.
    fn circles(&self) -> Vec<BTreeSet<HostId>> {
        let mut circles = vec![BTreeSet::new(); self.hosts as usize];
        let mut meet = |from: &Hosts, to: &Hosts| {
            for (one, other) in from.paired_with(to, self.hosts) {
                circles[one as usize].insert(HostId(other));
                circles[other as usize].insert(HostId(one));
            }
        };
        for stream in &self.traffic {
            meet(&stream.from, &stream.to);
        }
        for flows in &self.tcp {
            meet(&flows.from, &flows.to);
        }
        for mishap in &self.mishaps {
            // These say something to each host that is known: who comes back makes a connection with all of them.
            let steers = matches!(mishap.what, What::Disconnect | What::Hold);
            if steers || mishap.what.quality().is_some() {
                meet(&Hosts::one(mishap.host), &Hosts::All);
            }
        }
        if self.canary.is_some() {
            // Bugs are planted between these.
            meet(&Hosts::one(0), &Hosts::one(1));
        }
        circles
    }

    fn join(&self, net: &mut Network) {
        let medium = &self.network;
        let cable = |times: u64, delay_ns| Cable {
            bits_per_second: times * medium.rate.0,
            delay_ns,
            mtu: medium.mtu.0 as usize,
        };
        match medium.shape {
            Shape::Star => {
                net.star(&cable(1, medium.delay.0 / 2), medium.switch());
            }
            Shape::Dumbbell => {
                let left = self.hosts.div_ceil(2) as usize;
                let between = cable(1, medium.delay.0);
                net.dumbbell(left, &cable(10, 0), &between, &medium.switch());
            }
            Shape::Mesh => {
                for (from, to) in self.met(net, &Hosts::All, &Hosts::All) {
                    let link = net.link(from, to);
                    link.bits_per_second = medium.rate.0;
                    link.delay_ns = medium.delay.0;
                    link.mtu = medium.mtu.0 as usize;
                    link.queue_bytes = medium.switch().queue_bytes;
                }
            }
        }
        for path in &self.paths {
            for (from, to) in self.met(net, &path.from, &path.to) {
                let link = net.link(from, to);
                link.bits_per_second = path.rate.map_or(link.bits_per_second, |rate| rate.0);
                link.delay_ns = path.delay.map_or(link.delay_ns, |delay| delay.0);
                link.mtu = path.mtu.map_or(link.mtu, |mtu| mtu.0 as usize);
                link.queue_bytes = path.queue.map_or(link.queue_bytes, |queue| queue.0);
            }
        }
    }

    /// The ways from some hosts to others by which anything ever goes.
    fn met(&self, net: &Network, from: &Hosts, to: &Hosts) -> Vec<(HostId, HostId)> {
        let to = to.numbers(self.hosts);
        let mut ways = Vec::new();
        for from in from.numbers(self.hosts).map(HostId) {
            let circle = net.circle(from).into_iter();
            let met = circle.filter(|other| to.contains(&other.0));
            ways.extend(met.map(|to| (from, to)));
        }
        ways
    }

    /// Puts what has a time of its own into the network's script.
    fn schedule(&self, net: &mut Network) {
        let began_ns = net.now_ns();
        for mishap in self.mishaps.iter().cloned() {
            net.at(began_ns + mishap.at.0, move |net| {
                let host = HostId(mishap.host);
                match mishap.what {
                    What::Restart => net.restart(host, true),
                    What::Crash => net.crash(host),
                    What::Close => net.close(host),
                    What::Stall => net.stall(host, mishap.lasts.0),
                    What::Disconnect => net.set_connected(host, false),
                    What::Move => net.relocate(host, false),
                    What::Hold => net.hold_resends(host, true),
                    What::Even | What::Throughput | What::Response | What::Least => {
                        let quality = mishap.what.quality();
                        net.prefer(host, quality.expect("it is one"));
                    }
                }
            });
            let (host, ends_ns) = (HostId(mishap.host), began_ns + mishap.ends().0);
            match mishap.what {
                What::Disconnect => net.at(ends_ns, move |net| net.set_connected(host, true)),
                What::Hold => {
                    let half_ns = ends_ns - mishap.lasts.0 / 2;
                    net.at(half_ns, move |net| net.retransmit_now(host));
                    net.at(ends_ns, move |net| net.hold_resends(host, false));
                }
                _ => {}
            }
        }
        self.schedule_faults(net);
        for (index, stream) in self.traffic.iter().enumerate() {
            let Some(Time(every_ns)) = stream.every else {
                continue;
            };
            let (stream, hosts) = (Rc::new(stream.clone()), self.hosts);
            for round in 0..u64::from(stream.rounds) {
                let stream = stream.clone();
                net.at(began_ns + stream.at.0 + round * every_ns, move |net| {
                    send_round(net, index as u32, &stream, hosts);
                });
            }
        }
    }

    /// Whenever a fault begins or ends, all paths that faults touch are looked at anew.
    fn schedule_faults(&self, net: &mut Network) {
        let began_ns = net.now_ns();
        let spells = self.faults.iter().flat_map(Fault::spells);
        let mut times: Vec<_> = spells
            .flat_map(|(at, until)| [Some(at), until])
            .flatten()
            .collect();
        times.sort_unstable();
        times.dedup();
        let plan = Rc::new(self.clone());
        for time in times {
            let plan = plan.clone();
            net.at(began_ns + time.0, move |net| plan.set_faults(net, time));
        }
    }

    fn set_faults(&self, net: &mut Network, now: Time) {
        for fault in &self.faults {
            for (from, to) in self.met(net, &fault.from, &fault.to) {
                let active = self.faults.iter().filter(|fault| fault.is_active(now));
                let (mut faults, mut mtu) = (Faults::default(), self.path_mtu(from, to));
                for fault in active.filter(|fault| touches(fault, from, to, self.hosts)) {
                    fault.worsen(&mut faults);
                    mtu = fault.mtu.map_or(mtu, |size| mtu.min(size.0 as usize));
                }
                let link = net.link(from, to);
                (link.faults, link.mtu) = (faults, mtu);
            }
        }
    }

    /// The largest datagram that passes from one host to another while nothing goes wrong.
    fn path_mtu(&self, from: HostId, to: HostId) -> usize {
        let own = self.ways(from, to).find_map(|path| path.mtu);
        own.unwrap_or(self.network.mtu).0 as usize
    }

    /// What is said of the way from one host to another, the last word first.
    pub fn ways(&self, from: HostId, to: HostId) -> impl Iterator<Item = &PathSettings> {
        let is_it = move |path: &&PathSettings| {
            path.from.numbers(self.hosts).contains(&from.0)
                && path.to.numbers(self.hosts).contains(&to.0)
        };
        self.paths.iter().rev().filter(is_it)
    }

    /// Runs until everything that has a time has happened, and all rounds have been delivered.
    fn pass(&self, net: &mut Network) {
        let began_ns = net.now_ns();
        let patience_ns = self.patience_ns();
        let mut courses: Vec<_> = self.traffic.iter().enumerate().collect();
        courses.retain(|(_, stream)| stream.every.is_none() && stream.messages(self.hosts) > 0);
        let mut courses: Vec<_> = courses
            .into_iter()
            .map(|(index, stream)| Course::new(index as u32, stream, began_ns))
            .collect();
        let (mut come, mut progress_ns) = (0, began_ns);
        let (mut settled, mut look_ns) = (0, began_ns);
        let last_ns = began_ns + self.last_ns();
        while net.checker.violations().is_empty() {
            if net.now_ns() >= look_ns || net.checker.ledger.settled() > settled {
                settled = net.checker.ledger.settled();
                courses.retain_mut(|course| course.go_on(net, self.hosts));
                let begin = courses.iter().filter_map(|course| course.next_ns);
                look_ns = begin.clone().min().unwrap_or(u64::MAX);
                // A stream that rests is not stuck, and what it sends next has as long as what came before.
                progress_ns = begin.fold(progress_ns, u64::max);
            }
            if courses.is_empty() {
                return net.run_until(last_ns);
            }
            // What is known to be lost has come to an end, too.
            if net.checker.delivered + settled > come {
                come = net.checker.delivered + settled;
                progress_ns = progress_ns.max(net.now_ns());
            }
            let patient_ns = progress_ns.max(last_ns).saturating_add(patience_ns);
            if net.now_ns() > patient_ns {
                // What comes later still would hide that the next rounds never began.
                let unsent = courses.iter().map(|course| course.unsent(self.hosts));
                return net.note_stalled(patience_ns, unsent.sum());
            }
            net.run_steps(LOOK_NS, look_ns.min(patient_ns + 1));
        }
    }
}

impl Medium {
    /// Each of its switches.
    fn switch(&self) -> Switch {
        Switch {
            queue_bytes: self.queue.map_or(u64::MAX, |size| size.0),
            buffer_bytes: self.buffer.map_or(u64::MAX, |size| size.0),
            mark_above: self.mark_above.map_or(u64::MAX, |size| size.0),
            alpha: self.alpha.unwrap_or(f64::INFINITY),
            pause: self.pause_above.map(|Size(above)| Pause {
                stop_above: above,
                go_at: above / 2,
            }),
            ..Switch::default()
        }
    }
}

/// A stream whose rounds begin when the one before has been delivered.
struct Course<'a> {
    index: u32,
    stream: &'a Traffic,
    rounds_left: u32,
    /// When the next round begins; `None` while one is under way.
    next_ns: Option<u64>,
}

impl<'a> Course<'a> {
    fn new(index: u32, stream: &'a Traffic, began_ns: u64) -> Self {
        Course {
            index,
            stream,
            rounds_left: stream.rounds,
            next_ns: Some(began_ns + stream.at.0),
        }
    }

    /// Begins a round if it is time; returns whether there is more to do. What the dead are to send is over at once.
    fn go_on(&mut self, net: &mut Network, hosts: u32) -> bool {
        loop {
            let count = net.checker.ledger.stream(self.index);
            if self.next_ns.is_none() && count.settled == count.wished {
                self.next_ns = Some(net.now_ns() + self.stream.pause.0);
            }
            if self.next_ns.is_some() && self.rounds_left == 0 {
                return false;
            }
            if self.next_ns.is_none_or(|at_ns| at_ns > net.now_ns()) {
                return true;
            }
            self.next_ns = None;
            self.rounds_left -= 1;
            send_round(net, self.index, self.stream, hosts);
        }
    }

    /// Messages of the rounds that have not begun.
    fn unsent(&self, hosts: u32) -> u64 {
        let each = self.stream.messages(hosts) / u64::from(self.stream.rounds);
        each * u64::from(self.rounds_left)
    }
}

fn send_round(net: &mut Network, index: u32, stream: &Traffic, hosts: u32) {
    for (from, to) in stream.pairs(hosts) {
        for _ in 0..stream.messages {
            let wish = Wish {
                len: stream.bytes.0 as usize,
                tracked: stream.tracked,
                value: stream.value(),
                class: stream.class,
                stream: index,
                ..Wish::default()
            };
            net.send_wish(HostId(from), HostId(to), wish);
        }
    }
}

fn adjust_program(net: &mut Network, id: HostId, settings: &ProgramSettings) {
    let (now_ns, hosts) = (net.now_ns(), net.host_ids().count() as u32);
    let host = net.host(id);
    host.program.sorting = match settings.by_class_bits {
        0 if settings.by_sender => Sorting::Senders(hosts),
        0 => Sorting::None,
        bits => Sorting::ClassBits(bits.min(4)),
    };
    host.program.nap_ns = settings.nap.0;
    host.program.withdraws_every = settings.withdraws_every;
    host.program.discards_every = settings.discards_every;
    if let Some(ahead) = settings.post {
        host.program.reading = Reading::Post {
            wanted: Match::any(),
            ahead: ahead.max(1) as usize,
            buffer: settings.buffer.map_or(0, |size| size.0 as usize),
        };
    }
    host.reading = settings.cost(host.reading.packet_ns);
    host.sending = settings.cost(host.sending.packet_ns);
    host.batch = settings.batch.map_or(host.batch, |most| most.max(1).into());
    if let Some(wake) = &settings.wake {
        host.wake = wake.clone();
    }
    host.clock.set_drift(now_ns, settings.drift_ppm);
    if let Some(cable) = net.nic(id) {
        net.port(cable).take_turns(settings.fair_queue);
        // Those that take turns do so packet by packet.
        if settings.cuts_trains && !settings.fair_queue {
            net.port(cable).cut_trains();
        }
    }
    if let Some(stalls) = &settings.stalls {
        net.share_processor(id, stalls.clone());
    }
}

fn pairs(from: &Hosts, to: &Hosts, hosts: u32) -> Vec<(HostId, HostId)> {
    let pairs = from.paired_with(to, hosts);
    pairs.map(|(from, to)| (HostId(from), HostId(to))).collect()
}

fn touches(fault: &Fault, from: HostId, to: HostId, hosts: u32) -> bool {
    fault.from.numbers(hosts).contains(&from.0) && fault.to.numbers(hosts).contains(&to.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What all hosts know of all others would grow with the square of their number.
    #[test]
    fn hosts_know_those_alone_that_they_talk_with() {
        let known = |net: &mut Network, host| {
            let peers = net.host(HostId(host)).node().peer_ids();
            peers.map(|peer| peer.0).collect::<Vec<_>>()
        };
        let text = "hosts = 1000\n[[traffic]]\nfrom = \"7-8\"\nto = 3\n[[tcp]]\nfrom = 9\nto = 3\n";
        let mut net = Plan::from_toml(text).unwrap().network();
        for anew in [false, true] {
            if anew {
                net.host_ids().for_each(|id| net.restart(id, true));
            }
            assert_eq!(known(&mut net, 3), [7, 8, 9]);
            assert_eq!(known(&mut net, 8), [3]);
            assert_eq!(known(&mut net, 4), []);
        }
        // Who comes back greets all.
        let back = "[[mishap]]\nat = \"1ms\"\nhost = 4\nwhat = \"disconnect\"\nlasts = \"1ms\"\n";
        let mut net = Plan::from_toml(&format!("{text}{back}")).unwrap().network();
        assert_eq!(known(&mut net, 4).len(), 999);
        assert_eq!(known(&mut net, 8), [3, 4]);
    }

    /// What a plan breaks whose second message waits for 1.5 s, and may take a second.
    fn broken_by_a_nap(more: &str) -> String {
        let text = format!(
            "hosts = 4\npatience = \"1s\"\n[[program]]\nhost = 1\nnap = \"1500ms\"\n[[traffic]]\nfrom = 0\nto = 1\n{more}"
        );
        let outcome = Plan::from_toml(&text).unwrap().run();
        let broken = outcome.failure.iter().flat_map(|end| &end.violations);
        broken.map(ToString::to_string).collect()
    }

    #[test]
    fn rounds_that_never_begin_break_the_rule_of_progress() {
        let said = broken_by_a_nap("rounds = 4\n");
        assert!(said.contains("progress"), "{said}");
        assert!(said.contains("2 were never sent"), "{said}");
        // They rest longer than anything may take, and all begin.
        assert_eq!(broken_by_a_nap("rounds = 4\npause = \"5s\"\n"), "");
    }

    /// Nothing of it would ever come to an end that could be waited for.
    #[test]
    fn rounds_of_the_dead_hold_nothing_up() {
        let crash = "[[mishap]]\nat = \"1ms\"\nhost = 1\nwhat = \"crash\"\n";
        let text =
            format!("hosts = 2\n{crash}[[traffic]]\nfrom = 1\nto = 0\nrounds = 9\nat = \"2ms\"\n");
        let outcome = Plan::from_toml(&text).unwrap().run();
        assert_eq!(outcome.failure, None);
        assert!(outcome.virtual_ns < 10 * SEC, "{}", outcome.virtual_ns);
    }

    #[test]
    fn what_is_late_breaks_the_rule_of_progress_although_others_go_on() {
        let others = "[[traffic]]\nfrom = 2\nto = 3\nrounds = 40\npause = \"100ms\"\n";
        let said = broken_by_a_nap(&format!("rounds = 2\n{others}"));
        assert!(
            said.contains("progress: 0 bytes from host 0 to host 1 took 1.5"),
            "{said}"
        );
        assert_eq!(broken_by_a_nap(others), "");
    }
}
