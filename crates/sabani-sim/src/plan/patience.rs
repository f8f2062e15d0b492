//! How long a plan may take before somebody has to ask why: what its rates, delays, faults and
//! mishaps cost in the worst case that is not a defect.

use super::{Fault, Mishap, Plan, ProgramSettings, Recovery, Settings, Traffic, What};
use crate::{MS, SEC, Time};

/// Bytes of payload that a datagram carries at least, if there are more to come.
const PIECE: u64 = 1_000;
/// What a loss costs who has timeouts alone, as a rule.
const TIMEOUT_NS: u64 = 250 * MS;
/// Two small packets: less no program can wish for.
const LEAST_WINDOW: u64 = 4 << 10;
/// Eight small packets.
const RESPONSE_WINDOW: u64 = 8 << 10;
/// What a receiver gives at least that takes in few datagrams at a time, and so learns little of the path.
const BATCH_WINDOW: u64 = 32 << 10;
/// What a message costs beside its bytes, of a receiver's memory and, or less, on the wire.
const BESIDE: u64 = 128;
/// What finding each other may take of the slowest link: first messages go again until one is answered, and where many
/// begin at a time over a slow link all of them wait for each other.
const GREETING: u64 = 10 * 1_500;
/// Round trips until who begins knows the other one, the path and what it carries.
const FIRST_TRIPS: u64 = 40;
/// No run is waited for longer, whatever a plan says: what is reckoned up could be more than a clock shows.
const MOST_NS: u64 = 1_000 * Time::MOST.0;

impl Plan {
    /// How long the transport may take once nothing goes wrong any more.
    pub fn patience_ns(&self) -> u64 {
        if let Some(Time(patience_ns)) = self.patience {
            return patience_ns;
        }
        let apart = self.disconnects();
        let apart_ns = u64::from(apart) * self.settings.disconnected_max_ns();
        let vain = self.messages_in_vain();
        let vain_ns = vain.saturating_mul(self.settings.connect_timeout_ns());
        let grief_ns = self.griefs().saturating_mul(self.settings.grief_ns());
        let own_ns = self.by_slowest_clock_ns(sum([grief_ns, apart_ns, vain_ns]));
        let work_ns = self.work_ns(10 * FIRST_TRIPS);
        sum([
            3 * SEC,
            work_ns,
            self.greeting_ns(),
            self.handling_ns(),
            own_ns,
        ])
        .min(MOST_NS)
    }

    /// How long a time takes that hosts measure by clocks of their own.
    fn by_slowest_clock_ns(&self, ns: u64) -> u64 {
        const MILLION: i128 = 1_000_000;
        let drifts = self.programs.iter().map(|program| program.drift_ppm);
        let slowest = i128::from(drifts.min().unwrap_or(0).min(0));
        let ns = i128::from(ns) * MILLION / (MILLION + slowest).max(1);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// From when on nothing goes wrong any more, if it is no plan in which something does to the end, peers may
    /// have to find each other anew, or senders wait twice as long after each loss that nobody tells them of. Who
    /// got no answer may not ask again before as much time has passed once more.
    pub(super) fn calm_ns(&self) -> Option<u64> {
        let moved = |mishap: &Mishap| {
            use What::{Close, Crash, Move, Restart};
            matches!(mishap.what, Close | Crash | Move | Restart)
        };
        let lasts = self.lasting_faults().next().is_some() || !self.tcp.is_empty();
        let backs_off = self.settings.recovery == Some(Recovery::Timeout);
        if lasts || backs_off || self.mishaps.iter().any(moved) {
            return None;
        }
        let faults = self.faults.iter().flat_map(Fault::spells);
        let mishaps = self.mishaps.iter().map(|part| (part.at, Some(part.ends())));
        let spells: Vec<_> = faults.chain(mishaps).collect();
        let first = spells.iter().map(|(at, _)| at.0).min().unwrap_or(0);
        let last = spells.iter().filter_map(|(_, until)| *until).max();
        Some(last.map_or(0, |Time(last)| last + (last - first)))
    }

    /// How long a message may take while nothing goes wrong, with all the others before it.
    pub(super) fn wait_ns(&self) -> u64 {
        let naps = self.programs.iter().map(|program| program.nap.0);
        let naps_ns = naps.max().unwrap_or(0).saturating_mul(self.messages());
        sum([
            SEC,
            self.work_ns(FIRST_TRIPS),
            self.greeting_ns(),
            naps_ns,
            self.handling_ns(),
        ])
        .min(MOST_NS)
    }

    /// How long all handshakes take the slowest link, should they go over it at the same time.
    fn greeting_ns(&self) -> u64 {
        let pairs = self
            .traffic
            .iter()
            .map(|stream| stream.pairs(self.hosts).count() as u64);
        self.transfer_ns(pairs.sum::<u64>() * GREETING)
    }

    /// What packets cost the slowest host, if it had to handle all of them.
    fn handling_ns(&self) -> u64 {
        let handling = self.programs.iter().map(ProgramSettings::packet_ns);
        handling.max().unwrap_or(0).saturating_mul(self.packets())
    }

    /// Packets with data and acknowledgements, at most.
    fn packets(&self) -> u64 {
        let pieces = (self.bytes() / PIECE).saturating_add(self.messages().saturating_mul(2));
        pieces.saturating_mul(2)
    }

    /// What bringing all messages costs while nobody loses sight of each other, with so many round trips for what
    /// comes before them.
    fn work_ns(&self, first_trips: u64) -> u64 {
        let transfer_ns = self.transfer_ns(self.charge());
        let loss = self.lasting_faults().map(Fault::harm);
        let slower = 8.0 + 200.0 * loss.fold(0.0, f64::max);
        let trips = first_trips.saturating_add(self.trips());
        let trips_ns = trips.saturating_mul(self.trip_ns());
        ((transfer_ns as f64 * slower) as u64).saturating_add(trips_ns)
    }

    /// The bytes of all messages, and what they cost beside these.
    fn charge(&self) -> u64 {
        let beside = self.messages().saturating_mul(BESIDE);
        self.bytes().saturating_add(beside)
    }

    /// How long so many bytes take on the slowest link.
    fn transfer_ns(&self, bytes: u64) -> u64 {
        let rates = self.paths.iter().filter_map(|path| path.rate);
        let programs = self.programs.iter().map(|program| program.byte_rate);
        let rates = rates.chain([self.network.rate]).chain(programs);
        let rates = rates.map(|rate| rate.0);
        let slowest = rates.filter(|&rate| rate > 0).min().unwrap_or(u64::MAX);
        let ns = u128::from(bytes) * 8_000_000_000 / u128::from(slowest);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Bytes that may wait where not all may.
    fn queues(&self) -> impl Iterator<Item = u64> {
        let paths = self.paths.iter().filter_map(|path| path.queue);
        let queues = paths.chain(self.network.queue).chain(self.network.buffer);
        queues.map(|queue| queue.0)
    }

    /// Round trips that programs may have to wait for, one after the other.
    fn trips(&self) -> u64 {
        let mut window = self.settings.least_window(self.hosts);
        for mishap in &self.mishaps {
            window = window.min(match mishap.what {
                What::Least => LEAST_WINDOW,
                What::Response => RESPONSE_WINDOW,
                _ => u64::MAX,
            });
        }
        if self.programs.iter().any(|program| program.batch.is_some()) {
            window = window.min(BATCH_WINDOW);
        }
        let window = self.queues().fold(window, u64::min);
        // Where memory is short a program may have to ask for messages that it has no room for unasked, and with a
        // short queue be told of each before it sends the next: twice, if it has to ask for leave first.
        let Settings {
            send_queue,
            eager_max,
            ..
        } = self.settings;
        let each = 1 + u64::from(eager_max.is_some());
        let told = send_queue.map_or(0, |_| self.messages());
        let asked = self.asked().saturating_add(told).saturating_mul(each);
        let loses = !self.faults.is_empty() || self.queues().next().is_some();
        // Each loss is found by itself, and there is credit for what is missing alone, not for all
        // that goes again with it.
        let again = match self.settings.recovery {
            Some(Recovery::GoBackN) if loses => self.bytes() / PIECE,
            _ => 0,
        };
        // Whole packets at a time, where there is room for one.
        let each = match window / 4 {
            part if part > PIECE => part / PIECE * PIECE,
            part => part.max(1),
        };
        sum([self.charge() / each, asked, again])
    }

    /// Messages that may not come before their receiver asks for each: those that do not fit into what it has for what
    /// nobody has asked for, and all if programs do not take what comes first.
    fn asked(&self) -> u64 {
        let room = self.settings.unasked_room(self.hosts);
        let picky = |program: &ProgramSettings| program.by_sender || program.by_class_bits > 0;
        let picks = self.programs.iter().any(picky) && self.settings.is_memory_short();
        let asked = self
            .traffic
            .iter()
            .filter(|stream| picks || stream.bytes.0 > room);
        sum(asked.map(|stream| stream.messages(self.hosts)))
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
        // A tail that finds a queue full is asked for once an acknowledgement would have come.
        let tail_ns = match self.queues().next() {
            Some(_) => self.settings.max_ack_delay_ns(),
            None => 0,
        };
        // A full packet there, and one back.
        let packets_ns = self.transfer_ns(2 * self.network.mtu.0);
        let program_ns = program_ns.unwrap_or(0);
        sum([
            path_ns,
            packets_ns,
            tail_ns,
            program_ns,
            timeout_ns,
            late_ack_ns,
        ])
    }

    /// Times that peers may lose sight of each other, one after the other. A burst swallows
    /// requests for an answer and handshakes, too, so that each may be one.
    fn griefs(&self) -> u64 {
        let mishaps = !self.mishaps.is_empty() || self.faults.iter().any(Fault::is_severe);
        let bursts = self.lasting_faults().map(|fault| fault.burst);
        let bursts = bursts.fold(0.0, f64::max) * self.packets() as f64;
        u64::from(mishaps).saturating_add(bursts.ceil() as u64)
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
            let each = u64::from(stream.messages) * u64::from(stream.rounds);
            each.saturating_mul(vain.count() as u64)
        };
        sum(self.traffic.iter().map(to_gone))
    }
}

/// What all of them are together, or the most that a number can be.
fn sum(parts: impl IntoIterator<Item = u64>) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A patience that had begun again from nothing would accuse the transport.
    #[test]
    fn what_takes_longer_than_a_clock_shows_has_as_long_as_can_be() {
        let stream = "[[traffic]]\nfrom = 0\nto = 1\nmessages = 100000000\n";
        let crash = "[[mishap]]\nat = \"1ms\"\nhost = 1\nwhat = \"crash\"\n";
        for more in [
            "[[program]]\nnap = \"1000000s\"\n",
            "bytes = \"1GiB\"\n[network]\nrate = \"1bit\"\n",
            &format!("{crash}[settings]\nconnect_timeout = \"1000s\"\n"),
        ] {
            let plan = Plan::from_toml(&format!("hosts = 2\n{stream}{more}")).expect(more);
            let longest_ns = plan.patience_ns().max(plan.wait_ns());
            assert_eq!(longest_ns, MOST_NS, "{more}");
        }
        let many = stream
            .replace("messages", "bytes = \"1GiB\"\nmessages")
            .repeat(2_000);
        let plan = Plan::from_toml(&format!("hosts = 2\n{many}")).expect("many streams");
        assert_eq!(plan.patience_ns(), MOST_NS);
    }
}
