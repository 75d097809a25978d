//! The series of single upgrades: a snapshot that the main loop replaces after its passes and a scrape encodes.
//!
//! Their number is limited, because anybody who may create upgrades could otherwise fill the hub's monitoring: see
//! [`MAX_OPEN`] and [`MAX_FINISHED`]. An upgrade that is deleted has no series any more.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use api::conditions::TYPES;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use rollout::{Phase, Reason};

use super::catalogue::{self, MetricKind, Series};
use super::labels::{
    ANSWER, CONDITION, ClusterPhase, Label, QUANTILE, REASON, TARGET, UpgradeLabels, UpgradeStateLabel,
};

/// Largest number of upgrades that are not complete and have series. Which ones: `docs/design/observability.md`.
pub const MAX_OPEN: usize = 200;
/// Largest number of complete upgrades that have series.
pub const MAX_FINISHED: usize = 50;

/// What the series of one upgrade say.
#[derive(Clone, Debug)]
pub struct UpgradeSample {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its state.
    pub state: UpgradeStateLabel,
    /// The version or image of its status; empty while that has none.
    pub target: String,
    /// Clusters, by the position of their phase in [`Phase::ALL`].
    pub phases: [usize; Phase::ALL.len()],
    /// Clusters that wait or make no progress, by reason.
    pub waiting: Vec<(Reason, u32)>,
    /// Whether the conditions of [`TYPES`] are True, in their order.
    pub conditions: [bool; TYPES.len()],
    /// When it made progress last, in seconds since the Unix epoch.
    pub last_progress: i64,
    /// How many clusters may fail. `None` without maxFailures.
    pub budget: Option<usize>,
    /// How many clusters count against that.
    pub failures: usize,
    /// When it ends, by the values of [`QUANTILE`], in seconds since the Unix epoch. `None` if that is not known.
    pub end: Option<[i64; 2]>,
    /// Clusters that have not started, by the values of [`ANSWER`]. `None` if clusters are not asked.
    pub preflight: Option<[i64; 4]>,
}

/// The snapshot.
#[derive(Debug, Default)]
pub(super) struct UpgradeSeries {
    samples: Mutex<Arc<[UpgradeSample]>>,
}

impl UpgradeSeries {
    pub(super) fn set(&self, samples: Vec<UpgradeSample>) {
        *self.samples.lock().unwrap_or_else(PoisonError::into_inner) = samples.into();
    }

    fn samples(&self) -> Arc<[UpgradeSample]> {
        Arc::clone(&self.samples.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Encodes the values of one series of every upgrade.
struct Family<'a> {
    encoder: MetricEncoder<'a>,
}

impl Family<'_> {
    fn add(
        &mut self,
        sample: &UpgradeSample,
        other: Option<(&'static str, &'static str)>,
        value: i64,
    ) -> fmt::Result {
        ConstGauge::new(value).encode(self.encoder.encode_family(&labels(sample, other))?)
    }

    /// Adds one value for each value of a label, or none.
    fn add_all(&mut self, sample: &UpgradeSample, label: &Label, values: &[i64]) -> fmt::Result {
        let mut pairs = label.values.iter().zip(values);
        pairs.try_for_each(|((text, _), value)| self.add(sample, Some((label.name, text)), *value))
    }
}

fn labels<'a>(sample: &'a UpgradeSample, other: Option<(&'static str, &'static str)>) -> UpgradeLabels<'a> {
    UpgradeLabels {
        upgrade: (&sample.namespace, &sample.name),
        other,
    }
}

/// Begins a series. The registry appends a full stop to help texts, but a collector must write it itself.
fn family<'a>(encoder: &'a mut DescriptorEncoder<'_>, series: &Series) -> Result<Family<'a>, fmt::Error> {
    let kind = match series.kind {
        MetricKind::Info => MetricType::Info,
        MetricKind::Counter => MetricType::Counter,
        MetricKind::Histogram(_) => MetricType::Histogram,
        MetricKind::Gauge => MetricType::Gauge,
    };
    let help = format!("{}.", series.help);
    let encoder = encoder.encode_descriptor(series.stem(), &help, None, kind)?;
    Ok(Family { encoder })
}

impl Collector for UpgradeSeries {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let samples = self.samples();
        let mut info = family(&mut encoder, &catalogue::UPGRADE_INFO)?;
        for sample in samples.iter() {
            let state = (UpgradeStateLabel::LABEL.name, sample.state.as_str());
            let target = [(TARGET.name, sample.target.as_str())];
            info.encoder.encode_info(&(labels(sample, Some(state)), target))?;
        }
        let mut clusters = family(&mut encoder, &catalogue::UPGRADE_CLUSTERS)?;
        for sample in samples.iter() {
            for (phase, count) in Phase::ALL.iter().zip(sample.phases) {
                let phase = (ClusterPhase::LABEL.name, phase.as_str());
                clusters.add(sample, Some(phase), super::whole(count))?;
            }
        }
        let mut waiting = family(&mut encoder, &catalogue::UPGRADE_WAITING)?;
        for sample in samples.iter() {
            for (reason, count) in &sample.waiting {
                waiting.add(sample, Some((REASON.name, reason.as_str())), i64::from(*count))?;
            }
        }
        let mut conditions = family(&mut encoder, &catalogue::UPGRADE_CONDITION)?;
        for sample in samples.iter() {
            for (condition, holds) in TYPES.iter().zip(sample.conditions) {
                conditions.add(sample, Some((CONDITION.name, condition)), i64::from(holds))?;
            }
        }
        let mut progress = family(&mut encoder, &catalogue::UPGRADE_PROGRESS)?;
        for sample in samples.iter() {
            progress.add(sample, None, sample.last_progress)?;
        }
        let mut budget = family(&mut encoder, &catalogue::UPGRADE_BUDGET)?;
        for sample in samples.iter() {
            if let Some(most) = sample.budget {
                budget.add(sample, None, super::whole(most))?;
            }
        }
        let mut used = family(&mut encoder, &catalogue::UPGRADE_BUDGET_USED)?;
        for sample in samples.iter() {
            used.add(sample, None, super::whole(sample.failures))?;
        }
        let mut ends = family(&mut encoder, &catalogue::UPGRADE_END)?;
        for sample in samples.iter() {
            ends.add_all(sample, &QUANTILE, sample.end.as_ref().map_or(&[], |end| end))?;
        }
        let mut answers = family(&mut encoder, &catalogue::UPGRADE_PREFLIGHT)?;
        for sample in samples.iter() {
            answers.add_all(
                sample,
                &ANSWER,
                sample.preflight.as_ref().map_or(&[], |counts| counts),
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
