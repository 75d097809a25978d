use super::*;

#[test]
fn what_risks_use_passes() {
    for query in [
        r#"topk(1, group by (type) (cluster_infrastructure_provider{_id="",type="Azure"}) or 0 * group by (type) (cluster_infrastructure_provider{_id=""}))"#,
        "max_over_time(a:b:c{x=~\"y|z\",w!~\"v\"}[1h]) > 3",
        r#"label_replace(group(a), "b", "c", "", "") or on () -1 * max by (d) (e != 2)"#,
        "a * on (_id) group_left (name) b == 1",
        "1 - max(count by (x) (y)) and on (_id) bottomk by (z) (1, w)",
        "vector(1)",
    ] {
        assert_eq!(check(query), Ok(()), "{query}");
    }
}

#[test]
fn what_no_risk_uses_is_named() {
    for (query, part) in [
        ("sum(a)", "aggregation"),
        ("rate(a[5m])", "range"),
        ("absent(a)", "absent"),
        ("a offset 5m", "offset"),
        ("a @ 5", "@"),
        ("max_over_time(a[1h:5m])", "subquery"),
        ("a > bool 1", "bool"),
        ("a unless b", "operator"),
        ("a / b", "operator"),
        ("max without (a) (b)", "without"),
        ("a * ignoring (x) b", "ignoring"),
        ("a * on (x) group_right (y) b", "group_right"),
        ("a[1h]", "range"),
    ] {
        match check(query) {
            Err(PromqlError::Feature(name)) => assert!(name.contains(part), "{query}: {name}"),
            other => panic!("{query}: {other:?}"),
        }
    }
}

#[test]
fn what_is_no_promql_is_an_error_and_not_a_fall() {
    for query in [
        "",
        "(",
        "group(",
        "a b",
        "a{b=~\"(\"}",
        "topk(1)",
        "é",
        &"(".repeat(100_000),
        &"-".repeat(9_000),
    ] {
        assert!(
            check(query).is_err(),
            "{:?}",
            query.chars().take(20).collect::<String>()
        );
    }
}
