//! Reads works without an upgrade, and the list of all upgrades, from the hub before any of these works is
//! removed.

use std::sync::Arc;
use std::time::Duration;

use api::lenient::shallow;
use api::views::{ManifestWork, Upgrade};
use http::Request;
use kube::api::{ListParams, Request as Requests};
use kube::{Client, Error, Resource};
use serde::Deserialize;
use serde_json::Value;

use crate::clock::now;
use crate::state::context::Context;
use crate::state::orphans::{ExistingUpgrades, OrphanCandidate, OrphanDecision, evaluate};

/// Longest time of all reads together.
const READ: Duration = Duration::from_mins(2);
/// Upgrades per page.
const PAGE: u32 = 500;

/// A page of the metadata of upgrades. Other fields are skipped, however deeply they are nested, so that one
/// upgrade cannot hide the others.
#[derive(Deserialize)]
struct WorkPage {
    #[serde(default)]
    metadata: PageMetadata,
    items: Vec<ListedItem>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct ListedItem {
    metadata: ListedMetadata,
}

#[derive(Deserialize)]
struct ListedMetadata {
    uid: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

/// A work, parsed to a safe depth.
#[derive(Deserialize)]
struct ListedWork(#[serde(deserialize_with = "shallow")] Value);

/// Evaluates works by the current state of the hub, and queues the deletion of those that may be removed.
pub async fn sweep(context: Arc<Context>, client: Client, candidates: Vec<OrphanCandidate>) {
    let decisions = match tokio::time::timeout(READ, decisions(&context, &client, candidates)).await {
        Ok(Ok(decisions)) => decisions,
        Ok(Err(error)) => {
            tracing::warn!(%error, "works without an upgrade cannot be read; trying again");
            Vec::new()
        }
        Err(_) => {
            tracing::warn!("works without an upgrade cannot be read in time; trying again");
            Vec::new()
        }
    };
    let (jobs, messages) = context.with(|state| state.record_decisions(decisions, now()));
    for (work, why) in messages {
        let name = work.kind.work_name(&work.cluster);
        tracing::warn!(
            namespace = &*work.cluster,
            name,
            upgrade = &*work.upgrade,
            why,
            "a work whose upgrade no longer exists is kept; see kubectl mcu orphans"
        );
    }
    for job in &jobs {
        tracing::warn!(
            namespace = job.write.cluster().map(|cluster| &**cluster),
            upgrade = &*job.upgrade,
            priority = ?job.write.priority(),
            "removing a work whose upgrade has not existed for ten minutes"
        );
    }
    context.queue.push(jobs);
}

async fn decisions(
    context: &Context,
    client: &Client,
    candidates: Vec<OrphanCandidate>,
) -> Result<Vec<(OrphanCandidate, OrphanDecision)>, Error> {
    let existing = existing(context, client).await?;
    let settings = context.with(|state| state.settings.clone());
    let mut decisions = Vec::new();
    for mut one in candidates {
        let found = context.queue.pass(read(client, &one)).await;
        let decision = match found {
            Ok(Some(work)) => {
                let version = work["metadata"]["resourceVersion"].as_str();
                one.judged = version.and_then(|text| text.parse().ok()).unwrap_or(0);
                let takes_over =
                    |upgrade: &str| context.with(|state| state.may_take_over(upgrade, &one.cluster));
                evaluate(&work, &one, &existing, &settings, takes_over)
            }
            Ok(None) => OrphanDecision::Leave,
            Err(error) => {
                let cluster = &*one.cluster;
                tracing::warn!(cluster, %error, "a work without an upgrade cannot be read; trying again later");
                OrphanDecision::Leave
            }
        };
        decisions.push((one, decision));
    }
    Ok(decisions)
}

/// All upgrades that exist on the hub. Only their metadata is read, because their specs do not matter here.
async fn existing(context: &Context, client: &Client) -> Result<ExistingUpgrades, Error> {
    let upgrades = Requests::new(Upgrade::url_path(&(), None));
    let mut existing = ExistingUpgrades::default();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let request = upgrades.list_metadata(&params).map_err(Error::BuildRequest)?;
        let page: WorkPage = context.queue.pass(client.request(request)).await?;
        for upgrade in page.items {
            let meta = upgrade.metadata;
            let (namespace, name) = (meta.namespace.unwrap_or_default(), meta.name.unwrap_or_default());
            existing.uids.extend(meta.uid);
            existing.names.insert(format!("{namespace}/{name}"));
        }
        match page.metadata.next.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(existing),
        }
    }
}

/// The whole work including its manifests.
async fn read(client: &Client, one: &OrphanCandidate) -> Result<Option<Value>, Error> {
    let path = ManifestWork::url_path(&(), Some(&one.cluster));
    let uri = format!("{path}/{}", one.kind.work_name(&one.cluster));
    let request = Request::get(uri)
        .body(Vec::new())
        .map_err(|error| Error::Service(error.into()))?;
    match client.request::<ListedWork>(request).await {
        Ok(ListedWork(work)) => Ok(Some(work)),
        Err(Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
