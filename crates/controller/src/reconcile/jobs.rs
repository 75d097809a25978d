//! Converts the operations of a plan, due reports and due statuses to write jobs. No I/O.

use std::sync::Arc;

use api::names::{ANNOTATION_REPLACES, LABEL_MCU, LABEL_MCU_UID};
use chrono::{DateTime, Utc};
use observe::index::{Index, WorkRequest};
use rollout::maintenance::Opening;
use rollout::{Attempt, DeleteReason, Fleet, GivenApproval, KnownApprovals, Operation, Phase, Plan, Step};
use serde_json::json;

use crate::apply::{WorkParams, Write, WriteJob};
use crate::clock;
use crate::reconcile::request::PlanRequest;
use crate::report::shard::{ShardWrite, StoredReport};
use crate::report::text::for_yaml;
use crate::state::upgrade::UpgradeEntry;

pub(crate) fn finalizer_job(
    entry: &mut UpgradeEntry,
    finalizers: Vec<String>,
    recorded_uid: Option<Arc<str>>,
) -> WriteJob {
    entry.finalizing = true;
    let write = Write::Finalizers {
        namespace: Arc::clone(&entry.namespace),
        name: Arc::clone(&entry.name),
        version: entry.object.metadata.resource_version.clone().unwrap_or_default(),
        finalizers,
        recorded_uid,
    };
    WriteJob {
        upgrade: Arc::clone(&entry.uid),
        write,
    }
}

/// The job of an operation. `None` if it cannot be executed, or was executed too often; then the cluster waits.
pub(super) fn prepare(
    entry: &mut UpgradeEntry,
    index: &Index,
    operation: &Operation,
    (wanted, fleet, plan): (&PlanRequest, &Fleet, &Plan),
    now: DateTime<Utc>,
) -> Option<WriteJob> {
    let cluster = operation.cluster();
    if let Some(wait) = entry
        .operation_limit
        .take(cluster, operation.step(), operation.kind(), clock::now())
    {
        entry.hold_off(cluster, now, operation.kind(), wait);
        return None;
    }
    let write = write_of(entry, index, operation, (wanted, fleet, plan), now)?;
    entry.begin(cluster, start(operation));
    Some(WriteJob {
        upgrade: Arc::clone(&entry.uid),
        write,
    })
}

/// The attempt of an operation that starts a step that holds a slot.
fn start(operation: &Operation) -> Option<&Attempt> {
    match operation {
        Operation::Create { attempt, step, .. } => Some(attempt).filter(|_| *step != Step::PostAction),
        Operation::Update { attempt, .. } => Some(attempt),
        Operation::Withdraw { .. }
        | Operation::MarkSoak { .. }
        | Operation::Read { .. }
        | Operation::Delete { .. } => None,
    }
}

/// The write of an operation. `None` if the spec or the work that it needs is unknown.
fn write_of(
    entry: &UpgradeEntry,
    index: &Index,
    operation: &Operation,
    (wanted, fleet, plan): (&PlanRequest, &Fleet, &Plan),
    now: DateTime<Utc>,
) -> Option<Write> {
    let cluster = Arc::clone(operation.cluster());
    let step = operation.step();
    let uid = || index.work_of(&cluster, step).map(|view| Arc::clone(&view.uid));
    let managed = || index.clusters.get(&cluster);
    let params = |attempt: &Attempt, started: DateTime<Utc>| {
        let (request, fresh_until) = request(entry, index, (&cluster, attempt), wanted, now);
        let fresh_until = fresh_until.filter(|_| step == Step::Platform);
        let until = permitted_until(fleet, &cluster, now);
        Some(WorkParams {
            spec: Arc::clone(wanted.spec.as_ref()?),
            violations: wanted.violations.clone(),
            owner: Arc::clone(&entry.key),
            cluster_uid: managed().map_or_else(Arc::default, |view| Arc::clone(&view.uid)),
            cluster_id: managed().and_then(|view| Some(Arc::clone(&view.id.as_ref()?.text))),
            request,
            attempt: attempt.clone(),
            started,
            starts: is_start(plan, &cluster),
            until: until.into_iter().chain(fresh_until).min(),
            approvals: counted_approvals(wanted, fleet),
        })
    };
    Some(match operation {
        Operation::Create { attempt, started, .. } => Write::Create {
            params: params(attempt, *started)?,
            cluster,
            step,
            slot_released_at: wanted.slot_released_at,
        },
        Operation::Update { attempt, started, .. } => Write::Update {
            params: params(attempt, *started)?,
            uid: uid()?,
            version: index.work_of(&cluster, step)?.version,
            cluster,
        },
        Operation::Withdraw { .. } => Write::Withdraw {
            uid: uid()?,
            version: index.work_of(&cluster, step)?.version,
            cluster,
            spec: Arc::clone(wanted.spec.as_ref()?),
            violations: wanted.violations.clone(),
        },
        Operation::MarkSoak { started, .. } => {
            let note = api::time::to_rfc3339(*started);
            let uid = uid()?;
            let patch = json!({"metadata": {"uid": &*uid, "annotations": {api::names::ANNOTATION_SOAK_STARTED_AT: note}}});
            Write::MarkSoak {
                cluster,
                step,
                uid,
                patch,
            }
        }
        Operation::Read { .. } => read(entry, index, cluster, step, now),
        Operation::Delete { why, .. } => Write::Delete {
            uid: uid()?,
            version: kept_version(entry, index, (&cluster, step), *why),
            cluster,
            step,
            halt: is_halt(*why),
        },
    })
}

/// True when a plan starts a cluster.
fn is_start(plan: &Plan, cluster: &str) -> bool {
    let found = plan.clusters.binary_search_by(|known| (*known.name).cmp(cluster));
    found.is_ok_and(|position| plan.clusters[position].starting)
}

/// The approvals that count in a plan: none while it is not known which there are still.
fn counted_approvals(wanted: &PlanRequest, fleet: &Fleet) -> Arc<[GivenApproval]> {
    if wanted.policy.approvals == KnownApprovals::Current {
        Arc::clone(&fleet.approvals)
    } else {
        Arc::default()
    }
}

/// When the maintenance windows of a cluster close, if they are open, or the next approval expires. Whatever is planned while windows are
/// closed is no start, and goes by no window.
fn permitted_until(fleet: &Fleet, cluster: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let calendar = fleet.find(cluster).and_then(|cluster| cluster.calendar);
    let opening = calendar
        .and_then(|calendar| fleet.calendars.get(calendar))
        .map(|calendar| calendar.at(now));
    let closes = match opening {
        Some(Opening::Open { closes }) => closes,
        Some(Opening::Closed { .. }) | None => None,
    };
    let expiries = fleet.approvals.iter().filter_map(|approval| approval.expires);
    closes
        .into_iter()
        .chain(expiries.filter(|expires| now < *expires))
        .min()
}

/// How a cluster is asked for the version: by its answers or, once a work of this attempt asks for it or the cluster has begun the
/// update, as that work does. What is kept of a work that is gone proves its end, and does not ask. And until when, if answers by which
/// it is asked are good for some minutes only.
fn request(
    entry: &UpgradeEntry,
    index: &Index,
    (cluster, attempt): (&str, &Attempt),
    wanted: &PlanRequest,
    now: DateTime<Utc>,
) -> (WorkRequest, Option<DateTime<Utc>>) {
    let policy = &wanted.policy;
    let work = index.work_of(cluster, Step::Platform);
    let present = work.filter(|view| view.upgrade == entry.uid && !view.work.vanished);
    let asked = present.filter(|view| view.work.asks_for(policy, Some(attempt)));
    if let Some(view) = asked {
        return (view.request.clone(), None);
    }
    let request = entry.preflights.request(cluster, policy.clock_trusted, now);
    let is_by_image = matches!(request, WorkRequest::Image(_));
    let until = entry.preflights.image_until(cluster).filter(|_| is_by_image);
    (request, until)
}

/// True when a deletion stops a running step instead of cleaning up after a finished one.
const fn is_halt(why: DeleteReason) -> bool {
    matches!(why, DeleteReason::LeftSelection | DeleteReason::UpgradeDeleted)
}

/// The version of a work that may only be deleted as it is known: one whose step is over. Another upgrade may be taking it over
/// at this moment (`docs/design/rules.md#platform-work-kept`), or the storage of the hub may have gone back to a time before the
/// step was over, and the deletion would make it run twice (`docs/design/rules.md#terminal-row-first`).
///
/// The same holds when the upgrade is being deleted, on a cluster where nothing of it is under way: if the response to the deletion is
/// lost, the deletion may be carried out when another upgrade has taken the work over.
fn kept_version(
    entry: &UpgradeEntry,
    index: &Index,
    (cluster, step): (&str, Step),
    why: DeleteReason,
) -> Option<u64> {
    let stops_a_step = is_halt(why) && !(why == DeleteReason::UpgradeDeleted && may_give_way(entry, cluster));
    let view = index.work_of(cluster, step).filter(|_| !stops_a_step);
    view.map(|view| view.version)
}

/// True when nothing of an upgrade is under way on a cluster by its row, so another upgrade may take the works over that are left there
/// (`docs/design/rules.md#giving-way`).
fn may_give_way(entry: &UpgradeEntry, cluster: &str) -> bool {
    let row = entry.rows.get(cluster);
    row.is_some_and(|row| {
        let phase = row.record.phase;
        !row.record.unreadable && !phase.is_at_work() && phase != Phase::PreActionDegraded
    })
}

fn read(
    entry: &UpgradeEntry,
    index: &Index,
    cluster: Arc<str>,
    step: api::names::Step,
    asked: DateTime<Utc>,
) -> Write {
    let own = index
        .work_of(&cluster, step)
        .filter(|view| view.upgrade == entry.uid);
    let uid = own.map(|view| Arc::clone(&view.uid));
    Write::Read {
        cluster,
        step,
        owner: Arc::clone(&entry.key),
        uid,
        asked,
    }
}

pub(crate) fn status_job(entry: &UpgradeEntry, status: api::ManagedClustersUpgradeStatus) -> WriteJob {
    let write = Write::Status {
        namespace: Arc::clone(&entry.namespace),
        name: Arc::clone(&entry.name),
        version: entry.object.metadata.resource_version.clone().unwrap_or_default(),
        status: Box::new(status),
    };
    WriteJob {
        upgrade: Arc::clone(&entry.uid),
        write,
    }
}

pub(crate) fn report_job(entry: &UpgradeEntry, due: ShardWrite) -> WriteJob {
    let group = format!("{}/{}", api::GROUP, api::VERSION);
    let body = (!due.rows.is_empty()).then(|| {
        let mut head = json!({
            "apiVersion": group,
            "kind": "ManagedClustersUpgradeReport",
            "metadata": {
                "name": due.name,
                "namespace": &*entry.namespace,
                "labels": {LABEL_MCU: &*entry.name, LABEL_MCU_UID: &*entry.uid},
                "ownerReferences": [{
                    "apiVersion": group,
                    "kind": "ManagedClustersUpgrade",
                    "name": &*entry.name,
                    "uid": &*entry.uid,
                    "controller": true,
                    "blockOwnerDeletion": true,
                }],
            },
            "summary": due.summary(),
        });
        if let Some(StoredReport { uid, version }) = &due.replaces {
            head["metadata"]["uid"] = json!(&**uid);
            head["metadata"]["resourceVersion"] = json!(version.to_string());
            if due.must_change() {
                head["metadata"]["annotations"] = json!({ANNOTATION_REPLACES: version.to_string()});
            }
        }
        // The rows are added as text because kept rows are written back byte for byte.
        let rows = serde_json::to_string(&due.rows).unwrap_or_else(|_| "null".to_owned());
        let head = head.to_string();
        let text = format!("{},\"rows\":{rows}}}", head.strip_suffix('}').unwrap_or(&head));
        for_yaml(&text).into_bytes()
    });
    let write = Write::Report {
        namespace: Arc::clone(&entry.namespace),
        due: Box::new(due),
        body,
    };
    WriteJob {
        upgrade: Arc::clone(&entry.uid),
        write,
    }
}

#[cfg(test)]
mod tests;
