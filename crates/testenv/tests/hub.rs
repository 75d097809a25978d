//! Against real binaries: a hub starts, OCM decides, Kubernetes collects, and nothing outlives its parent.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;
use testenv::fleet::{self, ClusterSpec, FleetSpec};
use testenv::hub::wait_until;
use testenv::placement::{self, DecisionGroup, PlacementSpec};
use testenv::{Controllers, Hub, crds};
use tokio::io::{AsyncBufReadExt as _, BufReader};

const WAIT_TIMEOUT: Duration = Duration::from_mins(1);
/// Set in a child process of this test: start a hub and wait to be killed.
const VICTIM: &str = "TESTENV_VICTIM";

fn object<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> Result<T> {
    Ok(serde_json::from_value(value)?)
}

fn alive(pid: u32) -> bool {
    // A zombie has ended, too; its parent has not reaped it yet.
    std::process::Command::new("ps")
        .args(["-o", "stat=", "-p", &pid.to_string()])
        .output()
        .is_ok_and(|output| output.stdout.first().is_some_and(|&state| state != b'Z'))
}

#[tokio::test]
async fn a_real_placement_is_decided_and_follows_the_labels() -> Result<()> {
    let hub = Hub::builder()
        .controller_manager(Controllers::collectors())
        .placement()
        .start()
        .await?;
    let client = hub.client();
    let fleet = FleetSpec::numbered("spoke", 12)
        .in_set("fleet")
        .bound_in("default");
    fleet::create(client, &fleet).await?;
    fleet::create(client, &fleet).await.context("a second time")?;

    placement::write(client, "default", "all", &PlacementSpec::of_sets(&["fleet"])).await?;
    placement::wait_decided(client, "default", "all", 12, WAIT_TIMEOUT).await?;

    let wave = PlacementSpec::of_sets(&["fleet"]).matching("wave", "1");
    placement::write(client, "default", "wave", &wave).await?;
    fleet::set_labels(client, "spoke-0003", &[("wave", Some("1"))]).await?;
    placement::wait_decided(client, "default", "wave", 1, WAIT_TIMEOUT).await?;
    let chosen = placement::decided(client, "default", "wave").await?;
    assert_eq!(chosen, BTreeSet::from(["spoke-0003".to_owned()]));
    hub.stop().await
}

#[tokio::test]
async fn decisions_written_by_hand_stand_beside_the_placement_controller() -> Result<()> {
    let hub = Hub::builder().placement().start().await?;
    let client = hub.client();
    let fleet = FleetSpec::numbered("spoke", 3)
        .in_set("fleet")
        .bound_in("default");
    fleet::create(client, &fleet).await?;

    let names = |from: usize, to: usize| (from..to).map(|n| format!("far-{n:04}")).collect::<Vec<_>>();
    let groups = [
        DecisionGroup {
            name: "canary".into(),
            clusters: names(0, 5),
        },
        DecisionGroup {
            name: String::new(),
            clusters: names(5, 250),
        },
    ];
    placement::write_decided(client, "default", "hand", &groups).await?;
    assert_eq!(placement::decided(client, "default", "hand").await?.len(), 250);
    placement::write_decided_flat(client, "default", "hand", &names(0, 2)).await?;
    assert_eq!(placement::decided(client, "default", "hand").await?.len(), 2);

    // The controller has worked since: another placement is decided, and the decisions of the test are unchanged.
    placement::write(client, "default", "real", &PlacementSpec::of_sets(&["fleet"])).await?;
    placement::wait_decided(client, "default", "real", 3, WAIT_TIMEOUT).await?;
    assert_eq!(placement::decided(client, "default", "hand").await?.len(), 2);
    hub.stop().await
}

#[tokio::test]
async fn a_namespace_deletes_and_owned_objects_are_collected() -> Result<()> {
    let hub = Hub::builder()
        .controller_manager(Controllers::standard())
        .start()
        .await?;
    let client = hub.client();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let params = PostParams::default();
    namespaces
        .create(&params, &object(json!({"metadata": {"name": "gone"}}))?)
        .await?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "gone");
    maps.create(&params, &object(json!({"metadata": {"name": "in-it"}}))?)
        .await?;
    namespaces.delete("gone", &DeleteParams::default()).await?;
    wait_until("the namespace is gone", WAIT_TIMEOUT, || async {
        Ok(namespaces.get_opt("gone").await?.is_none())
    })
    .await?;

    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let owner = maps
        .create(&params, &object(json!({"metadata": {"name": "owner"}}))?)
        .await?;
    let reference = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid,
    }]);
    let dependent = json!({"metadata": {"name": "owned", "ownerReferences": reference}});
    maps.create(&params, &object(dependent)?).await?;
    maps.delete("owner", &DeleteParams::default()).await?;
    wait_until("the owned object is collected", WAIT_TIMEOUT, || async {
        Ok(maps.get_opt("owned").await?.is_none())
    })
    .await?;
    hub.stop().await
}

#[tokio::test]
async fn users_get_what_rbac_gives_them_and_every_request_is_audited() -> Result<()> {
    let hub = Hub::builder().audit().user("alice", &["dev"]).start().await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(hub.client().clone(), "default");
    accounts
        .create(
            &PostParams::default(),
            &object(json!({"metadata": {"name": "robot"}}))?,
        )
        .await?;
    let role = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: look}
rules: [{apiGroups: [''], resources: [configmaps], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: look}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: look}
subjects:
- {kind: ServiceAccount, name: robot, namespace: default}
- {kind: Group, apiGroup: rbac.authorization.k8s.io, name: dev}
";
    testenv::apply::apply_yaml(hub.client(), role).await?;
    let alice = hub
        .kubeconfig_for_user("alice")
        .context("a user given to the builder")?;
    let clients = [
        hub.service_account_kubeconfig("default", "robot")
            .await?
            .client()
            .await?,
        alice.client().await?,
        hub.client_as("bob", &["dev"]).await?,
    ];
    for client in clients {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        wait_until("the role is in force", WAIT_TIMEOUT, || async {
            Ok(maps.list(&kube::api::ListParams::default()).await.is_ok())
        })
        .await?;
        let denied = maps
            .create(
                &PostParams::default(),
                &object(json!({"metadata": {"name": "x"}}))?,
            )
            .await;
        assert!(matches!(denied, Err(kube::Error::Api(status)) if status.code == 403));
    }
    assert!(hub.kubectl(&["auth", "whoami"]).await?.contains("system:masters"));

    let log = std::fs::read_to_string(hub.audit_log().context("asked for")?)?;
    let events: Vec<serde_json::Value> = log
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .context("one event per line")?;
    let robot = "system:serviceaccount:default:robot";
    let codes: BTreeSet<_> = events
        .iter()
        .filter(|event| event["user"]["username"] == robot && event["verb"] == "create")
        .map(|event| event["responseStatus"]["code"].as_u64())
        .collect();
    assert_eq!(codes, BTreeSet::from([Some(403)]));
    hub.stop().await
}

#[tokio::test]
async fn the_api_server_restarts_on_its_port_with_its_data() -> Result<()> {
    let hub = Hub::builder().ocm_crds().start().await?;
    fleet::create(hub.client(), &FleetSpec::named(&["one"])).await?;
    let (server, pid) = (hub.server().to_owned(), hub.api_server_pid());
    hub.stop_apiserver().await?;
    assert_eq!(hub.api_server_pid(), None);
    assert!(
        fleet::set_available(hub.client(), "one", "False").await.is_err(),
        "an outage is an outage"
    );
    hub.start_apiserver().await?;
    assert_ne!(hub.api_server_pid(), pid);
    assert_eq!(hub.server(), server);
    fleet::set_available(hub.client(), "one", "False").await?;
    fleet::set_claims(
        hub.client(),
        "one",
        &[("a", Some("b")), (fleet::PRODUCT_CLAIM, None)],
    )
    .await?;
    let path = "jsonpath={.status.clusterClaims[*].name} {.status.conditions[?(@.status=='False')].type}";
    let shown = hub.kubectl(&["get", "managedcluster", "one", "-o", path]).await?;
    assert_eq!(
        shown,
        format!("{} a {}", fleet::CLUSTER_ID_CLAIM, fleet::AVAILABLE)
    );
    hub.stop().await
}

#[tokio::test]
async fn the_crds_of_openshift_and_olm_are_accepted() -> Result<()> {
    let hub = Hub::builder().start().await?;
    let mut all = crds::openshift_crds(crds::FeatureSet::Default).await?;
    all.extend(crds::olm_crds().await?);
    testenv::apply::apply_objects(hub.client(), &all).await?;
    for features in [crds::FeatureSet::Okd, crds::FeatureSet::TechPreview] {
        testenv::apply::apply_objects(hub.client(), &crds::openshift_crds(features).await?).await?;
    }
    let served = hub
        .kubectl(&["api-resources", "--api-group=config.openshift.io", "-o", "name"])
        .await?;
    assert!(served.contains("clusterversions.config.openshift.io"), "{served}");
    hub.stop().await
}

#[tokio::test]
async fn a_failed_start_says_what_the_process_said_and_leaves_nothing() -> Result<()> {
    let failed = Hub::builder()
        .detached()
        .apiserver_arg("--no-such-flag")
        .start()
        .await;
    let message = format!(
        "{:#}",
        failed.err().context("it starts with a flag it does not know")?
    );
    assert!(message.contains("kube-apiserver ended"), "{message}");
    assert!(message.contains("unknown flag: --no-such-flag"), "{message}");
    let log = message
        .split("the end of ")
        .nth(1)
        .and_then(|rest| rest.split(".log").next());
    let dir = Path::new(log.context("the message names the log")?)
        .parent()
        .context("in the hub's directory")?;
    assert!(!dir.exists(), "{} is left", dir.display());
    Ok(())
}

#[tokio::test]
async fn a_stopped_hub_leaves_no_process_and_no_directory() -> Result<()> {
    let hub = Hub::builder()
        .controller_manager(Controllers::collectors())
        .start()
        .await?;
    let (pids, dir) = (hub.pids(), hub.dir().to_path_buf());
    assert_eq!(pids.len(), 3);
    assert!(pids.iter().all(|&(_, pid)| alive(pid)));
    hub.stop().await?;
    assert!(pids.iter().all(|&(_, pid)| !alive(pid)));
    assert!(!dir.exists());
    Ok(())
}

/// Not a test: the process that [`nothing_survives_the_kill_of_the_parent`] kills.
#[tokio::test]
async fn victim() -> Result<()> {
    if std::env::var_os(VICTIM).is_none() {
        return Ok(());
    }
    let hub = Hub::builder()
        .controller_manager(Controllers::collectors())
        .placement()
        .start()
        .await?;
    for (name, pid) in hub.pids() {
        println!("\nvictim {name} {pid}");
    }
    println!("\nvictim dir {}", hub.dir().display());
    std::future::pending().await
}

#[tokio::test]
async fn nothing_survives_the_kill_of_the_parent() -> Result<()> {
    let mut parent = tokio::process::Command::new(std::env::current_exe()?)
        .args(["--exact", "victim", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(parent.stdout.take().context("piped")?).lines();
    let mut pids = Vec::new();
    let dir = loop {
        let line = lines.next_line().await?.context("the victim ended early")?;
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["victim", "dir", dir] => break dir.to_owned(),
            ["victim", _, pid] => pids.push(pid.parse::<u32>()?),
            _ => {}
        }
    };
    assert_eq!(pids.len(), 4);
    assert!(pids.iter().all(|&pid| alive(pid)));
    parent.kill().await?;
    wait_until("the children are dead", WAIT_TIMEOUT, || {
        let dead = pids.iter().all(|&pid| !alive(pid));
        async move { Ok(dead) }
    })
    .await?;
    assert!(Path::new(&dir).exists(), "nobody was left to remove it");
    Hub::builder().start().await?.stop().await?;
    assert!(!Path::new(&dir).exists(), "the next hub removes it");
    Ok(())
}

#[tokio::test]
async fn a_cluster_without_claims_and_with_an_unknown_state_can_be_made() -> Result<()> {
    let hub = Hub::builder().ocm_crds().start().await?;
    let cluster = ClusterSpec::new("bare")
        .without_claims()
        .condition(fleet::AVAILABLE, "Unknown");
    fleet::create_cluster(hub.client(), &cluster).await?;
    let path = "jsonpath={.status.clusterClaims[*].name}{.status.conditions[?(@.status=='Unknown')].type}";
    assert_eq!(
        hub.kubectl(&["get", "managedcluster", "bare", "-o", path])
            .await?,
        fleet::AVAILABLE
    );
    hub.stop().await
}
