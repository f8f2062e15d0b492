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
        let code = line.split("//").next().unwrap_or_default();
        let mut words = code.split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
        // A word in a string is no code.
        if words.any(|word| word == "unsafe") && !code.contains('"') {
            let why = format!("unsafe code belongs into {}", UNSAFE.join(" or "));
            broken.push(Broken::new(path, number, why));
        }
    }
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
    fn the_state_machine_must_forbid_it() {
        assert_eq!(broken_in(FORBIDS[0], "", check), [1]);
        assert!(broken_in(FORBIDS[0], "#![forbid(unsafe_code)]\n", check).is_empty());
    }
}
