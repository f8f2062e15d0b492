//! What single calls take.
//!
//! All ranks agree on moments at which they begin, instead of meeting at a barrier: what a barrier leaves of
//! differences would be measured, too. Moments lie so far apart that a call has ended before the next one;
//! where one has not, the next does not count. `xtask/src/bench_mpi/coll.c` does the same for MPI.

use anyhow::Result;
use sabani::{Comm, comm::Max};

use super::{Buffers, Call, Carrier, clock::Clock};

/// The first moment is so much later than the agreement on it.
const START_NS: i64 = 2_000_000;
/// And so many times as much as an agreement takes: with many ranks, or over slow links, that is more.
const START_AGREEMENTS: i64 = 2;

/// Begin and end of one call, and whether the rank was there in time: as numbers, to be gathered.
type Span = [i64; 3];

/// Calls that begin at the same moments at all ranks.
pub struct Calls<'a, 'c> {
    /// By which ranks agree.
    pub comm: &'a Comm,
    /// What is measured.
    pub carrier: &'a mut Carrier<'c>,
    pub call: Call,
    /// How many.
    pub starts: u32,
    /// From one moment to the next.
    pub apart_ns: i64,
    /// Whether who waits for a moment may keep its core busy.
    pub may_spin: bool,
}

impl Calls<'_, '_> {
    /// From the first rank's entry to the last one's exit, of each call to which all came in time, with rank 0 as root;
    /// at rank 0.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn times_ns(&mut self, buffers: &mut Buffers) -> Result<Vec<f64>> {
        let spans = self.spans(buffers)?;
        Ok(times_ns(&spans, self.starts as usize).collect())
    }

    /// All ranks' times, rank by rank; at rank 0.
    fn spans(&mut self, buffers: &mut Buffers) -> Result<Vec<Span>> {
        let clock = Clock::agree(self.comm, self.may_spin)?;
        let first_ns = self.first_ns(&clock)?;
        let mut own: Vec<Span> = Vec::new();
        for start in 0..self.starts {
            let at_ns = first_ns + i64::from(start) * self.apart_ns;
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

    /// The first moment, which all ranks know long enough before.
    fn first_ns(&self, clock: &Clock) -> Result<i64> {
        self.comm.barrier()?;
        let begun_ns = clock.now_ns();
        self.comm.allreduce_in_place(&mut [0], Max)?;
        let agreed_ns = clock.now_ns();
        let took_ns = agreed_ns - begun_ns;
        let mut first_ns = [agreed_ns + START_NS + START_AGREEMENTS * took_ns];
        self.comm.allreduce_in_place(&mut first_ns, Max)?;
        Ok(first_ns[0])
    }
}

fn times_ns(spans: &[Span], starts: usize) -> impl Iterator<Item = f64> {
    let ranks = move |start| spans.iter().skip(start).step_by(starts.max(1));
    let in_time = (0..starts).filter(move |&start| ranks(start).all(|[_, _, late]| *late == 0));
    in_time.filter_map(move |start| {
        let entry = ranks(start).map(|[entry, ..]| entry).min()?;
        let exit = ranks(start).map(|[_, exit, _]| exit).max()?;
        Some((exit - entry) as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_lasts_from_the_first_entry_to_the_last_exit_and_counts_if_nobody_is_late() {
        let rank_0 = [[100, 150, 0], [200, 230, 0], [300, 390, 0]];
        let rank_1 = [[110, 140, 0], [190, 240, 0], [310, 320, 1]];
        let spans = [rank_0, rank_1].concat();
        let times = |spans: &[Span], starts| times_ns(spans, starts).collect::<Vec<_>>();
        assert_eq!(times(&spans, 3), [50.0, 50.0]);
        assert_eq!(times(&[[1, 2, 1]], 1), [0.0; 0]);
        assert_eq!(times(&[], 3), [0.0; 0]);
    }
}
