//! The layers of a node, and which of them share a thread.
//!
//! Messages and channel are one state machine ([`sabani_proto::Node`]) behind the node's lock, and run on
//! the threads that call in: a receive is answered from what is there, at once. What is below them runs
//! on the same thread, or on others at the end of a pair of rings: the same code, as [`Schedule`] says.

mod datagrams;
mod doorbell;
mod line;
mod pause;
mod receiving;
mod sending;
mod uplink;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use sabani_proto::{Keyring, Node};
use sabani_ring::{Schedule, ScheduleError};
use sabani_udp::{Capabilities, Counters, Socket, Waker, Watch};

use crate::poll_fd::PollFd;
use crate::threads::Threads;
use crate::timing::{Stage, Stopwatch};
use datagrams::{Arrivals, Datagrams, Load, Look};
use line::Line;
use receiving::{Receiving, ReceivingApart};
use worker::{Group, Intake, Lowest};

pub(crate) use datagrams::Report;
pub(crate) use doorbell::Doorbell;

/// The layers, uppermost first, as schedules name them. Those joined here share a thread under every
/// schedule.
const LAYERS: [&str; 3] = ["messages+channel", "seal", "datagrams"];
/// The same with the two ways apart that seal and datagrams have: in, and out. As far as loads go, the way out is the lower one.
const WAYS: [&str; 3] = ["messages+channel", "opening+receiving", "sealing+sending"];

/// The clock of one thread; those of a node's threads have one beginning.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    start_ns: u64,
    /// When it was last read.
    pub now_ns: u64,
    /// Of a node whose time is wanted in parts.
    pub watch: Option<Box<Stopwatch>>,
}

impl Clock {
    pub fn new() -> Self {
        Clock {
            start_ns: monotonic_ns(),
            now_ns: 0,
            watch: None,
        }
    }

    /// What has been done since the last lap was this.
    #[inline]
    pub fn lap(&mut self, stage: Stage) {
        if let Some(watch) = &mut self.watch {
            watch.lap(stage);
        }
    }

    #[inline]
    pub fn read(&mut self) -> u64 {
        self.now_ns = monotonic_ns() - self.start_ns;
        self.now_ns
    }
}

/// The clock of [`Instant`](std::time::Instant), whose differences cost as much again as to read it. Not by rustix, which ends
/// programs that run under Valgrind when it looks for the kernel's fast way to it.
#[inline]
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// What has come from below.
pub(crate) enum News<'a> {
    Batch(&'a mut Arrivals),
    /// All that came has been taken out.
    Emptied,
    Nothing,
}

/// What is below the channel.
pub(crate) struct Below {
    local_addr: SocketAddr,
    capabilities: Capabilities,
    way: Way,
}

enum Way {
    /// On the same thread.
    Here(Box<Here>),
    /// The way in on the same thread, the way out on another.
    Parted(Box<Parted>),
    /// On another.
    Line(Box<Line>),
}

/// The lower layers of a thread that runs all of them.
struct Here {
    datagrams: Datagrams,
    load: Load,
    arrivals: Arrivals,
}

/// Those of a thread that runs all of them on the way in.
struct Parted {
    receiving: Receiving,
    arrivals: Arrivals,
}

impl Below {
    /// What is below the channel, as the schedule says. `bell` is where the threads above sleep, `threads`
    /// how those below run.
    ///
    /// # Errors
    /// If the system has no thread or no descriptor left.
    pub fn new(
        socket: Socket,
        cuts: Cuts,
        bell: &Arc<Doorbell>,
        clock: &Clock,
        threads: &Threads,
    ) -> io::Result<Self> {
        let local_addr = socket.local_addr();
        let capabilities = socket.capabilities().clone();
        let mut datagrams = Datagrams::new(socket);
        if threads.spin.yields {
            datagrams.pause.switch_off();
        }
        let way = if cuts.above_seal || cuts.above_datagrams {
            Way::Line(Box::new(lines(datagrams, cuts, bell, clock, threads)?))
        } else if cuts.above_way_out {
            Way::Parted(Box::new(Parted {
                receiving: Receiving::start(datagrams, bell, clock, threads)?,
                arrivals: Arrivals::new(),
            }))
        } else {
            Way::Here(Box::new(Here {
                datagrams,
                load: Load::new(),
                arrivals: Arrivals::new(),
            }))
        };
        Ok(Below {
            local_addr,
            capabilities,
            way,
        })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The socket's counters.
    pub fn counters(&self) -> Counters {
        match &self.way {
            Way::Here(here) => here.datagrams.socket.counters(),
            Way::Parted(parted) => parted.receiving.counters(),
            Way::Line(line) => line.counters(),
        }
    }

    /// Passes on what may leave now; `false` if there is nothing, or if nothing more is taken.
    #[inline]
    pub fn pass(&mut self, node: &mut Node, clock: &mut Clock) -> bool {
        let now_ns = clock.now_ns;
        match &mut self.way {
            Way::Here(here) => {
                let Here {
                    datagrams, load, ..
                } = &mut **here;
                if !datagrams.send(load, clock) || !load.fill(node, now_ns) {
                    return false;
                }
                clock.lap(Stage::ChannelOut);
                datagrams.send(load, clock);
                clock.lap(Stage::CallOut);
                true
            }
            Way::Parted(parted) => {
                let Receiving { datagrams, line } = &mut parted.receiving;
                line.pass_beside(node, clock, datagrams)
            }
            Way::Line(line) => {
                let any = line.pass(node, now_ns);
                clock.lap(Stage::ChannelOut);
                any
            }
        }
    }

    /// Whether nothing more is taken now.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        match &self.way {
            Way::Here(here) => !here.load.is_settled(),
            Way::Parted(parted) => parted.receiving.line.is_blocked(),
            Way::Line(line) => line.is_blocked(),
        }
    }

    /// When more is to be passed on, if no descriptor tells.
    #[inline]
    pub fn retry_ns(&self) -> Option<u64> {
        match &self.way {
            Way::Here(here) => here.datagrams.retry_ns(),
            Way::Parted(_) | Way::Line(_) => None,
        }
    }

    /// Takes what comes next, and reads the clock if that is anything.
    #[inline]
    pub fn receive(&mut self, clock: &mut Clock) -> News<'_> {
        match &mut self.way {
            Way::Here(here) => look(&mut here.datagrams, &mut here.arrivals, clock),
            Way::Parted(parted) => {
                let Parted {
                    receiving,
                    arrivals,
                } = &mut **parted;
                receiving.line.hear();
                look(&mut receiving.datagrams, arrivals, clock)
            }
            Way::Line(line) => {
                let news = line.receive();
                clock.lap(Stage::Waiting);
                if !matches!(news, News::Nothing) {
                    clock.read();
                }
                news
            }
        }
    }

    /// So many bytes are still to come from whoever was heard last.
    #[inline]
    pub fn expect(&mut self, bytes: u64) {
        if let Some(datagrams) = self.read_here() {
            datagrams.pause.expect(bytes);
        }
    }

    /// Makes sure that what waits in the socket is found by the next look.
    pub fn look_everywhere(&mut self) {
        if let Some(datagrams) = self.read_here() {
            datagrams.look_everywhere();
        }
    }

    /// What the thread above reads itself.
    #[inline]
    fn read_here(&mut self) -> Option<&mut Datagrams> {
        match &mut self.way {
            Way::Here(here) => Some(&mut here.datagrams),
            Way::Parted(parted) => Some(&mut parted.receiving.datagrams),
            Way::Line(_) => None,
        }
    }

    /// Whether something was heard of peers' addresses.
    #[inline]
    pub fn has_reports(&self) -> bool {
        match &self.way {
            Way::Here(here) => here.datagrams.has_news(),
            Way::Parted(parted) => parted.receiving.has_reports(),
            Way::Line(line) => line.has_reports(),
        }
    }

    /// Moves what was heard of peers' addresses to the end of `into`.
    #[inline]
    pub fn take_reports(&mut self, into: &mut Vec<Report>) {
        match &mut self.way {
            Way::Here(here) => {
                into.append(&mut here.datagrams.reports);
                into.extend(here.datagrams.take_unsent());
            }
            Way::Parted(parted) => parted.receiving.take_reports(into),
            Way::Line(line) => line.take_reports(into),
        }
    }

    /// What to sleep on; `None` if there is something to do. `wants_to_send` says whether something waits
    /// to be passed on.
    pub fn rest(&self, wants_to_send: bool) -> Option<Rest> {
        match &self.way {
            Way::Here(here) => Some(Rest::Socket {
                watch: here.datagrams.socket.watch(),
                room_to_send: self.is_blocked() && self.retry_ns().is_none(),
            }),
            Way::Parted(parted) => {
                let Receiving { datagrams, line } = &parted.receiving;
                let watch = || Rest::Socket {
                    watch: datagrams.socket.watch(),
                    room_to_send: false,
                };
                (!line.retire(wants_to_send)).then(watch)
            }
            Way::Line(line) => (!line.retire(wants_to_send)).then_some(Rest::Bell),
        }
    }

    /// Makes a descriptor for other event loops.
    ///
    /// # Errors
    /// If the system has none left.
    pub fn poll_fd(&mut self) -> io::Result<PollFd> {
        match &mut self.way {
            Way::Here(here) => PollFd::new(Some(here.datagrams.watched().as_fd())),
            Way::Parted(parted) => {
                let Receiving { datagrams, line } = &mut parted.receiving;
                let poll_fd = PollFd::new(Some(datagrams.watched().as_fd()))?;
                line.poll_on(poll_fd.waker());
                Ok(poll_fd)
            }
            Way::Line(line) => {
                let poll_fd = PollFd::new(None)?;
                line.poll_on(poll_fd.waker());
                Ok(poll_fd)
            }
        }
    }

    /// Ends the threads below, after they have sent what waits as far as the socket takes it.
    pub fn stop(&mut self) {
        match &mut self.way {
            Way::Here(_) => {}
            Way::Parted(parted) => parted.receiving.line.stop(),
            Way::Line(line) => line.stop(),
        }
    }
}

/// Takes what comes next over this socket.
#[inline]
fn look<'a>(datagrams: &mut Datagrams, arrivals: &'a mut Arrivals, clock: &mut Clock) -> News<'a> {
    let look = datagrams.receive(&mut arrivals.batch, clock);
    clock.lap(match look {
        Look::Filled => Stage::CallIn,
        Look::Emptied | Look::Nothing => Stage::Waiting,
    });
    match look {
        Look::Filled => News::Batch(arrivals),
        Look::Emptied => News::Emptied,
        Look::Nothing => News::Nothing,
    }
}

/// The threads below the channel, and the upper end of the rings to them.
///
/// # Errors
/// If the system has no thread or no descriptor left.
fn lines(
    datagrams: Datagrams,
    cuts: Cuts,
    bell: &Arc<Doorbell>,
    clock: &Clock,
    threads: &Threads,
) -> io::Result<Line> {
    let lowest = |group, above| lowest(datagrams, cuts, group, above, threads);
    if !cuts.above_seal {
        return lowest(Group::new("sabani-datagrams", clock)?, bell);
    }
    let seal = Group {
        keyring: Some(Keyring::default()),
        seals: !cuts.above_way_out,
        ..Group::new("sabani-seal", clock)?
    };
    if !cuts.above_datagrams {
        return lowest(seal, bell);
    }
    let datagrams = Group::new("sabani-datagrams", clock)?;
    let line = lowest(datagrams, &seal.bell)?;
    Line::start(line, seal, Arc::clone(bell), threads)
}

/// The thread that reads the socket, and that of the way out if it has one.
///
/// # Errors
/// If the system has no thread or no descriptor left.
fn lowest(
    datagrams: Datagrams,
    cuts: Cuts,
    group: Group,
    above: &Arc<Doorbell>,
    threads: &Threads,
) -> io::Result<Line> {
    let above = Arc::clone(above);
    if !cuts.above_way_out {
        return Line::start(Lowest::new(datagrams), group, above, threads);
    }
    let lower = ReceivingApart {
        receiving: Receiving::start(datagrams, &group.bell, &group.clock, threads)?,
        intake: Intake::new(),
    };
    Line::start(lower, group, above, threads)
}

impl std::fmt::Debug for Below {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Below")
            .field("local_addr", &self.local_addr)
            .finish_non_exhaustive()
    }
}

/// What a thread sleeps on that has nothing to do.
pub(crate) enum Rest {
    /// The socket, which it reads itself.
    Socket { watch: Watch, room_to_send: bool },
    /// The bell alone.
    Bell,
}

impl Rest {
    /// Sleeps until there may be something to do, or the bell rings, or `timeout` has passed.
    ///
    /// # Errors
    /// Those of ppoll(2), except for interruptions.
    pub fn sleep(self, bell: &Doorbell, timeout: Option<Duration>) -> io::Result<()> {
        let waker: &Waker = bell.waker();
        let rung = match self {
            Rest::Socket {
                watch,
                room_to_send,
            } => {
                watch
                    .wait(room_to_send, Some(waker.as_fd()), timeout)?
                    .other
            }
            Rest::Bell => waker.wait(timeout).map(|()| true)?,
        };
        if rung {
            waker.drain();
        }
        Ok(())
    }
}

/// Between which layers a node goes from one thread to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cuts {
    /// Above the messages: the program calls, another thread works.
    pub above_messages: bool,
    pub above_seal: bool,
    pub above_datagrams: bool,
    /// From the way in to the way out.
    pub above_way_out: bool,
}

impl Cuts {
    /// What divides a node's work into two parts that take about as long as each other (docs/layers.md).
    const FOR_TWO_CORES: Cuts = Cuts {
        above_messages: false,
        above_seal: false,
        above_datagrams: false,
        above_way_out: true,
    };

    /// Where a schedule cuts on a machine with so many cores.
    ///
    /// # Errors
    /// If its groups are not those of a node.
    pub fn of(schedule: &Schedule, cores: usize) -> Result<Self, ScheduleError> {
        if (schedule, cores) == (&Schedule::PerCore, 2) {
            return Ok(Cuts::FOR_TWO_CORES);
        }
        let ways_are_apart = tells_ways_apart(schedule);
        let layers = match ways_are_apart {
            true => WAYS,
            false => LAYERS,
        };
        let groups = with_joined(schedule, &layers).groups(&layers, cores)?;
        let begins = |layer| groups.iter().any(|group| group.start == layer);
        Ok(Cuts {
            above_messages: *schedule == Schedule::Background,
            above_seal: begins(1),
            above_datagrams: !ways_are_apart && begins(2),
            above_way_out: ways_are_apart && begins(2),
        })
    }

    /// Threads of the node's own that do its work.
    pub fn own_threads(self) -> usize {
        let Cuts {
            above_messages,
            above_seal,
            above_datagrams,
            above_way_out,
        } = self;
        [above_messages, above_seal, above_datagrams, above_way_out]
            .into_iter()
            .filter(|&cut| cut)
            .count()
    }
}

/// Whether a schedule names one of the two ways.
fn tells_ways_apart(schedule: &Schedule) -> bool {
    let Schedule::Groups(groups) = schedule else {
        return false;
    };
    let mut parts = WAYS[1..].iter().flat_map(|way| way.split('+'));
    parts.any(|part| groups.iter().flatten().any(|name| name == part))
}

/// The same schedule, with one name for layers that are joined.
fn with_joined(schedule: &Schedule, layers: &[&str]) -> Schedule {
    let Schedule::Groups(groups) = schedule else {
        return schedule.clone();
    };
    let join = |group: &Vec<String>| {
        let (mut joined, mut rest) = (Vec::new(), &group[..]);
        while let Some(first) = rest.first() {
            let (layer, parts) = joined_at(rest, layers).unwrap_or((first, 1));
            joined.push(layer.to_owned());
            rest = &rest[parts..];
        }
        joined
    };
    Schedule::Groups(groups.iter().map(join).collect())
}

/// The layer of which the first of these names are the parts, and how many parts that has.
fn joined_at<'l>(names: &[String], layers: &[&'l str]) -> Option<(&'l str, usize)> {
    layers.iter().find_map(|layer| {
        let parts = layer.split('+').count();
        let front = names.get(..parts)?;
        layer.split('+').eq(front).then_some((*layer, parts))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts(schedule: &str, cores: usize) -> Result<Cuts, ScheduleError> {
        Cuts::of(&schedule.parse()?, cores)
    }

    #[test]
    fn schedules_cut_between_layers() {
        let none = Cuts::default();
        let datagrams = Cuts {
            above_datagrams: true,
            ..none
        };
        let seal = Cuts {
            above_seal: true,
            ..none
        };
        let both = Cuts {
            above_seal: true,
            ..datagrams
        };
        let background = Cuts {
            above_messages: true,
            ..none
        };
        let way_out = Cuts {
            above_way_out: true,
            ..none
        };
        let both_ways = Cuts {
            above_seal: true,
            ..way_out
        };
        for (schedule, cores, expected) in [
            ("inline", 8, none),
            ("background", 8, background),
            ("per-core", 1, none),
            ("per-core", 2, way_out),
            ("per-core", 3, both),
            ("per-layer", 1, both),
            ("[messages+channel+seal][datagrams]", 1, datagrams),
            ("[messages+channel][seal+datagrams]", 1, seal),
            ("[messages+channel][seal][datagrams]", 1, both),
            ("[messages+channel+seal+datagrams]", 1, none),
            (
                "[messages+channel+opening+receiving][sealing+sending]",
                1,
                way_out,
            ),
            (
                "[messages+channel][opening+receiving][sealing+sending]",
                1,
                both_ways,
            ),
            (
                "[messages+channel][opening+receiving+sealing+sending]",
                1,
                seal,
            ),
        ] {
            assert_eq!(cuts(schedule, cores), Ok(expected), "{schedule}");
        }
    }

    #[test]
    fn what_is_no_division_of_the_layers_is_refused_with_the_reason() {
        let said = |schedule| cuts(schedule, 2).unwrap_err().to_string();
        for (schedule, divided) in [
            (
                "[messages][channel+seal+datagrams]",
                "messages+channel share",
            ),
            (
                "[messages+channel+opening+receiving][sealing][sending]",
                "sealing+sending share",
            ),
            (
                "[messages+channel][opening][receiving][sealing][sending]",
                "opening+receiving share",
            ),
        ] {
            let said = said(schedule);
            assert!(said.starts_with(divided), "{schedule}: {said}");
        }
        for (schedule, name, layers) in [
            ("[messages+channel][seals+datagrams]", "seals", LAYERS),
            ("[messages+channel+seal+receiving][sending]", "seal", WAYS),
            (
                "[messages+channel+openings+receiving][sealing+sending]",
                "openings",
                WAYS,
            ),
        ] {
            let (name, layers) = (name.to_owned(), layers.join(", "));
            let error = cuts(schedule, 2).unwrap_err();
            assert_eq!(error, ScheduleError::NoLayer { name, layers });
        }
        let missing = said("[messages+channel]");
        assert!(missing.contains("must name all layers"), "{missing}");
    }
}
