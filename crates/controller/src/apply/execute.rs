//! Executes one write and returns its result. A response may be lost after the write took effect, so every
//! write can be repeated safely: creations use fixed names and read the object once after a 409, and changes
//! and deletions name the UID of the object.

mod reports;

use std::time::Duration;

use api::ManagedClustersUpgradeStatus;
use api::names::{
    ANNOTATION_OWNER, ANNOTATION_UPGRADE_UID, ANNOTATION_WITHDRAWN, FIELD_MANAGER, LABEL_MCU_UID, Step,
    WorkKind,
};
use api::views::{ManifestWork, Upgrade};
use http::{HeaderMap, Method, Request, header};
use http_body_util::BodyExt;
use kube::api::Api;
use kube::client::Body;
use kube::core::Status;
use kube::core::response::StatusDetails;
use kube::{Client, Error};
use resolve::works::Stamp;
use resolve::works::probe::ProbeTemplate;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::error::{WriteError, WriteErrorKind, is_gone};
use super::gate::Load;
use super::{WorkParams, Write, WriteJob, WriteResult};

/// Requests only the metadata of the object in the response, so that the object is not encoded, transferred
/// and decoded again.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json";

const JSON: &str = "application/json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";
const MERGE_PATCH: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

/// Executes a job and returns its result.
pub async fn execute(client: &Client, job: &WriteJob) -> WriteResult {
    carry_out(client, job).await.0
}

/// Executes a job and returns its result, and what the response says about the load of the hub.
pub async fn carry_out(client: &Client, job: &WriteJob) -> (WriteResult, Load) {
    match write(client, job).await {
        Ok(outcome) => (outcome, Load::Served),
        Err(error) => (classify(&error), load(&error)),
    }
}

async fn write(client: &Client, job: &WriteJob) -> Result<WriteResult, Error> {
    match &job.write {
        Write::Create {
            cluster,
            step,
            params,
            ..
        } => match render(job, params, cluster, *step) {
            Some(body) => {
                let asker = (&*job.upgrade, &*params.owner);
                create(client, asker, cluster, WorkKind::Step(*step), body).await
            }
            None => Ok(unmade(format!("the spec no longer contains step {step}"))),
        },
        Write::Update {
            cluster,
            params,
            uid,
            version,
        } => match render_update(job, params, cluster, (uid, *version)) {
            Some(body) => update(client, cluster, (uid, *version), body).await,
            None => Ok(unmade("the spec no longer asks for a platform upgrade")),
        },
        Write::Withdraw {
            cluster,
            uid,
            version,
            ..
        } => withdraw(client, cluster, (uid, *version)).await,
        Write::MarkSoak {
            cluster, step, patch, ..
        } => mark(client, cluster, *step, patch).await,
        Write::Delete {
            cluster,
            step,
            uid,
            version,
            ..
        } => delete(client, cluster, WorkKind::Step(*step), (uid, *version)).await,
        Write::Read {
            cluster, step, owner, ..
        } => adopt(client, (&job.upgrade, owner), cluster, WorkKind::Step(*step)).await,
        Write::CreateProbe {
            cluster,
            kind,
            spec,
            owner,
        } => create_probe(client, (&job.upgrade, owner), cluster, spec.probe(*kind)).await,
        Write::DeleteProbe { cluster, uid } => delete(client, cluster, WorkKind::Probe, (uid, None)).await,
        Write::Report { namespace, due, body } => {
            reports::write(client, namespace, due, body.as_deref()).await
        }
        Write::Status {
            namespace,
            name,
            version,
            status,
        } => write_status(client, (namespace, name), (&job.upgrade, version), status).await,
        Write::Finalizers {
            namespace,
            name,
            version,
            finalizers,
            recorded_uid,
        } => {
            let mut patch = json!({"metadata": {"uid": &*job.upgrade, "resourceVersion": version, "finalizers": finalizers}});
            if let Some(recorded_uid) = recorded_uid {
                patch["metadata"]["annotations"] = json!({ANNOTATION_UPGRADE_UID: &**recorded_uid});
            }
            write_upgrade(client, (namespace, name), &patch).await
        }
        Write::Annotate {
            namespace,
            name,
            patch,
        } => write_upgrade(client, (namespace, name), patch).await,
    }
}

async fn create_probe(
    client: &Client,
    asker: (&str, &str),
    cluster: &str,
    probe: Option<&ProbeTemplate>,
) -> Result<WriteResult, Error> {
    let Some(probe) = probe else {
        return Ok(unmade("the spec no longer asks clusters"));
    };
    let body = probe.body(cluster, asker.0, asker.1);
    create(client, asker, cluster, WorkKind::Probe, body).await
}

async fn write_upgrade(
    client: &Client,
    (namespace, name): (&str, &str),
    changes: &serde_json::Value,
) -> Result<WriteResult, Error> {
    let uri = format!("{}?fieldManager={FIELD_MANAGER}", upgrade_uri(namespace, name));
    patch(client, &uri, MERGE_PATCH, changes).await.map(upgrade)
}

/// Writes the status of an upgrade, if the hub holds the given version of it.
async fn write_status(
    client: &Client,
    (namespace, name): (&str, &str),
    (uid, version): (&str, &str),
    status: &ManagedClustersUpgradeStatus,
) -> Result<WriteResult, Error> {
    let body = json!({
        "apiVersion": format!("{}/{}", api::GROUP, api::VERSION),
        "kind": "ManagedClustersUpgrade",
        "metadata": {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": version},
        "status": status,
    });
    let uri = format!(
        "{}/status?fieldManager={FIELD_MANAGER}&force=true",
        upgrade_uri(namespace, name)
    );
    match patch(client, &uri, APPLY_PATCH, &body).await {
        Err(Error::Api(status)) if status.is_conflict() => {
            let upgrades: Api<Upgrade> = Api::namespaced(client.clone(), namespace);
            let found = upgrades.get_opt(name).await?;
            Ok(WriteResult::UpgradeChanged(found.map(Box::new)))
        }
        result => result.map(upgrade),
    }
}

/// Sends a request and reads the response like kube's client does, except that it keeps how long the hub asks
/// clients to wait, and logs no part of the response.
async fn request<T: DeserializeOwned>(client: &Client, request: Request<Vec<u8>>) -> Result<T, Error> {
    let answer = client.send(request.map(Body::from)).await?;
    let (parts, body) = answer.into_parts();
    let body = body.collect().await?.to_bytes();
    let code = parts.status;
    if !code.is_client_error() && !code.is_server_error() {
        return serde_json::from_slice(&body).map_err(Error::SerdeError);
    }
    let mut status: Status = serde_json::from_slice(&body).unwrap_or_else(|_| {
        Status::failure(
            String::from_utf8_lossy(&body).trim(),
            "the response contained no Status",
        )
    });
    // The status code of the response counts, because a proxy may have set it.
    status.code = code.as_u16();
    if let Some(seconds) = retry_after(&parts.headers) {
        status
            .details
            .get_or_insert_with(|| StatusDetails {
                name: String::new(),
                group: String::new(),
                kind: String::new(),
                uid: String::new(),
                causes: Vec::new(),
                retry_after_seconds: 0,
            })
            .retry_after_seconds = seconds;
    }
    Err(Error::Api(status.boxed()))
}

fn retry_after(headers: &HeaderMap) -> Option<u32> {
    headers
        .get(header::RETRY_AFTER)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()
}

async fn patch<T: DeserializeOwned>(
    client: &Client,
    uri: &str,
    content: &str,
    body: &serde_json::Value,
) -> Result<T, Error> {
    let patch = Request::builder()
        .method(Method::PATCH)
        .uri(uri)
        .header(header::CONTENT_TYPE, content)
        .header(header::ACCEPT, JSON)
        .body(body.to_string().into_bytes())
        .map_err(|error| Error::Service(error.into()))?;
    request(client, patch).await
}

fn upgrade_uri(namespace: &str, name: &str) -> String {
    format!(
        "/apis/{}/{}/namespaces/{namespace}/managedclustersupgrades/{name}",
        api::GROUP,
        api::VERSION
    )
}

fn work_uri(cluster: &str, name: &str) -> String {
    format!("/apis/work.open-cluster-management.io/v1/namespaces/{cluster}/manifestworks/{name}")
}

fn stamp<'a>(job: &'a WriteJob, params: &'a WorkParams) -> Stamp<'a> {
    Stamp {
        mcu_uid: &job.upgrade,
        owner: &params.owner,
        revision: &params.attempt.revision,
        retry: &params.attempt.retry,
        started_at: params.started,
    }
}

fn render(job: &WriteJob, params: &WorkParams, cluster: &str, step: Step) -> Option<Vec<u8>> {
    let facts = params.facts(cluster);
    params.spec.templates.body(step, &facts, &stamp(job, params))
}

/// Renders the platform work with the UID of the object that it changes, so that the write never creates a
/// deleted work again, and with its resource version, so that a request that arrives late never replaces what was
/// written after it.
fn render_update(
    job: &WriteJob,
    params: &WorkParams,
    cluster: &str,
    (uid, version): (&str, u64),
) -> Option<Vec<u8>> {
    let body = params
        .spec
        .templates
        .platform_apply(&params.facts(cluster), &stamp(job, params))?;
    let mut work: serde_json::Value = serde_json::from_slice(&body).ok()?;
    work["metadata"]["uid"] = json!(uid);
    work["metadata"]["resourceVersion"] = json!(version.to_string());
    serde_json::to_vec(&work).ok()
}

fn upgrade(object: Upgrade) -> WriteResult {
    WriteResult::Upgrade(Box::new(object))
}

/// Reads a work from the hub. A read without a resource version returns the latest state, not a
/// cached one.
async fn get(client: &Client, cluster: &str, kind: WorkKind) -> Result<Option<ManifestWork>, Error> {
    let get = Request::builder()
        .uri(work_uri(cluster, &kind.work_name(cluster)))
        .header(header::ACCEPT, JSON)
        .body(Vec::new())
        .map_err(|error| Error::Service(error.into()))?;
    match request(client, get).await {
        Ok(work) => Ok(Some(work)),
        Err(Error::Api(status)) if is_gone(&status) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn create(
    client: &Client,
    upgrade: (&str, &str),
    cluster: &str,
    kind: WorkKind,
    body: Vec<u8>,
) -> Result<WriteResult, Error> {
    let uri = format!(
        "/apis/work.open-cluster-management.io/v1/namespaces/{cluster}/manifestworks?fieldManager={FIELD_MANAGER}"
    );
    let post = Request::builder()
        .method(Method::POST)
        .uri(uri)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, METADATA)
        .body(body)
        .map_err(|error| Error::Service(error.into()))?;
    // A new work has no status yet, so its metadata is enough.
    match request::<ManifestWork>(client, post).await {
        Ok(work) => Ok(WriteResult::Work(Box::new(work))),
        Err(Error::Api(status)) if status.is_already_exists() => adopt(client, upgrade, cluster, kind).await,
        Err(Error::Api(status)) if is_invalid(&status) => Ok(WriteResult::Refused(what_is_invalid(&status))),
        Err(error) => Err(error),
    }
}

/// The name is taken, either by an earlier write of ours whose response was lost, or by someone else.
async fn adopt(
    client: &Client,
    (upgrade, key): (&str, &str),
    cluster: &str,
    kind: WorkKind,
) -> Result<WriteResult, Error> {
    let Some(work) = get(client, cluster, kind).await? else {
        return Ok(WriteResult::Gone);
    };
    let owner = work
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(LABEL_MCU_UID));
    let annotated = work
        .metadata
        .annotations
        .as_ref()
        .and_then(|notes| notes.get(ANNOTATION_OWNER));
    match owner {
        Some(owner) if owner != upgrade => return Ok(WriteResult::Rival(Box::new(work))),
        Some(_) if annotated.is_some_and(|annotated| annotated == key) => {
            return Ok(WriteResult::Work(Box::new(work)));
        }
        // The UID alone proves nothing, because anyone who may write works in this namespace can copy it.
        _ => {}
    }
    Ok(if work.metadata.deletion_timestamp.is_some() {
        WriteResult::ForeignTerminating
    } else {
        WriteResult::Foreign
    })
}

async fn update(
    client: &Client,
    cluster: &str,
    (uid, version): (&str, u64),
    body: Vec<u8>,
) -> Result<WriteResult, Error> {
    change(
        client,
        cluster,
        (uid, version),
        ("&force=true", APPLY_PATCH, body),
    )
    .await
}

/// Takes the request out of a platform work and notes that. Everything else in the work stays, above all its target and the field
/// manager of the request: fields are taken back only under the manager that has set them. (In paths a slash is written as ~1.)
async fn withdraw(client: &Client, cluster: &str, (uid, version): (&str, u64)) -> Result<WriteResult, Error> {
    let key = ANNOTATION_WITHDRAWN.replace('/', "~1");
    let patch = json!([
        {"op": "replace", "path": "/metadata/uid", "value": uid},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version.to_string()},
        {"op": "test", "path": "/spec/workload/manifests/0/kind", "value": "ClusterVersion"},
        {"op": "remove", "path": "/spec/workload/manifests/0/spec/desiredUpdate"},
        {"op": "add", "path": format!("/metadata/annotations/{key}"), "value": "true"},
    ]);
    let patch = ("", JSON_PATCH, patch.to_string().into_bytes());
    change(client, cluster, (uid, version), patch).await
}

/// Changes a platform work that must be this object at this version.
async fn change(
    client: &Client,
    cluster: &str,
    (uid, version): (&str, u64),
    (options, content, body): (&str, &str, Vec<u8>),
) -> Result<WriteResult, Error> {
    let uri = work_uri(cluster, &Step::Platform.work_name(cluster));
    let uri = format!("{uri}?fieldManager={FIELD_MANAGER}{options}");
    let patch = Request::builder()
        .method(Method::PATCH)
        .uri(uri)
        .header(header::CONTENT_TYPE, content)
        .body(body)
        .map_err(|error| Error::Service(error.into()))?;
    match request::<ManifestWork>(client, patch).await {
        Ok(work) => Ok(WriteResult::Work(Box::new(work))),
        Err(Error::Api(status)) if is_gone(&status) && content == JSON_PATCH => Ok(WriteResult::Gone),
        Err(Error::Api(status)) if status.is_conflict() => {
            let Some(work) = get(client, cluster, WorkKind::Step(Step::Platform)).await? else {
                return Ok(WriteResult::Gone);
            };
            let meta = &work.metadata;
            if meta.uid.as_deref() == Some(uid) && meta.resource_version == Some(version.to_string()) {
                // The object is the right one, and the change was rejected for another reason.
                return Ok(classify(&Error::Api(status)));
            }
            // Another object has this name now, or the object has changed. The next plan decides again.
            Ok(WriteResult::WorkChanged(Box::new(work)))
        }
        Err(error) => Err(error),
    }
}

async fn mark(
    client: &Client,
    cluster: &str,
    step: Step,
    patch: &serde_json::Value,
) -> Result<WriteResult, Error> {
    let uri = format!(
        "{}?fieldManager={FIELD_MANAGER}",
        work_uri(cluster, &step.work_name(cluster))
    );
    match self::patch::<ManifestWork>(client, &uri, MERGE_PATCH, patch).await {
        Ok(work) => Ok(WriteResult::Work(Box::new(work))),
        Err(Error::Api(status)) if is_gone(&status) => Ok(WriteResult::Gone),
        Err(error) => Err(error),
    }
}

/// The response to a deletion: the object while it has a finalizer, otherwise a Status.
#[derive(Deserialize)]
struct DeletedWork {
    #[serde(default)]
    metadata: DeletedMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeletedMetadata {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl DeletedMetadata {
    /// The version of the object with this UID; 0 if the response is not about it.
    fn version(&self, uid: &str) -> u64 {
        let version = self
            .resource_version
            .as_deref()
            .filter(|_| self.uid.as_deref() == Some(uid));
        version.and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

async fn delete(
    client: &Client,
    cluster: &str,
    kind: WorkKind,
    (uid, version): (&str, Option<u64>),
) -> Result<WriteResult, Error> {
    let name = kind.work_name(cluster);
    let options = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": uid, "resourceVersion": version.map(|version| version.to_string())},
    });
    let delete = Request::builder()
        .method(Method::DELETE)
        .uri(work_uri(cluster, &name))
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, METADATA)
        .body(options.to_string().into_bytes())
        .map_err(|error| Error::Service(error.into()))?;
    match request::<DeletedWork>(client, delete).await {
        Ok(work) => Ok(WriteResult::DeletionAccepted {
            version: work.metadata.version(uid),
        }),
        Err(Error::Api(status)) if is_gone(&status) => Ok(WriteResult::Gone),
        Err(Error::Api(status)) if status.is_conflict() => {
            let Some(work) = get(client, cluster, kind).await? else {
                return Ok(WriteResult::Gone);
            };
            let meta = &work.metadata;
            let changed = version.is_some_and(|version| meta.resource_version != Some(version.to_string()));
            if meta.uid.as_deref() != Some(uid) || (changed && meta.deletion_timestamp.is_none()) {
                // Another object has this name now, or the object has changed. The next plan decides again.
                return Ok(WriteResult::Work(Box::new(work)));
            }
            // The object is the right one, and the deletion was rejected for another reason.
            Ok(if meta.deletion_timestamp.is_some() {
                let version = meta.resource_version.as_deref();
                WriteResult::DeletionAccepted {
                    version: version.and_then(|text| text.parse().ok()).unwrap_or(0),
                }
            } else {
                classify(&Error::Api(status))
            })
        }
        Err(error) => Err(error),
    }
}

/// The result of a write for which there is nothing to send.
fn unmade(text: impl Into<String>) -> WriteResult {
    WriteResult::Failed(WriteError::new(WriteErrorKind::Invalid, text))
}

/// What an error says about the load of the hub.
pub(super) fn load(error: &Error) -> Load {
    let Error::Api(status) = error else {
        return Load::Unknown;
    };
    // The API server reports a stalled store as an internal error with these words.
    let stalls = status.code == 500 && status.message.starts_with("etcdserver: ");
    if !stalls && !matches!(status.code, 429 | 503 | 504) {
        return Load::Served;
    }
    let seconds = status
        .details
        .as_ref()
        .map_or(0, |details| details.retry_after_seconds);
    Load::Overloaded((seconds > 0).then(|| Duration::from_secs(seconds.into())))
}

/// The API server returns 422 for an object that violates the schema; OCM's webhook returns 400 for an object
/// that it rejects.
const fn is_invalid(status: &Status) -> bool {
    matches!(status.code, 400 | 422)
}

/// The part of the message that names the fields. The part before it only repeats the name of the work.
fn what_is_invalid(status: &Status) -> String {
    let fields = status.message.split_once(" is invalid: ");
    fields
        .map_or(status.message.as_str(), |(_, fields)| fields)
        .to_owned()
}

/// Converts an error to a result.
fn classify(error: &Error) -> WriteResult {
    let failed = |message: String| WriteResult::Failed(WriteError::new(WriteErrorKind::of(error), message));
    let Error::Api(status) = error else {
        return failed(error.to_string());
    };
    if is_namespace_terminating(status) {
        return WriteResult::NamespaceTerminating;
    }
    if is_namespace_missing(status) {
        return WriteResult::NamespaceMissing;
    }
    failed(format!("{} ({})", status.message, status.code))
}

fn is_namespace_terminating(status: &Status) -> bool {
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
mod tests;
