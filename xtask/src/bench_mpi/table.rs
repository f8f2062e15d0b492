//! What came of it, as tables for the documentation and as lines of JSON.

use std::fmt::Write;

use serde_json::json;

use super::contest::{Contest, Figure, Role};
use super::statistics::Interval;

/// A cell that is slower than this, as surely as can be told, is named.
const SLOW: f64 = 0.8;

/// All tables.
pub fn render(contest: &Contest) -> String {
    let mut text = String::new();
    for (figure, name) in [
        (Figure::Call, "One call, µs"),
        (Figure::Loop, "Calls back to back, mean, µs"),
    ] {
        let _ = writeln!(text, "\n### {name}\n");
        text.push_str(&table(contest, figure));
        text.push('\n');
        for (role, name) in [(Role::Plain, "plain"), (Role::Sealed, "sealed")] {
            let mean = shown(contest.mean_ratio(role, figure));
            let slow = slow(contest, role, figure);
            let _ = writeln!(
                text,
                "Geometric mean with more than two ranks, {name}: {mean} times as fast as the best TCP peer of each cell. \
                 Surely slower than {SLOW}: {slow}."
            );
        }
    }
    text
}

fn table(contest: &Contest, figure: Figure) -> String {
    let names = contest.contestants.iter().map(|one| one.name.as_str());
    let ratios = ["plain : best TCP", "sealed : best TCP"];
    let mut header = vec!["ranks", "collective", "bytes"];
    header.extend(names.chain(ratios));
    let mut text = format!(
        "| {} |\n|{}\n",
        header.join(" | "),
        "---|".repeat(header.len())
    );
    for cell in &contest.cells {
        let _ = write!(
            text,
            "| {} | {} | {} |",
            cell.ranks, cell.collective, cell.size_bytes
        );
        for place in 0..contest.contestants.len() {
            let _ = write!(text, " {:.0} |", cell.median(place, figure).middle);
        }
        for role in [Role::Plain, Role::Sealed] {
            let _ = write!(text, " {} |", shown(contest.ratio(cell, role, figure)));
        }
        text.push('\n');
    }
    text
}

/// The cells that are slow.
fn slow(contest: &Contest, role: Role, figure: Figure) -> String {
    let cells = contest.cells.iter();
    let slow = cells.filter(|cell| contest.ratio(cell, role, figure).high < SLOW);
    let named = slow.map(|cell| {
        format!(
            "{} {} B of {}",
            cell.collective, cell.size_bytes, cell.ranks
        )
    });
    let named: Vec<_> = named.collect();
    if named.is_empty() {
        "none".into()
    } else {
        named.join(", ")
    }
}

fn shown(Interval { low, middle, high }: Interval) -> String {
    format!("{middle:.2} ({low:.2} to {high:.2})")
}

/// A line for each cell and contestant.
pub fn json(contest: &Contest) -> String {
    let mut text = String::new();
    for cell in &contest.cells {
        for (place, contestant) in contest.contestants.iter().enumerate() {
            let line = json!({
                "bench": "mpi",
                "collective": cell.collective,
                "ranks": cell.ranks,
                "size_bytes": cell.size_bytes,
                "library": contestant.name,
                "us_p50": cell.median(place, Figure::Call).middle,
                "loop_us": cell.median(place, Figure::Loop).middle,
                "ratio_to_tcp": matches!(contestant.role, Role::Plain | Role::Sealed)
                    .then(|| contest.ratio(cell, contestant.role, Figure::Call).middle),
            });
            let _ = writeln!(text, "{line}");
        }
    }
    text
}
