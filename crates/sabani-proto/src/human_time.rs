//! Lengths of time in texts for people.

use std::fmt;
use std::time::Duration;

/// Shows a length of time with three significant digits at most and the unit that suits it: `5 s`,
/// `12.4 ms`, `10 min`.
#[derive(Clone, Copy, Debug)]
pub struct HumanTime(pub Duration);

impl fmt::Display for HumanTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        let (count, unit) = match seconds {
            s if s >= 7_200.0 => (s / 3_600.0, "h"),
            s if s >= 120.0 => (s / 60.0, "min"),
            // As rounded below.
            s if s >= 0.999_5 || s == 0.0 => (s, "s"),
            s if s >= 0.000_999_5 => (s * 1e3, "ms"),
            s => (s * 1e6, "µs"),
        };
        let scale = match count {
            c if c >= 100.0 => 1.0,
            c if c >= 10.0 => 10.0,
            _ => 100.0,
        };
        write!(f, "{} {unit}", (count * scale).round() / scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_digits_and_a_unit() {
        for (nanoseconds, text) in [
            (0, "0 s"),
            (1_234, "1.23 µs"),
            (999_600, "1 ms"),
            (300_000_000, "300 ms"),
            (999_999_999, "1 s"),
            (5_000_123_456, "5 s"),
            (10_461_000_000, "10.5 s"),
            (119_000_000_000, "119 s"),
            (600_000_000_000, "10 min"),
            (9_000_000_000_000, "2.5 h"),
        ] {
            let shown = HumanTime(Duration::from_nanos(nanoseconds)).to_string();
            assert_eq!(shown, text);
        }
    }
}
