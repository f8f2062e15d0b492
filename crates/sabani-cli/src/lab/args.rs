//! What the user may ask `sabani lab` for.

use std::{ffi::OsString, fmt, str::FromStr, time::Duration};

use anyhow::{Context, Error, Result, bail, ensure};
use clap::{Args, Subcommand};

use super::names::{Host, Lab, MAX_HOSTS};
use super::{ETHERNET_BYTES, MTU_BYTES, UDP_HEADER_BYTES};
use crate::units;

/// A small cluster on one machine: hosts behind a switch whose ports have a rate and a queue.
///
/// Each host is a network namespace with an address, an interface and a host name of its own; each port of
/// the switch sends to its host at the given rate, and drops what its queue has no room for. Trains of
/// packets (GSO) are cut where a host sends them, so that the queue holds, and drops, single
/// packets. Needs root and the packages iproute2, ethtool and nftables.
#[derive(Args)]
pub struct LabArgs {
    #[command(subcommand)]
    pub command: LabCommand,
}

#[derive(Subcommand)]
pub enum LabCommand {
    /// Make a lab.
    Up(UpArgs),
    /// Run a command on a host; ends with its exit status, or with 126 or 127 if it can't be run.
    ///
    /// Exit status: that of the command; 128 plus the signal that killed it, as a shell has it; 126 or 127 if it can't be
    /// run; 2 for a mistake on the command line, if there is no such host, or without root.
    Exec(ExecArgs),
    /// Run a command as a job's ranks, one on each host; ends with the exit status of the first one that fails, or with 126
    /// or 127 if it can't be run.
    ///
    /// Ranks find each other as by any launcher (docs/launch.md), under a key made for the job. Standard input goes to rank 0,
    /// which is on h1; output comes as ranks write it. When a rank fails, or this is interrupted, the others are
    /// sent TERM, and KILL 5 s later. At the end whatever ranks have started is killed; if this is killed itself, `sabani lab down` does that.
    ///
    /// Exit status: 0 if all ranks had 0; else that of the rank that failed first, or 128 plus the signal that killed it; 126
    /// or 127 if the command can't be run; 130 after Ctrl-C or a TERM signal; 2 for a mistake on the command line, if there
    /// is no such lab, or without root.
    ///
    /// Example: `sabani lab up --hosts 4`, then `sabani lab run -- target/debug/examples/pi`.
    Run(RunArgs),
    /// Lose packets at random on their way to a host, or to all.
    Loss(LossArgs),
    /// Show the hosts, and for each what the switch has sent to it, and dropped because its queue was full.
    Status(NameArgs),
    /// End a lab, whatever state it is in: programs on its hosts are killed.
    Down(NameArgs),
    /// End a lab when standard input ends.
    #[command(hide = true)]
    Guard(NameArgs),
}

/// Which lab.
#[derive(Args)]
pub struct NameArgs {
    /// The lab's name: up to 32 lower-case letters, digits and hyphens.
    #[arg(long = "name", value_name = "NAME", default_value = "lab")]
    pub lab: Lab,
}

/// A new lab.
#[derive(Args)]
pub struct UpArgs {
    #[command(flatten)]
    pub name: NameArgs,
    /// Number of hosts; they are called h1, h2 and so on.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_HOSTS)))]
    pub hosts: u16,
    #[command(flatten)]
    pub link: LinkArgs,
    /// Number of switches that hosts are at, in blocks; from two on, trunks join them at one more.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub groups: u16,
    /// Rate of each trunk, in either direction. Its queues hold as much as those of ports. Default: that of ports.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub trunk: Option<Rate>,
}

/// What a port of the switch can do.
#[derive(Args, Clone, Copy, Debug)]
pub struct LinkArgs {
    /// Rate of each port, Ethernet headers included, as in `50mbit` or `1gbit`.
    #[arg(long, default_value = "1gbit", value_parser = parse_rate)]
    pub rate: Rate,
    /// What each port's queue holds, from 2k to 64M, as in `64KiB`.
    #[arg(long, default_value = "64KiB", value_parser = parse_queue, value_name = "SIZE")]
    pub queue: usize,
}

/// A command on a host.
#[derive(Args)]
pub struct ExecArgs {
    #[command(flatten)]
    pub name: NameArgs,
    /// Be killed when the process that has started this is no more.
    #[arg(long, hide = true)]
    pub with_parent: bool,
    /// The host, as in `h1`.
    pub host: Host,
    /// The command and its arguments.
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

/// A command on all hosts.
#[derive(Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub name: NameArgs,
    /// How many ranks, on the first hosts. Default: one on each host.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub ranks: Option<u16>,
    /// The command and its arguments.
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

/// Random loss.
#[derive(Args)]
pub struct LossArgs {
    #[command(flatten)]
    pub name: NameArgs,
    /// Percentage of packets, 0 to 100, as in `0.5`; 0 ends it.
    #[arg(value_parser = parse_percent, value_name = "PERCENT")]
    pub ppm: u32,
    /// Only on the way to this host.
    #[arg(long)]
    pub host: Option<Host>,
}

/// Bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub u64);

impl Rate {
    const UNITS: [(&str, u64); 3] = [
        ("gbit", 1_000_000_000),
        ("mbit", 1_000_000),
        ("kbit", 1_000),
    ];
    const LEAST: Self = Self(100_000);
    const GREATEST: Self = Self(10_000_000_000);

    /// What raw UDP could carry over a port of this rate.
    pub fn payload_bytes_per_s(self) -> f64 {
        let payload = (MTU_BYTES - UDP_HEADER_BYTES) as f64;
        self.0 as f64 / 8.0 * payload / (MTU_BYTES + ETHERNET_BYTES) as f64
    }

    /// How long a UDP packet is on the wire, with so much in it or as much as it has room for.
    pub fn wire(self, payload: usize) -> Duration {
        let packet = (UDP_HEADER_BYTES + payload as u64).min(MTU_BYTES) + ETHERNET_BYTES;
        Duration::from_secs_f64((8 * packet) as f64 / self.0 as f64)
    }
}

impl FromStr for Rate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let lower = text.to_ascii_lowercase();
        for (unit, factor) in Self::UNITS {
            if let Some(number) = lower.strip_suffix(unit) {
                let number: f64 = number.parse().context("a rate is a number and a unit")?;
                return Ok(Self((number * factor as f64).round() as u64));
            }
        }
        bail!("a rate has a unit: kbit, mbit or gbit, as in `1gbit`")
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = Self::UNITS.iter().find(|(_, bits)| self.0 >= *bits);
        match whole {
            Some((unit, bits)) => write!(f, "{}{unit}", self.0 as f64 / *bits as f64),
            None => write!(f, "{}bit", self.0),
        }
    }
}

/// Reads a port's rate.
///
/// # Errors
/// If it is no rate, or out of range.
pub fn parse_rate(text: &str) -> Result<Rate> {
    let rate: Rate = text.parse()?;
    let sane = (Rate::LEAST.0..=Rate::GREATEST.0).contains(&rate.0);
    ensure!(sane, "rates go from {} to {}", Rate::LEAST, Rate::GREATEST);
    Ok(rate)
}

/// Reads a queue's size: one that holds no packet would let none pass.
///
/// # Errors
/// If it is no size, or out of range.
pub fn parse_queue(text: &str) -> Result<usize> {
    let bytes = units::parse_size(text)?;
    let sane = (2 << 10..=64 << 20).contains(&bytes);
    ensure!(sane, "queues hold from 2 KiB to 64 MiB");
    Ok(bytes)
}

fn parse_percent(text: &str) -> Result<u32> {
    let percent: f64 = text
        .trim_end_matches('%')
        .parse()
        .context("write a number of percent, such as 0.5")?;
    ensure!(
        (0.0..=100.0).contains(&percent),
        "a percentage goes from 0 to 100"
    );
    let ppm = (percent * 1e4).round() as u32;
    // It would end what loss there is.
    ensure!(
        ppm > 0 || percent == 0.0,
        "less than one packet of a million can't be lost: write 0.0001 or more, or 0"
    );
    Ok(ppm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arguments;
    use clap::Parser;

    #[test]
    fn rates_read_and_written() {
        for (text, bits) in [("1gbit", 1_000_000_000), ("2.5Gbit", 2_500_000_000)] {
            assert_eq!(parse_rate(text).unwrap(), Rate(bits));
        }
        assert_eq!(Rate(50_000_000).to_string(), "50mbit");
        assert_eq!(Rate(2_500_000_000).to_string(), "2.5gbit");
    }

    #[test]
    fn a_packet_takes_as_long_as_its_bytes_and_headers() {
        let wire = |payload| Rate(50_000_000).wire(payload).as_nanos();
        assert_eq!((wire(1_024), wire(1 << 20)), (170_560, 242_240));
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        for line in [
            "sabani lab up --hosts 0",
            "sabani lab up --hosts 251",
            "sabani lab up --rate 1",
            "sabani lab up --rate 1bit",
            "sabani lab up --rate nangbit",
            "sabani lab up --queue 100",
            "sabani lab up --groups 0",
            "sabani lab up --groups 2 --trunk 1",
            "sabani lab up --name Upper",
            "sabani lab up --name a/b",
            "sabani lab exec h1",
            "sabani lab run",
            "sabani lab run -n 0 -- true",
            "sabani lab exec 0 -- true",
            "sabani lab loss 101",
            "sabani lab loss -1",
            "sabani lab loss nan",
            "sabani lab loss 0.00001",
        ] {
            let parsed = Arguments::try_parse_from(line.split(' '));
            assert!(parsed.is_err(), "{line}");
        }
    }

    #[test]
    fn takes_what_the_documentation_shows() {
        for line in [
            "sabani lab up --hosts 9 --rate 1gbit --queue 64KiB",
            "sabani lab up --hosts 8 --rate 50mbit --groups 2 --trunk 100mbit",
            "sabani lab exec h2 -- ping -c 1 h1",
            "sabani lab run -n 4 -- true",
            "sabani lab loss 0.5 --host h3",
            "sabani lab status --name other",
            "sabani lab down",
        ] {
            let parsed = Arguments::try_parse_from(line.split(' '));
            assert!(parsed.is_ok(), "{line}");
        }
    }
}
