//! What a run tells: tables, lines of JSON, a page with the paper's plots.

use std::fmt::Write;

use anyhow::Result;
use sabani_ring::{Schedule, cores};
use serde::Serialize;

use super::{Cell, Results, handover::Handover, turn::Protocol};
use crate::{
    bench::results::Summary,
    report::{
        Rendered, page,
        svg::{Line, Plot, Point, Scale, Style},
        text,
    },
    units::{format_figure, format_size},
};

const WHAT: &str = "Nanoseconds for a PDU, there and back through all layers, less is better; ÷ medians of the ratios \
                    turn by turn; ~: the slowest round took more than twice as long as the fastest.";

/// One stack under one schedule. Figures are medians over the rounds; `min` and `max` are those of the first.
#[derive(Serialize)]
struct StackLine {
    bench: &'static str,
    protocol: &'static str,
    layers: usize,
    threads: String,
    size_bytes: usize,
    ns_per_pdu: f64,
    min: f64,
    max: f64,
    batch: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    credit: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retain: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum: Option<bool>,
    /// The median of the ratios turn by turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_to_inline: Option<f64>,
    cores: usize,
    rounds: usize,
}

/// What a hand-over takes.
#[derive(Serialize)]
struct HandoverLine {
    bench: &'static str,
    protocol: &'static str,
    cache_line_ns: f64,
    primitive_ns: f64,
    batched_ns: f64,
    batch: usize,
    wake_ns: f64,
    /// The median of the ratios turn by turn.
    primitive_to_cache_line: f64,
    rounds: usize,
}

/// Renders all.
///
/// # Errors
/// If a figure cannot be written as JSON.
pub fn render(results: &Results) -> Result<Rendered> {
    let handover = results.handover();
    let mut table = String::new();
    let mut body = String::new();
    if let Some(handover) = &handover {
        let _ = writeln!(table, "\n{}", handover.told());
        let _ = writeln!(body, "<p>{}</p>", page::escape(&handover.told()));
    }
    for cells in results.tables() {
        let rows = rows(cells);
        let title = title(&cells[0]);
        let _ = write!(table, "\n{title}\n\n{}", text::align(&rows));
        let _ = writeln!(body, "<h2>{}</h2>", page::escape(&title));
        body.push_str(&plot(cells).render());
        body.push_str(&page::table(&rows));
    }
    let _ = writeln!(table, "\n{WHAT}");
    let mut json = String::new();
    if let Some(handover) = &handover {
        json += &(serde_json::to_string(handover)? + "\n");
    }
    for cells in results.tables() {
        for cell in cells {
            json += &(serde_json::to_string(&line(cell, cells))? + "\n");
        }
    }
    Ok(Rendered {
        table,
        json,
        html: page::render("sabani bench layers", WHAT, &body),
    })
}

impl Results {
    /// Drops the lines of tables of which not all was measured; whether any is left.
    pub fn keep_measured(&mut self) -> bool {
        let of_one_line = |a: &Cell, b: &Cell| a.table() == b.table() && a.line() == b.line();
        let lines = self.cells.chunk_by(of_one_line);
        // They are measured in this order.
        let whole = lines.take_while(|line| line.iter().all(|cell| !cell.ns_per_pdu.is_empty()));
        let cells = whole.map(<[_]>::len).sum();
        self.cells.truncate(cells);
        cells > 0
    }

    /// Cells that are shown in one table.
    fn tables(&self) -> impl Iterator<Item = &[Cell]> {
        self.cells.chunk_by(|a, b| a.table() == b.table())
    }

    fn handover(&self) -> Option<HandoverLine> {
        let median = |figure: fn(&Handover) -> f64| {
            Some(Summary::of(self.handovers.iter().map(figure))?.median)
        };
        Some(HandoverLine {
            bench: "layers",
            protocol: "handover",
            cache_line_ns: median(|handover| handover.cache_line_ns)?,
            primitive_ns: median(|handover| handover.primitive_ns)?,
            batched_ns: median(|handover| handover.batched_ns)?,
            batch: self.handovers[0].batch,
            wake_ns: median(|handover| handover.wake_ns)?,
            primitive_to_cache_line: median(|handover| {
                handover.primitive_ns / handover.cache_line_ns
            })?,
            rounds: self.handovers.len(),
        })
    }
}

impl HandoverLine {
    fn told(&self) -> String {
        format!(
            "To another core: a cache line {} ns; a primitive at rest {} ns, {} times as long; in batches of {} {} ns \
             each; to a thread that sleeps {} µs.",
            format_figure(self.cache_line_ns),
            format_figure(self.primitive_ns),
            format_figure(self.primitive_to_cache_line),
            self.batch,
            format_figure(self.batched_ns),
            format_figure(self.wake_ns / 1e3),
        )
    }
}

impl Cell {
    /// What the cells of a table have in common.
    fn table(&self) -> impl PartialEq + use<> {
        let variant = match self.setup.protocol {
            Protocol::Ip => None,
            Protocol::Tp4(options) => Some((options.retain, options.checksum)),
        };
        (variant, self.setup.batch)
    }

    /// What those of a line of it have in common.
    fn line(&self) -> (usize, &Schedule) {
        (self.setup.layers, &self.setup.schedule)
    }

    fn summary(&self) -> Summary {
        Summary::of(self.ns_per_pdu.iter().copied()).expect("a cell has at least one turn")
    }

    /// Its median, marked where rounds differ so much that others must have used the cores.
    fn figure(&self) -> String {
        let Summary { median, min, max } = self.summary();
        let mark = if max > 2.0 * min { "~" } else { "" };
        mark.to_owned() + &format_figure(median)
    }

    /// What its column of the table is: the size for IP, the credit for TP4.
    fn parameter(&self) -> (f64, String) {
        match self.setup.protocol {
            Protocol::Ip => (
                self.setup.size_bytes as f64,
                format_size(self.setup.size_bytes),
            ),
            Protocol::Tp4(options) => (options.credit.into(), options.credit.to_string()),
        }
    }

    /// Its time over that of the same stack inline, if that was measured.
    fn ratio_to_inline(&self, all: &[Self]) -> Option<f64> {
        let mut setup = self.setup.clone();
        setup.schedule = Schedule::Inline;
        let inline = all.iter().find(|cell| cell.setup == setup);
        let inline = inline.filter(|_| self.setup.schedule != Schedule::Inline)?;
        let rounds = self.ns_per_pdu.iter().zip(&inline.ns_per_pdu);
        Some(Summary::of(rounds.map(|(mine, theirs)| mine / theirs))?.median)
    }
}

fn title(cell: &Cell) -> String {
    let batch = cell.setup.batch;
    match cell.setup.protocol {
        Protocol::Ip => format!("IP by size of the user's data; batches of {batch}"),
        Protocol::Tp4(options) => format!(
            "TP4 by credit; {}, TPDUs {}; user's data of {}; batches of {batch}",
            match options.checksum {
                true => "checksum in the uppermost layer",
                false => "no checksum",
            },
            if options.retain { "kept" } else { "not kept" },
            format_size(cell.setup.size_bytes),
        ),
    }
}

/// Cells of one stack under one schedule.
fn lines_of(cells: &[Cell]) -> impl Iterator<Item = &[Cell]> {
    cells.chunk_by(|a, b| a.line() == b.line())
}

/// The header, a row for each stack and schedule, and where possible its ratios to the same inline.
fn rows(cells: &[Cell]) -> Vec<Vec<String>> {
    let first = lines_of(cells).next().unwrap_or_default();
    let columns = first.iter().map(|cell| cell.parameter().1);
    let mut rows = vec![
        ["layers".into(), "threads".into()]
            .into_iter()
            .chain(columns)
            .collect(),
    ];
    for line in lines_of(cells) {
        let setup = &line[0].setup;
        let figures = line.iter().map(Cell::figure);
        let names = [setup.layers.to_string(), setup.schedule.to_string()];
        rows.push(names.into_iter().chain(figures).collect());
        let ratios: Option<Vec<_>> = line
            .iter()
            .map(|cell| cell.ratio_to_inline(cells))
            .collect();
        if let Some(ratios) = ratios {
            let ratios = ratios.into_iter().map(format_figure);
            let names = [String::new(), "÷ inline".into()];
            rows.push(names.into_iter().chain(ratios).collect());
        }
    }
    rows
}

fn plot(cells: &[Cell]) -> Plot {
    let line = |line: &[Cell]| Line {
        name: format!("{} {}", line[0].setup.layers, line[0].setup.schedule),
        style: Style::Bars,
        points: line
            .iter()
            .map(|cell| {
                let Summary { median, min, max } = cell.summary();
                let (x, _) = cell.parameter();
                Point {
                    x,
                    median,
                    min,
                    max,
                }
            })
            .collect(),
    };
    let first = lines_of(cells).next().unwrap_or_default();
    Plot {
        lines: lines_of(cells).map(line).collect(),
        scale: Scale::Logarithmic,
        ticks: first.iter().map(Cell::parameter).collect(),
        unit: "ns",
    }
}

fn line(cell: &Cell, all: &[Cell]) -> StackLine {
    let setup = &cell.setup;
    let Summary { median, min, max } = cell.summary();
    let tp4 = match setup.protocol {
        Protocol::Ip => None,
        Protocol::Tp4(options) => Some(options),
    };
    StackLine {
        bench: "layers",
        protocol: setup.protocol.name(),
        layers: setup.layers,
        threads: setup.schedule.to_string(),
        size_bytes: setup.size_bytes,
        ns_per_pdu: median,
        min,
        max,
        batch: setup.batch,
        credit: tp4.map(|options| options.credit),
        retain: tp4.map(|options| options.retain),
        checksum: tp4.map(|options| options.checksum),
        ratio_to_inline: cell.ratio_to_inline(all),
        cores: cores(usize::MAX).len(),
        rounds: cell.ns_per_pdu.len(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::bench::layers::{tp4::Tp4Options, turn::Setup};

    fn cell(protocol: Protocol, schedule: Schedule, size_bytes: usize, ns: f64) -> Cell {
        Cell {
            setup: Setup {
                protocol,
                layers: 2,
                schedule,
                batch: 64,
                size_bytes,
            },
            ns_per_pdu: vec![ns, 2.0 * ns, 3.0 * ns],
        }
    }

    fn results() -> Results {
        let tp4 = Protocol::Tp4(Tp4Options {
            credit: 8,
            retain: true,
            checksum: false,
        });
        let handover = Handover {
            cache_line_ns: 50.0,
            primitive_ns: 100.0,
            batched_ns: 2.0,
            batch: 64,
            wake_ns: 5_000.0,
        };
        Results {
            handovers: vec![handover],
            cells: vec![
                cell(Protocol::Ip, Schedule::Inline, 128, 40.0),
                cell(Protocol::Ip, Schedule::Inline, 1024, 41.0),
                cell(Protocol::Ip, Schedule::PerLayer, 128, 20.0),
                cell(Protocol::Ip, Schedule::PerLayer, 1024, 20.5),
                cell(tp4, Schedule::PerLayer, 1024, 70.0),
            ],
        }
    }

    #[test]
    fn lines_begin_with_the_fields_that_tell_what_was_measured() {
        let json = render(&results()).unwrap().json;
        let lines: Vec<Value> = json
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[0]["primitive_to_cache_line"], 2.0);
        let start = r#"{"bench":"layers","protocol":"ip","layers":2,"threads":"per-layer","size_bytes":128,"ns_per_pdu":40.0"#;
        assert!(json.lines().nth(3).unwrap().starts_with(start), "{json}");
        assert_eq!(lines[1]["ratio_to_inline"], Value::Null);
        assert_eq!(lines[3]["ratio_to_inline"], 0.5);
        assert_eq!(lines[3]["credit"], Value::Null);
        let tp4 = &lines[5];
        assert_eq!((&tp4["credit"], &tp4["retain"]), (&8.into(), &true.into()));
        assert_eq!(
            (&tp4["checksum"], &tp4["min"]),
            (&false.into(), &70.0.into())
        );
        // Not measured inline.
        assert_eq!(tp4["ratio_to_inline"], Value::Null);
    }

    #[test]
    fn lines_that_were_not_measured_to_the_end_are_left_out() {
        for (measured, kept) in [(5, 5), (4, 4), (3, 2), (2, 2), (1, 0), (0, 0)] {
            let mut results = results();
            for cell in &mut results.cells[measured..] {
                cell.ns_per_pdu.clear();
            }
            assert_eq!(results.keep_measured(), kept > 0);
            assert_eq!(results.cells.len(), kept);
            render(&results).unwrap();
        }
    }

    #[test]
    fn figures_whose_rounds_differ_are_marked() {
        let mut cell = cell(Protocol::Ip, Schedule::Inline, 128, 1.0);
        for (last, figure) in [(20.0, "11.0"), (21.0, "~11.0")] {
            cell.ns_per_pdu = vec![10.0, 11.0, last];
            assert_eq!(cell.figure(), figure);
        }
    }

    #[test]
    fn each_variant_has_a_table_and_a_plot() {
        let rendered = render(&results()).unwrap();
        let words: Vec<_> = rendered.table.split_whitespace().collect();
        for expected in [
            ["2", "inline", "~80.0"],
            ["2", "per-layer", "~40.0"],
            ["÷", "inline", "0.50"],
        ] {
            assert!(
                words.windows(3).any(|row| row == expected),
                "{}",
                rendered.table
            );
        }
        assert!(rendered.table.contains("TPDUs kept"), "{}", rendered.table);
        assert_eq!(rendered.html.matches("<svg").count(), 2);
        assert_eq!(rendered.html.matches("<polyline").count(), 3);
        assert!(!rendered.html.contains("NaN") && !rendered.html.contains("inf"));
    }
}
