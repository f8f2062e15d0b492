//! Which algorithm, with which parameters.
//!
//! Only what is equal on all ranks decides, or they would not choose the same. That is the rule; a
//! program or its user may set others ([`Overrides`]).
//!
//! "Bytes" are those of the vector, or of all blocks together; "block" is the average one; "by host" is
//! for several hosts with two ranks each on average, of ranks that follow each other where the order of
//! an operation or of blocks needs it; "one host" has all ranks, which share its cores: there the number of
//! messages counts, and not how many of them travel at the same time; "hosts" are several, each of which may be behind other
//! switches than the next rank: what goes straight to where it belongs passes no link twice, and does not wait in every round for
//! whoever has the slowest link.
//!
//! | collective | if | algorithm |
//! |---|---|---|
//! | barrier | by host | `by_host` |
//! | | else | `dissemination` |
//! | bcast | by host, up to 32 KiB; longer | `by_host`; `by_host_chain` |
//! | | one host, up to 1 MiB | `binomial` |
//! | | fewer than 4 ranks | `binomial` |
//! | | one host, 64 KiB for each rank, or more; less | `chain`; `scatter_allgather` |
//! | | hosts, up to 1 KiB | `knomial`, in as few levels as with radix 8 |
//! | | hosts, 8 KiB for each rank, or more | `chain`, segments of 8, 32 or 64 KiB: 8 of them for each rank |
//! | | hosts, else | `split_binary`, segments likewise |
//! | reduce | by host, up to 32 KiB; longer | `by_host`; `by_host_chain` |
//! | | one host, up to 32 KiB; longer | `binomial`; `chain`, segments of 32 KiB |
//! | | hosts, up to 1 KiB | `knomial`, likewise |
//! | | hosts, 4 KiB for each rank, or more | `chain`, segments of 8 KiB, or of 32 KiB if there are 8 of them for each rank |
//! | | hosts, else | `binomial` |
//! | allreduce | by host, up to 8 KiB; longer | `by_host`; `by_host_rabenseifner` |
//! | | one host, up to 64 KiB, more than 2 ranks | `by_host`: there and back along a tree |
//! | | hosts, up to 2 KiB, or 2 ranks | `recursive_doubling` |
//! | | one host, above 1 MiB, 64 KiB for each rank, or more; commutative | `ring` |
//! | | hosts, 4 KiB for each rank, or more, and 256 B times the ranks; commutative | `ring` |
//! | | else | `rabenseifner` |
//! | gather, scatter | hosts, equal blocks up to 2 KiB, more than 64 ranks | `binomial` |
//! | | else | `linear`, window 8 |
//! | allgather | by host, up to 64 KiB | `by_host` |
//! | | hosts, blocks of 4 KiB or more | `ring` |
//! | | up to 512 KiB, P a power of two | `recursive_doubling` |
//! | | up to 64 KiB | `bruck` |
//! | | up to 512 KiB, P even | `neighbour_exchange` |
//! | | else | `ring` |
//! | reduce_scatter | hosts, blocks of 256 B or more, up to 32 ranks | `pairwise` |
//! | | commutative, up to 512 KiB | `recursive_halving` |
//! | | else | `pairwise` |
//! | alltoall | one host, equal blocks up to 2 KiB, 8 ranks or more | `bruck` |
//! | | hosts, equal blocks up to 64 B, more than 32 ranks | `bruck` |
//! | | hosts, or equal blocks up to 32 KiB | `posted` |
//! | | one host, equal blocks up to 512 KiB | `windowed`, window 4 |
//! | | one host, equal blocks, longer | `pairwise` |
//! | | one host, different ones | `windowed`, window 8 |
//! | scan, exscan | up to 32 KiB | `recursive_doubling` |
//! | | else | `chain`, segments as for reduce |
//!
//! The thresholds for hosts are those that cost least on simulated trees of switches with links of 100 Mbit/s to 10 Gbit/s, and for one
//! host on two cores (docs/collectives.md); the others are those of MPI libraries for TCP networks, where a message costs tens of
//! microseconds and a byte about a nanosecond. Where a network was measured, its table goes before the rule (`sabani-model`).

mod overrides;

pub use overrides::{BadOverride, Override, Overrides};

use crate::algorithms::{Algorithm, Collective};
use crate::context::{Context, Counts, Parameters};

const KIB: usize = 1 << 10;

/// An algorithm and its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// The algorithm; it fits.
    pub algorithm: &'static Algorithm,
    /// Its parameters.
    pub parameters: Parameters,
}

impl PartialEq for Choice {
    fn eq(&self, other: &Self) -> bool {
        (self.algorithm.id(), self.parameters) == (other.algorithm.id(), other.parameters)
    }
}

/// What the rule goes by: equal on all ranks.
struct Facts {
    size: usize,
    bytes: usize,
    block: usize,
    /// All have equally many, and know it.
    even: bool,
    commutative: bool,
    by_host: bool,
    one_host: bool,
}

/// Chooses by the rule.
///
/// # Cost
/// Tens of nanoseconds and the search for a name in a table of some 40.
pub fn choose(collective: Collective, cx: &Context) -> Choice {
    let (name, parameters) = rule(collective, &facts(collective, cx));
    let algorithm = collective.algorithm(name);
    let algorithm = algorithm.expect("the rule names what there is");
    Choice {
        algorithm,
        parameters: algorithm.own(parameters),
    }
}

fn facts(collective: Collective, cx: &Context) -> Facts {
    // Where only the root knows the counts of all, nobody goes by them.
    let is_rooted = matches!(collective, Collective::Gather | Collective::Scatter);
    let (even, known) = match cx.counts {
        Counts::Vector(_) | Counts::Each(_) => (true, true),
        Counts::Offsets(_) => (false, !is_rooted),
        _ => (false, false),
    };
    let bytes = if known {
        cx.total() * cx.element_bytes
    } else {
        0
    };
    let order_matters = collective == Collective::Allgather || !cx.commutative;
    let hosts = cx.hosts.filter(|hosts| hosts.ranks() == cx.size);
    let by_host = hosts.is_some_and(|hosts| {
        let worth_it = hosts.len() > 1 && hosts.ranks() >= 2 * hosts.len();
        worth_it && (!order_matters || hosts.in_order())
    });
    Facts {
        size: cx.size,
        bytes,
        block: bytes / cx.size,
        even,
        commutative: cx.commutative,
        by_host,
        one_host: hosts.is_some_and(|hosts| hosts.len() == 1),
    }
}

fn rule(collective: Collective, facts: &Facts) -> (&'static str, Parameters) {
    let window = |window| Parameters {
        window,
        ..Parameters::default()
    };
    let plain = |name| (name, Parameters::default());
    match collective {
        Collective::Barrier if facts.by_host => plain("by_host"),
        Collective::Barrier => plain("dissemination"),
        Collective::Bcast => bcast(facts),
        Collective::Reduce => reduce(facts),
        Collective::Allreduce => plain(allreduce(facts)),
        Collective::Gather | Collective::Scatter
            if facts.even && facts.block <= 2 * KIB && !facts.one_host && facts.size > 64 =>
        {
            plain("binomial")
        }
        Collective::Gather | Collective::Scatter => ("linear", window(8)),
        Collective::Allgather => plain(allgather(facts)),
        Collective::ReduceScatter => plain(reduce_scatter(facts)),
        Collective::Alltoall => alltoall(facts),
        Collective::Scan | Collective::Exscan if facts.bytes <= 32 * KIB => {
            plain("recursive_doubling")
        }
        Collective::Scan | Collective::Exscan => ("chain", segments(facts, 32 * KIB)),
    }
}

/// A pipeline's segments. To fill one takes a segment for each rank: between hosts there are some eight times as many. Where
/// ranks share cores, each of them is a message more.
fn segments(facts: &Facts, most: usize) -> Parameters {
    let segment_bytes = match facts.bytes / (8 * facts.size) {
        _ if facts.one_host || facts.by_host => most,
        0..0x8000 => 8 * KIB,
        0x8000..0x1_0000 => 32 * KIB,
        _ => most,
    };
    Parameters {
        segment_bytes,
        ..Parameters::default()
    }
}

/// A tree of few levels, all as wide: short messages leave a host together, and each level is a latency.
fn flat(size: usize) -> (&'static str, Parameters) {
    const MOST: usize = 8;
    let reach = |radix: usize, levels| radix.saturating_pow(levels) >= size;
    let levels = (1..).find(|&levels| reach(MOST, levels)).unwrap_or(1);
    let radix = (2..MOST).find(|&radix| reach(radix, levels));
    let parameters = Parameters {
        radix: radix.unwrap_or(MOST),
        ..Parameters::default()
    };
    ("knomial", parameters)
}

fn bcast(facts: &Facts) -> (&'static str, Parameters) {
    let plain = |name| (name, Parameters::default());
    let segments = segments(facts, 64 * KIB);
    if facts.by_host {
        return match facts.bytes {
            0..=0x8000 => plain("by_host"),
            _ => ("by_host_chain", segments),
        };
    }
    match facts.bytes / facts.size {
        _ if facts.size < 4 => plain("binomial"),
        _ if facts.one_host && facts.bytes <= 1024 * KIB => plain("binomial"),
        0..0x1_0000 if facts.one_host => plain("scatter_allgather"),
        0x2000.. => ("chain", segments),
        _ => match facts.bytes {
            0..=0x400 => flat(facts.size),
            _ => ("split_binary", segments),
        },
    }
}

fn reduce(facts: &Facts) -> (&'static str, Parameters) {
    let plain = |name| (name, Parameters::default());
    let segments = segments(facts, 32 * KIB);
    match facts.bytes {
        0..=0x8000 if facts.by_host => plain("by_host"),
        _ if facts.by_host => ("by_host_chain", segments),
        0..=0x8000 if facts.one_host => plain("binomial"),
        _ if facts.one_host => ("chain", segments),
        0..=0x400 => flat(facts.size),
        bytes if bytes / facts.size < 4 * KIB => plain("binomial"),
        _ => ("chain", segments),
    }
}

fn allreduce(facts: &Facts) -> &'static str {
    if facts.one_host && facts.size > 2 && facts.bytes <= 64 * KIB {
        return "by_host";
    }
    let block = facts.bytes / facts.size;
    match facts.bytes {
        0..=0x2000 if facts.by_host => "by_host",
        _ if facts.by_host => "by_host_rabenseifner",
        _ if facts.size <= 2 => "recursive_doubling",
        0..=0x10_0000 if facts.one_host => "rabenseifner",
        _ if facts.one_host && facts.commutative && block >= 64 * KIB => "ring",
        _ if facts.one_host => "rabenseifner",
        0..=0x800 => "recursive_doubling",
        // Each rank's part goes around in as many steps as there are ranks.
        _ if facts.commutative && block >= (4 * KIB).max(256 * facts.size) => "ring",
        _ => "rabenseifner",
    }
}

fn allgather(facts: &Facts) -> &'static str {
    match facts.bytes {
        0..=0x10000 if facts.by_host => "by_host",
        _ if !facts.one_host && facts.block >= 4 * KIB => "ring",
        0..=0x80000 if facts.size.is_power_of_two() => "recursive_doubling",
        0..=0x10000 => "bruck",
        0..=0x80000 if facts.size.is_multiple_of(2) => "neighbour_exchange",
        _ => "ring",
    }
}

fn reduce_scatter(facts: &Facts) -> &'static str {
    match facts.commutative && facts.bytes <= 512 * KIB {
        true if !facts.one_host && facts.size <= 32 && facts.block >= 256 => "pairwise",
        true => "recursive_halving",
        false => "pairwise",
    }
}

fn alltoall(facts: &Facts) -> (&'static str, Parameters) {
    // With blocks for each pair, all of a rank's are P times the block.
    let plain = Parameters::default();
    // How many ranks there must be, and how short blocks, that it is better to send everything several times.
    let (ranks, short) = if facts.one_host {
        (8, 2 * KIB)
    } else {
        (33, 64)
    };
    if facts.even && facts.size >= ranks && facts.block <= short {
        return ("bruck", plain);
    }
    // Hosts are late at times: who sends to all has always somebody who is not.
    if !facts.one_host {
        return ("posted", plain);
    }
    if !facts.even {
        let window = 8;
        return ("windowed", Parameters { window, ..plain });
    }
    match facts.block {
        0..=0x8000 => ("posted", plain),
        0x8001..0x8_0000 => ("windowed", plain),
        // What is in step stays in caches.
        _ => ("pairwise", plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hosts;

    const LENGTHS: [usize; 12] = [
        0,
        1,
        64,
        256,
        1000,
        4096,
        8192,
        30_000,
        65_536,
        300_000,
        1 << 20,
        1 << 26,
    ];

    #[test]
    fn the_rule_names_only_what_there_is_and_fits() {
        for collective in Collective::ALL {
            for size in [1, 2, 3, 7, 8, 12, 64, 1000] {
                let hosts = [1, 4, size].map(|each| {
                    let of_rank: Vec<_> = (0..size).map(|rank| rank / each).collect();
                    Hosts::new(&of_rank)
                });
                let turns = Hosts::new(&(0..size).map(|rank| rank % 3).collect::<Vec<_>>());
                for len in LENGTHS {
                    let offsets: Vec<_> = (0..=size).map(|rank| rank * len).collect();
                    let (outgoing, incoming) = (&offsets[..], &offsets[..]);
                    let counts = match collective {
                        Collective::Gather | Collective::Scatter => {
                            vec![
                                Counts::Each(len),
                                Counts::Offsets(&offsets),
                                Counts::Own(len),
                            ]
                        }
                        Collective::Alltoall => {
                            vec![Counts::Each(len), Counts::Pairs { outgoing, incoming }]
                        }
                        Collective::Allgather | Collective::ReduceScatter => {
                            vec![Counts::Each(len), Counts::Offsets(&offsets)]
                        }
                        _ => vec![Counts::Vector(len)],
                    };
                    for counts in counts {
                        for commutative in [true, false] {
                            let hosts = hosts.iter().chain([&turns]).map(Some);
                            for hosts in hosts.chain([None]) {
                                let cx = Context {
                                    commutative,
                                    hosts,
                                    ..Context::new(size, counts)
                                };
                                let chosen = choose(collective, &cx).algorithm;
                                assert!(chosen.schedule.fits(&cx), "{chosen:?}: {cx:?}");
                            }
                        }
                    }
                }
            }
        }
    }

    /// What is chosen by length for 4-byte elements of an operation that commutes, as the documentation has it.
    fn by_length(collective: Collective, hosts: &Hosts) -> String {
        let blocks = matches!(
            collective,
            Collective::Gather
                | Collective::Scatter
                | Collective::Allgather
                | Collective::ReduceScatter
                | Collective::Alltoall
        );
        let chosen = |bytes: usize| {
            let counts = match blocks {
                true => Counts::Each(bytes / 4),
                false => Counts::Vector(bytes / 4),
            };
            let cx = Context {
                element_bytes: 4,
                hosts: Some(hosts),
                ..Context::new(hosts.ranks(), counts)
            };
            choose(collective, &cx).to_string()
        };
        let mut last = chosen(4);
        let mut told = format!("`{last}`");
        for power in (3..=26).map(|bits| 1_usize << bits) {
            for (bytes, since) in [(power, "from"), (power + 4, "above")] {
                let next = chosen(bytes);
                if next != last {
                    let limit = match power {
                        0..KIB => format!("{power} B"),
                        KIB..0x10_0000 => format!("{} KiB", power / KIB),
                        _ => format!("{} MiB", power >> 20),
                    };
                    told += &format!("; {since} {limit} `{next}`");
                    last = next;
                }
            }
            let between = chosen(2 * power - 4);
            assert_eq!(between, last, "{collective}: a limit between powers of two");
        }
        told
    }

    #[test]
    fn the_documentation_says_what_is_chosen() {
        let text = include_str!("../../../../docs/collectives.md");
        let mut rows = String::new();
        for collective in Collective::ALL {
            for ranks in [8, 64] {
                let cells = [ranks, 1, 4].map(|each| {
                    let of_rank: Vec<_> = (0..ranks).map(|rank| rank / each).collect();
                    by_length(collective, &Hosts::new(&of_rank))
                });
                rows += &format!("| {collective} | {ranks} | {} |\n", cells.join(" | "));
            }
        }
        assert!(text.contains(&rows), "docs/collectives.md lacks\n{rows}");
    }

    #[test]
    fn the_root_and_the_others_choose_the_same_though_they_know_different_counts() {
        let offsets = [0, 5, 1_000_000, 1_000_001];
        for collective in [Collective::Gather, Collective::Scatter] {
            let knows_all = choose(collective, &Context::new(3, Counts::Offsets(&offsets)));
            let knows_own = choose(collective, &Context::new(3, Counts::Own(5)));
            assert_eq!(knows_all.algorithm.name, knows_own.algorithm.name);
            assert_eq!(knows_all.parameters, knows_own.parameters);
        }
    }

    #[test]
    fn long_and_short_ones_differ() {
        let name = |bytes| {
            let cx = Context::new(16, Counts::Vector(bytes));
            choose(Collective::Bcast, &cx).algorithm.name
        };
        assert_eq!(name(100), "knomial");
        assert_eq!(name(100_000), "split_binary");
        assert_eq!(name(10_000_000), "chain");
    }

    #[test]
    fn on_one_host_there_are_as_few_messages_as_possible() {
        let hosts = Hosts::new(&[0; 16]);
        let name = |collective, counts| {
            let cx = Context {
                hosts: Some(&hosts),
                ..Context::new(16, counts)
            };
            choose(collective, &cx).algorithm.name
        };
        let vector = Counts::Vector(1000);
        assert_eq!(name(Collective::Allreduce, vector), "by_host");
        assert_eq!(name(Collective::Bcast, Counts::Vector(100_000)), "binomial");
        assert_eq!(name(Collective::Gather, Counts::Each(10)), "linear");
        let vector = Counts::Vector(500_000);
        assert_eq!(name(Collective::Allreduce, vector), "rabenseifner");
        let vector = Counts::Vector(5_000_000);
        assert_eq!(name(Collective::Allreduce, vector), "ring");
    }

    /// What is chosen where each of so many ranks has a host of its own.
    fn between_hosts(collective: Collective, ranks: usize, counts: Counts) -> String {
        let hosts = Hosts::new(&(0..ranks).collect::<Vec<_>>());
        let cx = Context {
            hosts: Some(&hosts),
            ..Context::new(ranks, counts)
        };
        choose(collective, &cx).to_string()
    }

    #[test]
    fn between_hosts_short_blocks_go_straight_unless_there_are_very_many() {
        let name = |collective, ranks| between_hosts(collective, ranks, Counts::Each(64));
        for collective in [Collective::Gather, Collective::Scatter] {
            assert_eq!(name(collective, 64), "linear:window=8");
            assert_eq!(name(collective, 200), "binomial");
        }
        assert_eq!(name(Collective::Alltoall, 32), "posted");
        assert_eq!(name(Collective::Alltoall, 200), "bruck");
        let name = |ranks| between_hosts(Collective::ReduceScatter, ranks, Counts::Each(1000));
        assert_eq!(name(32), "pairwise");
        assert_eq!(name(64), "recursive_halving");
    }

    #[test]
    fn between_hosts_short_vectors_go_along_a_tree_of_few_levels() {
        let radix = |ranks| between_hosts(Collective::Bcast, ranks, Counts::Vector(100));
        assert_eq!(radix(3), "binomial");
        for (ranks, radix_of_tree) in [(8, 8), (9, 3), (16, 4), (32, 6), (64, 8), (65, 5)] {
            assert_eq!(radix(ranks), format!("knomial:radix={radix_of_tree}"));
        }
        assert_eq!(radix(1 << 20), "knomial:radix=8");
    }

    #[test]
    fn between_hosts_it_takes_little_of_a_pipelines_time_to_fill_it() {
        for ranks in [4, 8, 64] {
            for power in 17..30 {
                let bytes = 1_usize << power;
                let chosen = between_hosts(Collective::Bcast, ranks, Counts::Vector(bytes));
                let Some(parameters) = chosen.strip_prefix("chain") else {
                    assert!(
                        bytes / ranks < 8 * KIB,
                        "{ranks} ranks, {bytes} B: {chosen}"
                    );
                    continue;
                };
                let segment = match parameters {
                    "" => 64 * KIB,
                    ":segment=32KiB" => 32 * KIB,
                    _ => 8 * KIB,
                };
                // A rank behind the root and before the last one holds one up.
                let filling = (ranks - 2) * segment;
                assert!(filling <= bytes, "{ranks} ranks, {bytes} B: {chosen}");
                let is_long = bytes >= 64 * KIB * ranks;
                assert!(
                    !is_long || 4 * filling <= bytes,
                    "{ranks} ranks, {bytes} B: {chosen}"
                );
            }
        }
    }

    #[test]
    fn blocks_go_to_all_at_a_time_where_hosts_may_be_late() {
        let chosen = |of: &[usize], counts| {
            let hosts = Hosts::new(of);
            let cx = Context {
                hosts: Some(&hosts),
                ..Context::new(of.len(), counts)
            };
            choose(Collective::Alltoall, &cx).algorithm.name
        };
        let apart: Vec<_> = (0..64).collect();
        let uneven = Counts::Pairs {
            outgoing: &[0, 1, 4, 4, 6],
            incoming: &[0, 1, 2, 2, 3],
        };
        assert_eq!(chosen(&[0; 4], Counts::Each(100_000)), "windowed");
        assert_eq!(chosen(&[0; 4], Counts::Each(1 << 20)), "pairwise");
        assert_eq!(chosen(&[0; 4], uneven), "windowed");
        assert_eq!(chosen(&apart[..4], uneven), "posted");
        assert_eq!(chosen(&[0, 0, 1, 1], Counts::Each(100_000)), "posted");
        assert_eq!(chosen(&apart, Counts::Each(100_000)), "posted");
    }
}
