//! `sabani model trial`: the measurement itself is tried, on networks that are known.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use sabani_model::infer::adjusted_rand;
use sabani_model::network::Graph;
use sabani_sim::Rate;

use super::drawn::{DEFAULT_LINK, Drawn, Kind, parse_link};
use super::measure::summary;
use super::progress::Progress;
use crate::files;
use crate::tell::{print, say};
use crate::units::format_time;

/// Try the measurement on simulated networks that are drawn from seeds, and compare what it finds.
///
/// Hosts are at switches, those at a common root, with trunks that carry a half to a quarter of what
/// the hosts could send; hosts are at their switches in order or not; switches drop what their queues,
/// deep or shallow, have no room for, or pause their neighbours. Some hosts have slower links. With --networks they are
/// no such trees, or there is something else about them.
#[derive(Args)]
pub struct TrialArgs {
    /// Number of hosts, from 8 to 1,024.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(8..=1_024))]
    hosts: u32,
    /// What sort of network.
    #[arg(long, value_name = "SORT", value_enum, default_value_t)]
    networks: Kind,
    /// Rate of most hosts' links, Ethernet's headers included.
    #[arg(long, value_name = "RATE", default_value = DEFAULT_LINK, value_parser = parse_link)]
    link: Rate,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Also print what was found.
    #[arg(long)]
    verbose: bool,
    /// Write what the last seed's network was found to be, as `sabani model measure` does: to try the other commands with.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Tries all seeds.
///
/// # Errors
/// If a probe does not come to its end, or the file can't be written.
pub fn run(args: &TrialArgs) -> Result<()> {
    args.output
        .as_deref()
        .map_or(Ok(()), files::expect_writable)?;
    let progress = Progress::new(args.count, "{bar:30} {pos}/{len}  {msg}  {elapsed}");
    for (done, seed) in (0..args.count).map(|more| (more, args.seed.wrapping_add(more))) {
        progress.set(done, &format!("measuring the network of seed {seed}"));
        let began = Instant::now();
        let known = Drawn::new(args.networks, args.hosts as usize, args.link, seed);
        let measured = known.measure(seed)?;
        let graph = &measured.network.graph;
        let fit = graph.fit.unwrap_or_default();
        let errors = capacity_errors(&known, graph);
        let largest = errors
            .iter()
            .fold(0.0_f64, |most, error| most.max(error.abs()));
        let found = format!(
            "seed {seed}: {known}: adjusted Rand {:.3}, {} of {} trunk capacities known, off by {:.1} % at \
             most; {fit}; {} patterns, {} on the network, {} here",
            adjusted_rand(&partition(graph), &known.group_of_host),
            errors.len(),
            2 * graph.groups.len(),
            100.0 * largest,
            fit.patterns,
            format_time(measured.network_ns as f64 / 1e9),
            format_time(began.elapsed().as_secs_f64()),
        );
        progress.beside(|| {
            say(found)?;
            match args.verbose {
                true => print(summary(&measured)),
                false => Ok(()),
            }
        })?;
        if let Some(path) = &args.output {
            files::write(path, measured.network.to_json())?;
        }
    }
    progress.end();
    Ok(())
}

/// For each host the innermost group that it is in.
fn partition(graph: &Graph) -> Vec<usize> {
    let of_hosts = graph.groups_of_hosts().into_iter();
    of_hosts
        .map(|groups| groups.first().copied().unwrap_or(usize::MAX))
        .collect()
}

/// Errors of trunks' capacities, as parts of what they are. Headers cost hosts and trunks alike, so both
/// are compared with what most hosts do.
fn capacity_errors(known: &Drawn, graph: &Graph) -> Vec<f64> {
    let hosts = graph.hosts.iter();
    let mut speeds: Vec<f64> = hosts
        .filter_map(|host| Some(host.out.bytes_per_s.or(host.into.bytes_per_s)?.value))
        .collect();
    speeds.sort_by(f64::total_cmp);
    let expected = speeds[speeds.len() / 2] * known.trunk as f64 / known.link as f64;
    let trunks = graph
        .groups
        .iter()
        .flat_map(|group| [&group.out, &group.into]);
    let known = trunks.filter_map(|trunk| Some(trunk.bytes_per_s?.value));
    known.map(|value| value / expected - 1.0).collect()
}
