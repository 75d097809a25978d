//! A spoke with its API server, an update service and a Prometheus that answer what a test wants.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Query, State};
use axum::routing::get;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use spoke_sim::spoke::{Options, Spoke, kinds};
use testenv::assets::Tool;
use testenv::crds::{FeatureSet, olm_crds, openshift_crds};
use testenv::{Controllers, Hub};

const WAIT_TIMEOUT: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(50);

/// The payload of a version.
pub fn image(version: &str) -> String {
    format!(
        "quay.io/openshift-release-dev/ocp-release@sha256:{}",
        version.replace('.', "0")
    )
}

/// A graph in which every version leads to all later ones, those with risks conditionally.
pub fn graph(versions: &[&str], risks: &[(&str, Value)]) -> Value {
    let conditional = |to: &str| risks.iter().find(|(version, _)| *version == to);
    let nodes: Vec<Value> = versions
        .iter()
        .map(|version| json!({"version": version, "payload": image(version), "metadata": {"url": "https://example.com/errata"}}))
        .collect();
    let mut edges = Vec::new();
    let mut conditions = Vec::new();
    for (from, version) in versions.iter().enumerate() {
        for (to, target) in versions.iter().enumerate().skip(from + 1) {
            match conditional(target) {
                Some((_, risk)) => {
                    conditions.push(json!({"edges": [{"from": version, "to": target}], "risks": [risk]}));
                }
                None => edges.push(json!([from, to])),
            }
        }
    }
    json!({"nodes": nodes, "edges": edges, "conditionalEdges": conditions})
}

/// A risk with one query; the query `exposed` gives 1, every other one 0.
pub fn one_risk(name: &str, message: &str, query: &str) -> Value {
    json!({"name": name, "message": message, "url": format!("https://example.com/{name}"),
           "matchingRules": [{"type": "PromQL", "promql": {"promql": query}}]})
}

pub struct World {
    hub: Hub,
    fetches: Arc<AtomicUsize>,
    spoke: Option<Spoke>,
    options: Options,
    _dir: tempfile::TempDir,
}

impl World {
    pub async fn new(scenario: &str, speed: f64, graph: Value) -> Self {
        Self::with(FeatureSet::Default, scenario, speed, graph).await
    }

    pub async fn with(features: FeatureSet, scenario: &str, speed: f64, graph: Value) -> Self {
        let mut world = Self::empty(features, scenario, speed, graph).await;
        world.play().await;
        world
    }

    /// An API server without a simulator.
    pub async fn without_spoke() -> Self {
        Self::empty(FeatureSet::Default, "", 1.0, Value::Null).await
    }

    /// Starts the program on this API server.
    pub fn program(&self, args: &[&str]) -> Program {
        let child = Command::new(env!("CARGO_BIN_EXE_spoke-sim"))
            .args(["cluster", "--kubeconfig"])
            .arg(self.hub.kubeconfig_path())
            .arg("--dir")
            .arg(&self.options.dir)
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Program(child.unwrap())
    }

    async fn empty(features: FeatureSet, scenario: &str, speed: f64, graph: Value) -> Self {
        let hub = Hub::builder()
            .controller_manager(Controllers::standard())
            .start()
            .await
            .unwrap();
        let mut crds = openshift_crds(features).await.unwrap();
        crds.extend(olm_crds().await.unwrap());
        testenv::apply::apply_objects(hub.client(), &crds).await.unwrap();
        let fetches = Arc::new(AtomicUsize::new(0));
        let answers = serve(graph, Arc::clone(&fetches)).await;
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::new(scenario.parse().unwrap(), speed, dir.path().to_path_buf());
        options.setup.image = image(&options.setup.version);
        options.update_service = Some(format!("http://{answers}/graph"));
        options.prometheus = Some(format!("http://{answers}"));
        options.listen = Some(([127, 0, 0, 1], 0).into());
        options.tcp_proxy = Some(([127, 0, 0, 1], 0).into());
        options.kubectl = Some(hub.assets().path(Tool::Kubectl).clone());
        Self {
            hub,
            fetches,
            spoke: None,
            options,
            _dir: dir,
        }
    }

    async fn play(&mut self) {
        let config = self.hub.kubeconfig().config().await.unwrap();
        let spoke = Spoke::start(config, self.options.clone()).await.unwrap();
        tokio::time::timeout(WAIT_TIMEOUT, spoke.ready()).await.unwrap();
        self.spoke = Some(spoke);
    }

    pub async fn restart(&mut self) {
        if let Some(spoke) = self.spoke.take() {
            spoke.stop().await;
        }
        self.play().await;
    }

    pub async fn stop(mut self) {
        if let Some(spoke) = self.spoke.take() {
            spoke.stop().await;
        }
        self.hub.stop().await.unwrap();
    }

    pub fn client(&self) -> Client {
        self.hub.client().clone()
    }

    pub fn api(&self, resource: &ApiResource, namespace: &str) -> Api<DynamicObject> {
        if namespace.is_empty() {
            Api::all_with(self.client(), resource)
        } else {
            Api::namespaced_with(self.client(), namespace, resource)
        }
    }

    pub async fn list(&self, resource: &ApiResource) -> Vec<Value> {
        let list = self.api(resource, "").list(&ListParams::default()).await.unwrap();
        list.iter()
            .map(|object| serde_json::to_value(object).unwrap())
            .collect()
    }

    pub async fn version(&self) -> Value {
        let version = self
            .api(&kinds::cluster_version(), "")
            .get("version")
            .await
            .unwrap();
        serde_json::to_value(version).unwrap()
    }

    pub async fn patch_version(&self, patch: &Value) {
        self.api(&kinds::cluster_version(), "")
            .patch("version", &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    pub async fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        self.until_object(what, &kinds::cluster_version(), "", "version", holds)
            .await
    }

    /// Waits until the requested release is refused.
    pub async fn until_refused(&self) -> Value {
        self.until("it is refused", |v| {
            condition(v, "ReleaseAccepted")["status"] == "False"
        })
        .await
    }

    pub async fn until_object(
        &self,
        what: &str,
        resource: &ApiResource,
        namespace: &str,
        name: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let api = self.api(resource, namespace);
        poll(what, async || {
            let found = api.get_opt(name).await.unwrap();
            let value = serde_json::to_value(found).unwrap();
            if !value.is_null() && holds(&value) {
                Ok(value)
            } else {
                Err(value)
            }
        })
        .await
    }

    pub async fn until_all(&self, what: &str, resource: &ApiResource, holds: impl Fn(&Value) -> bool) {
        poll(what, async || {
            let all = self.list(resource).await;
            if all.iter().all(&holds) {
                Ok(Value::Null)
            } else {
                Err(json!(all))
            }
        })
        .await;
    }

    pub async fn delete_map(&self, namespace: &str, name: &str) {
        let api = self.api(&kinds::config_map(), namespace);
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn until_map(&self, namespace: &str, name: &str) -> Value {
        self.until_object("it is back", &kinds::config_map(), namespace, name, |_| true)
            .await
    }

    pub async fn patch_map(&self, namespace: &str, name: &str, patch: &Value) {
        self.api(&kinds::config_map(), namespace)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    pub async fn until_job(&self, name: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let jobs: Api<k8s_openapi::api::batch::v1::Job> = Api::namespaced(self.client(), "default");
        poll(name, async || {
            let job = jobs.get(name).await.unwrap();
            let status = serde_json::to_value(job.status).unwrap();
            if holds(&status) { Ok(status) } else { Err(status) }
        })
        .await
    }

    pub async fn until_no_pod(&self, job: &str) {
        let pods: Api<Pod> = Api::namespaced(self.client(), "default");
        let params = ListParams::default().labels(&format!("job-name={job}"));
        poll("no pod", async || {
            let left = pods.list(&params).await.unwrap().items.len();
            if left == 0 {
                Ok(Value::Null)
            } else {
                Err(json!(left))
            }
        })
        .await;
    }

    pub async fn until_log(&self, job: &str, text: &str) {
        let logs: PathBuf = self.options.dir.join("logs");
        poll("output", async || {
            let files = std::fs::read_dir(&logs).unwrap().filter_map(Result::ok);
            let mut own = files.filter(|file| {
                file.file_name()
                    .to_string_lossy()
                    .starts_with(&format!("default_{job}-"))
            });
            let told = own.any(|file| {
                std::fs::read_to_string(file.path())
                    .unwrap_or_default()
                    .contains(text)
            });
            if told { Ok(Value::Null) } else { Err(Value::Null) }
        })
        .await;
    }

    /// The first line that a Job's pod printed.
    pub async fn until_first_line(&self, job: &str) -> String {
        let logs = self.options.dir.join("logs");
        let line = poll("output", async || {
            let files = std::fs::read_dir(&logs)
                .into_iter()
                .flatten()
                .filter_map(Result::ok);
            let own = files.map(|file| file.path()).find(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with(&format!("default_{job}-"))
            });
            let text = own.map(|path| std::fs::read_to_string(path).unwrap_or_default());
            let text = text.unwrap_or_default();
            text.split_once('\n')
                .map(|(line, _)| json!(line))
                .ok_or(json!(text))
        })
        .await;
        line.as_str().unwrap().to_owned()
    }

    /// Resource versions of all that the spoke writes.
    pub async fn revisions(&self) -> Vec<String> {
        let mut revisions = Vec::new();
        for resource in [
            kinds::cluster_version(),
            kinds::cluster_operator(),
            kinds::machine_config_pool(),
            kinds::node(),
        ] {
            for object in self.list(&resource).await {
                let of = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
                revisions.push(format!(
                    "{} {} {}",
                    resource.kind,
                    of("name"),
                    of("resourceVersion")
                ));
            }
        }
        revisions
    }

    /// Waits until the graph was fetched `more` times from now on.
    pub async fn until_fetched(&self, more: usize) {
        let wanted = self.fetches.load(Ordering::Relaxed) + more;
        poll("fetches", async || {
            let count = self.fetches.load(Ordering::Relaxed);
            if count >= wanted {
                Ok(Value::Null)
            } else {
                Err(json!(count))
            }
        })
        .await;
    }

    pub async fn fault(&self, fault: Option<&str>) {
        self.patch_version(&json!({"metadata": {"annotations": {"spoke-sim.mcu/fault": fault}}}))
            .await;
    }

    pub async fn metrics(&self) -> String {
        let address = self.spoke.as_ref().unwrap().metrics_address().unwrap();
        reqwest::get(format!("http://{address}/metrics"))
            .await
            .unwrap()
            .text()
            .await
            .unwrap()
    }

    pub async fn reaches_proxy(&self) -> bool {
        let proxy = self.spoke.as_ref().unwrap().proxy_address().unwrap();
        let mut config = self.hub.kubeconfig().config().await.unwrap();
        config.cluster_url = format!("https://{proxy}").parse().unwrap();
        let client = Client::try_from(config).unwrap();
        let version: Api<DynamicObject> = Api::all_with(client, &kinds::cluster_version());
        tokio::time::timeout(Duration::from_secs(2), version.get("version"))
            .await
            .is_ok_and(|got| got.is_ok())
    }

    /// The revisions that the ClusterVersion has until the TCP proxy opens again.
    pub async fn versions_while_proxy_is_closed(&self) -> BTreeSet<String> {
        let mut versions = BTreeSet::new();
        loop {
            let version = self.version().await["metadata"]["resourceVersion"].to_string();
            if self.reaches_proxy().await {
                return versions;
            }
            versions.insert(version);
            tokio::time::sleep(POLL).await;
        }
    }

    pub async fn until_proxy(&self, open: bool) {
        poll("the TCP proxy", async || {
            if self.reaches_proxy().await == open {
                Ok(Value::Null)
            } else {
                Err(json!(open))
            }
        })
        .await;
    }
}

async fn poll(what: &str, ask: impl AsyncFn() -> Result<Value, Value>) -> Value {
    let mut last = Value::Null;
    let wait = async {
        loop {
            match ask().await {
                Ok(found) => return found,
                Err(other) => last = other,
            }
            tokio::time::sleep(POLL).await;
        }
    };
    let found = tokio::time::timeout(WAIT_TIMEOUT, wait).await;
    found.unwrap_or_else(|_| panic!("never: {what}; it is {last:#}"))
}

/// Whether a process runs.
pub fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// A running program; it does not outlive the test.
pub struct Program(Child);

impl Program {
    /// Asks it to end and waits for that.
    pub async fn terminate(mut self) -> ExitStatus {
        let killed = Command::new("kill")
            .arg(self.0.id().to_string())
            .status()
            .unwrap();
        assert!(killed.success());
        let wait = async {
            loop {
                if let Some(status) = self.0.try_wait().unwrap() {
                    return status;
                }
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(WAIT_TIMEOUT, wait).await.expect("it ends")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A condition of an object's status.
pub fn condition(object: &Value, kind: &str) -> Value {
    condition_of(&object["status"], kind)
}

/// The condition of a status, or of whatever has conditions.
pub fn condition_of(owner: &Value, kind: &str) -> Value {
    let conditions = owner["conditions"].as_array();
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind);
    found.cloned().unwrap_or_default()
}

/// A `ServiceAccount` with rights on one resource.
pub async fn install_role(
    client: &Client,
    namespace: &str,
    name: &str,
    group: &str,
    resource: &str,
    verbs: &[&str],
) {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let account = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let role = json!({"metadata": {"name": name}, "rules": [{"apiGroups": [group], "resources": [resource], "verbs": verbs}]});
    roles
        .create(&PostParams::default(), &serde_json::from_value(role).unwrap())
        .await
        .unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let binding = json!({
        "metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    });
    bindings
        .create(&PostParams::default(), &serde_json::from_value(binding).unwrap())
        .await
        .unwrap();
}

#[derive(serde::Deserialize)]
struct Asked {
    query: String,
}

async fn serve(graph: Value, fetches: Arc<AtomicUsize>) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let query = async |Query(asked): Query<Asked>| {
        let value = if asked.query == "exposed" { "1" } else { "0" };
        axum::Json(json!({"status": "success", "data": {"resultType": "vector",
                          "result": [{"metric": {}, "value": [0, value]}]}}))
    };
    let serve_graph = async |State((graph, fetches)): State<(Arc<Value>, Arc<AtomicUsize>)>| {
        fetches.fetch_add(1, Ordering::Relaxed);
        axum::Json(graph.as_ref().clone())
    };
    let router = Router::new()
        .route("/graph", get(serve_graph))
        .route("/api/v1/query", get(query))
        .route(
            "/api/v1/alerts",
            get(async || axum::Json(json!({"status": "success", "data": {"alerts": []}}))),
        )
        .with_state((Arc::new(graph), fetches));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}
