use chrono::DateTime;
use rollout::forecast::ClusterClass;
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

/// The file that is saved, without its comments at the top.
fn saved(reports: &[Report], file: &str) -> String {
    let file = FileTimes::read(file).unwrap();
    let text = to_yaml(reports, ("team", "spring", "u-spring"), &file);
    text.split_inclusive('\n').skip(2).collect()
}

#[test]
fn a_file_outweighs_reports_of_the_upgrade_and_these_those_of_the_hub() {
    let own = report("spring", 5, "4.14.9", 40);
    let other = report("autumn", 5, "4.14.9", 80);
    let few = report("spring", 4, "4.14.9", 40);
    let file = "platform: {patch: [30m]}";
    let patch = |reports: &[Report], file: &str| {
        let text = saved(reports, file);
        let line = text.lines().find(|line| line.starts_with("  patch: "));
        line.map(str::to_owned)
    };
    let found = |reports: &[Report], file| patch(reports, file).unwrap();
    let line = found(&[other.clone(), own.clone()], file);
    assert_eq!(line, "  patch: [1800s] # 1 sample of the file of durations");
    let line = found(&[other.clone(), own], "");
    assert!(
        line.starts_with("  patch: [2400s, ") && line.ends_with("5 samples of reports of this upgrade"),
        "{line}"
    );
    let line = found(&[other, few.clone()], "");
    assert!(line.ends_with("9 samples of reports of the hub"), "{line}");
    assert_eq!(patch(&[few], ""), None);
}

#[test]
fn updates_of_another_minor_version_have_their_own_times_and_failed_steps_have_none() {
    let reports = [
        report("spring", 5, "4.13.40", 95),
        report("spring", 6, "4.14.9", 40),
    ];
    let of = |step, change| {
        let samples = of_hub(&reports, (step, change, ClusterClass::Unknown))?;
        Some((samples.count(), samples.quantile(0.5).num_minutes()))
    };
    assert_eq!(of(Step::Platform, VersionChange::Minor), Some((5, 95)));
    assert_eq!(of(Step::Platform, VersionChange::Patch), Some((6, 40)));
    assert_eq!(of(Step::Operators, VersionChange::Patch), None);
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
    let of = |reports: &[Report]| {
        let samples = of_hub(
            reports,
            (Step::Platform, VersionChange::Patch, ClusterClass::Unknown),
        )?;
        Some((samples.count(), samples.quantile(0.5).num_minutes()))
    };
    assert_eq!(of(&reports), Some((5, 40)));
    assert_eq!(of(&reports[..2]), None);
}

#[test]
fn a_median_of_the_file_counts_as_given_and_not_as_samples() {
    let text = "platform: {patch: {median: 55m, spread: 7%}, minor: [1h, 2h]}";
    let file = FileTimes::read(text).unwrap();
    let measured = |step, change| {
        let (_, measured) = given(&file, (step, change, ClusterClass::Unknown))?;
        Some(measured)
    };
    assert_eq!(measured(Step::Platform, VersionChange::Patch), Some(0));
    assert_eq!(measured(Step::Platform, VersionChange::Minor), Some(2));
    assert_eq!(measured(Step::Operators, VersionChange::Patch), None);
    let text = saved(&[], text);
    assert!(
        text.contains(
            "  patch: {median: 55m, spread: 7%} # a median in the file of durations, not sampled\n"
        ),
        "{text}"
    );
}

#[test]
fn what_is_written_reads_back_and_nothing_is_written_that_nobody_knows() {
    let reports = [report("spring", 5, "4.14.9", 40)];
    let text = saved(&reports, "postAction: [3m, 4m30s]");
    assert_eq!(
        text,
        "platform:\n  patch: [2400s, 2400s, 2400s, 2400s, 2400s] # 5 samples of reports of this upgrade\n\
         postAction: [180s, 270s] # 2 samples of the file of durations\n\
         # Not measured yet: preAction, platform.minor, operators\n"
    );
    let again = FileTimes::read(&text).unwrap();
    let read = |step, change| {
        let (samples, _) = given(&again, (step, change, ClusterClass::Unknown))?;
        Some(samples.sorted().to_vec())
    };
    let seconds = |all: &[i64]| Some(all.iter().copied().map(TimeDelta::seconds).collect::<Vec<_>>());
    assert_eq!(read(Step::Platform, VersionChange::Patch), seconds(&[2400; 5]));
    assert_eq!(read(Step::Platform, VersionChange::Minor), None);
    assert_eq!(read(Step::PostAction, VersionChange::Patch), seconds(&[180, 270]));
    let nothing = saved(&[], "");
    assert_eq!(
        nothing,
        "# Not measured yet: preAction, platform.patch, platform.minor, operators, postAction\n"
    );
    assert_eq!(FileTimes::read(&nothing), Ok(FileTimes::default()));
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
