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
