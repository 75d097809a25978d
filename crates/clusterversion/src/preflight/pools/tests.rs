use super::*;

fn pools(lines: &[&str]) -> Fact<Pools> {
    let mut all = vec!["pools/1"];
    all.extend(lines);
    read_pools(&all.join("\n"))
}

#[test]
fn pools_are_behind_until_all_are_updated_by_the_operator_of_the_present_version() {
    let behind = |lines: &[&str]| pools(lines).unwrap().behind("4.20.9");
    let version = "version 4.20.9";
    assert_eq!(behind(&[version, "told", "updated 2 infra worker"]), None);
    assert_eq!(behind(&[version, "told"]), None, "a cluster without worker pools");
    for (lines, reason, text) in [
        (
            vec![version, "told", "updating 1 worker", "updated 1 infra"],
            None,
            "MachineConfigPool is updating: worker",
        ),
        (
            vec![version, "told", "paused 1 infra", "updating 3 a z"],
            Some(PreflightReason::PoolPaused),
            "MachineConfigPool is paused: infra; MachineConfigPools are updating: a, z and 1 more",
        ),
        (
            vec![version, "told", "degraded 1 worker", "paused 1 infra"],
            Some(PreflightReason::PoolDegraded),
            "MachineConfigPool is degraded: worker; MachineConfigPool is paused: infra",
        ),
        (
            vec!["version 4.19.1", "told", "updated 1 worker"],
            None,
            "The machine-config operator still has version 4.19.1",
        ),
        (
            vec!["told", "updated 1 worker"],
            None,
            "The machine-config operator does not tell its version",
        ),
    ] {
        assert_eq!(behind(&lines), Some((reason, text.to_owned())), "{lines:?}");
    }
}

#[test]
fn what_the_operator_has_not_told_is_not_known() {
    assert_eq!(pools(&["version 4.20.9"]), Err(Missing::Pending));
    assert_eq!(pools(&[]), Err(Missing::Pending));
}

#[test]
fn a_message_that_is_not_of_the_rule_tells_nothing() {
    let long = format!("updated 1 {}", "a".repeat(64));
    for lines in [
        vec!["told", "fine 1 worker"],
        vec!["told", "updated 0"],
        vec!["told", "updated 1"],
        vec!["told", "updated 2 worker"],
        vec!["told", "updated one worker"],
        vec!["told", "updated 1 Worker"],
        vec!["told", "updated 1 ../x"],
        vec!["told", "updated 1 worker", "updated 1 infra"],
        vec!["told", "version \u{1b}[31m"],
        vec!["told", &long],
    ] {
        assert!(matches!(pools(&lines), Err(Missing::Unsupported(_))), "{lines:?}");
    }
    assert!(matches!(read_pools("told"), Err(Missing::Unsupported(_))));
    for message in [
        "",
        "worker",
        "paused/1\nother",
        "paused/1\nworker\nworker",
        "pools/1",
    ] {
        assert!(
            matches!(read_paused(message), Err(Missing::Unsupported(_))),
            "{message}"
        );
    }
}
