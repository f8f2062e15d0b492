//! One object per line and result.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use crate::bench::{
    results::{Cell, Results},
    task::Task,
};

/// One result. Figures are medians over the rounds; `min` and `max` are those of the first figure.
#[derive(Serialize)]
struct Line<'a> {
    bench: &'static str,
    transport: &'static str,
    sealed: bool,
    #[serde(flatten)]
    figures: Figures,
    min: f64,
    max: f64,
    lost: u64,
    rounds: usize,
    /// The schedule of a node's layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<String>,
    #[serde(rename = "where")]
    place: &'a str,
    /// To each other transport of the run: the median of the ratios turn by turn.
    ratio_to: BTreeMap<&'static str, f64>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Figures {
    Ping {
        size_bytes: usize,
        half_rtt_us_p50: f64,
        half_rtt_us_p99: f64,
        half_rtt_us_p999: f64,
    },
    Burst {
        size_bytes: usize,
        mb_per_s: f64,
        messages_per_s: f64,
    },
    Transactions {
        count: u64,
        seconds: f64,
    },
}

/// Renders the last task.
///
/// # Errors
/// If a figure cannot be written as JSON.
pub fn last(results: &Results) -> Result<String> {
    let mut text = String::new();
    let cells = results.by_task().next_back().unwrap_or_default();
    for cell in cells {
        text.push_str(&serde_json::to_string(&line(results, cell, cells))?);
        text.push('\n');
    }
    Ok(text)
}

fn line<'a>(results: &'a Results, cell: &Cell, all: &[Cell]) -> Line<'a> {
    let headline = cell.headline();
    let others = all.iter().filter(|other| other.transport != cell.transport);
    Line {
        bench: cell.task.bench(),
        transport: cell.transport.name(),
        sealed: cell.transport.is_sealed(),
        figures: figures(cell),
        min: headline.min,
        max: headline.max,
        lost: cell.lost(),
        rounds: cell.samples.len(),
        threads: cell.transport.threads(&results.schedule),
        place: &results.place,
        ratio_to: others
            .filter_map(|other| Some((other.transport.label(), cell.ratio_to(other)?)))
            .collect(),
    }
}

fn figures(cell: &Cell) -> Figures {
    let headline = cell.headline().median;
    let half_rtt_us = |quantile| cell.median_of(|turn| turn.half_rtt_us(quantile)).median;
    match cell.task {
        Task::Ping { size, .. } => Figures::Ping {
            size_bytes: size,
            half_rtt_us_p50: headline,
            half_rtt_us_p99: half_rtt_us(0.99),
            half_rtt_us_p999: half_rtt_us(0.999),
        },
        Task::Burst { size, .. } => Figures::Burst {
            size_bytes: size,
            mb_per_s: headline,
            messages_per_s: headline * 1e6 / size as f64,
        },
        Task::Transactions { count } => Figures::Transactions {
            count,
            seconds: headline,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::samples;
    use serde_json::Value;

    fn all() -> String {
        let results = samples::results();
        let mut pings = results.clone();
        pings.cells.truncate(2);
        last(&pings).unwrap() + &last(&results).unwrap()
    }

    #[test]
    fn each_line_is_an_object() {
        let text = all();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 4);
        let ping = &lines[0];
        assert_eq!(ping["bench"], "ping");
        assert_eq!(ping["transport"], "raw-udp");
        assert_eq!(ping["sealed"], false);
        assert_eq!(ping["size_bytes"], 4);
        assert_eq!(ping["half_rtt_us_p50"], 2.5);
        assert_eq!(ping["half_rtt_us_p99"], 5.0);
        assert_eq!(ping["half_rtt_us_p999"], 10.0);
        assert_eq!((&ping["min"], &ping["max"]), (&2.0.into(), &3.0.into()));
        assert_eq!(
            (&ping["where"], &ping["rounds"]),
            (&"loopback".into(), &3.into())
        );
        assert_eq!(ping["threads"], Value::Null);
        assert_eq!(ping["ratio_to"]["tcp-cubic"], 0.5);
        let burst = &lines[3];
        assert_eq!(
            (&burst["mb_per_s"], &burst["lost"]),
            (&4250.0.into(), &2.into())
        );
    }

    #[test]
    fn fields_come_in_the_stated_order() {
        let text = all();
        let start = r#"{"bench":"ping","transport":"raw-udp","sealed":false,"size_bytes":4,"half_rtt_us_p50":2.5,"#;
        assert!(text.starts_with(start), "{text}");
    }
}
