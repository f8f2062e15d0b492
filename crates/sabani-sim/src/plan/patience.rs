//! How long a plan may take before somebody has to ask why: what its rates, delays, faults and
//! mishaps cost in the worst case that is not a defect.

use super::{Fault, Plan, ProgramSettings, Recovery, Traffic, What};
use crate::{MS, SEC, Time};

/// Bytes of payload that a datagram carries at least, if there are more to come.
const PIECE: u64 = 1_000;
/// What a loss costs who has timeouts alone, as a rule.
const TIMEOUT_NS: u64 = 250 * MS;
/// Two small packets: less no program can wish for.
const LEAST_WINDOW: u64 = 4 << 10;

impl Plan {
    /// How long the transport may take once nothing goes wrong any more.
    pub fn patience_ns(&self) -> u64 {
        if let Some(Time(patience_ns)) = self.patience {
            return patience_ns;
        }
        let apart = self.disconnects();
        let apart_ns = u64::from(apart) * self.settings.disconnected_max_ns();
        let vain_ns = self.messages_in_vain() * self.settings.connect_timeout_ns();
        let grief_ns = self.griefs() * self.settings.grief_ns();
        3 * SEC + self.work_ns() + grief_ns + apart_ns + vain_ns
    }

    /// What bringing all messages costs while nobody loses sight of each other.
    fn work_ns(&self) -> u64 {
        let rates = self.paths.iter().filter_map(|path| path.rate);
        let rates = rates.chain([self.network.rate]).map(|rate| rate.0);
        let slowest = rates.filter(|&rate| rate > 0).min().unwrap_or(u64::MAX);
        let transfer_ns = u128::from(self.bytes()) * 8_000_000_000 / u128::from(slowest);
        let loss = self.lasting_faults().map(Fault::harm);
        let slower = 8.0 + 200.0 * loss.fold(0.0, f64::max);
        (transfer_ns as f64 * slower) as u64 + self.trips() * self.trip_ns()
    }

    /// Round trips that programs may have to wait for, one after the other.
    fn trips(&self) -> u64 {
        let queues = self.paths.iter().filter_map(|path| path.queue);
        let queues = queues.chain(self.network.queue).chain(self.network.buffer);
        let mut window = self.settings.least_window(self.hosts);
        if self.mishaps.iter().any(|mishap| mishap.what == What::Least) {
            window = window.min(LEAST_WINDOW);
        }
        let window = queues.map(|queue| queue.0).fold(window, u64::min);
        // Where memory is short a program may have to ask for each message.
        let asked = self.settings.memory.map_or(0, |_| self.messages());
        // Each loss is found by itself, and there is credit for what is missing alone, not for all
        // that goes again with it.
        let again = match self.settings.recovery {
            Some(Recovery::GoBackN) if !self.faults.is_empty() => self.bytes() / PIECE,
            _ => 0,
        };
        400 + self.bytes() / (window / 4).max(1) + asked + again
    }

    /// How long each of them takes.
    fn trip_ns(&self) -> u64 {
        let delays = self.paths.iter().filter_map(|path| path.delay);
        let delays = delays.chain([self.network.delay]).map(|delay| delay.0);
        let faults = self.faults.iter();
        let late_ns = faults.map(|fault| fault.jitter.0 + fault.late.0).max();
        let program_ns = self.programs.iter().map(ProgramSettings::trip_ns).max();
        let timeout_ns = match self.settings.recovery {
            Some(Recovery::Timeout) => TIMEOUT_NS,
            _ => 0,
        };
        // Where most of what leaves together overflows a queue, the sender asks again as late as that.
        let late_ack_ns = self.settings.late_ack.map_or(0, |Time(ack_ns)| ack_ns);
        let path_ns = 2 * (delays.max().unwrap_or(0) + late_ns.unwrap_or(0));
        path_ns + program_ns.unwrap_or(0) + timeout_ns + late_ack_ns
    }

    /// Times that peers may lose sight of each other, one after the other. A burst swallows
    /// requests for an answer and handshakes, too, so that each may be one.
    fn griefs(&self) -> u64 {
        let mishaps = !self.mishaps.is_empty() || self.faults.iter().any(Fault::is_severe);
        let packets = 2 * (self.bytes() / PIECE + 2 * self.messages());
        let bursts = self.lasting_faults().map(|fault| fault.burst);
        let bursts = bursts.fold(0.0, f64::max) * packets as f64;
        u64::from(mishaps) + bursts.ceil() as u64
    }

    fn lasting_faults(&self) -> impl Iterator<Item = &Fault> {
        self.faults.iter().filter(|fault| fault.until.is_none())
    }

    /// Whether a program disconnects: should it die then, its peers wait for it longer than for
    /// others.
    pub(super) fn disconnects(&self) -> bool {
        let mut mishaps = self.mishaps.iter();
        mishaps.any(|mishap| mishap.what == What::Disconnect)
    }

    /// Messages to hosts that go and may not come back, or be where nobody knows: a program with a
    /// short queue may find out for each of them that there is nobody.
    fn messages_in_vain(&self) -> u64 {
        let goes = |what| matches!(what, What::Crash | What::Close | What::Move);
        let gone = self.mishaps.iter().filter(|mishap| goes(mishap.what));
        let gone: Vec<_> = gone.map(|mishap| mishap.host).collect();
        let to_gone = |stream: &Traffic| {
            let vain = stream.pairs(self.hosts).filter(|(_, to)| gone.contains(to));
            vain.count() as u64 * u64::from(stream.messages) * u64::from(stream.rounds)
        };
        self.traffic.iter().map(to_gone).sum()
    }
}
