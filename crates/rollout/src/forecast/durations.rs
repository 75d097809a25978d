//! How long steps take: samples of each step, from which a time is drawn for each cluster.

use chrono::TimeDelta;

use crate::forecast::Run;
use crate::model::Step;

/// Times that a step took, sorted. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Samples(Vec<TimeDelta>);

impl Samples {
    /// Samples as they were measured; `None` if there are none. Negative times count as zero.
    #[must_use]
    pub fn new(measured: impl IntoIterator<Item = TimeDelta>) -> Option<Samples> {
        let mut sorted: Vec<TimeDelta> = measured
            .into_iter()
            .map(|time| time.max(TimeDelta::zero()))
            .collect();
        sorted.sort_unstable();
        (!sorted.is_empty()).then_some(Samples(sorted))
    }

    /// Samples that are spread evenly around a median by this share of it, such as 0.25.
    #[must_use]
    pub fn around(median: TimeDelta, share: f64) -> Samples {
        const POINTS: i32 = 20;
        let times = (-POINTS..=POINTS).map(|point| {
            let factor = 1.0 + share * f64::from(point) / f64::from(POINTS);
            scaled(median, factor)
        });
        Samples(times.map(|time| time.max(TimeDelta::zero())).collect())
    }

    /// Number of samples.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The time below which this share (0 to 1) of the samples lies, interpolated.
    #[must_use]
    pub fn quantile(&self, share: f64) -> TimeDelta {
        let last = self.0.len() - 1;
        #[expect(clippy::cast_precision_loss, reason = "there are not 2^52 samples")]
        let position = share.clamp(0.0, 1.0) * last as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and the last index"
        )]
        let below = position.floor() as usize;
        let above = (below + 1).min(last);
        self.0[below] + scaled(self.0[above] - self.0[below], position.fract())
    }
}

impl Samples {
    /// Samples that are sorted already; there must be one.
    pub(super) const fn from_sorted(sorted: Vec<TimeDelta>) -> Samples {
        Samples(sorted)
    }

    /// The time below which this share (0 to 1) of those samples lies that are longer than `age`.
    #[must_use]
    pub fn quantile_after(&self, share: f64, age: TimeDelta) -> TimeDelta {
        let ruled_out = if age > TimeDelta::zero() {
            self.share_below(age)
        } else {
            0.0
        };
        self.quantile(ruled_out + share * (1.0 - ruled_out))
    }

    /// Standard deviation as a share of the mean.
    #[must_use]
    pub fn relative_deviation(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "times of a rollout in milliseconds")]
        let times = || self.0.iter().map(|time| time.num_milliseconds() as f64);
        #[expect(clippy::cast_precision_loss, reason = "there are not 2^52 samples")]
        let count = self.0.len() as f64;
        let mean = times().sum::<f64>() / count;
        let variance = times().map(|time| (time - mean).powi(2)).sum::<f64>() / count;
        variance.sqrt() / mean.max(1.0)
    }

    /// The share (0 to 1) of the samples, interpolated, that lies below this time.
    #[must_use]
    pub fn share_below(&self, time: TimeDelta) -> f64 {
        let below = self.0.partition_point(|sample| *sample <= time);
        let (Some(before), Some(after)) = (below.checked_sub(1), self.0.get(below)) else {
            return if below == 0 { 0.0 } else { 1.0 };
        };
        let (from, to) = (self.0[before], *after);
        #[expect(
            clippy::cast_precision_loss,
            reason = "there are not 2^52 samples or milliseconds"
        )]
        let (before, last, within) = (
            before as f64,
            (self.0.len() - 1) as f64,
            (time - from).num_milliseconds() as f64 / (to - from).num_milliseconds().max(1) as f64,
        );
        (before + within) / last
    }

    /// The samples, sorted.
    #[must_use]
    pub fn sorted(&self) -> &[TimeDelta] {
        &self.0
    }
}

pub(super) fn scaled(time: TimeDelta, factor: f64) -> TimeDelta {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "times of a rollout in milliseconds"
    )]
    let milliseconds = (time.num_milliseconds() as f64 * factor).round() as i64;
    TimeDelta::milliseconds(milliseconds)
}

/// How long the steps of a fleet take and how often clusters fail.
#[derive(Clone, Debug)]
pub struct Durations {
    /// Samples by step.
    pub steps: [Samples; 4],
    /// Share of clusters (0 to 1) whose platform step never ends.
    pub failure_rate: f64,
    /// Another seed draws other times.
    pub seed: u64,
}

impl Durations {
    /// How a step goes on a cluster in this draw. Equal arguments give equal results, and a time depends on nothing else,
    /// so clusters keep their times when others join the fleet.
    #[must_use]
    pub fn run(&self, draw: u64, cluster: &str, step: Step) -> Run {
        self.run_after(draw, cluster, step, TimeDelta::zero())
    }

    /// How a step goes on that has run for `age` and has not ended: the times up to `age` are ruled out. A step that has
    /// run for longer than every sample ends now.
    #[must_use]
    pub fn run_after(&self, draw: u64, cluster: &str, step: Step, age: TimeDelta) -> Run {
        let of = (self.seed, draw);
        let fails = step == Step::Platform && share(of, cluster, "fails") < self.failure_rate;
        let samples = &self.steps[step.index()];
        Run {
            takes: (!fails).then(|| draw_time(samples, of, cluster, step, age)),
            fails: false,
        }
    }
}

/// A time that a step takes on a cluster, longer than `age`. It depends on the arguments alone; the second one is seed and draw.
pub(super) fn draw_time(
    samples: &Samples,
    of: (u64, u64),
    cluster: &str,
    step: Step,
    age: TimeDelta,
) -> TimeDelta {
    samples.quantile_after(share(of, cluster, step.as_str()), age)
}

/// A number between 0 and 1 that depends on the arguments alone.
pub(super) fn share((seed, draw): (u64, u64), cluster: &str, what: &str) -> f64 {
    let start = mix(seed ^ mix(draw));
    let hash = mix_text(mix_text(start, cluster), what);
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    let share = (hash >> 11) as f64 / (1_u64 << 53) as f64;
    share
}

/// Mixes a text in, eight bytes at a time. Its length is part of it, so texts that follow each other cannot be confused.
fn mix_text(start: u64, text: &str) -> u64 {
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let length = mix(start ^ u64::try_from(text.len()).unwrap_or(u64::MAX));
    let words = words.iter().chain([&last]);
    words.fold(length, |hash, word| mix(hash ^ u64::from_le_bytes(*word)))
}

/// The finalizer of splitmix64, which spreads any difference over all bits.
const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
