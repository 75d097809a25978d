use chrono::{DateTime, TimeDelta};
use rollout::forecast::{ClusterClass, PastUpdate, VersionChange};
use serde_json::json;

use super::*;
use crate::index::Change;
use crate::testing::{answered, cluster, probe, status_of_probe};

#[test]
fn size_and_past_of_a_cluster_are_what_it_claims_and_answers() {
    let mut index = Index::default();
    assert_eq!(of(&index, "c1"), Profile::default());
    let mut single = cluster("c1");
    single.status = serde_json::from_value(json!({
        "clusterClaims": [{"name": "controlplanetopology.openshift.io", "value": "SingleReplica"}],
    }))
    .unwrap();
    index.cluster(&Change::Applied(single));
    let mut status = status_of_probe();
    let rule = json!({"type": "UpgradeHistory", "status": "True", "message":
        "history/1\n4.20.3 2026-03-01T10:00:00Z 2026-03-01T10:40:00Z\n4.20.1 2026-01-01T10:00:00Z 2026-01-01T10:40:00Z"});
    let conditions = &mut status["resourceStatus"]["manifests"][0]["conditions"];
    conditions.as_array_mut().unwrap().push(rule);
    let asked = answered(probe("c1", ("u1", "ns/u1"), "h1", 1), status, 2);
    index.work(&Change::Applied(asked), DateTime::UNIX_EPOCH);
    let known = of(&index, "c1");
    assert_eq!(known.class, ClusterClass::SingleNode);
    let expected = PastUpdate {
        change: VersionChange::Patch,
        took: TimeDelta::minutes(40),
    };
    assert_eq!(known.history, [expected]);
    // The probe goes when the update is requested, and the next one is not answered at first.
    let uid = index.probe("c1").unwrap().uid.to_string();
    index.remove_probe("c1", &uid);
    assert_eq!(of(&index, "c1").history, [expected]);
    let next = probe("c1", ("u2", "ns/u2"), "h1", 3);
    index.work(&Change::Applied(next), DateTime::UNIX_EPOCH);
    assert_eq!(of(&index, "c1").history, [expected]);
    index.cluster(&Change::Deleted(cluster("c1")));
    assert!(
        of(&index, "c1").history.is_empty(),
        "another cluster may get the name"
    );
}
