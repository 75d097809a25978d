use super::*;

fn alert(pairs: &[(&str, &str)], annotations: &[(&str, &str)], state: &str) -> Alert {
    let map = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    Alert {
        labels: map(pairs),
        annotations: map(annotations),
        state: state.to_owned(),
        active_at: Some(Time::UNIX_EPOCH),
    }
}

#[test]
fn alerts_that_matter_to_an_update_are_risks() {
    let alerts = [
        alert(&[("alertname", "Watchdog"), ("severity", "none")], &[], "firing"),
        alert(&[("alertname", "A"), ("severity", "critical")], &[], "pending"),
        alert(
            &[("alertname", "KubeNodeNotReady"), ("severity", "warning")],
            &[("summary", "A node is not ready"), ("runbook_url", "https://r")],
            "firing",
        ),
        alert(
            &[
                ("alertname", "Mine"),
                ("severity", "info"),
                ("openShiftUpdatePrecheck", "true"),
            ],
            &[("summary", "S."), ("description", "D."), ("message", "M.")],
            "firing",
        ),
        alert(
            &[
                ("alertname", "PodDisruptionBudgetAtLimit"),
                ("severity", "warning"),
                ("namespace", "ns"),
                ("poddisruptionbudget", "b"),
            ],
            &[],
            "firing",
        ),
        alert(&[("alertname", "Z"), ("severity", "critical")], &[], "firing"),
        alert(&[("alertname", "Z"), ("severity", "critical")], &[], "firing"),
    ];
    let risks = of_alerts(&alerts, Time::UNIX_EPOCH);
    let seen: Vec<(&str, &str, &str)> = risks
        .iter()
        .map(|source| {
            let applies = source.risk.conditions.get(APPLIES).unwrap();
            (
                source.risk.name.as_str(),
                source.risk.message.as_str(),
                applies.message.as_str(),
            )
        })
        .collect();
    let critical = "critical alert Z firing, suggesting significant cluster issues worth investigating. Z. The alert has no description. <alert does not have a runbook_url annotation>";
    assert_eq!(
        seen,
        [
            (
                "KubeNodeNotReady",
                "A node is not ready.",
                "warning alert KubeNodeNotReady firing, which may slow workload redistribution during rolling node updates. A node is not ready. The alert has no description. https://r",
            ),
            (
                "Mine",
                "S.",
                "info alert Mine firing, suggesting issues worth investigating before updating the cluster. S. The alert description is: D. | M. <alert does not have a runbook_url annotation>",
            ),
            (
                "PodDisruptionBudgetAtLimit",
                "PodDisruptionBudgetAtLimit.",
                "warning alert PodDisruptionBudgetAtLimit firing, which might slow node drains. Namespace=ns, PodDisruptionBudget=b. PodDisruptionBudgetAtLimit. The alert has no description. <alert does not have a runbook_url annotation>",
            ),
            ("Z", "Z.", format!("{critical}; {critical}").as_str()),
        ]
    );
    assert_eq!(risks[0].risk.conditions.0[0].reason, "Alert:firing");
}

#[test]
fn risks_are_merged_into_the_updates_they_concern() {
    let source = |name: &str, gated_only| SourcedRisk {
        risk: certain(name, "m", "u"),
        gated_only,
    };
    let mut updates = vec![Release::new("4.22.2", "a"), Release::new("4.23.0", "b")];
    let mut conditional = vec![ConditionalUpdate {
        release: Release::new("4.23.1", "c"),
        risks: vec![certain("M", "m", "u")],
        ..ConditionalUpdate::default()
    }];
    let sources = [source("Gate", true), source("no name!", true)];
    let mut told = Vec::new();
    merge("4.22.1", &mut updates, &mut conditional, &sources, &mut told);
    let seen: Vec<(&str, Vec<&str>)> = conditional
        .iter()
        .map(|update| {
            let names = update.risks.iter().map(|risk| risk.name.as_str()).collect();
            (update.release.version.as_str(), names)
        })
        .collect();
    assert_eq!(updates.len(), 1);
    assert_eq!(seen, [("4.23.1", vec!["Gate", "M"]), ("4.23.0", vec!["Gate"])]);
    assert_eq!(told.len(), 1);
    merge(
        "4.22.1",
        &mut updates,
        &mut conditional,
        &[source("Alert", false)],
        &mut told,
    );
    assert_eq!((updates.len(), conditional.len()), (0, 3));
}
