//! Reads an archived upgrade and its reports from the hub.

use std::sync::Arc;
use std::time::Duration;

use api::views::{Report, Upgrade};
use kube::{Api, Client, Error};

use crate::hall::Hall;
use crate::run::now;

/// Longest time of one request, its wait at the gate included.
const LIMIT: Duration = Duration::from_mins(1);

/// What is to be read.
#[derive(Debug)]
pub struct Wanted {
    /// UID of the upgrade.
    pub uid: Arc<str>,
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Names of its reports.
    pub reports: Vec<String>,
}

/// Reads an upgrade and its reports, and puts it back to work.
pub async fn read(hall: Arc<Hall>, client: Client, wanted: Wanted) {
    let fail = |error: &str| {
        let (namespace, name) = (&*wanted.namespace, &*wanted.name);
        tracing::warn!(
            namespace,
            name,
            error,
            "a finished upgrade cannot be read, trying again"
        );
    };
    // What another hub said before its storage was replaced counts no more.
    let view = hall.freshness.view();
    let found = tokio::select! {
        biased;
        () = view.cancelled() => return,
        found = fetch(&hall, &client, &wanted) => found.unwrap_or_else(|error| {
            fail(&error);
            None
        }),
    };
    hall.tell(|state| state.was_read(&wanted.uid, found, now()));
}

/// The object and its reports, as far as they exist; none without the object.
async fn fetch(
    hall: &Hall,
    client: &Client,
    wanted: &Wanted,
) -> Result<Option<(Upgrade, Vec<Report>)>, String> {
    let upgrades: Api<Upgrade> = Api::namespaced(client.clone(), &wanted.namespace);
    let Some(upgrade) = limited(hall.lanes.pass(upgrades.get_opt(&wanted.name))).await? else {
        return Ok(None);
    };
    let all: Api<Report> = Api::namespaced(client.clone(), &wanted.namespace);
    let mut reports = Vec::with_capacity(wanted.reports.len());
    for name in &wanted.reports {
        reports.extend(limited(hall.lanes.pass(all.get_opt(name))).await?);
    }
    Ok(Some((upgrade, reports)))
}

async fn limited<T>(request: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
    match tokio::time::timeout(LIMIT, request).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}
