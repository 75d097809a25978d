//! One test's part of a hub: a namespace, a set that is bound there, and clusters with unique names.
//!
//! The methods are the vocabulary of the tests. No wait is for a fixed time: each is for something that is seen.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use api::names::Step;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testenv::{ClusterSpec, FleetSpec, fleet, placement};

use crate::WAIT_TIMEOUT;
use crate::sample;
use crate::seen::Work;
use crate::test_hub::{TestHub, unique};
use crate::view::{Kind, Known};

/// Field manager of everything a test writes.
pub const FIELD_MANAGER: &str = "e2e";

/// See the module.
#[derive(Clone)]
pub struct Scenario {
    test_hub: Arc<TestHub>,
    client: Client,
    id: String,
    set: String,
    names: Vec<String>,
    timeout: Duration,
    /// Works of its clusters that others had created before it began.
    before: BTreeMap<(String, Step), usize>,
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Scenario {
    /// Clusters `<id>-dev1` to `<id>-dev<count>` in a set that is bound in the namespace `<id>`, on the shared hub.
    ///
    /// # Errors
    /// The hub does not start, or refuses a write.
    pub async fn new(count: usize) -> Result<Self> {
        Self::on(&TestHub::shared().await?, count).await
    }

    /// As [`Scenario::new`], on another hub.
    ///
    /// # Errors
    /// As [`Scenario::new`].
    pub async fn on(test_hub: &Arc<TestHub>, count: usize) -> Result<Self> {
        Self::of(test_hub, count, |_, cluster| cluster).await
    }

    /// As [`Scenario::on`], with a change to each cluster by its number.
    ///
    /// # Errors
    /// As [`Scenario::new`].
    pub async fn of(
        test_hub: &Arc<TestHub>,
        count: usize,
        mut change: impl FnMut(usize, ClusterSpec) -> ClusterSpec,
    ) -> Result<Self> {
        let id = unique("t");
        let width = if count < 10 { 1 } else { count.to_string().len() };
        let names: Vec<String> = (1..=count)
            .map(|number| format!("{id}-dev{number:0width$}"))
            .collect();
        let client = test_hub.client().await?;
        let clusters = names
            .iter()
            .enumerate()
            .map(|(index, name)| change(index + 1, ClusterSpec::new(name).in_set(&id)))
            .collect();
        let fleet = FleetSpec {
            clusters,
            bindings: vec![(id.clone(), id.clone())],
        };
        let scenario = Self {
            test_hub: Arc::clone(test_hub),
            client,
            set: id.clone(),
            id,
            names,
            timeout: WAIT_TIMEOUT,
            before: BTreeMap::new(),
        };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scenario.id}});
        let set = json!({"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSet",
            "metadata": {"name": scenario.id},
            "spec": {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}});
        testenv::apply::apply_objects(&scenario.client, &[namespace, set]).await?;
        fleet::create(&scenario.client, &fleet).await?;
        Ok(scenario)
    }

    /// A namespace in which a set is bound whose clusters exist already; a wait for them ends after `timeout`.
    ///
    /// # Errors
    /// As [`Scenario::new`].
    pub async fn over(test_hub: &Arc<TestHub>, set: &str, names: &[&str], timeout: Duration) -> Result<Self> {
        let scenario = Self {
            test_hub: Arc::clone(test_hub),
            client: test_hub.client().await?,
            id: unique("t"),
            set: set.to_owned(),
            names: names.iter().map(|&name| name.to_owned()).collect(),
            timeout,
            before: test_hub.view().look(|known| {
                let pairs = names.iter().flat_map(|&name| Step::ALL.map(|step| (name, step)));
                pairs
                    .map(|(name, step)| ((name.to_owned(), step), known.created(name, step)))
                    .collect()
            }),
        };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scenario.id}});
        let binding = fleet::binding(&scenario.id, set);
        testenv::apply::apply_objects(&scenario.client, &[namespace, binding]).await?;
        Ok(scenario)
    }

    /// The same, with another timeout.
    #[must_use]
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The namespace of its upgrades; the name of its set too, where it made the set.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The hub it lives on.
    #[must_use]
    pub const fn test_hub(&self) -> &Arc<TestHub> {
        &self.test_hub
    }

    /// A client of the administrator.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Name of the n-th cluster, from 1.
    #[must_use]
    pub fn c(&self, number: usize) -> &str {
        self.names.get(number.wrapping_sub(1)).map_or("", String::as_str)
    }

    /// Names of the clusters.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Names of some clusters.
    #[must_use]
    pub fn some(&self, numbers: &[usize]) -> Vec<String> {
        numbers.iter().map(|&number| self.c(number).to_owned()).collect()
    }

    /// The spec that [`Scenario::create`] starts from.
    #[must_use]
    pub fn spec(&self) -> Value {
        sample::spec(&self.set, &self.names)
    }

    /// Waits for a work.
    ///
    /// # Errors
    /// It does not come in time.
    pub async fn work(&self, number: usize, step: Step) -> Result<Work> {
        let cluster = self.c(number);
        self.wait(&format!("work {step} of {cluster}"), |known| {
            known.work(cluster, step)
        })
        .await
    }

    /// Waits until a work is as it should be.
    ///
    /// # Errors
    /// It is not in time.
    pub async fn work_until(
        &self,
        number: usize,
        step: Step,
        what: &str,
        mut condition: impl FnMut(&Work) -> bool,
    ) -> Result<Work> {
        let cluster = self.c(number);
        self.wait(&format!("work {step} of {cluster}: {what}"), |known| {
            known.work(cluster, step).filter(|work| condition(work))
        })
        .await
    }

    /// Waits until a work is gone.
    ///
    /// # Errors
    /// It is still there.
    pub async fn gone(&self, number: usize, step: Step) -> Result<()> {
        let cluster = self.c(number);
        self.wait(&format!("no work {step} of {cluster}"), |known| {
            known.work(cluster, step).is_none().then_some(())
        })
        .await
    }

    /// True while a work exists.
    #[must_use]
    pub fn has(&self, number: usize, step: Step) -> bool {
        self.test_hub
            .view()
            .look(|known| known.work(self.c(number), step).is_some())
    }

    /// How often a work of this step was created since the scenario began.
    #[must_use]
    pub fn created(&self, number: usize, step: Step) -> usize {
        let cluster = self.c(number);
        let all = self.test_hub.view().look(|known| known.created(cluster, step));
        let before = self.before.get(&(cluster.to_owned(), step));
        all - before.copied().unwrap_or_default()
    }

    /// Clusters, by number, that have a work of this step.
    #[must_use]
    pub fn having(&self, step: Step) -> Vec<usize> {
        (1..=self.names.len())
            .filter(|&number| self.has(number, step))
            .collect()
    }

    /// Waits for anything that can be seen.
    ///
    /// # Errors
    /// It does not come in time; the message shows everything of the scenario.
    pub async fn wait<T>(&self, what: &str, probe: impl FnMut(&Known) -> Option<T>) -> Result<T> {
        match self.test_hub.view().wait(self.timeout, probe).await {
            Some(found) => Ok(found),
            None => bail!("not within {:?}: {what}\n{}", self.timeout, self.dump()),
        }
    }

    /// Writes a placement with its decisions.
    ///
    /// # Errors
    /// The API server refuses it.
    pub async fn decide(&self, name: &str, numbers: &[usize]) -> Result<()> {
        placement::write_decided_flat(&self.client, &self.id, name, &self.some(numbers)).await
    }

    /// An untyped API.
    #[must_use]
    pub fn api(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &kind.resource())
    }

    /// Creates an object of a watched kind.
    ///
    /// # Errors
    /// The API server refuses it; the message is its own.
    pub async fn post(&self, kind: Kind, namespace: &str, object: &Value) -> Result<Value> {
        create(&self.api(kind, namespace), object).await
    }

    /// Changes an object of a watched kind by a merge patch.
    ///
    /// # Errors
    /// The API server refuses it.
    pub async fn patch(&self, kind: Kind, namespace: &str, name: &str, change: &Value) -> Result<Value> {
        merge(&self.api(kind, namespace), name, change).await
    }

    /// Creates a work in a cluster's namespace as the controller's account: only it may use the names of steps, or
    /// the controller's labels and annotations.
    ///
    /// # Errors
    /// As [`Scenario::post`].
    pub async fn post_as_controller(&self, cluster: &str, work: &Value) -> Result<Value> {
        create(&self.as_controller(cluster).await?, work).await
    }

    /// Changes a cluster's work by a merge patch as the controller's account, see [`Scenario::post_as_controller`].
    ///
    /// # Errors
    /// As [`Scenario::patch`].
    pub async fn patch_as_controller(&self, cluster: &str, step: Step, change: &Value) -> Result<Value> {
        merge(
            &self.as_controller(cluster).await?,
            &step.work_name(cluster),
            change,
        )
        .await
    }

    async fn as_controller(&self, cluster: &str) -> Result<Api<DynamicObject>> {
        let client = self.test_hub.identity().client().await?;
        Ok(Api::namespaced_with(client, cluster, &Kind::Work.resource()))
    }

    /// Deletes a work, as a person would by hand.
    ///
    /// # Errors
    /// The API server refuses it.
    pub async fn delete_work(&self, number: usize, step: Step) -> Result<()> {
        let cluster = self.c(number);
        self.api(Kind::Work, cluster)
            .delete(&step.work_name(cluster), &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// Everything known of the scenario, for the message of a test that failed.
    #[must_use]
    pub fn dump(&self) -> String {
        let mut text = self
            .test_hub
            .view()
            .look(|known| crate::dump::of(known, &self.id, &self.names));
        text.push_str("\ncontroller:\n");
        text.push_str(&self.test_hub.log_lines(&self.id, 20));
        text
    }
}

async fn create(api: &Api<DynamicObject>, object: &Value) -> Result<Value> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    Ok(serde_json::to_value(api.create(&params, &object).await?)?)
}

async fn merge(api: &Api<DynamicObject>, name: &str, change: &Value) -> Result<Value> {
    let changed = api
        .patch(name, &PatchParams::default(), &Patch::Merge(change))
        .await?;
    Ok(serde_json::to_value(changed)?)
}
