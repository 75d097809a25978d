use chrono::DateTime;
use serde_json::json;

use super::*;

/// A report with this number of clusters, each of which needed `minutes` for its platform.
fn report(upgrade: &str, clusters: usize, from: &str, minutes: i64) -> Report {
    let start: DateTime<chrono::Utc> = "2026-05-28T10:00:00Z".parse().unwrap();
    let end = start + TimeDelta::minutes(minutes);
    let step = json!({"name": "Platform", "startedAt": start, "finishedAt": end, "outcome": "Succeeded"});
    let failed = json!({"name": "Operators", "startedAt": start, "finishedAt": end, "outcome": "Failed"});
    let rows: Vec<Value> = (0..clusters)
        .map(|number| {
            json!({
                "cluster": format!("c{number}"), "phase": "Failed", "reason": "OperatorsJobFailed", "since": end,
                "revision": "r1", "fromVersion": from, "toVersion": "4.14.12", "steps": [step, failed],
            })
        })
        .collect();
    serde_json::from_value(json!({
        "metadata": {
            "name": format!("{upgrade}-report-1"), "namespace": "team",
            "ownerReferences": [{
                "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgrade",
                "name": upgrade, "uid": format!("u-{upgrade}"), "controller": true,
            }],
        },
        "rows": rows,
    }))
    .unwrap()
}

fn collect(reports: &[Report], file: &str) -> Times {
    Times::collect(
        reports,
        ("team", "spring", "u-spring"),
        &FileTimes::read(file).unwrap(),
    )
}

fn median(times: &Times, step: Timed) -> (i64, Basis) {
    let times = times.of(step);
    (times.samples.quantile(0.5).num_minutes(), times.basis)
}

#[test]
fn a_file_outweighs_reports_of_the_upgrade_these_those_of_the_hub_and_these_what_is_assumed() {
    let own = report("spring", 5, "4.14.9", 40);
    let other = report("autumn", 5, "4.14.9", 80);
    let few = report("spring", 4, "4.14.9", 40);
    let file = "platform: {patch: [30m]}";
    let patch = |reports: &[Report], file| median(&collect(reports, file), Timed::PatchUpdate);
    assert_eq!(patch(&[other.clone(), own.clone()], file), (30, Basis::File));
    assert_eq!(patch(&[other.clone(), own], ""), (40, Basis::Upgrade));
    assert_eq!(patch(&[other, few.clone()], ""), (80, Basis::Hub));
    assert_eq!(patch(&[few], ""), (60, Basis::Assumed));
}

#[test]
fn updates_of_another_minor_version_have_their_own_times_and_failed_steps_have_none() {
    let times = collect(
        &[
            report("spring", 5, "4.13.40", 95),
            report("spring", 6, "4.14.9", 40),
        ],
        "",
    );
    assert_eq!(median(&times, Timed::MinorUpdate), (95, Basis::Upgrade));
    assert_eq!(median(&times, Timed::PatchUpdate), (40, Basis::Upgrade));
    assert_eq!(median(&times, Timed::Operators), (10, Basis::Assumed));
    for (from, to, change) in [
        ("", "4.14.1", VersionChange::Patch),
        ("4.14.1", "", VersionChange::Patch),
        ("", "", VersionChange::Patch),
        ("4.9.1", "4.10.0", VersionChange::Minor),
        ("4.10.1", "4.10.0", VersionChange::Patch),
        ("4.10.0", "4.10.0", VersionChange::Nothing),
    ] {
        assert_eq!(VersionChange::of(from, to), change, "{from} to {to}");
    }
}

#[test]
fn clusters_that_ran_the_target_already_give_no_samples() {
    let reports = [
        report("spring", 50, "", 0),
        report("spring", 50, "4.14.12", 0),
        report("spring", 5, "4.14.9", 40),
    ];
    let times = collect(&reports, "");
    assert_eq!(median(&times, Timed::PatchUpdate), (40, Basis::Upgrade));
    assert_eq!(times.of(Timed::PatchUpdate).samples.count(), 5);
    assert_eq!(
        median(&collect(&reports[..2], ""), Timed::PatchUpdate),
        (60, Basis::Assumed)
    );
}

#[test]
fn a_median_of_the_file_counts_as_given_and_not_as_samples() {
    let times = collect(
        &[],
        "platform: {patch: {median: 55m, spread: 7%}, minor: [1h, 2h]}",
    );
    let measured = |timed| (times.of(timed).measured(), times.of(timed).basis);
    assert_eq!(measured(Timed::PatchUpdate), (0, Basis::FileMedian));
    assert_eq!(measured(Timed::MinorUpdate), (2, Basis::File));
    assert_eq!(measured(Timed::Operators), (0, Basis::Assumed));
    let text = times.to_yaml();
    assert!(
        text.contains(
            "  patch: {median: 55m, spread: 7%} # a median in the file of durations, not sampled\n"
        ),
        "{text}"
    );
}

#[test]
fn what_is_written_reads_back() {
    let times = collect(&[report("spring", 5, "4.14.9", 40)], "postAction: [3m, 4m30s]");
    let text = times.to_yaml();
    assert!(
        text.contains(
            "  patch: [2400s, 2400s, 2400s, 2400s, 2400s] # 5 samples of reports of this upgrade\n"
        ),
        "{text}"
    );
    assert!(
        text.contains("operators: {median: 10m, spread: 25%} # assumed\n"),
        "{text}"
    );
    let again = collect(&[], &text);
    for timed in Timed::ALL {
        assert_eq!(again.of(timed).samples, times.of(timed).samples, "{timed:?}");
        let is_list = matches!(timed, Timed::PatchUpdate | Timed::PostAction);
        let basis = if is_list { Basis::File } else { Basis::FileMedian };
        assert_eq!(again.of(timed).basis, basis, "{timed:?}");
    }
}

#[test]
fn many_samples_are_written_as_quantiles() {
    let samples = Samples::new((0..10_000).map(TimeDelta::seconds)).unwrap();
    let written = written(&samples);
    assert_eq!(written.len(), 101);
    assert_eq!(
        (written[0].as_str(), written[50].as_str(), written[100].as_str()),
        ("0s", "4999s", "9999s")
    );
}

#[test]
fn a_file_that_is_wrong_names_the_field() {
    for (text, error) in [
        ("[1h]", "must be a mapping of steps to durations"),
        ("platform: 1h", "platform: must be a mapping"),
        ("soak: [1h]", "soak: unknown field; write preAction"),
        ("operators: []", "operators: the list is empty"),
        ("operators: 5m", "operators: write a list"),
        ("operators: {spread: 5%}", "operators: null is not a duration"),
        (
            "operators: {median: 5m, spread: 5}",
            "operators.spread: must be a share",
        ),
        ("operators: {median: 5m, max: 5}", "operators.max: unknown field"),
        ("a: [", "cannot be read: "),
    ] {
        let found = FileTimes::read(text).unwrap_err();
        assert!(found.contains(error), "{text}: {found}");
    }
    assert_eq!(FileTimes::read("# nothing\n"), Ok(FileTimes::default()));
}
