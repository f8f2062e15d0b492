//! `sabani model compile`: finds the best algorithms, and keeps them in the network's file.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use sabani_collective::Collective;
use sabani_model::{Network, choose};

use super::progress::Progress;
use super::{MOST_RANKS, load, transport};
use crate::exit::Usage;
use crate::files;
use crate::tell::say;
use crate::units::count;

/// Find the best algorithms for a network by simulation, and write them into its file
///
/// Takes seconds for each number of ranks, up to a minute for 64; over TCP minutes, where queues are shallow and hosts many.
#[derive(Args)]
pub struct CompileArgs {
    /// The network's file, which gets the table.
    #[arg(long, value_name = "FILE", default_value = "network.json")]
    network: PathBuf,
    /// The transport that programs use.
    #[arg(long, value_name = "NAME", default_value = "sabani")]
    transport: String,
    /// Numbers of ranks. Others use what is best for the nearest one. The table is made anew: what it had for other
    /// numbers goes; each counts once [default: powers of two up to the number of hosts, and that]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..=MOST_RANKS))]
    ranks: Vec<u32>,
}

/// Runs it.
///
/// # Errors
/// If the file can't be read or written.
pub fn run(args: &CompileArgs) -> Result<()> {
    expect_plain(&args.network)?;
    let mut network = load(&args.network)?;
    files::expect_writable(&args.network)?;
    let ranks: Vec<_> = args.ranks.iter().map(|&ranks| ranks as usize).collect();
    let gain = fill_in(&mut network, &args.transport, &ranks)?;
    files::write(&args.network, network.to_json())?;
    say(gain)
}

/// Refuses a pipe or a device, which has no place for the table. What is not there is told of where it is read.
fn expect_plain(path: &Path) -> Result<(), Usage> {
    match fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        true => Err(Usage(format!(
            "--network {}: it is no plain file, into which the table can be written: name one",
            path.display()
        ))),
        false => Ok(()),
    }
}

/// Fills in the table of a network, for these numbers of ranks or, if there are none, for the usual ones; what came of
/// it, in words.
///
/// # Errors
/// If nothing was measured over the transport.
pub fn fill_in(network: &mut Network, transport_name: &str, ranks: &[usize]) -> Result<String> {
    let transport = transport(network, transport_name)?;
    let mut usual = choose::usual_ranks(network.graph.hosts.len());
    usual.retain(|&ranks| ranks <= MOST_RANKS as usize);
    let mut ranks = if ranks.is_empty() {
        usual
    } else {
        ranks.to_vec()
    };
    ranks.sort_unstable();
    ranks.dedup();
    let steps = (ranks.len() * Collective::ALL.len()) as u64;
    let progress = Progress::new(steps, "{bar:30} {pos}/{len}  {msg}  {elapsed}");
    let mut done = 0;
    let rows = choose::compile(network, transport, &ranks, |collective, ranks| {
        let doing = format!("trying algorithms for {collective}, {ranks} ranks");
        progress.set(done, &doing);
        done += 1;
    });
    progress.end();
    let gains = rows
        .iter()
        .map(|row| row.rule_ns / row.expected_ns.max(1.0));
    let gain = gains.fold(1.0, f64::max);
    network.choices = rows;
    let lines = count(network.choices.len(), "line");
    Ok(format!(
        "the table has {lines}, each with the best algorithm for a collective, a number of ranks and the lengths from \
         one on, up to the next line's; at best that is {gain:.1} times as fast as what `Comm` chooses without a table"
    ))
}
