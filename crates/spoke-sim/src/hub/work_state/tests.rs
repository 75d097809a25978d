use serde_json::json;

use super::*;
use crate::fields::from_unix;

fn view(version: u32, is_deleted: bool) -> WorkView {
    let metadata = json!({
        "uid": "u",
        "resourceVersion": version.to_string(),
        "generation": 1,
        "finalizers": [FINALIZER],
        "deletionTimestamp": is_deleted.then_some("2027-01-01T00:00:00Z"),
    });
    let text = json!({"metadata": metadata, "spec": {}}).to_string();
    serde_json::from_str(&text).unwrap()
}

/// The storage of the hub goes back to before a deletion for which the agent has deleted all objects.
#[test]
fn a_deletion_that_was_taken_back_is_carried_out_anew_when_it_comes_again() {
    let now = from_unix(1_800_000_000);
    let mut interner = Interner::default();
    let mut work = WorkState::new(&view(1, false));
    work.update(&view(1, false), &mut interner, now);
    work.update(&view(2, true), &mut interner, now);
    assert_eq!(work.wants(), None, "its objects are deleted first");
    work.finalized = true;
    assert_eq!(work.wants(), Some(WriteKind::Release));
    work.forget_version();
    work.update(&view(1, false), &mut interner, now);
    work.update(&view(3, true), &mut interner, now);
    assert_eq!(work.wants(), None, "its objects are deleted first");
}

fn view_of(version: u32, generation: i64, manifests: &serde_json::Value) -> WorkView {
    let metadata = json!({
        "uid": "u",
        "resourceVersion": version.to_string(),
        "generation": generation,
        "finalizers": [FINALIZER],
    });
    let text = json!({"metadata": metadata, "spec": {"workload": {"manifests": manifests}}}).to_string();
    serde_json::from_str(&text).unwrap()
}

/// A deletion counts a generation, the storage of the hub goes back to before it, and an edit counts the same generation again.
#[test]
fn another_spec_of_the_same_generation_is_applied() {
    let now = from_unix(1_800_000_000);
    let mut interner = Interner::default();
    let before = view_of(4, 2, &json!([]));
    let mut work = WorkState::new(&before);
    work.update(&before, &mut interner, now);
    work.apply_at = None;
    work.update(&view_of(5, 2, &json!([])), &mut interner, now);
    assert_eq!(work.apply_at, None, "nothing has changed");
    work.forget_version();
    let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
    work.update(&view_of(5, 2, &json!([manifest])), &mut interner, now);
    assert_eq!(work.apply_at, Some(now));
    assert_eq!(work.spec.map(|spec| spec.manifests.len()), Some(1));
}
