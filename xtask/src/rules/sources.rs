//! Where unsafe code may be, and that the state machine forbids it.

use std::path::Path;

use super::{Broken, Source};

/// The only places with unsafe code outside tests: system calls, a library opened at run time, and buffers and values that
/// threads share.
const UNSAFE: [&str; 5] = [
    "crates/sabani-launch/src/sys",
    "crates/sabani-ring/src/barrier.rs",
    "crates/sabani-ring/src/biased.rs",
    "crates/sabani-ring/src/pool.rs",
    "crates/sabani-udp/src/sys",
];
/// Roots of crates in which the compiler itself must refuse it.
const FORBIDS: [&str; 4] = [
    "crates/sabani-collective/src/lib.rs",
    "crates/sabani-model/src/lib.rs",
    "crates/sabani-proto/src/lib.rs",
    "crates/sabani-sim/src/lib.rs",
];

/// Checks one Rust file.
pub fn check(source: &Source, broken: &mut Vec<Broken>) {
    let path = source.path.as_path();
    if FORBIDS.iter().any(|root| path == Path::new(root))
        && !source.text.contains("#![forbid(unsafe_code)]")
    {
        broken.push(Broken::new(path, 1, "this crate must forbid unsafe code"));
    }
    if source.is_test() || UNSAFE.iter().any(|place| path.starts_with(place)) {
        return;
    }
    for (number, line) in source.lines_outside_tests() {
        let code = code(line);
        let mut words = code.split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
        if words.any(|word| word == "unsafe") {
            let why = format!("unsafe code belongs into {}", UNSAFE.join(" or "));
            broken.push(Broken::new(path, number, why));
        }
    }
}

/// A line without its comment, and with nothing in its strings: neither is code, and what stands beside them is. Strings that
/// go on in the next line are not followed.
fn code(line: &str) -> String {
    let mut code = String::new();
    let mut rest = line.chars().peekable();
    let mut in_string = false;
    while let Some(c) = rest.next() {
        match (in_string, c) {
            (true, '\\') => drop(rest.next()),
            (_, '"') => {
                in_string = !in_string;
                code.push('"');
            }
            (true, _) => {}
            (false, '/') if rest.peek() == Some(&'/') => break,
            // A quotation mark by itself begins no string.
            (false, '\'') if rest.peek() == Some(&'"') => drop(rest.next()),
            (false, c) => code.push(c),
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::broken_in;

    #[test]
    fn unsafe_code_is_found_where_it_must_not_be() {
        let code = "// unsafe\n#![deny(unsafe_code)]\nlet x = unsafe { y };\n";
        assert_eq!(broken_in("crates/sabani/src/a.rs", code, check), [3]);
        assert_eq!(broken_in("crates/sabani-ring/src/a.rs", code, check), [3]);
        assert!(broken_in("crates/sabani-udp/src/sys/a.rs", code, check).is_empty());
        assert!(broken_in("crates/sabani-ring/src/pool.rs", code, check).is_empty());
        assert!(broken_in("crates/sabani/tests/a.rs", code, check).is_empty());
    }

    #[test]
    fn strings_hide_no_code_beside_them() {
        let code = "let x = unsafe { open(\"a // b\") };\nlet y = (\"http://a\", unsafe { z });\n\
                    say(\"it is \\\"unsafe\\\" // \");\nlet z = ('\"', \"unsafe\"); // unsafe\n";
        assert_eq!(broken_in("crates/sabani/src/a.rs", code, check), [1, 2]);
    }

    #[test]
    fn what_follows_an_item_for_tests_is_code() {
        let tests = "#[cfg(test)]\nimpl A {\n    fn a() {\n        unsafe { b() }\n    }\n}\n";
        let code = format!("{tests}\nfn c() {{ unsafe {{ d() }} }}\n{tests}");
        assert_eq!(broken_in("crates/sabani/src/a.rs", &code, check), [8]);
    }

    #[test]
    fn the_state_machine_must_forbid_it() {
        assert_eq!(broken_in(FORBIDS[0], "", check), [1]);
        assert!(broken_in(FORBIDS[0], "#![forbid(unsafe_code)]\n", check).is_empty());
    }
}
