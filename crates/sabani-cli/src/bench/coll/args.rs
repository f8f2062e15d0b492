//! What the user may ask `sabani bench coll` for.

use std::{fmt, str::FromStr, time::Duration};

use anyhow::{Error, Result, bail, ensure};
use clap::Args;
use sabani_collective::{Collective, Overrides};

use crate::{
    bench::{
        args::{Against, VariantArgs, once, parse_message_size, parse_seconds},
        tcp_baselines,
        transport::Transport,
    },
    lab::LinkArgs,
    layers::LayersOption,
    report::OutputArgs,
};

/// Collectives by size, number of ranks and algorithm.
///
/// Two figures for each. The time of one call: all ranks agree on a moment, sleep until then and call; it
/// goes from the first one's entry to the last one's exit, with rank 0 as root. The mean time of calls
/// back to back, the next rank being the root each time: what a program sees that does little else.
/// Told is the median of all turns.
///
/// On this machine ranks are started as `sabani run` does, anew for each turn; more ranks than cores is
/// normal. Ranks of one machine read the same clock. To measure a cluster, have its launcher start this
/// command, as in `mpirun -n 16 sabani bench coll --plain` (sealed without `--plain`, and not both): clocks of
/// other hosts are compared with that of rank 0's before each measurement, by the quickest of 20 round trips,
/// and may be wrong by half of that.
///
/// Elements are numbers of 4 bytes, and reductions add them. The size is that of the vector, or of the
/// block that each rank gives or gets: an alltoall with 8 ranks sends 7 of them from each.
#[derive(Args, Debug)]
#[command(mut_arg("rate", |rate| rate.requires("lab")), mut_arg("queue", |queue| queue.requires("lab")))]
pub struct CollArgs {
    /// Collectives, as in `bcast,alltoall`; `all` are all there are.
    #[arg(long, value_delimiter = ',', default_value = "all")]
    pub collectives: Vec<Collectives>,
    /// Sizes, as in `64,1k,4M` (powers of 1,024): multiples of 4 B, up to 64 MiB.
    #[arg(long, value_delimiter = ',', value_parser = parse_size, default_value = "64,1k,16k,64k,512k")]
    pub sizes: Vec<usize>,
    /// Numbers of ranks. Default 2,4,8; a launcher has its own.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub ranks: Vec<u32>,
    /// Algorithms in place of what the rule chooses, as in `bcast=chain:segment=128KiB,bcast=binomial`, or
    /// `all` of each collective, one after the other. Those that don't fit the number of ranks are left out.
    /// SABANI_NETWORK and SABANI_ALGORITHMS play no part.
    #[arg(
        long = "algorithm",
        value_delimiter = ',',
        value_name = "COLLECTIVE=ALGORITHM"
    )]
    pub algorithms: Vec<Wanted>,
    /// Time for each collective and size in each turn, without warming up.
    #[arg(long, default_value = "0.1", value_parser = parse_seconds, allow_negative_numbers = true)]
    pub seconds: Duration,
    /// Turns.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rounds: u32,
    /// What to compare with, as in `tcp-cubic`; `tcp` is `tcp-cubic,tcp-bbr`. Default none.
    ///
    /// The same algorithms run by the same code over TCP: a connection between each pair of ranks, with TCP_NODELAY, in
    /// the same job and in turns. Ranks wait there as those of Sabani do that share cores: they look for 300 µs,
    /// letting others go first, and then sleep. Where both variants of Sabani are measured, TCP is in the jobs of the
    /// first.
    #[arg(long, value_delimiter = ',')]
    pub against: Vec<Against>,
    /// Measure in a lab made for it: each rank on a host of its own, network namespaces around a switch (needs root).
    ///
    /// What the switch's ports allow is told beside. All ranks share this machine's cores there, so that nobody spins
    /// while it waits; a result that was measured while they were busy for more than 60 % of the time is marked as
    /// invalid.
    #[arg(long)]
    pub lab: bool,
    #[command(flatten)]
    pub link: LinkArgs,
    /// Ranks that wait sleep at once. For ranks of several hosts that share cores, as in a lab.
    #[arg(long)]
    pub no_spin: bool,
    #[command(flatten)]
    pub variants: VariantArgs,
    #[command(flatten)]
    pub layers: LayersOption,
    #[command(flatten)]
    pub output: OutputArgs,
}

impl CollArgs {
    /// The collectives, each once.
    pub fn collectives(&self) -> Vec<Collective> {
        let words = self.collectives.iter();
        once(&words.flat_map(|word| word.0.clone()).collect::<Vec<_>>())
    }

    /// The links of the lab, if it is measured in one.
    pub fn link(&self) -> Option<LinkArgs> {
        self.lab.then_some(self.link)
    }

    /// How long a rank that waits looks for messages before it sleeps, if that is not for Sabani to say.
    pub fn spin(&self) -> Option<Duration> {
        self.no_spin.then_some(Duration::ZERO)
    }

    /// What Sabani is compared with.
    ///
    /// # Errors
    /// If that is not TCP, or this system does not offer it.
    pub fn baselines(&self) -> Result<Vec<Transport>> {
        match self.against.is_empty() {
            true => Ok(Vec::new()),
            false => tcp_baselines(
                &self.against,
                "does not carry a collective: nothing sends again what is lost",
            ),
        }
    }

    /// What the user wants of a collective in place of the rule, as `SABANI_ALGORITHMS` has it; empty is
    /// the rule itself.
    pub fn wishes(&self, collective: Collective) -> Vec<String> {
        let mut wishes = Vec::new();
        for wanted in &self.algorithms {
            match wanted {
                Wanted::All => {
                    let algorithms = collective.algorithms();
                    wishes.extend(algorithms.map(|one| format!("{collective}={}", one.name)));
                }
                Wanted::One(of, text) if *of == collective => wishes.push(text.clone()),
                Wanted::One(..) => {}
            }
        }
        if wishes.is_empty() {
            wishes.push(String::new());
        }
        once(&wishes)
    }
}

/// One word of `--collectives`.
#[derive(Clone, Debug)]
pub struct Collectives(Vec<Collective>);

impl FromStr for Collectives {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        if word == "all" {
            return Ok(Self(Collective::ALL.into()));
        }
        match Collective::ALL.iter().find(|one| one.name() == word) {
            Some(&collective) => Ok(Self(vec![collective])),
            None => bail!(
                "not a collective; there are {}, all",
                Collective::ALL.map(Collective::name).join(", ")
            ),
        }
    }
}

/// One word of `--algorithm`.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// Every algorithm.
    All,
    /// One algorithm or its parameters, as the library reads them.
    One(Collective, String),
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "all",
            Self::One(_, text) => text,
        })
    }
}

impl FromStr for Wanted {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        if word == "all" {
            return Ok(Self::All);
        }
        word.parse::<Overrides>()?;
        let named = |collective: &Collective| word.split('=').next() == Some(collective.name());
        match Collective::ALL.into_iter().find(named) {
            Some(collective) => Ok(Self::One(collective, word.into())),
            None => bail!("an algorithm is written as in bcast=chain"),
        }
    }
}

fn parse_size(text: &str) -> Result<usize> {
    let size = parse_message_size(text)?;
    ensure!(
        size.is_multiple_of(size_of::<f32>()),
        "a size is a multiple of 4 B"
    );
    Ok(size)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: CollArgs,
    }

    fn args(line: &str) -> Option<CollArgs> {
        let words = std::iter::once("x").chain(line.split_whitespace());
        Line::try_parse_from(words).ok().map(|line| line.args)
    }

    #[test]
    fn wishes_go_before_the_rule_for_their_collective_alone() {
        let args = args(
            "--collectives scan,bcast,scan --algorithm bcast=chain:segment=8KiB,bcast=binomial,bcast=binomial",
        );
        let args = args.unwrap();
        assert_eq!(args.collectives(), [Collective::Scan, Collective::Bcast]);
        assert_eq!(args.wishes(Collective::Scan), [""]);
        let wishes = ["bcast=chain:segment=8KiB", "bcast=binomial"];
        assert_eq!(args.wishes(Collective::Bcast), wishes);
    }

    #[test]
    fn all_algorithms_are_wished_for_at_once() {
        let args = args("--algorithm all").unwrap();
        assert_eq!(args.collectives().len(), Collective::ALL.len());
        let wishes = args.wishes(Collective::Gather);
        assert_eq!(wishes.len(), Collective::Gather.algorithms().count());
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        for line in [
            "--collectives broadcast",
            "--sizes 6",
            "--sizes 0",
            "--ranks 0",
            "--algorithm chain",
            "--algorithm bcast=rope",
            "--algorithm bcast=chain:window=0",
            "--rounds 0",
            "--rate 1gbit",
        ] {
            assert!(args(line).is_none(), "{line}");
        }
    }
}
