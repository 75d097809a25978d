//! Writes as jobs: what an action of a plan, a due report or a due status comes to. No I/O.

use std::sync::Arc;
use std::time::Instant;

use api::names::{LABEL_MCU, LABEL_MCU_UID};
use chrono::{DateTime, Utc};
use rollout::{Action, Attempt, DeleteReason, Step};
use serde_json::json;

use crate::apply::{Effect, Job, Sheet};
use crate::desk::Desk;
use crate::index::{Index, from_rollout};
use crate::pipeline::Observed;
use crate::report::line::for_yaml;
use crate::report::rows::Due;
use crate::telemetry::labels::WriteKind;

pub(crate) fn finalizer_job(desk: &mut Desk, finalizers: Vec<String>, life: Option<Arc<str>>) -> Job {
    desk.finalizing = true;
    let effect = Effect::Finalizers {
        namespace: Arc::clone(&desk.namespace),
        name: Arc::clone(&desk.name),
        version: desk.view.metadata.resource_version.clone().unwrap_or_default(),
        finalizers,
        life,
    };
    Job {
        upgrade: Arc::clone(&desk.uid),
        effect,
    }
}

/// Kind of the write that an action comes to.
const fn kind(action: &Action) -> WriteKind {
    match action {
        Action::Create { .. } => WriteKind::Create,
        Action::Update { .. } => WriteKind::Update,
        Action::MarkSoak { .. } => WriteKind::Mark,
        Action::Delete { .. } => WriteKind::Delete,
        Action::Read { .. } => WriteKind::Read,
    }
}

/// The job of an action. `None` when it cannot be carried out, or has been taken too often: then the cluster waits.
pub(crate) fn prepare(desk: &mut Desk, index: &Index, action: &Action, observed: &Observed) -> Option<Job> {
    let cluster = action.cluster();
    let step = from_rollout(action.step());
    if let Some(wait) = desk.taken.take(cluster, step, kind(action), Instant::now()) {
        desk.hold_off(cluster, observed.now, kind(action), wait);
        return None;
    }
    let uid = || index.work_of(cluster, step).map(|view| Arc::clone(&view.uid));
    let sheet = |attempt: &Attempt, started: DateTime<Utc>| {
        Some(Sheet {
            brief: Arc::clone(observed.brief.as_ref()?),
            owner: Arc::clone(&desk.key),
            cluster_id: index
                .clusters
                .get(cluster)
                .and_then(|view| Some(Arc::clone(&view.id.as_ref()?.text))),
            attempt: attempt.clone(),
            started,
        })
    };
    let name = Arc::clone(cluster);
    let (effect, starting) = match action {
        Action::Create { attempt, started, .. } => {
            let sheet = sheet(attempt, *started)?;
            (
                Effect::Create {
                    cluster: name,
                    step,
                    sheet,
                    freed: observed.freed,
                },
                action.step() != Step::PostAction,
            )
        }
        Action::Update { attempt, started, .. } => (
            Effect::Update {
                cluster: name,
                sheet: sheet(attempt, *started)?,
                uid: uid()?,
            },
            true,
        ),
        Action::MarkSoak { started, .. } => {
            let note = api::time::to_rfc3339(*started);
            let uid = uid()?;
            let patch = json!({"metadata": {"uid": &*uid, "annotations": {api::names::ANNOTATION_SOAK_STARTED_AT: note}}});
            (
                Effect::MarkSoak {
                    cluster: name,
                    step,
                    uid,
                    patch,
                },
                false,
            )
        }
        Action::Read { .. } => (read(desk, index, name, step, observed.now), false),
        Action::Delete { why, .. } => {
            let halt = matches!(why, DeleteReason::LeftSelection | DeleteReason::UpgradeDeleted);
            (
                Effect::Delete {
                    cluster: name,
                    step,
                    uid: uid()?,
                    halt,
                },
                false,
            )
        }
    };
    desk.begin(cluster, starting);
    Some(Job {
        upgrade: Arc::clone(&desk.uid),
        effect,
    })
}

fn read(
    desk: &Desk,
    index: &Index,
    cluster: Arc<str>,
    step: api::names::Step,
    asked: DateTime<Utc>,
) -> Effect {
    let own = index
        .work_of(&cluster, step)
        .filter(|view| view.upgrade == desk.uid);
    let uid = own.map(|view| Arc::clone(&view.uid));
    Effect::Read {
        cluster,
        step,
        owner: Arc::clone(&desk.key),
        uid,
        asked,
    }
}

pub(crate) fn status_job(desk: &Desk, status: api::ManagedClustersUpgradeStatus) -> Job {
    let effect = Effect::Status {
        namespace: Arc::clone(&desk.namespace),
        name: Arc::clone(&desk.name),
        status: Box::new(status),
    };
    Job {
        upgrade: Arc::clone(&desk.uid),
        effect,
    }
}

pub(crate) fn report_job(desk: &Desk, due: Due) -> Job {
    let group = format!("{}/{}", api::GROUP, api::VERSION);
    let body = (!due.rows.is_empty()).then(|| {
        let head = json!({
            "apiVersion": group,
            "kind": "ManagedClustersUpgradeReport",
            "metadata": {
                "name": due.name,
                "namespace": &*desk.namespace,
                "labels": {LABEL_MCU: &*desk.name, LABEL_MCU_UID: &*desk.uid},
                "ownerReferences": [{
                    "apiVersion": group,
                    "kind": "ManagedClustersUpgrade",
                    "name": &*desk.name,
                    "uid": &*desk.uid,
                    "controller": true,
                    "blockOwnerDeletion": true,
                }],
            },
        });
        // As text, for rows that are kept go back byte for byte.
        let rows = serde_json::to_string(&due.rows).unwrap_or_else(|_| "null".to_owned());
        let head = head.to_string();
        let text = format!("{},\"rows\":{rows}}}", head.strip_suffix('}').unwrap_or(&head));
        for_yaml(&text).into_bytes()
    });
    let effect = Effect::Report {
        namespace: Arc::clone(&desk.namespace),
        due,
        body,
    };
    Job {
        upgrade: Arc::clone(&desk.uid),
        effect,
    }
}

#[cfg(test)]
#[path = "jobs_tests.rs"]
mod tests;
