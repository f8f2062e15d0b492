//! Which crate may import which.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Broken;
use crate::shell;

/// Each crate, and the crates of ours that it may import. Floors are counted from below; an edge
/// (the command, the bindings) is imported by nobody.
const MAY_IMPORT: [(&str, &[&str]); 12] = [
    ("sabani-ring", &[]),
    ("sabani-proto", &[]),
    ("sabani-launch", &[]),
    ("sabani-udp", &[]),
    ("sabani-collective", &[]),
    // Neither imports the other: what predicts and what is predicted share the schedules only.
    ("sabani-model", &["sabani-collective"]),
    ("sabani-sim", &["sabani-proto", "sabani-collective"]),
    (
        "sabani",
        &[
            "sabani-ring",
            "sabani-proto",
            "sabani-udp",
            "sabani-collective",
            "sabani-launch",
            "sabani-model",
        ],
    ),
    (
        "sabani-cli",
        &[
            "sabani",
            "sabani-collective",
            "sabani-launch",
            "sabani-model",
            "sabani-ring",
            "sabani-sim",
        ],
    ),
    ("sabani-tests", &["sabani"]),
    ("sabani-fuzz", &["sabani-proto", "sabani-sim"]),
    ("xtask", &[]),
];

/// Checks every crate of the workspaces.
pub fn check(broken: &mut Vec<Broken>) -> Result<()> {
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        if !shell::root().join(manifest).exists() {
            continue;
        }
        let arguments = format!("metadata --no-deps --format-version 1 --manifest-path {manifest}");
        let metadata: Value = serde_json::from_str(&shell::output(&mut shell::cargo(&arguments))?)
            .context("`cargo metadata` prints JSON")?;
        for package in array(&metadata["packages"]) {
            check_package(package, broken);
        }
    }
    Ok(())
}

fn check_package(package: &Value, broken: &mut Vec<Broken>) {
    let name = package["name"].as_str().unwrap_or_default();
    let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
    let path = manifest.strip_prefix(shell::root()).unwrap_or(manifest);
    let known = MAY_IMPORT.iter().find(|(krate, _)| *krate == name);
    let Some((_, allowed)) = known else {
        broken.push(Broken::new(
            path,
            1,
            format!("`{name}` has no floor: see xtask/src/rules/floors.rs"),
        ));
        return;
    };
    let imports = array(&package["dependencies"]).filter(|import| import["path"].is_string());
    for import in imports.filter_map(|import| import["name"].as_str()) {
        if !allowed.contains(&import) {
            broken.push(Broken::new(
                path,
                1,
                format!("`{name}` must not import `{import}`"),
            ));
        }
    }
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_from_above_is_found() {
        let package = serde_json::json!({
            "name": "sabani-proto",
            "manifest_path": "crates/sabani-proto/Cargo.toml",
            "dependencies": [
                { "name": "sabani-udp", "path": "crates/sabani-udp" },
                { "name": "tracing" },
            ],
        });
        let mut broken = Vec::new();
        check_package(&package, &mut broken);
        assert_eq!(broken.len(), 1);
        assert!(broken[0].why.contains("must not import `sabani-udp`"));
    }

    #[test]
    fn the_predictor_and_the_simulator_are_apart() {
        let imports = |name| {
            MAY_IMPORT
                .iter()
                .find(|(krate, _)| *krate == name)
                .unwrap()
                .1
        };
        assert!(!imports("sabani-model").contains(&"sabani-sim"));
        assert!(!imports("sabani-sim").contains(&"sabani-model"));
    }

    #[test]
    fn the_map_of_the_code_says_the_same() {
        let map = include_str!("../../../ARCHITECTURE.md");
        let named = |cell: &str| -> Vec<String> {
            let names = cell.split('`').skip(1).step_by(2);
            names.map(String::from).collect()
        };
        let mut told = Vec::new();
        for row in map.lines().filter(|line| line.starts_with("| ")) {
            let cells: Vec<_> = row.trim_matches('|').split(" | ").collect();
            if let [floor, krate, .., imports] = &cells[..]
                && floor.trim().parse::<u32>().is_ok()
            {
                told.extend(
                    named(krate)
                        .into_iter()
                        .map(|krate| (krate, named(imports))),
                );
            }
        }
        told.iter_mut().for_each(|(_, imports)| imports.sort());
        for (krate, imports) in MAY_IMPORT {
            let mut imports: Vec<_> = imports.iter().map(ToString::to_string).collect();
            imports.sort();
            let has_floor = !["sabani-tests", "sabani-fuzz", "xtask"].contains(&krate);
            let found = told.iter().find(|(name, _)| name == krate);
            assert_eq!(
                found.map(|(_, told)| told),
                has_floor.then_some(&imports),
                "{krate}"
            );
        }
    }

    #[test]
    fn the_table_has_no_cycles_and_names_only_its_own() {
        for (at, (_, imports)) in MAY_IMPORT.iter().enumerate() {
            let below = &MAY_IMPORT[..at];
            for import in *imports {
                assert!(below.iter().any(|(krate, _)| krate == import), "{import}");
            }
        }
    }
}
