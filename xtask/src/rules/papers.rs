//! Every mechanism of the papers has its line in `docs/papers.md`.

use std::collections::HashSet;
use std::path::Path;

use super::{Broken, Source};

/// The papers' rows: letter and highest number.
const ROWS: [(char, u32); 4] = [('U', 20), ('L', 6), ('H', 9), ('M', 8)];

/// Checks the table, once there is one.
pub fn check(sources: &[Source], broken: &mut Vec<Broken>) {
    let path = Path::new("docs/papers.md");
    let Some(papers) = sources.iter().find(|source| source.path == path) else {
        return;
    };
    let words = papers.text.split(|c: char| !c.is_ascii_alphanumeric());
    let named: HashSet<&str> = words.collect();
    for (letter, last) in ROWS {
        for row in (1..=last).map(|number| format!("{letter}{number}")) {
            if !named.contains(&row[..]) {
                broken.push(Broken::new(path, 1, format!("row {row} is missing")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_rows_are_named() {
        let papers = Source {
            path: "docs/papers.md".into(),
            text: "| U1 | here |\n| (L6) U20a |".into(),
        };
        let mut broken = Vec::new();
        check(&[papers], &mut broken);
        assert_eq!(broken.len(), 20 + 6 + 9 + 8 - 2);
        assert_eq!(broken[0].why, "row U2 is missing");
    }
}
