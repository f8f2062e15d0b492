//! The same collectives over plain TCP: the same schedules, run by the same executor, over a stream between each
//! pair of ranks.

mod link;
mod mesh;

use std::time::Duration;

use anyhow::Result;
use bytemuck::{cast_slice, cast_slice_mut};
use sabani::Comm;
use sabani_collective::{
    Collective, Context, Hosts, Overrides, Side,
    execute::{Exchange, Fingerprint, Memory},
};

use super::{Buffers, Call};

pub use mesh::Mesh;

/// A rank's streams to all others, and what it has done with them.
pub struct Tcp<'a> {
    mesh: Mesh,
    hosts: &'a Hosts,
    overrides: Overrides,
    /// Collectives so far.
    sequence: u32,
}

impl<'a> Tcp<'a> {
    /// Connects all ranks with each other; `comm` tells them where.
    ///
    /// # Errors
    /// If the system does not offer the congestion control, or ranks can't reach each other.
    pub fn connect(
        comm: &Comm,
        hosts: &'a Hosts,
        congestion: &str,
        spin: Option<Duration>,
    ) -> Result<Self> {
        Ok(Self {
            mesh: Mesh::connect(comm, congestion, spin)?,
            hosts,
            overrides: Overrides::default(),
            sequence: 0,
        })
    }

    /// Algorithms in place of what the rule chooses.
    pub fn set_algorithms(&mut self, overrides: Overrides) {
        self.overrides = overrides;
    }

    /// Makes a call, as [`Call::make`] does.
    ///
    /// # Errors
    /// If a rank is gone, or silent for long.
    pub fn call(&mut self, call: Call, buffers: &mut Buffers, root: usize) -> Result<()> {
        let mut cx = Context {
            root,
            ..call.context(self.hosts)
        };
        let choice = self.overrides.choose(call.collective, &cx);
        cx.parameters = choice.parameters;
        let fingerprint = Fingerprint {
            epoch: 0,
            sequence: self.sequence,
            collective: call.collective,
            algorithm: choice.algorithm.id(),
            operation: 0,
            element_type: 0,
            size: call.size_bytes as u64,
            root: root as u32,
            parameters: Fingerprint::of_parameters(&cx.parameters),
        };
        self.sequence = self.sequence.wrapping_add(1);
        let (rank, schedule) = (self.mesh.rank(), choice.algorithm.schedule);
        let (input, output) = parts(call, buffers, rank == root);
        let mut scratch = vec![0.0_f32; schedule.scratch(&cx, rank)];
        let memory = Memory {
            input: cast_slice(input),
            output: cast_slice_mut(output),
            scratch: cast_slice_mut(&mut scratch),
            element_bytes: size_of::<f32>(),
        };
        let exchange = Exchange::new(schedule, cx, rank, fingerprint, memory, &add);
        self.mesh.run(exchange)
    }
}

/// What a rank gives, and where it gets what is for it.
fn parts(call: Call, buffers: &mut Buffers, at_root: bool) -> (&[f32], &mut [f32]) {
    let count = call.count();
    let Buffers { input, output } = buffers;
    match call.collective {
        Collective::Barrier => (&[], &mut []),
        Collective::Bcast => (&[], &mut input[..count]),
        Collective::Reduce if !at_root => (&input[..count], &mut []),
        Collective::Gather if !at_root => (&input[..count], &mut []),
        Collective::Scatter if !at_root => (&[], &mut output[..count]),
        Collective::Reduce | Collective::Allreduce | Collective::Scan | Collective::Exscan => {
            (&input[..count], &mut output[..count])
        }
        Collective::Gather | Collective::Allgather => (&input[..count], output),
        Collective::Scatter | Collective::ReduceScatter => (input, &mut output[..count]),
        Collective::Alltoall => (input, output),
    }
}

/// A sum is the same from both sides.
fn add(from: &[u8], into: &mut [u8], _: Side) {
    let from: &[f32] = cast_slice(from);
    let into: &mut [f32] = cast_slice_mut(into);
    for (sum, element) in into.iter_mut().zip(from) {
        *sum += element;
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const RANKS: usize = 3;

    /// Has ranks of this process do something, each on a thread of its own.
    fn at_all_ranks<'a, T: Send>(hosts: &'a Hosts, work: impl Fn(Tcp<'a>) -> T + Sync) -> Vec<T> {
        let work = &work;
        thread::scope(|scope| {
            let ranks = mesh::tests::meshes(RANKS).into_iter().map(|mesh| {
                scope.spawn(move || {
                    work(Tcp {
                        mesh,
                        hosts,
                        overrides: Overrides::default(),
                        sequence: 0,
                    })
                })
            });
            let ranks: Vec<_> = ranks.collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    #[test]
    fn every_collective_gives_what_it_should() {
        let hosts = Hosts::new(&[0; RANKS]);
        for collective in Collective::ALL {
            for size_bytes in [4, 4_000, 4 << 20] {
                let call = Call {
                    collective,
                    size_bytes,
                };
                let results = at_all_ranks(&hosts, |mut tcp| {
                    let rank = tcp.mesh.rank();
                    let mut buffers = call.buffers(RANKS);
                    buffers.input.fill(rank as f32 + 1.0);
                    tcp.call(call, &mut buffers, 1).unwrap();
                    let (_, output) = parts(call, &mut buffers, rank == 1);
                    let sum: f64 = output.iter().copied().map(f64::from).sum();
                    // Nobody closes its streams before all are done.
                    (sum / call.count().max(1) as f64, tcp)
                });
                let sums: Vec<f64> = results.into_iter().map(|(sum, _)| sum).collect();
                let expected = match collective {
                    Collective::Barrier => [0.0; RANKS],
                    Collective::Bcast | Collective::Scatter => [2.0; RANKS],
                    Collective::Reduce | Collective::Gather => [0.0, 6.0, 0.0],
                    Collective::Allreduce | Collective::Allgather => [6.0; RANKS],
                    Collective::ReduceScatter | Collective::Alltoall => [6.0; RANKS],
                    Collective::Scan => [1.0, 3.0, 6.0],
                    Collective::Exscan => [0.0, 1.0, 3.0],
                };
                assert_eq!(sums, expected, "{collective} of {size_bytes} B");
            }
        }
    }

    #[test]
    fn the_end_of_a_rank_is_told_to_the_others() {
        let hosts = Hosts::new(&[0; RANKS]);
        let call = Call {
            collective: Collective::Barrier,
            size_bytes: 0,
        };
        let told = at_all_ranks(&hosts, |mut tcp| match tcp.mesh.rank() {
            0 => String::new(),
            _ => tcp
                .call(call, &mut call.buffers(RANKS), 0)
                .unwrap_err()
                .to_string(),
        });
        assert!(told[1].contains("rank "), "{}", told[1]);
    }
}
