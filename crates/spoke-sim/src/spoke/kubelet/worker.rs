//! One pod from its binding to a machine until it is gone. The worker is the only writer of its status.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::context::Context;
use super::env::{self, Sources};
use super::process::{Process, Spec, tail};
use super::status::{Container, End, PodState, State, back_off, restarts};
use crate::fields::{self, Time};
use crate::seeded_rng::SeededRng;
use crate::work::wildcard;

/// Delay before another try to prepare a pod or to write.
const RETRY: Duration = Duration::from_secs(1);
/// Lifetime of a pod's token. It is longer than any run, because nothing renews the token.
const TOKEN_SECONDS: i64 = 24 * 3600;
/// Maximum length of a message from the output of a container, as in the kubelet.
const MESSAGE: usize = 2048;

/// Why a pod is ended before its containers end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It was deleted. Its object is removed when its processes have ended.
    Deleted,
    /// Its deadline has passed.
    Overdue,
    /// Its object is gone.
    Gone,
    /// The simulator stops. The object stays as it is.
    Shutdown,
}

/// Why a pod is ended, and the grace period of its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    pub why: Why,
    pub grace: Duration,
}

/// The channel that ends a pod.
pub(super) type Stop = watch::Sender<Option<Ending>>;

/// Runs one pod.
pub(super) struct Worker {
    pub context: Arc<Context>,
    pub pod: Value,
    pub stop: Stop,
}

enum Event {
    Waiting(&'static str, String),
    Started(Time),
    Ended(End),
}

struct Told {
    init: bool,
    index: usize,
    event: Event,
}

impl Worker {
    /// Runs the pod to its end, and removes it if it was deleted.
    pub async fn run(self) {
        let dir = self.context.dir.join(self.text(&["metadata", "uid"]));
        let mut state = self.first();
        let mut shown = self.pod["status"].clone();
        if let Some(prepared) = self.prepare(&dir, &mut state, &mut shown).await {
            self.play(&mut state, &mut shown, &prepared).await;
        }
        self.write(&state, &mut shown).await;
        if self.ends_by(Why::Deleted) {
            remove(&self.context, &self.pod).await;
        }
        let _ = tokio::fs::remove_dir_all(dir).await;
    }

    fn text(&self, path: &[&str]) -> &str {
        fields::text(&self.pod, path)
    }

    fn ends_by(&self, why: Why) -> bool {
        self.stop.borrow().is_some_and(|ending| ending.why == why)
    }

    fn started(&self) -> Time {
        fields::parse_timestamp(self.text(&["status", "startTime"])).unwrap_or_else(Utc::now)
    }

    fn deadline(&self) -> Option<Time> {
        let seconds = fields::integer(&self.pod, &["spec", "activeDeadlineSeconds"])?;
        Some(self.started() + TimeDelta::seconds(seconds))
    }

    /// The initial state. Containers that ran under an earlier simulator are lost, as after a crash of the machine.
    fn first(&self) -> PodState {
        let lost = self.text(&["status", "phase"]) == "Running";
        let new = |field: &str| -> Vec<Container> {
            let specs = fields::list(&self.pod, &["spec", field]);
            let waiting = if field == "containers" {
                "ContainerCreating"
            } else {
                "PodInitializing"
            };
            specs.iter().map(|spec| Container::new(spec, waiting)).collect()
        };
        let mut state = PodState {
            started: self.started(),
            init: new("initContainers"),
            main: new("containers"),
            ended: None,
        };
        if lost {
            let end = End {
                code: 137,
                reason: "ContainerStatusUnknown".to_owned(),
                message: "The container could not be located when the pod was terminated".to_owned(),
                started: state.started,
                finished: Utc::now(),
            };
            let again = restarts(self.text(&["spec", "restartPolicy"]), 137);
            for container in &mut state.main {
                if again {
                    container.last = Some(end.clone());
                    container.restarts = self.restarts_of(&container.name) + 1;
                } else {
                    container.state = State::Terminated(end.clone());
                }
            }
        }
        state
    }

    fn restarts_of(&self, name: &str) -> u32 {
        fields::list(&self.pod, &["status", "containerStatuses"])
            .iter()
            .find(|status| fields::text(status, &["name"]) == name)
            .and_then(|status| fields::integer(status, &["restartCount"]))
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(0)
    }

    /// Prepares directories, token and environment. `None` if the pod ended meanwhile.
    async fn prepare(&self, dir: &Path, state: &mut PodState, shown: &mut Value) -> Option<Prepared> {
        let mut stop = self.stop.subscribe();
        if state.phase() == "Failed" {
            return None;
        }
        self.write(state, shown).await;
        loop {
            let why = match self.try_prepare(dir).await {
                Ok(prepared) => return Some(prepared),
                Err(why) => why,
            };
            for container in state.main.iter_mut().chain(&mut state.init) {
                container.state = State::Waiting("CreateContainerConfigError".to_owned(), why.clone());
            }
            self.write(state, shown).await;
            tokio::select! {
                biased;
                _ = stop.wait_for(Option::is_some) => {
                    state.ended = Some((String::new(), String::new()));
                    return None;
                }
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }

    async fn try_prepare(&self, dir: &Path) -> Result<Prepared, String> {
        let namespace = self.text(&["metadata", "namespace"]);
        tokio::fs::create_dir_all(dir.join("root"))
            .await
            .map_err(|error| error.to_string())?;
        let kubeconfig = dir.join("kubeconfig");
        let account = match self.text(&["spec", "serviceAccountName"]) {
            "" => "default",
            name => name,
        };
        let token = self.token(namespace, account).await?;
        let text = self
            .context
            .access
            .kubeconfig(namespace, account, &token)
            .to_string();
        tokio::fs::write(&kubeconfig, text)
            .await
            .map_err(|error| error.to_string())?;
        let mut sources = Sources::default();
        for field in ["initContainers", "containers"] {
            for container in fields::list(&self.pod, &["spec", field]) {
                for (kind, name) in env::wanted(container) {
                    if let Some(data) = self.data(namespace, kind, &name).await? {
                        sources.0.insert((kind, name), data);
                    }
                }
            }
        }
        let list = |field: &str| -> Result<Vec<Launch>, String> {
            let specs = fields::list(&self.pod, &["spec", field]);
            specs
                .iter()
                .map(|container| self.launch(container, dir, &kubeconfig, &sources))
                .collect()
        };
        Ok(Prepared {
            init: list("initContainers")?,
            main: list("containers")?,
        })
    }

    async fn token(&self, namespace: &str, account: &str) -> Result<String, String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.context.client.clone(), namespace);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(TOKEN_SECONDS),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: Some(self.text(&["metadata", "name"]).to_owned()),
                    uid: Some(self.text(&["metadata", "uid"]).to_owned()),
                }),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(account, &PostParams::default(), &request)
            .await
            .map_err(|error| format!("failed to fetch token: {error}"))?;
        answer
            .status
            .map(|status| status.token)
            .ok_or_else(|| "failed to fetch token: the answer has none".to_owned())
    }

    async fn data(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Result<Option<BTreeMap<String, String>>, String> {
        let client = self.context.client.clone();
        if kind == "secrets" {
            let found = Api::<Secret>::namespaced(client, namespace).get_opt(name).await;
            let secret = found.map_err(|error| error.to_string())?;
            let decode = |bytes: k8s_openapi::ByteString| String::from_utf8_lossy(&bytes.0).into_owned();
            return Ok(secret.map(|secret| {
                let data = secret.data.unwrap_or_default();
                data.into_iter()
                    .map(|(key, value)| (key, decode(value)))
                    .collect()
            }));
        }
        let found = Api::<ConfigMap>::namespaced(client, namespace)
            .get_opt(name)
            .await;
        Ok(found
            .map_err(|error| error.to_string())?
            .map(|map| map.data.unwrap_or_default()))
    }

    fn launch(
        &self,
        container: &Value,
        dir: &Path,
        kubeconfig: &Path,
        sources: &Sources,
    ) -> Result<Launch, String> {
        let own = env::variables(&self.pod, container, sources)?;
        let argv = env::command(container, &own).unwrap_or_else(|| self.entry_point());
        let root = dir.join("root");
        let path = format!(
            "{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            self.context.bin.display()
        );
        let mut env = vec![
            ("PATH".to_owned(), path),
            ("HOME".to_owned(), root.display().to_string()),
            ("HOSTNAME".to_owned(), self.text(&["metadata", "name"]).to_owned()),
            ("KUBECONFIG".to_owned(), kubeconfig.display().to_string()),
        ];
        env.extend(own);
        let name = fields::text(container, &["name"]);
        Ok(Launch {
            spec: Spec {
                argv,
                env,
                dir: root,
                log: self.context.log(&self.pod, name),
            },
            message_from_output: fields::text(container, &["terminationMessagePolicy"])
                == "FallbackToLogsOnError",
        })
    }

    /// What a container without a command does by the scenario. By default servers run and all others succeed.
    fn entry_point(&self) -> Vec<String> {
        let job = self.text(&["metadata", "labels", "job-name"]);
        let name = if job.is_empty() {
            self.text(&["metadata", "name"])
        } else {
            job
        };
        let rule = self
            .context
            .images
            .iter()
            .find(|image| wildcard(&image.name, name));
        let draw = SeededRng::new(self.context.seed)
            .of(self.text(&["metadata", "uid"]))
            .unit()
            * 100.0;
        let script = match rule {
            Some(rule) => {
                let seconds = rule.duration.unwrap_or_default().as_secs_f64();
                let code = i32::from(draw < rule.fail_percent);
                format!("sleep {seconds:.3}; exit {code}")
            }
            None if matches!(self.text(&["spec", "restartPolicy"]), "Never" | "OnFailure") => {
                "exit 0".to_owned()
            }
            None => "exec sleep 2147483647".to_owned(),
        };
        ["/bin/sh", "-c", &script].map(str::to_owned).to_vec()
    }

    async fn play(&self, state: &mut PodState, shown: &mut Value, prepared: &Prepared) {
        for (index, launch) in prepared.init.iter().enumerate() {
            self.play_some(state, shown, true, &[(index, launch)]).await;
            if state.init[index].end().is_none_or(|end| end.code != 0) {
                return;
            }
        }
        let all: Vec<_> = prepared.main.iter().enumerate().collect();
        self.play_some(state, shown, false, &all).await;
    }

    /// Runs containers in parallel until all have ended for good.
    async fn play_some(
        &self,
        state: &mut PodState,
        shown: &mut Value,
        init: bool,
        launches: &[(usize, &Launch)],
    ) {
        let (tell, mut told) = mpsc::channel(16);
        let mut tasks = JoinSet::new();
        for (index, launch) in launches {
            let policy = match self.text(&["spec", "restartPolicy"]) {
                "Always" | "" if init => "OnFailure",
                policy => policy,
            };
            let known = if init {
                &state.init[*index]
            } else {
                &state.main[*index]
            };
            let run = Run {
                launch: (*launch).clone(),
                policy: policy.to_owned(),
                restarts: known.restarts,
                stop: self.stop.subscribe(),
                tell: tell.clone(),
                init,
                index: *index,
            };
            tasks.spawn(run.run());
        }
        drop(tell);
        let deadline = self.deadline();
        loop {
            let late = async {
                match deadline.filter(|_| self.stop.borrow().is_none()) {
                    Some(at) => tokio::time::sleep((at - Utc::now()).to_std().unwrap_or_default()).await,
                    None => std::future::pending().await,
                }
            };
            let first = tokio::select! {
                biased;
                first = told.recv() => first,
                () = late => {
                    let message = "Pod was active on the node longer than the specified deadline";
                    state.ended = Some(("DeadlineExceeded".to_owned(), message.to_owned()));
                    let grace = Duration::from_secs(self.grace());
                    self.stop.send_replace(Some(Ending { why: Why::Overdue, grace }));
                    continue;
                }
            };
            let Some(first) = first else { return };
            take(state, first);
            while let Ok(more) = told.try_recv() {
                take(state, more);
            }
            self.write(state, shown).await;
        }
    }

    fn grace(&self) -> u64 {
        fields::integer(&self.pod, &["spec", "terminationGracePeriodSeconds"])
            .unwrap_or(30)
            .unsigned_abs()
    }

    /// Tries to write the status until it is written, or the pod is gone or being deleted while the API server is unreachable.
    async fn write(&self, state: &PodState, shown: &mut Value) {
        let status = state.show(shown, Utc::now());
        if status == *shown || self.ends_by(Why::Gone) || self.ends_by(Why::Shutdown) {
            return;
        }
        let (namespace, name) = (
            self.text(&["metadata", "namespace"]),
            self.text(&["metadata", "name"]),
        );
        let pods: Api<Pod> = Api::namespaced(self.context.client.clone(), namespace);
        let patch = json!({"metadata": {"uid": self.text(&["metadata", "uid"])}, "status": status});
        for _ in 0..60 {
            if !*self.context.blackout.borrow() {
                match pods
                    .patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
                    .await
                {
                    Ok(_) => {
                        *shown = status;
                        return;
                    }
                    // The pod is gone, or another one has its name.
                    Err(kube::Error::Api(refusal)) if matches!(refusal.code, 404 | 409 | 422) => {
                        tracing::debug!(pod = name, message = %refusal.message, "the API server refused the status");
                        return;
                    }
                    Err(error) => tracing::debug!(pod = name, %error, "the status cannot be written"),
                }
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}

fn take(state: &mut PodState, told: Told) {
    let list = if told.init {
        &mut state.init
    } else {
        &mut state.main
    };
    let container = &mut list[told.index];
    match told.event {
        Event::Waiting(reason, message) => {
            if let State::Terminated(end) = &container.state {
                container.last = Some(end.clone());
            }
            container.restarts += 1;
            container.state = State::Waiting(reason.to_owned(), message);
        }
        Event::Started(at) => container.state = State::Running(at),
        Event::Ended(end) => container.state = State::Terminated(end),
    }
}

/// Removes a pod whose processes have ended.
pub(super) async fn remove(context: &Context, pod: &Value) {
    let (namespace, name) = (
        fields::text(pod, &["metadata", "namespace"]),
        fields::text(pod, &["metadata", "name"]),
    );
    let pods: Api<Pod> = Api::namespaced(context.client.clone(), namespace);
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions {
            uid: Some(fields::text(pod, &["metadata", "uid"]).to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    for _ in 0..60 {
        match pods.delete(name, &params).await {
            Ok(_) => return,
            Err(kube::Error::Api(refusal)) if matches!(refusal.code, 404 | 409) => return,
            Err(error) => tracing::debug!(pod = name, %error, "a pod cannot be removed"),
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// What is needed to start the containers.
struct Prepared {
    init: Vec<Launch>,
    main: Vec<Launch>,
}

#[derive(Clone)]
struct Launch {
    spec: Spec,
    message_from_output: bool,
}

/// One container with its restarts.
struct Run {
    launch: Launch,
    policy: String,
    restarts: u32,
    stop: watch::Receiver<Option<Ending>>,
    tell: mpsc::Sender<Told>,
    init: bool,
    index: usize,
}

impl Run {
    async fn run(mut self) {
        loop {
            let started = Utc::now();
            self.say(Event::Started(started)).await;
            let code = self.once().await;
            let reason = if code == 0 { "Completed" } else { "Error" };
            let output = tail(&self.launch.spec.log, MESSAGE);
            if code != 0 {
                tracing::info!(log = %self.launch.spec.log.display(), code, %output, "a container failed");
            }
            let told = self.launch.message_from_output && code != 0;
            let end = End {
                code,
                reason: reason.to_owned(),
                message: if told { output } else { String::new() },
                started,
                finished: Utc::now(),
            };
            self.say(Event::Ended(end)).await;
            if self.stop.borrow().is_some() || !restarts(&self.policy, code) {
                return;
            }
            let wait = back_off(self.restarts);
            self.restarts += 1;
            let message = format!("back-off {wait}s restarting failed container");
            self.say(Event::Waiting("CrashLoopBackOff", message)).await;
            tokio::select! {
                biased;
                _ = self.stop.wait_for(Option::is_some) => return,
                () = tokio::time::sleep(Duration::from_secs(wait)) => {}
            }
        }
    }

    async fn say(&self, event: Event) {
        let told = Told {
            init: self.init,
            index: self.index,
            event,
        };
        // Without a receiver the pod is gone.
        let _ = self.tell.send(told).await;
    }

    /// Runs the command once and returns its exit code.
    async fn once(&mut self) -> i32 {
        let mut process = match Process::start(&self.launch.spec) {
            Ok(process) => process,
            Err(error) => {
                tracing::warn!(%error, log = %self.launch.spec.log.display(), "a container cannot be started");
                return 128;
            }
        };
        let asked = tokio::select! {
            biased;
            code = process.wait() => return code.unwrap_or(137),
            ending = self.stop.wait_for(Option::is_some) => {
                ending.ok().and_then(|ending| *ending).map_or(Duration::ZERO, |ending| ending.grace)
            }
        };
        process.terminate().await;
        if let Ok(code) = tokio::time::timeout(asked, process.wait()).await {
            return code.unwrap_or(137);
        }
        process.kill();
        process.wait().await.unwrap_or(137)
    }
}
