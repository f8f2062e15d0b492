//! What came of a plan: table, lines of JSON, page.

use std::fmt::Write;
use std::sync::Arc;

use anyhow::Result;
use sabani_sim::plan::outcome::{Outcome, StreamOutcome, TcpOutcome, quantile};
use sabani_sim::plan::{Hosts, Shape, TcpFlows, Traffic};
use sabani_sim::{Plan, Recording, Time, Watch};
use serde::Serialize;

use super::links;
use super::named::{Mix, WARM_UP};
use crate::report::svg::{Line, Plot, Point, Scale, Style};
use crate::report::{Rendered, page, text};
use crate::units::{format_figure, format_time};

/// Bytes around a datagram on Ethernet: its header, IPv4's and UDP's.
const HEADERS: f64 = 42.0;
/// Samples over a run, for plots.
const SAMPLES: u64 = 400;
/// Lines in a plot.
const MOST_LINES: usize = 6;

/// A plan that has been run.
pub struct Run {
    name: String,
    plan: Plan,
    pub outcome: Outcome,
}

/// One line of JSON for each stream; `incast` and `mix` have one in all, with the names that
/// `sabani bench` uses too.
#[derive(Serialize)]
#[serde(untagged)]
enum JsonLine<'a> {
    FanIn {
        bench: &'a str,
        r#where: &'a str,
        transport: &'a str,
        senders: u32,
        size_bytes: u64,
        rounds: usize,
        goodput_ratio: f64,
        extra_packets_ratio: f64,
        p50_ms: f64,
        p99_ms: f64,
        max_ms: f64,
        ideal_ms: f64,
        /// The median while the long flows are silent.
        #[serde(skip_serializing_if = "Option::is_none")]
        unloaded_ms: Option<f64>,
        sealed: bool,
    },
    Stream {
        bench: &'a str,
        r#where: &'a str,
        transport: &'a str,
        sealed: bool,
        stream: String,
        size_bytes: u64,
        messages: usize,
        goodput_mbit_per_s: f64,
        goodput_ratio: f64,
        extra_packets_ratio: f64,
        p50_ms: f64,
        p99_ms: f64,
        max_ms: f64,
        /// Of a stream with a deadline: how many of its messages were delivered in time.
        #[serde(skip_serializing_if = "Option::is_none")]
        in_time_ratio: Option<f64>,
    },
    Tcp {
        bench: &'a str,
        r#where: &'a str,
        transport: &'a str,
        stream: String,
        goodput_mbit_per_s: f64,
        goodput_ratio: f64,
        packets_lost: u64,
        timeouts: u64,
    },
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

impl Run {
    /// Runs the plan; once more if there is something to plot, for only then is it known how
    /// long it takes.
    pub fn new(name: &str, plan: Plan, plots: bool, watch: &Arc<Watch>) -> Self {
        let mut outcome = plan.run_watched(None, Some(watch.clone()));
        if plots && outcome.failure.is_none() {
            let every = Time((last_delivery_ns(&outcome) / SAMPLES).max(1));
            outcome = plan.run_watched(Some(every), Some(watch.clone()));
        }
        Run {
            name: name.into(),
            plan,
            outcome,
        }
    }

    /// The streams that are of interest.
    fn streams(&self) -> impl Iterator<Item = (String, &Traffic, &StreamOutcome)> {
        let streams = self.plan.traffic.iter().zip(&self.outcome.streams);
        let all = streams.enumerate().map(|(index, (stream, outcome))| {
            let name = match stream.name.as_str() {
                "" => format!("{index}: {} to {}", stream.from, stream.to),
                name => name.into(),
            };
            (name, stream, outcome)
        });
        all.filter(|(_, stream, _)| stream.name != WARM_UP)
    }

    /// How much of what links carry can be messages.
    fn payload_part(&self) -> f64 {
        let mtu = self.plan.network.mtu.0 as f64;
        mtu / (mtu + HEADERS)
    }

    /// Goodput, of what the links between these hosts could carry; zero if links are unlimited.
    fn part_of_links(&self, from: &Hosts, to: &Hosts, goodput: f64) -> f64 {
        goodput / (self.payload_part() * links::bits_per_second(&self.plan, from, to))
    }

    fn goodput_ratio(&self, stream: &Traffic, outcome: &StreamOutcome) -> f64 {
        self.part_of_links(&stream.from, &stream.to, outcome.goodput())
    }

    /// How many messages of a stream with a deadline were delivered in time.
    fn in_time_ratio(&self, stream: &Traffic, outcome: &StreamOutcome) -> Option<f64> {
        let messages = stream.messages(self.plan.hosts).max(1);
        let within = stream.within?;
        Some(outcome.in_time(within) as f64 / messages as f64)
    }

    /// TCP flows, and their names.
    fn tcp(&self) -> impl Iterator<Item = (String, &TcpFlows, &TcpOutcome)> {
        let flows = self.plan.tcp.iter().zip(&self.outcome.tcp);
        flows.map(|(flows, outcome)| {
            let name = format!("TCP: {} to {}", flows.from, flows.to);
            (name, flows, outcome)
        })
    }

    /// What came of it, in each form.
    ///
    /// # Errors
    /// If a figure cannot be written as JSON.
    pub fn render(&self) -> Result<Rendered> {
        Ok(Rendered {
            table: self.table(),
            json: self.json()?,
            html: self.page(),
        })
    }

    fn table(&self) -> String {
        let mut text = String::from("\n");
        let _ = writeln!(text, "{}, seed {}\n", self.name, self.plan.seed);
        text.push_str(&text::align(&self.rows()));
        let outcome = &self.outcome;
        let _ = writeln!(
            text,
            "\n{} packets, {} of them again ({:.2} %): {} for lost ones, {} polls; {} timeouts; {} events in \
             {:.3} s of virtual time; trace {:016x}",
            outcome.packets_sent,
            outcome.packets_again(),
            100.0 * outcome.extra_packets_ratio(),
            outcome.packets_lost,
            outcome.polls,
            outcome.timeouts,
            outcome.events,
            outcome.virtual_ns as f64 / 1e9,
            outcome.trace_hash,
        );
        if self.mix_line().is_some() {
            text.push_str(
                "unloaded: the short messages while nobody else sends; short: as many among the long flows\n",
            );
        }
        if outcome.failure.is_none() {
            for missing in self.missing() {
                let _ = writeln!(text, "{missing}");
            }
        }
        text
    }

    /// Why programs received nothing, if there were messages for them, and not one was.
    pub fn in_vain(&self) -> Option<String> {
        let (mut any, mut discarded, mut expired, mut lost, mut unsent) = (false, 0, 0, 0, 0);
        for (_, stream, outcome) in self.streams() {
            if !outcome.times_ns.is_empty() {
                return None;
            }
            any = true;
            discarded += outcome.discarded;
            expired += outcome.expired;
            lost += lost_by(outcome);
            unsent += self.unsent(stream, outcome);
        }
        let what = match discarded {
            0 => "nothing has arrived",
            _ => "programs have received nothing",
        };
        let why = [
            (
                discarded,
                "they threw away what came; write a larger `discards_every`, or none",
            ),
            (
                expired,
                "messages expired on their way; write a longer `within`, or none, and leave `once` away",
            ),
            (
                lost,
                "no connection could be made, or all have ended; are links too slow, or losses too many?",
            ),
            (
                unsent,
                "messages were never sent, for their senders had died or closed before; write a later `at` for these",
            ),
        ];
        let why = why.iter().filter(|&&(count, _)| count > 0);
        let why: Vec<_> = why.map(|&(_, why)| why).collect();
        any.then(|| format!("{what}: {}", why.join("; besides, ")))
    }

    /// Messages of a stream that no node was ever given.
    fn unsent(&self, stream: &Traffic, outcome: &StreamOutcome) -> u64 {
        let messages = stream.messages(self.plan.hosts);
        messages.saturating_sub(outcome.accepted)
    }

    /// What was to be received and was not, though no rule was broken, in words.
    fn missing(&self) -> Vec<String> {
        let mut all = Vec::new();
        for (name, stream, outcome) in self.streams() {
            let messages = stream.messages(self.plan.hosts);
            let mut tell = |missing, what| {
                if missing > 0 {
                    all.push(format!("{name}: {missing} of {messages} messages {what}"));
                }
            };
            tell(
                outcome.discarded,
                "were thrown away by the programs that they came to (`discards_every`)",
            );
            let expired = match stream.once {
                true => "were dropped: they go once (`once`), and a part of them was lost",
                false => "were dropped: they were worth nothing any more (`within`)",
            };
            let lost = match stream.once || stream.within.is_some() {
                true => "did not arrive: dropped before any of them came, or connections ended",
                false => "did not arrive: connections could not be made, or ended",
            };
            tell(outcome.expired, expired);
            tell(lost_by(outcome), lost);
            let unsent = "were never sent: their senders had died or closed before";
            tell(self.unsent(stream, outcome), unsent);
        }
        all
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let head = [
            "stream",
            "",
            "messages",
            "bytes",
            "Mbit/s",
            "of the links",
            "p50",
            "p99",
            "max",
            "rounds",
            "p50",
            "p99",
            "max",
            "in time",
        ];
        let mut rows = vec![head.map(String::from).to_vec()];
        let shown = |ratio: f64| match ratio > 0.0 {
            true => format!("{ratio:.3}"),
            false => String::new(),
        };
        for (name, stream, outcome) in self.streams() {
            let (times, rounds) = (outcome.sorted_ns(), outcome.sorted_rounds_ns());
            let ratio = self.goodput_ratio(stream, outcome);
            let mut row = vec![
                name,
                String::new(),
                times.len().to_string(),
                stream.bytes.to_string(),
                format_figure(outcome.goodput() / 1e6),
                shown(ratio),
            ];
            let figures = |sorted: &[u64]| match sorted {
                [] => [const { String::new() }; 3],
                _ => [0.5, 0.99, 1.0].map(|part| format_time(quantile(sorted, part) as f64 / 1e9)),
            };
            row.extend(figures(&times));
            row.push(rounds.len().to_string());
            row.extend(figures(&rounds));
            let in_time = self.in_time_ratio(stream, outcome);
            row.push(in_time.map_or(String::new(), |ratio| format!("{ratio:.3}")));
            rows.push(row);
        }
        for (name, flows, outcome) in self.tcp() {
            let ratio = self.part_of_links(&flows.from, &flows.to, outcome.goodput());
            let mut row = vec![String::new(); head.len()];
            row[0] = name;
            row[4] = format_figure(outcome.goodput() / 1e6);
            row[5] = shown(ratio);
            rows.push(row);
        }
        if self.streams().all(|(_, stream, _)| stream.within.is_none()) {
            rows.iter_mut().for_each(|row| drop(row.pop()));
        }
        rows
    }

    fn json(&self) -> Result<String> {
        let fan_in = self.incast_line().or_else(|| self.mix_line());
        let lines: Vec<_> = match fan_in {
            Some(line) => vec![line],
            None => {
                let streams = self.streams();
                let streams =
                    streams.map(|(name, stream, outcome)| self.stream_line(name, stream, outcome));
                let tcp = self.tcp();
                let tcp = tcp.map(|(name, flows, outcome)| self.tcp_line(name, flows, outcome));
                streams.chain(tcp).collect()
            }
        };
        let mut text = String::new();
        for line in lines {
            text.push_str(&serde_json::to_string(&line)?);
            text.push('\n');
        }
        Ok(text)
    }

    /// Whether it is the scenario of this name, with so many streams: plans in files may be called so, too, and hold
    /// whatever they like.
    fn is_named(&self, name: &str, streams: usize) -> bool {
        self.name == name && self.streams().count() == streams && self.plan.tcp.is_empty()
    }

    fn incast_line(&self) -> Option<JsonLine<'_>> {
        let mut streams = self.streams().filter(|_| self.is_named("incast", 1));
        let (_, stream, outcome) = streams.next()?;
        let rounds = outcome.sorted_rounds_ns();
        let ratio = self.goodput_ratio(stream, outcome);
        let senders = stream.pairs(self.plan.hosts).count() as u32;
        Some(self.fan_in_line(stream, senders, ratio, &rounds, None))
    }

    /// Short messages among long flows, and alone.
    fn mix_line(&self) -> Option<JsonLine<'_>> {
        if !self.is_named("mix", 3) {
            return None;
        }
        let find = |wanted: &str| self.streams().find(|(name, ..)| name == wanted);
        let (_, long, flows) = find(Mix::LONG)?;
        let (_, stream, short) = find(Mix::SHORT)?;
        let (.., alone) = find(Mix::UNLOADED)?;
        let ratio = self.goodput_ratio(long, flows);
        let senders = 1 + long.pairs(self.plan.hosts).count() as u32;
        let unloaded_ms = ms(quantile(&alone.sorted_ns(), 0.5));
        Some(self.fan_in_line(
            stream,
            senders,
            ratio,
            &short.sorted_ns(),
            Some(unloaded_ms),
        ))
    }

    fn fan_in_line(
        &self,
        stream: &Traffic,
        senders: u32,
        goodput_ratio: f64,
        sorted_ns: &[u64],
        unloaded_ms: Option<f64>,
    ) -> JsonLine<'_> {
        let at_once = stream.pairs(self.plan.hosts).count() as u64 * stream.bytes.0;
        let payload_rate = self.payload_part() * links::carried(self.plan.network.rate);
        let ideal_ms = 8e3 * at_once as f64 / payload_rate;
        JsonLine::FanIn {
            bench: &self.name,
            r#where: "sim",
            transport: "sabani",
            sealed: self.plan.seal == sabani_sim::plan::Seal::Sealed,
            senders,
            size_bytes: stream.bytes.0,
            rounds: sorted_ns.len(),
            goodput_ratio,
            extra_packets_ratio: self.outcome.extra_packets_ratio(),
            p50_ms: ms(quantile(sorted_ns, 0.5)),
            p99_ms: ms(quantile(sorted_ns, 0.99)),
            max_ms: ms(quantile(sorted_ns, 1.0)),
            ideal_ms: ideal_ms + ms(2 * self.plan.network.delay.0),
            unloaded_ms,
        }
    }

    fn stream_line(
        &self,
        stream_name: String,
        stream: &Traffic,
        outcome: &StreamOutcome,
    ) -> JsonLine<'_> {
        let times = outcome.sorted_ns();
        JsonLine::Stream {
            bench: &self.name,
            r#where: "sim",
            transport: "sabani",
            sealed: self.plan.seal == sabani_sim::plan::Seal::Sealed,
            stream: stream_name,
            size_bytes: stream.bytes.0,
            messages: times.len(),
            goodput_mbit_per_s: outcome.goodput() / 1e6,
            goodput_ratio: self.goodput_ratio(stream, outcome),
            extra_packets_ratio: self.outcome.extra_packets_ratio(),
            p50_ms: ms(quantile(&times, 0.5)),
            p99_ms: ms(quantile(&times, 0.99)),
            max_ms: ms(quantile(&times, 1.0)),
            in_time_ratio: self.in_time_ratio(stream, outcome),
        }
    }

    fn tcp_line(&self, stream: String, flows: &TcpFlows, outcome: &TcpOutcome) -> JsonLine<'_> {
        JsonLine::Tcp {
            bench: &self.name,
            r#where: "sim",
            transport: "tcp",
            stream,
            goodput_mbit_per_s: outcome.goodput() / 1e6,
            goodput_ratio: self.part_of_links(&flows.from, &flows.to, outcome.goodput()),
            packets_lost: outcome.lost,
            timeouts: outcome.timeouts,
        }
    }

    fn page(&self) -> String {
        let mut body = page::table(&self.rows());
        if let Some(recording) = &self.outcome.recording {
            let end_ns = last_delivery_ns(&self.outcome);
            let hosts = shown(
                recording.received.len(),
                "hosts",
                "those that ever read most at a time",
            );
            let queues = shown(
                recording.queues.len(),
                "queues",
                "those that were ever longest",
            );
            for (title, plot) in [
                (
                    format!("What hosts read, in Mbit/s, over seconds{hosts}"),
                    received(recording, end_ns),
                ),
                (
                    format!("Queues, in KiB, over seconds{queues}"),
                    self.queues(recording, end_ns),
                ),
            ] {
                let _ = writeln!(body, "<h2>{title}</h2>\n{}", plot.render());
            }
        }
        let streams = shown(
            self.streams().count(),
            "streams",
            "the first ones of the plan",
        );
        let title = "How long messages took, in ms, over the seconds at which they began";
        let _ = writeln!(body, "<h2>{title}{streams}</h2>\n{}", self.times().render());
        let plan = page::escape(&self.plan.to_toml());
        let _ = writeln!(body, "<h2>Plan</h2>\n<pre>{plan}</pre>");
        let what = format!(
            "{}, seed {}; a run in virtual time.",
            self.name, self.plan.seed
        );
        page::render("sabani sim", &what, &body)
    }

    fn queues(&self, recording: &Recording, end_ns: u64) -> Plot {
        // Cables are laid in the order of hosts, and have two ends.
        let name = |port: u32| match (self.plan.network.shape, port.is_multiple_of(2)) {
            (Shape::Mesh, _) => format!("port {port}"),
            (_, true) if port / 2 == self.plan.hosts => "left to right".into(),
            (_, false) if port / 2 == self.plan.hosts => "right to left".into(),
            (_, true) => format!("host {} to switch", port / 2),
            (_, false) => format!("switch to host {}", port / 2),
        };
        let series = recording.queues.iter();
        let series = series
            .map(|(port, values)| (name(port.0), values))
            .collect();
        plot(
            recording,
            end_ns,
            series,
            |bytes| bytes as f64 / 1024.0,
            "KiB",
        )
    }

    fn times(&self) -> Plot {
        let lines = self.streams().map(|(name, _, outcome)| Line {
            name,
            points: outcome
                .times_ns
                .iter()
                .map(|&(began_ns, time_ns)| Point::single(began_ns as f64 / 1e9, ms(time_ns)))
                .collect(),
            style: Style::Dots,
        });
        Plot {
            lines: lines.take(MOST_LINES).collect(),
            scale: Scale::Linear,
            ticks: Vec::new(),
            unit: "ms",
        }
    }
}

/// Messages of a stream that nodes accepted and that did not come to their receivers, and were not meant to expire.
fn lost_by(outcome: &StreamOutcome) -> u64 {
    let told = outcome.times_ns.len() as u64 + outcome.discarded + outcome.expired;
    outcome.accepted.saturating_sub(told)
}

/// Which of so many a plot shows, if not all: how they were picked.
fn shown(all: usize, what: &str, which: &str) -> String {
    match all > MOST_LINES {
        true => format!(" ({MOST_LINES} of {all} {what}, {which})"),
        false => String::new(),
    }
}

fn last_delivery_ns(outcome: &Outcome) -> u64 {
    let rounds = outcome.streams.iter().flat_map(|stream| &stream.rounds);
    rounds.map(|round| round.ended_ns).max().unwrap_or(0)
}

fn received(recording: &Recording, end_ns: u64) -> Plot {
    let series = recording.received.iter();
    let series = series
        .map(|(host, values)| (host.to_string(), values))
        .collect();
    let mbit = |bytes: u64| bytes as f64 * 8e3 / recording.every_ns as f64;
    plot(recording, end_ns, series, mbit, "Mbit/s")
}

/// The series with the greatest values, over time.
fn plot(
    recording: &Recording,
    end_ns: u64,
    mut series: Vec<(String, &Vec<u64>)>,
    scale: impl Fn(u64) -> f64,
    unit: &'static str,
) -> Plot {
    series.sort_by_key(|(_, values)| std::cmp::Reverse(values.iter().max().copied()));
    series.truncate(MOST_LINES);
    let times = recording.at_ns.iter().take_while(|&&at_ns| at_ns <= end_ns);
    let times: Vec<_> = times.map(|&at_ns| at_ns as f64 / 1e9).collect();
    let line = |(name, values): (String, &Vec<u64>)| {
        let values = values.iter().copied().chain(std::iter::repeat(0));
        let points = times.iter().zip(values);
        Line {
            name,
            points: points
                .map(|(&at, value)| Point::single(at, scale(value)))
                .collect(),
            style: Style::Plain,
        }
    };
    Plot {
        lines: series.into_iter().map(line).collect(),
        scale: Scale::Linear,
        ticks: Vec::new(),
        unit,
    }
}

#[cfg(test)]
mod tests {
    use sabani_sim::plan::Congestion;

    use super::*;

    const PLAN: &str = r#"
        hosts = 3
        [network]
        shape = "star"
        rate = "1gbit"
        [[traffic]]
        name = "warm-up"
        from = "1-2"
        to = 0
        [[traffic]]
        from = "1-2"
        to = 0
        bytes = "64KiB"
        rounds = 3
        at = "5ms"
    "#;

    fn run(name: &str) -> Rendered {
        let plan = Plan::from_toml(PLAN).unwrap();
        Run::new(name, plan, true, &Arc::default())
            .render()
            .unwrap()
    }

    #[test]
    fn incast_tells_what_the_lab_tells() {
        let rendered = run("incast");
        let start = r#"{"bench":"incast","where":"sim","transport":"sabani","senders":2,"size_bytes":65536,"rounds":3,"goodput_ratio":0."#;
        assert!(rendered.json.starts_with(start), "{}", rendered.json);
        assert_eq!(rendered.json.lines().count(), 1, "warming up is no result");
        let line: serde_json::Value = serde_json::from_str(&rendered.json).unwrap();
        let [p50, max] = ["p50_ms", "max_ms"].map(|key| line[key].as_f64().unwrap());
        assert!(1.0 < p50 && p50 <= max && max < 10.0, "{line}");
    }

    #[test]
    fn a_short_message_among_long_flows_is_hardly_slower_than_alone() {
        let start = r#"{"bench":"mix","where":"sim","transport":"sabani","senders":8,"size_bytes":1024,"rounds":100,"goodput_ratio":0."#;
        for (link, least) in [("1gbit", 0.9), ("200mbit", 0.9), ("50mbit", 0.85)] {
            // The slowest of a hundred is chance, and counts in the mean.
            let mut slowdown = 0.0;
            for seed in ["1", "2", "3", "4", "5"] {
                let arguments = ["sim", "mix", "--count", "100", "--seed", seed];
                let plan = crate::sim::named_plan(&[&arguments[..], &["--link", link]].concat());
                let rendered = Run::new("mix", plan, false, &Arc::default())
                    .render()
                    .unwrap();
                assert!(rendered.json.starts_with(start), "{}", rendered.json);
                let line: serde_json::Value = serde_json::from_str(&rendered.json).unwrap();
                let [p99, unloaded, goodput] = ["p99_ms", "unloaded_ms", "goodput_ratio"]
                    .map(|key| line[key].as_f64().unwrap());
                assert!(p99 <= 7.0 * unloaded && goodput > least, "{link}: {line}");
                slowdown += p99 / unloaded / 5.0;
            }
            assert!(slowdown <= 4.0, "{link}: {slowdown}");
        }
    }

    /// Files may be called like scenarios.
    #[test]
    fn a_plan_called_like_a_scenario_tells_of_all_its_streams() {
        let tcp = "[[tcp]]\nfrom = 1\nto = 0\nuntil = \"5ms\"\n";
        let plan = Plan::from_toml(&format!("{PLAN}\n{tcp}")).unwrap();
        for name in ["incast", "mix", "other"] {
            let run = Run::new(name, plan.clone(), false, &Arc::default());
            let rendered = run.render().unwrap();
            assert_eq!(
                rendered.json.lines().count(),
                2,
                "{name}: {}",
                rendered.json
            );
            assert!(!rendered.table.contains("unloaded"), "{}", rendered.table);
        }
        assert!(run("mix").json.contains("\"goodput_mbit_per_s\":"));
    }

    #[test]
    fn links_without_a_limit_have_an_ideal_too() {
        let line = &lines(&["sim", "incast", "--link", "unlimited", "--rounds", "1"])[0];
        assert_eq!(line["ideal_ms"], 0.05, "{line}");
    }

    fn lines(arguments: &[&str]) -> Vec<serde_json::Value> {
        let plan = crate::sim::named_plan(arguments);
        let json = Run::new(arguments[1], plan, false, &Arc::default())
            .render()
            .unwrap()
            .json;
        let lines = json.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().unwrap()
    }

    /// U18. That no rule was broken says that nodes kept to their queues and memory, too.
    #[test]
    fn a_long_path_that_loses_packets_is_filled() {
        let plan = crate::sim::named_plan(&["sim", "long-path", "--seed", "1"]);
        let run = Run::new("long-path", plan, false, &Arc::default());
        assert!(run.outcome.failure.is_none(), "{:?}", run.outcome.failure);
        let line: serde_json::Value = serde_json::from_str(&run.json().unwrap()).unwrap();
        let goodput = line["goodput_ratio"].as_f64().unwrap();
        assert!((0.80..=1.0).contains(&goodput), "{line}");
    }

    #[test]
    fn video_keeps_its_deadlines_where_others_do_not() {
        let arguments = ["sim", "video", "--seconds", "3", "--seed", "5"];
        let [video, reliable] = &lines(&arguments)[..] else {
            panic!("one line for each stream");
        };
        assert!(video["in_time_ratio"].as_f64().unwrap() >= 0.98, "{video}");
        assert!(reliable["in_time_ratio"].is_null(), "{reliable}");
        // A path for five sixths of the frames.
        let narrow = ["--link", "25mbit", "--loss", "0.01"];
        let [video, reliable] = &lines(&[&arguments[..], &narrow].concat())[..] else {
            panic!("one line for each stream");
        };
        assert!(video["in_time_ratio"].as_f64().unwrap() >= 0.35, "{video}");
        assert!(video["p50_ms"].as_f64().unwrap() <= 150.0, "{video}");
        assert!(reliable["p50_ms"].as_f64().unwrap() > 150.0, "{reliable}");
    }

    #[test]
    fn neither_we_nor_tcp_starve_on_a_link_that_both_share() {
        for congestion in [Congestion::Cubic, Congestion::Copa] {
            let mut plan = crate::sim::named_plan(&["sim", "rivals", "--seconds", "8"]);
            plan.settings.congestion = Some(congestion);
            let json = Run::new("rivals", plan, false, &Arc::default())
                .render()
                .unwrap()
                .json;
            let line = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
            let lines: Vec<_> = json.lines().map(line).collect();
            assert_eq!(lines[1]["transport"], "tcp");
            let [ours, tcp] = [0, 1].map(|index| lines[index]["goodput_ratio"].as_f64().unwrap());
            assert!(ours + tcp > 0.85 && ours + tcp <= 1.0, "{json}");
            assert!(ours.min(tcp) > 0.2, "{json}");
        }
    }

    #[test]
    fn what_does_not_arrive_is_told() {
        let table = |loss| {
            let arguments = ["sim", "loss", "--rounds", "2", "--loss", loss];
            let plan = crate::sim::named_plan(&arguments);
            Run::new("loss", plan, false, &Arc::default())
                .render()
                .unwrap()
                .table
        };
        let nothing = table("0.999999999");
        assert!(
            nothing.contains("long: 2 of 2 messages did not arrive"),
            "{nothing}"
        );
        assert!(!nothing.contains("0 µs"), "{nothing}");
        let all = table("0.01");
        assert!(!all.contains("did not arrive"), "{all}");
    }

    /// A run of two hosts, of which one sends to the other.
    fn run_of_two(more: &str) -> Run {
        let text = format!("hosts = 2\n[[traffic]]\nfrom = 1\nto = 0\nbytes = 100\n{more}");
        Run::new(
            "two",
            Plan::from_toml(&text).unwrap(),
            false,
            &Arc::default(),
        )
    }

    #[test]
    fn where_nothing_is_received_the_reason_is_told() {
        let cut = "[[fault]]\ncut = true\n";
        for (more, what) in [
            ("[[program]]\ndiscards_every = 1\n", "they threw away"),
            (
                "within = \"0ns\"\n",
                "nothing has arrived: messages expired",
            ),
            (cut, "nothing has arrived: no connection could be made"),
        ] {
            let run = run_of_two(more);
            let why = run.in_vain().unwrap();
            assert!(why.contains(what), "{why}");
            assert_eq!(why.contains("connection"), more == cut, "{why}");
            let told = run.missing().concat();
            assert_eq!(told.contains("connections"), more == cut, "{told}");
        }
        assert_eq!(run_of_two("").in_vain(), None);
    }

    #[test]
    fn what_the_dead_do_not_send_is_not_said_to_be_lost() {
        let crash = "[[mishap]]\nat = \"{}\"\nhost = 1\nwhat = \"crash\"\n";
        let run = |at| {
            run_of_two(&format!(
                "rounds = 5\nevery = \"10ms\"\n{}",
                crash.replace("{}", at)
            ))
        };
        let told = run("25ms").missing().concat();
        assert!(told.contains("2 of 5 messages were never sent"), "{told}");
        assert!(!told.contains("did not arrive"), "{told}");
        let why = run("0ms").in_vain().unwrap();
        assert!(
            why.contains("nothing has arrived: messages were never sent"),
            "{why}"
        );
    }

    #[test]
    fn what_programs_throw_away_has_arrived() {
        let run = run_of_two("rounds = 20\n[[program]]\ndiscards_every = 2\n");
        assert_eq!(run.in_vain(), None);
        let told = run.missing().concat();
        assert!(told.contains("were thrown away by the programs"), "{told}");
        assert!(!told.contains("did not arrive"), "{told}");
    }

    #[test]
    fn a_page_holds_plots_and_the_plan_and_loads_nothing() {
        let page = run("two").html;
        assert_eq!(page.matches("<svg").count(), 3);
        assert!(page.contains("switch to host 0") && page.contains("[[traffic]]"));
        assert!(!page.contains("NaN") && !page.contains("inf"));
        for loads in ["http:", "https:", "src=", "<script", "@import"] {
            assert!(!page.contains(loads), "{loads}");
        }
    }

    #[test]
    fn a_page_says_which_of_many_hosts_queues_and_streams_it_shows() {
        let mut text = String::from("hosts = 9\n[network]\nshape = \"star\"\n");
        for host in 1..9 {
            text += &format!("[[traffic]]\nfrom = \"0-8\"\nto = {host}\nbytes = \"64KiB\"\n");
        }
        let plan = Plan::from_toml(&text).unwrap();
        let page = Run::new("many", plan, true, &Arc::default()).page();
        for said in [
            "(6 of 9 hosts, those that ever read most at a time)",
            " queues, those that were ever longest)",
            "(6 of 8 streams, the first ones of the plan)",
        ] {
            assert!(page.contains(said), "{said}: {page}");
        }
        assert!(!run("two").html.contains("(6 of"));
    }

    #[test]
    fn the_same_plan_gives_the_same_table() {
        assert_eq!(run("two").table, run("two").table);
    }
}
