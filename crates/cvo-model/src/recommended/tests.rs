mod round_trip;

use clusterversion::types::MatchingRule;

use super::*;

const A: Era = Era::new(4, 15);
const OLD: Era = Era::new(4, 12);
const B: Era = Era::new(4, 18);
const GATED: Era = Era::new(4, 22);

fn risk(name: &str) -> Risk {
    Risk {
        url: format!("https://e/{name}"),
        name: name.to_owned(),
        message: format!("{name} breaks."),
        matching_rules: vec![MatchingRule::always()],
        ..Risk::default()
    }
}

/// `name=exposure`: 1 exposed, 0 not, ? failed; `!` before it accepted.
fn judge(era: Era, risks: &str) -> Recommendation {
    let mut accepted = BTreeSet::new();
    let mut exposures = std::collections::BTreeMap::new();
    let mut all = Vec::new();
    for word in risks.split_whitespace() {
        let (name, exposure) = word.split_once('=').unwrap();
        let name = name.strip_prefix('!').map_or(name, |name| {
            accepted.insert(name.to_owned());
            name
        });
        let exposure = match exposure {
            "1" => Ok(true),
            "0" => Ok(false),
            _ => Err("boom".to_owned()),
        };
        exposures.insert(name.to_owned(), exposure);
        all.push(risk(name));
    }
    recommend(&all, |risk| exposures[&risk.name].clone(), &accepted, era)
}

#[test]
fn status_and_reason_follow_the_risks_in_order() {
    use ConditionStatus::{False, True, Unknown};
    for (era, risks, status, reason) in [
        (A, "R=0", True, "AsExpected"),
        (B, "R=0", True, "NotExposedToRisks"),
        (B, "", True, "NotExposedToRisks"),
        (B, "R=1", False, "R"),
        (B, "R=0 S=1", False, "S"),
        (B, "R=1 S=1", False, "MultipleReasons"),
        (B, "R=?", Unknown, "EvaluationFailed"),
        (B, "R=? S=?", Unknown, "EvaluationFailed"),
        (B, "R=1 S=?", False, "MultipleReasons"),
        (B, "R=? S=1", False, "MultipleReasons"),
        (B, "R-1=1", False, "ExposedToRisks"),
        (B, "R-1=1 R-2=1", False, "ExposedToRisks"),
        (B, "R-1=1 S=?", False, "MultipleReasons"),
        (A, "R-1=1", False, "R-1"),
        (A, "R=? S=1", False, "MultipleReasons"),
        // 4.22: exposure outdoes a failure.
        (GATED, "R-1=1 S=?", False, "ExposedToRisks"),
        (GATED, "S=? R-1=1", False, "ExposedToRisks"),
        (GATED, "S=? R=1", False, "MultipleReasons"),
        // Accepted risks.
        (GATED, "!R=1", True, "AllExposedRisksAccepted"),
        (GATED, "!R=1 S=0", True, "AllExposedRisksAccepted"),
        (GATED, "!R=0", True, "NotExposedToRisks"),
        (GATED, "!R=1 S=1", False, "S"),
        (GATED, "S=1 !R=1", False, "MultipleReasons"),
        (GATED, "S-1=1 !R=1", False, "ExposedToRisks"),
        (GATED, "!R=1 S=?", Unknown, "EvaluationFailed"),
        (GATED, "S=? !R=1", Unknown, "EvaluationFailed"),
    ] {
        let got = judge(era, risks);
        assert_eq!(
            (got.status, got.reason.as_str()),
            (status, reason),
            "{era} {risks}"
        );
    }
}

#[test]
fn messages_are_the_shipped_ones_joined_by_an_empty_line() {
    assert_eq!(
        judge(B, "R=0").message,
        "The update is recommended, because none of the conditional update risks apply to this cluster."
    );
    assert_eq!(
        judge(B, "R=1 S=0 T=1").message,
        "R breaks. https://e/R\n\nT breaks. https://e/T"
    );
    assert_eq!(
        judge(A, "R=? S=1").message,
        "Could not evaluate exposure to update risk R (boom)\n  R description: R breaks.\n  R URL: https://e/R\n\nS breaks. https://e/S"
    );
    assert_eq!(
        judge(OLD, "R=? S=1").message,
        "Exposure to R is unknown due to an evaluation failure: boom\nR breaks. https://e/R\n\nS breaks. https://e/S"
    );
    assert_eq!(
        judge(GATED, "!R=1 S=0").message,
        "The update is recommended, because either risk does not apply to this cluster or it is accepted by cluster admins."
    );
}

#[test]
fn a_reason_is_what_kubernetes_takes_for_one() {
    for (text, expected) in [
        ("R", true),
        ("RHELKernelHighLoadIOWait", true),
        ("a_b,c:d", true),
        ("a_", true),
        ("", false),
        ("1a", false),
        ("a-b", false),
        ("a:", false),
        ("a,", false),
        ("a b", false),
        ("ä", false),
    ] {
        assert_eq!(is_reason(text), expected, "{text:?}");
    }
}
