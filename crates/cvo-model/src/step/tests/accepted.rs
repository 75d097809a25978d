//! Risks accepted by name, beside requests.

use super::*;

#[test]
fn a_risk_accepted_beside_a_request_that_it_made_invalid_makes_the_request_valid() {
    let mut cluster = Cluster::installed("4.22.1");
    cluster.settings.accept_risks = true;
    cluster.offer(&[], &[("4.22.2", "up")]);
    cluster.step();
    cluster.promql = Some(PromqlAnswer {
        query: "up".to_owned(),
        result: Ok(QueryResult::Vector(vec![1.0])),
    });
    cluster.settle();
    cluster.ask(by_version("4.22.2"));
    cluster.settle();
    assert!(cluster.said(INVALID).starts_with("True InvalidClusterVersion"));
    cluster.ask(Update {
        accept_risks: vec![clusterversion::types::AcceptRisk {
            name: "Leak".to_owned(),
            ..Default::default()
        }],
        ..by_version("4.22.2")
    });
    cluster.settle();
    assert_eq!(cluster.said(INVALID), "");
    assert_eq!(cluster.object.status.available_updates[0].version, "4.22.2");
}
