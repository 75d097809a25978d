//! Reads an archived upgrade and its reports from the hub.

use std::sync::Arc;
use std::time::Duration;

use api::views::{Report, Upgrade};
use kube::{Api, Client, Error};

use crate::clock::now;
use crate::state::context::Context;

/// Longest time of one request, including its wait at the gate.
const LIMIT: Duration = Duration::from_mins(1);

/// The objects to read.
#[derive(Debug)]
pub struct ArchiveRead {
    /// UID of the upgrade.
    pub uid: Arc<str>,
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Names of its reports.
    pub reports: Vec<String>,
}

/// Reads an upgrade and its reports, and restores the upgrade from them.
pub async fn read(context: Arc<Context>, client: Client, wanted: ArchiveRead) {
    let fail = |error: &str| {
        let (namespace, name) = (&*wanted.namespace, &*wanted.name);
        tracing::warn!(
            namespace,
            name,
            error,
            "a finished upgrade cannot be read; trying again"
        );
    };
    // After a restore of the hub's storage, objects that were read before it no longer count.
    let invalidated = context.freshness.invalidated();
    let found = tokio::select! {
        biased;
        () = invalidated.cancelled() => return,
        found = fetch(&context, &client, &wanted) => found.unwrap_or_else(|error| {
            fail(&error);
            None
        }),
    };
    context.update(|state| state.was_read(&wanted.uid, found, now()));
}

/// The object and those of its reports that exist. Returns nothing if the object does not exist.
async fn fetch(
    context: &Context,
    client: &Client,
    wanted: &ArchiveRead,
) -> Result<Option<(Upgrade, Vec<Report>)>, String> {
    let upgrades: Api<Upgrade> = Api::namespaced(client.clone(), &wanted.namespace);
    let Some(upgrade) = limited(context.queue.pass(upgrades.get_opt(&wanted.name))).await? else {
        return Ok(None);
    };
    let all: Api<Report> = Api::namespaced(client.clone(), &wanted.namespace);
    let mut reports = Vec::with_capacity(wanted.reports.len());
    for name in &wanted.reports {
        reports.extend(limited(context.queue.pass(all.get_opt(name))).await?);
    }
    Ok(Some((upgrade, reports)))
}

async fn limited<T>(request: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
    match tokio::time::timeout(LIMIT, request).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err("no response in time".to_owned()),
    }
}
