//! What a broken controller would do, played at its wire: each mutation must be found by a rule
//! (`crates/simulation/tests/mutations.rs`).

use api::names::{ANNOTATION_ATTEMPT, ANNOTATION_OWNER, LABEL_MCU_UID, PROBE, Step};
use serde_json::{Value, json};

use crate::admin::{reports_of, upgrades_of, works_of};
use crate::names::{OUTSIDER, RIVAL, TEAM, UPGRADE};
use crate::protection::Protection;
use crate::world::{GATE, cluster};

/// A way in which the controller is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutation {
    /// It takes maxConcurrency for larger than it is.
    BlindToConcurrency,
    /// It does not see that canaries are asked for.
    BlindToCanaries,
    /// It does not see that the upgrade is paused.
    BlindToPause,
    /// It does not see which clusters are skipped or aborted.
    BlindToLeftOut,
    /// It does not see that clusters have begun an update.
    BlindToBegin,
    /// It takes an action whose objects are there for one that has failed.
    BlindToSuccess,
    /// It does not see that there are maintenance windows.
    BlindToWindows,
    /// It does not see that windows have exclusions.
    BlindToExclusions,
    /// It takes less time for enough before a window closes.
    BlindToRemaining,
    /// It does not see at which checkpoints approvals are asked for.
    BlindToCheckpoints,
    /// It does not see that approvals expire.
    BlindToExpiry,
    /// It does not see `maxFailures`.
    BlindToFailures,
    /// It takes the time limit of a cluster for shorter than it is.
    BlindToTime,
    /// It does not see which version a cluster runs.
    BlindToVersion,
    /// It deletes the platform work as soon as it is created.
    DeleteAtOnce,
    /// It creates every work for a cluster that nobody selected, too.
    StartOutsider,
    /// It takes over for the second upgrade what the first one has just begun.
    TakeOver,
    /// It deletes whatever has the name of its work.
    DeleteForeign,
    /// Its deletions do not name the object that they mean.
    Unconditional,
    /// It writes the first report again at the end of every other.
    OldRows,
    /// Its statuses leave a condition out.
    MissingCondition,
    /// It writes without the Lease.
    WriteAlways,
    /// It sends statuses again and again.
    Storm,
    /// It sends what changes nothing about every cluster, each less often than one request may be sent.
    LoopOverFleet,
    /// Its works are never created, and its statuses deny that a human is needed.
    SilentStall,
    /// Its statuses deny that a human is needed.
    SilentRefusal,
    /// It reports that its plan violates a rule.
    RefusedPlan,
    /// Its platform works do not spare the `ClusterVersion`.
    TakeAway,
    /// It changes an annotation whenever it renews the Lease.
    NeverQuiet,
    /// It changes an annotation whenever it reads the Lease, which only a new process does.
    WriteAtStart,
    /// Its loop ends.
    End,
    /// What publishes its Events ends.
    EndEvents,
    /// A task that nobody waits for panics.
    Panic,
    /// It goes round in a circle in which no time passes.
    Circle,
    /// It deletes its upgrade.
    DeleteUpgrade,
    /// It takes over for the second upgrade a cluster that the first one watches for a while after its update.
    TakeOverInSoak,
    /// It takes the time limits of operators and actions for shorter than they are.
    BlindToOtherTimes,
    /// It takes them for longer than they are.
    BlindToOtherTimeouts,
    /// It takes an update that goes on for one that has ended.
    BlindToProgress,
    /// It takes a soak for shorter than it is.
    BlindToSoak,
    /// It does not see that a post-action is asked for.
    BlindToPostAction,
    /// It takes maxConcurrency for larger than it is, and never writes a status.
    BlindAndSilent,
    /// It takes the time limit of a cluster for longer than it is.
    BlindToTimeout,
    /// Its deletions of works never arrive.
    NeverDelete,
    /// It creates a work of no upgrade with each of its own, and cannot delete it.
    LeaveBehind,
    /// It sends what changes nothing whenever it renews the Lease.
    NeverSatisfied,
    /// It lists all upgrades whenever it renews the Lease.
    ListAgain,
    /// It reads its upgrade whenever it renews the Lease.
    ReadAgain,
    /// Its transition times never move.
    FrozenTimes,
    /// Its checker refuses a plan, and no Event says so.
    RefusedInSilence,
    /// It takes each cluster for newer than what is asked for.
    TakesForNewer,
    /// It writes each row into a second report, too, and does not see that report.
    RecordTwice,
    /// It writes the first row of a report twice into it.
    DoubleRow,
    /// It cannot read the specs of clusters.
    Illegible,
    /// It does not see that the third cluster has other labels.
    BlindToLeaving,
    /// It takes an update that a cluster does not offer for one that it offers.
    BlindToOffers,
    /// It takes worker pools that are being updated for pools that are updated.
    BlindToPools,
    /// Its probes acknowledge a gate that no spec names.
    AcknowledgeMore,
    /// Its probes write what they should only read.
    ChangeMore,
    /// Its updates acknowledge another gate than the spec.
    AcknowledgeOther,
    /// It does not see that an update has ended.
    BlindToEnd,
    /// It takes the request of an update back when it changes a work.
    Withdraw,
    /// It creates a work of its upgrade with each of its own, and takes that for somebody else's.
    Disown,
    /// Where it writes these places of an object, it writes these values, as JSON. These have tests of their own.
    Misstates(&'static [(&'static str, &'static str)]),
    /// It lacks a protection from faults. These have tests of their own.
    Lacks(Protection),
}

/// A request as a mutation sees it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// GET, POST, PUT, PATCH, DELETE or WATCH.
    pub verb: &'a str,
    /// The path without the query.
    pub path: &'a str,
    /// The body.
    pub body: &'a str,
}

impl Seen<'_> {
    /// Whether it has this verb, and this is in its path.
    pub(crate) fn is(self, verb: &str, plural: &str) -> bool {
        self.verb == verb && self.path.contains(plural)
    }

    fn is_probe(self) -> bool {
        self.is("POST", "/manifestworks") && self.body.contains(PROBE)
    }

    fn value(self) -> Value {
        serde_json::from_str(self.body).unwrap_or_default()
    }
}

/// A request that a mutation adds: method, path, media type and body.
pub type Extra = (&'static str, String, &'static str, Value);

const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";

fn touch(note: &str) -> Extra {
    let change = json!({"metadata": {"annotations": {"touched": note}}});
    ("PATCH", format!("{}/{UPGRADE}", upgrades_of(TEAM)), MERGE, change)
}

/// Gives the platform work of a cluster to the second upgrade, for an attempt of that one.
fn take_over(cluster: &str) -> Extra {
    let name = Step::Platform.work_name(cluster);
    let change = json!({"metadata": {"labels": {
        "cluster.open-cluster-management.io/managedclustersupgrade-uid": format!("<{RIVAL}>")
    }, "annotations": {ANNOTATION_ATTEMPT: "stolen"}}});
    ("PATCH", format!("{}/{name}", works_of(cluster)), MERGE, change)
}

/// The first report that was written, once more and whatever its version is now.
fn first_again(first: Option<&str>) -> Vec<Extra> {
    let mut old = first.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let meta = old
        .as_mut()
        .and_then(|old| old.get_mut("metadata")?.as_object_mut());
    meta.map(|meta| meta.remove("resourceVersion"));
    let path = format!(
        "{}/{UPGRADE}-report-1?fieldManager=mcu-controller&force=true",
        reports_of(TEAM)
    );
    old.map(|old| ("PATCH", path, APPLY, old)).into_iter().collect()
}

/// The same work for a cluster that nobody selected.
fn for_outsider(seen: Seen<'_>) -> Extra {
    let text = seen.body.replace("c00", OUTSIDER);
    let work = serde_json::from_str(&text).unwrap_or_default();
    ("POST", works_of(OUTSIDER), JSON, work)
}

/// The same, but with another owner.
fn left_behind(seen: Seen<'_>, notes: &str, name: &str, owner: &str) -> Extra {
    let mut extra = for_outsider(seen);
    extra.3["metadata"][notes][name] = owner.into();
    extra
}

/// The first cluster that is in its soak by a report.
fn in_soak(report: &Value) -> Option<String> {
    let mut rows = report.get("rows")?.as_array()?.iter();
    let row = rows.find(|row| row["phase"] == "Soaking")?;
    row.get("cluster")?.as_str().map(ToOwned::to_owned)
}

/// Writes the rows of a report into the second report of the upgrade.
fn second_report(mut report: Value) -> Extra {
    let name = format!("{UPGRADE}-report-2");
    let path = format!(
        "{}/{name}?fieldManager=mcu-controller&force=true",
        reports_of(TEAM)
    );
    if let Some(meta) = report.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.insert("name".to_owned(), name.into());
        meta.remove("resourceVersion");
        meta.remove("uid");
    }
    ("PATCH", path, APPLY, report)
}

/// A probe that acknowledges a gate, too.
fn acknowledging(mut probe: Value) -> Option<String> {
    let manifests = probe.pointer_mut("/spec/workload/manifests")?.as_array_mut()?;
    let acks = manifests
        .iter_mut()
        .find(|one| one["metadata"]["name"] == "admin-acks")?;
    acks["data"] = json!({GATE: "true"});
    let configs = probe.pointer_mut("/spec/manifestConfigs")?.as_array_mut()?;
    let config = configs
        .iter_mut()
        .find(|one| one["resourceIdentifier"]["name"] == "admin-acks")?;
    config["updateStrategy"] =
        json!({"type": "ServerSideApply", "serverSideApply": {"force": true, "fieldManager": "work-agent"}});
    Some(probe.to_string())
}

/// The same object with these values in these places, if it has the objects that they are in.
fn misstated(mut object: Value, places: &[(&str, &str)]) -> Option<String> {
    for (place, value) in places {
        let (parent, field) = place.rsplit_once('/')?;
        let parent = object.pointer_mut(parent)?.as_object_mut()?;
        parent.insert(field.replace("~1", "/"), serde_json::from_str(value).ok()?);
    }
    Some(object.to_string())
}

/// Two changes of a work that does not exist for each of twelve clusters.
fn loop_over_fleet() -> Vec<Extra> {
    let paths = (0..24).map(|number| format!("{}/nothing", works_of(&cluster(number % 12))));
    paths.map(|path| ("PATCH", path, MERGE, json!({}))).collect()
}

impl Mutation {
    /// All of them, but those that have tests of their own.
    pub const ALL: [Self; 63] = [
        Self::BlindToConcurrency,
        Self::BlindToCanaries,
        Self::BlindToPause,
        Self::BlindToLeftOut,
        Self::BlindToBegin,
        Self::BlindToSuccess,
        Self::BlindToWindows,
        Self::BlindToExclusions,
        Self::BlindToRemaining,
        Self::BlindToCheckpoints,
        Self::BlindToExpiry,
        Self::BlindToFailures,
        Self::BlindToTime,
        Self::BlindToVersion,
        Self::DeleteAtOnce,
        Self::StartOutsider,
        Self::TakeOver,
        Self::DeleteForeign,
        Self::Unconditional,
        Self::OldRows,
        Self::MissingCondition,
        Self::WriteAlways,
        Self::Storm,
        Self::LoopOverFleet,
        Self::SilentStall,
        Self::SilentRefusal,
        Self::RefusedPlan,
        Self::TakeAway,
        Self::NeverQuiet,
        Self::WriteAtStart,
        Self::End,
        Self::EndEvents,
        Self::Panic,
        Self::Circle,
        Self::DeleteUpgrade,
        Self::TakeOverInSoak,
        Self::BlindToOtherTimes,
        Self::BlindToOtherTimeouts,
        Self::BlindToProgress,
        Self::BlindToSoak,
        Self::BlindToPostAction,
        Self::BlindAndSilent,
        Self::BlindToTimeout,
        Self::NeverDelete,
        Self::LeaveBehind,
        Self::NeverSatisfied,
        Self::ListAgain,
        Self::ReadAgain,
        Self::FrozenTimes,
        Self::RefusedInSilence,
        Self::TakesForNewer,
        Self::RecordTwice,
        Self::DoubleRow,
        Self::Illegible,
        Self::BlindToLeaving,
        Self::BlindToOffers,
        Self::BlindToPools,
        Self::AcknowledgeMore,
        Self::ChangeMore,
        Self::AcknowledgeOther,
        Self::BlindToEnd,
        Self::Withdraw,
        Self::Disown,
    ];

    /// What the controller reads instead of something else.
    #[must_use]
    pub const fn reads(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::BlindToConcurrency | Self::BlindAndSilent => {
                Some(("\"maxConcurrency\":1", "\"maxConcurrency\":3"))
            }
            Self::BlindToCanaries => Some(("\"canaryClusters\"", "\"strangeClusters\"")),
            Self::BlindToPause => Some(("\"paused\":true", "\"paused\":false")),
            Self::BlindToLeftOut => Some((
                "\"acknowledgeCanary\":true,\"cluster\":\"c",
                "\"acknowledgeCanary\":true,\"cluster\":\"x",
            )),
            Self::BlindToBegin => Some(("\"string\":\"4.14.12\"", "\"string\":\"4.14.9\"")),
            Self::BlindToSuccess => Some(("\"type\":\"Available\"", "\"type\":\"Degraded\"")),
            Self::BlindToWindows => Some(("\"maintenance\":{", "\"strangeMaintenance\":{")),
            Self::BlindToExclusions => Some(("\"exclusions\":[", "\"strangeExclusions\":[")),
            Self::BlindToRemaining => Some(("\"minimumRemaining\":\"250s\"", "\"minimumRemaining\":\"1s\"")),
            Self::BlindToCheckpoints => Some((
                "\"approvals\":[{\"name\":\"clusters\"",
                "\"strange\":[{\"name\":\"clusters\"",
            )),
            Self::BlindToExpiry => Some(("\"expires\":\"2026", "\"strange\":\"2026")),
            Self::BlindToFailures => Some(("\"maxFailures\":0", "\"maxFailures\":9")),
            Self::BlindToTime => Some((
                "\"clusterUpgradeTimeout\":\"240s\"",
                "\"clusterUpgradeTimeout\":\"10s\"",
            )),
            Self::BlindToTimeout => Some((
                "\"clusterUpgradeTimeout\":\"240s\"",
                "\"clusterUpgradeTimeout\":\"2400s\"",
            )),
            Self::BlindToOtherTimes => Some(("Timeout\":\"241s\"", "Timeout\":\"10s\"")),
            Self::BlindToOtherTimeouts => Some(("Timeout\":\"241s\"", "Timeout\":\"2400s\"")),
            Self::BlindToProgress => Some(("\"string\":\"Partial\"", "\"string\":\"Completed\"")),
            Self::BlindToEnd => Some(("\"string\":\"Completed\"", "\"string\":\"Partial\"")),
            Self::BlindToSoak => Some(("\"minSuccessTime\":\"60s\"", "\"minSuccessTime\":\"1s\"")),
            Self::BlindToPostAction => Some(("\"postUpgradeAction\"", "\"strangeUpgradeAction\"")),
            Self::BlindToVersion => Some(("\"value\":\"4.14.12\"", "\"value\":\"4.14.1\"")),
            Self::TakesForNewer => Some(("\"value\":\"4.14.9\"", "\"value\":\"4.14.19\"")),
            Self::Illegible => Some(("\"hubAcceptsClient\":true", "\"hubAcceptsClient\":\"yes\"")),
            Self::RecordTwice => Some(("spring-report-2", "strange-report-2")),
            Self::BlindToLeaving => Some((
                "clusterset\":\"fleet\",\"name\":\"elsewhere\"",
                "clusterset\":\"fleet\",\"name\":\"c02\"",
            )),
            Self::BlindToOffers => Some((
                r#""message":"offer/1""#,
                r#""message":"offer/1\nlisted registry/release""#,
            )),
            Self::BlindToPools => Some(("updating 1 worker", "updated 1 worker")),
            Self::Lacks(protection) => protection.reads(),
            _ => None,
        }
    }

    /// The body that is sent instead of another.
    #[must_use]
    pub fn writes(self, seen: Seen<'_>) -> Option<String> {
        match self {
            Self::Unconditional if seen.is("DELETE", "/manifestworks/") => Some("{}".to_owned()),
            Self::MissingCondition if seen.path.ends_with("/status") => {
                Some(seen.body.replace("\"type\":\"Ready\"", "\"type\":\"Reddy\""))
            }
            Self::SilentStall | Self::SilentRefusal if seen.path.ends_with("/status") => {
                let mut status = seen.value();
                let conditions = status
                    .pointer_mut("/status/conditions")
                    .and_then(Value::as_array_mut);
                for condition in conditions
                    .into_iter()
                    .flatten()
                    .filter(|one| one["type"] == "Stalled")
                {
                    condition["status"] = "False".into();
                }
                Some(status.to_string())
            }
            Self::RefusedPlan if seen.is("POST", "/events") => Some(
                seen.body
                    .replace("\"reason\":\"Started\"", "\"reason\":\"PlanRefused\""),
            ),
            Self::Misstates(places) => misstated(seen.value(), places),
            Self::Withdraw if seen.is("PATCH", "/manifestworks/") => {
                let mut work = seen.value();
                work["spec"] = json!({"workload": {"manifests": []}});
                Some(work.to_string())
            }
            Self::FrozenTimes if seen.path.ends_with("/status") => {
                let mut status = seen.value();
                let conditions = status
                    .pointer_mut("/status/conditions")
                    .and_then(Value::as_array_mut);
                for condition in conditions.into_iter().flatten() {
                    condition["lastTransitionTime"] = "2026-01-01T00:00:00Z".into();
                }
                Some(status.to_string())
            }
            Self::DoubleRow
                if matches!(seen.verb, "POST" | "PATCH") && seen.path.contains("upgradereports") =>
            {
                let mut report = seen.value();
                let rows = report.get_mut("rows")?.as_array_mut()?;
                rows.extend(rows.first().cloned());
                Some(report.to_string())
            }
            Self::ChangeMore if seen.is_probe() => {
                Some(seen.body.replace(r#""type":"ReadOnly""#, r#""type":"Update""#))
            }
            Self::AcknowledgeMore if seen.is_probe() => acknowledging(seen.value()),
            Self::AcknowledgeOther if seen.is("POST", "/manifestworks") && !seen.is_probe() => {
                Some(seen.body.replace(GATE, "ack-of-nobody"))
            }
            Self::TakeAway if seen.is("POST", "/manifestworks") => {
                let mut work = seen.value();
                work.get_mut("spec")?.as_object_mut()?.remove("deleteOption");
                Some(work.to_string())
            }
            _ => None,
        }
    }

    /// Whether the hub refuses a request as invalid.
    #[must_use]
    pub fn is_refused(self, seen: Seen<'_>) -> bool {
        match self {
            Self::SilentStall => seen.is("POST", "/manifestworks"),
            Self::BlindAndSilent => seen.path.ends_with("/status"),
            Self::NeverDelete => seen.is("DELETE", "/manifestworks/"),
            Self::LeaveBehind => seen.is("DELETE", &works_of(OUTSIDER)),
            _ => false,
        }
    }

    /// What is sent after a request that the hub has taken. `first` is the first report that was written, `count` how often this
    /// replica has sent the request.
    #[must_use]
    pub fn adds(self, seen: Seen<'_>, first: Option<&str>, identity: &str, count: u64) -> Vec<Extra> {
        let is_start = seen.is("POST", "/manifestworks");
        match self {
            Self::DeleteAtOnce if is_start => {
                let work = seen.value();
                let cluster = seen.path.split('/').nth(5).unwrap_or_default();
                let name = work
                    .pointer("/metadata/name")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                vec![("DELETE", format!("{}/{name}", works_of(cluster)), JSON, json!({}))]
            }
            Self::StartOutsider if is_start => vec![for_outsider(seen)],
            Self::LeaveBehind if is_start => vec![left_behind(seen, "labels", LABEL_MCU_UID, "nobody")],
            Self::Disown if is_start => {
                vec![left_behind(
                    seen,
                    "annotations",
                    ANNOTATION_OWNER,
                    "strangers/other",
                )]
            }
            Self::TakeOver if is_start && seen.body.contains(UPGRADE) => {
                vec![take_over(seen.path.split('/').nth(5).unwrap_or_default())]
            }
            Self::TakeOverInSoak if seen.is("PATCH", "upgradereports") => in_soak(&seen.value())
                .map(|cluster| take_over(&cluster))
                .into_iter()
                .collect(),
            Self::DeleteUpgrade if seen.path.ends_with("/status") && count == 5 => {
                vec![(
                    "DELETE",
                    format!("{}/{UPGRADE}", upgrades_of(TEAM)),
                    JSON,
                    json!({}),
                )]
            }
            Self::DeleteForeign if seen.is("POST", "/manifestworks") => {
                let name = Step::Platform.work_name("c02");
                vec![("DELETE", format!("{}/{name}", works_of("c02")), JSON, json!({}))]
            }
            Self::OldRows if seen.is("PATCH", "upgradereports") => first_again(first),
            Self::RecordTwice if seen.is("POST", "upgradereports") || seen.is("PATCH", "upgradereports") => {
                vec![second_report(seen.value())]
            }
            Self::WriteAlways if seen.is("GET", "/leases") => vec![touch(&format!("{identity} {count}"))],
            Self::Storm if seen.path.ends_with("/status") => {
                let status = serde_json::from_str(seen.body).unwrap_or_default();
                let extra: Extra = (
                    "PATCH",
                    format!("{}?fieldManager=mcu-controller&force=true", seen.path),
                    APPLY,
                    status,
                );
                vec![extra; 80]
            }
            // Only for two minutes, so that nothing else is wrong in the end.
            Self::LoopOverFleet if seen.is("PUT", "/leases") && count <= 24 => loop_over_fleet(),
            Self::NeverSatisfied if seen.is("PUT", "/leases") => {
                let path = format!("{}/{UPGRADE}", upgrades_of(TEAM));
                vec![("PATCH", path, MERGE, json!({}))]
            }
            Self::ListAgain if seen.is("PUT", "/leases") => {
                vec![("GET", upgrades_of(TEAM), JSON, json!({}))]
            }
            Self::ReadAgain if seen.is("PUT", "/leases") => {
                vec![("GET", format!("{}/{UPGRADE}", upgrades_of(TEAM)), JSON, json!({}))]
            }
            Self::NeverQuiet if seen.is("PUT", "/leases") => vec![touch(&count.to_string())],
            Self::WriteAtStart if count == 1 && seen.is("PUT", "/leases") => {
                vec![touch(identity)]
            }
            _ => Vec::new(),
        }
    }
}
