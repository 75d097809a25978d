//! Carries out one write and says how it ended. An answer may be lost after the write succeeded, so every write is safe
//! to repeat: creations have fixed names and a 409 is read once, changes and deletions name the object's UID.

use api::names::{ANNOTATION_UPGRADE_UID, FIELD_MANAGER, LABEL_MCU_UID, Step};
use api::views::{ManifestWork, Report, Upgrade};
use http::{Method, Request, header};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::core::Status;
use kube::{Client, Error};
use serde_json::json;

use super::{Effect, Job, Outcome, Sheet};
use crate::telemetry::labels::WriteOutcome;
use crate::works::{ClusterFacts, Stamp};

/// Asks for metadata in place of the whole object: what was just sent need not be encoded, sent back and read again.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json";

/// Carries out a job.
pub async fn execute(client: &Client, job: &Job) -> Outcome {
    let done = match &job.effect {
        Effect::Create {
            cluster, step, sheet, ..
        } => match render(job, sheet, cluster, *step) {
            Some(body) => create(client, &job.upgrade, cluster, *step, body).await,
            None => return unmade(format!("step {step} is not part of the spec")),
        },
        Effect::Update { cluster, sheet, uid } => match render_update(job, sheet, cluster, uid) {
            Some(body) => update(client, cluster, body).await,
            None => return unmade("the spec asks for no platform upgrade".to_owned()),
        },
        Effect::MarkSoak {
            cluster, step, patch, ..
        } => mark(client, cluster, *step, patch).await,
        Effect::Delete {
            cluster, step, uid, ..
        } => delete(client, cluster, *step, uid).await,
        Effect::Report { namespace, due, body } => {
            report(client, namespace, &due.name, body.as_deref()).await
        }
        Effect::Status {
            namespace,
            name,
            status,
        } => {
            let body = json!({
                "apiVersion": format!("{}/{}", api::GROUP, api::VERSION),
                "kind": "ManagedClustersUpgrade",
                "metadata": {"name": &**name, "namespace": &**namespace, "uid": &*job.upgrade},
                "status": status,
            });
            let api: Api<Upgrade> = Api::namespaced(client.clone(), namespace);
            api.patch_status(
                name,
                &PatchParams::apply(FIELD_MANAGER).force(),
                &Patch::Apply(&body),
            )
            .await
            .map(upgrade)
        }
        Effect::Finalizers {
            namespace,
            name,
            version,
            finalizers,
            life,
        } => {
            let mut patch = json!({"metadata": {"uid": &*job.upgrade, "resourceVersion": version, "finalizers": finalizers}});
            if let Some(life) = life {
                patch["metadata"]["annotations"] = json!({ANNOTATION_UPGRADE_UID: &**life});
            }
            let api: Api<Upgrade> = Api::namespaced(client.clone(), namespace);
            api.patch(name, &manager(), &Patch::Merge(&patch))
                .await
                .map(upgrade)
        }
        Effect::Annotate {
            namespace,
            name,
            patch,
        } => {
            let api: Api<Upgrade> = Api::namespaced(client.clone(), namespace);
            api.patch(name, &manager(), &Patch::Merge(patch))
                .await
                .map(upgrade)
        }
    };
    done.unwrap_or_else(|error| classify(&error))
}

fn stamp<'a>(job: &'a Job, sheet: &'a Sheet) -> Stamp<'a> {
    Stamp {
        mcu_uid: &job.upgrade,
        owner: &sheet.owner,
        revision: &sheet.attempt.revision,
        retry: &sheet.attempt.retry,
        started_at: sheet.started,
    }
}

fn render(job: &Job, sheet: &Sheet, cluster: &str, step: Step) -> Option<Vec<u8>> {
    let facts = ClusterFacts {
        name: cluster,
        cluster_id: sheet.cluster_id.as_deref(),
    };
    sheet.brief.templates.body(step, &facts, &stamp(job, sheet))
}

/// The platform work with the UID of the object it is meant for, so that it never re-creates one that is gone.
fn render_update(job: &Job, sheet: &Sheet, cluster: &str, uid: &str) -> Option<Vec<u8>> {
    let facts = ClusterFacts {
        name: cluster,
        cluster_id: sheet.cluster_id.as_deref(),
    };
    let body = sheet.brief.templates.platform_apply(&facts, &stamp(job, sheet))?;
    let mut work: serde_json::Value = serde_json::from_slice(&body).ok()?;
    work["metadata"]["uid"] = json!(uid);
    serde_json::to_vec(&work).ok()
}

fn upgrade(object: Upgrade) -> Outcome {
    Outcome::Upgrade(Box::new(object))
}

fn manager() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

fn works(client: &Client, cluster: &str) -> Api<ManifestWork> {
    Api::namespaced(client.clone(), cluster)
}

async fn create(
    client: &Client,
    upgrade: &str,
    cluster: &str,
    step: Step,
    body: Vec<u8>,
) -> Result<Outcome, Error> {
    let uri = format!(
        "/apis/work.open-cluster-management.io/v1/namespaces/{cluster}/manifestworks?fieldManager={FIELD_MANAGER}"
    );
    let request = Request::builder()
        .method(Method::POST)
        .uri(uri)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, METADATA)
        .body(body)
        .map_err(|error| Error::Service(error.into()))?;
    // A new work has no status yet: its metadata is all there is to know.
    match client.request::<ManifestWork>(request).await {
        Ok(work) => Ok(Outcome::Work(Box::new(work))),
        Err(Error::Api(status)) if status.is_already_exists() => adopt(client, upgrade, cluster, step).await,
        Err(Error::Api(status)) if is_invalid(&status) => Ok(Outcome::Refused(what_is_invalid(&status))),
        Err(error) => Err(error),
    }
}

/// The name is taken: by an earlier write of ours whose answer was lost, or by somebody else.
async fn adopt(client: &Client, upgrade: &str, cluster: &str, step: Step) -> Result<Outcome, Error> {
    let Some(work) = works(client, cluster).get_opt(&step.work_name(cluster)).await? else {
        return Ok(Outcome::Gone);
    };
    let owner = work
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(LABEL_MCU_UID));
    if let Some(owner) = owner {
        let ours = owner == upgrade;
        let work = Box::new(work);
        return Ok(if ours {
            Outcome::Work(work)
        } else {
            Outcome::Rival(work)
        });
    }
    Ok(if work.metadata.deletion_timestamp.is_some() {
        Outcome::ForeignTerminating
    } else {
        Outcome::Foreign
    })
}

async fn update(client: &Client, cluster: &str, body: Vec<u8>) -> Result<Outcome, Error> {
    let name = Step::Platform.work_name(cluster);
    let uri = format!(
        "/apis/work.open-cluster-management.io/v1/namespaces/{cluster}/manifestworks/{name}?fieldManager={FIELD_MANAGER}&force=true"
    );
    let request = Request::builder()
        .method(Method::PATCH)
        .uri(uri)
        .header(header::CONTENT_TYPE, "application/apply-patch+yaml")
        .body(body)
        .map_err(|error| Error::Service(error.into()))?;
    client
        .request::<ManifestWork>(request)
        .await
        .map(|work| Outcome::Work(Box::new(work)))
}

async fn mark(
    client: &Client,
    cluster: &str,
    step: Step,
    patch: &serde_json::Value,
) -> Result<Outcome, Error> {
    let patched = works(client, cluster)
        .patch(&step.work_name(cluster), &manager(), &Patch::Merge(patch))
        .await;
    match patched {
        Ok(work) => Ok(Outcome::Work(Box::new(work))),
        Err(Error::Api(status)) if status.is_not_found() => Ok(Outcome::Gone),
        Err(error) => Err(error),
    }
}

async fn delete(client: &Client, cluster: &str, step: Step, uid: &str) -> Result<Outcome, Error> {
    let name = step.work_name(cluster);
    let options = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": uid},
    });
    let request = Request::builder()
        .method(Method::DELETE)
        .uri(format!(
            "/apis/work.open-cluster-management.io/v1/namespaces/{cluster}/manifestworks/{name}"
        ))
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, METADATA)
        .body(options.to_string().into_bytes())
        .map_err(|error| Error::Service(error.into()))?;
    // Answered with the object while its finalizer is there, else with a Status.
    let deleted = client
        .request_status::<kube::core::PartialObjectMeta<ManifestWork>>(request)
        .await;
    match deleted {
        Ok(_) => Ok(Outcome::Doomed),
        Err(Error::Api(status)) if status.is_not_found() => Ok(Outcome::Gone),
        // Another object has the name now: look at it.
        Err(Error::Api(status)) if status.is_conflict() => Ok(works(client, cluster)
            .get_opt(&name)
            .await?
            .map_or(Outcome::Gone, |work| Outcome::Work(Box::new(work)))),
        Err(error) => Err(error),
    }
}

async fn report(client: &Client, namespace: &str, name: &str, body: Option<&[u8]>) -> Result<Outcome, Error> {
    let api: Api<Report> = Api::namespaced(client.clone(), namespace);
    let Some(body) = body else {
        return match api.delete(name, &DeleteParams::default()).await {
            Ok(_) => Ok(Outcome::Report(0)),
            Err(Error::Api(status)) if status.is_not_found() => Ok(Outcome::Report(0)),
            Err(error) => Err(error),
        };
    };
    let uri = format!(
        "/apis/{}/{}/namespaces/{namespace}/managedclustersupgradereports/{name}?fieldManager={FIELD_MANAGER}&force=true",
        api::GROUP,
        api::VERSION
    );
    let request = Request::builder()
        .method(Method::PATCH)
        .uri(uri)
        .header(header::CONTENT_TYPE, "application/apply-patch+yaml")
        .header(header::ACCEPT, METADATA)
        .body(body.to_vec())
        .map_err(|error| Error::Service(error.into()))?;
    let written: kube::core::PartialObjectMeta<Report> = client.request(request).await?;
    let version = written
        .metadata
        .resource_version
        .and_then(|text| text.parse().ok());
    Ok(Outcome::Report(version.unwrap_or(0)))
}

/// There is nothing to send.
const fn unmade(text: String) -> Outcome {
    Outcome::Failed(text, WriteOutcome::Error)
}

/// The API server says 422 of what breaks the schema, OCM's own webhook 400 of what it does not allow.
const fn is_invalid(status: &Status) -> bool {
    matches!(status.code, 400 | 422)
}

/// The part of the message that names the fields; before it stands the name of the work, which is no news.
fn what_is_invalid(status: &Status) -> String {
    let fields = status.message.split_once(" is invalid: ");
    fields
        .map_or(status.message.as_str(), |(_, fields)| fields)
        .to_owned()
}

/// What an error means for the plan.
fn classify(error: &Error) -> Outcome {
    let counted = WriteOutcome::of(error);
    let Error::Api(status) = error else {
        return Outcome::Failed(error.to_string(), counted);
    };
    if is_namespace_gone(status) {
        return Outcome::NamespaceGone;
    }
    if is_namespace_missing(status) {
        return Outcome::Failed(
            "the namespace of the cluster does not exist; OCM makes it when the cluster joins".to_owned(),
            counted,
        );
    }
    Outcome::Failed(format!("{} ({})", status.message, status.code), counted)
}

fn is_namespace_gone(status: &Status) -> bool {
    let causes = status
        .details
        .as_ref()
        .map(|details| details.causes.as_slice())
        .unwrap_or_default();
    causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
}

fn is_namespace_missing(status: &Status) -> bool {
    status.is_not_found()
        && status
            .details
            .as_ref()
            .is_some_and(|details| details.kind == "namespaces")
}

#[cfg(test)]
#[path = "execute_tests.rs"]
mod tests;
