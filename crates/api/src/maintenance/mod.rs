//! Maintenance windows in a spec: when clusters may start (`docs/design/maintenance.md`).

// kubectl explain shows these comments; backticks would only clutter them.
#![allow(clippy::doc_markdown)]

mod boundary;
mod schedule;
mod zone;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::selector::LabelExpression;

pub use self::boundary::{Boundary, BoundaryError};
pub use self::schedule::{CronError, CronSchedule};
pub use self::zone::{UnknownZone, Zone};

/// The word with which minimumRemaining is left to the estimate of the upgrade.
pub const ESTIMATE: &str = "Estimate";
/// Most windows of a spec.
pub const MAX_WINDOWS: usize = 16;
/// Most exclusions of a spec.
pub const MAX_EXCLUSIONS: usize = 64;

/// When clusters may start. Clusters that have started are not affected, and their timeouts keep running.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.minimumRemaining) || !has(self.windows) || !self.minimumRemaining.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$|^0$') || self.windows.all(window, !window.duration.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || duration(window.duration) > duration(self.minimumRemaining))").message("spec.maintenance.minimumRemaining must be shorter than every window; make one window of windows that touch"))]
pub struct MaintenanceSpec {
    /// Time zone of clusters of which timeZoneFrom does not tell it, by its IANA name, such as Europe/Berlin; UTC by default.
    #[serde(default = "utc")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: String,
    /// Where a cluster tells its time zone. A cluster that tells none has that of timeZone; one whose zone does not exist is
    /// blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone_from: Option<TimeZoneSource>,
    /// Clusters start only in a window that selects them. Windows that overlap or touch are one. A cluster that none selects is
    /// blocked. Without windows, clusters may start at any time that is not excluded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub windows: Vec<MaintenanceWindow>,
    /// Times in which no cluster starts, whatever the windows say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub exclusions: Vec<MaintenanceExclusion>,
    /// A cluster starts only while more than this remains until its window closes, such as 2h; 0 by default. It must be shorter than every
    /// window. Estimate: what the slowest cluster that has not started takes in nine of ten cases by the estimate of the upgrade or, while
    /// that is not known, by the time limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::minimum_remaining")]
    pub minimum_remaining: Option<String>,
}

fn utc() -> String {
    "UTC".to_owned()
}

impl Default for MaintenanceSpec {
    fn default() -> Self {
        Self {
            time_zone: utc(),
            time_zone_from: None,
            windows: Vec::new(),
            exclusions: Vec::new(),
            minimum_remaining: None,
        }
    }
}

/// Where a cluster tells its time zone: exactly one of annotation, claim and label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.annotation), has(self.claim), has(self.label)].filter(one, one).size() == 1").message("set exactly one of annotation, claim and label"))]
pub struct TimeZoneSource {
    /// Annotation of the ManagedCluster. Its name must contain zone or tz, because the controller keeps no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    #[x_kube(validation = Rule::new("self.matches('zone|tz')").message("must contain zone or tz, such as example.com/time-zone, because the controller keeps no other annotations"))]
    pub annotation: Option<String>,
    /// ClusterClaim of the cluster. Its name must contain zone or tz, because the controller keeps no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('zone|tz')").message("must contain zone or tz, such as time-zone.example.com, because the controller keeps no other claims"))]
    pub claim: Option<String>,
    /// Label of the ManagedCluster. A label cannot contain a slash: in its value, dots stand for slashes, such as Europe.Berlin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    pub label: Option<String>,
}

/// True for the name of an annotation or a claim that may tell a time zone.
#[must_use]
pub fn may_tell_zone(name: &str) -> bool {
    name.contains("zone") || name.contains("tz")
}

/// A window that repeats.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceWindow {
    /// Name of the window.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[!-~]+$')").message("must be a name in printable ASCII characters without white space"))]
    pub name: String,
    /// When it opens, in the five fields of cron: minute, hour, day of the month, month, day of the week. It is read in the time zone of
    /// each cluster. If both days are given, one of them is enough: the first Monday is 1#1, and not 1-7 with 1. A time that clocks skip counts as the first instant after it; of a time that they show twice, the first counts.
    #[schemars(length(min = 9, max = 128))]
    #[x_kube(validation = Rule::new("self.matches('^[^ ]+( +[^ ]+){4}$')").message("must have five fields: minute, hour, day of the month, month, day of the week, such as 0 22 * * 1-5"))]
    pub schedule: String,
    /// How long it is open, such as 6h, in elapsed time: on days when clocks change, too.
    #[schemars(schema_with = "schema::duration")]
    pub duration: String,
    /// Clusters that the window is for; all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_selector: Option<WindowSelector>,
}

/// Selects clusters by labels and expressions; a cluster must match all of them. The keys metadata.name and name are those of
/// spec.clusterSelector.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WindowSelector {
    /// Labels that a cluster must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub match_labels: BTreeMap<String, String>,
    /// Label expressions that a cluster must satisfy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<LabelExpression>,
}

/// A time in which no cluster starts: from start on, and before end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceExclusion {
    /// Name of the exclusion.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[!-~]+$')").message("must be a name in printable ASCII characters without white space"))]
    pub name: String,
    /// When it begins: a time in the zone of each cluster, such as 2026-12-18T00:00, or an instant, such as 2026-12-18T00:00:00Z.
    #[schemars(length(min = 16, max = 40))]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?(Z|[+-][0-9]{2}:[0-9]{2})?$')").message("must be a time such as 2026-12-18T00:00, or an instant such as 2026-12-18T00:00:00Z"))]
    pub start: String,
    /// When it is over, in the same form.
    #[schemars(length(min = 16, max = 40))]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?(Z|[+-][0-9]{2}:[0-9]{2})?$')").message("must be a time such as 2027-01-07T00:00, or an instant such as 2027-01-07T00:00:00Z"))]
    pub end: String,
}

/// Clusters that wait for their maintenance windows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceSummary {
    /// Number of clusters.
    pub waiting: i64,
    /// The first time at which one of their windows opens. Absent while that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_opening: Option<Time>,
    /// How much of a window must remain for a start, where spec.maintenance.minimumRemaining is Estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_remaining: Option<String>,
}
