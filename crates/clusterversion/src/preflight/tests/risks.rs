//! Risks that apply, that cannot be evaluated, or that the cluster does not name.

use super::super::recipe::{PathValues, read_offer};
use super::*;
use crate::feedback::ReportedValue;
use crate::types::{ClusterVersion, read_documents};

#[test]
fn every_risk_that_applies_must_be_accepted_by_name() {
    let facts = with_risks(&[("Leak", Some(true)), ("Slow", Some(false)), ("Odd", None)]);
    let by_image = &format!("ready by {IMAGE}");
    for (accepted, unknown_too, expected) in [
        (&[][..], false, "blocked RiskNotAccepted(Leak) RiskUnknown(Odd)"),
        (&["Odd"][..], false, "blocked RiskNotAccepted(Leak)"),
        (&["Slow", "Other"][..], true, "blocked RiskNotAccepted(Leak)"),
        (&["Leak"][..], false, "unknown RiskUnknown(Odd)"),
        (&["Leak"][..], true, by_image),
        (&["Leak", "Odd"][..], false, by_image),
    ] {
        let plan = PlannedUpdate {
            accepted_risks: set(accepted),
            accept_unknown_risks: unknown_too,
            ..plan()
        };
        assert_eq!(told(&facts, &plan), expected, "{accepted:?}");
    }
    let contradicting = with_risks(&[("Leak", Some(false)), ("Slow", Some(false))]);
    assert_eq!(told(&contradicting, &plan()), "unknown RiskUnknown(Leak,Slow)");
    assert_eq!(told(&with_risks(&[]), &plan()), "unknown RiskUnknown");
    let without_image = offering(Offer::Conditional {
        image: String::new(),
        risks: Vec::new(),
    });
    assert_eq!(told(&without_image, &plan()), "unknown RiskUnknown");
}

/// No cluster checks a request by image.
#[test]
fn risks_that_a_cluster_does_not_name_are_accepted_only_as_unknown_ones() {
    let facts = with_risks(&[]);
    let ignoring = PlannedUpdate {
        ignore: set(&["FailedToCompletePrecheck"]),
        ..plan()
    };
    assert_eq!(told(&facts, &ignoring), "unknown RiskUnknown");
    assert_eq!(request(&facts, &ignoring), Request::AsPlanned);
    let accepting = PlannedUpdate {
        accept_unknown_risks: true,
        ..plan()
    };
    assert_eq!(told(&facts, &accepting), format!("ready by {IMAGE}"));
}

#[test]
fn a_release_is_requested_by_its_digest_or_not_by_image_at_all() {
    let accepting = PlannedUpdate {
        accepted_risks: set(&["Leak"]),
        ..plan()
    };
    for image in ["", "evil.example/release:latest", "quay.io/release@sha256:1"] {
        let risks = vec![OfferedRisk {
            name: "Leak".to_owned(),
            message: "It leaks.".to_owned(),
            applies: Some(true),
        }];
        let facts = offering(Offer::Conditional {
            image: image.to_owned(),
            risks,
        });
        assert_eq!(told(&facts, &accepting), "blocked NotOffered", "{image}");
        assert_eq!(request(&facts, &accepting), Request::AsPlanned);
        let recommended = offering(Offer::Recommended {
            image: image.to_owned(),
        });
        let expected = if image.is_empty() {
            "ready"
        } else {
            "blocked NotOffered"
        };
        assert_eq!(told(&recommended, &plan()), expected, "{image}");
    }
}

#[test]
fn a_cluster_that_accepts_risks_by_name_is_asked_by_name_if_all_that_count_are_named() {
    let plan = |accepted: &[&str], unknown_too| PlannedUpdate {
        accepted_risks: set(accepted),
        accept_unknown_risks: unknown_too,
        ..plan()
    };
    let risks = [
        ("Slow", Some(true)),
        ("Leak", Some(true)),
        ("Odd", None),
        ("None", Some(false)),
    ];
    let mut facts = with_risks(&risks);
    let by_image = format!("ready by {IMAGE}");
    let all = plan(&["Leak", "Odd", "Slow", "Other"], false);
    assert_eq!(told(&facts, &all), by_image);
    facts.accepts_risks = Err(Missing::Pending);
    assert_eq!(told(&facts, &all), by_image, "nobody knows whether it does");
    facts.accepts_risks = Ok(true);
    assert_eq!(told(&facts, &all), "ready accepting Leak,Odd,Slow");
    assert_eq!(
        told(&facts, &plan(&["Leak", "Slow"], true)),
        by_image,
        "Odd has no name"
    );
    assert_eq!(
        told(&facts, &plan(&["Leak"], true)),
        "blocked RiskNotAccepted(Slow)"
    );
}

/// The work of an attempt that failed stays, and with it what the cluster accepts. The next request would take that back.
#[test]
fn what_the_present_request_of_a_cluster_accepts_is_accepted_by_the_next_one_too() {
    let risks = "risk F Leak It leaks.\nrisk F Slow It is slow.";
    let answer = format!("offer/1\nlisted {IMAGE}\nupdate True {IMAGE}\n{risks}");
    let mut facts = offering(read_offer(&answer).unwrap());
    let accepting = PlannedUpdate {
        accepted_risks: set(&["Leak", "Other"]),
        ..plan()
    };
    assert_eq!(told(&facts, &accepting), "ready", "it accepts no risks by name");
    facts.accepts_risks = Ok(true);
    assert_eq!(told(&facts, &accepting), "ready accepting Leak");
    assert_eq!(
        request(&facts, &accepting),
        Request::AcceptingRisks(vec!["Leak".to_owned()])
    );
    assert_eq!(told(&facts, &plan()), "ready");
}

/// An author who accepts risks that cannot be evaluated.
fn accepting(names: &[&str]) -> PlannedUpdate {
    PlannedUpdate {
        accepted_risks: set(names),
        accept_unknown_risks: true,
        ..plan()
    }
}

/// What an agent that knows no CEL tells of the target.
fn by_paths(status: &str) -> Facts {
    let values = [("targetRisksImage", IMAGE), ("targetRecommended", status)];
    let values = values
        .into_iter()
        .map(|(name, value)| (name, ReportedValue::Text(value)));
    offering(values.collect::<PathValues<'_>>().offer().unwrap())
}

/// What an agent that evaluates rules tells of the target.
fn by_rule(status: &str, risks: &str) -> Facts {
    offering(read_offer(&format!("offer/1\nupdate {status} {IMAGE}{risks}")).unwrap())
}

#[test]
fn a_version_that_the_cluster_does_not_recommend_has_a_risk_that_nobody_accepts_as_unknown() {
    let by_image = &format!("ready by {IMAGE}");
    for facts in [by_paths("False"), by_rule("False", "")] {
        for plan in [plan(), accepting(&[]), accepting(&["Leak"])] {
            assert_eq!(told(&facts, &plan), "unknown RiskUnknown");
            assert_eq!(request(&facts, &plan), Request::AsPlanned);
        }
    }
    assert_eq!(told(&by_paths("Unknown"), &accepting(&[])), *by_image);

    let unnamed = by_rule("False", "\nrisk F Leak It leaks.\nrisk U Odd It leaks.");
    for plan in [plan(), accepting(&[])] {
        assert_eq!(told(&unnamed, &plan), "blocked RiskNotAccepted(Leak,Odd)");
        assert_eq!(request(&unnamed, &plan), Request::AsPlanned);
    }
    assert_eq!(
        told(&unnamed, &accepting(&["Odd"])),
        "blocked RiskNotAccepted(Leak)"
    );
    assert_eq!(told(&unnamed, &accepting(&["Leak", "Odd"])), *by_image);
    let named = by_rule("False", "\nrisk T Leak It leaks.\nrisk U Odd It leaks.");
    assert_eq!(told(&named, &accepting(&["Leak"])), *by_image, "Odd is unknown");
}

/// An object with an update whose condition Recommended has this status and a text of no risk.
fn object(status: &str) -> ClusterVersion {
    let text = format!(
        r#"{{"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {{"name": "version"}},
            "spec": {{"channel": "stable-4.20", "clusterID": "c"}},
            "status": {{"desired": {{"version": "4.19.20", "image": "i"}}, "history": [], "conditions": [],
              "conditionalUpdates": [{{"release": {{"version": "4.20.4", "image": "{IMAGE}"}},
                "risks": [{{"name": "Leak", "message": "It leaks.", "url": "https://example.com", "matchingRules": []}}],
                "conditions": [{{"type": "Recommended", "status": "{status}", "reason": "R", "message": "M"}}]}}]}}}}"#
    );
    read_documents(&text).unwrap().remove(0)
}

#[test]
fn a_whole_object_whose_text_names_no_risk_is_judged_as_the_answer_to_the_rule() {
    for (status, letter, expected) in [
        ("False", "F", "blocked RiskNotAccepted(Leak)".to_owned()),
        ("Unknown", "U", format!("ready by {IMAGE}")),
    ] {
        let whole = offering(Offer::of(&object(status), "4.20.4"));
        let answer = by_rule(status, &format!("\nrisk {letter} Leak It leaks."));
        assert_eq!(whole.offer, answer.offer);
        assert_eq!(told(&whole, &accepting(&[])), expected);
    }
}
