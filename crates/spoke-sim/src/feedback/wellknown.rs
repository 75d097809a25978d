//! The paths of `WellKnownStatus`.

use std::sync::LazyLock;

use serde_json::Value;

use crate::fields;
use crate::work::FieldPath;

type Table = [(&'static str, &'static str, Vec<FieldPath>); 4];

static PATHS: LazyLock<Table> = LazyLock::new(|| {
    let paths = |list: &[(&str, &str)]| {
        list.iter()
            .map(|(name, path)| FieldPath::new(name, path, ""))
            .collect::<Vec<_>>()
    };
    [
        (
            "apps/v1",
            "Deployment",
            paths(&[
                ("ReadyReplicas", ".status.readyReplicas"),
                ("Replicas", ".status.replicas"),
                ("AvailableReplicas", ".status.availableReplicas"),
            ]),
        ),
        (
            "batch/v1",
            "Job",
            paths(&[
                (
                    "JobComplete",
                    ".status.conditions[?(@.type==\"Complete\")].status",
                ),
                ("JobSucceeded", ".status.succeeded"),
            ]),
        ),
        (
            "v1",
            "Pod",
            paths(&[
                ("PodReady", ".status.conditions[?(@.type==\"Ready\")].status"),
                ("PodPhase", ".status.phase"),
            ]),
        ),
        (
            "apps/v1",
            "DaemonSet",
            paths(&[
                ("NumberReady", ".status.numberReady"),
                ("DesiredNumberScheduled", ".status.desiredNumberScheduled"),
                ("NumberAvailable", ".status.numberAvailable"),
            ]),
        ),
    ]
});

/// The paths for the kind of an object, if the agent knows it.
pub(super) fn paths(object: &Value) -> Option<&'static [FieldPath]> {
    let (api_version, kind) = (
        fields::text(object, &["apiVersion"]),
        fields::text(object, &["kind"]),
    );
    PATHS
        .iter()
        .find(|row| row.0 == api_version && row.1 == kind)
        .map(|row| row.2.as_slice())
}
