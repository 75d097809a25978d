//! Messages as the operator writes them, read back. Made-up messages of every kind are in `cvo-model`, which also writes.

use super::*;
use crate::types::{ClusterOperatorCondition, ConditionStatus, RECOMMENDED, Time};

fn risk(name: &str, message: &str) -> Risk {
    Risk {
        url: format!("https://e/{name}"),
        name: name.to_owned(),
        message: message.to_owned(),
        ..Risk::default()
    }
}

fn update(status: ConditionStatus, message: &str) -> ConditionalUpdate {
    let mut update = ConditionalUpdate {
        risks: vec![risk("A", "Nodes break."), risk("B", "Pods break.\n\nOr not.")],
        ..ConditionalUpdate::default()
    };
    update.conditions.set(ClusterOperatorCondition::new(
        Time::UNIX_EPOCH,
        RECOMMENDED,
        status,
        "Reason",
        message,
    ));
    update
}

#[test]
fn the_exposure_to_each_risk_is_read_from_the_message() {
    let (old, new) = (Era::new(4, 13), Era::new(4, 14));
    let failed = |text: &str| Err(text.to_owned());
    for (era, message, expected) in [
        (new, "Nodes break. https://e/A", [Ok(true), Ok(false)]),
        (new, "Pods break.\n\nOr not. https://e/B", [Ok(false), Ok(true)]),
        (
            new,
            "Nodes break. https://e/A\n\nPods break.\n\nOr not. https://e/B",
            [Ok(true), Ok(true)],
        ),
        (
            old,
            "Exposure to A is unknown due to an evaluation failure: down\nNodes break. https://e/A",
            [failed("down"), Ok(false)],
        ),
        (
            new,
            "Nodes break. https://e/A\n\nCould not evaluate exposure to update risk B (down)\n  B description: Pods break.\n\nOr not.\n  B URL: https://e/B",
            [Ok(true), failed("down")],
        ),
    ] {
        let update = update(ConditionStatus::False, message);
        assert_eq!(exposures(&update, era).unwrap(), expected, "{message}");
        let open: Vec<&str> = open_risks(&update, era)
            .into_iter()
            .map(|(risk, _)| risk.name.as_str())
            .collect();
        let all = ["A", "B"].into_iter().zip(&expected);
        let expected_open: Vec<&str> = all
            .filter(|(_, exposure)| **exposure != Ok(false))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(open, expected_open, "{message}");
    }
}

#[test]
fn a_foreign_message_reports_nothing_and_a_recommended_update_no_exposure() {
    let era = Era::new(4, 18);
    let foreign = update(ConditionStatus::False, "Nodes break. https://e/A!");
    assert_eq!(exposures(&foreign, era), None);
    assert!(open_risks(&foreign, era).is_empty());
    let recommended = update(ConditionStatus::True, "Any text.");
    assert_eq!(exposures(&recommended, era), Some(vec![Ok(false), Ok(false)]));
}
