//! The updates to one release, as one channel serves them.

use std::collections::BTreeMap;

use super::RiskNote;
use crate::graph::{Graph, State};
use crate::version::{Arch, Version};

/// The updates to one release that a channel serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpdatesTo {
    /// The risks of each update, by the version before; empty for an update without any.
    pub from: BTreeMap<String, Vec<RiskNote>>,
}

/// The updates to `version` that are served to a cluster in this channel. There are none if the channel does not have the release.
#[must_use]
pub fn updates_to(graph: &Graph, channel: &str, arch: &Arch, version: &Version) -> UpdatesTo {
    let view = graph.view(Some(channel), arch);
    let mut updates = UpdatesTo::default();
    let Some(table) = view.table else {
        return updates;
    };
    let Some(to) = graph.node_of(table, version) else {
        return updates;
    };
    for edge in view.served(table.incoming(to)) {
        let risks = match edge.state {
            State::Conditional(set) => {
                let risks = graph.risks_of(set);
                risks.map(|risk| RiskNote::from(risk.as_ref())).collect()
            }
            State::Open | State::Blocked(_) => Vec::new(),
        };
        let from = graph.version(table.node(edge.from).version);
        updates.from.insert(from.to_string(), risks);
    }
    updates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Builder;
    use crate::v1::Served;

    const GRAPH: &str = r#"{
        "nodes": [
            {"version": "4.1.0", "payload": "q@sha256:a", "metadata": {"io.openshift.upgrades.graph.release.channels": "stable-4.1,stable-4.2"}},
            {"version": "4.1.1", "payload": "q@sha256:b", "metadata": {"io.openshift.upgrades.graph.release.channels": "stable-4.1,stable-4.2"}},
            {"version": "4.1.2", "payload": "q@sha256:c", "metadata": {"io.openshift.upgrades.graph.release.channels": "stable-4.1"}},
            {"version": "4.2.0", "payload": "q@sha256:d", "metadata": {"io.openshift.upgrades.graph.release.channels": "stable-4.2"}}
        ],
        "edges": [[0, 1], [1, 3], [2, 3]],
        "conditionalEdges": [{
            "edges": [{"from": "4.1.0", "to": "4.2.0"}],
            "risks": [{"name": "Leak", "url": "https://example.com/leak", "message": "It leaks.", "matchingRules": [{"type": "Always"}]}]
        }]
    }"#;

    fn found(channel: &str, version: &str) -> Vec<(String, Vec<String>)> {
        let served = Served::parse(GRAPH.as_bytes(), &Arch::amd64()).unwrap();
        let (graph, _) = Builder::new().served(served).build();
        let updates = updates_to(&graph, channel, &Arch::amd64(), &version.parse().unwrap());
        let names = |risks: Vec<RiskNote>| risks.into_iter().map(|risk| risk.name).collect();
        let from = updates.from.into_iter();
        from.map(|(from, risks)| (from, names(risks))).collect()
    }

    #[test]
    fn both_ends_of_an_update_are_in_the_channel_and_its_risks_are_named() {
        let leak = vec!["Leak".to_owned()];
        let expected = [("4.1.0".to_owned(), leak), ("4.1.1".to_owned(), Vec::new())];
        assert_eq!(found("stable-4.2", "4.2.0"), expected);
        assert_eq!(found("stable-4.1", "4.1.1"), [("4.1.0".to_owned(), Vec::new())]);
    }

    #[test]
    fn nothing_leads_to_a_release_that_the_channel_does_not_have() {
        for (channel, version) in [
            ("stable-4.1", "4.2.0"),
            ("stable-4.2", "4.2.1"),
            ("eus-4.2", "4.2.0"),
        ] {
            assert_eq!(found(channel, version), [], "{channel} {version}");
        }
        let none = updates_to(
            &Graph::default(),
            "stable-4.2",
            &Arch::amd64(),
            &"4.2.0".parse().unwrap(),
        );
        assert_eq!(none, UpdatesTo::default());
    }
}
