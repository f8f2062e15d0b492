//! The algorithms: a folder or file for each collective, and one table of them all.

mod allgather;
mod allreduce;
mod alltoall;
mod barrier;
mod bcast;
mod by_host;
mod gather;
mod reduce;
mod reduce_scatter;
mod scan;
mod scatter;
mod shared;

use std::fmt;

use crate::context::Parameters;
use crate::schedule::Schedule;

/// What is to be done together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Collective {
    /// Nobody leaves before all have come.
    Barrier,
    /// All get the root's vector.
    Bcast,
    /// The root gets the combination of all vectors.
    Reduce,
    /// All get the combination of all vectors.
    Allreduce,
    /// The root gets all blocks.
    Gather,
    /// Each gets its block from the root.
    Scatter,
    /// All get all blocks.
    Allgather,
    /// Each gets its block of the combination of all vectors.
    ReduceScatter,
    /// Each has a block for each.
    Alltoall,
    /// Each gets the combination up to its own vector.
    Scan,
    /// Each gets the combination of the vectors before its own.
    Exscan,
}

impl Collective {
    /// All there are.
    pub const ALL: [Collective; 11] = [
        Collective::Barrier,
        Collective::Bcast,
        Collective::Reduce,
        Collective::Allreduce,
        Collective::Gather,
        Collective::Scatter,
        Collective::Allgather,
        Collective::ReduceScatter,
        Collective::Alltoall,
        Collective::Scan,
        Collective::Exscan,
    ];

    /// Its name, as in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Collective::Barrier => "barrier",
            Collective::Bcast => "bcast",
            Collective::Reduce => "reduce",
            Collective::Allreduce => "allreduce",
            Collective::Gather => "gather",
            Collective::Scatter => "scatter",
            Collective::Allgather => "allgather",
            Collective::ReduceScatter => "reduce_scatter",
            Collective::Alltoall => "alltoall",
            Collective::Scan => "scan",
            Collective::Exscan => "exscan",
        }
    }

    /// Its algorithms.
    pub fn algorithms(self) -> impl Iterator<Item = &'static Algorithm> {
        let all = ALGORITHMS.iter();
        all.filter(move |algorithm| algorithm.collective == self)
    }

    /// The algorithm with such a name.
    pub fn algorithm(self, name: &str) -> Option<&'static Algorithm> {
        self.algorithms().find(|algorithm| algorithm.name == name)
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A line of the table of algorithms.
pub struct Algorithm {
    /// What it does.
    pub collective: Collective,
    /// Its name, which no other one of the collective has.
    pub name: &'static str,
    /// How it does it.
    pub schedule: &'static dyn Schedule,
}

impl Algorithm {
    const fn new(
        collective: Collective,
        name: &'static str,
        schedule: &'static dyn Schedule,
    ) -> Self {
        Algorithm {
            collective,
            name,
            schedule,
        }
    }

    /// The names of the parameters that change what it does, as overrides have them. All have `mode` beside.
    pub fn parameters(&self) -> &'static [&'static str] {
        match (self.collective, self.name) {
            (_, "knomial") => &["radix"],
            (_, "linear" | "windowed") | (Collective::ReduceScatter, "pairwise") => &["window"],
            (
                _,
                "chain"
                | "split_binary"
                | "by_host_chain"
                | "by_host_rabenseifner"
                | "by_host_ring",
            ) => &["segment", "window"],
            _ => &[],
        }
    }

    /// Its own of these parameters; for the others, which change nothing, their defaults.
    pub fn own(&self, given: Parameters) -> Parameters {
        let default = Parameters::default();
        let takes = |name| self.parameters().contains(&name);
        let pick = |name, given, default| if takes(name) { given } else { default };
        Parameters {
            radix: pick("radix", given.radix, default.radix),
            segment_bytes: pick("segment", given.segment_bytes, default.segment_bytes),
            window: pick("window", given.window, default.window),
            mode: given.mode,
        }
    }

    /// Its number in [`ALGORITHMS`], by which ranks of one build tell algorithms apart.
    pub fn id(&self) -> u8 {
        let place = ALGORITHMS
            .iter()
            .position(|other| (other.collective, other.name) == (self.collective, self.name));
        place.map_or(u8::MAX, |place| place as u8)
    }
}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.collective, self.name)
    }
}

const BINOMIAL_BCAST: bcast::tree::DownTree = bcast::tree::DownTree { radix: Some(2) };
const BINOMIAL_REDUCE: reduce::tree::UpTree = reduce::tree::UpTree { radix: Some(2) };

/// Every algorithm there is.
pub static ALGORITHMS: &[Algorithm] = {
    use Collective::*;
    use alltoall::direct::{Direct, Order, Window};
    use by_host::Phased;
    use scan::Kind;
    &[
        Algorithm::new(Barrier, "dissemination", &barrier::Dissemination),
        Algorithm::new(
            Barrier,
            "by_host",
            &Phased(by_host::Barrier {
                up: &BINOMIAL_REDUCE,
                across: &barrier::Dissemination,
                down: &BINOMIAL_BCAST,
            }),
        ),
        Algorithm::new(Bcast, "binomial", &BINOMIAL_BCAST),
        Algorithm::new(Bcast, "knomial", &bcast::tree::DownTree { radix: None }),
        Algorithm::new(
            Bcast,
            "scatter_allgather",
            &bcast::scatter_allgather::ScatterAllgather,
        ),
        Algorithm::new(Bcast, "chain", &bcast::chain::Chain),
        Algorithm::new(Bcast, "split_binary", &bcast::split_binary::SplitBinary),
        Algorithm::new(
            Bcast,
            "by_host",
            &Phased(by_host::Bcast {
                across: &BINOMIAL_BCAST,
                within: &BINOMIAL_BCAST,
            }),
        ),
        Algorithm::new(
            Bcast,
            "by_host_chain",
            &Phased(by_host::Bcast {
                across: &bcast::chain::Chain,
                within: &bcast::chain::Chain,
            }),
        ),
        Algorithm::new(Reduce, "binomial", &BINOMIAL_REDUCE),
        Algorithm::new(Reduce, "knomial", &reduce::tree::UpTree { radix: None }),
        Algorithm::new(Reduce, "chain", &reduce::chain::Chain),
        Algorithm::new(
            Reduce,
            "by_host",
            &Phased(by_host::Reduce {
                within: &BINOMIAL_REDUCE,
                across: &BINOMIAL_REDUCE,
            }),
        ),
        Algorithm::new(
            Reduce,
            "by_host_chain",
            &Phased(by_host::Reduce {
                within: &reduce::chain::Chain,
                across: &reduce::chain::Chain,
            }),
        ),
        Algorithm::new(
            Allreduce,
            "recursive_doubling",
            &allreduce::recursive_doubling::RecursiveDoubling,
        ),
        Algorithm::new(
            Allreduce,
            "rabenseifner",
            &allreduce::rabenseifner::Rabenseifner,
        ),
        Algorithm::new(Allreduce, "ring", &allreduce::ring::Ring),
        Algorithm::new(
            Allreduce,
            "by_host",
            &Phased(by_host::Allreduce {
                reduce: &BINOMIAL_REDUCE,
                across: &allreduce::recursive_doubling::RecursiveDoubling,
                bcast: &BINOMIAL_BCAST,
            }),
        ),
        Algorithm::new(
            Allreduce,
            "by_host_rabenseifner",
            &Phased(by_host::Allreduce {
                reduce: &reduce::chain::Chain,
                across: &allreduce::rabenseifner::Rabenseifner,
                bcast: &bcast::chain::Chain,
            }),
        ),
        Algorithm::new(Gather, "binomial", &gather::tree::UpTree),
        Algorithm::new(Gather, "linear", &gather::linear::Linear),
        Algorithm::new(Scatter, "binomial", &scatter::tree::DownTree),
        Algorithm::new(Scatter, "linear", &scatter::linear::Linear),
        Algorithm::new(Allgather, "bruck", &allgather::bruck::Bruck),
        Algorithm::new(Allgather, "ring", &allgather::ring::Ring),
        Algorithm::new(
            Allgather,
            "recursive_doubling",
            &allgather::recursive_doubling::RecursiveDoubling,
        ),
        Algorithm::new(
            Allgather,
            "neighbour_exchange",
            &allgather::neighbour_exchange::NeighbourExchange,
        ),
        Algorithm::new(
            Allgather,
            "by_host",
            &Phased(by_host::Allgather {
                gather: &gather::tree::UpTree,
                across: &allgather::bruck::Bruck,
                bcast: &BINOMIAL_BCAST,
            }),
        ),
        Algorithm::new(
            Allgather,
            "by_host_ring",
            &Phased(by_host::Allgather {
                gather: &gather::linear::Linear,
                across: &allgather::ring::Ring,
                bcast: &bcast::chain::Chain,
            }),
        ),
        Algorithm::new(
            ReduceScatter,
            "recursive_halving",
            &reduce_scatter::recursive_halving::RecursiveHalving,
        ),
        Algorithm::new(
            ReduceScatter,
            "pairwise",
            &reduce_scatter::pairwise::Pairwise,
        ),
        Algorithm::new(Alltoall, "bruck", &alltoall::bruck::Bruck),
        Algorithm::new(
            Alltoall,
            "pairwise",
            &Direct {
                order: Order::Shift,
                window: Window::One,
            },
        ),
        Algorithm::new(
            Alltoall,
            "xor",
            &Direct {
                order: Order::Xor,
                window: Window::One,
            },
        ),
        Algorithm::new(
            Alltoall,
            "posted",
            &Direct {
                order: Order::Shift,
                window: Window::All,
            },
        ),
        Algorithm::new(
            Alltoall,
            "windowed",
            &Direct {
                order: Order::Xor,
                window: Window::Parameter,
            },
        ),
        Algorithm::new(
            Scan,
            "recursive_doubling",
            &scan::doubling::Doubling(Kind::Inclusive),
        ),
        Algorithm::new(Scan, "chain", &scan::chain::Chain(Kind::Inclusive)),
        Algorithm::new(
            Exscan,
            "recursive_doubling",
            &scan::doubling::Doubling(Kind::Exclusive),
        ),
        Algorithm::new(Exscan, "chain", &scan::chain::Chain(Kind::Exclusive)),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, Counts, Hosts};

    #[test]
    fn the_description_lists_every_algorithm() {
        let text = include_str!("../../../../docs/collectives.md");
        let cells = |line: &'static str| line.split('|').map(str::trim).collect::<Vec<_>>();
        let rows: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("| "))
            .map(cells)
            .collect();
        for algorithm in ALGORITHMS {
            let name = format!("`{}`", algorithm.name);
            let collective = algorithm.collective.name();
            let is_it = |row: &Vec<&str>| {
                let mut names = row[1].split(", ");
                names.any(|other| other == collective)
                    && row[2].split(", ").any(|other| other == name)
            };
            assert!(rows.iter().any(is_it), "{algorithm:?}");
        }
    }

    #[test]
    fn algorithms_have_the_parameters_that_change_them() {
        // Hosts with several ranks, and so much that each parameter has something to divide.
        let hosts = Hosts::new(&(0..32).map(|rank| rank / 8).collect::<Vec<_>>());
        for algorithm in ALGORITHMS {
            let counts = match algorithm.collective {
                Collective::Gather
                | Collective::Scatter
                | Collective::Allgather
                | Collective::ReduceScatter
                | Collective::Alltoall => Counts::Each(1 << 16),
                Collective::Barrier => Counts::Vector(0),
                _ => Counts::Vector(1 << 21),
            };
            let schedule = |parameters| {
                let cx = Context {
                    hosts: Some(&hosts),
                    parameters,
                    ..Context::new(32, counts)
                };
                let rounds = algorithm.schedule.rounds(&cx);
                let of_rank = |rank| {
                    let round = move |k| algorithm.schedule.round(&cx, rank, k).to_vec();
                    (0..rounds).map(round).collect::<Vec<_>>()
                };
                (0..32).map(of_rank).collect::<Vec<_>>()
            };
            let default = Parameters::default();
            let changed = [
                (
                    "radix",
                    Parameters {
                        radix: 4,
                        ..default
                    },
                ),
                (
                    "segment",
                    Parameters {
                        segment_bytes: 8 << 10,
                        ..default
                    },
                ),
                (
                    "window",
                    Parameters {
                        window: 2,
                        ..default
                    },
                ),
            ];
            let usual = schedule(default);
            let changed = changed.into_iter();
            let matter = changed.filter(|&(_, parameters)| schedule(parameters) != usual);
            let matter: Vec<_> = matter.map(|(name, _)| name).collect();
            assert_eq!(matter, algorithm.parameters(), "{algorithm:?}");
        }
    }

    #[test]
    fn names_and_numbers_are_unique() {
        for (place, algorithm) in ALGORITHMS.iter().enumerate() {
            assert_eq!(usize::from(algorithm.id()), place, "{algorithm:?}");
            let found = algorithm.collective.algorithm(algorithm.name);
            assert_eq!(found.map(Algorithm::id), Some(algorithm.id()));
        }
    }
}
