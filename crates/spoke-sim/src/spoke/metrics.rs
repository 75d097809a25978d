//! The metrics of the cluster-version operator in Prometheus' text format.
//!
//! Names, labels and values come from [`cvo_model::metrics`]. Times are wall-clock time, because alerts compare them with
//! `time()`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clusterversion::types::ClusterVersion;
use cvo_model::metrics::{Installer, MetricSample, MetricsInput, Transitions, samples};
use cvo_model::upgradeable::OperatorState;

use crate::fields::Time;

/// What the operator reports for its metrics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperatorReport {
    /// Whether the operator runs. Otherwise no metrics are served.
    pub up: bool,
    /// Version and image of the running payload.
    pub running: (String, String),
    /// The update service given by a flag.
    pub update_service: Option<String>,
    /// When updates were last retrieved, in wall-clock time.
    pub retrieved: Option<Time>,
    /// Whether the feature gate of risk metrics is on.
    pub risks: bool,
    /// Condition changes of operators.
    pub transitions: Transitions,
}

/// Who ran the installer of a simulated cluster.
const INVOKER: &str = "user";

/// All samples as text.
#[must_use]
pub fn render(
    report: &OperatorReport,
    version: Option<&ClusterVersion>,
    operators: &[OperatorState],
) -> String {
    let oldest = version.and_then(|version| version.status.history.last());
    let installed = oldest.map(|entry| entry.version.as_str());
    let shown = MetricsInput {
        running: (&report.running.0, &report.running.1),
        built: None,
        update_service: report.update_service.as_deref(),
        last_retrieval: report.retrieved,
        operators,
        risks: report.risks,
        installer: installed.map(|version| Installer {
            version,
            invoker: INVOKER,
        }),
        transitions: &report.transitions,
    };
    text(&samples(version, &shown))
}

/// Renders samples as text. The format requires all samples of a metric to be together.
fn text(samples: &[MetricSample]) -> String {
    let mut by_name: BTreeMap<&str, Vec<&MetricSample>> = BTreeMap::new();
    for sample in samples {
        by_name.entry(sample.name).or_default().push(sample);
    }
    let mut text = String::new();
    for (name, samples) in by_name {
        let _ = writeln!(text, "# TYPE {name} gauge");
        for sample in samples {
            let labels: Vec<String> = sample
                .labels
                .iter()
                .map(|(key, value)| format!("{key}=\"{}\"", escape(value)))
                .collect();
            let _ = writeln!(text, "{name}{{{}}} {}", labels.join(","), sample.value);
        }
    }
    text
}

fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use cvo_model::metrics::MetricSample;

    use super::text;

    #[test]
    fn samples_of_a_metric_stand_together_and_labels_are_escaped() {
        let sample = |name, value: &str| MetricSample {
            name,
            labels: vec![("reason", value.to_owned())],
            value: 1.0,
        };
        let text = text(&[sample("b", "x"), sample("a", "say \"no\"\n\\"), sample("b", "y")]);
        let expected = "# TYPE a gauge\na{reason=\"say \\\"no\\\"\\n\\\\\"} 1\n# TYPE b gauge\nb{reason=\"x\"} 1\nb{reason=\"y\"} 1\n";
        assert_eq!(text, expected);
    }
}
