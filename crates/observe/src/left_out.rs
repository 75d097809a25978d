//! The clusters that a spec leaves out.

use std::sync::Arc;

use ahash::AHashMap;
use api::mcu::{LeftOutCluster, UpgradeStrategy};
use rollout::{Cluster, LeftOut};

/// The clusters that a spec skips or aborts, by name.
pub(crate) struct LeftOutClusters<'a> {
    requests: AHashMap<&'a str, (&'a LeftOutCluster, bool)>,
}

impl<'a> LeftOutClusters<'a> {
    pub(crate) fn new(strategy: Option<&'a UpgradeStrategy>) -> LeftOutClusters<'a> {
        let lists = strategy.map(|strategy| [(&strategy.skip, false), (&strategy.abort, true)]);
        LeftOutClusters {
            requests: lists
                .into_iter()
                .flatten()
                .flat_map(|(list, aborts)| list.iter().map(move |one| (one.cluster.as_str(), (one, aborts))))
                .collect(),
        }
    }

    /// How and why a cluster is left out, if it is: a canary only if that is acknowledged.
    pub(crate) fn of(&self, cluster: &Cluster) -> Option<LeftOut> {
        let (request, aborts) = self.requests.get(&*cluster.name)?;
        let is_meant = !cluster.canary || request.acknowledge_canary;
        is_meant.then(|| LeftOut {
            reason: Arc::from(request.reason.trim()),
            aborts: *aborts,
        })
    }
}

/// What is odd about the clusters that a spec leaves out, given those that are selected and whether each is a canary.
pub(crate) fn notes(strategy: &UpgradeStrategy, is_canary: impl Fn(&str) -> Option<bool>) -> Vec<String> {
    let mut notes = Vec::new();
    for (list, field, done) in [
        (&strategy.skip, "skip", "skipped"),
        (&strategy.abort, "abort", "aborted"),
    ] {
        let mut unknown = list
            .iter()
            .filter(|request| is_canary(&request.cluster).is_none());
        let count = unknown.clone().count();
        notes.extend(unknown.next().map(|first| {
            format!(
                "spec.upgradeStrategy.{field} names clusters that are not selected ({count}, such as {})",
                first.cluster
            )
        }));
        let mut canaries = list
            .iter()
            .filter(|request| !request.acknowledge_canary && is_canary(&request.cluster) == Some(true));
        notes.extend(canaries.next().map(|first| {
            format!(
                "Canary {} is not {done}: the other clusters would start without it. Set acknowledgeCanary in its entry of spec.upgradeStrategy.{field}.",
                first.cluster
            )
        }));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(cluster: &str, acknowledge_canary: bool) -> LeftOutCluster {
        LeftOutCluster {
            cluster: cluster.to_owned(),
            reason: " no power ".to_owned(),
            acknowledge_canary,
        }
    }

    fn strategy(skip: Vec<LeftOutCluster>, abort: Vec<LeftOutCluster>) -> UpgradeStrategy {
        UpgradeStrategy {
            skip,
            abort,
            ..UpgradeStrategy::default()
        }
    }

    #[test]
    fn a_canary_is_left_out_only_if_that_is_acknowledged() {
        let strategy = strategy(
            vec![request("a", false), request("b", false), request("c", true)],
            vec![request("d", false)],
        );
        let left_out = LeftOutClusters::new(Some(&strategy));
        let fleet = rollout::testing::fleet()
            .cluster("a")
            .cluster("b")
            .canary()
            .cluster("c")
            .canary()
            .cluster("d")
            .cluster("e")
            .build();
        let found: Vec<Option<bool>> = fleet
            .clusters
            .iter()
            .map(|cluster| left_out.of(cluster).map(|left_out| left_out.aborts))
            .collect();
        assert_eq!(found, [Some(false), None, Some(false), Some(true), None]);
        assert_eq!(&*left_out.of(&fleet.clusters[0]).unwrap().reason, "no power");
    }

    #[test]
    fn what_is_not_selected_or_needs_an_acknowledgment_is_noted() {
        let is_canary = |name: &str| (name != "z").then_some(name == "b");
        let fine = strategy(vec![request("a", false)], vec![request("b", true)]);
        assert_eq!(notes(&fine, is_canary), Vec::<String>::new());
        let odd = strategy(vec![request("z", false)], vec![request("b", false)]);
        let notes = notes(&odd, is_canary);
        assert!(
            notes[0].contains("skip names clusters that are not selected (1, such as z)"),
            "{notes:?}"
        );
        assert!(notes[1].starts_with("Canary b is not aborted"), "{notes:?}");
    }
}
