//! How alike two partitions are.

use std::collections::HashMap;
use std::hash::Hash;

/// The adjusted Rand index: 1 if hosts are together in one exactly if they are in the other, about 0 if
/// that is as by chance.
///
/// # Panics
/// If the partitions are not of the same number of hosts.
pub fn adjusted_rand(one: &[usize], other: &[usize]) -> f64 {
    assert_eq!(one.len(), other.len(), "partitions of the same hosts");
    let together = pairs(one.iter().zip(other));
    let (ones, others) = (pairs(one.iter()), pairs(other.iter()));
    let hosts = one.len() as f64;
    let expected = ones * others / (hosts * (hosts - 1.0) / 2.0);
    let most = (ones + others) / 2.0;
    if most == expected {
        return 1.0;
    }
    (together - expected) / (most - expected)
}

/// How many pairs have the same key.
fn pairs<K: Eq + Hash>(keys: impl Iterator<Item = K>) -> f64 {
    let mut counts: HashMap<K, f64> = HashMap::new();
    keys.for_each(|key| *counts.entry(key).or_default() += 1.0);
    counts
        .into_values()
        .map(|count| count * (count - 1.0) / 2.0)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_groups_do_not_matter_but_who_is_together() {
        assert_eq!(adjusted_rand(&[0, 0, 1, 1], &[7, 7, 3, 3]), 1.0);
        assert_eq!(adjusted_rand(&[0, 0, 0], &[1, 1, 1]), 1.0);
        assert!(adjusted_rand(&[0, 0, 1, 1], &[0, 1, 0, 1]) < 0.0);
        let nearly = adjusted_rand(&[0, 0, 0, 1, 1, 1], &[0, 0, 1, 1, 1, 1]);
        assert!((0.2..0.5).contains(&nearly), "{nearly}");
    }
}
