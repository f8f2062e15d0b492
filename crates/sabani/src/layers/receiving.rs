//! The way in, where the way out has a thread of its own: what takes datagrams from the socket, and passes on what is to be sealed and
//! sent. These two take a core about as long as all the rest: a sending call does most of the kernel's work, over loopback also the
//! receiver's part of it.

use std::io;
use std::sync::Arc;

use sabani_ring::Item;
use sabani_udp::{Counters, Waker};

use super::Clock;
use super::datagrams::{Datagrams, Load, Report};
use super::doorbell::Doorbell;
use super::line::{Line, Up};
use super::sending::Sending;
use super::uplink::Uplink;
use super::worker::{Group, Intake, Lower};
use crate::threads::Threads;

/// Receives, and passes on what is to leave.
pub(crate) struct Receiving {
    pub datagrams: Datagrams,
    /// To the thread that sends.
    pub line: Line,
}

impl Receiving {
    /// Gives the way out a thread and a handle of the socket. `above` is where those sleep who receive.
    ///
    /// # Errors
    /// If the system has no thread or no descriptor left.
    pub fn start(
        mut datagrams: Datagrams,
        above: &Arc<Doorbell>,
        clock: &Clock,
        threads: &Threads,
    ) -> io::Result<Self> {
        let lower = Sending {
            datagrams: Datagrams::new(datagrams.socket.another()),
        };
        // What leaves over this one finds nothing before it: what waits for the link is for the other to tell.
        datagrams.uplink = Uplink::silent();
        let sending = Group {
            seals: true,
            ..Group::new("sabani-sending", clock)?
        };
        let line = Line::start(lower, sending, Arc::clone(above), threads)?;
        Ok(Receiving { datagrams, line })
    }

    /// What an ICMP error said, or the thread that sends has to report.
    fn next_report(&mut self) -> Option<Up> {
        let own = self.datagrams.next_report().map(Up::Report);
        own.or_else(|| self.line.take())
    }

    /// Whether something was heard of peers' addresses.
    pub fn has_reports(&self) -> bool {
        !self.datagrams.reports.is_empty() || self.line.has_reports()
    }

    /// Moves what was heard of peers' addresses to the end of `into`.
    pub fn take_reports(&mut self, into: &mut Vec<Report>) {
        into.append(&mut self.datagrams.reports);
        self.line.take_reports(into);
    }

    /// What was done over both handles.
    pub fn counters(&self) -> Counters {
        self.datagrams.socket.counters().with(self.line.counters())
    }
}

/// The same on a thread of its own, or on that of the seal.
pub(crate) struct ReceivingApart {
    pub receiving: Receiving,
    pub intake: Intake,
}

impl Lower for ReceivingApart {
    fn send(&mut self, load: Item<Load>, clock: &mut Clock) -> Option<Item<Load>> {
        self.receiving.line.send(load, clock)
    }

    fn receive(&mut self, clock: &mut Clock) -> Option<Up> {
        if let Some(report) = self.receiving.next_report() {
            return Some(report);
        }
        self.intake.next(&mut self.receiving.datagrams, clock)
    }

    fn is_stuck(&self) -> bool {
        self.receiving.line.is_stuck()
    }

    fn has_work(&self, blocked: bool, full: bool) -> bool {
        let Receiving { datagrams, line } = &self.receiving;
        line.has_work(blocked, full) || (!full && !datagrams.reports.is_empty())
    }

    fn sleep(
        &mut self,
        bell: &Waker,
        _blocked: bool,
        full: bool,
        _clock: &Clock,
    ) -> io::Result<()> {
        self.receiving.datagrams.sleep(bell, full, false, None)
    }

    fn counters(&self) -> Counters {
        self.receiving.counters()
    }

    fn stop(&mut self) {
        self.receiving.line.stop();
    }
}
