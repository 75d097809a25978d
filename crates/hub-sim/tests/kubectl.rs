//! kubectl against the program `hub-sim serve`: what people type.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use testenv::assets::ToolCache;
use testenv::{Assets, Tool};

struct HubSim {
    process: Child,
    kubeconfig: PathBuf,
    kubectl: PathBuf,
    _dir: tempfile::TempDir,
}

impl Drop for HubSim {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl HubSim {
    async fn start() -> Self {
        let cache = ToolCache::from_env().unwrap();
        let assets = Assets::locate_or_build_in(&cache, &[Tool::Kubectl], &|_| {})
            .await
            .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = dir.path().join("kubeconfig");
        let mut process = Command::new(env!("CARGO_BIN_EXE_hub-sim"))
            .args(["serve", "--kubeconfig"])
            .arg(&kubeconfig)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.starts_with("hub-sim serves http://127.0.0.1:"), "{line}");
        Self {
            process,
            kubeconfig,
            kubectl: assets.path(Tool::Kubectl).clone(),
            _dir: dir,
        }
    }

    fn command(&self, args: &str) -> Command {
        let mut command = Command::new(&self.kubectl);
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .env_remove("KUBECONFIG");
        command.env("HOME", self.kubeconfig.parent().unwrap());
        command.args(args.split_whitespace());
        command
    }

    /// Runs kubectl with arguments and standard input. Returns whether it succeeded, and what it said.
    fn try_with(&self, args: &str, input: &str) -> (bool, String) {
        let mut command = self.command(args);
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        process.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = process.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (output.status.success(), said)
    }

    fn with(&self, args: &str, input: &str) -> String {
        let (ok, said) = self.try_with(args, input);
        assert!(ok, "kubectl {args}: {said}");
        said
    }

    fn run(&self, args: &str) -> String {
        self.with(args, "")
    }
}

const CLUSTER: &str = "
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: c1, labels: {region: eu}}
spec: {hubAcceptsClient: true}
";

const UPGRADE: &str = "
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: ManagedClustersUpgrade
metadata: {name: u1, namespace: ops}
spec: {clusterVersion: {version: 4.15.3}}
";

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_creates_reads_changes_and_deletes() {
    let hub = HubSim::start().await;
    assert!(hub.run("create namespace ops").contains("namespace/ops created"));
    for command in [
        "create configmap settings -n ops --from-literal=a=1",
        "create secret generic token -n ops --from-literal=a=1",
        "create serviceaccount robot -n ops",
    ] {
        assert!(hub.run(command).contains("created"), "{command}");
    }
    assert_eq!(hub.run("get secret token -n ops -o jsonpath={.data.a}"), "MQ==");
    assert_eq!(
        hub.run("get configmap settings -n ops -o jsonpath={.data.a}"),
        "1"
    );

    assert!(
        hub.with("apply -f -", CLUSTER)
            .contains("managedcluster.cluster.open-cluster-management.io/c1 created")
    );
    assert!(hub.with("apply -f -", CLUSTER).contains("unchanged"));
    let changed = CLUSTER.replace("eu", "us");
    assert!(hub.with("apply -f -", &changed).contains("configured"));
    assert!(
        hub.with("apply --server-side -f -", UPGRADE)
            .contains("serverside-applied")
    );
    assert!(
        hub.with("apply --server-side -f -", &changed)
            .contains("serverside-applied")
    );
    let table = hub.run("get managedclusters");
    let title: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    let cluster_urls = ["MANAGED", "CLUSTER", "URLS"];
    let columns = [
        &["NAME", "HUB", "ACCEPTED"][..],
        &cluster_urls,
        &["JOINED", "AVAILABLE", "AGE"],
    ];
    assert_eq!(title, columns.concat());
    assert!(
        table.lines().nth(1).unwrap().starts_with("c1     true"),
        "{table}"
    );
    assert!(hub.run("get mcl c1 -o yaml").contains("region: us"));
    assert!(hub.run("get managedclustersupgrades -A").contains("u1"));

    assert!(hub.run("label managedcluster c1 tier=1").contains("labeled"));
    assert!(hub.run("get mcl -l tier=1,region=us").contains("c1"));
    assert!(hub.run("get mcl -l tier=2").contains("No resources found"));
    assert!(hub.run("annotate managedcluster c1 note=x").contains("annotated"));
    let patch = r#"patch managedcluster c1 --type=merge -p {"spec":{"leaseDurationSeconds":30}}"#;
    assert!(hub.run(patch).contains("patched"));
    let object = hub.run("get mcl c1 -o yaml");
    assert!(
        hub.with(
            "replace -f -",
            &object.replace("leaseDurationSeconds: 30", "leaseDurationSeconds: 90")
        )
        .contains("replaced")
    );
    let (ok, said) = hub.try_with("replace -f -", &object);
    assert!(!ok && said.contains("the object has been modified"), "{said}");

    let (ok, said) = hub.try_with("apply -f -", &UPGRADE.replace("4.15.3", "four"));
    assert!(!ok && said.contains("is invalid"), "{said}");
    let (ok, said) = hub.try_with("apply -f -", &UPGRADE.replace("spec: {", "spec: {color: red, "));
    assert!(!ok && said.contains("unknown field \"spec.color\""), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_watches_waits_and_describes() {
    let hub = HubSim::start().await;
    hub.run("create namespace ops");
    hub.with("apply -f -", CLUSTER);
    let mut watch = hub
        .command("get mcl -w --no-headers")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("c1"));
    let mut wait = hub
        .command("wait managedcluster c1 --for=condition=ManagedClusterJoined --timeout=60s")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let joined = r#"{"status":{"conditions":[{"type":"ManagedClusterJoined","status":"True","reason":"Joined","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;
    hub.run(&format!(
        "patch managedcluster c1 --subresource=status --type=merge -p {joined}"
    ));
    assert!(wait.wait().unwrap().success());
    assert!(lines.next().unwrap().unwrap().contains("True"));
    watch.kill().unwrap();
    watch.wait().unwrap();

    let event = "
apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: e1, namespace: ops}
regarding: {apiVersion: v1, kind: Namespace, name: ops, namespace: ops}
eventTime: 2026-01-01T00:00:00.000000Z
type: Normal
reason: Started
action: Start
note: it has begun
reportingController: example.com/c
reportingInstance: c-1
";
    hub.with("create -f -", event);
    assert!(hub.run("get events -n ops").contains("e1"));
    assert!(
        hub.run("get events -n ops -o yaml")
            .contains("message: it has begun")
    );
    assert!(hub.run("events -n ops").contains("it has begun"));
    let resources = hub.run("api-resources");
    for name in ["managedclustersupgrades", "manifestworks", "configmaps", "leases"] {
        assert!(resources.contains(name), "{name}: {resources}");
    }
    assert!(hub.run("version").contains("Server Version: v1.35"));
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_explains_asks_and_names_what_is_not_served() {
    let hub = HubSim::start().await;
    let explained = hub.run("explain managedclustersupgrade.spec.clusterVersion");
    assert!(
        explained.contains("FIELD: clusterVersion") && explained.contains("version"),
        "{explained}"
    );
    for kind in [
        "managedcluster.spec",
        "configmap.data",
        "lease.spec",
        "events",
        "namespaces",
    ] {
        assert!(hub.run(&format!("explain {kind}")).contains("KIND:"), "{kind}");
    }
    assert_eq!(hub.run("auth can-i create managedclustersupgrades").trim(), "yes");
    assert!(hub.run("auth can-i --list").contains('*'));
    assert!(hub.run("auth whoami").contains("system:admin"));
    let pod = "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}}";
    for command in ["apply -f -", "create -f -", "apply --server-side -f -"] {
        let (ok, said) = hub.try_with(command, pod);
        assert!(
            !ok && said.contains("no matches for kind \"Widget\" in version \"example.com/v1\""),
            "{said}"
        );
    }
    let event = "
apiVersion: v1
kind: Event
metadata: {name: e1, namespace: default}
involvedObject: {apiVersion: v1, kind: Namespace, name: default, namespace: default}
eventTime: 2026-01-01T00:00:00.000000Z
type: Normal
reason: Started
action: Start
message: it has begun
reportingComponent: example.com/c
reportingInstance: c-1
";
    assert!(hub.with("apply -f -", event).contains("created"));
    let selected = hub.run("get events --field-selector involvedObject.name=default,reason=Started");
    assert!(selected.contains("e1"), "{selected}");
    let (ok, said) = hub.try_with("delete namespace default", "");
    assert!(
        !ok && said.contains("this namespace may not be deleted"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_deletes_a_namespace_with_its_content() {
    let hub = HubSim::start().await;
    hub.run("create namespace ops");
    hub.run("create configmap settings -n ops --from-literal=a=1");
    hub.with("apply -f -", UPGRADE);
    assert!(
        hub.run("delete managedclustersupgrade u1 -n ops")
            .contains("deleted")
    );
    let held = "{apiVersion: v1, kind: ConfigMap, metadata: {name: held, namespace: ops, finalizers: [example.com/hold]}}";
    hub.with("create -f -", held);
    hub.run("delete namespace ops --wait=false");
    let (ok, said) = hub.try_with("create configmap late -n ops", "");
    assert!(!ok && said.contains("because it is being terminated"), "{said}");
    assert!(hub.run("get namespace ops").contains("Terminating"));
    hub.run(r#"patch configmap held -n ops --type=merge -p {"metadata":{"finalizers":null}}"#);
    hub.run("wait namespace ops --for=delete --timeout=60s");
    let (ok, said) = hub.try_with("get namespace ops", "");
    assert!(!ok && said.contains("namespaces \"ops\" not found"), "{said}");
}
