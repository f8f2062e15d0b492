//! Medians and their intervals, without assumptions on how values are distributed.

use crate::network::Estimate;

/// Of a fair coin's tosses: 5 % are beyond so many standard deviations to one side.
const ONE_SIDED: f64 = 1.645;

/// The median, and the order statistics between which it lies with 90 % confidence; the extremes if
/// there are too few values for that.
pub fn median(values: &[f64]) -> Estimate {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else {
        return Estimate::exact(0.0);
    };
    let half = sorted.len() as f64 / 2.0;
    let reach = ONE_SIDED * half.sqrt() / std::f64::consts::SQRT_2;
    let low = (half - reach).floor().max(0.0) as usize;
    let high = (half + reach).ceil().min(last as f64) as usize;
    let middle = (sorted[last / 2] + sorted[sorted.len() / 2]) / 2.0;
    Estimate {
        value: middle,
        low: sorted[low.min(last)],
        high: sorted[high],
    }
}

/// How wide an interval is, as a part of the value.
pub fn width(estimate: Estimate) -> f64 {
    (estimate.high - estimate.low) / estimate.value.max(f64::MIN_POSITIVE)
}

/// So many quantiles, evenly spaced from the least to the largest value.
pub fn quantiles(mut values: Vec<f64>, count: usize) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else {
        return Vec::new();
    };
    (0..count)
        .map(|at| values[at * last / (count - 1)])
        .collect()
}

/// The middles of so many equal parts of all values, ascending.
pub fn middles(mut values: Vec<f64>, parts: usize) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    if values.is_empty() {
        return Vec::new();
    }
    (0..parts)
        .map(|part| values[(2 * part + 1) * values.len() / (2 * parts)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_binomial_distribution() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let estimate = median(&values);
        // The 42nd to the 59th of 100 hold the median with 91 %.
        assert_eq!(
            (estimate.value, estimate.low, estimate.high),
            (50.5, 42.0, 60.0)
        );
        let few = median(&[3.0, 1.0, 2.0]);
        assert_eq!((few.value, few.low, few.high), (2.0, 1.0, 3.0));
    }

    #[test]
    fn middles_leave_out_what_is_seldom() {
        let values = (0..100).map(f64::from).chain([1e9]).collect();
        assert_eq!(middles(values, 4), [12.0, 37.0, 63.0, 88.0]);
        assert_eq!(middles(vec![2.0, 1.0], 3), [1.0, 2.0, 2.0]);
        assert!(middles(Vec::new(), 3).is_empty());
    }

    #[test]
    fn quantiles_reach_from_end_to_end() {
        assert_eq!(quantiles(vec![5.0, 1.0, 3.0], 3), [1.0, 3.0, 5.0]);
        assert!(quantiles(Vec::new(), 3).is_empty());
    }
}
