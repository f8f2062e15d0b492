//! One measurement: a stack of equal layers, looped back, under one schedule.

use std::{
    sync::mpsc::{Receiver, TryRecvError, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use sabani_ring::{Idle, Running, Schedule, Stack, Stop};

use crate::units::{count, format_size};

use super::{
    ends::{Loopback, User},
    ip::Ip,
    pdu::Pdu,
    tp4::{Tp4, Tp4Options},
};

/// PDUs that a ring between two layers holds: a few batches, so that neither has to wait for the other.
const RING_SLOTS: usize = 256;
/// Nothing takes as long, unless something was lost.
const LIMIT: Duration = Duration::from_secs(60);
const NO_END: &str =
    "not all PDUs were back after 60 s: some were lost, or other programs have the processors";

/// What the stacked layers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Ip,
    /// With a checksum in the uppermost layer alone, if any.
    Tp4(Tp4Options),
}

/// What is measured in one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    pub protocol: Protocol,
    /// How many times it is stacked.
    pub layers: usize,
    /// `per-layer` takes the user to the uppermost layer and the place
    /// where everything turns round to the lowest.
    pub schedule: Schedule,
    /// PDUs moved at a time, at most.
    pub batch: usize,
    /// The user's data in each PDU.
    pub size_bytes: usize,
}

impl Setup {
    /// Nanoseconds for each PDU, there and back through all layers.
    ///
    /// # Errors
    /// If the schedule does not fit, or nothing comes back any more.
    pub fn run(&self, pdus: u64) -> Result<f64> {
        let warm_up = (pdus / 10).max(1);
        let (finished, outcome) = channel();
        let user = User::new(self.size_bytes as u32, pdus + warm_up, warm_up, finished);
        let stop = Stop::default();
        let running = self
            .stack(user)
            .start(&self.grouped(), Idle::default(), &stop)?;
        let elapsed = match self.schedule {
            // On a thread that can be kept on a core, as the others are.
            Schedule::Inline => thread::scope(|scope| {
                let caller = scope.spawn(move || {
                    sabani_ring::pin(sabani_ring::cores(1)[0]);
                    call(running, &outcome)
                });
                caller.join().expect("the caller does not panic")
            })?,
            _ => {
                let elapsed = outcome.recv_timeout(LIMIT);
                stop.set();
                running.wait();
                elapsed.context(NO_END)?
            }
        };
        Ok(elapsed.as_nanos() as f64 / pdus as f64)
    }

    /// What it is, for people.
    pub fn told(&self) -> String {
        format!(
            "{} with {} and the schedule {}, batches of {}, user's data of {}",
            self.protocol.name(),
            count(self.layers, "layer"),
            self.schedule,
            self.batch,
            format_size(self.size_bytes)
        )
    }

    /// Whether the schedule fits the stack and does not merely say the same as another.
    pub fn makes_sense(&self) -> bool {
        let names = self.names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.schedule.groups(&names, 1).is_ok()
            && (self.layers > 1 || self.schedule != Schedule::PerLayer)
    }

    fn stack(&self, user: User) -> Stack<Pdu> {
        let mut stack = Stack::new(RING_SLOTS.max(2 * self.batch), self.batch);
        let mut names = self.names().into_iter();
        let mut name = || names.next().expect("one for each layer");
        stack.push(name(), user);
        for layer in 0..self.layers {
            match self.protocol {
                Protocol::Ip => stack.push(name(), Ip::new()),
                Protocol::Tp4(options) => {
                    let checksum = options.checksum && layer == 0;
                    stack.push(
                        name(),
                        Tp4::new(Tp4Options {
                            checksum,
                            ..options
                        }),
                    );
                }
            }
        }
        stack.push(name(), Loopback);
        stack
    }

    /// The names of all layers, as groups name them: `user`, `ip1`, `ip2`, `loopback`.
    fn names(&self) -> Vec<String> {
        let protocol = self.protocol.name();
        let layers = (1..=self.layers).map(|layer| format!("{protocol}{layer}"));
        let user = std::iter::once("user".to_owned());
        user.chain(layers).chain(["loopback".to_owned()]).collect()
    }

    fn grouped(&self) -> Schedule {
        if self.schedule != Schedule::PerLayer {
            return self.schedule.clone();
        }
        let mut names = self.names();
        let lowest = names.pop();
        let mut groups: Vec<Vec<_>> = names.drain(1..).map(|name| vec![name]).collect();
        groups[0].insert(0, names.remove(0));
        groups[self.layers - 1].extend(lowest);
        Schedule::Groups(groups)
    }
}

impl Protocol {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Tp4(_) => "tp4",
        }
    }
}

/// Runs the layers until they have finished.
fn call(mut running: Running<Pdu>, outcome: &Receiver<Duration>) -> Result<Duration> {
    let began = Instant::now();
    loop {
        for _ in 0..64 {
            running.step();
        }
        match outcome.try_recv() {
            Ok(elapsed) => return Ok(elapsed),
            Err(TryRecvError::Empty) => ensure!(began.elapsed() < LIMIT, NO_END),
            Err(TryRecvError::Disconnected) => unreachable!("the user is among the layers"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(protocol: Protocol, schedule: &str) -> Setup {
        Setup {
            protocol,
            layers: 3,
            schedule: schedule.parse().unwrap(),
            batch: 8,
            size_bytes: 100,
        }
    }

    #[test]
    fn both_ends_share_a_thread_with_their_neighbours() {
        let mut ip = setup(Protocol::Ip, "per-layer");
        assert_eq!(ip.grouped().to_string(), "[user+ip1][ip2][ip3+loopback]");
        ip.layers = 1;
        assert_eq!(ip.grouped().to_string(), "[user+ip1+loopback]");
    }

    #[test]
    fn all_protocols_run_under_all_schedules() {
        let mut protocols = vec![Protocol::Ip];
        for credit in [1, 2, 64] {
            for (retain, checksum) in [(false, false), (true, false), (true, true)] {
                protocols.push(Protocol::Tp4(Tp4Options {
                    credit,
                    retain,
                    checksum,
                }));
            }
        }
        for protocol in protocols {
            for schedule in ["inline", "background", "per-core", "per-layer"] {
                let setup = setup(protocol, schedule);
                assert!(setup.run(200).unwrap() > 0.0, "{setup:?}");
            }
        }
        let other = setup(Protocol::Ip, "[user][loopback]");
        assert!(other.run(1).unwrap_err().to_string().contains("user, ip1"));
        let told = "ip with 3 layers and the schedule [user][loopback], batches of 8, user's data of 100 B";
        assert_eq!(other.told(), told);
    }
}
