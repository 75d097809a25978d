//! The operator lifecycle manager: Subscriptions follow their packages, and InstallPlans wait for approval and install.
//!
//! It is the only writer of the statuses of Subscriptions, InstallPlans and `ClusterServiceVersions`, and creates the latter
//! two. All state is in these objects.

mod next;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use self::next::{Offer, Plan, Step, View, next};
use super::clock::Clock;
use super::informer::Informer;
use super::kinds;
use super::rollout::operators::earlier;
use super::setup::{Package, Setup};
use super::status_writer::{StatusWriter, WriteError};
use crate::fault::Faults;
use crate::fields::{self, Cond, Time, timestamp};
use crate::seeded_rng::SeededRng;

/// Delay before a refused write is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// The controller.
pub struct Olm {
    /// The simulated clock.
    pub clock: Clock,
    /// How the cluster is installed and behaves.
    pub setup: Arc<Setup>,
    /// The faults of the cluster.
    pub faults: watch::Receiver<Faults>,
    /// Subscriptions.
    pub subscriptions: Informer,
    /// InstallPlans.
    pub plans: Informer,
    /// `ClusterVersion`.
    pub version: Informer,
    /// Notified by the informers.
    pub notify: Arc<Notify>,
    /// Writes statuses and objects.
    pub writer: StatusWriter,
}

impl Olm {
    /// Runs until it is stopped.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let mut wake = None;
            let mut failed = false;
            for subscription in self.subscriptions.all() {
                let now = self.clock.now();
                match self.one(&subscription, now).await {
                    Ok(next) => wake = earlier(wake, next),
                    Err(error) => {
                        let name = fields::text(&subscription, &["metadata", "name"]);
                        tracing::debug!(subscription = name, %error, "OLM could not write");
                        failed = true;
                    }
                }
            }
            let wait = wake.map(|wake| self.clock.until(wake));
            let wait = if failed {
                Some(wait.unwrap_or(RETRY).min(RETRY))
            } else {
                wait
            };
            let timer = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = timer => {}
                () = self.notify.notified() => {}
                Ok(()) = self.faults.changed() => {}
            }
        }
    }

    async fn one(&mut self, subscription: &Value, now: Time) -> Result<Option<Time>, WriteError> {
        let kind = kinds::subscription();
        let status = self.clock.to_simulated(self.writer.status(&kind, subscription));
        let plan = self.plan_of(subscription, &status);
        let view = Self::view(subscription, &status, plan.as_ref());
        let version = self.version.get(None, "version").unwrap_or_default();
        let platform = completed(&version).to_owned();
        let setup = Arc::clone(&self.setup);
        let offer = Offer {
            package: package_of(&setup.packages, subscription),
            platform: &platform,
            until_plan: setup.durations.install_plan,
            install: setup.durations.install,
            no_plans: self.faults.borrow_and_update().no_install_plan(),
        };
        match next(&view, &offer, now) {
            Step::Wait(wake) => {
                if status["lastUpdated"].is_null() {
                    let fresh = fresh_status(&status, now);
                    self.put(&kind, subscription, &fresh).await?;
                }
                Ok(wake)
            }
            Step::Unsatisfiable(why) => {
                self.refuse(subscription, &status, &why, now).await?;
                Ok(None)
            }
            Step::Plan(version) => self.plan(subscription, &status, &view, &version, now).await,
            Step::Install => {
                if let Some(plan) = &plan {
                    self.install(plan, now).await?;
                }
                Ok(Some(now + setup.durations.install))
            }
            Step::Complete => {
                if let Some(plan) = &plan {
                    self.complete(subscription, &status, plan, now).await?;
                }
                Ok(Some(now))
            }
        }
    }

    /// The plan that a Subscription refers to, with the last written status.
    fn plan_of(&self, subscription: &Value, status: &Value) -> Option<Value> {
        let name = fields::text(status, &["installPlanRef", "name"]);
        let namespace = fields::text(subscription, &["metadata", "namespace"]);
        let mut plan = self.plans.get(Some(namespace), name)?;
        let status = self
            .clock
            .to_simulated(self.writer.status(&kinds::install_plan(), &plan));
        plan["status"] = status;
        Some(plan)
    }

    fn view(subscription: &Value, status: &Value, plan: Option<&Value>) -> View {
        let time = |text: &str| fields::parse_timestamp(text);
        let plan = plan
            .filter(|plan| fields::text(plan, &["status", "phase"]) != "Complete")
            .map(|plan| Plan {
                approved: fields::get(plan, &["spec", "approved"]).and_then(Value::as_bool) == Some(true),
                phase: fields::text(plan, &["status", "phase"]).to_owned(),
                started: time(fields::text(plan, &["status", "startTime"])),
            });
        View {
            installed: fields::text(status, &["installedCSV"]).to_owned(),
            since: time(fields::text(status, &["lastUpdated"])),
            plan,
            manual: fields::text(subscription, &["spec", "installPlanApproval"]) == "Manual",
        }
    }

    async fn put(
        &mut self,
        kind: &kube::core::ApiResource,
        object: &Value,
        status: &Value,
    ) -> Result<(), WriteError> {
        let status = self.clock.to_wall(status);
        self.writer.put_status(kind, object, &status).await.map(drop)
    }

    async fn refuse(
        &mut self,
        subscription: &Value,
        status: &Value,
        why: &str,
        now: Time,
    ) -> Result<(), WriteError> {
        let told = super::rollout::operators::find(status, "ResolutionFailed");
        if told.is_some_and(|told| fields::text(told, &["message"]) == why) {
            return Ok(());
        }
        let mut status = fresh_status(status, now);
        let cond = Cond {
            kind: "ResolutionFailed",
            status: "True",
            reason: "ConstraintsNotSatisfiable",
            message: why,
        };
        super::rollout::operators::put(&mut status, cond, now);
        self.put(&kinds::subscription(), subscription, &status).await
    }

    async fn plan(
        &mut self,
        subscription: &Value,
        status: &Value,
        view: &View,
        version: &str,
        now: Time,
    ) -> Result<Option<Time>, WriteError> {
        let namespace = fields::text(subscription, &["metadata", "namespace"]).to_owned();
        // The name depends on the content, so that after a lost response the same plan is found and no second one is created.
        let name = plan_name(fields::text(subscription, &["metadata", "uid"]), version);
        let approval = if view.manual { "Manual" } else { "Automatic" };
        let plan = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"name": name, "namespace": namespace, "labels": {format!("operators.coreos.com/{}.{namespace}",
                fields::text(subscription, &["spec", "name"])): ""},
                "ownerReferences": [{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
                    "name": subscription["metadata"]["name"], "uid": subscription["metadata"]["uid"],
                    "blockOwnerDeletion": false, "controller": false}]},
            "spec": {"approval": approval, "approved": !view.manual, "generation": 1,
                     "clusterServiceVersionNames": [version]},
        });
        if self.writer.create(&kinds::install_plan(), &plan).await? {
            tracing::info!(
                namespace,
                plan = name,
                version,
                approval,
                "an InstallPlan is made"
            );
        }
        let Some(seen) = self.plans.get(Some(&namespace), &name) else {
            // The informer wakes this controller when it has the object.
            return Ok(None);
        };
        if fields::text(self.writer.status(&kinds::install_plan(), &seen), &["phase"]).is_empty() {
            let phase = if view.manual {
                "RequiresApproval"
            } else {
                "Installing"
            };
            let mut status = json!({"phase": phase, "catalogSources": [], "plan": []});
            if !view.manual {
                status["startTime"] = stamp(now);
            }
            self.put_plan(&seen, &status).await?;
        }
        let reference = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan", "name": name,
            "namespace": namespace, "uid": seen["metadata"]["uid"], "resourceVersion": seen["metadata"]["resourceVersion"],
        });
        let mut status = fresh_status(status, now);
        let object = fields::object_at(&mut status, &[]);
        object.insert("installPlanRef".into(), reference);
        object.insert("installPlanGeneration".into(), json!(1));
        object.insert(
            "installplan".into(),
            json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan", "name": name,
                   "uuid": seen["metadata"]["uid"]}),
        );
        object.insert("currentCSV".into(), version.into());
        object.insert("state".into(), "UpgradePending".into());
        let cond = Cond {
            kind: "InstallPlanPending",
            status: "True",
            reason: if view.manual {
                "RequiresApproval"
            } else {
                "Installing"
            },
            message: "",
        };
        super::rollout::operators::put(&mut status, cond, now);
        self.put(&kinds::subscription(), subscription, &status).await?;
        Ok(Some(now))
    }

    async fn put_plan(&mut self, plan: &Value, status: &Value) -> Result<(), WriteError> {
        self.put(&kinds::install_plan(), plan, status).await
    }

    async fn install(&mut self, plan: &Value, now: Time) -> Result<(), WriteError> {
        let mut status = plan["status"].clone();
        let object = fields::object_at(&mut status, &[]);
        object.insert("phase".into(), "Installing".into());
        object.entry("catalogSources").or_insert_with(|| json!([]));
        object.insert("startTime".into(), stamp(now));
        let seen = self.seen(plan);
        self.put_plan(&seen, &status).await
    }

    async fn complete(
        &mut self,
        subscription: &Value,
        status: &Value,
        plan: &Value,
        now: Time,
    ) -> Result<(), WriteError> {
        let namespace = fields::text(subscription, &["metadata", "namespace"]).to_owned();
        let version = fields::list(plan, &["spec", "clusterServiceVersionNames"])
            .first()
            .and_then(Value::as_str)
            .unwrap_or_default();
        let replaced = fields::text(status, &["installedCSV"]).to_owned();
        self.writer
            .create(
                &kinds::service_version(),
                &service_version(&namespace, version, &replaced),
            )
            .await?;
        let mut done = plan["status"].clone();
        let object = fields::object_at(&mut done, &[]);
        object.insert("phase".into(), "Complete".into());
        let cond = Cond {
            kind: "Installed",
            status: "True",
            reason: "",
            message: "",
        };
        super::rollout::operators::put(&mut done, cond, now);
        let mut status = fresh_status(status, now);
        let object = fields::object_at(&mut status, &[]);
        object.insert("installedCSV".into(), version.into());
        object.insert("currentCSV".into(), version.into());
        object.insert("state".into(), "AtLatestKnown".into());
        let conditions = fields::array_at(object, "conditions");
        conditions.retain(|condition| fields::text(condition, &["type"]) != "InstallPlanPending");
        self.put(&kinds::subscription(), subscription, &status).await?;
        let seen = self.seen(plan);
        self.put_plan(&seen, &done).await?;
        if !replaced.is_empty() {
            self.writer
                .delete(&kinds::service_version(), &namespace, &replaced)
                .await?;
        }
        tracing::info!(namespace, version, "an operator is installed");
        Ok(())
    }

    /// The plan from the informer.
    fn seen(&self, plan: &Value) -> Value {
        let of = |field| fields::text(plan, &["metadata", field]);
        self.plans
            .get(Some(of("namespace")), of("name"))
            .unwrap_or_else(|| plan.clone())
    }
}

fn stamp(now: Time) -> Value {
    timestamp(now).into()
}

fn fresh_status(status: &Value, now: Time) -> Value {
    let mut status = if status.is_null() {
        json!({})
    } else {
        status.clone()
    };
    status["lastUpdated"] = stamp(now);
    status
}

fn package_of<'a>(packages: &'a [Package], subscription: &Value) -> Option<&'a Package> {
    let spec = |field| fields::text(subscription, &["spec", field]);
    packages.iter().find(|package| {
        package.name == spec("name")
            && (package.channel.is_empty()
                || spec("channel").is_empty()
                || package.channel == spec("channel"))
    })
}

/// `install-` and five characters, like the generated names of OLM.
fn plan_name(subscription: &str, version: &str) -> String {
    let bits = SeededRng::new(0).of(subscription).of(version).bits();
    let alphabet = b"bcdfghjklmnpqrstvwxz2456789";
    let mut name = "install-".to_owned();
    for n in 0..5 {
        let index = usize::try_from((bits >> (n * 8)) & 0xff).unwrap_or(0) % alphabet.len();
        name.push(char::from(alphabet[index]));
    }
    name
}

/// A `ClusterServiceVersion` that deploys nothing.
/// It is used in [`super::install`].
#[must_use]
pub fn service_version(namespace: &str, name: &str, replaces: &str) -> Value {
    let mut object = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"displayName": name, "install": {"strategy": "deployment", "spec": {"deployments": []}}},
    });
    if !replaces.is_empty() {
        object["spec"]["replaces"] = replaces.into();
    }
    object
}

/// The last completed version.
fn completed(version: &Value) -> &str {
    fields::list(version, &["status", "history"])
        .iter()
        .find(|entry| fields::text(entry, &["state"]) == "Completed")
        .map_or("", |entry| fields::text(entry, &["version"]))
}

#[cfg(test)]
mod tests {
    use super::plan_name;

    #[test]
    fn the_name_of_a_plan_is_that_of_its_content() {
        assert_eq!(plan_name("u", "v"), plan_name("u", "v"));
        assert_ne!(plan_name("u", "v"), plan_name("u", "w"));
        assert_eq!(plan_name("u", "v").len(), 13);
    }
}
