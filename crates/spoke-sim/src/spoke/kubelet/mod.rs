//! The kubelet of all simulated machines. The commands of pods run as processes of this machine, with the pod's
//! `ServiceAccount` and with `oc` and `kubectl` on their PATH, and the status of the pod follows.
//!
//! There is no scheduler: the kubelet binds a pod without a machine to one that is not cordoned. Images are not pulled: a
//! container without a command does what the scenario says. Volumes are not mounted: the token is in the kubeconfig at
//! KUBECONFIG. Deadlines, grace periods and back-offs are wall-clock time, because those of the Job controller are.

mod context;
pub mod env;
pub mod process;
pub mod status;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, DynamicObject, PostParams};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

pub use self::context::{Access, Context};
use self::worker::{Ending, Stop, Why, Worker, remove};
use super::informer::Informer;
use super::kinds;
use crate::fields;
use crate::seeded_rng::SeededRng;

/// Grace period of the processes when the simulator stops.
const LAST_GRACE: Duration = Duration::from_secs(2);

/// The controller.
pub struct Kubelet {
    /// What all pods share.
    pub context: Arc<Context>,
    /// Pods.
    pub pods: Informer,
    /// Nodes.
    pub nodes: Informer,
    /// Notified by the informers.
    pub notify: Arc<Notify>,
}

#[derive(Default)]
struct Known {
    running: BTreeMap<String, Stop>,
    ended: BTreeSet<String>,
    bound: BTreeSet<String>,
}

impl Kubelet {
    /// Runs until it is stopped, and then ends all processes.
    pub async fn run(self, stop: CancellationToken) {
        let mut known = Known::default();
        let mut workers: JoinSet<String> = JoinSet::new();
        loop {
            self.pass(&mut known, &mut workers).await;
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = workers.join_next() => note(&mut known, ended),
                () = self.notify.notified() => {}
            }
        }
        // Their pods stay as they are. The next simulator treats them as lost, as after a crash of the machine.
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
        let present: BTreeSet<&str> = pods.iter().map(uid).collect();
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

    /// Binds a pod to a machine. Returns false if no machine fits.
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
            // Already bound, or gone.
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

/// A machine for a pod: not cordoned, with the requested labels, and a worker if there is one. The choice depends only on the
/// pod.
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
    let at = usize::try_from(SeededRng::new(0).of(uid(pod)).bits() % count).ok()?;
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
