//! What a plan must say to be one that can be run, and whose run means something.

use super::{Fault, Hosts, Plan, ProgramSettings, TcpFlows, Traffic};
use crate::{Size, Time};

/// Something wrong in a table of an array: its name, its index, what is wrong.
pub(super) type Wrong = (&'static str, usize, String);

const MOST_HOSTS: u32 = 65_536;

impl Plan {
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
        each("traffic", &self.traffic, |stream| self.check_stream(stream))?;
        each("tcp", &self.tcp, |flows| self.check_tcp(flows))?;
        each("path", &self.paths, |path| {
            self.check_ways(&path.from, &path.to)
        })?;
        each("program", &self.programs, |program| {
            self.check_program(program)
        })?;
        each("mishap", &self.mishaps, |mishap| {
            self.check_hosts(&Hosts::one(mishap.host))
        })?;
        each("fault", &self.faults, |fault| self.check_fault(fault))?;
        let lasts = |flows: &TcpFlows| flows.until.is_some();
        if self.traffic.is_empty() && !self.tcp.iter().any(lasts) {
            let what = "nothing is sent: write `[[traffic]]`, or `[[tcp]]` with `until =`";
            return Err(("", 0, what.into()));
        }
        Ok(())
    }

    fn check_stream(&self, stream: &Traffic) -> Result<(), String> {
        self.check_ways(&stream.from, &stream.to)?;
        if stream.rounds == 0 || stream.messages == 0 {
            return Err(
                "no message is sent: write `rounds =` and `messages =` 1 or more, or neither"
                    .into(),
            );
        }
        let memory = self.settings.memory.unwrap_or(Size(u64::MAX));
        let buffers = self.programs.iter().any(|program| program.buffer.is_some());
        match stream.bytes > memory && !buffers {
            false => Ok(()),
            true => Err(format!(
                "messages of {} have no room in a `memory` of {memory}: write at least as much there, or \
                 less here, or let receivers bring buffers (`post` and `buffer` of `[[program]]`)",
                stream.bytes
            )),
        }
    }

    fn check_tcp(&self, flows: &TcpFlows) -> Result<(), String> {
        self.check_ways(&flows.from, &flows.to)?;
        check_end(flows.at, flows.until)
    }

    fn check_program(&self, program: &ProgramSettings) -> Result<(), String> {
        self.check_hosts(&program.host)?;
        match program.batch {
            Some(0) => Err("it takes nothing in: write `batch =` 1 or more".into()),
            _ => Ok(()),
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
        if fault.again > 0 && (fault.until.is_none() || fault.every == Time(0)) {
            return Err(
                "what comes again has an end: write `until =`, and `every =` from one beginning to the next"
                    .into(),
            );
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

/// Whether what begins lasts for some time.
fn check_end(at: Time, until: Option<Time>) -> Result<(), String> {
    match until.filter(|&until| until <= at) {
        None => Ok(()),
        Some(until) => Err(format!(
            "it ends at {until} and begins at {at}: write a later `until =`"
        )),
    }
}
