//! What the user may ask `sabani bench layers` for.

use std::ops::RangeInclusive;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use sabani_ring::Schedule;

use crate::{report::OutputArgs, units};

/// Leaves room for eight headers within the length that IP can tell.
const SIZES: RangeInclusive<usize> = 1..=60 << 10;

/// Layers of protocol on one core, and on a core each.
///
/// One protocol is stacked several times and looped back inside this process; no payload is copied. Each layer
/// builds its header, in a buffer of its own pool, on the way down; checks it, takes it off and gives the buffer back
/// on the way up. A user above the uppermost layer takes a buffer for its data, and checks that what comes back is in
/// order. Told is the time for one PDU, there and back through all layers.
///
/// ip: a header of 20 bytes with length and checksum, both checked. tp4: the data phase of OSI's transport protocol
/// class 4: DT TPDUs under credit; an AK TPDU after half of the credit; in four variants: DT TPDUs kept for resending
/// or not; a checksum over header and user's data in the uppermost layer or none at all.
///
/// First it measures what the machine takes to hand over a cache line, and the rings to hand over a primitive. Turns
/// of all setups follow each other, round after round; ratios are formed turn by turn and their median is told.
#[derive(Args, Debug)]
pub struct LayersArgs {
    /// Protocols to stack.
    #[arg(long, value_delimiter = ',', value_enum, default_value = "ip,tp4")]
    pub protocols: Vec<ProtocolName>,
    /// How many times the protocol is stacked, each from 1 to 8.
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4",
          value_parser = clap::value_parser!(u8).range(1..=8))]
    pub depths: Vec<u8>,
    /// Schedules: inline, background, per-core, per-layer, or groups of neighbours as in `[user+ip1][ip2+loopback]`.
    ///
    /// inline and background run all on one thread; per-core divides them among as many as there are cores. per-layer gives each layer of the protocol a thread on a core of
    /// its own, while there are enough, and is left out for a single layer. Groups fit one depth and one protocol.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "inline,per-core,per-layer"
    )]
    pub layers: Vec<Schedule>,
    /// PDUs moved at a time, at most, each from 1 to 1,024.
    #[arg(long, value_delimiter = ',', default_value = "64,1",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub batches: Vec<u16>,
    /// Sizes of the user's data for ip, as in `128,1k` (powers of 1,024), each up to 60 KiB.
    #[arg(long, value_delimiter = ',', value_parser = parse_size, default_value = "128,512,1k,4k,16k")]
    pub sizes: Vec<usize>,
    /// Credits for tp4, in TPDUs; its user's data are 1 KiB.
    #[arg(long, value_delimiter = ',', default_value = "2,4,8,16,32,64",
          value_parser = clap::value_parser!(u16).range(1..))]
    pub credits: Vec<u16>,
    /// PDUs in each turn, after a tenth as many to warm up.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub pdus: u64,
    /// Turns for each setup.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rounds: u32,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// A protocol that can be stacked.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolName {
    /// The Internet protocol, version 4.
    Ip,
    /// OSI's transport protocol, class 4.
    Tp4,
}

fn parse_size(text: &str) -> Result<usize> {
    let size = units::parse_size(text)?;
    ensure!(SIZES.contains(&size), "sizes go from 1 B to 60 KiB");
    Ok(size)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: LayersArgs,
    }

    #[test]
    fn schedules_are_read() {
        let line = Line::try_parse_from(["x", "--layers", "background,[user+ip1][ip2+loopback]"]);
        let layers = line.map(|line| line.args.layers).ok().unwrap();
        assert_eq!(layers[0], Schedule::Background);
        assert!(matches!(&layers[1], Schedule::Groups(groups) if groups.len() == 2));
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        for line in [
            "--depths 0",
            "--depths 9",
            "--sizes 61k",
            "--credits 0",
            "--layers x",
            "--batches 0",
        ] {
            let words = std::iter::once("x").chain(line.split(' '));
            assert!(Line::try_parse_from(words).is_err(), "{line}");
        }
    }
}
