//! The two clusters: a case is carried out on both, and the results of both are read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::{self, Scope};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use spoke_sim::{Agents, Faults, Pace};
use testenv::crds::FeatureSet;
use testenv::hub::wait_until;
use testenv::spoke::SpokeSpec;
use testenv::{AgentOptions, Assets, Controllers, FleetSpec, Hub, Spoke, fleet};

use crate::cases::{Case, Step, widget_definition};
use crate::compare;

/// The cluster of the real agent, and that of the fake one.
pub const REAL: &str = "real";
pub const FAKE: &str = "fake";
/// The real agent checks its objects once per second, times up to 1.9.
const QUIET: Duration = Duration::from_millis(2_500);
/// How long the two may take to agree after a step.
const WAIT_TIMEOUT: Duration = Duration::from_secs(25);

/// Kind, namespace and name of an object that a case is about.
type Object = (String, String, String, String);

/// See the module.
pub struct Pair {
    agents: Agents,
    spoke: Spoke,
    hub: Hub,
    kinds: Mutex<BTreeMap<(String, String), (ApiResource, bool)>>,
}

impl Pair {
    /// Starts hub, spoke and both agents, with the same namespace and the same kinds on both clusters.
    pub async fn start() -> Result<Self> {
        let assets = Assets::of_fleets().await?.clone();
        let hub = Hub::builder()
            .assets(assets)
            .agents_of(&[REAL])
            .controller_manager(Controllers::collectors())
            .registration()
            .start()
            .await?;
        fleet::create(hub.client(), &FleetSpec::named(&[REAL, FAKE])).await?;
        let spec = SpokeSpec::new(REAL, FeatureSet::Default).controllers(Controllers::quiet());
        let spoke = Spoke::start(&hub, &spec).await?;
        let agents = Agents::builder(hub.client().clone())
            .clusters([FAKE])
            // At the pace of the wall: an unchanged work is applied again after minutes.
            .pace(Pace::scaled(1.0, Duration::from_hours(1)))
            .still()
            .start()
            .await?;
        agents.ready().await;
        let pair = Self {
            agents,
            spoke,
            hub,
            kinds: Mutex::default(),
        };
        pair.agents
            .set_faults(FAKE, "forbidden".parse::<Faults>().context("fault")?);
        let born = ("clusterversions.config.openshift.io", "", "version");
        assert!(pair.agents.delete_object(FAKE, born.0, born.1, born.2));
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "conf"}});
        for object in [namespace, widget_definition(), cluster_version()] {
            pair.place(&object).await?;
        }
        pair.allow("widgets", "example.com").await?;
        pair.spoke.start_agent(&AgentOptions::default()).await?;
        Ok(pair)
    }

    /// The cluster of the real agent.
    pub const fn spoke(&self) -> &Spoke {
        &self.spoke
    }

    /// The simulated agents.
    pub const fn agents(&self) -> &Agents {
        &self.agents
    }

    /// A work of a cluster.
    pub async fn work(&self, cluster: &str, name: &str) -> Result<Value> {
        Ok(self.list(cluster).await?.remove(name).unwrap_or_default())
    }

    /// Ends everything.
    pub async fn stop(self) -> Result<()> {
        self.agents.stop().await;
        self.spoke.stop().await?;
        self.hub.stop().await
    }

    /// Lets both agents write ClusterVersion.
    pub async fn grant(&self) -> Result<()> {
        assert!(self.agents.clear_fault(FAKE));
        self.allow("clusterversions", "config.openshift.io").await
    }

    /// A role for the agent of the spoke, as OCM means it: aggregated by label.
    async fn allow(&self, resource: &str, group: &str) -> Result<()> {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": format!("conf:{resource}"), "labels": {
                "open-cluster-management.io/aggregate-to-work": "true",
            }},
            "rules": [{"apiGroups": [group], "resources": [resource], "verbs": ["*"]}],
        });
        testenv::apply::apply_objects(self.spoke.client(), &[role]).await?;
        let user = format!(
            "system:serviceaccount:{}:{}",
            testenv::klusterlet::NAMESPACE,
            testenv::klusterlet::WORK_ACCOUNT
        );
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
            "spec": {"user": user, "resourceAttributes": {"verb": "patch", "group": group, "resource": resource}},
        });
        wait_until("the role is aggregated", WAIT_TIMEOUT, || async {
            let request = http::Request::post("/apis/authorization.k8s.io/v1/subjectaccessreviews")
                .header("content-type", "application/json")
                .body(review.to_string().into_bytes())?;
            let answer: Value = self.spoke.client().request(request).await?;
            Ok(answer["status"]["allowed"] == true)
        })
        .await
    }

    /// Plays cases step by step, all of them at the same time; returns what differed.
    pub async fn play(&self, cases: &[Case]) -> Result<Vec<String>> {
        let mut found = BTreeMap::new();
        let mut objects: BTreeMap<&str, BTreeSet<Object>> = BTreeMap::new();
        let mut works: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for case in cases {
            for object in &case.before {
                self.place(object).await.with_context(|| case.name)?;
                objects.entry(case.name).or_default().insert(identity(object));
            }
        }
        let rounds = cases
            .iter()
            .map(|case| case.steps.len())
            .max()
            .unwrap_or_default();
        for round in 0..rounds {
            for case in cases {
                let Some(step) = case.steps.get(round) else {
                    continue;
                };
                for object in step.objects() {
                    objects.entry(case.name).or_default().insert(identity(object));
                }
                works.entry(case.name).or_default().insert(case.work(step));
                self.step(case, step)
                    .await
                    .with_context(|| format!("{}, step {}", case.name, round + 1))?;
            }
            let differing = self.settle(&works, &objects).await?;
            for (name, difference) in differing {
                // A difference stays, and its first occurrence is the most useful one.
                found
                    .entry(name.clone())
                    .or_insert_with(|| format!("{name}, step {}:\n{difference}", round + 1));
            }
        }
        Ok(found.into_values().collect())
    }

    async fn step(&self, case: &Case, step: &Step) -> Result<()> {
        let work = case.work(step);
        match step {
            Step::Work(spec) | Step::Second(spec) => {
                for cluster in [REAL, FAKE] {
                    self.write_work(cluster, &work, spec).await?;
                }
            }
            Step::Touch => {
                let patch = json!({"metadata": {"labels": {"touched": "yes"}}});
                for cluster in [REAL, FAKE] {
                    self.works(cluster)
                        .patch(&work, &PatchParams::default(), &Patch::Merge(&patch))
                        .await?;
                }
            }
            Step::Delete => {
                for cluster in [REAL, FAKE] {
                    self.works(cluster)
                        .delete(&work, &DeleteParams::default())
                        .await?;
                }
            }
            Step::Place(object) => self.place(object).await?,
            Step::Remove(object) => self.remove(object).await?,
        }
        Ok(())
    }

    pub async fn write_work(&self, cluster: &str, name: &str, spec: &Value) -> Result<()> {
        let api = self.works(cluster);
        let mut work = DynamicObject::new(name, &works_resource()).within(cluster);
        work.data = json!({"spec": spec});
        // The agents write status and finalizers meanwhile.
        loop {
            let written = match api.get_opt(name).await? {
                Some(old) => {
                    let mut new = old.clone();
                    new.data["spec"] = spec.clone();
                    api.replace(name, &PostParams::default(), &new).await
                }
                None => api.create(&PostParams::default(), &work).await,
            };
            match written {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                written => return written.map(drop).context("work"),
            }
        }
    }

    /// Waits until both clusters report the same for a while; returns the remaining differences by case.
    async fn settle(
        &self,
        works: &BTreeMap<&str, BTreeSet<String>>,
        objects: &BTreeMap<&str, BTreeSet<Object>>,
    ) -> Result<BTreeMap<String, String>> {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        let mut agreed: Option<Instant> = None;
        loop {
            let differing = self.differences(works, objects).await?;
            let now = Instant::now();
            if differing.is_empty() {
                if now >= *agreed.get_or_insert(now) + QUIET {
                    return Ok(differing);
                }
            } else if now >= deadline {
                return Ok(differing);
            } else {
                agreed = None;
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }

    async fn differences(
        &self,
        works: &BTreeMap<&str, BTreeSet<String>>,
        objects: &BTreeMap<&str, BTreeSet<Object>>,
    ) -> Result<BTreeMap<String, String>> {
        let (real, fake) = (self.list(REAL).await?, self.list(FAKE).await?);
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (case, names) in works {
            for name in names {
                let (one, other) = (real.get(name), fake.get(name));
                let difference = match (one, other) {
                    (Some(one), Some(other))
                        if !compare::is_caught_up(one) || !compare::is_caught_up(other) =>
                    {
                        let (one, other) = (compare::status(one), compare::status(other));
                        Some(format!(
                            "  work {name} is not caught up\n    - {one}\n    + {other}"
                        ))
                    }
                    (Some(one), Some(other)) => {
                        compare::difference(&compare::status(one), &compare::status(other))
                    }
                    (None, None) => None,
                    (one, other) => Some(format!(
                        "  work {name} is there: {} | {}",
                        one.is_some(),
                        other.is_some()
                    )),
                };
                found.entry((*case).to_owned()).or_default().extend(difference);
            }
        }
        for (case, identities) in objects {
            for identity in identities {
                let (one, other) = (
                    self.real_object(identity).await?,
                    self.fake_object(identity).await?,
                );
                let (one, other) = (
                    one.map(|o| compare::object(&o)),
                    other.map(|o| compare::object(&o)),
                );
                let difference = compare::difference(&one.unwrap_or_default(), &other.unwrap_or_default());
                let (_, kind, _, name) = identity;
                let difference = difference.map(|text| format!("  {kind} {name}\n{text}"));
                found.entry((*case).to_owned()).or_default().extend(difference);
            }
        }
        found.retain(|_, lines| !lines.is_empty());
        Ok(found
            .into_iter()
            .map(|(case, lines)| (case, lines.join("\n")))
            .collect())
    }

    async fn list(&self, cluster: &str) -> Result<BTreeMap<String, Value>> {
        let list = self
            .works(cluster)
            .list(&kube::api::ListParams::default())
            .await?;
        list.into_iter()
            .map(|work| Ok((work.name_any(), serde_json::to_value(work)?)))
            .collect()
    }

    fn works(&self, cluster: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.hub.client().clone(), cluster, &works_resource())
    }

    /// Makes an object what it says on both clusters, with its status.
    async fn place(&self, object: &Value) -> Result<()> {
        self.agents
            .place(FAKE, "oc", object)
            .map_err(|error| anyhow!("fake: {error}"))?;
        let (api, name) = (self.api(&identity(object)).await?, name(object));
        let params = PostParams {
            field_manager: Some("oc".to_owned()),
            ..PostParams::default()
        };
        let mut wanted: DynamicObject = serde_json::from_value(object.clone())?;
        let written = match api.get_opt(name).await? {
            Some(old) => {
                wanted.metadata.resource_version = old.metadata.resource_version;
                api.replace(name, &params, &wanted).await?
            }
            None => api.create(&params, &wanted).await?,
        };
        if object.get("status").is_some() {
            wanted.metadata.resource_version = written.metadata.resource_version;
            api.replace_status(name, &params, &wanted)
                .await
                .with_context(|| format!("status of {name}"))?;
        }
        if object["kind"] == "CustomResourceDefinition" {
            testenv::apply::wait_established(self.spoke.client(), &[name]).await?;
        }
        Ok(())
    }

    async fn remove(&self, object: &Value) -> Result<()> {
        let identity = identity(object);
        let resource = self.kind(&identity).await?.0;
        let (_, _, namespace, name) = &identity;
        assert!(
            self.agents
                .delete_object(FAKE, &qualified(&resource), namespace, name)
        );
        self.api(&identity)
            .await?
            .delete(name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    async fn real_object(&self, identity: &Object) -> Result<Option<Value>> {
        // A kind that is not served has no objects.
        let Ok(api) = self.api(identity).await else {
            return Ok(None);
        };
        match api.get_opt(&identity.3).await {
            Ok(found) => Ok(found.map(serde_json::to_value).transpose()?),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn fake_object(&self, identity: &Object) -> Result<Option<Value>> {
        let Ok((resource, _)) = self.kind(identity).await else {
            return Ok(None);
        };
        let (_, _, namespace, name) = identity;
        Ok(self.agents.object(FAKE, &qualified(&resource), namespace, name))
    }

    async fn api(&self, identity: &Object) -> Result<Api<DynamicObject>> {
        let (resource, namespaced) = self.kind(identity).await?;
        let client: Client = self.spoke.client().clone();
        Ok(if namespaced {
            Api::namespaced_with(client, &identity.2, &resource)
        } else {
            Api::all_with(client, &resource)
        })
    }

    async fn kind(&self, identity: &Object) -> Result<(ApiResource, bool)> {
        let key = (identity.0.clone(), identity.1.clone());
        let known = self
            .kinds
            .lock()
            .map_err(|_| anyhow!("poisoned"))?
            .get(&key)
            .cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let (group, version) = identity.0.rsplit_once('/').unwrap_or(("", &identity.0));
        let kind = GroupVersionKind::gvk(group, version, &identity.1);
        let (resource, capabilities) = discovery::pinned_kind(self.spoke.client(), &kind).await?;
        let found = (resource, capabilities.scope == Scope::Namespaced);
        self.kinds
            .lock()
            .map_err(|_| anyhow!("poisoned"))?
            .insert(key, found.clone());
        Ok(found)
    }
}

fn works_resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(
        "work.open-cluster-management.io",
        "v1",
        "ManifestWork",
    ))
}

fn qualified(resource: &ApiResource) -> String {
    if resource.group.is_empty() {
        resource.plural.clone()
    } else {
        format!("{}.{}", resource.plural, resource.group)
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn identity(object: &Value) -> Object {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let meta = &object["metadata"];
    (
        text(&object["apiVersion"]),
        text(&object["kind"]),
        text(&meta["namespace"]),
        text(&meta["name"]),
    )
}

/// The object that every OpenShift cluster has, in the middle of nothing.
fn cluster_version() -> Value {
    let time = "2026-01-02T03:04:05Z";
    let condition = |kind: &str, status: &str, message: &str| json!({"type": kind, "status": status, "reason": kind, "message": message, "lastTransitionTime": time});
    json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
        "metadata": {"name": "version"},
        "spec": {
            "clusterID": "94e170c1-7a3c-4ae1-a85d-8bd904ad783f", "channel": "stable-4.11",
            "desiredUpdate": {"version": "4.11.9", "image": "quay.io/release@sha256:1", "force": true},
        },
        "status": {
            "desired": {"version": "4.11.9", "image": "quay.io/release@sha256:1"},
            "observedGeneration": 1, "versionHash": "x", "availableUpdates": null,
            "history": [
                {"state": "Completed", "startedTime": time, "completionTime": time, "version": "4.11.9", "image": "quay.io/release@sha256:1", "verified": true},
            ],
            "conditions": [
                condition("Available", "True", "Done applying 4.11.9"),
                condition("Progressing", "False", "Cluster version is 4.11.9"),
                condition("Failing", "False", ""),
            ],
        },
    })
}
