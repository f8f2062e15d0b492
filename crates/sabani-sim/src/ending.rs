//! How a run ends: everything is settled, or closed, and all rules were kept; or what went wrong.

use std::fmt;

use sabani_proto::{Node, PeerId};

use crate::checker::{Rule, Violation};
use crate::{Host, HostId, MS, Network, SEC};

/// Why a run did not end as it should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed that replays the run.
    pub seed: u64,
    /// What was expected, what happened, and when.
    pub violations: Vec<Violation>,
    /// What the hosts were doing.
    pub state: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        writeln!(f, "seed {}:", self.seed)?;
        for violation in self.violations.iter().take(SHOWN) {
            writeln!(f, "  {violation}")?;
        }
        let hidden = self.violations.len().saturating_sub(SHOWN);
        if hidden > 0 {
            writeln!(f, "  and {hidden} more")?;
        }
        write!(f, "{}", self.state)
    }
}

impl std::error::Error for Failure {}

impl Network {
    /// Whether nothing is left to do: all that was planned has been accepted, all that was
    /// accepted has been delivered and acknowledged, and nothing is in flight.
    pub fn is_settled(&mut self) -> bool {
        // What is quick to see comes first.
        self.is_done() && !self.ends().any(|end| self.has_in_flight(end))
    }

    /// Each end of each connection: the host, and the other one.
    fn ends(&self) -> impl Iterator<Item = (HostId, PeerId)> {
        self.host_ids().flat_map(|id| {
            let node = self.hosts[id.index()].node.iter();
            node.flat_map(Node::peer_ids).map(move |peer| (id, peer))
        })
    }

    fn has_in_flight(&self, (id, peer): (HostId, PeerId)) -> bool {
        let node = self.hosts[id.index()].node.as_ref();
        node.is_some_and(|node| node.in_flight_bytes(peer) > 0)
    }

    /// The same, but that something may be in flight: signs of life, for instance.
    fn is_done(&mut self) -> bool {
        let idle = |host: &Host| host.node.is_none() || host.program.is_idle();
        let acknowledged = |host: &mut Host| host.node.as_mut().is_none_or(Node::is_settled);
        self.checker.ledger.is_settled()
            && self.hosts.iter().all(idle)
            && self.hosts.iter_mut().all(acknowledged)
    }

    /// Whether programs have taken all that came: what its sender has given up may have come, and
    /// wait for a program that naps. Copies of what has come may wait, too: a node that has not read
    /// them sees to what is not pressing, such as credit that nobody needs any more, after them.
    fn is_read(&self) -> bool {
        let taken = |node: &Node| node.unmatched_messages() == 0;
        let mut hosts = self.hosts.iter();
        hosts.all(|host| host.node.as_ref().is_none_or(taken) && !host.is_behind())
    }

    /// Runs until everything is settled. Where many hosts ask each other for signs of life,
    /// something is always in flight: it is enough that each connection was once seen without.
    ///
    /// # Errors
    /// If that takes longer than `within_ns`, or a rule was broken on the way.
    pub fn settle(&mut self, within_ns: u64) -> Result<(), Failure> {
        let deadline_ns = self.now_ns() + within_ns;
        let mut loud: Option<Vec<_>> = None;
        while self.checker.violations().is_empty() {
            let done = self.is_done();
            if done {
                let loud = loud.get_or_insert_with(|| self.ends().collect());
                loud.retain(|&end| self.has_in_flight(end));
            }
            let settled = done && loud.as_ref().is_some_and(Vec::is_empty);
            let late = self.now_ns() >= deadline_ns;
            if late && !settled {
                self.note_unsettled(within_ns);
            }
            // What nobody ever reads is found by those who look at who holds what.
            if late || settled && self.is_read() {
                break;
            }
            self.run_steps(MS / 4, deadline_ns);
        }
        if self.checker.violations().is_empty() {
            self.check_at_rest();
        }
        self.verdict()
    }

    fn note_unsettled(&mut self, within_ns: u64) {
        let seconds = within_ns as f64 / SEC as f64;
        let missing = self.missing();
        let what = format!("expected everything to be settled within {seconds} s; {missing}");
        self.checker.violated(self.now_ns(), Rule::Progress, what);
    }

    /// For so long no message has come to its end, and so many were to be sent once those that are under way have.
    pub(crate) fn note_stalled(&mut self, within_ns: u64, unsent: u64) {
        let seconds = within_ns as f64 / SEC as f64;
        let missing = self.missing();
        let waiting = match unsent {
            0 => String::new(),
            _ => format!("; {unsent} were never sent, as they wait for these"),
        };
        let what = format!("expected a message to arrive within {seconds} s; {missing}{waiting}");
        self.checker.violated(self.now_ns(), Rule::Progress, what);
    }

    /// What of all that was accepted did not come, in words.
    fn missing(&self) -> String {
        match self.checker.ledger.missing() {
            Some((count, first)) => format!("{count} messages did not arrive, first {first}"),
            None => "all messages that were accepted arrived".into(),
        }
    }

    /// Everything is settled: nobody may hold anything.
    fn check_at_rest(&mut self) {
        let now_ns = self.now_ns();
        let nodes: Vec<_> = self.hosts.iter().map(|host| host.node.as_ref()).collect();
        for (index, node) in nodes.iter().enumerate() {
            if let Some(node) = node {
                let id = HostId(index as u32);
                self.checker.check_at_rest(now_ns, id, node, &nodes);
            }
        }
    }

    /// Closes every node and runs until all connections have ended, and `silence_ns` longer.
    ///
    /// # Errors
    /// If that takes longer than `within_ns`, leaves memory charged, or a rule was broken.
    pub fn close_all(&mut self, within_ns: u64, silence_ns: u64) -> Result<(), Failure> {
        let deadline_ns = self.now_ns() + within_ns;
        for id in self.host_ids() {
            self.close(id);
        }
        while !self.is_closed() && self.now_ns() < deadline_ns {
            self.run_steps(MS, deadline_ns);
        }
        let now_ns = self.now_ns();
        if !self.is_closed() {
            let seconds = within_ns as f64 / SEC as f64;
            let what = format!("expected every connection to end within {seconds} s of closing");
            self.checker.violated(now_ns, Rule::Progress, what);
        }
        self.run_for(silence_ns);
        for (index, host) in self.hosts.iter().enumerate() {
            if let Some(node) = host.node.as_ref().filter(|_| host.closed) {
                self.checker
                    .check_closed(now_ns, HostId(index as u32), node);
            }
        }
        self.verdict()
    }

    /// Whether all rules have been kept so far.
    ///
    /// # Errors
    /// If not.
    pub fn verdict(&mut self) -> Result<(), Failure> {
        let (now_ns, largest) = (self.engine.now_ns, self.largest);
        for (index, host) in self.hosts.iter().enumerate() {
            if let Some(node) = &host.node {
                let id = HostId(index as u32);
                self.checker
                    .check_bounds(now_ns, id, &host.config, node, largest);
            }
        }
        if self.checker.violations().is_empty() {
            return Ok(());
        }
        Err(Failure {
            seed: self.seed,
            violations: self.checker.violations().to_vec(),
            state: self.describe(),
        })
    }
}
