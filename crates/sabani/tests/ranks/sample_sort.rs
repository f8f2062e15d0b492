//! The example `sample_sort`.

use std::fs;
use std::path::Path;

use bytemuck::cast_slice;
use tempfile::tempdir;

use crate::{complaint, ranks, said};

/// Numbers without order, the same each time.
fn scattered(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(|number| {
        (number ^ 0x2545_f491)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    })
}

fn write(path: &Path, numbers: &[u64]) {
    fs::write(path, cast_slice::<_, u8>(numbers)).unwrap();
}

fn read(path: &Path) -> Vec<u64> {
    let bytes = fs::read(path).unwrap();
    let (numbers, rest) = bytes.as_chunks();
    assert!(rest.is_empty());
    numbers.iter().copied().map(u64::from_ne_bytes).collect()
}

/// Sorts these numbers; no rank may have more of them to merge than its share and an eighth of it.
fn sorts(count: u32, mut numbers: Vec<u64>) {
    let folder = tempdir().unwrap();
    let [input, output] = ["numbers", "sorted"].map(|name| folder.path().join(name));
    write(&input, &numbers);
    let Some(mut sort) = ranks(count, "sample_sort") else {
        return;
    };
    let said = said(sort.args([&input, &output]));
    numbers.sort_unstable();
    assert!(read(&output) == numbers, "{count} ranks: {said}");

    let words: Vec<_> = said.split_whitespace().collect();
    assert_eq!(words[0], numbers.len().to_string(), "{said}");
    let at = words.windows(2).position(|pair| pair == ["at", "most"]);
    let most: usize = words[at.unwrap() + 2].parse().unwrap();
    let share = numbers.len().div_ceil(count as usize);
    assert!(most <= share + share.div_ceil(8), "{said}");
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 2, "nothing else is left behind");
}

#[test]
fn numbers_in_any_order_are_sorted_and_evenly_shared() {
    let inputs: [Vec<u64>; 6] = [
        scattered(100_003).collect(),
        (0..20_000).rev().collect(),
        vec![7; 20_000],
        (0..20_000)
            .map(|number| u64::MAX * u64::from(number % 100 == 0))
            .collect(),
        scattered(2).collect(),
        Vec::new(),
    ];
    for numbers in inputs {
        for count in [1, 3, 8] {
            sorts(count, numbers.clone());
        }
    }
}

#[test]
fn a_file_can_be_sorted_in_its_place() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("numbers");
    write(&path, &[3, 1, 2]);
    let Some(mut sort) = ranks(2, "sample_sort") else {
        return;
    };
    said(sort.args([&path, &path]));
    assert_eq!(read(&path), [1, 2, 3]);
}

#[test]
fn what_is_no_file_of_numbers_is_named() {
    let folder = tempdir().unwrap();
    let [input, output] = ["numbers", "sorted"].map(|name| folder.path().join(name));
    let complaint_of_two = || {
        let mut sort = ranks(2, "sample_sort")?;
        sort.env("RUST_BACKTRACE", "1");
        Some(complaint(sort.args([&input, &output])))
    };
    let Some(said) = complaint_of_two() else {
        return;
    };
    assert!(said.contains("numbers"), "{said}");
    assert!(said.contains("No such file"), "{said}");
    assert!(!said.contains("backtrace"), "{said}");
    fs::write(&input, "12345").unwrap();
    let said = complaint_of_two().unwrap();
    assert!(
        said.contains("has 5 bytes, which is no multiple of 8"),
        "{said}"
    );
    assert!(!output.exists());
}
