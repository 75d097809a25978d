use super::*;

#[test]
fn a_decision_counts_only_with_its_placement_as_owner() {
    let owner = |api_version: &str, kind: &str, name: &str, uid: &str| json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid});
    let group = "cluster.open-cluster-management.io/v1beta1";
    let select = |owners: &[Value]| {
        let hub = dev()
            .placement("ns", "p")
            .owned_decision("ns", "p", 1, &["dev1"], owners);
        hub.select(json!({"placement": [{"name": "p"}]}))
    };
    let real = owner(group, "Placement", "p", "uid-ns-p");
    let other = owner("v1", "ConfigMap", "p", "x");
    assert_eq!(names(&select(&[other.clone(), real])), ["dev1"]);
    for owners in [
        vec![],
        vec![other],
        vec![owner(group, "Placement", "p", "of-an-earlier-hub")],
        vec![owner(group, "Placement", "q", "uid-ns-p")],
        vec![owner(group, "PlacementDecision", "p", "uid-ns-p")],
        vec![owner("example.com/v1", "Placement", "p", "uid-ns-p")],
        vec![owner("v1", "Placement", "p", "uid-ns-p")],
    ] {
        let selected = select(&owners);
        assert!(selected.clusters.is_empty(), "{owners:?}");
        assert!(
            notes_have(
                &selected,
                "ignores PlacementDecisions of Placement ns/p (1), because"
            ),
            "{:?}",
            selected.notes
        );
    }
}

#[test]
fn decisions_follow_their_placement_when_it_is_made_anew() {
    let mut hub = dev().placement("ns", "p").decision("ns", "p", 1, &["dev1"]);
    let restored = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "anew"}});
    hub.0.placement(&read(restored));
    assert!(
        hub.select(json!({"placement": [{"name": "p"}]}))
            .clusters
            .is_empty()
    );
    let owner = json!({"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement", "name": "p", "uid": "anew"});
    let hub = hub.owned_decision("ns", "p", 1, &["dev1"], &[owner]);
    let selected = hub.select(json!({"placement": [{"name": "p"}]}));
    assert_eq!((names(&selected), selected.notes.len()), (vec!["dev1"], 0));
}

#[test]
fn decisions_count_only_within_the_sets_bound_in_the_placements_namespace() {
    let hub = dev()
        .set("prod", &json!({}))
        .placement("ns", "p")
        .decision("ns", "p", 1, &["dev1", "other"])
        .placement("elsewhere", "p")
        .decision("elsewhere", "p", 1, &["dev1"]);
    let selected = hub.select(json!({"placement": [{"name": "p"}]}));
    assert_eq!(names(&selected), ["dev1"]);
    assert!(
        notes_have(
            &selected,
            "ignores clusters that Placement ns/p selects (1, such as other), because"
        ),
        "{:?}",
        selected.notes
    );
    let borrowed = json!({"placement": [{"name": "p", "namespace": "elsewhere"}]});
    let selected = hub.select(borrowed.clone());
    assert!(
        selected.clusters.is_empty(),
        "the set is bound to the upgrade's namespace only"
    );
    let selected = hub.select_with(borrowed, false);
    assert_eq!(names(&selected), ["dev1"], "where sets need no binding");
}

#[test]
fn the_sets_of_a_placement_narrow_its_decisions() {
    let hub =
        dev()
            .bound("prod")
            .placement_of("ns", "p", &["prod"])
            .decision("ns", "p", 1, &["dev1", "other"]);
    let selected = hub.select(json!({"placement": [{"name": "p"}]}));
    assert_eq!(names(&selected), ["other"]);
    assert!(notes_have(&selected, "such as dev1"), "{:?}", selected.notes);
}

#[test]
fn decisions_of_a_placement_whose_spec_cannot_be_read_do_not_count() {
    let mut hub = dev().placement("ns", "p").decision("ns", "p", 1, &["dev1"]);
    hub.0.placement(&read(json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "uid-ns-p"}, "spec": {"clusterSets": 3},
    })));
    let selected = hub.select(json!({"placement": [{"name": "p"}]}));
    assert!(selected.clusters.is_empty());
    assert!(notes_have(&selected, "spec of Placement ns/p cannot be read"));
}
