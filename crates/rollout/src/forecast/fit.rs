//! Times of a step while some clusters are still at it.
//!
//! The first clusters that finish are the fast ones, so their times alone promise too much. The ages of the others say by how much:
//! a log-normal distribution is fitted to both (expectation maximization for samples that are cut off), and each cluster that still
//! runs counts with a time that is longer than its age.

use chrono::TimeDelta;

use crate::forecast::Samples;

/// Rounds of the fit. It changes little after ten.
const ROUNDS: usize = 30;
/// Bounds of the standard deviation of the logarithms: a few times must not look like certainty, nor a stuck one like chaos.
const SPREAD: (f64, f64) = (0.05, 0.6);

/// The times of the clusters that have finished, and of those that have run for these ages. `None` if none has finished.
pub(super) fn samples(finished: &[TimeDelta], running: &[TimeDelta]) -> Option<Samples> {
    let logs: Vec<f64> = finished.iter().map(|time| logarithm(*time)).collect();
    let mut running: Vec<f64> = running.iter().map(|age| logarithm(*age)).collect();
    running.sort_unstable_by(f64::total_cmp);
    let (mean, spread) = fit(&logs, &running)?;
    let expected = running.iter().enumerate().map(|(number, age)| {
        let passed = below((age - mean) / spread);
        let share = passed + quasi_random(number, 2) * (1.0 - passed);
        time((mean + spread * normal_quantile(share)).max(*age))
    });
    Samples::new(finished.iter().copied().chain(expected))
}

/// Mean and standard deviation of the logarithms.
fn fit(finished: &[f64], running: &[f64]) -> Option<(f64, f64)> {
    let all = count(finished.len() + running.len());
    let moments = |values: &[f64]| {
        (
            values.iter().sum::<f64>(),
            values.iter().map(|x| x * x).sum::<f64>(),
        )
    };
    let deviation = |mean: f64, squares: f64| {
        let variance = (squares - mean * mean).max(0.0);
        variance.sqrt().clamp(SPREAD.0, SPREAD.1)
    };
    let (sum, squares) = moments(finished);
    let number = (!finished.is_empty()).then(|| count(finished.len()))?;
    let mut mean = sum / number;
    let mut spread = deviation(mean, squares / number);
    for _ in 0..ROUNDS {
        let (mut first, mut second) = (sum, squares);
        for age in running {
            let z = (age - mean) / spread;
            let hazard = hazard(z);
            let expected = mean + spread * hazard;
            let variance = spread * spread * (1.0 + z * hazard - hazard * hazard).max(0.0);
            first += expected;
            second += expected * expected + variance;
        }
        mean = first / all;
        spread = deviation(mean, second / all);
    }
    Some((mean, spread))
}

/// Density over survival of the standard normal distribution.
fn hazard(z: f64) -> f64 {
    if z > 5.0 {
        return z + 1.0 / z;
    }
    let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    density / (1.0 - below(z)).max(1e-9)
}

/// The share of the standard normal distribution below `z` (Abramowitz and Stegun, 7.1.26).
fn below(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let terms = [
        1.061_405_429,
        -1.453_152_027,
        1.421_413_741,
        -0.284_496_736,
        0.254_829_592,
    ];
    let polynomial = terms.iter().fold(0.0, |sum, term| (sum + term) * t);
    let tail = polynomial * (-x * x).exp() / 2.0;
    if z < 0.0 { tail } else { 1.0 - tail }
}

/// The inverse of [`below`], for shares from 0.001 to 0.999 (Abramowitz and Stegun, 26.2.23).
pub(super) fn normal_quantile(share: f64) -> f64 {
    let share = share.clamp(0.001, 0.999);
    let t = (-2.0 * share.min(1.0 - share).ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let under = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let z = t - above / under;
    if share < 0.5 { -z } else { z }
}

/// Numbers between 0 and 1 that fill the range evenly, however many are taken (van der Corput).
pub(super) fn quasi_random(number: usize, base: u32) -> f64 {
    let base = usize::try_from(base.max(2)).unwrap_or(2);
    let (mut rest, mut digit, mut value) = (number + 1, 1.0, 0.0);
    while rest > 0 {
        digit /= count(base);
        value += digit * count(rest % base);
        rest /= base;
    }
    value
}

fn logarithm(time: TimeDelta) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "times of a rollout in milliseconds")]
    let milliseconds = time.num_milliseconds().max(1_000) as f64;
    milliseconds.ln()
}

fn time(logarithm: f64) -> TimeDelta {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "times of a rollout in milliseconds"
    )]
    let milliseconds = logarithm.exp().round() as i64;
    TimeDelta::milliseconds(milliseconds)
}

fn count(number: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "there are not 2^52 clusters")]
    let count = number as f64;
    count
}

#[cfg(test)]
mod tests;
