//! Which clusters an upgrade is about.

use anyhow::Result;
use api::names::Step::Platform;
use e2e::sample;
use e2e::view::Kind;
use e2e::{Scenario, TestHub};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::json;
use testenv::{ClusterSpec, fleet, placement};

pub fn managed_clusters(scenario: &Scenario) -> Api<DynamicObject> {
    let kind =
        kube::core::GroupVersionKind::gvk("cluster.open-cluster-management.io", "v1", "ManagedCluster");
    Api::all_with(scenario.client().clone(), &ApiResource::from_gvk(&kind))
}

#[tokio::test]
async fn a_selector_by_name_selects_those_clusters_of_its_set() -> Result<()> {
    let s = Scenario::new(4).await?;
    s.create(json!({})).await?;
    let seen = s.until("selected", |seen| seen.is("Selected")).await?;
    assert_eq!(seen.clusters().total, 4);
    assert_eq!(seen.reason("Selected"), "ManagedClustersSelected");
    assert_eq!(seen.message("Selected"), "4 clusters are selected");
    Ok(())
}

#[tokio::test]
async fn an_upgrade_that_matches_no_cluster_selects_and_applies_nothing() -> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(json!({"clusterSelector": sample::selector(s.id(), &["nobody".to_owned()])}))
        .await?;
    let seen = s.until("not selected", |seen| seen.is_not("Selected")).await?;
    assert_eq!(seen.reason("Selected"), "ManagedClustersNotSelected");
    assert!(seen.is_not("Applied") && seen.is_not("Complete"));
    assert!(s.settle().await?.stalled("NothingSelected"));
    assert_eq!(s.having(Platform), Vec::<usize>::new());
    Ok(())
}

#[tokio::test]
async fn a_placement_selects_the_clusters_it_decided_for() -> Result<()> {
    let s = Scenario::new(4).await?;
    s.decide("dev-clusters", &[1, 2]).await?;
    s.create(json!({"clusterSelector": null, "placement": [{"name": "dev-clusters", "namespace": s.id()}]}))
        .await?;
    s.work(1, Platform).await?;
    s.work(2, Platform).await?;
    let seen = s.settle().await?;
    assert_eq!(seen.clusters().total, 2);
    assert_eq!(s.having(Platform), [1, 2]);
    Ok(())
}

#[tokio::test]
async fn a_placement_of_another_namespace_may_be_referred_to() -> Result<()> {
    let s = Scenario::new(1).await?;
    let other = Scenario::new(2).await?;
    other.decide("theirs", &[1, 2]).await?;
    let spec = json!({"clusterSelector": null, "placement": [{"name": "theirs", "namespace": other.id()}]});
    s.create(spec).await?;
    let seen = s
        .until("both selected", |seen| seen.clusters().total == 2)
        .await?;
    assert!(seen.is("Selected"));
    other.work(1, Platform).await?;
    Ok(())
}

#[tokio::test]
async fn overlapping_placements_and_a_selector_make_a_union() -> Result<()> {
    let s = Scenario::new(5).await?;
    s.decide("first", &[1, 2]).await?;
    s.decide("second", &[2, 3]).await?;
    let selector = sample::selector(s.id(), &s.some(&[3, 4]));
    s.create(json!({"clusterSelector": selector, "placement": [{"name": "first"}, {"name": "second"}]}))
        .await?;
    s.until("the union", |seen| seen.clusters().total == 4).await?;
    for number in [1, 2, 3, 4] {
        s.work(number, Platform).await?;
    }
    s.settle().await?;
    assert_eq!(s.having(Platform), [1, 2, 3, 4]);
    assert!(
        [1, 2, 3, 4]
            .iter()
            .all(|&number| s.created(number, Platform) == 1)
    );
    Ok(())
}

#[tokio::test]
async fn all_decisions_of_a_placement_count() -> Result<()> {
    let s = Scenario::new(250).await?;
    let all: Vec<usize> = (1..=250).collect();
    s.decide("many", &all).await?;
    assert_eq!(placement::decided(s.client(), s.id(), "many").await?.len(), 250);
    let strategy = json!({"maxConcurrency": 1});
    s.create(json!({"clusterSelector": null, "placement": [{"name": "many"}], "upgradeStrategy": strategy}))
        .await?;
    s.until("all of them", |seen| seen.clusters().total == 250)
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_set_is_selected_from_only_while_it_is_bound_in_the_namespace() -> Result<()> {
    let s = Scenario::new(1).await?;
    let other = Scenario::new(2).await?;
    s.create(json!({"clusterSelector": sample::selector(other.id(), other.names())}))
        .await?;
    let seen = s.until("not selected", |seen| seen.is_not("Selected")).await?;
    let said = format!("{} {}", seen.message("Selected"), seen.message("Stalled"));
    assert!(
        said.contains(other.id()),
        "the message names the unbound set: {said}"
    );
    testenv::apply::apply_objects(s.client(), &[fleet::binding(s.id(), other.id())]).await?;
    s.until("selected without a touch", |seen| seen.clusters().total == 2)
        .await?;
    other.work(1, Platform).await?;
    Ok(())
}

/// Watches of different kinds may be at different times: nothing starts before the controller knows the second cluster's
/// fate.
async fn create_when_one_is_left(s: &Scenario) -> Result<()> {
    s.create(json!({"paused": true})).await?;
    s.until("one is left", |seen| seen.clusters().total == 1).await?;
    s.edit(json!({"paused": false})).await
}

#[tokio::test]
async fn a_terminating_cluster_is_not_selected() -> Result<()> {
    let s = Scenario::new(2).await?;
    let clusters = managed_clusters(&s);
    let hold = json!({"metadata": {"finalizers": ["e2e.test/hold"]}});
    clusters
        .patch(s.c(2), &PatchParams::default(), &Patch::Merge(&hold))
        .await?;
    clusters.delete(s.c(2), &DeleteParams::default()).await?;
    create_when_one_is_left(&s).await?;
    s.work(1, Platform).await?;
    let seen = s.settle().await?;
    assert_eq!(seen.clusters().total, 1);
    assert!(!s.has(2, Platform));
    let free = json!({"metadata": {"finalizers": null}});
    clusters
        .patch(s.c(2), &PatchParams::default(), &Patch::Merge(&free))
        .await?;
    Ok(())
}

/// Eligibility: a cluster that the hub has not accepted is not selectable.
#[tokio::test]
async fn a_cluster_the_hub_did_not_accept_is_not_selected() -> Result<()> {
    let s = Scenario::new(2).await?;
    let refuse = json!({"spec": {"hubAcceptsClient": false}});
    managed_clusters(&s)
        .patch(s.c(2), &PatchParams::default(), &Patch::Merge(&refuse))
        .await?;
    create_when_one_is_left(&s).await?;
    s.work(1, Platform).await?;
    assert_eq!(s.settle().await?.clusters().total, 1);
    Ok(())
}

#[tokio::test]
async fn labels_and_expressions_select_alike() -> Result<()> {
    let label = |number, cluster: ClusterSpec| match number {
        1 | 2 => cluster.label("tier", "gold"),
        _ => cluster.label("tier", "lead"),
    };
    let s = Scenario::of(&TestHub::shared().await?, 4, label).await?;
    let paused = |selector| json!({"clusterSelector": selector, "paused": true});
    let by_label =
        json!({"clusterSets": [s.id()], "matchLabels": {"tier": "gold"}, "matchExpressions": null});
    let in_values = json!([{"key": "tier", "operator": "In", "values": ["gold"]}]);
    let not_in = json!([{"key": "tier", "operator": "NotIn", "values": ["lead"]}]);
    s.upgrade("labels").create(paused(by_label)).await?;
    s.upgrade("in")
        .create(paused(json!({"matchExpressions": in_values})))
        .await?;
    s.upgrade("not-in")
        .create(paused(json!({"matchExpressions": not_in})))
        .await?;
    for name in ["labels", "in", "not-in"] {
        let upgrade = s.upgrade(name);
        upgrade
            .until("two selected", |seen| seen.clusters().total == 2)
            .await?;
        upgrade.row_until(s.c(1), "there", |_| true).await?;
        upgrade.row_until(s.c(2), "there", |_| true).await?;
    }
    Ok(())
}

#[tokio::test]
async fn without_placement_and_selector_nothing_is_selected() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({"clusterSelector": null})).await?;
    let seen = s.until("not selected", |seen| seen.is_not("Selected")).await?;
    assert_eq!(seen.clusters().total, 0);
    assert!(seen.is_not("Complete"), "nothing is not everything");
    Ok(())
}

#[tokio::test]
async fn an_empty_selector_selects_all_bound_clusters_and_the_name_needs_no_label() -> Result<()> {
    let bare = |_, mut cluster: ClusterSpec| {
        cluster.labels.remove("name");
        cluster
    };
    let s = Scenario::of(&TestHub::shared().await?, 3, bare).await?;
    s.upgrade("all")
        .create_exactly(
            json!({"clusterSelector": {}, "paused": true, "clusterVersion": {"version": "4.12.0"}}),
            json!({}),
        )
        .await?;
    s.upgrade("named")
        .create(json!({"clusterSelector": sample::selector(s.id(), &s.some(&[2])), "paused": true}))
        .await?;
    s.upgrade("all")
        .until("three", |seen| seen.clusters().total == 3)
        .await?;
    s.upgrade("named")
        .until("one", |seen| seen.clusters().total == 1)
        .await?;
    s.upgrade("named").row_until(s.c(2), "there", |_| true).await?;
    Ok(())
}

/// A placement that does not exist is named; once it is there, its clusters start.
#[tokio::test]
async fn a_missing_placement_is_named_and_awaited() -> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(json!({"clusterSelector": null, "placement": [{"name": "later"}]}))
        .await?;
    let seen = s
        .until("not selected", |seen| seen.stalled("NothingSelected"))
        .await?;
    let said = format!("{} {}", seen.message("Selected"), seen.message("Stalled"));
    assert!(said.contains("later"), "{said}");
    s.decide("later", &[1]).await?;
    s.work(1, Platform).await?;
    s.until("selected", |seen| seen.clusters().total == 1).await?;
    Ok(())
}

/// A set whose members are chosen by a label selector counts as OCM counts it.
#[tokio::test]
async fn a_set_by_label_selector_has_the_clusters_that_match() -> Result<()> {
    let s = Scenario::of(&TestHub::shared().await?, 2, |number, cluster| {
        cluster.label("zone", if number == 1 { "east" } else { "west" })
    })
    .await?;
    let set = format!("{}-east", s.id());
    let selector = json!({"selectorType": "LabelSelector",
        "labelSelector": {"matchLabels": {"zone": "east", "cluster.open-cluster-management.io/clusterset": s.id()}}});
    let object = json!({"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSet",
        "metadata": {"name": set}, "spec": {"clusterSelector": selector}});
    testenv::apply::apply_objects(s.client(), &[object, fleet::binding(s.id(), &set)]).await?;
    s.create(json!({"clusterSelector": {"clusterSets": [set], "matchExpressions": null}}))
        .await?;
    s.work(1, Platform).await?;
    assert_eq!(s.settle().await?.clusters().total, 1);
    assert!(
        s.api(Kind::Work, s.c(2))
            .list(&kube::api::ListParams::default())
            .await?
            .items
            .is_empty()
    );
    Ok(())
}
