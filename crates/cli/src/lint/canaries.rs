//! Canaries that are all clusters, so that nothing is tried before the rest.

use serde_json::Value;

use super::schema::Problem;

/// Warns about a selector of canaries without a term. `object`: as written, without defaults.
pub(super) fn are_all_clusters(object: &Value) -> Option<Problem> {
    let selector = object
        .pointer("/spec/upgradeStrategy/canaryClusters/clusterSelector")?
        .as_object()?;
    let has = |field: &str| match selector.get(field) {
        Some(Value::Array(list)) => !list.is_empty(),
        Some(Value::Object(labels)) => !labels.is_empty(),
        Some(Value::Null) | None => false,
        // Of another type, which is an error of its own.
        Some(_) => true,
    };
    let is_empty = !["clusterSets", "matchLabels", "matchExpressions"]
        .into_iter()
        .any(has);
    is_empty.then(|| {
        Problem::warning(
            "spec.upgradeStrategy.canaryClusters.clusterSelector",
            "selects every cluster of every bound set: all become canaries, and those that the upgrade does not select are added to it; name labels, or remove canaryClusters",
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn warned(selector: &Value) -> bool {
        let object = json!({"spec": {"upgradeStrategy": {"canaryClusters": {"clusterSelector": selector}}}});
        are_all_clusters(&object).is_some_and(|problem| problem.warning)
    }

    #[test]
    fn a_selector_of_canaries_that_selects_every_cluster_is_named() {
        for selector in [
            json!({}),
            json!({"matchLabels": {}, "matchExpressions": [], "clusterSets": null}),
        ] {
            assert!(warned(&selector), "{selector}");
        }
    }

    #[test]
    fn canaries_that_are_some_clusters_or_none_are_left_alone() {
        for selector in [
            json!({"matchLabels": {"canary": "true"}}),
            json!({"clusterSets": ["canaries"]}),
            json!({"matchExpressions": [{"key": "canary", "operator": "Exists"}]}),
            json!({"matchLabels": "canary"}),
            json!("canary"),
            Value::Null,
        ] {
            assert!(!warned(&selector), "{selector}");
        }
        assert!(are_all_clusters(&json!({"spec": {"upgradeStrategy": {"canaryClusters": {}}}})).is_none());
    }
}
