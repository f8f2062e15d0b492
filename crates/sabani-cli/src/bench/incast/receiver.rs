//! The receiver: it asks, and it measures.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{
    protocol::{ECHO_PORT, Pattern, Setup, Times, Turn},
    requester::{self, Requester},
};
use crate::bench::transport::Transport;

/// Round trips of which the median is told, and how long one may take.
const ROUND_TRIPS: usize = 101;
const ROUND_TRIP_TIMEOUT: Duration = Duration::from_secs(1);
/// Messages that each long flow owes at any time: when one is done, the next is under way.
const LONG_AHEAD: usize = 2;
/// Pauses between short messages: from the first, up to twice as long, so that they meet the long
/// flows at different moments.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_STEPS: u32 = 10;
/// Pause between short messages while the long flows are silent, as in the simulator: the port's token bucket fills again, and
/// processors do not fall asleep. Among long flows they don't either.
const UNLOADED_PAUSE: Duration = Duration::from_millis(2);
/// How long the long flows run before what they bring counts: all of them are then under way, and
/// nothing of theirs is left lying.
const SETTLE: Duration = Duration::from_millis(100);
/// How long the receiver looks at one long flow before it turns to the next.
const LOOK: Duration = Duration::from_micros(500);

/// All that the receiver has open.
pub struct Receiver {
    host: Ipv4Addr,
    senders: Vec<Ipv4Addr>,
    requesters: HashMap<Transport, Box<dyn Requester>>,
}

impl Receiver {
    /// Meets all senders by all transports.
    ///
    /// # Errors
    /// If one of them can't be reached.
    pub fn open(setup: &Setup, senders: Vec<Ipv4Addr>) -> Result<Self> {
        let open = |&transport| Ok((transport, requester::open(transport, setup, &senders)?));
        Ok(Self {
            host: setup.host,
            requesters: setup.transports.iter().map(open).collect::<Result<_>>()?,
            senders,
        })
    }

    /// The median time that a packet takes to a sender and back, by programs that sleep.
    ///
    /// # Errors
    /// If none comes back.
    pub fn round_trip(&self) -> Result<Duration> {
        let socket = UdpSocket::bind((self.host, 0))?;
        let sender = self.senders.first().context("there is no sender")?;
        socket.connect((*sender, ECHO_PORT))?;
        socket.set_read_timeout(Some(ROUND_TRIP_TIMEOUT))?;
        let mut times = Vec::with_capacity(ROUND_TRIPS);
        for _ in 0..ROUND_TRIPS {
            let start = Instant::now();
            socket.send(&[0])?;
            socket.recv(&mut [0])?;
            times.push(start.elapsed());
        }
        times.sort_unstable();
        Ok(times[ROUND_TRIPS / 2])
    }

    /// Does one turn.
    ///
    /// # Errors
    /// If a transport fails, or a message does not come.
    pub fn turn(&mut self, turn: Turn) -> Result<Times> {
        let senders = self.senders.len();
        let requester = self.requesters.get_mut(&turn.transport);
        let requester = requester.context("this transport is not open")?.as_mut();
        match turn.pattern {
            Pattern::Incast { bytes } => incast(requester, senders, bytes, turn.rounds),
            Pattern::Mix { short, long } => Mix {
                requester,
                short: (senders - 1, short),
                long: (senders - 1, long),
                asked_bytes: 0,
            }
            .turn(turn.rounds),
        }
    }
}

/// The first round does not count: a transport that was silent for a while may begin slowly.
fn incast(
    requester: &mut dyn Requester,
    senders: usize,
    bytes: usize,
    rounds: u32,
) -> Result<Times> {
    let mut times = Times::default();
    for round in 0..=rounds {
        let start = Instant::now();
        for sender in 0..senders {
            requester.request(sender, bytes)?;
        }
        for sender in 0..senders {
            requester.wait(sender)?;
        }
        let completion_ns = start.elapsed().as_nanos() as u64;
        if round > 0 {
            times.completion_ns.push(completion_ns);
            times.bytes += (senders * bytes) as u64;
            times.elapsed_ns += completion_ns;
        }
    }
    Ok(times)
}

/// One short message at a time, and long flows.
struct Mix<'a> {
    requester: &'a mut dyn Requester,
    /// The sender of short messages, and their size.
    short: (usize, usize),
    /// How many senders of long messages there are, and their size.
    long: (usize, usize),
    /// Bytes of all messages that were asked for.
    asked_bytes: u64,
}

impl Mix<'_> {
    fn turn(mut self, rounds: u32) -> Result<Times> {
        let mut times = Times::default();
        let before = self.requester.arrived_bytes();
        for _ in 0..=rounds {
            thread::sleep(UNLOADED_PAUSE);
            times.unloaded_ns.push(self.short_message()?);
        }
        times.unloaded_ns.remove(0);
        self.begin_long()?;
        self.keep_long_going(SETTLE)?;
        let begun = self.requester.arrived_bytes();
        let start = Instant::now();
        for round in 0..rounds {
            let pause = PAUSE + PAUSE * (round % PAUSE_STEPS) / PAUSE_STEPS;
            self.keep_long_going(pause)?;
            times.completion_ns.push(self.short_message()?);
        }
        times.elapsed_ns = start.elapsed().as_nanos() as u64;
        let arrived = self.requester.arrived_bytes() - begun;
        self.end_long()?;
        // Few messages are whole in so short a time, and most of those have begun before it. All that was asked
        // for has come by now: this tells what the transport adds.
        let all = self.requester.arrived_bytes() - before;
        let part = arrived as f64 / all as f64;
        let short_bytes = u64::from(rounds) * self.short.1 as u64;
        times.bytes = ((part * self.asked_bytes as f64) as u64).saturating_sub(short_bytes);
        Ok(times)
    }

    fn request(&mut self, sender: usize, bytes: usize) -> Result<()> {
        self.asked_bytes += bytes as u64;
        self.requester.request(sender, bytes)
    }

    fn short_message(&mut self) -> Result<u64> {
        let (sender, bytes) = self.short;
        let start = Instant::now();
        self.request(sender, bytes)?;
        self.requester.wait(sender)?;
        Ok(start.elapsed().as_nanos() as u64)
    }

    /// All flows have had a first message when this ends.
    fn begin_long(&mut self) -> Result<()> {
        let (flows, bytes) = self.long;
        for _ in 0..=LONG_AHEAD {
            for sender in 0..flows {
                self.request(sender, bytes)?;
            }
        }
        (0..flows).try_for_each(|sender| self.requester.wait(sender))
    }

    /// Asks for another message whenever one has come.
    fn keep_long_going(&mut self, time: Duration) -> Result<()> {
        let (flows, bytes) = self.long;
        let start = Instant::now();
        for sender in (0..flows).cycle() {
            if start.elapsed() >= time {
                break;
            }
            if self.requester.arrives(sender, LOOK)? {
                self.request(sender, bytes)?;
            }
        }
        Ok(())
    }

    fn end_long(&mut self) -> Result<()> {
        for sender in (0..self.long.0).cycle().take(self.long.0 * LONG_AHEAD) {
            self.requester.wait(sender)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Bytes that come to each flow while the receiver looks once.
    const STEP_BYTES: u64 = 1_000;

    /// A link that flows share evenly, by a transport that makes two bytes of each.
    struct Fluid {
        /// For each sender what was asked for, what has come of it, and the bytes of whole messages taken.
        flows: [[u64; 3]; 3],
        /// What it has told.
        told: RefCell<Vec<u64>>,
    }

    impl Requester for Fluid {
        fn request(&mut self, sender: usize, bytes: usize) -> Result<()> {
            self.flows[sender][0] += bytes as u64;
            Ok(())
        }

        fn arrives(&mut self, sender: usize, timeout: Duration) -> Result<bool> {
            let bytes = if sender == 2 { SHORT } else { LONG } as u64;
            loop {
                for [asked, come, _] in &mut self.flows {
                    *come = (*come + STEP_BYTES).min(*asked);
                }
                let [_, come, taken] = &mut self.flows[sender];
                if *come >= *taken + bytes {
                    *taken += bytes;
                    return Ok(true);
                }
                if timeout == LOOK {
                    return Ok(false);
                }
            }
        }

        fn arrived_bytes(&self) -> u64 {
            let told = 2 * self.flows.iter().map(|[_, come, _]| come).sum::<u64>();
            self.told.borrow_mut().push(told);
            told
        }
    }

    const SHORT: usize = 1 << 10;
    const LONG: usize = 1 << 20;

    #[test]
    fn of_messages_that_have_begun_before_only_the_rest_counts() {
        let mut link = Fluid {
            flows: [[0; 3]; 3],
            told: RefCell::default(),
        };
        let mix = Mix {
            requester: &mut link,
            short: (2, SHORT),
            long: (2, LONG),
            asked_bytes: 0,
        };
        let rounds = 3;
        let times = mix.turn(rounds).unwrap();
        let [_, begun, ended, all] = link.told.into_inner()[..] else {
            panic!("it is asked four times");
        };
        let counted = times.bytes + u64::from(rounds) * SHORT as u64;
        assert!((2 * counted).abs_diff(ended - begun) <= 4, "{times:?}");
        let asked: u64 = link.flows.iter().map(|[asked, ..]| asked).sum();
        assert_eq!(2 * asked, all);
    }
}
