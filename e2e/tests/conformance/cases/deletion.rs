//! Every rule of who goes with a work.

use serde_json::{Value, json};

use super::Step::{Delete, Second, Work};
use super::{Case, map, widget, work, work_deleted};

/// See the module.
pub fn all() -> Vec<Case> {
    vec![
        foreground(),
        orphan(),
        selective(),
        rules_match_exactly(),
        shared(),
        left_out(),
        turned_orphan(),
        namespace_with_content(),
    ]
}

fn foreground() -> Case {
    let spec = work_deleted(
        &[
            map("foreground", &json!({"a": "1"})),
            widget("foreground", &json!({})),
        ],
        &json!({"propagationPolicy": "Foreground"}),
    );
    Case::new("foreground-deletes", vec![Work(spec), Delete])
}

fn orphan() -> Case {
    let spec = work_deleted(
        &[map("orphan", &json!({"a": "1"}))],
        &json!({"propagationPolicy": "Orphan"}),
    );
    Case::new("orphan-keeps", vec![Work(spec), Delete])
}

fn selectively(rules: &Value) -> Value {
    json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": rules}})
}

fn selective() -> Case {
    let rules = json!([{"group": "example.com", "resource": "widgets", "namespace": "conf", "name": "selective-kept"}]);
    let spec = work_deleted(
        &[
            widget("selective-kept", &json!({})),
            widget("selective-gone", &json!({})),
            map("selective-kept", &json!({})),
        ],
        &selectively(&rules),
    );
    Case::new("selectively-orphaned", vec![Work(spec), Delete])
}

/// Neither wildcards nor kinds nor missing fields match.
fn rules_match_exactly() -> Case {
    let rules = json!([
        {"group": "example.com", "resource": "widgets", "namespace": "conf", "name": "*"},
        {"group": "example.com", "resource": "Widget", "namespace": "conf", "name": "exactly-a"},
        {"group": "", "resource": "Widget.example.com", "namespace": "conf", "name": "exactly-a"},
        {"group": "example.com", "resource": "widgets", "namespace": "", "name": "exactly-a"},
        {"group": "*", "resource": "widgets", "namespace": "conf", "name": "exactly-a"},
        {"group": "example.com", "resource": "widgets", "namespace": "conf", "name": "exactly-b"},
    ]);
    let spec = work_deleted(
        &[widget("exactly-a", &json!({})), widget("exactly-b", &json!({}))],
        &selectively(&rules),
    );
    Case::new("orphaning-rules-match-exactly", vec![Work(spec), Delete])
}

/// An object that two works own stays as long as one of them does.
fn shared() -> Case {
    let spec = work(&[map("shared", &json!({"a": "1"}))], &[]);
    Case::new(
        "shared-by-two-works",
        vec![Work(spec.clone()), Second(spec), Delete],
    )
}

/// What a work no longer names goes, unless it is kept by a rule.
fn left_out() -> Case {
    let both = [map("left-a", &json!({})), map("left-b", &json!({}))];
    let rules = json!([{"group": "", "resource": "configmaps", "namespace": "conf", "name": "left-b"}]);
    Case::new(
        "left-out-of-the-work",
        vec![
            Work(work_deleted(&both, &selectively(&rules))),
            Work(work_deleted(&[map("left-c", &json!({}))], &selectively(&rules))),
            Delete,
        ],
    )
}

/// A policy that changes takes the owner away again.
fn turned_orphan() -> Case {
    let manifests = [map("turned", &json!({"a": "1"}))];
    let of = |policy: &str| work_deleted(&manifests, &json!({"propagationPolicy": policy}));
    Case::new(
        "turned-orphan",
        vec![Work(of("Foreground")), Work(of("Orphan")), Delete],
    )
}

/// A namespace goes with all that is in it.
fn namespace_with_content() -> Case {
    let mut inside = map("inside", &json!({"a": "1"}));
    inside["metadata"]["namespace"] = json!("conf-inner");
    let outer = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "conf-inner"}});
    Case::new(
        "namespace-with-content",
        vec![Work(work(&[outer, inside], &[])), Delete],
    )
}
