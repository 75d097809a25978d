use std::time::Instant;

use api::names::{ANNOTATION_OWNER, LABEL_MCU_UID, Step};
use http::Response;
use kube::client::Body;
use observe::index::Change;
use rollout::testing::at;
use serde_json::json;
use tower::service_fn;

use super::*;
use crate::apply::{Write, WriteResult};
use crate::fixture::{context, work};
use crate::state::orphans::SWEEP_AFTER;

/// A hub with these upgrades, by UID and name, on which every work is a platform work of `ns/spring` with UID
/// `gone`.
fn hub(upgrades: &'static [(&'static str, &'static str)]) -> Client {
    let service = service_fn(move |request: Request<Body>| async move {
        let path = request.uri().path().to_owned();
        let body = if path.ends_with("/managedclustersupgrades") {
            let items = upgrades.iter().map(
                |(uid, name)| json!({"metadata": {"uid": uid, "namespace": "ns", "name": name}, "spec": {}}),
            );
            json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items.collect::<Vec<_>>()})
        } else {
            json!({
                "metadata": {"name": "c1-cluster-upgrade", "namespace": "c1", "uid": "c1-cluster-upgrade-gone",
                    "labels": {LABEL_MCU_UID: "gone"}, "annotations": {ANNOTATION_OWNER: "ns/spring"}},
                "spec": {"deleteOption": {"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {
                    "orphaningRules": [{"group": "config.openshift.io", "resource": "clusterversions", "name": "version"}]}}},
            })
        };
        let bytes = serde_json::to_vec(&body).unwrap();
        Ok::<_, std::io::Error>(Response::new(Body::from(bytes)))
    });
    Client::new(service, "default")
}

/// What is deleted if the creation of a work takes effect after its upgrade was deleted.
async fn swept(upgrades: &'static [(&'static str, &'static str)]) -> Vec<String> {
    let context = Arc::new(context(&["c1"]));
    let begun = Instant::now();
    let candidates = context.with(|state| {
        let late = work("c1", Step::Platform, "gone", 5);
        state.index.work(&Change::Applied(late), at(0));
        assert!(state.find_orphans(begun).is_empty());
        state.find_orphans(begun + SWEEP_AFTER)
    });
    sweep(Arc::clone(&context), hub(upgrades), candidates).await;
    let jobs = context.queue.drain();
    let mut deleted = Vec::new();
    for job in jobs {
        if let Write::Delete { cluster, step, .. } = &job.write {
            deleted.push(step.work_name(cluster));
        }
        context.with(|state| {
            crate::reconcile::result::record_result(
                &context,
                state,
                job,
                &WriteResult::DeletionAccepted { version: 0 },
            );
        });
    }
    let text = context.metrics.encode_classic().unwrap();
    let counted = format!("mcu_orphans_swept_total {}", deleted.len());
    assert!(text.lines().any(|line| line == counted), "{text}");
    deleted
}

#[tokio::test]
async fn a_creation_that_is_carried_out_after_its_upgrade_was_deleted_is_swept() {
    assert_eq!(swept(&[("other", "autumn")]).await, ["c1-cluster-upgrade"]);
}

#[tokio::test]
async fn nothing_is_swept_while_the_hub_knows_the_upgrade_or_one_of_its_name() {
    assert!(swept(&[("gone", "renamed")]).await.is_empty());
    assert!(swept(&[("restored", "spring")]).await.is_empty());
}

#[tokio::test]
async fn nothing_is_swept_when_the_hub_cannot_be_read_and_it_is_tried_again() {
    let context = Arc::new(context(&["c1"]));
    let begun = Instant::now();
    let candidates = context.with(|state| {
        let late = work("c1", Step::Platform, "gone", 5);
        state.index.work(&Change::Applied(late), at(0));
        let _ = state.find_orphans(begun);
        state.find_orphans(begun + SWEEP_AFTER)
    });
    let deaf =
        service_fn(|_: Request<Body>| async { Err::<Response<Body>, _>(std::io::Error::other("no way")) });
    sweep(Arc::clone(&context), Client::new(deaf, "default"), candidates).await;
    assert!(context.queue.drain().is_empty());
    let again = context.with(|state| state.find_orphans(begun + SWEEP_AFTER * 2));
    assert_eq!(again.len(), 1);
}

/// A hub whose upgrade and work are nested more deeply than a parser should follow.
fn deep_hub() -> Client {
    let service = service_fn(move |request: Request<Body>| async move {
        let deep = format!("{}1{}", r#"{"a":["#.repeat(5_000), "]}".repeat(5_000));
        let text = if request.uri().path().ends_with("/managedclustersupgrades") {
            format!(
                r#"{{"metadata":{{}},"items":[{{"metadata":{{"uid":"other","namespace":"ns","name":"autumn",
                    "managedFields":[{deep}]}}}}]}}"#
            )
        } else {
            format!(
                r#"{{"metadata":{{"name":"c1-pre-upgrade-action","namespace":"c1","uid":"c1-pre-upgrade-action-gone",
                    "labels":{{"{LABEL_MCU_UID}":"gone"}}}},"spec":{{"workload":{{"manifests":[{deep}]}}}}}}"#
            )
        };
        Ok::<_, std::io::Error>(Response::new(Body::from(text.into_bytes())))
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn a_deeply_nested_upgrade_or_work_holds_up_no_sweep() {
    let context = Arc::new(context(&["c1"]));
    let begun = Instant::now();
    let candidates = context.with(|state| {
        let late = work("c1", Step::PreAction, "gone", 5);
        state.index.work(&Change::Applied(late), at(0));
        let _ = state.find_orphans(begun);
        state.find_orphans(begun + SWEEP_AFTER)
    });
    sweep(Arc::clone(&context), deep_hub(), candidates).await;
    assert_eq!(context.queue.drain().len(), 1);
}
