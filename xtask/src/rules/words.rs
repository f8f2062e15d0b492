//! What must not be left behind in any text.

use super::{Broken, Source};

/// Work left undone. (Written in pieces, so that this file does not break its own rule.)
const UNDONE: [&str; 6] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
    concat!("#[", "ignore]"),
];

/// Paths that exist on one machine only.
const PRIVATE: [&str; 4] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/tmp/", "bash"),
];

/// Checks one text file.
pub fn check(source: &Source, broken: &mut Vec<Broken>) {
    for (number, line) in source.text.lines().enumerate() {
        for word in UNDONE {
            if line.contains(word) {
                let why = format!("`{word}`: finish it, or file an issue");
                broken.push(Broken::new(&source.path, number + 1, why));
            }
        }
        for word in PRIVATE {
            if line.contains(word) {
                let why = format!("`{word}` is a path of somebody's own machine");
                broken.push(Broken::new(&source.path, number + 1, why));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::broken_in;

    #[test]
    fn what_was_left_behind_is_found() {
        let text = format!("fine\n// {}: later\nsee {}x\n", UNDONE[0], PRIVATE[0]);
        assert_eq!(broken_in("README.md", &text, check), [2, 3]);
    }
}
