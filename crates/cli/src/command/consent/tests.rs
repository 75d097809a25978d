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
    let text = about(Consent::Risk, "OVNIPsecConnectivity", &answers(), &[]);
    assert_eq!(
        text,
        "OVNIPsecConnectivity (1 cluster, such as edge-1):\n  IPsec breaks.\n"
    );
}

#[test]
fn an_unknown_name_gets_a_note_with_the_nearest_one() {
    let text = about(Consent::Risk, "OVNIPSecConectivity", &answers(), &[]);
    assert!(
        text.contains(
            "no cluster of the upgrade reports a risk with this name. Did you mean OVNIPsecConnectivity?"
        ),
        "{text}"
    );
    let text = about(Consent::Risk, "Else", &answers(), &[]);
    assert!(text.contains("They report: OVNIPsecConnectivity."), "{text}");
    let text = about(Consent::Gate, "ack-4.19-a", &Answers::new(), &[]);
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
        about(Consent::Gate, "ack-4.19-a", &known, &[]),
        "ack-4.19-a (4 clusters, such as edge-1):\n  APIs are removed.\nWarning: the texts differ. 3 of 4 clusters show this text.\n  edge-0 shows another one: Nothing to do.\n"
    );
}
