#![allow(clippy::needless_pass_by_value)] // `json!` makes values to give away

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{ApiError, Deletion, ObjectKey, Store};
use crate::fields::{self, from_unix};
use crate::seeded_rng::SeededRng;

fn version_key() -> ObjectKey {
    ObjectKey::parse("clusterversions.config.openshift.io", "", "version")
}

fn version(spec: Value) -> Value {
    json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
           "metadata": {"name": "version"}, "spec": spec})
}

fn store_with_version() -> Store {
    let mut store = Store::new(SeededRng::new(1));
    let object = version(
        json!({"clusterID": "c", "channel": "stable-4.11", "upstream": "https://graph",
        "overrides": [{"kind": "Deployment", "group": "apps", "namespace": "n", "name": "d", "unmanaged": true}]}),
    );
    store
        .create(&version_key(), &object, "cluster-bootstrap", from_unix(0))
        .unwrap();
    store
}

fn spec(store: &Store) -> Value {
    store.get(&version_key()).unwrap()["spec"].clone()
}

fn apply(store: &mut Store, spec: Value, manager: &str, force: bool) -> Result<Value, ApiError> {
    store.apply(&version_key(), &version(spec), manager, force, from_unix(1))
}

#[test]
fn server_side_apply_keeps_sibling_leaves_of_granular_maps() {
    let mut store = store_with_version();
    let mut object = store.get(&version_key()).unwrap();
    object["spec"]["desiredUpdate"] = json!({"version": "4.11.5", "image": "quay.io/x", "force": true});
    store.replace(&version_key(), &object, "oc").unwrap();
    apply(
        &mut store,
        json!({"clusterID": "c", "desiredUpdate": {"version": "4.12.0"}}),
        "mcu",
        true,
    )
    .unwrap();
    assert_eq!(
        spec(&store)["desiredUpdate"],
        json!({"version": "4.12.0", "image": "quay.io/x", "force": true})
    );
    assert_eq!(spec(&store)["upstream"], "https://graph");
    assert_eq!(spec(&store)["overrides"][0]["name"], "d");
}

#[test]
fn a_conflict_without_force_names_manager_and_fields_and_changes_nothing() {
    let mut store = store_with_version();
    let before = store.get(&version_key());
    let wanted = json!({"clusterID": "c", "channel": "stable-4.12"});
    let error = apply(&mut store, wanted.clone(), "mcu", false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"cluster-bootstrap\" using config.openshift.io/v1: .spec.channel"
    );
    assert_eq!(store.get(&version_key()), before);
    apply(&mut store, wanted, "mcu", true).unwrap();
    assert_eq!(spec(&store)["channel"], "stable-4.12");
    let error = apply(
        &mut store,
        json!({"clusterID": "d", "channel": "x"}),
        "other",
        false,
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 3 conflicts: conflicts with \"cluster-bootstrap\" using config.openshift.io/v1:\n\
         - .spec.clusterID\nconflicts with \"mcu\":\n- .spec.channel\n- .spec.clusterID"
    );
}

#[test]
fn equal_values_are_owned_together() {
    let mut store = store_with_version();
    apply(
        &mut store,
        json!({"clusterID": "c", "channel": "stable-4.11"}),
        "mcu",
        false,
    )
    .unwrap();
    apply(&mut store, json!({"clusterID": "c"}), "mcu", false).unwrap();
    assert_eq!(
        spec(&store)["channel"],
        "stable-4.11",
        "the other owner still wants it"
    );
}

#[test]
fn a_field_its_only_owner_no_longer_applies_is_removed_with_its_empty_parents() {
    let mut store = store_with_version();
    let full = json!({"clusterID": "c", "desiredUpdate": {"version": "4.12.0", "force": false}});
    apply(&mut store, full, "mcu", true).unwrap();
    apply(&mut store, json!({"clusterID": "c"}), "mcu", true).unwrap();
    assert_eq!(spec(&store).get("desiredUpdate"), None);
    assert_eq!(spec(&store)["upstream"], "https://graph");
}

#[test]
fn a_second_work_with_the_same_manager_removes_what_the_first_applied() {
    let mut store = store_with_version();
    apply(
        &mut store,
        json!({"clusterID": "c", "desiredUpdate": {"version": "4.12.0"}}),
        "work-agent",
        true,
    )
    .unwrap();
    apply(
        &mut store,
        json!({"clusterID": "c", "channel": "fast-4.12"}),
        "work-agent",
        true,
    )
    .unwrap();
    assert_eq!(spec(&store).get("desiredUpdate"), None);
    let mut store = store_with_version();
    apply(
        &mut store,
        json!({"clusterID": "c", "desiredUpdate": {"version": "4.12.0"}}),
        "one",
        true,
    )
    .unwrap();
    apply(
        &mut store,
        json!({"clusterID": "c", "channel": "fast-4.12"}),
        "two",
        true,
    )
    .unwrap();
    assert_eq!(spec(&store)["desiredUpdate"]["version"], "4.12.0");
}

#[test]
fn keyed_lists_merge_by_key_and_atomic_lists_are_replaced() {
    let mut store = Store::new(SeededRng::new(1));
    let key = ObjectKey::parse("deployments.apps", "default", "web");
    let deployment = |containers: Value, args: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"template": {"spec": {"containers": containers, "tolerations": args}}}})
    };
    store
        .create(
            &key,
            &deployment(json!([{"name": "a", "image": "1"}, {"name": "b"}]), json!([1])),
            "kubectl",
            from_unix(0),
        )
        .unwrap();
    let config = deployment(json!([{"name": "a", "image": "2"}, {"name": "c"}]), json!([2]));
    store.apply(&key, &config, "mcu", true, from_unix(0)).unwrap();
    let pod = store.get(&key).unwrap()["spec"]["template"]["spec"].clone();
    assert_eq!(
        pod["containers"],
        json!([{"name": "a", "image": "2"}, {"name": "b"}, {"name": "c"}])
    );
    assert_eq!(pod["tolerations"], json!([2]));
    store
        .apply(
            &key,
            &deployment(json!([{"name": "a", "image": "2"}]), json!([2])),
            "mcu",
            true,
            from_unix(0),
        )
        .unwrap();
    let pod = store.get(&key).unwrap()["spec"]["template"]["spec"].clone();
    assert_eq!(
        pod["containers"],
        json!([{"name": "a", "image": "2"}, {"name": "b"}])
    );
}

#[test]
fn a_put_wipes_what_it_leaves_out_but_not_status() {
    let mut store = store_with_version();
    store.amend(&version_key(), |object| object["status"] = json!({"history": []}));
    store
        .replace(&version_key(), &version(json!({"clusterID": "c"})), "work")
        .unwrap();
    assert_eq!(spec(&store), json!({"clusterID": "c"}));
    assert_eq!(
        store.get(&version_key()).unwrap()["status"],
        json!({"history": []})
    );
}

#[test]
fn generation_counts_spec_changes_only() {
    let mut store = store_with_version();
    let generation =
        |store: &Store| fields::integer(&store.get(&version_key()).unwrap(), &["metadata", "generation"]);
    assert_eq!(generation(&store), Some(1));
    store.amend(&version_key(), |object| object["status"] = json!({"x": 1}));
    assert_eq!(generation(&store), Some(1));
    let revision = store.revision();
    apply(
        &mut store,
        json!({"clusterID": "c", "channel": "stable-4.11"}),
        "mcu",
        true,
    )
    .unwrap();
    assert_eq!(
        (generation(&store), store.revision()),
        (Some(1), revision),
        "nothing changed, nothing is written"
    );
    apply(&mut store, json!({"clusterID": "c", "channel": "x"}), "mcu", true).unwrap();
    assert_eq!(generation(&store), Some(2));
}

#[test]
fn a_cluster_version_without_cluster_id_or_with_wrong_types_is_refused() {
    let mut store = Store::new(SeededRng::new(1));
    let error = apply(&mut store, json!({"channel": "x"}), "mcu", true).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ClusterVersion.config.openshift.io \"version\" is invalid: [spec.clusterID: Required value, <nil>: Invalid value: \
         null: some validation rules were not checked because the object was invalid; correct the existing errors to \
         complete validation]"
    );
    let mut store = store_with_version();
    apply(&mut store, json!({"channel": "x"}), "mcu", true).unwrap();
    let error = apply(
        &mut store,
        json!({"desiredUpdate": {"version": 4.12}}),
        "mcu",
        true,
    )
    .unwrap_err();
    assert!(
        error.to_string().contains("must be of type string: \"number\""),
        "{error}"
    );
}

#[test]
fn a_namespace_must_exist_and_takes_its_content_along() {
    let mut store = Store::new(SeededRng::new(1));
    let map = ObjectKey::parse("configmaps", "team", "m");
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "team"}});
    let error = store.create(&map, &object, "k", from_unix(0)).unwrap_err();
    assert_eq!(error.to_string(), "namespaces \"team\" not found");
    let namespace = ObjectKey::parse("namespaces", "", "team");
    store
        .create(
            &namespace,
            &json!({"apiVersion": "v1", "kind": "Namespace"}),
            "k",
            from_unix(0),
        )
        .unwrap();
    store.create(&map, &object, "k", from_unix(0)).unwrap();
    assert_eq!(store.delete(&namespace, from_unix(1)), Deletion::Gone);
    assert_eq!(store.get(&map), None);
}

#[test]
fn finalizers_hold_an_object_until_they_are_gone() {
    let mut store = Store::new(SeededRng::new(1));
    let key = ObjectKey::parse("configmaps", "default", "m");
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "finalizers": ["x/y"]}});
    store.create(&key, &object, "k", from_unix(0)).unwrap();
    assert_eq!(store.delete(&key, from_unix(1)), Deletion::Held);
    assert!(store.get(&key).unwrap()["metadata"]["deletionTimestamp"].is_string());
    store.amend(&key, |object| {
        fields::object_at(object, &["metadata"]).remove("finalizers");
    });
    assert_eq!(store.get(&key), None);
}

#[test]
fn dependents_go_with_their_last_owner() {
    let mut store = Store::new(SeededRng::new(1));
    let owner = ObjectKey::parse("jobs.batch", "default", "j");
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"},
        "spec": {"template": {}}});
    let uid = store.create(&owner, &job, "k", from_unix(0)).unwrap()["metadata"]["uid"].clone();
    let pod = |name: &str, owners: Value| {
        (
            ObjectKey::parse("pods", "default", name),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "ownerReferences": owners}}),
        )
    };
    let (alone, object) = pod("alone", json!([{"uid": uid}]));
    store.create(&alone, &object, "k", from_unix(0)).unwrap();
    let (shared, object) = pod("shared", json!([{"uid": uid}, {"uid": "another"}]));
    store.create(&shared, &object, "k", from_unix(0)).unwrap();
    store.delete(&owner, from_unix(1));
    assert!(store.get(&alone).is_none());
    assert!(store.get(&shared).is_some());
}

#[test]
fn a_job_without_selector_gets_one_and_can_then_not_be_put_again() {
    let mut store = Store::new(SeededRng::new(1));
    let key = ObjectKey::parse("jobs.batch", "default", "j");
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"},
        "spec": {"template": {"spec": {"restartPolicy": "Never"}}}});
    let created = store.create(&key, &job, "k", from_unix(0)).unwrap();
    assert!(created["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"].is_string());
    let error = store.replace(&key, &job, "k").unwrap_err().to_string();
    assert!(
        error.starts_with("Job.batch \"j\" is invalid: [spec.selector: Required value"),
        "{error}"
    );
    assert!(error.contains("field is immutable"), "{error}");
}

#[test]
fn a_job_with_its_own_selector_can_be_put_again() {
    let mut store = Store::new(SeededRng::new(1));
    let key = ObjectKey::parse("jobs.batch", "default", "j");
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"},
        "spec": {"manualSelector": true, "selector": {"matchLabels": {"job-name": "j"}},
            "template": {"metadata": {"labels": {"job-name": "j"}}, "spec": {"restartPolicy": "Never"}}}});
    store.create(&key, &job, "k", from_unix(0)).unwrap();
    store.replace(&key, &job, "k").unwrap();
    job["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure".into();
    assert!(store.replace(&key, &job, "k").is_err());
}

/// Small configurations over a fixed set of fields.
fn configs() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), (0..3_i32).prop_map(|n| json!(n)).boxed()];
    let update = proptest::collection::btree_map("[abc]", leaf.clone(), 0..3);
    (
        proptest::collection::btree_map("[wxyz]", leaf, 0..4),
        proptest::option::of(update),
    )
        .prop_map(|(flat, nested)| {
            let mut spec: Map<String, Value> = flat.into_iter().filter(|(_, v)| !v.is_null()).collect();
            if let Some(nested) = nested.filter(|nested| !nested.is_empty()) {
                spec.insert("nested".into(), nested.into_iter().collect::<Map<_, _>>().into());
            }
            json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec})
        })
}

fn subset(small: &Value, big: &Value) -> bool {
    match (small, big) {
        (Value::Object(small), Value::Object(big)) => small
            .iter()
            .all(|(key, value)| big.get(key).is_some_and(|have| subset(value, have))),
        (a, b) => a == b,
    }
}

proptest! {
    #[test]
    fn applying_twice_changes_nothing_more(one in configs(), two in configs()) {
        let mut store = Store::new(SeededRng::new(1));
        let key = ObjectKey::parse("things.example.com", "", "t");
        store.apply(&key, &one, "a", true, from_unix(0)).unwrap();
        store.apply(&key, &two, "b", true, from_unix(0)).unwrap();
        let (object, managers) = (store.get(&key), store.managers(&key));
        store.apply(&key, &two, "b", true, from_unix(0)).unwrap();
        prop_assert_eq!(store.get(&key), object);
        prop_assert_eq!(store.managers(&key), managers);
    }

    #[test]
    fn what_is_applied_by_force_is_there(one in configs(), two in configs()) {
        let mut store = Store::new(SeededRng::new(1));
        let key = ObjectKey::parse("things.example.com", "", "t");
        store.apply(&key, &one, "a", true, from_unix(0)).unwrap();
        store.apply(&key, &two, "b", true, from_unix(0)).unwrap();
        let live = store.get(&key).unwrap();
        prop_assert!(subset(&two["spec"], &live["spec"]), "{} in {}", two, live);
    }

    #[test]
    fn letting_go_removes_only_what_was_ones_own(one in configs(), two in configs()) {
        let mut store = Store::new(SeededRng::new(1));
        let key = ObjectKey::parse("things.example.com", "", "t");
        store.apply(&key, &one, "a", true, from_unix(0)).unwrap();
        let alone = store.get(&key).unwrap();
        // b takes nothing over: only fields a does not have
        let mut more = two.clone();
        more["spec"] = json!({"other": two["spec"].clone()});
        store.apply(&key, &more, "b", false, from_unix(0)).unwrap();
        more["spec"] = json!({});
        store.apply(&key, &more, "b", false, from_unix(0)).unwrap();
        let live = store.get(&key).unwrap();
        prop_assert_eq!(&live["spec"], &alone["spec"]);
    }
}
