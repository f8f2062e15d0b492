//! A rank's part in measuring.
//!
//! All ranks agree on moments at which they begin, instead of meeting at a barrier: what a barrier leaves of
//! differences would be measured, too. Moments lie so far apart that a call has ended before the next one;
//! where one has not, the next does not count. `xtask/src/bench_mpi/coll.c` does the same for MPI.

use std::time::{Duration, Instant};

use anyhow::Result;
use sabani::{Comm, comm::Max};

use super::{
    call::{Buffers, Call},
    carrier::Carrier,
    cell::Turn,
    clock::Clock,
};
use crate::bench::{cpu::CpuTime, results::Summary};

/// Calls that make connections, and then tell about how long one takes.
const PROBES: u32 = 5;
const LOOP_CALLS: [f64; 2] = [8.0, 20_000.0];
const STARTS: [f64; 2] = [8.0, 500.0];
/// From the agreement on the first moment until then.
const START_NS: i64 = 2_000_000;
/// Beside twice the time of a call, from one moment to the next.
const PAUSE_NS: f64 = 200_000.0;

/// Begin and end of one call, and whether the rank was there in time: as numbers, to be gathered.
type Span = [i64; 3];

/// One call, again and again.
pub struct Measurement<'a, 'c> {
    /// By which ranks agree.
    pub comm: &'a Comm,
    /// What is measured.
    pub carrier: &'a mut Carrier<'c>,
    pub call: Call,
    /// Half of it for each figure.
    pub time: Duration,
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
        let spans = self.spans(&mut buffers, starts, apart_ns as i64)?;
        let call_ns = median_ns(&spans, starts as usize).unwrap_or(loop_ns);
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

    /// All ranks' times of calls that begin at the same moments, rank by rank; at rank 0.
    fn spans(&mut self, buffers: &mut Buffers, starts: u32, apart_ns: i64) -> Result<Vec<Span>> {
        let clock = Clock::agree(self.comm)?;
        let mut first = [clock.now_ns() + START_NS];
        self.comm.allreduce_in_place(&mut first, Max)?;
        let mut own: Vec<Span> = Vec::new();
        for start in 0..starts {
            let at_ns = first[0] + i64::from(start) * apart_ns;
            let late = clock.now_ns() > at_ns;
            clock.sleep_until(at_ns);
            let entry_ns = clock.now_ns();
            self.carrier.call(self.call, buffers, 0)?;
            own.push([entry_ns, clock.now_ns(), late.into()]);
        }
        let mut all = match self.comm.rank() {
            0 => vec![Span::default(); own.len() * self.comm.size()],
            _ => Vec::new(),
        };
        self.comm.gather(0, &own, &mut all)?;
        Ok(all)
    }
}

/// From the first rank's entry to the last one's exit: the median of the calls to which all came in time.
fn median_ns(spans: &[Span], starts: usize) -> Option<f64> {
    let ranks = |start| spans.iter().skip(start).step_by(starts);
    let in_time = (0..starts).filter(|&start| ranks(start).all(|[_, _, late]| *late == 0));
    let times = in_time.filter_map(|start| {
        let entry = ranks(start).map(|[entry, ..]| entry).min()?;
        let exit = ranks(start).map(|[_, exit, _]| exit).max()?;
        Some((exit - entry) as f64)
    });
    Summary::of(times).map(|summary| summary.median)
}

fn within(wanted: f64, [least, most]: [f64; 2]) -> u32 {
    wanted.clamp(least, most) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_lasts_from_the_first_entry_to_the_last_exit_and_counts_if_nobody_is_late() {
        let rank_0 = [[100, 150, 0], [200, 230, 0], [300, 390, 0]];
        let rank_1 = [[110, 140, 0], [190, 240, 0], [310, 320, 1]];
        let spans = [rank_0, rank_1].concat();
        // The third call would be the longest.
        assert_eq!(median_ns(&spans, 3), Some(50.0));
        assert_eq!(median_ns(&[[1, 2, 1]], 1), None);
        assert_eq!(median_ns(&[], 3), None);
    }
}
