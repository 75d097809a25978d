use clusterversion::preflight::{Facts, Missing, Offer, OfferedRisk};

use super::*;

fn answers() -> Answers {
    let risk = OfferedRisk {
        name: "OVNIPsecConnectivity".to_owned(),
        message: "IPsec breaks.".to_owned(),
        applies: Some(true),
    };
    let facts = Facts {
        offer: Ok(Offer::Conditional {
            image: String::new(),
            risks: vec![risk],
        }),
        ..Facts::missing(&Missing::Pending)
    };
    Answers::from([("edge-1".to_owned(), facts)])
}

#[test]
fn the_text_of_a_risk_is_shown_with_the_clusters_it_concerns() {
    let text = about((Consent::Risk, "OVNIPsecConnectivity"), "4.20.4", &answers(), &[]);
    assert_eq!(
        text,
        "OVNIPsecConnectivity (1 cluster, such as edge-1):\n  IPsec breaks.\n"
    );
}

#[test]
fn an_unknown_name_gets_a_note_with_the_nearest_one() {
    let text = about((Consent::Risk, "OVNIPSecConectivity"), "4.20.4", &answers(), &[]);
    assert!(
        text.contains(
            "no cluster of the upgrade reports a risk with this name. Did you mean OVNIPsecConnectivity?"
        ),
        "{text}"
    );
    let text = about((Consent::Risk, "Else"), "4.20.4", &answers(), &[]);
    assert!(text.contains("They report: OVNIPsecConnectivity."), "{text}");
    let text = about((Consent::Gate, "ack-4.19-a"), "4.20.4", &Answers::new(), &[]);
    assert_eq!(
        text,
        "Note: no cluster of the upgrade reports a gate with this name.\n"
    );
}

#[test]
fn the_text_of_one_cluster_does_not_hide_that_of_the_others() {
    let gate = |text: &str| {
        let gate = clusterversion::preflight::Gate {
            key: "ack-4.19-a".to_owned(),
            text: text.to_owned(),
        };
        Facts {
            gates: Ok(vec![gate]),
            ..Facts::missing(&Missing::Pending)
        }
    };
    let mut known = Answers::from([("edge-0".to_owned(), gate("Nothing to do."))]);
    for cluster in ["edge-1", "edge-2", "edge-3"] {
        known.insert(cluster.to_owned(), gate("APIs are removed."));
    }
    assert_eq!(
        about((Consent::Gate, "ack-4.19-a"), "4.20.4", &known, &[]),
        "ack-4.19-a (4 clusters, such as edge-1):\n  APIs are removed.\nWarning: the texts differ. 3 of 4 clusters show this text.\n  edge-0 shows another one: Nothing to do.\n"
    );
}

#[test]
fn clusters_that_were_asked_before_are_told() {
    let upgrade = Upgrade::read(serde_json::json!({
        "metadata": {"name": "spring", "namespace": "upgrades", "uid": "u1", "generation": 1},
        "spec": {},
    }));
    let row = |cluster: &str, phase: &str| -> ReportRow {
        serde_json::from_value(serde_json::json!({
            "cluster": cluster, "phase": phase, "since": "2026-01-01T00:00:00Z", "revision": "r1",
        }))
        .unwrap()
    };
    let rows = [
        row("c1", "Pending"),
        row("c2", "Initialized"),
        row("c3", "Initialized"),
    ];
    assert_eq!(unreached(Consent::Gate, &upgrade, &rows[..1]), "");
    let told = unreached(Consent::Gate, &upgrade, &rows);
    assert!(
        told.starts_with("Note: 2 clusters were asked for the update before (such as c2)"),
        "{told}"
    );
    assert!(told.contains("admin-acks") && told.contains("kubectl mcu abort spring CLUSTER -n upgrades"));
    assert!(!unreached(Consent::Risk, &upgrade, &rows).contains("admin-acks"));
}
