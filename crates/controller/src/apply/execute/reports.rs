//! Writes of reports.

use std::sync::Arc;

use api::names::FIELD_MANAGER;
use api::views::Report;
use http::{Method, Request, header};
use kube::api::Api;
use kube::core::Status;
use kube::{Client, Error};
use serde::de::IgnoredAny;
use serde_json::json;

use super::{APPLY_PATCH, JSON, METADATA, is_invalid, request, what_is_invalid};
use crate::apply::WriteResult;
use crate::apply::error::is_gone;
use crate::report::shard::{ShardWrite, StoredReport};

/// Creates, replaces or deletes a report. The hub rejects the write if it holds another copy than the one that
/// the write replaces; then that copy is read (`docs/design/rules.md#late-report-writes`).
pub(super) async fn write(
    client: &Client,
    namespace: &str,
    due: &ShardWrite,
    body: Option<&[u8]>,
) -> Result<WriteResult, Error> {
    let written = match body {
        Some(body) => store(client, namespace, due, body).await,
        None => delete(client, namespace, due).await,
    };
    match written {
        Err(Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
            let found = read(client, namespace, due).await?;
            Ok(WriteResult::ReportChanged(found.map(Box::new)))
        }
        Err(Error::Api(status)) if is_invalid(&status) => Ok(refused_rows(&status)),
        result => result,
    }
}

async fn read(client: &Client, namespace: &str, due: &ShardWrite) -> Result<Option<Report>, Error> {
    let reports: Api<Report> = Api::namespaced(client.clone(), namespace);
    match reports.get(&due.name).await {
        Ok(found) => Ok(Some(found)),
        Err(Error::Api(status)) if is_gone(&status) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Creates a report, or replaces its rows.
async fn store(
    client: &Client,
    namespace: &str,
    due: &ShardWrite,
    body: &[u8],
) -> Result<WriteResult, Error> {
    let reports = reports_uri(namespace);
    let (method, uri, content) = if due.replaces.is_some() {
        let uri = format!("{reports}/{}?fieldManager={FIELD_MANAGER}&force=true", due.name);
        (Method::PATCH, uri, APPLY_PATCH)
    } else {
        let uri = format!("{reports}?fieldManager={FIELD_MANAGER}");
        (Method::POST, uri, JSON)
    };
    let write = Request::builder()
        .method(method)
        .uri(uri)
        .header(header::CONTENT_TYPE, content)
        .header(header::ACCEPT, METADATA)
        .body(body.to_vec())
        .map_err(|error| Error::Service(error.into()))?;
    let written: kube::core::PartialObjectMeta<Report> = request(client, write).await?;
    let version = written.metadata.resource_version;
    Ok(WriteResult::Report(StoredReport {
        uid: Arc::from(written.metadata.uid.unwrap_or_default()),
        version: version.and_then(|text| text.parse().ok()).unwrap_or(0),
    }))
}

/// Deletes a report. One that may be there by a write without a response is read first, because it may be another one.
async fn delete(client: &Client, namespace: &str, due: &ShardWrite) -> Result<WriteResult, Error> {
    let Some(StoredReport { uid, version }) = &due.replaces else {
        let found = read(client, namespace, due).await?;
        return Ok(found.map_or(WriteResult::ReportDeleted, |found| {
            WriteResult::ReportChanged(Some(Box::new(found)))
        }));
    };
    let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    options["preconditions"] = json!({"uid": &**uid, "resourceVersion": version.to_string()});
    let delete = Request::builder()
        .method(Method::DELETE)
        .uri(format!("{}/{}", reports_uri(namespace), due.name))
        .header(header::CONTENT_TYPE, JSON)
        .header(header::ACCEPT, METADATA)
        .body(options.to_string().into_bytes())
        .map_err(|error| Error::Service(error.into()))?;
    match request::<IgnoredAny>(client, delete).await {
        Ok(_) => Ok(WriteResult::ReportDeleted),
        Err(Error::Api(status)) if is_gone(&status) => Ok(WriteResult::ReportDeleted),
        Err(error) => Err(error),
    }
}

fn reports_uri(namespace: &str) -> String {
    format!(
        "/apis/{}/{}/namespaces/{namespace}/managedclustersupgradereports",
        api::GROUP,
        api::VERSION
    )
}

/// Which rows of a report the hub rejected, if the message names them by fields such as `rows[17].revision`.
fn refused_rows(status: &Status) -> WriteResult {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice());
    let fields: Vec<&str> = causes
        .unwrap_or_default()
        .iter()
        .map(|cause| cause.field.as_str())
        .filter(|field| !field.is_empty())
        .collect();
    let position = |field: &&str| {
        let (number, _) = field
            .trim_start_matches('.')
            .strip_prefix("rows[")?
            .split_once(']')?;
        number.parse().ok()
    };
    let mut rows: Vec<usize> = fields.iter().filter_map(position).collect();
    rows.sort_unstable();
    rows.dedup();
    let about_rows = fields.is_empty() || fields.iter().any(|field| field.contains("rows"));
    WriteResult::ReportRefused {
        text: what_is_invalid(status),
        rows,
        about_rows,
    }
}
