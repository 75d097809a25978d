//! Agents before OCM v0.14, which do not know the update strategy `ReadOnly`.

use super::*;

fn reading() -> Value {
    json!({
        "manifestConfigs": [{
            "resourceIdentifier": {"group": "config.openshift.io", "resource": "clusterversions", "name": "version", "namespace": ""},
            "updateStrategy": {"type": "ReadOnly"},
        }],
        "workload": {"manifests": [{
            "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        }]},
    })
}

#[test]
fn an_old_agent_reads_nothing_by_a_work_that_only_reads_and_goes_on_with_others() {
    let mut bench = Bench::new(|_| {});
    bench.cluster("old", Some("old-agent"));
    bench.cluster("new", None);
    for cluster in ["old", "new"] {
        bench.create(cluster, "reads", &reading());
        bench.create(cluster, "update", &update("4.12.0"));
    }
    bench.pass(300);
    let read = |cluster: &str, work: &str| {
        bench.work(cluster, work)["status"]["resourceStatus"]["manifests"][0]["resourceMeta"]["name"].clone()
    };
    for (cluster, work) in [("new", "reads"), ("new", "update"), ("old", "update")] {
        assert_eq!(read(cluster, work), "version", "{cluster} {work}");
    }
    assert_eq!(read("old", "reads"), "");
}
