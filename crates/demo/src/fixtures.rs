//! The data of the demo: names of clusters, sets, the upgrade and its actions.

use std::path::Path;

use serde_json::{Value, json};

use super::fleet::Fleet;

/// Namespace of the upgrade, its Placement and the bindings.
pub const NAMESPACE: &str = "upgrades";
/// The Placement that chooses the fleet.
pub const PLACEMENT: &str = "all-regions";
/// The upgrade.
pub const UPGRADE: &str = "fleet-4-20";
/// Version before.
pub const FROM: &str = "4.19.15";
/// Version after.
pub const TO: &str = "4.20.4";
/// The two cluster sets.
pub const SETS: [&str; 2] = ["americas", "europe"];
/// Fewest clusters: in each set a canary and one that has trouble.
pub const FEWEST: usize = 4;
/// What goes wrong on the cluster that fails, as the simulator understands it.
pub const FAILURE: &str = "failing=Cluster operator network is degraded: 2 of 6 nodes are not reachable";
/// Why the other cluster refuses.
pub const REFUSAL: &str = "refusing=AdminAckRequired: Kubernetes 1.33 removes APIs that are in use: an administrator must acknowledge that";

/// The fleet by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixtures {
    /// Clusters of each set, by name.
    pub clusters: [Vec<String>; 2],
    /// The first cluster of each set.
    pub canaries: [String; 2],
    /// Starts well and fails in mid-update.
    pub failing: String,
    /// Does not accept the release.
    pub refusing: String,
}

impl Fixtures {
    /// The fleet of `count` clusters, at least [`FEWEST`].
    #[must_use]
    pub fn new(count: usize) -> Self {
        let count = count.max(FEWEST);
        let width = count.div_ceil(2).to_string().len().max(2);
        let named = |set: &str, count: usize| -> Vec<String> {
            (1..=count)
                .map(|number| format!("{set}-{number:0width$}"))
                .collect()
        };
        let clusters = [named(SETS[0], count / 2), named(SETS[1], count - count / 2)];
        let pick = |set: usize, index: usize| clusters[set].get(index).cloned().unwrap_or_default();
        Self {
            canaries: [pick(0, 0), pick(1, 0)],
            refusing: pick(0, clusters[0].len() / 2),
            failing: pick(1, clusters[1].len() / 2),
            clusters,
        }
    }

    /// How many clusters there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.clusters.iter().map(Vec::len).sum()
    }

    /// The clusters in their sets, bound to the upgrade's namespace.
    #[must_use]
    pub fn fleet(&self) -> Fleet {
        let sets = SETS.map(str::to_owned).into_iter();
        Fleet {
            sets: sets.zip(self.clusters.clone()).collect(),
            namespace: NAMESPACE.to_owned(),
            placement: PLACEMENT.to_owned(),
            version: FROM.to_owned(),
        }
    }

    /// Says what there is at the beginning.
    #[must_use]
    pub fn introduction(&self) -> String {
        format!(
            "{} simulated clusters at {FROM} in the sets {}, each behind a simulated work agent",
            self.len(),
            SETS.join(" and ")
        )
    }

    /// Commands to look around with on a hub that is kept.
    #[must_use]
    pub fn commands(&self, kubeconfig: &Path, programs: &str) -> String {
        let failing = &self.failing;
        format!(
            "\n  \
             export KUBECONFIG={}\n  \
             export PATH={programs}:$PATH\n  \
             kubectl get mcu -n {NAMESPACE} -o wide\n  \
             kubectl mcu status {UPGRADE} -n {NAMESPACE}\n  \
             kubectl mcu clusters {UPGRADE} -n {NAMESPACE}\n  \
             kubectl mcu why {UPGRADE} {failing} -n {NAMESPACE}\n  \
             kubectl get events -n {NAMESPACE} --sort-by=.metadata.creationTimestamp\n  \
             kubectl patch mcu {UPGRADE} -n {NAMESPACE} --type=merge -p '{{\"spec\":{{\"clusterVersion\":{{\"version\":\"4.20.5\"}}}}}}'\n\n\
             Without kubectl, write kubectl-mcu for kubectl mcu.",
            kubeconfig.display()
        )
    }

    /// The upgrade.
    #[must_use]
    pub fn upgrade(&self) -> Value {
        json!({
            "apiVersion": format!("{}/{}", api::GROUP, api::VERSION), "kind": "ManagedClustersUpgrade",
            "metadata": {"namespace": NAMESPACE, "name": UPGRADE},
            "spec": self.spec(),
        })
    }

    fn spec(&self) -> Value {
        json!({
            "placement": [{"name": PLACEMENT}],
            "clusterVersion": {"channel": "stable-4.20", "version": TO},
            "ocpOperators": {"approveAllUpgrades": true},
            "upgradeStrategy": {
                "canaryClusters": {"clusterSelector": {"matchExpressions": [
                    {"key": "name", "operator": "In", "values": self.canaries},
                ]}},
                "maxConcurrency": "25%",
                "clusterUpgradeTimeout": "20s",
                "operatorsUpgradeTimeout": "10m",
            },
            "preUpgradeAction": action("etcd-backup", "/usr/local/bin/cluster-backup.sh /var/backup"),
            "postUpgradeAction": action("smoke-test", "oc wait clusteroperators --all --for=condition=Available"),
        })
    }
}

/// An action: a Job in a separate namespace.
fn action(name: &str, command: &str) -> Value {
    json!({"manifestWork": {"workload": {"manifests": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        {
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "namespace": name},
            "spec": {"backoffLimit": 2, "template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{
                    "name": name, "image": "registry.redhat.io/openshift4/ose-cli:latest",
                    "command": ["/bin/bash", "-c", command],
                }],
            }}},
        },
    ]}}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn canaries_and_troubled_clusters_are_four_different_clusters_of_both_sets() {
        for count in [0, 4, 5, 24, 1000] {
            let fixtures = Fixtures::new(count);
            let roles: BTreeSet<&String> = fixtures
                .canaries
                .iter()
                .chain([&fixtures.failing, &fixtures.refusing])
                .collect();
            assert_eq!(roles.len(), 4, "{count}");
            assert_eq!(fixtures.len(), count.max(FEWEST));
        }
    }

    #[test]
    fn names_sort_in_the_order_of_their_numbers() {
        let fixtures = Fixtures::new(300);
        for names in &fixtures.clusters {
            assert!(names.is_sorted());
        }
    }

    #[test]
    fn the_spec_keeps_every_rule() {
        let upgrade = Fixtures::new(24).upgrade();
        let upgrade: api::ManagedClustersUpgrade = serde_json::from_value(upgrade).unwrap();
        assert!(upgrade.spec.pre_upgrade_action.is_some() && upgrade.spec.post_upgrade_action.is_some());
    }

    #[test]
    fn the_faults_are_such_that_the_simulator_knows() {
        for fault in [FAILURE, REFUSAL] {
            let faults = spoke_sim::Faults::parse(fault, spoke_sim::fault::Simulator::Agents);
            assert!(faults.is_ok_and(|faults| !faults.is_empty()));
        }
    }
}
