//! One call of a collective.

use sabani::{
    Comm,
    comm::{Error, Sum},
};
use sabani_collective::{Collective, Context, Counts, Hosts, Overrides};

/// What is called, and with how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub collective: Collective,
    /// Bytes of the vector, or of a rank's block.
    pub size_bytes: usize,
}

/// A rank's own elements, and room for those of all.
pub struct Buffers {
    pub input: Vec<f32>,
    pub output: Vec<f32>,
}

impl Call {
    /// Elements of the vector, or of a rank's block.
    pub fn count(self) -> usize {
        self.size_bytes / size_of::<f32>()
    }

    pub fn buffers(self, ranks: usize) -> Buffers {
        Buffers {
            input: vec![1.0; self.count() * ranks],
            output: vec![0.0; self.count() * ranks],
        }
    }

    /// Calls it.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn make(self, comm: &Comm, buffers: &mut Buffers, root: usize) -> Result<(), Error> {
        let Buffers { input, output } = buffers;
        let count = self.count();
        match self.collective {
            Collective::Barrier => comm.barrier(),
            Collective::Bcast => comm.bcast(root, &mut input[..count]),
            Collective::Reduce => comm.reduce(root, &input[..count], &mut output[..count], Sum),
            Collective::Allreduce => comm.allreduce(&input[..count], &mut output[..count], Sum),
            Collective::Gather => comm.gather(root, &input[..count], output),
            Collective::Scatter => comm.scatter(root, input, &mut output[..count]),
            Collective::Allgather => comm.allgather(&input[..count], output),
            Collective::ReduceScatter => comm.reduce_scatter(input, &mut output[..count], Sum),
            Collective::Alltoall => comm.alltoall(input, output),
            Collective::Scan => comm.scan(&input[..count], &mut output[..count], Sum),
            Collective::Exscan => comm.exscan(&input[..count], &mut output[..count], Sum),
        }
    }

    /// What an algorithm is chosen by, with rank 0 as root.
    pub fn context(self, hosts: &Hosts) -> Context<'_> {
        let counts = match self.collective {
            Collective::Gather
            | Collective::Scatter
            | Collective::Allgather
            | Collective::ReduceScatter
            | Collective::Alltoall => Counts::Each(self.count()),
            _ => Counts::Vector(self.count()),
        };
        Context {
            element_bytes: size_of::<f32>(),
            hosts: Some(hosts),
            ..Context::new(hosts.ranks(), counts)
        }
    }

    /// The algorithm that ranks on these hosts use with such a wish, and its parameters; `None` if what is wished
    /// for does not fit.
    pub fn algorithm(self, hosts: &Hosts, wish: &str) -> Option<String> {
        let cx = self.context(hosts);
        let overrides: Overrides = wish.parse().ok()?;
        let chosen = overrides.choose(self.collective, &cx);
        let (_, wanted) = wish.split_once('=').unwrap_or_default();
        let wanted = wanted.split(':').next().unwrap_or_default();
        (wanted.is_empty() || wanted == chosen.algorithm.name).then(|| chosen.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_that_does_not_fit_is_not_taken_for_another_algorithm() {
        let call = Call {
            collective: Collective::Allgather,
            size_bytes: 4096,
        };
        let hosts = Hosts::new(&[0; 6]);
        assert_eq!(call.algorithm(&hosts, "allgather=recursive_doubling"), None);
        let ring = call.algorithm(&hosts, "allgather=ring");
        assert_eq!(ring.as_deref(), Some("ring"));
        assert!(call.algorithm(&hosts, "").is_some());
        assert!(call.algorithm(&hosts, "allgather=:window=2").is_some());
        let long = Call {
            collective: Collective::Gather,
            size_bytes: 4 << 20,
        };
        let apart = Hosts::new(&[0, 1, 2]);
        let rule = long.algorithm(&apart, "");
        assert_eq!(rule.as_deref(), Some("linear:window=8"));
    }
}
