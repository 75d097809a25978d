//! Reads an archived upgrade and its reports from the hub.

use std::sync::Arc;
use std::time::Duration;

use api::views::{Report, Upgrade};
use kube::{Api, Client, Error};

use crate::hall::Hall;
use crate::run::now;

/// Longest time of all requests.
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
    let found = match tokio::time::timeout(LIMIT, fetch(&hall, &client, &wanted)).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => {
            fail(&error.to_string());
            None
        }
        Err(_) => {
            fail("no answer in time");
            None
        }
    };
    hall.tell(|state| state.was_read(&wanted.uid, found, now()));
}

/// The object and its reports, as far as they exist; none without the object.
async fn fetch(
    hall: &Hall,
    client: &Client,
    wanted: &Wanted,
) -> Result<Option<(Upgrade, Vec<Report>)>, Error> {
    let upgrades: Api<Upgrade> = Api::namespaced(client.clone(), &wanted.namespace);
    let Some(upgrade) = hall.lanes.pass(upgrades.get_opt(&wanted.name)).await? else {
        return Ok(None);
    };
    let all: Api<Report> = Api::namespaced(client.clone(), &wanted.namespace);
    let mut reports = Vec::with_capacity(wanted.reports.len());
    for name in &wanted.reports {
        reports.extend(hall.lanes.pass(all.get_opt(name)).await?);
    }
    Ok(Some((upgrade, reports)))
}
