//! Reads works without an upgrade, and the list of all upgrades, from the hub before any of them is removed.

use std::sync::Arc;
use std::time::Duration;

use api::lenient::shallow;
use api::views::{ManifestWork, Upgrade};
use http::Request;
use kube::api::{ListParams, Request as Requests};
use kube::{Client, Error, Resource};
use serde::Deserialize;
use serde_json::Value;

use crate::hall::Hall;
use crate::orphans::{Living, Suspect, Verdict, judge};
use crate::run::now;

/// Longest time of all reads.
const READ: Duration = Duration::from_mins(2);
/// Upgrades per page.
const PAGE: u32 = 500;

/// A page of the metadata of upgrades. What else an object says is passed over, however deep it is: one upgrade must not
/// hide the others.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMetadata,
    items: Vec<Item>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    uid: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

/// A work, read to a depth that is safe.
#[derive(Deserialize)]
struct Work(#[serde(deserialize_with = "shallow")] Value);

/// Judges works by what the hub has now, and asks for the deletion of those that may go.
pub async fn sweep(hall: Arc<Hall>, client: Client, suspects: Vec<Suspect>) {
    let verdicts = match tokio::time::timeout(READ, verdicts(&hall, &client, suspects)).await {
        Ok(Ok(verdicts)) => verdicts,
        Ok(Err(error)) => {
            tracing::warn!(%error, "works without an upgrade cannot be read, trying again");
            Vec::new()
        }
        Err(_) => {
            tracing::warn!("works without an upgrade cannot be read in time, trying again");
            Vec::new()
        }
    };
    let (jobs, told) = hall.with(|state| state.judged(verdicts, now()));
    for (work, why) in told {
        let name = work.step.work_name(&work.cluster);
        tracing::warn!(
            namespace = &*work.cluster,
            name,
            upgrade = &*work.upgrade,
            why,
            "a work whose upgrade does not exist any more is not removed; see kubectl mcu orphans"
        );
    }
    for job in &jobs {
        tracing::warn!(
            namespace = job.effect.cluster().map(|cluster| &**cluster),
            upgrade = &*job.upgrade,
            lane = ?job.effect.lane(),
            "removing a work whose upgrade has not existed for ten minutes"
        );
    }
    hall.lanes.push(jobs);
}

async fn verdicts(
    hall: &Hall,
    client: &Client,
    suspects: Vec<Suspect>,
) -> Result<Vec<(Suspect, Verdict)>, Error> {
    let living = living(hall, client).await?;
    let settings = hall.with(|state| state.settings.clone());
    let mut verdicts = Vec::new();
    for one in suspects {
        let verdict = match hall.lanes.pass(read(client, &one)).await {
            Ok(Some(work)) => {
                let takes_over =
                    |upgrade: &str| hall.with(|state| state.may_take_over(upgrade, &one.cluster));
                judge(&work, &one, &living, &settings, takes_over)
            }
            Ok(None) => Verdict::Leave,
            Err(error) => {
                let cluster = &*one.cluster;
                tracing::warn!(cluster, %error, "a work without an upgrade cannot be read, trying again later");
                Verdict::Leave
            }
        };
        verdicts.push((one, verdict));
    }
    Ok(verdicts)
}

/// All upgrades that the hub has now. Of their metadata alone: what their specs say does not matter here.
async fn living(hall: &Hall, client: &Client) -> Result<Living, Error> {
    let upgrades = Requests::new(Upgrade::url_path(&(), None));
    let mut living = Living::default();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let request = upgrades.list_metadata(&params).map_err(Error::BuildRequest)?;
        let page: Page = hall.lanes.pass(client.request(request)).await?;
        for upgrade in page.items {
            let meta = upgrade.metadata;
            let (namespace, name) = (meta.namespace.unwrap_or_default(), meta.name.unwrap_or_default());
            living.uids.extend(meta.uid);
            living.names.insert(format!("{namespace}/{name}"));
        }
        match page.metadata.next.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(living),
        }
    }
}

/// The whole work, its manifests included.
async fn read(client: &Client, one: &Suspect) -> Result<Option<Value>, Error> {
    let path = ManifestWork::url_path(&(), Some(&one.cluster));
    let uri = format!("{path}/{}", one.step.work_name(&one.cluster));
    let request = Request::get(uri)
        .body(Vec::new())
        .map_err(|error| Error::Service(error.into()))?;
    match client.request::<Work>(request).await {
        Ok(Work(work)) => Ok(Some(work)),
        Err(Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
