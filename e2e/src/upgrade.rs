//! One upgrade of a scenario: writing its spec, waiting for its status, reading its reports.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use api::names;
use api::report::ReportRow;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::sample;
use crate::scenario::Scenario;
use crate::seen::Seen;
use crate::view::{Kind, Known};

/// See the module.
#[derive(Debug, Clone, Copy)]
pub struct Upgrade<'a> {
    scenario: &'a Scenario,
    name: &'a str,
}

impl Scenario {
    /// The upgrade that most tests have one of.
    #[must_use]
    pub fn up(&self) -> Upgrade<'_> {
        self.upgrade("up")
    }

    /// An upgrade by name, in the namespace of the scenario.
    #[must_use]
    pub fn upgrade<'a>(&'a self, name: &'a str) -> Upgrade<'a> {
        Upgrade::new(self, name)
    }

    /// Creates the upgrade: all clusters to the target, with a merge patch to that spec.
    ///
    /// # Errors
    /// The API server refuses it.
    pub async fn create(&self, change: Value) -> Result<()> {
        self.up().create(change).await
    }

    /// Changes the spec of the upgrade by a merge patch.
    ///
    /// # Errors
    /// The API server refuses it.
    pub async fn edit(&self, change: Value) -> Result<()> {
        self.up().edit(change).await
    }

    /// Waits until the upgrade's status, speaking of its current spec, satisfies a condition.
    ///
    /// # Errors
    /// It does not in time, or a status broke an invariant; the message shows everything.
    pub async fn until(&self, what: &str, condition: impl FnMut(&Seen) -> bool) -> Result<Seen> {
        self.up().until(what, condition).await
    }

    /// Waits until the upgrade is complete.
    ///
    /// # Errors
    /// As [`Scenario::until`].
    pub async fn complete(&self) -> Result<Seen> {
        self.until("complete", |seen| seen.is("Complete")).await
    }

    /// Makes the controller plan again, and waits until it has: what it would do by itself, it has done.
    ///
    /// # Errors
    /// As [`Scenario::until`].
    pub async fn settle(&self) -> Result<Seen> {
        self.up().settle().await
    }
}

impl<'a> Upgrade<'a> {
    pub(crate) const fn new(scenario: &'a Scenario, name: &'a str) -> Self {
        Self { scenario, name }
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &str {
        self.name
    }

    /// Creates it: all clusters of the scenario to the target, with a merge patch to that spec.
    ///
    /// # Errors
    /// The API server refuses it; the message is its own.
    pub async fn create(&self, change: Value) -> Result<()> {
        let mut spec = self.scenario.spec();
        sample::merge(&mut spec, &change);
        self.create_exactly(spec, json!({})).await
    }

    /// Creates it with exactly this spec and these annotations.
    ///
    /// # Errors
    /// The API server refuses it; the message is its own.
    pub async fn create_exactly(&self, spec: Value, annotations: Value) -> Result<()> {
        let object = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgrade",
            "metadata": {"name": self.name, "annotations": annotations}, "spec": spec,
        });
        self.scenario
            .post(Kind::Upgrade, self.scenario.id(), &object)
            .await?;
        Ok(())
    }

    /// Creates it and expects the API server to refuse it; returns what it says.
    ///
    /// # Errors
    /// It is accepted.
    pub async fn refused(&self, change: Value) -> Result<String> {
        match self.create(change.clone()).await {
            Ok(()) => bail!("accepted: {change}"),
            Err(error) => Ok(format!("{error:#}")),
        }
    }

    /// Changes its spec by a merge patch.
    ///
    /// # Errors
    /// The API server refuses it.
    pub async fn edit(&self, change: Value) -> Result<()> {
        self.patch(&json!({"spec": change})).await
    }

    /// Sets the annotation that retries failed clusters.
    ///
    /// # Errors
    /// The API server refuses it.
    pub async fn retry(&self, token: &str) -> Result<()> {
        self.patch(&json!({"metadata": {"annotations": {names::ANNOTATION_RETRY_FAILED: token}}}))
            .await
    }

    /// Deletes it.
    ///
    /// # Errors
    /// The API server refuses it.
    pub async fn delete(&self) -> Result<()> {
        self.scenario
            .api(Kind::Upgrade, self.scenario.id())
            .delete(self.name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// Waits until it is gone.
    ///
    /// # Errors
    /// It is still there.
    pub async fn gone(&self) -> Result<()> {
        self.scenario
            .wait("the upgrade is gone", |known| {
                self.see(known).is_none().then_some(())
            })
            .await
    }

    /// Waits until its status, speaking of its current spec, satisfies a condition.
    ///
    /// # Errors
    /// It does not in time, or a status broke an invariant; the message shows everything.
    pub async fn until(&self, what: &str, mut condition: impl FnMut(&Seen) -> bool) -> Result<Seen> {
        let what = format!("{}: {what}", self.name);
        let seen = self
            .scenario
            .wait(&what, |known| {
                let broken = !known.broken(self.scenario.id(), self.name).is_empty();
                self.see(known)
                    .filter(|seen| broken || (seen.is_current() && condition(seen)))
            })
            .await?;
        self.sound()?;
        Ok(seen)
    }

    /// Fails when any status or report so far broke an invariant.
    ///
    /// # Errors
    /// One did.
    pub fn sound(&self) -> Result<()> {
        let view = self.scenario.test_hub().view();
        let broken = view.look(|known| known.broken(self.scenario.id(), self.name).to_vec());
        if broken.is_empty() {
            return Ok(());
        }
        bail!(
            "broken invariants:\n{}\n{}",
            broken.join("\n"),
            self.scenario.dump()
        )
    }

    /// The upgrade as it is now.
    ///
    /// # Errors
    /// It does not exist.
    pub fn now(&self) -> Result<Seen> {
        let view = self.scenario.test_hub().view();
        view.look(|known| self.see(known))
            .context("the upgrade does not exist")
    }

    /// Every version of it that was seen.
    #[must_use]
    pub fn history(&self) -> Vec<Seen> {
        self.scenario.test_hub().view().look(|known| {
            known
                .track(Kind::Upgrade, self.scenario.id(), self.name)
                .map(|track| track.versions.iter().map(|(_, raw)| Seen::new(raw)).collect())
                .unwrap_or_default()
        })
    }

    /// Makes the controller plan twice, each time by a change of spec that requests nothing new.
    ///
    /// # Errors
    /// As [`Upgrade::until`].
    pub async fn settle(&self) -> Result<Seen> {
        let planned = self.until("planned", |_| true).await?;
        let limit = planned.raw["spec"]["upgradeStrategy"]["operatorsUpgradeTimeout"].clone();
        self.edit(json!({"upgradeStrategy": {"operatorsUpgradeTimeout": "7777s"}}))
            .await?;
        self.until("planned again", |_| true).await?;
        self.edit(json!({"upgradeStrategy": {"operatorsUpgradeTimeout": limit}}))
            .await?;
        self.until("planned once more", |_| true).await
    }

    /// The rows of its reports by cluster.
    #[must_use]
    pub fn rows(&self) -> BTreeMap<String, ReportRow> {
        self.scenario.test_hub().view().look(|known| self.rows_in(known))
    }

    /// Waits until the row of a cluster satisfies a condition.
    ///
    /// # Errors
    /// It does not in time.
    pub async fn row_until(
        &self,
        cluster: &str,
        what: &str,
        mut condition: impl FnMut(&ReportRow) -> bool,
    ) -> Result<ReportRow> {
        self.scenario
            .wait(&format!("row of {cluster}: {what}"), |known| {
                self.rows_in(known).remove(cluster).filter(|row| condition(row))
            })
            .await
    }

    /// Waits until a cluster has no row.
    ///
    /// # Errors
    /// It still has one.
    pub async fn row_gone(&self, cluster: &str) -> Result<()> {
        self.scenario
            .wait(&format!("no row of {cluster}"), |known| {
                (!self.rows_in(known).contains_key(cluster)).then_some(())
            })
            .await
    }

    fn rows_in(&self, known: &Known) -> BTreeMap<String, ReportRow> {
        known
            .in_namespace(Kind::Report, self.scenario.id())
            .filter(|report| report["metadata"]["labels"][names::LABEL_MCU] == self.name)
            .flat_map(|report| report["rows"].as_array().cloned().unwrap_or_default())
            .filter_map(|row| serde_json::from_value::<ReportRow>(row).ok())
            .map(|row| (row.cluster.clone(), row))
            .collect()
    }

    fn see(&self, known: &Known) -> Option<Seen> {
        known.upgrade(self.scenario.id(), self.name)
    }

    async fn patch(&self, change: &Value) -> Result<()> {
        self.scenario
            .patch(Kind::Upgrade, self.scenario.id(), self.name, change)
            .await?;
        // Waits are for the new generation, so the view must have seen it.
        let wanted = self
            .scenario
            .api(Kind::Upgrade, self.scenario.id())
            .get(self.name)
            .await?;
        let generation = wanted.metadata.generation.unwrap_or_default();
        self.scenario
            .wait("the change is seen", |known| {
                self.see(known)
                    .filter(|seen| seen.generation() >= generation)
                    .map(drop)
            })
            .await
    }
}
