//! `sabani model predict`: a ranking of a collective's algorithms.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use sabani_collective::{Choice, Collective};
use sabani_model::choose::{self, Part, Ranked};
use sabani_model::network::Transport;
use sabani_model::price::{Model, Prices};
use sabani_model::simulate::{Prediction, REPLICATES, Repair, Simulation};
use sabani_model::{Network, Task, has_blocks};
use serde::Serialize;

use super::progress::Progress;
use super::{MOST_RANKS, load, transport};
use crate::report::svg::{Line, Plot, Point, Scale, Style};
use crate::report::{OutputArgs, Rendered, Reports, page, text};
use crate::units::{count, format_size, format_time, parse_size};

/// Predict what a collective takes with each of its algorithms
///
/// All algorithms and parameters are simulated on the network that was measured; the best ones and the one that the
/// documented rule chooses get an interval, in which a run lies with a probability of 90 % (`--replicates`), and the
/// resource that limits them.
#[derive(Args)]
pub struct PredictArgs {
    /// The collective: barrier, bcast, reduce, allreduce, gather, scatter, allgather, reduce_scatter,
    /// alltoall, scan or exscan.
    #[arg(value_parser = parse_collective)]
    collective: Collective,
    /// Number of ranks: one on each host as long as there are enough, else host after host. 64 take a second or two, over TCP five, 256 half a
    /// minute, 512 some minutes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_RANKS))]
    ranks: u32,
    /// Length of the vector; of a block for gather, scatter, allgather, reduce_scatter and alltoall. Up to 1024 GiB.
    #[arg(long, value_name = "SIZE", value_parser = parse_length, default_value = "0")]
    bytes: usize,
    /// The network, as it was measured.
    #[arg(long, value_name = "FILE", default_value = "network.json")]
    network: PathBuf,
    /// The transport.
    #[arg(long, value_name = "NAME", default_value = "sabani")]
    transport: String,
    /// Simulated runs for each interval. With 19, a run lies between the least and the largest of them with a
    /// probability of 90 %; with n, of (n - 1) / (n + 1), and one tells nothing of that.
    #[arg(long, value_name = "N", default_value_t = REPLICATES,
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    replicates: u64,
    #[command(flatten)]
    output: OutputArgs,
}

/// What is said of the one that is chosen.
const CHOSEN: &str = "Chosen: what a table would have, were it made for this length: the rule's choice, unless another one is surely faster (by the \
                      usual run, and the mean of some with what varies); of those that may be as fast, the one with the fewest messages, and over TCP the fastest";

/// So many resources are named in a note; `--json` has all of them.
const MOST_NAMED: usize = 6;

/// Names the first ones, and counts the others.
fn some(names: &[&str]) -> String {
    let named = &names[..names.len().min(MOST_NAMED)];
    match names.len() - named.len() {
        0 => named.join(", "),
        others => format!("{} and {others} more", named.join(", ")),
    }
}

/// Of more, what all ranks have together could not be counted.
const MOST_BYTES: usize = 1 << 40;

/// Reads a length.
fn parse_length(text: &str) -> Result<usize> {
    let bytes = parse_size(text)?;
    ensure!(
        bytes <= MOST_BYTES,
        "lengths go up to {}",
        format_size(MOST_BYTES)
    );
    Ok(bytes)
}

/// Reads a collective's name.
pub fn parse_collective(name: &str) -> Result<Collective, String> {
    let mut all = Collective::ALL.into_iter();
    let names = || Collective::ALL.map(Collective::name).join(", ");
    let found = all.find(|collective| collective.name() == name);
    found.ok_or_else(|| format!("one of {}", names()))
}

/// Runs it.
///
/// # Errors
/// If the network's file can't be used, or an output can't be written.
pub fn run(args: &PredictArgs) -> Result<()> {
    args.output.expect_other_than("--network", &args.network)?;
    let mut reports = Reports::open(&args.output)?;
    let network = load(&args.network)?;
    let transport = transport(&network, &args.transport)?;
    let task = Task::new(args.collective, args.ranks as usize, args.bytes, &network);
    let ranked = rank(args, &network, transport, &task);
    let report = Report {
        args,
        network: &network,
        transport,
        prices: Prices::new(&network, transport, &task),
        task: &task,
        ranked: &ranked,
        chosen: choose::pick(&network, transport, &ranked).choice,
    };
    reports.write(&Rendered {
        table: report.table(),
        json: report.json()?,
        html: match args.output.html {
            Some(_) => report.page(),
            None => String::new(),
        },
    })
}

/// Ranks the algorithms, and tells how far that is.
fn rank(args: &PredictArgs, network: &Network, transport: &Transport, task: &Task) -> Vec<Ranked> {
    let progress = Progress::new(100, "{spinner} {percent} %  {msg}  {elapsed}");
    let ranks = count(task.ranks, "rank");
    let told = |part, done: usize, of: usize| {
        let what = match part {
            Part::Survey => "each algorithm once",
            Part::Tried => "again those that are close",
            Part::Replicates => "more often those that may be best",
        };
        let doing = format!("simulating {ranks}, {what}");
        progress.set((100 * done / of) as u64, &doing);
    };
    told(Part::Survey, 0, 1);
    let ranked = choose::rank(network, transport, task, args.replicates, &told);
    progress.end();
    ranked
}

struct Report<'a> {
    args: &'a PredictArgs,
    network: &'a Network,
    transport: &'a Transport,
    prices: Prices,
    task: &'a Task,
    ranked: &'a [Ranked],
    /// What a table made now would have.
    chosen: Choice,
}

/// A result, as a line of JSON.
#[derive(Serialize)]
struct Record<'a> {
    collective: &'static str,
    ranks: usize,
    bytes: usize,
    transport: &'a str,
    algorithm: String,
    is_rule: bool,
    /// A table made now would have it.
    is_chosen: bool,
    /// Of an ordinary run; at least, if it was given up.
    usual_ns: f64,
    expected_ns: Option<f64>,
    /// Of seven replicates, 19 over TCP: the choice goes by it, where the usual run does not decide (`choose::decide`).
    mean_ns: Option<f64>,
    low_ns: Option<f64>,
    high_ns: Option<f64>,
    repaired_by_later_packets: Option<f64>,
    repaired_by_probes: Option<f64>,
    repaired_by_timeouts: Option<f64>,
    timeout_probability: Option<f64>,
    limited_by: Option<&'a str>,
    limited_share: Option<f64>,
    beyond_what_was_tried: &'a [String],
    /// By models in closed form.
    hockney_ns: Option<f64>,
    loggp_ns: Option<f64>,
    plogp_ns: Option<f64>,
    plogp_br_ns: Option<f64>,
}

impl Report<'_> {
    fn title(&self) -> String {
        let Task {
            collective,
            ranks,
            bytes,
            ..
        } = self.task;
        let each = if has_blocks(*collective) {
            " for each block"
        } else {
            ""
        };
        let (size, transport) = (format_size(*bytes), &self.args.transport);
        let ranks = count(*ranks, "rank");
        format!("{collective}, {ranks}, {size}{each}, over {transport}")
    }

    fn price(&self, model: Model, one: &Ranked) -> f64 {
        self.prices.price(model, self.task, &one.choice)
    }

    /// Those with an interval.
    fn predicted(&self) -> impl Iterator<Item = (&Ranked, &Prediction)> {
        let ranked = self.ranked.iter();
        ranked.filter_map(|one| Some((one, one.prediction.as_ref()?)))
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let header = [
            "algorithm",
            "",
            "expected",
            "from",
            "to",
            "PlogP",
            "PlogP-BR",
            "repairs",
            "timeout",
            "limited by",
        ];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        for (one, prediction) in self.predicted() {
            let time = |ns: f64| format_time(ns / 1e9);
            let [later, probes, timeouts] = prediction.repairs;
            rows.push(vec![
                one.choice.to_string(),
                self.standing(one).to_owned(),
                time(prediction.ns.value),
                time(prediction.ns.low),
                time(prediction.ns.high),
                time(self.price(Model::PLogP, one)),
                time(self.price(Model::PLogPBr, one)),
                format!("{later:.1} + {probes:.1} + {timeouts:.1}"),
                format!("{:.0} %", 100.0 * prediction.timeout_probability),
                reason(prediction),
            ]);
        }
        rows
    }

    /// What `from` and `to` are: of n + 1 runs that are alike, the last one is the least or the largest with a probability of 2 / (n + 1).
    fn interval(&self) -> String {
        if self.args.replicates == 1 {
            return "the one simulated run, less and more by what simulations are off; how much runs vary takes more \
                    --replicates"
                .to_owned();
        }
        let replicates = self.args.replicates as f64;
        let permille = (1000.0 * (replicates - 1.0) / (replicates + 1.0)).floor();
        format!("{} % of runs lie between", permille / 10.0)
    }

    fn standing(&self, one: &Ranked) -> &'static str {
        match (one.choice == self.chosen, one.is_rule) {
            (true, true) => "chosen, the rule",
            (true, false) => "chosen",
            (false, true) => "the rule",
            (false, false) => "",
        }
    }

    fn table(&self) -> String {
        let mut table = format!("{}\n\n{}", self.title(), text::align(&self.rows()));
        let others = self.ranked.iter().filter(|one| one.prediction.is_none());
        let name = |one: &Ranked| match one.choice == self.chosen {
            true => format!("{} (chosen)", one.choice),
            false => one.choice.to_string(),
        };
        let names: Vec<_> = others.map(name).collect();
        if !names.is_empty() {
            let _ = write!(table, "\nslower, or no better: {}\n", names.join(", "));
        }
        let interval = self.interval();
        let _ = writeln!(
            table,
            "\n{CHOSEN}. \
             From and to: {interval}. Repairs: of losses, by later packets + probes + timeouts, in a run on average."
        );
        for warning in self.warnings() {
            let _ = writeln!(table, "Note: {warning}.");
        }
        table
    }

    fn warnings(&self) -> Vec<String> {
        let beyond = self
            .predicted()
            .flat_map(|(_, prediction)| &prediction.beyond);
        let mut beyond: Vec<_> = beyond.map(String::as_str).collect();
        beyond.sort_unstable();
        beyond.dedup();
        let hosts = self.network.graph.hosts.len();
        let mut warnings = Vec::new();
        if !beyond.is_empty() {
            let what = some(&beyond);
            warnings.push(format!("loaded harder than any measurement has: {what}"));
        }
        if self.task.ranks > hosts {
            let ranks = self.task.ranks;
            warnings.push(match self.network.one_host {
                true => format!("{ranks} ranks are more than the {hosts} that were measured"),
                false => format!("{ranks} ranks share the {hosts} hosts that were measured"),
            });
        }
        warnings
    }

    fn json(&self) -> Result<String> {
        let mut lines = String::new();
        for one in self.ranked {
            let prediction = one.prediction.as_ref();
            let repair = |kind: Repair| prediction.map(|found| found.repairs[kind as usize]);
            let price = |model| prediction.map(|_| self.price(model, one));
            let bound = prediction.and_then(|found| found.bound_by.as_ref());
            let record = Record {
                collective: self.task.collective.name(),
                ranks: self.task.ranks,
                bytes: self.task.bytes,
                transport: &self.args.transport,
                algorithm: one.choice.to_string(),
                is_rule: one.is_rule,
                is_chosen: one.choice == self.chosen,
                usual_ns: one.usual_ns,
                expected_ns: prediction.map(|found| found.ns.value),
                mean_ns: one.tried_ns,
                low_ns: prediction.map(|found| found.ns.low),
                high_ns: prediction.map(|found| found.ns.high),
                repaired_by_later_packets: repair(Repair::Later),
                repaired_by_probes: repair(Repair::Probe),
                repaired_by_timeouts: repair(Repair::Timeout),
                timeout_probability: prediction.map(|found| found.timeout_probability),
                limited_by: bound.map(|(name, _)| &name[..]),
                limited_share: bound.map(|(_, share)| *share),
                beyond_what_was_tried: prediction.map_or(&[][..], |found| &found.beyond[..]),
                hockney_ns: price(Model::Hockney),
                loggp_ns: price(Model::LogGp),
                plogp_ns: price(Model::PLogP),
                plogp_br_ns: price(Model::PLogPBr),
            };
            lines.push_str(&serde_json::to_string(&record)?);
            lines.push('\n');
        }
        Ok(lines)
    }

    fn page(&self) -> String {
        let what = format!(
            "Expected times of the best algorithms by length: lines are simulated runs in which everything is as usual. \
             The table is for the length asked for. From and to: {}.",
            self.interval()
        );
        let warnings = self.warnings().join("; ");
        let notes = format!("<p>{CHOSEN}.</p>\n<p>{}</p>\n", page::escape(&warnings));
        let body = self.plot().render() + &page::table(&self.rows()) + &notes;
        page::render(&self.title(), &what, &body)
    }

    /// As the paper's figure 8: times over lengths, up to four times the one asked for.
    fn plot(&self) -> Plot {
        let top = (4 * self.task.bytes).max(4096);
        let powers = std::iter::successors(Some(1_usize), |bytes| bytes.checked_mul(4));
        let mut lengths: Vec<_> = powers.take_while(|&bytes| bytes <= top).collect();
        lengths.push(self.task.bytes.max(1));
        lengths.sort_unstable();
        lengths.dedup();
        let line = |(one, _): (&Ranked, &Prediction)| {
            let point = |&bytes: &usize| {
                let simulation = Simulation {
                    network: self.network,
                    transport: self.transport,
                    task: &self.task.with_bytes(bytes),
                    choice: &one.choice,
                };
                let outcome = simulation.usual(f64::INFINITY)?;
                Some(Point::single(bytes as f64, outcome.ns / 1e6))
            };
            Line {
                name: one.choice.algorithm.name.to_owned(),
                points: lengths.iter().filter_map(point).collect(),
                style: Style::Plain,
            }
        };
        Plot {
            lines: self.predicted().map(line).collect(),
            scale: Scale::Logarithmic,
            ticks: Vec::new(),
            unit: "ms",
        }
    }
}

/// What limits a run, in words.
fn reason(prediction: &Prediction) -> String {
    match &prediction.bound_by {
        Some((name, share)) if *share >= 0.5 => {
            format!("{name}, {:.0} % of the time", 100.0 * share)
        }
        _ if prediction.timeout_probability > 0.5 => "timeouts".to_owned(),
        Some((name, share)) if *share >= 0.2 => {
            format!("several links, {name} {:.0} % of the time", 100.0 * share)
        }
        _ => "latency".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use sabani_model::Estimate;

    use super::*;

    #[test]
    fn the_reason_is_what_takes_most_of_the_time() {
        let mut prediction = Prediction {
            ns: Estimate::exact(1.0),
            repairs: [0.0; 3],
            timeout_probability: 0.0,
            bound_by: Some(("host3 in".to_owned(), 0.93)),
            beyond: Vec::new(),
        };
        assert_eq!(reason(&prediction), "host3 in, 93 % of the time");
        prediction.bound_by = Some(("host3 in".to_owned(), 0.33));
        assert_eq!(
            reason(&prediction),
            "several links, host3 in 33 % of the time"
        );
        prediction.bound_by = Some(("host3 in".to_owned(), 0.1));
        assert_eq!(reason(&prediction), "latency");
        prediction.timeout_probability = 0.9;
        assert_eq!(reason(&prediction), "timeouts");
    }

    #[test]
    fn of_many_some_are_named() {
        assert_eq!(some(&["a", "b"]), "a, b");
        assert_eq!(some(&["a"; 8]), "a, a, a, a, a, a and 2 more");
    }

    #[test]
    fn collectives_are_known_by_their_names() {
        assert_eq!(parse_collective("alltoall"), Ok(Collective::Alltoall));
        assert!(parse_collective("all").unwrap_err().contains("exscan"));
    }
}
