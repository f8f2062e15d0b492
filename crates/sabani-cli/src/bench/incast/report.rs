//! What a run tells: a table, lines of JSON, a page.

use anyhow::Result;
use sabani::Schedule;
use serde::Serialize;

use super::{
    cell::{Cell, Link},
    protocol::Pattern,
};
use crate::{
    report::{
        Rendered, page,
        svg::{Line, Plot, Point, Scale, Style},
        text,
    },
    units::format_size,
};

/// Quantiles that the plot shows, as one round in so many.
const TAILS: [(f64, &str); 5] = [
    (1.25, "p20"),
    (2.0, "p50"),
    (10.0, "p90"),
    (100.0, "p99"),
    (1000.0, "p99.9"),
];

/// All that was measured in one run.
pub struct Results {
    /// How many senders there were.
    pub senders: u16,
    /// What they sent.
    pub pattern: Pattern,
    /// The bottleneck.
    pub link: Link,
    /// What its queue holds.
    pub queue_bytes: usize,
    /// Which layers of Sabani's nodes share a thread.
    pub schedule: Schedule,
    /// One for each transport.
    pub cells: Vec<Cell>,
}

/// One result: first what the simulator tells as well, in the same order.
#[derive(Serialize)]
struct JsonLine {
    bench: &'static str,
    #[serde(rename = "where")]
    place: &'static str,
    transport: &'static str,
    senders: u16,
    size_bytes: usize,
    rounds: usize,
    /// Of the link's payload rate; in a mix, what the long flows reach.
    goodput_ratio: f64,
    extra_packets_ratio: f64,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    ideal_ms: f64,
    /// The median while the long flows are silent.
    #[serde(skip_serializing_if = "Option::is_none")]
    unloaded_ms: Option<f64>,
    /// The part of all these times that was added for the last packet's time on the wire.
    wire_ms: f64,
    sealed: bool,
    /// The schedule of a node's layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<String>,
    /// TCP's.
    #[serde(skip_serializing_if = "Option::is_none")]
    congestion: Option<&'static str>,
    dropped_packets: u64,
    resent_packets: u64,
    cpu_busy_ratio: f64,
    valid: bool,
}

/// Renders all.
///
/// # Errors
/// If a figure cannot be written as JSON.
pub fn render(results: &Results) -> Result<Rendered> {
    let lines: Vec<String> = results
        .cells
        .iter()
        .map(|cell| Ok(serde_json::to_string(&results.line(cell))? + "\n"))
        .collect::<Result<_>>()?;
    let what = results.title();
    let body = results.plot().render() + &page::table(&results.rows());
    Ok(Rendered {
        table: format!("\n{what}\n\n{}", text::align(&results.rows())),
        json: lines.concat(),
        html: page::render("sabani bench", &what, &body),
    })
}

impl Results {
    fn is_mix(&self) -> bool {
        matches!(self.pattern, Pattern::Mix { .. })
    }

    fn ideal_ms(&self) -> f64 {
        self.link.ideal_ms(self.senders, self.pattern)
    }

    fn title(&self) -> String {
        let what = match self.pattern {
            Pattern::Incast { bytes } => {
                format!("incast: {} to 1, {} each", self.senders, format_size(bytes))
            }
            Pattern::Mix { short, long } => format!(
                "mix: a message of {} among {} flows of {} each",
                format_size(short),
                self.senders - 1,
                format_size(long)
            ),
        };
        format!(
            "{what}; lab, {} and a queue of {} before the receiver, round trip {:.0} µs; ideal completion {:.2} ms",
            self.link.rate,
            format_size(self.queue_bytes),
            self.link.round_trip.as_secs_f64() * 1e6,
            self.ideal_ms(),
        )
    }

    fn line(&self, cell: &Cell) -> JsonLine {
        JsonLine {
            bench: if self.is_mix() { "mix" } else { "incast" },
            place: "lab",
            transport: if cell.transport.is_tcp() {
                "tcp"
            } else {
                "sabani"
            },
            senders: self.senders,
            size_bytes: self.pattern.size_bytes(),
            rounds: cell.times.completion_ns.len(),
            goodput_ratio: cell.goodput_ratio(&self.link),
            extra_packets_ratio: cell.extra_packets_ratio(),
            p50_ms: cell.completion_ms(0.5),
            p99_ms: cell.completion_ms(0.99),
            max_ms: cell.completion_ms(1.0),
            ideal_ms: self.ideal_ms(),
            unloaded_ms: self.is_mix().then(|| cell.unloaded_ms()),
            wire_ms: self.link.wire(self.pattern).as_secs_f64() * 1e3,
            sealed: cell.transport.is_sealed(),
            threads: cell.transport.threads(&self.schedule),
            congestion: cell.transport.congestion(),
            dropped_packets: cell.dropped,
            resent_packets: cell.resent,
            cpu_busy_ratio: cell.cpu.busy_ratio(),
            valid: cell.is_valid(),
        }
    }

    /// The header, and a row for each transport.
    fn rows(&self) -> Vec<Vec<String>> {
        let (base, goodput) = match self.is_mix() {
            true => ("unloaded", "long flows' goodput"),
            false => ("ideal", "goodput"),
        };
        let mut header: Vec<String> = ["", "rounds", "p50 ms", "p99 ms", "max ms"]
            .map(String::from)
            .into();
        if self.is_mix() {
            header.push("unloaded ms".into());
        }
        header.push(format!("p99 ÷ {base}"));
        header.push(goodput.into());
        header.extend(["dropped", "resent", "extra", "CPU", ""].map(String::from));
        let rows = self.cells.iter().map(|cell| self.row(cell));
        std::iter::once(header).chain(rows).collect()
    }

    fn row(&self, cell: &Cell) -> Vec<String> {
        let base_ms = match self.is_mix() {
            true => cell.unloaded_ms(),
            false => self.ideal_ms(),
        };
        let p99_ms = cell.completion_ms(0.99);
        let percent = |ratio: f64| format!("{:.1} %", ratio * 100.0);
        let mut row = vec![
            cell.transport.label().into(),
            cell.times.completion_ns.len().to_string(),
            format!("{:.2}", cell.completion_ms(0.5)),
            format!("{p99_ms:.2}"),
            format!("{:.2}", cell.completion_ms(1.0)),
        ];
        if self.is_mix() {
            row.push(format!("{base_ms:.2}"));
        }
        row.extend([
            format!("{:.2}", p99_ms / base_ms),
            format!("{:.3}", cell.goodput_ratio(&self.link)),
            cell.dropped.to_string(),
            cell.resent.to_string(),
            percent(cell.extra_packets_ratio()),
            percent(cell.cpu.busy_ratio()),
            match cell.is_valid() {
                true => String::new(),
                false => "invalid: the processors were too busy".into(),
            },
        ]);
        row
    }

    /// Completion times over how rare they are.
    fn plot(&self) -> Plot {
        let line = |cell: &Cell| Line {
            name: cell.transport.label().into(),
            style: Style::Bars,
            points: TAILS
                .iter()
                .map(|&(one_in, _)| {
                    let ms = cell.completion_ms(1.0 - 1.0 / one_in);
                    Point {
                        x: one_in,
                        median: ms,
                        min: ms,
                        max: ms,
                    }
                })
                .collect(),
        };
        Plot {
            lines: self.cells.iter().map(line).collect(),
            scale: Scale::Logarithmic,
            ticks: TAILS.map(|(one_in, name)| (one_in, name.into())).into(),
            unit: "ms",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;

    use super::*;
    use crate::{
        bench::{incast::protocol::Times, transport::Transport},
        lab::Rate,
    };

    fn results(pattern: Pattern) -> Results {
        let mut cells = [Transport::Sabani, Transport::TcpBbr].map(Cell::new);
        for cell in &mut cells {
            cell.times = Times {
                completion_ns: vec![5_000_000; 20],
                unloaded_ns: vec![1_000_000; 20],
                bytes: 20 * (512 << 10),
                elapsed_ns: 20 * 5_000_000,
            };
            (cell.packets, cell.resent, cell.dropped) = (1010, 10, 12);
        }
        Results {
            senders: 8,
            pattern,
            link: Link {
                rate: Rate(1_000_000_000),
                round_trip: Duration::from_micros(100),
            },
            queue_bytes: 64 << 10,
            schedule: Schedule::Inline,
            cells: cells.into(),
        }
    }

    #[test]
    fn lines_begin_with_the_fields_that_both_places_have() {
        let rendered = render(&results(Pattern::Incast { bytes: 64 << 10 })).unwrap();
        let start = r#"{"bench":"incast","where":"lab","transport":"sabani","senders":8,"size_bytes":65536,"rounds":20,"goodput_ratio":0."#;
        assert!(rendered.json.starts_with(start), "{}", rendered.json);
        let fields = [
            "extra_packets_ratio",
            "p50_ms",
            "p99_ms",
            "max_ms",
            "ideal_ms",
            "sealed",
        ];
        let places = fields.map(|field| rendered.json.find(&format!("\"{field}\":")).unwrap());
        assert!(places.is_sorted(), "{}", rendered.json);
        let tcp: Value = serde_json::from_str(rendered.json.lines().nth(1).unwrap()).unwrap();
        assert_eq!(
            (&tcp["transport"], &tcp["congestion"]),
            (&"tcp".into(), &"bbr".into())
        );
        assert_eq!(tcp["extra_packets_ratio"], 0.01);
        assert_eq!(tcp["unloaded_ms"], Value::Null);
        assert_eq!(tcp["threads"], Value::Null);
        let sabani: Value = serde_json::from_str(rendered.json.lines().next().unwrap()).unwrap();
        assert_eq!(sabani["threads"], "inline");
    }

    #[test]
    fn a_mix_is_compared_with_silence() {
        let rendered = render(&results(Pattern::Mix {
            short: 1024,
            long: 1 << 20,
        }))
        .unwrap();
        let line: Value = serde_json::from_str(rendered.json.lines().next().unwrap()).unwrap();
        assert_eq!(
            (&line["bench"], &line["unloaded_ms"]),
            (&"mix".into(), &1.0.into())
        );
        let table: String = rendered.table.split_whitespace().collect();
        assert!(table.contains("maxmsunloadedmsp99÷unloaded"), "{table}");
        assert!(table.contains("5.001.005.00"), "{table}");
        let html = &rendered.html;
        assert!(html.contains("<th>unloaded ms</th><th>p99"), "{html}");
        let incast = render(&results(Pattern::Incast { bytes: 1024 })).unwrap();
        assert!(!incast.table.contains("unloaded"), "{}", incast.table);
    }

    #[test]
    fn busy_processors_make_a_result_invalid() {
        let mut results = results(Pattern::Incast { bytes: 1024 });
        assert!(!render(&results).unwrap().table.contains("invalid"));
        results.cells[0].cpu = crate::bench::cpu::CpuTime::of(61, 100);
        let rendered = render(&results).unwrap();
        assert!(rendered.table.contains("invalid"), "{}", rendered.table);
        assert!(
            rendered.json.contains("\"valid\":false"),
            "{}",
            rendered.json
        );
        assert_eq!(rendered.html.matches("<polyline").count(), 2);
    }
}
