//! What a plan must say to be one that can be run, and whose run means something.

use std::ops::RangeInclusive;

use super::{
    Fault, Hosts, Medium, Mishap, Plan, ProgramSettings, Seal, Settings, Shape, TcpFlows, Traffic,
    What,
};
use crate::{Faults, HostId, MS, Rate, SEC, Size, Time};

/// Something wrong in a table of an array: its name, its index, what is wrong.
pub(super) type Wrong = (&'static str, usize, String);

const MOST_HOSTS: u32 = 65_536;
/// The largest message or buffer: the process that simulates holds some copies of each.
const MOST_BYTES: Size = Size(4 << 30);
/// How often a fault may come again.
const MOST_AGAIN: u32 = 100_000;
/// Receives that a program keeps posted.
const MOST_POSTED: u64 = 100_000;
/// From a tenth of the speed to twice as fast: beyond that, timers come forever, or never.
const DRIFTS_PPM: RangeInclusive<i64> = -900_000..=1_000_000;
/// How long a host may be kept from running at a time: while it is, the others' timers have to be lived through.
const MOST_DELAY: Time = Time(100 * SEC);
/// What a call of the system, or a datagram, may cost: what costs more is given up by peers before it is handled.
const MOST_COST: Time = Time(MS);
/// The most messages in all: what is kept of each are some 170 bytes.
const MOST_MESSAGES: u64 = 100_000_000;
/// Where less than a packet may wait, what meets another one is lost, whatever anybody does.
const LEAST_QUEUE: Size = Size(1_500);
/// What handshakes take.
const LEAST_MTU: Size = Size(1_200);

impl Plan {
    /// Lets packets be looked into, and damages none any more, since nothing would tell.
    pub fn unseal(&mut self) {
        self.seal = Seal::Plain;
        for fault in &mut self.faults {
            (fault.corrupt, fault.truncate) = (0.0, 0.0);
        }
        self.faults.retain(|fault| !fault.is_idle());
    }

    pub(super) fn check(&self) -> Result<(), Wrong> {
        if !(2..=MOST_HOSTS).contains(&self.hosts) {
            let what = format!(
                "there are {} hosts: write `hosts =` 2 to {MOST_HOSTS}",
                self.hosts
            );
            return Err(("", 0, what));
        }
        if let Some(setting) = self.settings.unfit() {
            let what = format!("this `{}` can't work{}", setting.name, setting.ending());
            return Err(("settings", 0, what));
        }
        if self.settings.forgets_to_ask() {
            let what = "peers are lost before they are asked: write a `keep_alive` of at most half of `dead_after`";
            return Err(("settings", 0, what.into()));
        }
        self.check_trip()?;
        self.network.check().map_err(|what| ("network", 0, what))?;
        each("traffic", &self.traffic, |stream| self.check_stream(stream))?;
        each("tcp", &self.tcp, |flows| self.check_tcp(flows))?;
        each("path", &self.paths, |path| {
            check_queue("queue", path.queue)?;
            check_mtu(path.mtu)?;
            self.check_ways(&path.from, &path.to)
        })?;
        each("program", &self.programs, |program| {
            self.check_program(program)
        })?;
        self.check_room()?;
        each("mishap", &self.mishaps, |mishap| self.check_mishap(mishap))?;
        each("fault", &self.faults, |fault| self.check_fault(fault))?;
        let lasts = |flows: &TcpFlows| flows.until.is_some();
        if self.traffic.is_empty() && !self.tcp.iter().any(lasts) {
            let what = "nothing is sent: write `[[traffic]]`, or `[[tcp]]` with `until =`";
            return Err(("", 0, what.into()));
        }
        Ok(())
    }

    /// Whether an answer can come in time.
    fn check_trip(&self) -> Result<(), Wrong> {
        let config = self.settings.config();
        let Settings {
            dead_after,
            connect_timeout,
            ..
        } = self.settings;
        let answers = [
            (
                "dead_after",
                dead_after,
                config.dead_after_ns,
                "peers would be lost before anything of them can come",
            ),
            (
                "connect_timeout",
                connect_timeout,
                config.connect_timeout_ns,
                "no connection could be made",
            ),
        ];
        let trip = self.shortest_trip().unwrap_or_default();
        let late = answers.iter().find(|(.., most_ns, _)| *most_ns <= trip.0);
        let Some((name, said, most_ns, why)) = late else {
            return Ok(());
        };
        // By default it says nothing, and the delay is what was written.
        let table = match said {
            Some(_) => "settings",
            None => "network",
        };
        let most = Time(*most_ns);
        let what = format!(
            "{why}, for the shortest way there and back takes {trip}, and `{name}` is {most}: write `{name} =` above \
             {trip} in `[settings]`, or a shorter `delay =`"
        );
        Err((table, 0, what))
    }

    /// How long a datagram and its answer are on their way at least, if all ways have a delay.
    fn shortest_trip(&self) -> Option<Time> {
        if self.network.shape == Shape::Dumbbell {
            return None;
        }
        let paths = self.paths.iter().filter_map(|path| path.delay);
        let delays = paths.chain([self.network.delay]).map(|delay| delay.0);
        delays.min().map(|delay_ns| Time(2 * delay_ns))
    }

    fn check_stream(&self, stream: &Traffic) -> Result<(), String> {
        // It goes to terminals, which would obey.
        if stream.name.contains(char::is_control) {
            return Err(format!(
                "{:?} has a control character: write a `name =` without",
                stream.name
            ));
        }
        self.check_ways(&stream.from, &stream.to)?;
        if stream.rounds == 0 || stream.messages == 0 {
            return Err(
                "no message is sent: write `rounds =` and `messages =` 1 or more, or neither"
                    .into(),
            );
        }
        if stream.messages(self.hosts) > MOST_MESSAGES {
            return Err(format!(
                "these are more than {MOST_MESSAGES} messages: write fewer `rounds`, `messages` or hosts"
            ));
        }
        if stream.last_start() > Time::MOST {
            return Err(format!(
                "the last round begins after {}: write fewer `rounds`, or a shorter `every`",
                Time::MOST
            ));
        }
        check_bytes("bytes", stream.bytes)
    }

    /// Whether there is room for each message where it goes: nobody could ever take it there.
    fn check_room(&self) -> Result<(), Wrong> {
        let memory = Size(self.settings.config().memory_bytes);
        let brought = self.brought();
        for (index, stream) in self.traffic.iter().enumerate() {
            let bytes = stream.bytes;
            for to in stream.receivers(self.hosts) {
                match brought[to as usize] {
                    None if bytes > memory => {
                        let what = format!(
                            "messages of {bytes} have no room in a `memory` of {memory}: write at least as much there, \
                             or less here, or let receivers bring buffers (`post` and `buffer` of `[[program]]`, for \
                             host {to})"
                        );
                        return Err(("traffic", index, what));
                    }
                    Some((program, buffer)) if bytes > buffer => {
                        let what = format!(
                            "messages of {bytes} come to host {to}, and have no room in its buffers of {buffer}: write \
                             `buffer =` at least as much, or leave it away, and nodes allocate"
                        );
                        return Err(("program", program, what));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Of each host: how long the buffers are that its receives bring, if they do, and which of the programs says so.
    fn brought(&self) -> Vec<Option<(usize, Size)>> {
        let mut all = vec![None; self.hosts as usize];
        for (index, program) in self.programs.iter().enumerate() {
            // The last word counts, as where programs are made.
            if program.post.is_some() {
                let buffer = program.buffer.filter(|&buffer| buffer > Size(0));
                for host in program.host.numbers(self.hosts) {
                    all[host as usize] = buffer.map(|buffer| (index, buffer));
                }
            }
        }
        all
    }

    fn check_tcp(&self, flows: &TcpFlows) -> Result<(), String> {
        self.check_ways(&flows.from, &flows.to)?;
        let mut pairs = flows.from.paired_with(&flows.to, self.hosts);
        if let Some((from, to)) = pairs.find(|&(from, to)| !self.limits(from, to)) {
            return Err(format!(
                "nothing limits TCP from host {from} to host {to}: write a `rate =` other than unlimited in \
                 `[network]`"
            ));
        }
        check_end(flows.at, flows.until)
    }

    fn check_program(&self, program: &ProgramSettings) -> Result<(), String> {
        self.check_hosts(&program.host)?;
        if program.batch == Some(0) {
            return Err("this program takes nothing in: write `batch =` 1 or more".into());
        }
        let posted = u64::from(program.post.unwrap_or(1));
        if posted > MOST_POSTED {
            return Err(format!(
                "these are more receives than a simulation can hold: write `post =` at most {MOST_POSTED}"
            ));
        }
        if program.fair_queue && self.network.shape == Shape::Mesh {
            return Err(
                "hosts of a mesh have no cable of their own for which to wait: write `shape = \"star\"` beside `fair_queue`"
                    .into(),
            );
        }
        if !DRIFTS_PPM.contains(&program.drift_ppm) {
            return Err(format!(
                "no clock runs so: write `drift_ppm =` {} to {}",
                DRIFTS_PPM.start(),
                DRIFTS_PPM.end()
            ));
        }
        let lasts = program.stalls.as_ref().map(|stalls| &stalls.lasts);
        for (name, delay) in [("wake", program.wake.as_ref()), ("stalls", lasts)] {
            if delay.is_some_and(|delay| delay.most_ns() > MOST_DELAY.0) {
                return Err(format!(
                    "peers would be lost meanwhile, again and again: write `{name} =` of at most {MOST_DELAY}"
                ));
            }
        }
        let packet_cost = program.packet_cost.unwrap_or_default();
        for (name, cost) in [
            ("call_cost", program.call_cost),
            ("packet_cost", packet_cost),
        ] {
            if cost > MOST_COST {
                return Err(format!(
                    "peers would give up before they are answered: write `{name} =` of at most {MOST_COST}; `wake` and \
                     `stalls` are for hosts that are slow at times"
                ));
            }
        }
        let buffer = program.buffer.unwrap_or_default();
        check_bytes("post` times `buffer", Size(buffer.0.saturating_mul(posted)))
    }

    fn check_mishap(&self, mishap: &Mishap) -> Result<(), String> {
        self.check_hosts(&Hosts::one(mishap.host))?;
        match (mishap.lasts_rightly(), mishap.lasts) {
            (true, _) => Ok(()),
            (false, Time(0)) => {
                Err("this mishap has no end: write `lasts =`, as in \"50ms\"".into())
            }
            (false, _) => Err("this mishap happens in a moment: leave `lasts` away".into()),
        }
    }

    /// Whether something on the way from one host to another limits what it carries in a time.
    fn limits(&self, from: u32, to: u32) -> bool {
        let mut ways = self.ways(HostId(from), HostId(to));
        let own = ways.find_map(|way| way.rate);
        match self.network.shape {
            Shape::Mesh => own.unwrap_or(self.network.rate) > Rate(0),
            Shape::Star | Shape::Dumbbell => {
                self.network.rate > Rate(0) || own.unwrap_or_default() > Rate(0)
            }
        }
    }

    fn check_fault(&self, fault: &Fault) -> Result<(), String> {
        self.check_ways(&fault.from, &fault.to)?;
        let chances = [fault.loss, fault.burst, fault.duplicate, fault.reorder];
        let damage = [fault.corrupt, fault.truncate, fault.replay];
        let wrong = |chance: &&f64| !(0.0..=1.0).contains(*chance);
        if let Some(chance) = chances.iter().chain(&damage).find(wrong) {
            return Err(format!("{chance} is no probability: write 0.0 to 1.0"));
        }
        if fault.is_idle() {
            return Err(
                "this fault does nothing: write `loss =`, `burst =`, `duplicate =`, `reorder =` and `late =`, `jitter =`, \
                 `corrupt =`, `truncate =`, `replay =`, `mtu =` or `cut = true`"
                    .into(),
            );
        }
        if self.seal == Seal::Plain && fault.damages() {
            return Err(
                "damaged packets would be believed: write `seal = \"checked\"` or \"sealed\", or leave `corrupt` and \
                 `truncate` away"
                    .into(),
            );
        }
        if fault.again > 0 && (fault.until.is_none() || fault.every == Time(0)) {
            return Err(
                "what comes again has an end: write `until =`, and `every =` from one beginning to the next"
                    .into(),
            );
        }
        if fault.again > MOST_AGAIN {
            return Err(format!(
                "that is too often: write `again =` at most {MOST_AGAIN}"
            ));
        }
        if fault.last_end() > Time::MOST {
            return Err(format!(
                "the last time ends after {}: write fewer `again`, or a shorter `every`",
                Time::MOST
            ));
        }
        check_end(fault.at, fault.until)
    }

    /// Whether there are these hosts, and something can go from the ones to the others.
    fn check_ways(&self, from: &Hosts, to: &Hosts) -> Result<(), String> {
        self.check_hosts(from)?;
        self.check_hosts(to)?;
        let mut pairs = from.paired_with(to, self.hosts);
        match pairs.next() {
            Some(_) => Ok(()),
            None => Err(format!(
                "host {from} sends nothing to itself: name another one in `from` or `to`"
            )),
        }
    }

    fn check_hosts(&self, hosts: &Hosts) -> Result<(), String> {
        let last = self.hosts - 1;
        match *hosts.numbers(self.hosts).end() > last {
            false => Ok(()),
            true => Err(format!(
                "there is no host `{hosts}`: they are numbered 0 to {last}; raise `hosts`, or name others"
            )),
        }
    }
}

impl Medium {
    fn check(&self) -> Result<(), String> {
        if self
            .alpha
            .is_some_and(|alpha| alpha.is_nan() || alpha <= 0.0)
        {
            return Err("a port may hold nothing: write `alpha =` above 0.0".into());
        }
        check_mtu(Some(self.mtu))?;
        check_queue("queue", self.queue)?;
        check_queue("buffer", self.buffer)?;
        let of_switches = [
            ("buffer", self.buffer.is_some()),
            ("alpha", self.alpha.is_some()),
            ("pause_above", self.pause_above.is_some()),
            ("mark_above", self.mark_above.is_some()),
        ];
        match of_switches.iter().find(|(_, is_said)| *is_said) {
            Some((name, _)) if self.shape == Shape::Mesh => Err(format!(
                "a mesh has no switch that `{name}` could be of: write `shape = \"star\"` or \"dumbbell\", or leave \
                 `{name}` away"
            )),
            _ => Ok(()),
        }
    }
}

impl Fault {
    /// Whether datagrams arrive other than they were sent.
    fn damages(&self) -> bool {
        self.corrupt > 0.0 || self.truncate > 0.0
    }

    /// When the last time ends, or begins if it lasts; before it is known that there is such a time.
    fn last_end(&self) -> Time {
        let later_ns = u64::from(self.again).saturating_mul(self.every.0);
        Time(self.until.unwrap_or(self.at).0.saturating_add(later_ns))
    }

    /// Whether it does nothing to anybody at any time.
    pub(super) fn is_idle(&self) -> bool {
        let mut harm = Faults::default();
        let own = Fault {
            // They only say how long what happens lasts.
            burst_len: 0,
            late: Time(0),
            ..self.clone()
        };
        own.worsen(&mut harm);
        harm == Faults::default() && self.mtu.is_none()
    }
}

impl Mishap {
    /// Whether it lasts for some time, as what happens to it does or does not.
    pub(super) fn lasts_rightly(&self) -> bool {
        let lasts = matches!(self.what, What::Stall | What::Disconnect | What::Hold);
        lasts == (self.lasts > Time(0))
    }
}

impl Settings {
    /// Whether peers would be lost before they are asked for a second sign of life, if nodes did what it says.
    pub(super) fn forgets_to_ask(&self) -> bool {
        let config = self.config();
        config.keep_alive_ns > config.dead_after_ns / 2 && self.keep_alive.is_some()
    }
}

/// Checks each table of an array.
fn each<T>(
    table: &'static str,
    all: &[T],
    check: impl Fn(&T) -> Result<(), String>,
) -> Result<(), Wrong> {
    all.iter()
        .enumerate()
        .try_for_each(|(index, one)| check(one).map_err(|what| (table, index, what)))
}

/// Whether this process can hold so many bytes.
fn check_bytes(name: &str, bytes: Size) -> Result<(), String> {
    match bytes > MOST_BYTES {
        false => Ok(()),
        true => Err(format!(
            "{bytes} are more than a simulation can hold: write `{name}` of at most {MOST_BYTES}"
        )),
    }
}

/// Whether a packet may wait.
fn check_queue(name: &str, bytes: Option<Size>) -> Result<(), String> {
    match bytes.filter(|&bytes| bytes < LEAST_QUEUE) {
        None => Ok(()),
        Some(bytes) => Err(format!(
            "not even one packet may wait in a `{name}` of {bytes}, so that what meets another one is lost: write at \
             least {LEAST_QUEUE}, or leave it away"
        )),
    }
}

/// Whether hosts may meet where no datagram is larger.
fn check_mtu(bytes: Option<Size>) -> Result<(), String> {
    match bytes.filter(|&bytes| bytes < LEAST_MTU) {
        None => Ok(()),
        Some(bytes) => Err(format!(
            "hosts can't meet where datagrams of more than {bytes} are lost: write `mtu =` at least {LEAST_MTU}, or leave it away"
        )),
    }
}

/// Whether what begins lasts for some time.
fn check_end(at: Time, until: Option<Time>) -> Result<(), String> {
    match until.filter(|&until| until <= at) {
        None => Ok(()),
        Some(until) => Err(format!(
            "it ends at {until} and begins at {at}: write a later `until =`"
        )),
    }
}
