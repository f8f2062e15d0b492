//! Files and functions that fit into a head.

use super::{Broken, Source};

const FILE_LINES: usize = 900;
const FUNCTION_LINES: usize = 90;

/// Checks the lengths of one Rust file and its functions, tests left out.
pub fn check(source: &Source, broken: &mut Vec<Broken>) {
    if source.is_test() {
        return;
    }
    let lines = source.text.lines().count();
    if lines > FILE_LINES {
        let why = format!("{lines} lines: a file has at most {FILE_LINES}");
        broken.push(Broken::new(&source.path, 1, why));
    }
    // rustfmt puts a function's closing brace under the line that begins it.
    let mut function: Option<(usize, String)> = None;
    for (number, line) in source.lines_outside_tests() {
        match &function {
            None if begins_function(line) => {
                let indent = &line[..line.len() - line.trim_start().len()];
                function = Some((number, format!("{indent}}}")));
            }
            Some((start, end)) if line == end => {
                let lines = number - start + 1;
                if lines > FUNCTION_LINES {
                    let why = format!("{lines} lines: a function has at most {FUNCTION_LINES}");
                    broken.push(Broken::new(&source.path, *start, why));
                }
                function = None;
            }
            // A declaration without a body.
            Some((_, end))
                if line.ends_with(';') && line.len() - line.trim_start().len() < end.len() =>
            {
                function = None;
            }
            _ => {}
        }
    }
}

fn begins_function(line: &str) -> bool {
    let words = line.split_whitespace();
    let mut words = words.skip_while(|word| {
        word.starts_with("pub")
            || matches!(*word, "const" | "async" | "unsafe" | "extern" | "\"C\"")
    });
    words.next() == Some("fn") && !line.ends_with('}') && !line.ends_with(';')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::broken_in;

    fn with_function(lines: usize) -> String {
        let body = "    let _ = 1;\n".repeat(lines - 2);
        format!(
            "trait T {{\n    fn short(\n        &self,\n    );\n}}\npub(crate) fn long() {{\n{body}}}\n"
        )
    }

    #[test]
    fn long_functions_and_files_are_found() {
        assert!(broken_in("src/a.rs", &with_function(90), check).is_empty());
        assert_eq!(broken_in("src/a.rs", &with_function(91), check), [6]);
        assert_eq!(broken_in("src/a.rs", &"\n".repeat(901), check), [1]);
    }

    #[test]
    fn tests_may_be_long() {
        assert!(broken_in("src/a_tests.rs", &with_function(91), check).is_empty());
        let inside = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", with_function(91));
        assert!(broken_in("src/a.rs", &inside, check).is_empty());
        let item = "#[cfg(test)]\nimpl A {\n    fn a() {\n    }\n}\n";
        let behind = format!("{item}{}", with_function(91));
        assert_eq!(broken_in("src/a.rs", &behind, check), [11]);
        let value = "#[cfg(test)]\nconst A: A = A {\n    a: 1,\n};\n";
        let long = with_function(91);
        let at = long.find("pub").expect("it is public");
        assert_eq!(
            broken_in("src/a.rs", &format!("{value}{}", &long[at..]), check),
            [5]
        );
    }
}
