//! What a run tells: tables, lines of JSON, a page with plots over the size.

use std::fmt::Write;

use anyhow::Result;

use super::cell::{Cell, Setup};
use crate::{
    bench::{cpu::MAX_BUSY_RATIO, results::Summary},
    lab::Rate,
    report::{
        Rendered, page,
        svg::{Line, Plot, Point, Scale, Style},
        text,
    },
    units::{count, format_figure, format_size},
};

const WHAT: &str = "µs, less is better: one call, from the first rank's entry to the last one's exit; and in a loop, the \
                    mean of calls back to back.";
const COMPARED: &str = "÷ compares single calls: the median of the ratios turn by turn.";

/// Renders all; in a lab, with what ports of such a rate allow.
///
/// # Errors
/// If a figure cannot be written as JSON.
pub fn render(cells: &[Cell], rate: Option<Rate>) -> Result<Rendered> {
    let mut table = String::new();
    let mut body = String::new();
    for ranks in distinct(cells, |setup| setup.ranks) {
        let cells: Vec<&Cell> = cells
            .iter()
            .filter(|cell| cell.setup.ranks == ranks)
            .collect();
        let title = count(ranks, "rank");
        let rows = rows(&cells, rate);
        let _ = write!(table, "\n{title}\n\n{}", text::align(&rows));
        let _ = writeln!(body, "<h2>{title}</h2>");
        body.push_str(&plots(&cells));
        body.push_str(&page::table(&rows));
    }
    let carriers = distinct(cells, Setup::carrier);
    let compared =
        carriers.iter().any(|name| !is_own(name)) && carriers.iter().any(|name| is_own(name));
    let notes = [
        Some(WHAT.to_owned()),
        compared.then(|| COMPARED.into()),
        rate.map(what_of_wires),
    ];
    let what = Vec::from_iter(notes.into_iter().flatten()).join(" ");
    let _ = writeln!(table, "\n{what}");
    let mut json = String::new();
    for cell in cells {
        json += &(serde_json::to_string(&cell.line(rate))? + "\n");
    }
    Ok(Rendered {
        table,
        json,
        html: page::render("sabani bench coll", &what, &body),
    })
}

/// The values that a part of the setup takes, in the order of their first appearance.
fn distinct<'a, T: PartialEq>(
    cells: impl IntoIterator<Item = &'a Cell>,
    part: impl Fn(&'a Setup) -> T,
) -> Vec<T> {
    let mut values = Vec::new();
    for cell in cells {
        let value = part(&cell.setup);
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

impl Setup {
    /// The transport, and whether it is sealed.
    fn carrier(&self) -> String {
        match self.sealed {
            false if self.transport == "sabani" => "sabani-plain".into(),
            _ => self.transport.clone(),
        }
    }

    /// What its row in the table is.
    fn row(&self) -> [String; 3] {
        let size = match self.collective.as_str() {
            "barrier" => String::new(),
            _ => format_size(self.size_bytes),
        };
        [self.collective.clone(), self.algorithm.clone(), size]
    }
}

/// A row for each call and algorithm; for each transport two columns, and for Sabani's how it compares with each other one.
fn rows(cells: &[&Cell], rate: Option<Rate>) -> Vec<Vec<String>> {
    let carriers = distinct(cells.iter().copied(), Setup::carrier);
    let (own, others): (Vec<_>, Vec<_>) = carriers.iter().partition(|name| is_own(name));
    let mut header: Vec<String> = ["collective", "algorithm", "size"].map(String::from).into();
    for carrier in own.iter().chain(&others) {
        header.extend([carrier.to_string(), "loop".into()]);
        header.extend(rate.map(|_| "of the wire".into()));
        let compared = others.iter().filter(|_| is_own(carrier));
        header.extend(compared.map(|other| format!("÷ {other}")));
    }
    let mut rows = vec![header];
    for row in distinct(cells.iter().copied(), Setup::row) {
        let of_row = |carrier: &str| {
            let mut of_row = cells.iter().filter(|cell| cell.setup.row() == row);
            of_row.find(|cell| cell.setup.carrier() == carrier)
        };
        let mut fields = Vec::from(row.clone());
        for carrier in own.iter().chain(&others) {
            let cell = of_row(carrier);
            let figure = |summary: fn(&Cell) -> Summary| {
                cell.map_or_else(String::new, |cell| format_figure(summary(cell).median))
            };
            fields.extend([figure(Cell::call_us), figure(Cell::loop_us)]);
            fields.extend(
                rate.map(|rate| cell.map_or_else(String::new, |cell| of_the_wire(cell, rate))),
            );
            for other in others.iter().filter(|_| is_own(carrier)) {
                let ratio = cell
                    .zip(of_row(other))
                    .and_then(|(cell, other)| cell.over(other));
                fields.push(ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")));
            }
        }
        rows.push(fields);
    }
    rows
}

fn what_of_wires(rate: Rate) -> String {
    format!(
        "lab, {rate} to each host; of the wire: what the bytes that must come in through the busiest port take at its \
         payload rate, of one call; invalid: the processors were busy for more than {:.0} % of the time.",
        MAX_BUSY_RATIO * 100.0
    )
}

/// Which part of its ideal speed a call has, and whether that means something.
fn of_the_wire(cell: &Cell, rate: Rate) -> String {
    let ratio = cell.setup.ideal_us(rate) / cell.call_us().median;
    match cell.is_valid() {
        true => format!("{ratio:.2}"),
        false => format!("{ratio:.2} invalid"),
    }
}

/// Whether a carrier is Sabani.
fn is_own(carrier: &str) -> bool {
    carrier.starts_with("sabani")
}

/// A plot for each collective, over the size.
fn plots(cells: &[&Cell]) -> String {
    let mut body = String::new();
    let sized: Vec<&Cell> = cells
        .iter()
        .copied()
        .filter(|cell| cell.setup.size_bytes > 0)
        .collect();
    for of_collective in sized.chunk_by(|a, b| a.setup.collective == b.setup.collective) {
        let _ = writeln!(body, "<h3>{}</h3>", of_collective[0].setup.collective);
        body.push_str(&plot(of_collective).render());
    }
    body
}

/// A line for each transport and wish; without one, whatever the rule chooses for a size.
fn plot(cells: &[&Cell]) -> Plot {
    let key = |setup: &Setup| (setup.carrier(), setup.wish.clone());
    let keys = distinct(cells.iter().copied(), key);
    let lines = keys.into_iter().map(|of_line| {
        let cells = cells.iter().filter(|cell| key(&cell.setup) == of_line);
        let point = |cell: &&Cell| {
            let Summary { median, min, max } = cell.call_us();
            let x = cell.setup.size_bytes as f64;
            Point {
                x,
                median,
                min,
                max,
            }
        };
        let (carrier, wish) = &of_line;
        let method = wish.split_once('=').map_or("", |(_, method)| method);
        Line {
            name: format!("{carrier} {method}").trim_end().into(),
            points: cells.map(point).collect(),
            style: Style::Bars,
        }
    });
    let sizes = distinct(cells.iter().copied(), |setup| setup.size_bytes);
    let tick = |size: usize| (size as f64, format_size(size));
    Plot {
        lines: lines.collect(),
        scale: Scale::Logarithmic,
        ticks: sizes.into_iter().map(tick).collect(),
        unit: "µs",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::bench::coll::cell::{Turn, add};

    fn turn(call_us: f64) -> Turn {
        Turn {
            call_us,
            loop_us: 5.0,
            cpu_busy_ratio: 0.7,
        }
    }

    fn cells() -> Vec<Cell> {
        let mut cells = Vec::new();
        for (sealed, factor) in [(true, 2.0), (false, 1.0)] {
            for (algorithm, size_bytes) in [("binomial", 64), ("chain", 65536)] {
                for us in [30.0, 10.0, 20.0] {
                    let setup = Setup {
                        collective: "bcast".into(),
                        algorithm: algorithm.into(),
                        wish: String::new(),
                        ranks: 4,
                        size_bytes,
                        transport: "sabani".into(),
                        sealed,
                        threads: Some("inline".into()),
                    };
                    add(&mut cells, setup, turn(us * factor));
                }
            }
        }
        cells
    }

    #[test]
    fn lines_tell_medians_of_turns_in_the_order_that_is_documented() {
        let json = render(&cells(), None).unwrap().json;
        let start = r#"{"bench":"coll","collective":"bcast","algorithm":"binomial","ranks":4,"size_bytes":64,"transport":"sabani","sealed":true,"us_p50":40.0,"#;
        assert!(json.starts_with(start), "{json}");
        let last: Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
        assert_eq!(
            (&last["us_p50"], &last["loop_us"]),
            (&20.0.into(), &5.0.into())
        );
        assert_eq!(
            (&last["us_min"], &last["us_max"]),
            (&10.0.into(), &30.0.into())
        );
        assert_eq!(last["rounds"], 3);
        assert_eq!(last["threads"], "inline");
    }

    #[test]
    fn a_table_has_a_row_for_each_size_and_a_plot_a_line_for_each_transport() {
        let rendered = render(&cells(), None).unwrap();
        let words: Vec<_> = rendered.table.split_whitespace().collect();
        let row = [
            "bcast", "chain", "64", "KiB", "40.0", "5.00", "20.0", "5.00",
        ];
        assert!(
            words.windows(8).any(|found| found == row),
            "{}",
            rendered.table
        );
        assert!(!rendered.table.contains("÷"), "{}", rendered.table);
        assert_eq!(rendered.html.matches("<svg").count(), 1);
        assert_eq!(rendered.html.matches("<polyline").count(), 2);
    }
    #[test]
    fn sabani_is_compared_with_tcp_turn_by_turn() {
        let mut cells = cells();
        // Ratios of 3, 1 and 0.5 to the turns of the plain one.
        for call_us in [10.0, 10.0, 40.0] {
            let setup = Setup {
                transport: "tcp-cubic".into(),
                threads: None,
                ..cells[2].setup.clone()
            };
            add(&mut cells, setup, turn(call_us));
        }
        let rendered = render(&cells, None).unwrap();
        let header = "sabani-plain  loop  ÷ tcp-cubic  tcp-cubic  loop";
        assert!(rendered.table.contains(header), "{}", rendered.table);
        let row = rendered
            .table
            .lines()
            .find(|line| line.contains("64 B"))
            .unwrap();
        let words: Vec<_> = row.split_whitespace().collect();
        assert_eq!(
            words[4..],
            [
                "40.0", "5.00", "2.00", "20.0", "5.00", "1.00", "10.0", "5.00"
            ]
        );
    }
    #[test]
    fn in_a_lab_the_wire_and_the_processors_are_told() {
        let mut cells = cells();
        cells.retain(|cell| cell.setup.size_bytes == 65536 && cell.setup.sealed);
        for cell in &mut cells {
            cell.setup.collective = "alltoall".into();
        }
        let rendered = render(&cells, Some("1gbit".parse().unwrap())).unwrap();
        // Three blocks of 64 KiB at 121.5 MB/s.
        let line: Value = serde_json::from_str(rendered.json.trim()).unwrap();
        assert!(
            (line["ideal_us"].as_f64().unwrap() - 1617.8).abs() < 0.1,
            "{line}"
        );
        assert_eq!(
            (&line["where"], &line["valid"]),
            (&"lab".into(), &false.into())
        );
        assert!(rendered.table.contains("invalid"), "{}", rendered.table);
    }
}
