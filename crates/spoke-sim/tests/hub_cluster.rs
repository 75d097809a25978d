//! One spoke against a real API server and controller manager, with the real CRDs.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod faults;
mod world;

use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use spoke_sim::spoke::kinds;
use testenv::crds::FeatureSet;

use self::world::{World, condition, condition_of, graph, image, install_role, one_risk};

const OLD: &str = "4.16.1";
const PATCH: &str = "4.16.2";
const MINOR: &str = "4.17.3";

fn completed(version: &Value, wanted: &str) -> bool {
    let first = &version["status"]["history"][0];
    first["version"] == wanted && first["state"] == "Completed"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_goes_through_and_a_restart_goes_on_where_it_was() {
    let mut world = World::new(
        "version: 4.16.1\nworkers: 1",
        300.0,
        graph(&[OLD, PATCH, MINOR], &[]),
    )
    .await;
    world
        .until("the update is offered", |v| {
            v["status"]["availableUpdates"][0]["version"] == MINOR
        })
        .await;
    let request = json!({"spec": {"desiredUpdate": {"version": PATCH}}});
    world.patch_version(&request).await;
    let begun = world
        .until("it began", |v| {
            v["status"]["history"][0]["state"] == "Partial" && v["status"]["desired"]["version"] == PATCH
        })
        .await;
    assert_eq!(begun["status"]["desired"]["image"], image(PATCH));
    assert_eq!(condition(&begun, "ReleaseAccepted")["status"], "True");
    world
        .until("operators are waited for", |v| {
            let progressing = condition(v, "Progressing");
            progressing["message"]
                .as_str()
                .is_some_and(|text| text.contains("waiting on"))
        })
        .await;
    world.restart().await;
    let done = world.until("it is completed", |v| completed(v, PATCH)).await;
    let history = done["status"]["history"].as_array().unwrap();
    assert_eq!(history.len(), 2, "{history:?}");
    assert_eq!(
        condition(&done, "Available")["message"],
        format!("Done applying {PATCH}")
    );
    assert_eq!(condition(&done, "Failing")["status"], "False");
    assert!(condition(&done, "Invalid").is_null());
    assert_eq!(
        done["status"]["observedGeneration"],
        done["metadata"]["generation"]
    );
    for operator in world.list(&kinds::cluster_operator()).await {
        assert_eq!(
            operator["status"]["versions"][0]["version"], PATCH,
            "{}",
            operator["metadata"]["name"]
        );
    }
    world
        .until_all("all pools are updated", &kinds::machine_config_pool(), |pool| {
            pool["status"]["updatedMachineCount"] == pool["status"]["machineCount"]
                && condition(pool, "Updated")["status"] == "True"
        })
        .await;
    let metrics = world.metrics().await;
    for line in [
        "cluster_operator_up{name=\"version\",version=\"4.16.2\",reason=\"\"} 1",
        "cluster_operator_conditions{name=\"etcd\",condition=\"Degraded\",reason=\"AsExpected\"} 0",
        "cluster_version_operator_update_retrieval_timestamp_seconds{name=\"\"}",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gates_block_minor_updates_until_they_are_acknowledged_and_both_maps_come_back() {
    let gate = "ack-4.16-api-removals-in-4.17";
    let scenario = format!("version: 4.16.1\nworkers: 1\nadminGates: {{{gate}: 'read the notes'}}");
    let world = World::new(&scenario, 600.0, graph(&[OLD, MINOR], &[])).await;
    world
        .until("the gate shows", |v| {
            let upgradeable = condition(v, "Upgradeable");
            upgradeable["reason"] == "AdminAckRequired" && upgradeable["message"] == "read the notes"
        })
        .await;
    world.delete_map("openshift-config-managed", "admin-gates").await;
    world.delete_map("openshift-config", "admin-acks").await;
    let gates = world.until_map("openshift-config-managed", "admin-gates").await;
    assert_eq!(gates["data"][gate], "read the notes");
    let acks = world.until_map("openshift-config", "admin-acks").await;
    assert!(acks["data"].is_null());
    assert_eq!(
        acks["metadata"]["annotations"]["release.openshift.io/create-only"],
        "true"
    );

    world
        .until("the update is offered", |v| {
            v["status"]["availableUpdates"][0]["version"] == MINOR
        })
        .await;
    world
        .patch_version(&json!({"spec": {"desiredUpdate": {"version": MINOR}}}))
        .await;
    let refused = world.until_refused().await;
    let accepted = condition(&refused, "ReleaseAccepted");
    assert_eq!(accepted["reason"], "PreconditionChecks");
    assert!(
        accepted["message"].as_str().unwrap().contains("read the notes"),
        "{accepted}"
    );
    assert_eq!(refused["status"]["desired"]["version"], OLD);

    world
        .patch_map("openshift-config", "admin-acks", &json!({"data": {gate: "true"}}))
        .await;
    world
        .until("it proceeds by itself", |v| {
            v["status"]["desired"]["version"] == MINOR
        })
        .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_images_are_refused_and_a_risk_that_applies_is_explained() {
    let scenario =
        "version: 4.16.1\nworkers: 1\npayloads: [{version: 4.16.9, image: example.com/own@sha256:9}]";
    let risk = one_risk("PodsMayHang", "Pods may hang.", "exposed");
    let world = World::new(scenario, 600.0, graph(&[OLD, PATCH], &[(PATCH, risk)])).await;
    let shown = world
        .until("the risk applies", |v| {
            let recommended = condition_of(&v["status"]["conditionalUpdates"][0], "Recommended");
            recommended["status"] == "False"
        })
        .await;
    let recommended = condition_of(&shown["status"]["conditionalUpdates"][0], "Recommended");
    assert_eq!(recommended["reason"], "PodsMayHang");
    assert_eq!(
        recommended["message"],
        "Pods may hang. https://example.com/PodsMayHang"
    );
    assert!(shown["status"]["availableUpdates"].is_null());

    world
        .patch_version(&json!({"spec": {"desiredUpdate": {"version": PATCH}}}))
        .await;
    world
        .until("by version it is invalid", |v| {
            condition(v, "Invalid")["status"] == "True"
        })
        .await;
    let unknown = json!({"spec": {"desiredUpdate": {"version": "", "image": "example.com/none@sha256:0"}}});
    world.patch_version(&unknown).await;
    let refused = world
        .until("an unknown image is refused", |v| {
            let accepted = condition(v, "ReleaseAccepted");
            accepted["status"] == "False" && accepted["reason"] == "RetrievePayload"
        })
        .await;
    assert!(condition(&refused, "Invalid").is_null());
    let own = json!({"spec": {"desiredUpdate": {"version": "4.16.9", "image": "example.com/own@sha256:9"}}});
    world.patch_version(&own).await;
    let begun = world
        .until("a supplied one is taken", |v| {
            v["status"]["desired"]["version"] == "4.16.9"
        })
        .await;
    assert_eq!(begun["status"]["history"][0]["state"], "Partial");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_come_and_go_and_an_idle_cluster_writes_nothing() {
    let scenario = "version: 4.16.1\nworkers: 1\njitter: 0\ndurations: {operators: 0.5}\nfaults: unverified=no signature";
    let world = World::new(scenario, 600.0, graph(&[OLD, PATCH, "4.16.3"], &[])).await;
    world
        .until("updates are offered", |v| {
            v["status"]["availableUpdates"][1]["version"] == PATCH
        })
        .await;
    world
        .patch_version(&json!({"spec": {"desiredUpdate": {"version": PATCH}}}))
        .await;
    let refused = world.until_refused().await;
    let message = condition(&refused, "ReleaseAccepted")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.contains("The update cannot be verified: no signature"),
        "{message}"
    );

    world.fault(Some("degraded=kube-apiserver,60m")).await;
    let failing = world
        .until("it fails after its grace", |v| {
            condition(v, "Failing")["status"] == "True"
        })
        .await;
    assert_eq!(
        condition(&failing, "Failing")["reason"],
        "ClusterOperatorDegraded"
    );
    assert_eq!(
        condition(&failing, "Failing")["message"],
        "Cluster operator kube-apiserver is degraded"
    );
    let progressing = condition(&failing, "Progressing");
    let text =
        format!("Unable to apply {PATCH}: wait has exceeded 40 minutes for these operators: kube-apiserver");
    assert_eq!(progressing["message"], text);

    world.fault(Some("retarget=4.16.3,5m")).await;
    let done = world
        .until("the other version is completed", |v| completed(v, "4.16.3"))
        .await;
    let states: Vec<&Value> = done["status"]["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|h| &h["state"])
        .collect();
    assert_eq!(states, ["Completed", "Partial", "Completed"]);

    world.fault(None).await;
    world
        .until_all("all pools are updated", &kinds::machine_config_pool(), |pool| {
            condition(pool, "Updated")["status"] == "True"
        })
        .await;
    world
        .until("nothing stands against an update", |v| {
            condition(v, "Upgradeable").is_null()
        })
        .await;
    world.until_fetched(3).await;
    let before = world.revisions().await;
    world.until_fetched(5).await;
    assert_eq!(world.revisions().await, before);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_risk_that_is_accepted_by_name_lets_the_update_through() {
    let (old, new) = ("4.22.1", "4.22.2");
    let risk = one_risk("PodsMayHang", "Pods may hang.", "exposed");
    let scenario = "version: 4.22.1\nworkers: 1\nera: C";
    let world = World::with(
        FeatureSet::TechPreview,
        scenario,
        600.0,
        graph(&[old, new], &[(new, risk)]),
    )
    .await;
    world
        .until("the risk applies", |v| {
            condition_of(&v["status"]["conditionalUpdates"][0], "Recommended")["status"] == "False"
                && condition_of(&v["status"]["conditionalUpdateRisks"][0], "Applies")["status"] == "True"
        })
        .await;
    // First the risk, then the version: as one request it would be for an update that is not recommended.
    let accept = json!({"spec": {"desiredUpdate": {"acceptRisks": [{"name": "PodsMayHang"}]}}});
    world.patch_version(&accept).await;
    world
        .until("the update is recommended", |v| {
            let recommended = condition_of(&v["status"]["conditionalUpdates"][0], "Recommended");
            recommended["reason"] == "AllExposedRisksAccepted"
                && v["status"]["availableUpdates"][0]["version"] == new
        })
        .await;
    world
        .patch_version(&json!({"spec": {"desiredUpdate": {"version": new}}}))
        .await;
    let begun = world
        .until("it began", |v| v["status"]["desired"]["version"] == new)
        .await;
    let risks = begun["status"]["history"][0]["acceptedRisks"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(risks.contains("PodsMayHang"), "{risks}");
    world.until("it is completed", |v| completed(v, new)).await;
    world.stop().await;
}

fn job(name: &str, script: &str, extra: &Value) -> Job {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": {"spec": {
            "serviceAccountName": "reader", "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "none", "command": ["/bin/bash", "-c", script],
                            "env": [{"name": "WHO", "value": "me"}]}],
        }}},
    });
    for (key, value) in extra.as_object().unwrap() {
        job["spec"][key] = value.clone();
    }
    serde_json::from_value(job).unwrap()
}

/// The Jobs of the namespace `default`, with an account `reader` there that may read the ClusterVersion.
async fn jobs_of_a_reader(world: &World) -> Api<Job> {
    install_role(
        &world.client(),
        "default",
        "reader",
        "config.openshift.io",
        "clusterversions",
        &["get"],
    )
    .await;
    Api::namespaced(world.client(), "default")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_run_their_own_command_with_their_own_rights_and_end_when_they_must() {
    let world = World::new("version: 4.16.1\nworkers: 1", 60.0, graph(&[OLD], &[])).await;
    let jobs = jobs_of_a_reader(&world).await;
    let create = async |name: &str, script: &str, extra: Value| {
        jobs.create(&PostParams::default(), &job(name, script, &extra))
            .await
            .unwrap();
    };
    create(
        "allowed",
        "[[ $WHO == me ]] && oc get clusterversion version -o name",
        json!({}),
    )
    .await;
    create("denied", "oc delete clusterversion version", json!({})).await;
    // With a limit of 0 the Job controller names the limit instead of the deadline if its first write of the status
    // is refused: it looks again, and finds the Pod that it ended itself among the failed ones.
    let late = json!({"activeDeadlineSeconds": 2, "backoffLimit": 1});
    create("late", "sleep 1000", late).await;
    create("gone", "echo started; sleep 1000", json!({})).await;

    let ended = async |name: &str| {
        world
            .until_job(name, |status| !status["conditions"].is_null())
            .await
    };
    let kinds_of = |status: &Value| -> Vec<String> {
        let conditions = status["conditions"].as_array().unwrap();
        conditions
            .iter()
            .map(|c| c["type"].as_str().unwrap().to_owned())
            .collect()
    };
    let allowed = world
        .until_job("allowed", |status| status["succeeded"] == 1)
        .await;
    assert!(kinds_of(&allowed).contains(&"Complete".to_owned()));
    let denied = world.until_job("denied", |status| status["failed"] == 1).await;
    assert_eq!(denied["failed"], 1);
    let late = ended("late").await;
    assert_eq!(late["conditions"][0]["reason"], "DeadlineExceeded");
    world.until_job("gone", |status| status["active"] == 1).await;
    world.until_log("gone", "started").await;
    jobs.delete("gone", &DeleteParams::foreground()).await.unwrap();
    world.until_no_pod("gone").await;
    world.until_no_pod("late").await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_plays_until_a_signal_and_takes_all_processes_along() {
    let world = World::without_spoke().await;
    let program = world.program(&["--speed=600", "--fault=slow=2"]);
    world
        .until("it is installed", |v| {
            condition(v, "Available")["status"] == "True"
        })
        .await;
    let jobs = jobs_of_a_reader(&world).await;
    let sleeper = job("sleeper", "echo $BASHPID; sleep 1000", &json!({}));
    jobs.create(&PostParams::default(), &sleeper).await.unwrap();
    let pid = world.until_first_line("sleeper").await;
    assert!(world::is_alive(&pid));
    let status = program.terminate().await;
    assert!(status.success(), "{status}");
    assert!(!world::is_alive(&pid));
    let pending = world.until_job("sleeper", |status| status["active"] == 1).await;
    assert!(pending["failed"].is_null(), "its pod stays as it was");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions_wait_for_approval_and_then_install() {
    let scenario = "
version: 4.16.1
workers: 1
packages:
- {name: pipelines, versions: [pipelines.v1, pipelines.v2]}
subscriptions:
- {name: pipelines, namespace: openshift-operators}
- {name: never, namespace: openshift-operators, package: unknown}
";
    let world = World::new(scenario, 120.0, graph(&[OLD], &[])).await;
    let namespace = "openshift-operators";
    let pending = world
        .until_object(
            "a plan waits",
            &kinds::subscription(),
            namespace,
            "pipelines",
            |s| s["status"]["state"] == "UpgradePending",
        )
        .await;
    assert_eq!(pending["status"]["installedCSV"], "pipelines.v1");
    let plan = pending["status"]["installPlanRef"]["name"].as_str().unwrap();
    let waiting = world
        .until_object("it says so", &kinds::install_plan(), namespace, plan, |p| {
            p["status"]["phase"] == "RequiresApproval"
        })
        .await;
    assert_eq!(waiting["spec"]["approved"], false);
    let plans = world.api(&kinds::install_plan(), namespace);
    // As the approving Job does it.
    let patch: kube::api::DynamicObject = plans
        .patch(
            plan,
            &PatchParams::default(),
            &Patch::Merge(json!({"spec": {"approved": true}})),
        )
        .await
        .unwrap();
    assert_eq!(patch.data["spec"]["approved"], true);
    world
        .until_object(
            "it is installed",
            &kinds::subscription(),
            namespace,
            "pipelines",
            |s| s["status"]["installedCSV"] == "pipelines.v2" && s["status"]["state"] == "AtLatestKnown",
        )
        .await;
    world
        .until_object(
            "the plan is complete",
            &kinds::install_plan(),
            namespace,
            plan,
            |p| p["status"]["phase"] == "Complete",
        )
        .await;
    let never = world
        .until_object(
            "nothing satisfies it",
            &kinds::subscription(),
            namespace,
            "never",
            |s| condition(s, "ResolutionFailed")["status"] == "True",
        )
        .await;
    assert!(never["status"]["installPlanRef"].is_null());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_node_takes_its_api_along_and_comes_back() {
    let scenario =
        "version: 4.16.1\nmasters: 1\nworkers: 0\ndurations: {operators: 0.1, reboot: 30m, handover: 10s}";
    let world = World::new(scenario, 600.0, graph(&[OLD, PATCH], &[])).await;
    assert!(world.reaches_proxy().await);
    world
        .until("the update is offered", |v| {
            v["status"]["availableUpdates"][0]["version"] == PATCH
        })
        .await;
    world
        .patch_version(&json!({"spec": {"desiredUpdate": {"version": PATCH}}}))
        .await;
    world.until_proxy(false).await;
    // What was under way when the servers went away may still arrive, and nothing after it.
    let written = world.versions_while_proxy_is_closed().await;
    assert!(written.len() <= 2, "{written:?}");
    world.until("it is completed", |v| completed(v, PATCH)).await;
    world.stop().await;
}
