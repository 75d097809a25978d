//! The table of remedies and the planner's reasons are the same set.

use std::collections::BTreeSet;

use kubectl_mcu::remedy;

#[test]
fn every_reason_of_the_planner_has_a_remedy_and_no_remedy_is_left_over() {
    let planned: BTreeSet<&str> = rollout::Reason::ALL
        .iter()
        .map(|(reason, _)| reason.as_str())
        .filter(|reason| *reason != "None")
        .collect();
    let known: BTreeSet<&str> = remedy::reasons().collect();
    assert_eq!(planned, known);
}
