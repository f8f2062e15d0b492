//! Sizes and figures as people write them.

use anyhow::{Context, Error, Result};
use indicatif::HumanCount;
use sabani_sim::Size;

/// Reads `4`, `1k`, `64K`, `64KiB`, `4M` (powers of 1,024).
///
/// # Errors
/// If it is not a number with one of these suffixes, or too large for this machine.
pub fn parse_size(text: &str) -> Result<usize> {
    let Size(bytes) = text.parse().map_err(Error::msg)?;
    bytes.try_into().context("too large")
}

/// Writes a size the way `parse_size` reads it, with a unit.
pub fn format_size(bytes: usize) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    format!("{bytes} B")
}

/// Writes how many things there are: `1 file`, `2 files`.
pub fn count(number: impl TryInto<u64>, thing: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", HumanCount(number))
}

/// Writes a number with three or four significant digits, a large one with a power of a thousand:
/// `21.7 M`, `0.054`.
pub fn format_figure(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, " G"),
        v if v >= 1e6 => (value / 1e6, " M"),
        v if v >= 1e5 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        s if s >= 100.0 || s == 0.0 => 0,
        s if s >= 10.0 => 1,
        s if s >= 0.1 => 2,
        s => 1 + -s.log10().floor() as usize,
    };
    format!("{scaled:.digits$}{unit}")
}

/// Writes a time with three or four significant digits: `188 µs`, `5.24 ms`, `170 s`.
pub fn format_time(seconds: f64) -> String {
    let (scaled, unit) = match seconds.abs() {
        s if s >= 1.0 => (seconds, "s"),
        s if s >= 1e-3 => (seconds * 1e3, "ms"),
        _ => (seconds * 1e6, "µs"),
    };
    format!("{} {unit}", format_figure(scaled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_and_written() {
        for (text, bytes) in [("4", 4), ("1k", 1024), ("64KiB", 65536), ("4M", 4 << 20)] {
            assert_eq!(parse_size(text).unwrap(), bytes);
        }
        assert_eq!(format_size(4 << 20), "4 MiB");
        assert_eq!(format_size(1000), "1000 B");
    }

    #[test]
    fn things_are_counted() {
        for (number, text) in [(0, "0 files"), (1, "1 file"), (12_345, "12,345 files")] {
            assert_eq!(count(number, "file"), text);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "k", "-1", "4x", "99999999999999999999", "99999999999G"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn figures_keep_three_digits() {
        assert_eq!(format_figure(2.449), "2.45");
        assert_eq!(format_figure(9012.3), "9012");
        assert_eq!(format_figure(21_712_345.0), "21.7 M");
        assert_eq!(format_figure(0.0543), "0.054");
        assert_eq!(format_figure(0.000_35), "0.00035");
        assert_eq!(format_figure(0.0), "0");
    }

    #[test]
    fn times_have_the_unit_that_suits_them() {
        assert_eq!(format_time(170.3), "170 s");
        assert_eq!(format_time(0.005_24), "5.24 ms");
        assert_eq!(format_time(0.000_188), "188 µs");
    }
}
