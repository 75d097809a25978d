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
