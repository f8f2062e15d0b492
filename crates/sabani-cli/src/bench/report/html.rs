//! A page that needs nothing else: plots over size, and the tables.

use std::fmt::Write;

use super::{
    svg::{Line, Plot, Point},
    table,
};
use crate::bench::{
    results::{Cell, Results},
    task::Task,
};

const STYLE: &str = "
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
svg { width: 100%; font-size: 12px; fill: currentColor; }
.grid { stroke: currentColor; stroke-opacity: .15; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .1rem .6rem; text-align: right; border-bottom: 1px solid #8883; }
th:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
";

/// Renders the page.
pub fn render(results: &Results) -> String {
    let mut body = String::new();
    for cells in results
        .cells
        .chunk_by(|a, b| a.task.bench() == b.task.bench())
    {
        let task = cells[0].task;
        let _ = writeln!(body, "<h2>{}</h2>", escape(table::title(task)));
        body.push_str(&plot(cells).render());
        for cells in cells.chunk_by(|a, b| a.task == b.task) {
            body.push_str(&html_table(&table::rows(cells)));
        }
    }
    let what = format!(
        "Where: {}. Points are medians over the rounds, bars the spread; ratios are medians of the \
         ratios turn by turn.",
        results.place
    );
    page(&what, &body)
}

/// A page: what it shows, and its plots and tables.
pub fn page(what: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>sabani bench</title>\n\
         <style>{STYLE}</style>\n<h1>sabani bench</h1>\n<p>{}</p>\n{body}</html>\n",
        escape(what)
    )
}

fn plot(cells: &[Cell]) -> Plot {
    let mut lines: Vec<Line> = Vec::new();
    let mut ticks: Vec<(f64, String)> = Vec::new();
    for cell in cells {
        let name = cell.transport.label();
        let headline = cell.headline();
        let x = cell.task.parameter() as f64;
        let point = Point {
            x,
            median: headline.median,
            min: headline.min,
            max: headline.max,
        };
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Line {
                name,
                points: vec![point],
            }),
        }
        if ticks.iter().all(|(at, _)| *at != x) {
            ticks.push((x, table::parameter(cell.task)));
        }
    }
    let unit = match cells[0].task {
        Task::Ping { .. } => "µs",
        Task::Burst { .. } => "MB/s",
        Task::Transactions { .. } => "s",
    };
    Plot { lines, ticks, unit }
}

/// A table; the first row is its header.
pub fn html_table(rows: &[Vec<String>]) -> String {
    let mut text = String::from("<table>\n");
    for (index, row) in rows.iter().enumerate() {
        let tag = if index == 0 { "th" } else { "td" };
        text.push_str("<tr>");
        for field in row {
            let _ = write!(text, "<{tag}>{}</{tag}>", escape(field));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</table>\n");
    text
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::samples;

    #[test]
    fn a_page_holds_plots_and_tables_and_loads_nothing() {
        let page = render(&samples::results());
        assert_eq!(page.matches("<svg").count(), 2);
        assert_eq!(page.matches("<table>").count(), 2);
        assert_eq!(page.matches("<polyline").count(), 4);
        assert!(!page.contains("NaN") && !page.contains("inf"));
        for loads in ["http:", "https:", "src=", "<script", "@import"] {
            assert!(!page.contains(loads), "{loads}");
        }
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("<&>"), "&lt;&amp;&gt;");
    }
}
