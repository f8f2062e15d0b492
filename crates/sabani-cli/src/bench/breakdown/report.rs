//! What a run tells: a table and a bar for each variant, lines of JSON.

use std::fmt::Write;

use anyhow::Result;
use serde::Serialize;

use super::{Cell, Sample};
use crate::{
    bench::results::Summary,
    report::{
        Rendered,
        bars::{Bar, Bars, Part},
        page, text,
    },
    units::{format_figure, format_size},
};

const WHAT: &str = "Nanoseconds for a message out and its answer in, at one of two nodes; medians of the turns. seal is the \
                    difference between sealed and plain, copy is measured by itself.";

/// The parts of a message's way, in order.
const PARTS: [(&str, &str); 11] = [
    ("out", "messages"),
    ("out", "channel"),
    ("out", "copy"),
    ("out", "seal"),
    ("out", "system call"),
    ("between", "waiting"),
    ("in", "system call"),
    ("in", "seal"),
    ("in", "copy"),
    ("in", "channel"),
    ("in", "messages"),
];

/// In place of what was too short to be told.
const UNTOLD: &str = "?";

/// The layers, each of one colour.
const LAYERS: [&str; 6] = [
    "messages",
    "channel",
    "copy",
    "seal",
    "system call",
    "waiting",
];

/// One part. Rates are over the datagrams and the message's bytes in that direction.
#[derive(Serialize)]
struct PartLine {
    bench: &'static str,
    transport: &'static str,
    size_bytes: usize,
    direction: &'static str,
    layer: &'static str,
    ns: f64,
    packets: f64,
    ns_per_packet: f64,
    ns_per_byte: f64,
    rounds: usize,
}

/// A size, sealed or plain.
struct Column {
    transport: &'static str,
    size: usize,
    /// As [`PARTS`].
    parts: [f64; 11],
    packets_out: f64,
    packets_in: f64,
    rounds: usize,
}

impl Column {
    fn packets(&self, direction: &str) -> f64 {
        match direction {
            "out" => self.packets_out,
            "in" => self.packets_in,
            _ => self.packets_out + self.packets_in,
        }
    }

    /// A figure of one of its parts. Nothing takes no time at all: what seems to was not told from others' noise,
    /// and a plain node has no seal.
    fn shown(&self, part: usize, ns: f64) -> String {
        match PARTS[part].1 {
            "seal" if self.transport == "sabani-plain" => String::new(),
            _ if self.parts[part] <= 0.0 => UNTOLD.into(),
            _ => format_figure(ns),
        }
    }

    fn lines(&self) -> impl Iterator<Item = PartLine> {
        PARTS
            .iter()
            .zip(self.parts)
            .map(|(&(direction, layer), ns)| {
                let packets = self.packets(direction);
                PartLine {
                    bench: "breakdown",
                    transport: self.transport,
                    size_bytes: self.size,
                    direction,
                    layer,
                    ns,
                    packets,
                    ns_per_packet: ns / packets,
                    ns_per_byte: ns / self.size as f64,
                    rounds: self.rounds,
                }
            })
    }
}

fn median(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    Summary::of(samples.iter().map(of)).map_or(0.0, |summary| summary.median)
}

/// A size's columns: sealed, plain. What is told of the channel's time as a copy or the seal is taken off it.
fn columns(cell: &Cell) -> [Column; 2] {
    let copied = Summary::of(cell.copy_ns.iter().copied()).map_or(0.0, |summary| summary.median);
    let sides: [fn(&Sample) -> f64; 2] = [|s| s.channel_out, |s| s.channel_in];
    let seal = sides.map(|of| (median(&cell.sealed, of) - median(&cell.plain, of)).max(0.0));
    let column = |transport, samples: &[Sample], seal: [f64; 2]| {
        let [out, back] = [0, 1].map(|side| (median(samples, sides[side]) - seal[side]).max(0.0));
        let (copy_out, copy_in) = (copied.min(out), copied.min(back));
        Column {
            transport,
            size: cell.size,
            parts: [
                median(samples, |s| s.messages_out),
                out - copy_out,
                copy_out,
                seal[0],
                median(samples, |s| s.call_out),
                median(samples, |s| s.waiting),
                median(samples, |s| s.call_in),
                seal[1],
                copy_in,
                back - copy_in,
                median(samples, |s| s.messages_in),
            ],
            packets_out: median(samples, |s| s.packets_out),
            packets_in: median(samples, |s| s.packets_in),
            rounds: samples.len(),
        }
    };
    [
        column("sabani", &cell.sealed, seal),
        column("sabani-plain", &cell.plain, [0.0; 2]),
    ]
}

/// Renders all.
///
/// # Errors
/// If a figure cannot be written as JSON.
pub fn render(cells: &[Cell]) -> Result<Rendered> {
    let columns: Vec<Column> = cells.iter().flat_map(columns).collect();
    let (mut table, mut json, mut body) = (String::new(), String::new(), String::new());
    for transport in ["sabani", "sabani-plain"] {
        let columns: Vec<&Column> = columns
            .iter()
            .filter(|c| c.transport == transport)
            .collect();
        let rows = rows(&columns);
        let _ = write!(table, "\n{transport}\n\n{}", text::align(&rows));
        let _ = writeln!(body, "<h2>{transport}</h2>");
        body.push_str(&bars(&columns).render());
        body.push_str(&page::table(&rows));
        for line in columns.iter().flat_map(|column| column.lines()) {
            json += &(serde_json::to_string(&line)? + "\n");
        }
    }
    let _ = writeln!(table, "\n{WHAT}");
    if table.contains(UNTOLD) {
        let _ = writeln!(
            table,
            "{UNTOLD}: not told from the noise; more `--rounds` and longer `--seconds` tell more."
        );
    }
    Ok(Rendered {
        table,
        json,
        html: page::render("sabani bench breakdown", WHAT, &body),
    })
}

/// The header; a row for each part, of the largest message also by packet and by byte; the sum.
fn rows(columns: &[&Column]) -> Vec<Vec<String>> {
    let mut header = vec![String::new(), "ns".into()];
    header.extend(columns.iter().map(|column| format_size(column.size)));
    let largest = columns.iter().max_by_key(|column| column.size);
    header.extend(largest.iter().flat_map(|column| {
        let size = format_size(column.size);
        [format!("a packet of {size}"), format!("a byte of {size}")]
    }));
    let mut rows = vec![header];
    for (part, (direction, layer)) in PARTS.iter().enumerate() {
        let mut row = vec![(*direction).to_owned(), (*layer).to_owned()];
        row.extend(columns.iter().map(|c| c.shown(part, c.parts[part])));
        row.extend(largest.iter().flat_map(|column| {
            let line = column.lines().nth(part);
            line.into_iter().flat_map(|line| {
                [line.ns_per_packet, line.ns_per_byte].map(|ns| column.shown(part, ns))
            })
        }));
        rows.push(row);
    }
    let mut sum = vec![String::new(), "all".into()];
    sum.extend(columns.iter().map(|c| format_figure(c.parts.iter().sum())));
    sum.resize(rows[0].len(), String::new());
    rows.push(sum);
    rows
}

fn bars(columns: &[&Column]) -> Bars {
    Bars {
        parts: PARTS
            .map(|(direction, layer)| Part {
                name: format!("{layer} {direction}"),
                colour: LAYERS.iter().position(|name| *name == layer).unwrap_or(0),
                pale: direction == "in",
            })
            .into(),
        bars: columns
            .iter()
            .map(|column| Bar {
                name: format_size(column.size),
                parts: column.parts.into(),
            })
            .collect(),
        unit: "ns",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(channel: f64) -> Sample {
        Sample {
            messages_out: 1.0,
            channel_out: channel,
            call_out: 3.0,
            waiting: 4.0,
            call_in: 5.0,
            channel_in: channel + 10.0,
            messages_in: 6.0,
            packets_out: 2.0,
            packets_in: 4.0,
        }
    }

    fn cell() -> Cell {
        Cell {
            size: 2_048,
            sealed: vec![sample(50.0), sample(60.0), sample(70.0)],
            plain: vec![sample(40.0)],
            copy_ns: vec![15.0],
        }
    }

    #[test]
    fn seal_and_copy_are_taken_off_the_channel() {
        let [sealed, plain] = columns(&cell());
        assert_eq!(
            sealed.parts,
            [1.0, 25.0, 15.0, 20.0, 3.0, 4.0, 5.0, 20.0, 15.0, 35.0, 6.0]
        );
        assert_eq!(
            plain.parts,
            [1.0, 25.0, 15.0, 0.0, 3.0, 4.0, 5.0, 0.0, 15.0, 35.0, 6.0]
        );
    }

    #[test]
    fn what_was_lost_in_the_noise_is_no_zero() {
        let mut noisy = cell();
        noisy.plain = vec![sample(90.0)];
        let [sealed, plain] = columns(&noisy);
        let seal = PARTS.iter().position(|part| part.1 == "seal").unwrap();
        assert_eq!(sealed.shown(seal, 0.0), UNTOLD);
        assert_eq!(plain.shown(seal, 0.0), "");
        assert!(render(&[noisy]).unwrap().table.contains("--rounds"));
        assert!(!render(&[cell()]).unwrap().table.contains("--rounds"));
    }

    #[test]
    fn each_part_has_a_line_and_a_share_of_the_bar() {
        let rendered = render(&[cell()]).unwrap();
        let lines: Vec<serde_json::Value> = rendered
            .json
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 2 * PARTS.len());
        let seal = &lines[3];
        assert_eq!(
            (&seal["direction"], &seal["layer"]),
            (&"out".into(), &"seal".into())
        );
        assert_eq!(
            (&seal["ns"], &seal["ns_per_packet"]),
            (&20.0.into(), &10.0.into())
        );
        assert_eq!(rendered.html.matches("<svg").count(), 2);
        assert!(!rendered.html.contains("NaN") && !rendered.html.contains("inf"));
    }
}
