//! The metrics of the cluster-version operator in Prometheus' text format.
//!
//! Names, labels and values are the law's ([`clusterversion::metrics`]); times are wall-clock, since that is what
//! `time()` of an alert is compared with.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clusterversion::metrics::{Installer, Sample, Shown, Transitions, samples};
use clusterversion::types::ClusterVersion;
use clusterversion::upgradeable::OperatorState;

use crate::fields::Time;

/// What the operator tells the exporter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exhibit {
    /// Whether it runs: without it nothing is served.
    pub up: bool,
    /// Version and image of the payload that runs.
    pub running: (String, String),
    /// The update service by flag.
    pub update_service: Option<String>,
    /// When updates were retrieved last, wall-clock.
    pub retrieved: Option<Time>,
    /// Whether the gate of risk metrics is open.
    pub risks: bool,
    /// Conditions of operators that changed.
    pub transitions: Transitions,
}

/// Who ran the installer of a simulated cluster.
const INVOKER: &str = "user";

/// All samples as text.
#[must_use]
pub fn render(exhibit: &Exhibit, version: Option<&ClusterVersion>, operators: &[OperatorState]) -> String {
    let oldest = version.and_then(|version| version.status.history.last());
    let installed = oldest.map(|entry| entry.version.as_str());
    let shown = Shown {
        running: (&exhibit.running.0, &exhibit.running.1),
        built: None,
        update_service: exhibit.update_service.as_deref(),
        last_retrieval: exhibit.retrieved,
        operators,
        risks: exhibit.risks,
        installer: installed.map(|version| Installer {
            version,
            invoker: INVOKER,
        }),
        transitions: &exhibit.transitions,
    };
    text(&samples(version, &shown))
}

/// The text format wants all samples of a metric together.
fn text(samples: &[Sample]) -> String {
    let mut by_name: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
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
    use clusterversion::metrics::Sample;

    use super::text;

    #[test]
    fn samples_of_a_metric_stand_together_and_labels_are_escaped() {
        let sample = |name, value: &str| Sample {
            name,
            labels: vec![("reason", value.to_owned())],
            value: 1.0,
        };
        let text = text(&[sample("b", "x"), sample("a", "say \"no\"\n\\"), sample("b", "y")]);
        let expected = "# TYPE a gauge\na{reason=\"say \\\"no\\\"\\n\\\\\"} 1\n# TYPE b gauge\nb{reason=\"x\"} 1\nb{reason=\"y\"} 1\n";
        assert_eq!(text, expected);
    }
}
