//! A page that shows what was measured: curves, the network, and how well it predicts.

use std::fmt::Write;

use sabani_model::measure::Measured;
use sabani_model::network::{Estimate, Graph, Point as Length, Transport};

use super::measure::{format_capacity, summary};
use crate::report::page;
use crate::report::svg::{Line, Plot, Point, Scale, Style};
use crate::units::format_figure;

/// The whole page.
pub fn render(measured: &Measured) -> String {
    let mut body = format!("<pre>{}</pre>\n", page::escape(&summary(measured)));
    for (name, transport) in &measured.network.transports {
        let _ = write!(
            body,
            "<h2>Messages over {}</h2>\n<p>g(m): the least time from a message to the next; os(m), \
             or(m): how long sending and taking it keep a processor busy. With traffic both ways; bars \
             are 90 % intervals.</p>\n{}{}",
            page::escape(name),
            curves(transport).render(),
            lengths(&transport.points),
        );
    }
    body += "<h2>The network</h2>\n";
    body += &drawing(&measured.network.graph);
    body += "<h2>What was held back</h2>\n";
    body += &held_back(&measured.held_back);
    page::render(
        "A network",
        "Measured by `sabani model measure`; docs/model.md says how to read it.",
        &body,
    )
}

fn curves(transport: &Transport) -> Plot {
    let line = |name: &str, quantity: fn(&Length) -> Estimate| Line {
        name: name.into(),
        style: Style::Bars,
        points: transport
            .points
            .iter()
            .map(|point| {
                let estimate = quantity(point);
                Point {
                    // Empty messages, too, have a place on a logarithmic axis.
                    x: point.bytes.max(1.0),
                    median: estimate.value / 1e3,
                    min: estimate.low / 1e3,
                    max: estimate.high / 1e3,
                }
            })
            .filter(|point| point.median > 0.0)
            .collect(),
    };
    Plot {
        lines: vec![
            line("g(m)", |point| point.gap_ns),
            line("os(m)", |point| point.send_ns),
            line("or(m)", |point| point.receive_ns),
        ],
        scale: Scale::Logarithmic,
        ticks: Vec::new(),
        unit: "µs, by bytes",
    }
}

fn lengths(points: &[Length]) -> String {
    let us = |estimate: Estimate| {
        let [value, low, high] =
            [estimate.value, estimate.low, estimate.high].map(|ns| format_figure(ns / 1e3));
        format!("{value} ({low} to {high})")
    };
    let header = ["bytes", "g(m), µs", "os(m), µs", "or(m), µs"].map(String::from);
    let mut rows = vec![header.to_vec()];
    rows.extend(points.iter().map(|point| {
        vec![
            format!("{}", point.bytes),
            us(point.gap_ns),
            us(point.send_ns),
            us(point.receive_ns),
        ]
    }));
    page::table(&rows)
}

/// How well rates are predicted that were held back, if there was time for some.
fn held_back(rates: &[(f64, f64)]) -> String {
    if rates.is_empty() {
        return "<p>Nothing was: there was no time to check how well the graph predicts.</p>\n"
            .into();
    }
    let what = "<p>Rates of simultaneous flows that the graph was not made from: what it expects (across) and what was seen \
                (upwards), in bytes per second. What is on the line is predicted exactly.</p>\n";
    what.to_owned() + &residuals(rates).render()
}

fn residuals(held_back: &[(f64, f64)]) -> Plot {
    let dots = held_back
        .iter()
        .map(|(expected, seen)| Point::single(*expected, *seen));
    let ends = held_back.iter().map(|(expected, _)| *expected);
    let (least, most) = ends.fold((f64::INFINITY, 0.0_f64), |(least, most), end| {
        (least.min(end), most.max(end))
    });
    let diagonal = [least, most].map(|end| Point::single(end, end));
    Plot {
        lines: vec![
            Line {
                name: "seen".into(),
                points: dots.collect(),
                style: Style::Dots,
            },
            Line {
                name: "expected".into(),
                points: diagonal.into(),
                style: Style::Plain,
            },
        ],
        scale: Scale::Linear,
        ticks: Vec::new(),
        unit: "B/s",
    }
}

/// Where a drawing puts a row of hosts.
const WIDTH: usize = 720;
const HOST: usize = 86;
const ROW: usize = 22;
const HEADER: usize = 26;

/// Groups as boxes with their hosts, each with what its trunk carries.
fn drawing(graph: &Graph) -> String {
    let mut boxes = String::new();
    let mut top = 4;
    let grouped = graph.groups.iter().map(|group| {
        let parent = group
            .parent
            .map(|parent| format!(" in {}", graph.groups[parent].name));
        let trunk = format!(
            "{}{}: out {}, in {}",
            group.name,
            parent.unwrap_or_default(),
            format_capacity(&group.out),
            format_capacity(&group.into)
        );
        (trunk, group.hosts.clone())
    });
    let of_hosts = graph.groups_of_hosts();
    let alone = (0..graph.hosts.len()).filter(|host| of_hosts[*host].is_empty());
    let rest = ("behind no trunk that was found".to_owned(), alone.collect());
    for (title, hosts) in grouped
        .chain([rest])
        .filter(|(_, hosts): &(_, Vec<_>)| !hosts.is_empty())
    {
        let columns = WIDTH / HOST;
        let height = HEADER + ROW * hosts.len().div_ceil(columns);
        let _ = write!(
            boxes,
            r#"<rect class="grid" fill="none" x="1" y="{top}" width="{}" height="{height}" rx="6"/><text x="8" y="{}">{}</text>"#,
            WIDTH - 2,
            top + 17,
            page::escape(&title),
        );
        for (at, &host) in hosts.iter().enumerate() {
            let host = &graph.hosts[host];
            let what = format!(
                "{}: out {}, in {}, both {}",
                host.name,
                format_capacity(&host.out),
                format_capacity(&host.into),
                format_capacity(&host.both)
            );
            let _ = write!(
                boxes,
                r#"<g><title>{}</title><text x="{}" y="{}">{}</text></g>"#,
                page::escape(&what),
                12 + HOST * (at % columns),
                top + HEADER + 13 + ROW * (at / columns),
                page::escape(&host.name),
            );
        }
        top += height + 8;
    }
    format!(r#"<svg viewBox="0 0 {WIDTH} {top}" role="img">{boxes}</svg>"#)
}

#[cfg(test)]
mod tests {
    use sabani_model::network::{Capacity, Group, Host};

    use super::*;

    #[test]
    fn where_nothing_was_held_back_that_is_told_and_nothing_drawn() {
        let nothing = held_back(&[]);
        assert!(
            nothing.contains("no time to check") && !nothing.contains("NaN"),
            "{nothing}"
        );
        assert!(held_back(&[(1e6, 9e5)]).contains("<svg"));
    }

    #[test]
    fn every_host_is_drawn_once() {
        let host = |index: usize| Host {
            name: format!("h{index}"),
            out: Capacity::exact(1e8),
            into: Capacity::exact(1e8),
            both: Capacity::default(),
        };
        let mut graph = Graph {
            hosts: (0..20).map(host).collect(),
            ..Graph::default()
        };
        graph.groups = vec![Group::new("<a>", (0..12).collect())];
        let svg = drawing(&graph);
        for index in 0..20 {
            assert_eq!(svg.matches(&format!(">h{index}<")).count(), 1, "{index}");
        }
        assert!(svg.contains("&lt;a&gt;") && svg.contains("behind no trunk"));
    }
}
