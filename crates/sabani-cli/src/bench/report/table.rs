//! The table for people.

use std::fmt::Write;

use crate::{
    bench::{
        results::{Cell, Histogram, Results, references},
        task::Task,
    },
    report::text::align,
    units::{format_figure, format_size, format_time},
};

/// Columns of a histogram, from the fastest round trip to the 99th percentile of the slowest transport.
const HISTOGRAM_COLUMNS: usize = 40;
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Renders the last task.
pub fn last(results: &Results) -> String {
    let mut text = String::new();
    let mut tasks = results.by_task().rev();
    let Some(cells) = tasks.next() else {
        return text;
    };
    let task = cells[0].task;
    let is_new = |before: &[Cell]| before[0].task.bench() != task.bench();
    if tasks.next().is_none_or(is_new) {
        let _ = writeln!(text, "\n{}; {}\n", title(task), results.place);
    }
    text.push_str(&align(&rows(cells)));
    if let Task::Ping { .. } = task {
        text.push_str(&histograms(cells));
    }
    text.push('\n');
    text
}

/// Renders what stands below all tasks.
pub fn notes(results: &Results) -> String {
    let mut text = String::new();
    if results.by_task().any(|cells| !references(cells).is_empty()) {
        text.push_str(
            "÷ medians of the ratios turn by turn; those to all other transports with --json\n",
        );
    }
    if has_both_tcps(results) {
        let _ = writeln!(text, "{BETTER_TCP}");
    }
    if has_stream(results) {
        let _ = writeln!(text, "{STREAM}");
    }
    let mut cells = results.by_task().flatten();
    if cells.any(|cell| cell.transport.is_sealed()) {
        text.push_str("sabani: sealed, as by default; sabani-plain: in the clear\n");
    }
    text
}

/// What the column for TCP compares with.
pub const BETTER_TCP: &str =
    "÷ tcp-…: the better of CUBIC and BBR, chosen anew for each size or count";

/// What TCP does in a burst.
const STREAM: &str = "burst over tcp-…: a stream of bytes in which nobody looks for messages; those per second are \
                          bytes by size, a bound";

/// Whether a burst over TCP was measured.
fn has_stream(results: &Results) -> bool {
    let is_stream =
        |cell: &Cell| matches!(cell.task, Task::Burst { .. }) && cell.transport.is_tcp();
    results.by_task().flatten().any(is_stream)
}

/// Whether there is a better one of two.
pub fn has_both_tcps(results: &Results) -> bool {
    let tcps = |cells: &[Cell]| cells.iter().filter(|cell| cell.transport.is_tcp()).count();
    results.by_task().any(|cells| tcps(cells) > 1)
}

/// What a bench is, with its unit.
pub fn title(task: Task) -> &'static str {
    match task {
        Task::Ping { .. } => "ping: half a round trip in µs, less is better",
        Task::Burst { .. } => "burst: one way, more is better",
        Task::Transactions { .. } => {
            "transactions: 128 B there, 100 KiB back; time for all of them, less is better"
        }
    }
}

/// What the rows of a task have in common.
pub fn parameter(task: Task) -> String {
    match task {
        Task::Ping { size, .. } | Task::Burst { size, .. } => format_size(size),
        Task::Transactions { count } => count.to_string(),
    }
}

/// Header and rows of a task's table: parameter, transport, figures, ratios.
pub fn rows(cells: &[Cell]) -> Vec<Vec<String>> {
    let figures: &[&str] = match cells[0].task {
        Task::Ping { .. } => &["p50", "(min..max)", "p99", "p99.9"],
        Task::Burst { .. } => &["MB/s", "(min..max)", "messages/s"],
        Task::Transactions { .. } => &["time", "(min..max)"],
    };
    let references = references(cells);
    let mut header = vec![parameter(cells[0].task), String::new()];
    header.extend(figures.iter().map(ToString::to_string));
    header.extend(
        references
            .iter()
            .map(|other| format!("÷ {}", other.transport.label())),
    );
    if cells.iter().any(|cell| cell.lost() > 0) {
        header.push("lost".into());
    }
    let width = header.len();
    let mut rows = vec![header];
    rows.extend(cells.iter().map(|cell| row(cell, &references, width)));
    rows
}

fn row(cell: &Cell, references: &[&Cell], width: usize) -> Vec<String> {
    let headline = cell.headline();
    let format = match cell.task {
        Task::Ping { .. } | Task::Burst { .. } => format_figure,
        Task::Transactions { .. } => format_time,
    };
    let mut row = vec![
        String::new(),
        cell.transport.label().to_string(),
        format(headline.median),
        format!("({}..{})", format(headline.min), format(headline.max)),
    ];
    match cell.task {
        Task::Ping { .. } => row.extend([0.99, 0.999].map(|quantile| {
            let summary = cell.median_of(|turn| turn.half_rtt_us(quantile));
            format_figure(summary.median)
        })),
        Task::Burst { size, .. } => row.push(format_figure(headline.median * 1e6 / size as f64)),
        Task::Transactions { .. } => {}
    }
    row.extend(references.iter().map(|other| match cell.ratio_to(other) {
        Some(ratio) if other.transport != cell.transport => format_figure(ratio),
        _ => String::new(),
    }));
    if row.len() < width {
        row.push(cell.lost().to_string());
    }
    row
}

/// A line of bars per transport, over a common logarithmic axis.
fn histograms(cells: &[Cell]) -> String {
    let all: Vec<Histogram> = cells.iter().map(Cell::histogram).collect();
    let low = all
        .iter()
        .map(|h| h.half_us(0.0))
        .fold(f64::INFINITY, f64::min);
    let high = all
        .iter()
        .map(|h| h.half_us(0.999))
        .fold(low * 1.01, f64::max);
    let name_width = cells
        .iter()
        .map(|c| c.transport.label().len())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for (cell, histogram) in cells.iter().zip(&all) {
        let bars = bars(histogram, low, high);
        let _ = writeln!(text, "    {:name_width$}  │{bars}│", cell.transport.label());
    }
    let ends = format!("{} µs", format_figure(low));
    let right = format!("{} µs", format_figure(high));
    let gap = (HISTOGRAM_COLUMNS + 2).saturating_sub(ends.chars().count() + right.chars().count());
    let _ = writeln!(text, "    {:name_width$}  {ends}{:gap$}{right}", "", "");
    text
}

fn bars(histogram: &Histogram, low: f64, high: f64) -> String {
    let mut columns = [0u64; HISTOGRAM_COLUMNS];
    for &(ns, count) in &histogram.0 {
        let position = (ns as f64 / 2000.0 / low).ln() / (high / low).ln();
        let column = (position * HISTOGRAM_COLUMNS as f64) as usize;
        columns[column.min(HISTOGRAM_COLUMNS - 1)] += count;
    }
    let top = columns.iter().copied().max().unwrap_or(0).max(1);
    let bar = |count: u64| BARS[(count * 8).div_ceil(top) as usize];
    columns.into_iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::samples;

    #[test]
    fn shows_medians_spread_and_ratios() {
        let mut results = samples::results();
        results.cells.truncate(2);
        let text = last(&results) + &notes(&results);
        let words: Vec<_> = text.split_whitespace().collect();
        let expected = ["raw-udp", "2.50", "(2.00..3.00)", "5.00", "10.0", "0.50"];
        assert!(words.windows(6).any(|row| row == expected), "{text}");
        assert!(text.contains("÷ tcp-cubic"), "{text}");
        assert!(!text.contains("lost"), "{text}");
        assert!(last(&samples::results()).contains("lost"));
    }

    #[test]
    fn a_title_stands_above_the_first_task_of_a_bench() {
        let mut results = samples::results();
        let has_title = |results: &Results| last(results).starts_with("\nburst: one way");
        assert!(has_title(&results));
        let mut more = results.cells[2..].to_vec();
        for cell in &mut more {
            let Task::Burst { size, .. } = &mut cell.task else {
                panic!("{cell:?}");
            };
            *size *= 2;
        }
        results.cells.extend(more);
        assert!(!has_title(&results));
    }

    #[test]
    fn all_rows_are_equally_wide() {
        let results = samples::results();
        for cells in results.by_task() {
            let rows = rows(cells);
            assert!(rows.iter().all(|row| row.len() == rows[0].len()));
        }
    }

    #[test]
    fn bars_stay_in_their_columns() {
        let histogram = Histogram(vec![(2000, 10), (1_000_000, 1)]);
        let text = bars(&histogram, 1.0, 10.0);
        assert_eq!(text.chars().count(), HISTOGRAM_COLUMNS);
        assert!(text.starts_with('█') && text.ends_with('▁'));
    }
}
