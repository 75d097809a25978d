//! Random statuses, as agents of several releases write them, or somebody who lies: what counts as success, and what must not matter.

use std::collections::BTreeMap;

use api::names::APPROVER;
use proptest::collection::btree_map;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::fixture::holds;

/// A condition: its status and, if it names one, its generation.
type Told = (&'static str, Option<i64>);

/// What is reported of the one object of a work.
#[derive(Clone, Debug)]
struct Status {
    step: Step,
    conditions: BTreeMap<&'static str, Told>,
    values: BTreeMap<&'static str, Value>,
    own: BTreeMap<&'static str, &'static str>,
}

impl Status {
    fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    fn text(&self, name: &str) -> &str {
        self.value(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.value(name).and_then(Value::as_i64)
    }

    /// The work, which is being deleted or not, with its values in this order or the other.
    fn work(&self, is_ending: bool, is_turned: bool) -> ManifestWork {
        let conditions: Vec<Value> = self
            .conditions
            .iter()
            .map(|(kind, (status, seen))| json!({"type": kind, "status": status, "observedGeneration": seen.unwrap_or(0)}))
            .collect();
        let mut reported: Vec<Value> = self.values.iter().map(|(name, of)| value(name, of)).collect();
        if is_turned {
            reported.reverse();
        }
        let own: Vec<Value> = self
            .own
            .iter()
            .map(|(kind, status)| json!({"type": kind, "status": status, "reason": "NoStatusFeedbackSynced"}))
            .collect();
        let meta = if self.step == Step::Platform {
            json!({"group": "config.openshift.io", "kind": "ClusterVersion", "resource": "clusterversions", "name": "version"})
        } else {
            json!({"group": "batch", "kind": "Job", "resource": "jobs", "name": APPROVER, "namespace": APPROVER})
        };
        let manifest =
            json!({"resourceMeta": meta, "conditions": own, "statusFeedback": {"values": reported}});
        let mut work = work(&json!({}), &status(&json!(conditions), &json!([manifest])));
        if is_ending {
            work.metadata.generation = Some(3);
            work.metadata.deletion_timestamp = Some(api::time::from_chrono(DateTime::UNIX_EPOCH));
        }
        work
    }

    fn read(&self, is_ending: bool, is_turned: bool) -> WorkFeedback {
        read_at(&self.work(is_ending, is_turned), self.step, &TARGET)
    }

    /// Whether a condition of the work is of its generation, or names none.
    fn is_fresh(&self, kind: &str) -> bool {
        self.conditions
            .get(kind)
            .is_some_and(|(_, seen)| seen.is_none_or(|seen| seen == 0 || seen >= 2))
    }

    fn holds(&self, kind: &str) -> bool {
        self.is_fresh(kind) && self.conditions[kind].0 == "True"
    }

    /// Whether the status may count as success, as `docs/design/rules.md` says.
    fn may_be_done(&self) -> bool {
        let is_current = !self.conditions.contains_key("Applied") || self.is_fresh("Applied");
        let has_pods = self.number("succeeded").is_some_and(|pods| pods > 0);
        is_current
            && match self.step {
                Step::Platform => {
                    let is_behind = self.number("observedGeneration") < self.number("generation")
                        && self.number("observedGeneration").is_some();
                    let desired = self.text("desiredVersion");
                    let is_target =
                        self.text("version") == TARGET.version && self.text("state") == "Completed";
                    is_target && !is_behind && (desired.is_empty() || desired == TARGET.version)
                }
                Step::Operators => {
                    has_pods || (self.text("jobComplete") == "True" && self.text("jobFailed") != "True")
                }
                Step::PreAction | Step::PostAction => {
                    let has_none = self.number("succeeded").is_some_and(|pods| pods < 1);
                    self.holds("Available") && !has_none
                }
            }
    }
}

fn any_status() -> impl Strategy<Value = Status> {
    let seen = select(vec![None, Some(0), Some(1), Some(2), Some(3)]);
    let kinds = select(vec!["Applied", "Available", "Degraded", "Complete"]);
    let states = || select(vec!["True", "True", "False", "Unknown"]);
    let names = select(vec![
        "version",
        "state",
        "desiredVersion",
        "generation",
        "observedGeneration",
        "image",
        "failing",
        "succeeded",
        "failed",
        "active",
        "jobComplete",
        "jobFailed",
    ]);
    let texts = vec![
        "4.12.0",
        "4.12.0",
        "4.11.9",
        "Completed",
        "Completed",
        "Partial",
        "True",
        "False",
        "",
    ];
    let some = prop_oneof![
        select(texts).prop_map(|text| json!(text)),
        select(vec![-1, 0, 1, 2, i64::MAX, i64::MIN]).prop_map(|number| json!(number)),
        any::<bool>().prop_map(|flag| json!(flag)),
    ];
    let own = select(vec![
        "Applied",
        "Available",
        "Degraded",
        "Complete",
        "StatusFeedbackSynced",
    ]);
    (
        select(Step::ALL.to_vec()),
        btree_map(kinds, (states(), seen), 0..4),
        btree_map(names, some, 0..8),
        btree_map(own, states(), 0..3),
        any::<bool>(),
    )
        .prop_map(|(step, conditions, mut values, own, is_near)| {
            // Two numbers of failed pods are the same one.
            if values.get("jobFailed").is_some_and(Value::is_number) {
                values.remove("jobFailed");
            }
            if is_near {
                values.insert("version", json!("4.12.0"));
                values.insert("state", json!("Completed"));
            }
            Status {
                step,
                conditions,
                values,
                own,
            }
        })
}

#[test]
fn nothing_counts_as_success_that_is_of_another_generation_or_version_or_that_failed() {
    holds(1000, &any_status(), |status| {
        if status.read(false, false).status == StepStatus::Succeeded {
            prop_assert!(status.may_be_done());
        }
        Ok(())
    });
}

#[test]
fn neither_the_order_of_values_nor_a_deletion_changes_what_a_status_says() {
    holds(1000, &any_status(), |status| {
        let reading = status.read(false, false);
        prop_assert_eq!(&status.read(false, true), &reading);
        let ending = status.read(true, false);
        prop_assert_eq!(ending.status, reading.status);
        Ok(())
    });
}
