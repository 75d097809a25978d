//! The update service of the fleet, on the real releases and the real graph-data.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use e2e::data::{RELEASES, read};
use e2e::program;
use serde::Deserialize;
use testenv::hub::wait_until;
use testenv::{Process, ProcessSpec};

/// Environment variable that names a binary to use as it is.
const BINARY: &str = "MCU_UPDATE_SERVICE";
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

/// The real payload of every release, by version.
pub fn payloads(data: &Path) -> Result<BTreeMap<String, String>> {
    #[derive(Deserialize)]
    struct Release {
        version: String,
        payload: String,
    }
    let releases: Vec<Release> = read(&data.join(RELEASES))?;
    Ok(releases
        .into_iter()
        .map(|release| (release.version, release.payload))
        .collect())
}

/// A running service. Dropping it kills the process.
#[derive(Debug)]
pub struct UpdateService {
    _process: Process,
    address: String,
}

impl UpdateService {
    /// Starts it on the data in a directory; returns when it has a graph.
    pub async fn start(logs: &Path, data: &Path) -> Result<Self> {
        let address = program::free_address()?;
        let file = |name: &str| data.join(name).display().to_string();
        let spec = ProcessSpec::new(
            "update-service",
            &program::binary("update-service", BINARY).await?,
        )
        .args([
            "serve".to_owned(),
            format!("--listen={address}"),
            format!("--releases={}", file(RELEASES)),
            format!("--graph-data={}", file("graph-data.tar.gz")),
        ]);
        let process = Process::start(&spec, logs)?;
        let ready = wait_until("the update service is ready", WAIT_TIMEOUT, || async {
            if let Some(status) = process.exited()? {
                bail!("the update service ended with {status}");
            }
            Ok(matches!(program::get(&address, "/readyz").await, Ok((200, _))))
        })
        .await;
        ready.with_context(|| process.log_tail(20))?;
        Ok(Self {
            _process: process,
            address,
        })
    }

    /// What a ClusterVersion has as `spec.upstream`.
    pub fn upstream(&self) -> String {
        format!("http://{}/api/upgrades_info/v1/graph", self.address)
    }
}
