//! What the hub says of the upgrade at one moment: status and report rows, and nothing that is not in them.

use anyhow::{Context as _, Result};
use api::names::LABEL_MCU;
use api::report::{ManagedClustersUpgradeReport, Phase, ReportRow};
use api::{ManagedClustersUpgrade, ManagedClustersUpgradeStatus};
use kube::Client;
use kube::api::{Api, ListParams};

use super::fixtures::{NAMESPACE, UPGRADE};

/// Status and rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The upgrade's status.
    pub status: ManagedClustersUpgradeStatus,
    /// Its rows by cluster.
    pub rows: Vec<ReportRow>,
}

impl Snapshot {
    /// Asks the hub.
    ///
    /// # Errors
    /// The hub rejects the request, or the upgrade is gone.
    pub async fn take(client: &Client) -> Result<Self> {
        let upgrades: Api<ManagedClustersUpgrade> = Api::namespaced(client.clone(), NAMESPACE);
        let reports: Api<ManagedClustersUpgradeReport> = Api::namespaced(client.clone(), NAMESPACE);
        let upgrade = upgrades
            .get(UPGRADE)
            .await
            .context("the upgrade cannot be read")?;
        let of_upgrade = ListParams::default().labels(&format!("{LABEL_MCU}={UPGRADE}"));
        let mut rows: Vec<ReportRow> = reports
            .list(&of_upgrade)
            .await
            .context("the reports cannot be read")?
            .items
            .into_iter()
            .flat_map(|report| report.spec.rows)
            .collect();
        rows.sort_by(|one, other| one.cluster.cmp(&other.cluster));
        Ok(Self {
            status: upgrade.status.unwrap_or_default(),
            rows,
        })
    }

    /// Whether a condition is True.
    #[must_use]
    pub fn is(&self, r#type: &str) -> bool {
        self.status
            .conditions
            .iter()
            .any(|condition| condition.type_ == r#type && condition.status == "True")
    }

    /// How many clusters are in a phase.
    #[must_use]
    pub fn count(&self, phase: Phase) -> usize {
        self.rows.iter().filter(|row| row.phase == phase).count()
    }
}
