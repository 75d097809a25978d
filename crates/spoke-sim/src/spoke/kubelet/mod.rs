//! The kubelet of every machine of the spoke: pods' own commands run as processes of this machine, with the pod's
//! `ServiceAccount`, `oc` and `kubectl` on their PATH, and the pod's status follows.
//!
//! There is no scheduler: a pod without a machine is bound to one that is not cordoned. Images are not pulled: a
//! container without a command does what the scenario says of it. Volumes are not mounted; the token is in the
//! kubeconfig that KUBECONFIG names. Deadlines, grace periods and back-offs are wall-clock time, since the Job
//! controller's are.

pub mod env;
pub mod process;
pub mod status;
mod worker;

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use kube::api::{Api, DynamicObject, PostParams};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use self::worker::{Ending, Stop, Why, Worker, log_name, remove};
use super::desk::Blackout;
use super::kinds;
use super::mirror::Mirror;
use super::setup::Image;
use crate::dice::Dice;
use crate::fields;

/// What a stopping simulator leaves the processes before it kills them.
const LAST_GRACE: Duration = Duration::from_secs(2);

/// How processes reach the API server.
#[derive(Clone, Debug)]
pub struct Access {
    server: String,
    authorities: String,
    insecure: bool,
    tls_server_name: Option<String>,
}

impl Access {
    /// As the simulator itself, but through `door` (`host:port`) if there is one.
    ///
    /// # Errors
    /// The file of the certificate authorities cannot be read.
    pub fn new(config: &Config, door: Option<&str>) -> io::Result<Self> {
        let mut pem = match &config.root_cert_file {
            Some(file) => std::fs::read_to_string(file)?,
            None => String::new(),
        };
        for certificate in config.root_cert.iter().flatten() {
            let body = base64::engine::general_purpose::STANDARD.encode(certificate);
            pem.push_str("-----BEGIN CERTIFICATE-----\n");
            for line in body.as_bytes().chunks(64) {
                pem.push_str(&String::from_utf8_lossy(line));
                pem.push('\n');
            }
            pem.push_str("-----END CERTIFICATE-----\n");
        }
        let host = config.cluster_url.host().unwrap_or("localhost").to_owned();
        let (server, tls_server_name) = match door {
            Some(door) => (format!("https://{door}"), Some(host)),
            None => (config.cluster_url.to_string(), None),
        };
        Ok(Self {
            server,
            authorities: base64::engine::general_purpose::STANDARD.encode(pem),
            insecure: config.accept_invalid_certs,
            tls_server_name: config.tls_server_name.clone().or(tls_server_name),
        })
    }

    /// A kubeconfig with a `ServiceAccount`'s token.
    #[must_use]
    pub fn kubeconfig(&self, namespace: &str, account: &str, token: &str) -> Value {
        let mut cluster = json!({"server": self.server});
        if self.insecure {
            cluster["insecure-skip-tls-verify"] = json!(true);
        } else {
            cluster["certificate-authority-data"] = json!(self.authorities);
        }
        if let Some(name) = &self.tls_server_name {
            cluster["tls-server-name"] = json!(name);
        }
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "pod",
            "clusters": [{"name": "spoke", "cluster": cluster}],
            "users": [{"name": account, "user": {"token": token}}],
            "contexts": [{"name": "pod", "context": {"cluster": "spoke", "user": account, "namespace": namespace}}],
        })
    }
}

/// What every pod shares.
pub struct Context {
    pub(super) client: Client,
    pub(super) access: Access,
    pub(super) dir: PathBuf,
    pub(super) bin: PathBuf,
    pub(super) images: Vec<Image>,
    pub(super) seed: u64,
    pub(super) blackout: Blackout,
}

impl Context {
    /// Makes the directory of all pods, with `oc` and `kubectl` in one that is first on their PATH.
    ///
    /// # Errors
    /// The directories or links cannot be made.
    pub fn new(
        client: Client,
        access: Access,
        dir: &Path,
        kubectl: Option<&Path>,
        images: Vec<Image>,
        seed: u64,
        blackout: Blackout,
    ) -> io::Result<Self> {
        let dir = std::path::absolute(dir)?;
        let bin = dir.join("bin");
        std::fs::create_dir_all(dir.join("logs"))?;
        std::fs::create_dir_all(&bin)?;
        if let Some(kubectl) = kubectl {
            let kubectl = std::path::absolute(kubectl)?;
            for name in ["oc", "kubectl"] {
                let link = bin.join(name);
                match std::fs::remove_file(&link) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => std::os::unix::fs::symlink(&kubectl, &link)?,
                }
            }
        }
        Ok(Self {
            client,
            access,
            dir,
            bin,
            images,
            seed,
            blackout,
        })
    }

    /// Where the output of a container goes.
    #[must_use]
    pub fn log(&self, pod: &Value, container: &str) -> PathBuf {
        self.dir.join("logs").join(log_name(pod, container))
    }
}

/// The controller.
pub struct Kubelet {
    /// What every pod shares.
    pub context: Arc<Context>,
    /// Pods.
    pub pods: Mirror,
    /// Nodes.
    pub nodes: Mirror,
    /// Rung by the mirrors.
    pub bell: Arc<Notify>,
}

#[derive(Default)]
struct Known {
    running: HashMap<String, Stop>,
    ended: HashSet<String>,
    bound: HashSet<String>,
}

impl Kubelet {
    /// Plays until stopped, and then ends all processes.
    pub async fn run(self, stop: CancellationToken) {
        let mut known = Known::default();
        let mut workers: JoinSet<String> = JoinSet::new();
        loop {
            self.pass(&mut known, &mut workers).await;
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.bell.notified() => {}
                Some(ended) = workers.join_next() => note(&mut known, ended),
            }
        }
        // Their pods stay as they are: the next simulator finds them lost, as after a crash of the machine.
        for stop in known.running.values() {
            tell(stop, Why::Shutdown, LAST_GRACE);
        }
        let all = async { while workers.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_GRACE * 2, all).await.is_err() {
            workers.shutdown().await;
        }
    }

    async fn pass(&self, known: &mut Known, workers: &mut JoinSet<String>) {
        let pods = self.pods.all();
        let present: HashSet<&str> = pods.iter().map(uid).collect();
        known.ended.retain(|uid| present.contains(uid.as_str()));
        known.bound.retain(|uid| present.contains(uid.as_str()));
        for (uid, stop) in &known.running {
            if !present.contains(uid.as_str()) {
                tell(stop, Why::Gone, Duration::ZERO);
            }
        }
        for pod in &pods {
            let uid = uid(pod).to_owned();
            let deleted = !fields::text(pod, &["metadata", "deletionTimestamp"]).is_empty();
            if fields::text(pod, &["spec", "nodeName"]).is_empty() {
                if !deleted && !known.bound.contains(&uid) && self.bind(pod).await {
                    known.bound.insert(uid);
                }
                continue;
            }
            if let Some(stop) = known.running.get(&uid) {
                if deleted {
                    let grace = fields::integer(pod, &["metadata", "deletionGracePeriodSeconds"]);
                    let grace = Duration::from_secs(grace.unwrap_or(30).unsigned_abs());
                    tell(stop, Why::Deleted, grace);
                }
                continue;
            }
            let over = matches!(fields::text(pod, &["status", "phase"]), "Succeeded" | "Failed");
            if deleted {
                remove(&self.context, pod).await;
            } else if !over && !known.ended.contains(&uid) {
                let (stop, _) = watch::channel(None);
                known.running.insert(uid.clone(), stop.clone());
                let worker = Worker {
                    context: Arc::clone(&self.context),
                    pod: pod.clone(),
                    stop,
                };
                workers.spawn(async move {
                    worker.run().await;
                    uid
                });
            }
        }
    }

    /// Binds a pod to a machine; false when none will have it.
    async fn bind(&self, pod: &Value) -> bool {
        if !fields::list(pod, &["spec", "schedulingGates"]).is_empty() {
            return false;
        }
        let nodes = self.nodes.all();
        let Some(node) = choose(pod, &nodes) else {
            return false;
        };
        let (namespace, name) = (
            fields::text(pod, &["metadata", "namespace"]),
            fields::text(pod, &["metadata", "name"]),
        );
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": uid(pod)},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let pods: Api<DynamicObject> =
            Api::namespaced_with(self.context.client.clone(), namespace, &kinds::pod());
        match pods
            .create_subresource::<Value, Value>("binding", name, &PostParams::default(), &binding)
            .await
        {
            Ok(_) => true,
            // Bound already, or gone.
            Err(kube::Error::Api(refusal)) if matches!(refusal.code, 404 | 409) => true,
            Err(error) => {
                tracing::debug!(pod = name, %error, "a pod cannot be bound");
                false
            }
        }
    }
}

fn tell(stop: &Stop, why: Why, grace: Duration) {
    let ending = Some(Ending { why, grace });
    stop.send_if_modified(|asked| std::mem::replace(asked, ending) != ending);
}

fn note(known: &mut Known, ended: Result<String, JoinError>) {
    match ended {
        Ok(uid) => {
            known.running.remove(&uid);
            known.ended.insert(uid);
        }
        Err(error) => tracing::error!(%error, "a pod's worker failed"),
    }
}

fn uid(pod: &Value) -> &str {
    fields::text(pod, &["metadata", "uid"])
}

/// A machine for a pod: not cordoned, with the labels it asks for, a worker if there is one; which of them depends
/// on the pod only.
fn choose(pod: &Value, nodes: &[Value]) -> Option<String> {
    let fits = |node: &&Value| {
        let cordoned = fields::get(node, &["spec", "unschedulable"]).and_then(Value::as_bool) == Some(true);
        let selector = fields::get(pod, &["spec", "nodeSelector"]).and_then(Value::as_object);
        let labels =
            |(key, value): (&String, &Value)| fields::get(node, &["metadata", "labels", key]) == Some(value);
        !cordoned && selector.is_none_or(|selector| selector.iter().all(labels))
    };
    let mut candidates: Vec<&Value> = nodes.iter().filter(fits).collect();
    let is_worker = |node: &&Value| {
        fields::get(node, &["metadata", "labels", "node-role.kubernetes.io/worker"]).is_some()
    };
    if candidates.iter().any(is_worker) {
        candidates.retain(is_worker);
    }
    let count = u64::try_from(candidates.len()).ok().filter(|count| *count > 0)?;
    let at = usize::try_from(Dice::new(0).of(uid(pod)).bits() % count).ok()?;
    Some(fields::text(candidates[at], &["metadata", "name"]).to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::choose;

    fn node(name: &str, role: &str, cordoned: bool) -> Value {
        let role = format!("node-role.kubernetes.io/{role}");
        json!({"metadata": {"name": name, "labels": {role: "", "zone": name}}, "spec": {"unschedulable": cordoned}})
    }

    #[test]
    fn pods_go_to_machines_that_will_have_them() {
        let pod = json!({"metadata": {"uid": "1"}, "spec": {}});
        let picky = json!({"metadata": {"uid": "1"}, "spec": {"nodeSelector": {"zone": "m"}}});
        let (m, w, c) = (
            node("m", "master", false),
            node("w", "worker", false),
            node("c", "worker", true),
        );
        for (pod, nodes, expected) in [
            (&pod, vec![m.clone(), w.clone(), c.clone()], Some("w")),
            (&pod, vec![m.clone(), c.clone()], Some("m")),
            (&pod, vec![c.clone()], None),
            (&pod, vec![], None),
            (&picky, vec![m, w], Some("m")),
        ] {
            assert_eq!(choose(pod, &nodes).as_deref(), expected);
        }
    }
}
