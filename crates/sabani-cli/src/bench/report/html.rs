//! A page that needs nothing else: plots over size, and the tables.

use std::fmt::Write;

use super::table;
use crate::bench::{
    results::{Cell, Results},
    task::Task,
};
use crate::report::{
    page::{self, escape},
    svg::{Line, Plot, Point, Scale, Style},
};

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
            body.push_str(&page::table(&table::rows(cells)));
        }
    }
    let better_tcp = match table::has_both_tcps(results) {
        true => format!(" {}.", table::BETTER_TCP),
        false => String::new(),
    };
    let what = format!(
        "Where: {}. Points are medians over the rounds, bars the spread; ratios are medians of the \
         ratios turn by turn.{better_tcp}",
        results.place
    );
    page::render("sabani bench", &what, &body)
}

fn plot(cells: &[Cell]) -> Plot {
    let mut lines: Vec<Line> = Vec::new();
    let mut ticks: Vec<(f64, String)> = Vec::new();
    let (unit, scale) = match cells[0].task {
        Task::Ping { .. } => ("µs", 1.0),
        Task::Burst { .. } => ("MB/s", 1.0),
        Task::Transactions { .. } => ("ms", 1e3),
    };
    for cell in cells {
        let name = cell.transport.label();
        let headline = cell.headline();
        let x = cell.task.parameter() as f64;
        let point = Point {
            x,
            median: headline.median * scale,
            min: headline.min * scale,
            max: headline.max * scale,
        };
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Line {
                name: name.into(),
                points: vec![point],
                style: Style::Bars,
            }),
        }
        if ticks.iter().all(|(at, _)| *at != x) {
            ticks.push((x, table::parameter(cell.task)));
        }
    }
    Plot {
        lines,
        scale: Scale::Logarithmic,
        ticks,
        unit,
    }
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
}
