//! A rank's part in measuring.

use std::time::{Duration, Instant};

use anyhow::Result;
use sabani::{Comm, comm::Max};

use super::cell::Turn;
use crate::bench::{cpu::CpuTime, results::Summary};
use crate::job::{Buffers, Call, Calls, Carrier};

/// Calls that make connections, and then tell about how long one takes.
const PROBES: u32 = 5;
const LOOP_CALLS: [f64; 2] = [8.0, 20_000.0];
const STARTS: [f64; 2] = [8.0, 500.0];
/// Beside twice the time of a call, from one moment to the next.
const PAUSE_NS: f64 = 200_000.0;

/// One call, again and again.
pub struct Measurement<'a, 'c> {
    /// By which ranks agree.
    pub comm: &'a Comm,
    /// What is measured.
    pub carrier: &'a mut Carrier<'c>,
    pub call: Call,
    /// Half of it for each figure.
    pub time: Duration,
    /// Whether who waits for the moment of a call may keep its core busy.
    pub may_spin: bool,
}

impl Measurement<'_, '_> {
    /// Measures for about that long; only rank 0's result means something.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn run(&mut self) -> Result<Turn> {
        let mut buffers = self.call.buffers(self.comm.size());
        let start = CpuTime::now()?;
        let half_ns = self.time.as_secs_f64() * 1e9 / 2.0;
        let warm_up = PROBES.max(self.comm.size() as u32);
        self.loop_ns(&mut buffers, warm_up)?;
        let probed_ns = self.loop_ns(&mut buffers, PROBES)?;
        let calls = within(half_ns / probed_ns, LOOP_CALLS);
        let loop_ns = self.loop_ns(&mut buffers, calls)?;

        let apart_ns = 2.0 * loop_ns + PAUSE_NS;
        let starts = within(half_ns / apart_ns, STARTS);
        let mut calls = Calls {
            comm: self.comm,
            carrier: self.carrier,
            call: self.call,
            starts,
            apart_ns: apart_ns as i64,
            may_spin: self.may_spin,
        };
        let times_ns = calls.times_ns(&mut buffers)?;
        let call_ns = Summary::of(times_ns.into_iter()).map_or(loop_ns, |summary| summary.median);
        Ok(Turn {
            call_us: call_ns / 1e3,
            loop_us: loop_ns / 1e3,
            cpu_busy_ratio: CpuTime::now()?.since(start).busy_ratio(),
        })
    }

    /// The mean time of calls back to back with the next root each time, at the slowest rank.
    fn loop_ns(&mut self, buffers: &mut Buffers, calls: u32) -> Result<f64> {
        self.comm.barrier()?;
        let begun = Instant::now();
        for index in 0..calls as usize {
            let root = index % self.comm.size();
            self.carrier.call(self.call, buffers, root)?;
        }
        let mut slowest = [begun.elapsed().as_nanos() as f64 / f64::from(calls)];
        self.comm.allreduce_in_place(&mut slowest, Max)?;
        Ok(slowest[0])
    }
}

fn within(wanted: f64, [least, most]: [f64; 2]) -> u32 {
    wanted.clamp(least, most) as u32
}
