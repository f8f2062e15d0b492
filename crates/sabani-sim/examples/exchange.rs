//! How many events per second the simulator handles, and in how much memory: every host of a star
//! sends a message to every other, round after round.
//!
//! `cargo run --release -p sabani-sim --example exchange -- --hosts 1024`

use std::time::Instant;

use sabani_proto::seal::{Checksum, Mode};
use sabani_sim::{Cable, Failure, Network, SEC, Switch, sealed};

/// What to simulate.
struct Options {
    hosts: u32,
    bytes: usize,
    rounds: u32,
    sealed: bool,
    seed: u64,
}

impl Options {
    const USAGE: &str = "exchange [--hosts N] [--bytes N] [--rounds N] [--sealed] [--seed N]";

    fn parse(mut args: impl Iterator<Item = String>) -> Option<Self> {
        let mut options = Options {
            hosts: 64,
            bytes: 1_000,
            rounds: 1,
            sealed: false,
            seed: 1,
        };
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--hosts" => options.hosts = args.next()?.parse().ok()?,
                "--bytes" => options.bytes = args.next()?.parse().ok()?,
                "--rounds" => options.rounds = args.next()?.parse().ok()?,
                "--seed" => options.seed = args.next()?.parse().ok()?,
                "--sealed" => options.sealed = true,
                _ => return None,
            }
        }
        Some(options)
    }

    fn mode(&self) -> Mode {
        if self.sealed {
            return sealed();
        }
        Mode::Plain {
            checksum: Checksum::None,
        }
    }
}

/// The most memory that this process has ever had, in KiB.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn exchange(options: &Options) -> Result<Network, Failure> {
    let mut net = Network::mesh(options.seed, options.hosts, &options.mode(), |_| {});
    net.star(&Cable::default(), Switch::default());
    for _ in 0..options.rounds {
        for from in net.host_ids() {
            for to in net.host_ids().filter(|&to| to != from) {
                net.send(from, to, options.bytes);
            }
        }
        net.settle(60 * SEC)?;
    }
    Ok(net)
}

fn main() -> Result<(), Failure> {
    let Some(options) = Options::parse(std::env::args().skip(1)) else {
        eprintln!("usage: {}", Options::USAGE);
        std::process::exit(2);
    };
    let began = Instant::now();
    let net = exchange(&options)?;
    let seconds = began.elapsed().as_secs_f64();
    let (events, packets) = (net.events() as f64, net.packet_events() as f64);
    println!(
        "{} hosts, {} × {} bytes each to each: {:.3} s of virtual time in {seconds:.2} s",
        options.hosts,
        options.rounds,
        options.bytes,
        net.now_ns() as f64 / SEC as f64,
    );
    println!(
        "{:.2} M events/s, {:.2} M of them arrivals and departures of packets ({:.1} M)",
        events / seconds / 1e6,
        packets / seconds / 1e6,
        packets / 1e6,
    );
    if let Some(kib) = peak_kib() {
        println!("peak memory {:.2} GiB", kib as f64 / (1 << 20) as f64);
    }
    println!("trace {:016x}", net.trace_hash());
    Ok(())
}
