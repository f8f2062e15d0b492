//! The lower end of the datagrams' layer: gives trains to the socket.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use sabani_ring::Item;
use sabani_udp::{Counters, Waker};

use super::Clock;
use super::datagrams::{Datagrams, Load};
use super::line::Up;
use super::worker::Lower;

/// Sends. Alone on its thread it leaves what comes to others, who have another handle of the socket.
pub(crate) struct Sending {
    pub datagrams: Datagrams,
}

impl Sending {
    pub fn next_report(&mut self) -> Option<Up> {
        self.datagrams.next_report().map(Up::Report)
    }

    /// What waits for the host's own link can itself wait until nothing else has to be heard.
    pub fn unsent(&mut self) -> Option<Up> {
        self.datagrams.take_unsent().map(Up::Report)
    }

    /// How long the system is not to be asked, if it had no buffers.
    pub fn pause(&self, clock: &Clock) -> Option<Duration> {
        let retry_ns = self.datagrams.retry_ns()?;
        Some(Duration::from_nanos(retry_ns.saturating_sub(clock.now_ns)))
    }
}

impl Lower for Sending {
    fn send(&mut self, mut load: Item<Load>, clock: &mut Clock) -> Option<Item<Load>> {
        // What must be heard above goes first, so that it is bounded.
        if !self.datagrams.reports.is_empty() {
            return Some(load);
        }
        let trains = load.get_mut().expect("nobody else refers to it");
        clock.read();
        let settled = self.datagrams.send(trains, clock);
        self.datagrams.take_hints();
        (!settled).then_some(load)
    }

    fn receive(&mut self, _clock: &mut Clock) -> Option<Up> {
        self.next_report().or_else(|| self.unsent())
    }

    fn is_stuck(&self) -> bool {
        self.datagrams.reports.is_empty()
    }

    fn has_work(&self, _blocked: bool, full: bool) -> bool {
        // There may have been no room for them when they were last looked at.
        !full && self.datagrams.has_news()
    }

    fn sleep(&mut self, bell: &Waker, blocked: bool, _full: bool, clock: &Clock) -> io::Result<()> {
        let pause = self.pause(clock);
        if blocked && pause.is_none() && self.is_stuck() {
            self.datagrams.socket.wait_for_room(bell.as_fd(), None)?;
            self.datagrams.take_hints();
            return Ok(());
        }
        bell.wait(pause)
    }

    fn counters(&self) -> Counters {
        self.datagrams.socket.counters()
    }

    fn stop(&mut self) {}
}
