//! What a run tells: tables, lines of JSON, a page with plots over the size.

use std::fmt::Write;

use anyhow::Result;
use sabani::Schedule;
use serde::Serialize;

use super::{Cell, places::Places};
use crate::{
    bench::results::Summary,
    report::{
        Rendered, page,
        svg::{Line, Plot, Point, Scale, Style},
        text,
    },
    units::{format_figure, format_size},
};

const WHAT: &str = "MB/s (10⁶ bytes) from one node to another of the same process, more is better; cores: for the threads \
                    of both ends; ÷ medians of the ratios turn by turn.";

/// One result. Figures are medians over the rounds; `min` and `max` are those of the first.
#[derive(Serialize)]
struct JsonLine {
    bench: &'static str,
    transport: &'static str,
    sealed: bool,
    threads: String,
    size_bytes: usize,
    mb_per_s: f64,
    min: f64,
    max: f64,
    /// The median of the ratios turn by turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_to_inline: Option<f64>,
    /// That the threads of both ends have.
    cores: usize,
    rounds: usize,
}

/// Renders all.
///
/// # Errors
/// If a figure cannot be written as JSON.
pub fn render(cells: &[Cell], places: &Places) -> Result<Rendered> {
    let mut table = String::new();
    let mut body = String::new();
    for cells in cells.chunk_by(|a, b| a.transport == b.transport) {
        let title = cells[0].transport.label();
        let rows = rows(cells, places);
        let _ = write!(table, "\n{title}\n\n{}", text::align(&rows));
        let _ = writeln!(body, "<h2>{title}</h2>");
        body.push_str(&plot(cells).render());
        body.push_str(&page::table(&rows));
    }
    let _ = writeln!(table, "\n{WHAT}");
    let mut json = String::new();
    for cell in cells {
        json += &(serde_json::to_string(&cell.line(cells, places))? + "\n");
    }
    Ok(Rendered {
        table,
        json,
        html: page::render("sabani bench schedules", WHAT, &body),
    })
}

impl Cell {
    fn summary(&self) -> Summary {
        Summary::of(self.mb_per_s.iter().copied()).expect("a cell has at least one turn")
    }

    /// Its rate over that of the same inline, if that was measured.
    fn ratio_to_inline(&self, all: &[Self]) -> Option<f64> {
        let inline = all.iter().find(|other| {
            (other.transport, other.size) == (self.transport, self.size)
                && other.schedule == Schedule::Inline
        });
        let inline = inline.filter(|_| self.schedule != Schedule::Inline)?;
        let turns = self.mb_per_s.iter().zip(&inline.mb_per_s);
        Some(Summary::of(turns.map(|(mine, theirs)| mine / theirs))?.median)
    }

    fn line(&self, all: &[Self], places: &Places) -> JsonLine {
        let Summary { median, min, max } = self.summary();
        JsonLine {
            bench: "schedules",
            transport: self.transport.name(),
            sealed: self.transport.is_sealed(),
            threads: self.schedule.to_string(),
            size_bytes: self.size,
            mb_per_s: median,
            min,
            max,
            ratio_to_inline: self.ratio_to_inline(all),
            cores: places.count(&self.schedule),
            rounds: self.mb_per_s.len(),
        }
    }
}

/// The header, and a row for each size and schedule.
fn rows(cells: &[Cell], places: &Places) -> Vec<Vec<String>> {
    let header = ["size", "threads", "cores", "MB/s", "(min..max)", "÷ inline"];
    let mut rows = vec![header.map(String::from).into()];
    rows.extend(cells.iter().map(|cell| {
        let Summary { median, min, max } = cell.summary();
        vec![
            format_size(cell.size),
            cell.schedule.to_string(),
            places.count(&cell.schedule).to_string(),
            format_figure(median),
            format!("({}..{})", format_figure(min), format_figure(max)),
            cell.ratio_to_inline(cells)
                .map_or_else(String::new, format_figure),
        ]
    }));
    rows
}

/// Rates over sizes, a line for each schedule.
fn plot(cells: &[Cell]) -> Plot {
    let mut lines: Vec<Line> = Vec::new();
    let mut ticks: Vec<(f64, String)> = Vec::new();
    for cell in cells {
        let Summary { median, min, max } = cell.summary();
        let x = cell.size as f64;
        let point = Point {
            x,
            median,
            min,
            max,
        };
        let name = cell.schedule.to_string();
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Line {
                name,
                style: Style::Bars,
                points: vec![point],
            }),
        }
        if ticks.iter().all(|(at, _)| *at != x) {
            ticks.push((x, format_size(cell.size)));
        }
    }
    Plot {
        lines,
        scale: Scale::Logarithmic,
        ticks,
        unit: "MB/s",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::bench::transport::Transport;

    fn cell(schedule: Schedule, mb_per_s: f64) -> Cell {
        Cell {
            transport: Transport::Sabani,
            size: 64 << 10,
            schedule,
            mb_per_s: vec![mb_per_s, 2.0 * mb_per_s, 3.0 * mb_per_s],
        }
    }

    #[test]
    fn schedules_are_compared_with_inline_turn_by_turn() {
        let cells = [
            cell(Schedule::Inline, 1000.0),
            cell(Schedule::PerLayer, 1500.0),
        ];
        let rendered = render(&cells, &Places::Together(vec![0, 1])).unwrap();
        let lines: Vec<Value> = rendered
            .json
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines[0]["ratio_to_inline"], Value::Null);
        assert_eq!(lines[1]["ratio_to_inline"], 1.5);
        assert_eq!(
            (&lines[0]["cores"], &lines[1]["cores"]),
            (&1.into(), &2.into())
        );
        assert_eq!(
            (&lines[1]["threads"], &lines[1]["mb_per_s"]),
            (&"per-layer".into(), &3000.0.into())
        );
        assert!(rendered.table.contains("1.50"), "{}", rendered.table);
        assert_eq!(rendered.html.matches("<polyline").count(), 2);
    }
}
