//! Medians and how sure they are.

/// A median, and the interval that holds the true one with 95 % probability, whatever the distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub low: f64,
    pub middle: f64,
    pub high: f64,
}

/// The median of some figures. With less than six of them the interval is their range, which is less
/// sure than that.
pub fn median(figures: &[f64]) -> Interval {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    if count == 0 {
        let none = f64::NAN;
        return Interval {
            low: none,
            middle: none,
            high: none,
        };
    }
    let outside = outside(count);
    Interval {
        low: sorted[outside],
        middle: f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]),
        high: sorted[count - 1 - outside],
    }
}

/// How many figures may be left out on each side: the true median lies below the k-th with the
/// probability that less than k of `count` tosses of a coin are heads, and as probably above.
fn outside(count: usize) -> usize {
    let mut below = 0.0;
    let mut exactly = 0.5_f64.powi(count as i32);
    for heads in 0..count / 2 {
        below += exactly;
        if below > 0.025 {
            return heads.saturating_sub(1);
        }
        exactly *= (count - heads) as f64 / (heads + 1) as f64;
    }
    0
}

/// The geometric mean.
pub fn geometric_mean(figures: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for figure in figures {
        sum += figure.ln();
        count += 1.0;
    }
    f64::exp(sum / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_leave_out_as_many_as_tables_say() {
        // The usual table: from the 4th to the 12th of 15, from the 6th to the 15th of 20.
        for (count, left_out) in [(5, 0), (6, 0), (9, 1), (15, 3), (20, 5), (100, 39)] {
            assert_eq!(outside(count), left_out, "{count}");
        }
    }

    #[test]
    fn the_median_lies_in_its_interval() {
        let figures: Vec<_> = (1..=15).rev().map(f64::from).collect();
        let Interval { low, middle, high } = median(&figures);
        assert_eq!((low, middle, high), (4.0, 8.0, 12.0));
        assert_eq!(median(&[1.0, 2.0]).middle, 1.5);
        assert!(median(&[]).middle.is_nan());
    }

    #[test]
    fn geometric_means() {
        assert!((geometric_mean([1.0, 4.0].into_iter()) - 2.0).abs() < 1e-12);
    }
}
