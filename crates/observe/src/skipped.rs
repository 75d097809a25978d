//! The clusters that a spec skips.

use std::sync::Arc;

use ahash::AHashMap;
use api::mcu::{ManagedClustersUpgradeSpec, SkipRequest};
use rollout::Cluster;

/// The clusters that a spec skips, by name.
pub(crate) struct Skipped<'a> {
    requests: AHashMap<&'a str, &'a SkipRequest>,
}

impl<'a> Skipped<'a> {
    pub(crate) fn new(spec: Option<&'a ManagedClustersUpgradeSpec>) -> Skipped<'a> {
        let requests = spec.map_or(&[][..], |spec| &spec.upgrade_strategy.skip);
        Skipped {
            requests: requests
                .iter()
                .map(|request| (request.cluster.as_str(), request))
                .collect(),
        }
    }

    /// Why a cluster is skipped, if it is: a canary only if that is acknowledged.
    pub(crate) fn of(&self, cluster: &Cluster) -> Option<Arc<str>> {
        let request = self.requests.get(&*cluster.name)?;
        let is_meant = !cluster.canary || request.acknowledge_canary;
        is_meant.then(|| Arc::from(request.reason.trim()))
    }
}

/// What is odd about the clusters that a spec skips, given those that are selected and whether each is a canary.
pub(crate) fn notes(skip: &[SkipRequest], is_canary: impl Fn(&str) -> Option<bool>) -> Vec<String> {
    let mut unknown = skip
        .iter()
        .filter(|request| is_canary(&request.cluster).is_none());
    let count = unknown.clone().count();
    let unselected = unknown.next().map(|first| {
        format!(
            "spec.upgradeStrategy.skip names clusters that are not selected ({count}, such as {})",
            first.cluster
        )
    });
    let mut canaries = skip
        .iter()
        .filter(|request| !request.acknowledge_canary && is_canary(&request.cluster) == Some(true));
    let canary = canaries.next().map(|first| {
        format!(
            "Canary {} is not skipped: the other clusters would start without it. Set acknowledgeCanary in its entry of spec.upgradeStrategy.skip.",
            first.cluster
        )
    });
    unselected.into_iter().chain(canary).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(cluster: &str, acknowledge_canary: bool) -> SkipRequest {
        SkipRequest {
            cluster: cluster.to_owned(),
            reason: " no power ".to_owned(),
            acknowledge_canary,
        }
    }

    #[test]
    fn a_canary_is_skipped_only_if_that_is_acknowledged() {
        let mut spec = ManagedClustersUpgradeSpec::default();
        spec.upgrade_strategy.skip = vec![request("a", false), request("b", false), request("c", true)];
        let skipped = Skipped::new(Some(&spec));
        let fleet = rollout::testing::fleet()
            .cluster("a")
            .cluster("b")
            .canary()
            .cluster("c")
            .canary()
            .cluster("d")
            .build();
        let reasons: Vec<Option<Arc<str>>> =
            fleet.clusters.iter().map(|cluster| skipped.of(cluster)).collect();
        let why = Some(Arc::from("no power"));
        assert_eq!(reasons, [why.clone(), None, why, None]);
    }

    #[test]
    fn what_is_not_selected_or_needs_an_acknowledgment_is_noted() {
        let is_canary = |name: &str| (name != "z").then_some(name == "b");
        assert_eq!(
            notes(&[request("a", false), request("b", true)], is_canary),
            Vec::<String>::new()
        );
        let notes = notes(&[request("z", false), request("b", false)], is_canary);
        assert!(notes[0].contains("not selected (1, such as z)"), "{notes:?}");
        assert!(notes[1].starts_with("Canary b is not skipped"), "{notes:?}");
    }
}
