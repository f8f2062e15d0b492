//! What is to be predicted: a collective of some ranks on a network's hosts.

use sabani_collective::{Collective, Context, Counts, Hosts, Parameters};

use crate::Network;

/// A collective to be predicted.
#[derive(Clone, Debug)]
pub struct Task {
    /// What is done together.
    pub collective: Collective,
    /// How many ranks do it.
    pub ranks: usize,
    /// Bytes of the vector (bcast, reduce, allreduce, scan, exscan), or of a block: what one rank gives
    /// or gets (gather, scatter, allgather, reduce_scatter), or one pair exchanges each way (alltoall).
    pub bytes: usize,
    /// Whether the operation is commutative.
    pub commutative: bool,
    /// The host of each rank, as an index.
    pub host_of_rank: Vec<usize>,
    hosts: Hosts,
}

impl Task {
    /// Ranks spread over a network's hosts: one on each as long as there are enough hosts, else as
    /// `sabani run` and `mpirun` place them, host after host. The operation is commutative.
    ///
    /// Where processes of one host were measured, schedules are told that all ranks are on it.
    pub fn new(collective: Collective, ranks: usize, bytes: usize, network: &Network) -> Self {
        let hosts = network.graph.hosts.len();
        let each = ranks.div_ceil(hosts).max(1);
        let host_of_rank: Vec<_> = (0..ranks).map(|rank| rank / each).collect();
        Task {
            collective,
            ranks,
            bytes,
            commutative: true,
            hosts: match network.one_host {
                true => Hosts::new(&vec![0; ranks]),
                false => Hosts::new(&host_of_rank),
            },
            host_of_rank,
        }
    }

    /// The same with another length.
    #[must_use]
    pub fn with_bytes(&self, bytes: usize) -> Self {
        Task {
            bytes,
            ..self.clone()
        }
    }

    /// Who shares a host, as schedules are told.
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// What its schedules are asked with.
    pub fn context(&self, parameters: Parameters) -> Context<'_> {
        let counts = match self.collective {
            Collective::Barrier => Counts::Vector(0),
            collective if has_blocks(collective) => Counts::Each(self.bytes),
            _ => Counts::Vector(self.bytes),
        };
        Context {
            commutative: self.commutative,
            hosts: Some(&self.hosts),
            parameters,
            ..Context::new(self.ranks, counts)
        }
    }
}

/// Whether a collective's length is that of a block for each rank.
pub fn has_blocks(collective: Collective) -> bool {
    matches!(
        collective,
        Collective::Gather
            | Collective::Scatter
            | Collective::Allgather
            | Collective::ReduceScatter
            | Collective::Alltoall
    )
}
