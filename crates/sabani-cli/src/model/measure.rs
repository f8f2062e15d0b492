//! `sabani model measure`: one command on the machines that a job will use.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use indicatif::HumanBytes;
use sabani_model::measure::{Measured, Procedure, Repairs, Settings};
use sabani_model::network::{Capacity, Estimate, Fit, Graph, Recovery};

use super::compile::fill_in;
use super::page;
use super::progress::Progress;
use super::ranks::{Prober, Ranks};
use super::wire;
use crate::bench::{args::once, transport::Transport};
use crate::exit::Usage;
use crate::files;
use crate::report::expect_file;
use crate::tell::{print, say};
use crate::units::{count, format_figure, format_time};

/// Measure the network between the hosts of a job.
///
/// Start it as a job's program, with one rank on each host or more: what is measured is the network
/// between the hosts, by the first rank on each. On a single host it is what its ranks are to each other, if each has a core.
/// Nothing else should use the network meanwhile. The file says what a message costs (PlogP's parameters
/// by its length), which hosts share which capacities, and how well that predicts traffic that was held
/// back; units stand in the names, and every quantity has the interval in which its median lies with
/// 90 % confidence.
///
/// Examples:
///   sabani run -n 8 -- sabani model measure -o network.json
///   mpirun --map-by node sabani model measure -o network.json --html network.html
///   sabani run -n 8 -- sabani model measure --transport sabani,tcp-cubic
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct MeasureArgs {
    /// The file to write, on rank 0's machine.
    #[arg(short, long, value_name = "FILE", default_value = "network.json")]
    output: PathBuf,
    /// Also write a page: curves, the network as a drawing, and how well it predicts.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// What to try, one after the other: sabani, tcp-cubic, tcp-bbr. What rank 0 is told counts.
    ///
    /// The file has what a message costs over each. The hosts' and groups' capacities, and the queue, are those that the
    /// first one has found. Over TCP there is a connection between each pair of ranks.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "sabani", value_parser = wire::transport)]
    transport: Vec<Transport>,
    /// Most patterns of simultaneous traffic to learn from, 2 or more; 20 are usual, and more where those held back show that they are not enough. The 2 to 4 that check at the end what was
    /// learned come on top.
    #[arg(long, value_name = "N", default_value_t = 36,
          value_parser = clap::value_parser!(u64).range(2..))]
    patterns: u64,
    /// Most time on the network for each transport, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    seconds: u64,
    /// Where the order of what is tried comes from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leave the table of the best algorithms out; `sabani model compile` adds it.
    #[arg(long)]
    no_table: bool,
}

/// Measures. All ranks do what rank 0 says.
///
/// # Errors
/// If this is no job of at least two ranks, one is lost, or a file can't be written.
pub fn run(args: &MeasureArgs) -> Result<()> {
    let ranks = Ranks::join()?;
    if ranks.hosts() < 2 {
        let how = "sabani run -n 4 -- sabani model measure";
        return Err(Usage(format!(
            "a network has two ends: start it as a job, `{how}`"
        ))
        .into());
    }
    if ranks.leads() {
        expect_file(args.html.as_deref())?;
        files::expect_distinct(&[
            ("--output", Some(&args.output)),
            ("--html", args.html.as_deref()),
        ])?;
        for path in [&args.output].into_iter().chain(&args.html) {
            files::expect_writable(path)?;
        }
    }
    // What is listed twice is measured once.
    let transports = once(&args.transport);
    let own = || transports.iter().map(|one| one.name().to_owned());
    let names: Vec<String> = ranks.tell(ranks.leads().then(|| own().collect()))?;
    if !ranks.leads() {
        let mut transports = names.iter().map(|name| wire::transport(name));
        return transports.try_for_each(|transport| ranks.try_over(transport?)?.follow());
    }
    let mut measured = lead_all(args, &ranks, &transports)?;
    let write = |measured: &Measured| files::write(&args.output, measured.network.to_json());
    // What was measured is safe before the table, which may take minutes, is begun.
    write(&measured)?;
    if let Some(path) = &args.html {
        files::write(path, page::render(&measured))?;
    }
    print(summary(&measured))?;
    let file = args.output.display();
    let is_steady = measured.network.graph.fit.is_none_or(|fit| fit.is_steady());
    let is_crowded =
        cores().is_some_and(|cores| !ranks.are_on_several_hosts() && ranks.hosts() > cores);
    // It is for programs, which use Sabani.
    let sabani = Transport::Sabani.name();
    if !measured.network.transports.contains_key(sabani) {
        return say(format_args!(
            "written to {file}; without a table of the best algorithms, which is for programs: they use Sabani, over which nothing was measured"
        ));
    }
    if is_crowded {
        return say(format_args!(
            "written to {file}; without a table of the best algorithms: there are more ranks than cores, and how they share those is otherwise each time"
        ));
    }
    if !is_steady {
        return say(format_args!(
            "written to {file}; without a table of the best algorithms, for it would rest on what is not to be believed: measure again; \
             `sabani model compile --network {file}` makes one all the same"
        ));
    }
    if args.no_table {
        return say(format_args!(
            "written to {file}; `sabani model compile --network {file}` adds the table of the best algorithms"
        ));
    }
    say(format_args!(
        "written to {file}; now the table of the best algorithms"
    ))?;
    let gain = fill_in(&mut measured.network, sabani, &[])?;
    write(&measured)?;
    say(gain)
}

/// This host's processors, if that is known; a rank may be bound to one of them.
fn cores() -> Option<usize> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let processors = text.lines().filter(|line| line.starts_with("processor"));
    Some(processors.count()).filter(|cores| *cores > 0)
}

/// Measures over each transport: the first one's network, with the others' costs.
fn lead_all(args: &MeasureArgs, ranks: &Ranks, transports: &[Transport]) -> Result<Measured> {
    let mut all: Option<Measured> = None;
    for &transport in transports {
        let mut prober = ranks.try_over(transport)?;
        let measured = lead(args, ranks, transport, &mut prober)?;
        prober.end()?;
        match &mut all {
            Some(all) => all.add(measured),
            None => all = Some(measured),
        }
    }
    all.context("no transport to try")
}

fn lead(
    args: &MeasureArgs,
    ranks: &Ranks,
    transport: Transport,
    prober: &mut Prober<'_>,
) -> Result<Measured> {
    let mut procedure = Procedure::new(Settings {
        names: ranks.names()?,
        one_host: !ranks.are_on_several_hosts(),
        transport: transport.name().into(),
        repairs: match transport.is_tcp() {
            true => Repairs::Tcp,
            false => Repairs::Sabani,
        },
        seed: args.seed,
        patterns: args.patterns as usize,
        network_ns: args.seconds.saturating_mul(1_000_000_000),
        copy_bytes_per_s: speed(|from, into| into.copy_from_slice(from)),
        reduce_bytes_per_s: speed(|from, into| {
            into.iter_mut()
                .zip(from)
                .for_each(|(into, from)| *into += from);
        }),
    });
    let progress = Progress::new(100, "{bar:30} {percent} %  {msg}  {elapsed}");
    while let Some(probe) = procedure.next_probe() {
        let doing = format!("{}: {}", transport.name(), procedure.doing());
        progress.set((100.0 * procedure.progress()) as u64, &doing);
        let outcome = prober.run(&probe)?;
        procedure.take(&probe, outcome);
    }
    progress.end();
    procedure
        .finish()
        .context("the time was over before every host had sent and received while the network was quiet: more --seconds")
}

/// Bytes for each second that something is done with, of arrays that no cache holds.
fn speed(work: impl Fn(&[f64], &mut [f64])) -> Estimate {
    const ELEMENTS: usize = 4 << 20;
    const TIMES: usize = 7;
    let (from, mut into) = (vec![1.0; ELEMENTS], vec![2.0; ELEMENTS]);
    let mut speeds: Vec<f64> = (0..TIMES)
        .map(|_| {
            let began = Instant::now();
            work(&from, &mut into);
            std::hint::black_box(&mut into);
            (ELEMENTS * size_of::<f64>()) as f64 / began.elapsed().as_secs_f64()
        })
        .collect();
    speeds.sort_by(f64::total_cmp);
    Estimate {
        value: speeds[TIMES / 2],
        low: speeds[0],
        high: speeds[TIMES - 1],
    }
}

/// What was found, in a few lines.
pub fn summary(measured: &Measured) -> String {
    let graph = &measured.network.graph;
    // Ranks of one host are to each other what hosts are, but they are none.
    let member = match measured.network.one_host {
        true => "rank",
        false => "host",
    };
    let mut text = String::new();
    for (name, transport) in &measured.network.transports {
        let last = transport.points.last();
        text += &format!(
            "{name}: latency {}, {} for {} bytes; {}\n",
            between(transport.latency(0, 0.0)),
            format_time(last.map_or(0.0, |point| point.gap_ns.value / 1e9)),
            last.map_or(0.0, |point| point.bytes),
            repair(&transport.recovery),
        );
    }
    text += &format!(
        "{}{}, {} in groups behind trunks\n",
        count(graph.hosts.len(), member),
        if measured.network.one_host {
            " on one host"
        } else {
            ""
        },
        grouped(graph)
    );
    for group in &graph.groups {
        text += &format!(
            "  {}: {}, out {}, in {}\n",
            group.name,
            count(group.hosts.len(), member),
            format_capacity(&group.out),
            format_capacity(&group.into),
        );
    }
    text += &match graph.hosts[0].into.queue_bytes {
        Some(queue) => format!(
            "the queue before a {member} holds {}\n",
            HumanBytes(queue.value as u64)
        ),
        None => {
            format!(
                "how much a queue before a {member} holds was not found out: none is predicted to overflow\n"
            )
        }
    };
    if graph.fit.is_none() {
        text += "there was no time to check how well that predicts: more --seconds\n";
    }
    if let Some(fit) = &graph.fit {
        text += &format!(
            "{} in {}; {}\n",
            count(fit.patterns, "pattern"),
            format_time(measured.network_ns as f64 / 1e9),
            worth(fit)
        );
    }
    if measured.unsteady_rounds > 0 {
        text += "the network was not quiet: some rounds did not count\n";
    }
    text
}

/// A time, and between what it lies.
fn between(time_ns: Estimate) -> String {
    let [value, low, high] =
        [time_ns.value, time_ns.low, time_ns.high].map(|ns| format_time(ns / 1e9));
    format!("{value} ({low} to {high})")
}

/// What a lost tail takes, and whether one was seen.
fn repair(recovery: &Recovery) -> String {
    let (what, time_ns) = match recovery.probe_ns {
        Some(probe_ns) if recovery.granted => ("a POLL", probe_ns),
        _ => ("a timeout", recovery.timeout_ns),
    };
    let known = match recovery.seen {
        true => "as was seen",
        false => "as the timer is set, for none was seen",
    };
    format!(
        "a lost tail is repaired by {what} after {}, {known}",
        format_time(time_ns.value / 1e9)
    )
}

/// How well what was held back is predicted; where it is not, why, and not how well the half is that is predicted best.
fn worth(fit: &Fit) -> String {
    let percent = |error: f64| 100.0 * error.exp_m1();
    let noise = percent(fit.noise);
    if !fit.is_steady() {
        return format!(
            "the same measured twice differs so much ({noise:.0} %) that nothing here can be believed: other programs use \
             the network or the processors, or there are more ranks than cores; measure again without them"
        );
    }
    if !fit.is_good() {
        return format!(
            "no tree of shared links explains this network (nine of ten flows that were held back within {:.0} %): \
             intervals of predictions are wider by as much",
            percent(fit.error_p90),
        );
    }
    format!(
        "what was held back is predicted within {:.0} % (median; twice the same differs by {noise:.0} %)",
        percent(fit.error),
    )
}

fn grouped(graph: &Graph) -> usize {
    graph.groups.iter().map(|group| group.hosts.len()).sum()
}

/// Bytes for each second; what was tried at most where the capacity is not known.
pub fn format_capacity(capacity: &Capacity) -> String {
    match capacity.bytes_per_s {
        Some(speed) => format!("{}B/s", format_figure(speed.value)),
        None => format!("at least {}B/s", format_figure(capacity.probed_bytes_per_s)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repair_is_told_with_how_it_is_known() {
        let exact = |ms: f64| Estimate::exact(ms * 1e6);
        let sabani = Recovery {
            window_bytes: Estimate::exact(65_536.0),
            learned: false,
            granted: true,
            packet_bytes: 1_424.0,
            ack_bytes: 28,
            later_packets: 3,
            later_ns: exact(0.1),
            probe_ns: Some(exact(7.0)),
            timeout_ns: exact(200.0),
            seen: true,
        };
        let told = repair(&sabani);
        assert!(told.contains("POLL after 7.00 ms, as was seen"), "{told}");
        let tcp = Recovery {
            granted: false,
            seen: false,
            ..sabani
        };
        let told = repair(&tcp);
        assert!(
            told.contains("timeout after 200 ms, as the timer"),
            "{told}"
        );
    }

    #[test]
    fn precision_is_told_only_of_what_is_predicted() {
        let fit = |error: f64, error_p90: f64, noise: f64| {
            worth(&Fit {
                patterns: 20,
                error,
                error_p90,
                noise,
            })
        };
        let good = fit(0.03, 0.05, 0.01);
        assert!(good.contains("within 3 % (median"), "{good}");
        for (bad, why) in [
            (fit(0.03, 2.0, 0.01), "no tree of shared links"),
            (fit(0.03, 0.05, 0.9), "nothing here can be believed"),
        ] {
            assert!(bad.contains(why) && !bad.contains("median"), "{bad}");
        }
    }
}
