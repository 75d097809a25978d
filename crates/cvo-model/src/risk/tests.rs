use super::*;
use clusterversion::types::PromQl;

fn unknown() -> MatchingRule {
    MatchingRule {
        kind: "CEL".to_owned(),
        ..MatchingRule::default()
    }
}

fn broken() -> MatchingRule {
    MatchingRule {
        kind: "PromQL".to_owned(),
        promql: Some(PromQl::default()),
        ..MatchingRule::default()
    }
}

fn exposure_of(query: &str) -> Exposure {
    match query {
        "0" => Ok(false),
        "1" => Ok(true),
        other => Err(format!("{other} failed")),
    }
}

#[test]
fn the_first_rule_that_evaluates_decides() {
    let promql = MatchingRule::promql;
    for (rules, expected) in [
        (vec![], Ok(false)),
        (vec![unknown()], Ok(false)),
        (vec![unknown(), MatchingRule::always()], Ok(true)),
        (vec![promql("0"), MatchingRule::always()], Ok(false)),
        (vec![promql("x"), promql("0"), promql("1")], Ok(false)),
        (vec![promql("x"), MatchingRule::always()], Ok(true)),
        (vec![promql("x")], Err("x failed")),
        (vec![promql("x"), promql("x")], Err("x failed")),
        (
            vec![promql("x"), unknown(), promql("y")],
            Err("[x failed, y failed]"),
        ),
    ] {
        assert_eq!(
            matches(&rules, exposure_of),
            expected.map_err(str::to_owned),
            "{rules:?}"
        );
    }
}

#[test]
fn unknown_and_invalid_rules_are_pruned_with_what_is_wrong() {
    let always_with_query = MatchingRule {
        kind: "Always".to_owned(),
        ..MatchingRule::promql("up")
    };
    let without = MatchingRule {
        promql: None,
        ..broken()
    };
    let rules = [
        unknown(),
        MatchingRule::promql("up"),
        broken(),
        always_with_query,
        without,
        MatchingRule::always(),
    ];
    let (valid, problems) = prune(&rules);
    assert_eq!(valid, [MatchingRule::promql("up"), MatchingRule::always()]);
    assert_eq!(problems.len(), 4);
    assert_eq!(
        problems[0],
        "skipping unrecognized cluster condition type \"CEL\""
    );
}
