//! A measured number and its threshold, and what every measurement does with them.

use std::fmt;

use anyhow::{Result, bail};
use serde::Serialize;

/// Which side of the limit is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Side {
    /// Good is at or below.
    AtMost,
    /// Good is below.
    Below,
    /// Good is at or above.
    AtLeast,
}

/// What kind of number it is; times depend on the machine and on its load, counts do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Nature {
    /// A number of things.
    Count,
    /// A time, or a ratio of times.
    Time,
}

/// One threshold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Threshold {
    /// What was measured.
    pub what: String,
    /// The limit.
    pub limit: f64,
    /// Which side of it is good.
    pub side: Side,
    /// The measured number.
    pub measured: f64,
    /// Unit of both; empty for ratios and plain counts.
    pub unit: &'static str,
    /// Time or count.
    pub nature: Nature,
    /// Whether the number is on the good side.
    pub met: bool,
}

impl Threshold {
    fn new(
        what: &str,
        (side, limit): (Side, f64),
        measured: f64,
        unit: &'static str,
        nature: Nature,
    ) -> Self {
        let met = match side {
            Side::AtMost => measured <= limit,
            Side::Below => measured < limit,
            Side::AtLeast => measured >= limit,
        };
        Self {
            what: what.to_owned(),
            limit,
            side,
            measured,
            unit,
            nature,
            met,
        }
    }

    /// A threshold on a number of things.
    #[must_use]
    pub fn count(what: &str, limit: (Side, f64), measured: f64, unit: &'static str) -> Self {
        Self::new(what, limit, measured, unit, Nature::Count)
    }

    /// A threshold on a time or a ratio of times.
    #[must_use]
    pub fn time(what: &str, limit: (Side, f64), measured: f64, unit: &'static str) -> Self {
        Self::new(what, limit, measured, unit, Nature::Time)
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::AtMost => "≤",
            Side::Below => "<",
            Side::AtLeast => "≥",
        };
        let limit = format!("{side} {} {}", self.limit, self.unit);
        let verdict = if self.met { "met" } else { "MISSED" };
        write!(
            f,
            "{:<52} {:>10} {:<4} {limit:<12} {verdict}",
            self.what,
            number(self.measured),
            self.unit
        )
    }
}

/// Prints a report as JSON, or for people.
///
/// # Errors
/// The report cannot be written as JSON.
pub fn show<T: Serialize>(report: &T, json: bool, print: fn(&T)) -> Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(report)?);
    } else {
        print(report);
    }
    Ok(())
}

/// Judges the counts alone, because a machine that is busy does not change them.
///
/// # Errors
/// A count misses its threshold; the message names all that do.
pub fn require_counts(thresholds: &[Threshold]) -> Result<()> {
    let missed: Vec<String> = thresholds
        .iter()
        .filter(|threshold| threshold.nature == Nature::Count && !threshold.met)
        .map(ToString::to_string)
        .collect();
    if !missed.is_empty() {
        bail!("{}", missed.join("; "));
    }
    Ok(())
}

/// A number with as many digits as matter.
fn number(value: f64) -> String {
    if value.fract().abs() < f64::EPSILON {
        format!("{value:.0}")
    } else if value.abs() < 10.0 {
        format!("{value:.3}")
    } else {
        format!("{value:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_met_on_the_good_side_only() {
        let met = |side, measured| Threshold::count("x", (side, 3.0), measured, "").met;
        assert!(met(Side::AtMost, 3.0) && !met(Side::AtMost, 3.1));
        assert!(met(Side::Below, 2.9) && !met(Side::Below, 3.0));
        assert!(met(Side::AtLeast, 3.0) && !met(Side::AtLeast, 2.9));
    }

    #[test]
    fn a_missed_bar_is_seen_in_its_line() {
        let line = Threshold::time("reaction p99", (Side::Below, 500.0), 612.34, "ms").to_string();
        assert!(
            line.contains("612.3 ms") && line.contains("< 500 ms") && line.ends_with("MISSED"),
            "{line}"
        );
        let line = Threshold::count("wasted", (Side::AtMost, 0.0), 0.0, "").to_string();
        assert!(line.ends_with("met"), "{line}");
    }

    #[test]
    fn of_the_counts_those_that_are_missed_are_named_and_times_are_not_judged() {
        let missed = (Side::Below, 1.0);
        let time = Threshold::time("a time", missed, 2.0, "ms");
        let met = Threshold::count("a count", (Side::Below, 3.0), 2.0, "");
        require_counts(&[time.clone(), met]).unwrap();
        let error = require_counts(&[time, Threshold::count("requests", missed, 2.0, "")]).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("requests ") && !text.contains("a time"),
            "{text}"
        );
    }
}
