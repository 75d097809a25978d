use clusterversion::types::{
    ClusterOperatorCondition, ComponentOverride, ConditionalUpdate, HistoryEntry, RECOMMENDED, Release, Spec,
    Time,
};

use super::*;

fn entry(version: &str, image: &str, state: &str) -> HistoryEntry {
    HistoryEntry {
        state: state.to_owned(),
        version: version.to_owned(),
        image: image.to_owned(),
        ..HistoryEntry::default()
    }
}

/// A cluster that runs `version`, to which every target of these tests is recommended.
fn cluster(version: &str) -> ClusterVersion {
    let mut object = ClusterVersion::new(Spec {
        channel: "stable".to_owned(),
        ..Spec::default()
    });
    object.status.desired = Release::new(version, format!("image/{version}"));
    object.status.history = vec![entry(version, &format!("image/{version}"), "Completed")];
    object
}

fn recommending(mut object: ClusterVersion, target: &str) -> ClusterVersion {
    object
        .status
        .available_updates
        .push(Release::new(target, format!("image/{target}")));
    object
}

fn set(object: &mut ClusterVersion, kind: &str, status: ConditionStatus, reason: &str, message: &str) {
    let condition = ClusterOperatorCondition::new(Time::UNIX_EPOCH, kind, status, reason, message);
    object.status.conditions.set(condition);
}

fn said(object: &ClusterVersion, target: &str, era: Era) -> Vec<(String, String, bool)> {
    let object = recommending(object.clone(), target);
    let failed = run(&object, target, era);
    failed
        .into_iter()
        .map(|failed| (failed.reason, failed.message, failed.blocks))
        .collect()
}

fn one(reason: &str, message: &str, blocks: bool) -> Vec<(String, String, bool)> {
    vec![(reason.to_owned(), message.to_owned(), blocks)]
}

#[test]
fn only_the_previous_version_of_the_same_minor_can_be_gone_back_to() {
    let era = Era::new(4, 14);
    let with = |older: &[(&str, &str)]| {
        let mut object = cluster("4.14.5");
        object.status.history.extend(
            older
                .iter()
                .map(|(version, state)| entry(version, "image/x", state)),
        );
        object
    };
    let previous = with(&[("4.14.4", "Partial"), ("4.14.3", "Completed")]);
    assert_eq!(said(&previous, "4.14.4", era), []);
    assert_eq!(
        said(&previous, "4.14.3", era),
        one(
            "LowDesiredVersion",
            "4.14.3 is less than the current target 4.14.5, and the only supported rollback is to the cluster's previous version 4.14.4 (image/x)",
            true
        )
    );
    assert_eq!(
        said(&with(&[("4.13.9", "Completed")]), "4.13.9", era),
        one(
            "LowDesiredVersion",
            "4.13.9 is less than the current target 4.14.5 and matches the cluster's previous version, but rollbacks that change major or minor versions are not recommended",
            true
        )
    );
    assert_eq!(
        said(&with(&[]), "4.14.4", era),
        one(
            "LowDesiredVersion",
            "4.14.4 is less than the current target 4.14.5, and the cluster has no previous Semantic Version",
            true
        )
    );
    assert_eq!(said(&with(&[]), "4.14.6", era), []);
}

#[test]
fn giant_hops_are_refused_from_4_19_on() {
    let at = |from: &str, to: &str, era: Era| said(&cluster(from), to, era);
    let far = "4.18.3 is more than one minor version beyond the current target 4.16.1 (4.18 > 4.(16+1)), and only updates within the current minor version or to the next minor version are supported.";
    assert_eq!(at("4.16.1", "4.18.3", Era::new(4, 18)), []);
    assert_eq!(
        at("4.16.1", "4.18.3", Era::new(4, 19)),
        one("MultipleMinorVersionsUpdate", far, true)
    );
    assert_eq!(at("4.16.1", "4.17.3", Era::new(4, 19)), []);
    let back: Vec<String> = run(&cluster("5.0.0"), "4.22.3", Era::new(5, 0))
        .into_iter()
        .filter(|failed| failed.blocks)
        .map(|failed| failed.message)
        .collect();
    assert_eq!(
        back.last().map(String::as_str),
        Some(
            "4.22.3 is more than one minor version beyond the current target 5.0.0 (4.22 > 5.(0+1)), and only updates within the current minor version or to the next minor version are supported."
        ),
        "{back:?}"
    );
    assert_eq!(back.len(), 2, "it is a rollback as well: {back:?}");
    let major = |to: &str, allowed: &str, more: &str| {
        format!(
            "{to} has a larger major version than the current target 4.21.1 ({more} > 4), and only updates within the current major version{allowed} are supported."
        )
    };
    assert_eq!(
        at("4.21.1", "5.0.0", Era::new(4, 21)),
        one("MajorVersionUpdate", &major("5.0.0", "", "5"), true)
    );
    assert_eq!(at("4.21.1", "5.0.0", Era::new(4, 22)), []);
    assert_eq!(
        at("4.21.1", "5.1.0", Era::new(4, 22)),
        one("MajorVersionUpdate", &major("5.1.0", " or to 5.0", "5"), true)
    );
    assert_eq!(
        at("4.21.1", "6.0.0", Era::new(4, 22)),
        one("MajorVersionUpdate", &major("6.0.0", "", "6"), true)
    );
}

#[test]
fn upgradeable_false_blocks_minor_and_major_updates_only() {
    let era = Era::new(4, 18);
    for (status, target, blocked) in [
        (Some(ConditionStatus::False), "4.19.0", true),
        (Some(ConditionStatus::False), "5.0.0", true),
        (Some(ConditionStatus::False), "4.18.2", false),
        (Some(ConditionStatus::True), "4.19.0", false),
        (Some(ConditionStatus::Unknown), "4.19.0", false),
        (None, "4.19.0", false),
    ] {
        let mut object = cluster("4.18.1");
        if let Some(status) = status {
            set(&mut object, UPGRADEABLE, status, "AdminAckRequired", "Read this.");
        }
        let expected = if blocked {
            one("AdminAckRequired", "Read this.", true)
        } else {
            vec![]
        };
        assert_eq!(said(&object, target, era), expected, "{status:?} {target}");
    }
}

#[test]
fn overrides_block_patches_up_to_4_21_and_are_recorded_later() {
    let mut object = cluster("4.21.1");
    object.spec.overrides = vec![ComponentOverride {
        unmanaged: true,
        ..ComponentOverride::default()
    }];
    set(
        &mut object,
        UPGRADEABLE,
        ConditionStatus::False,
        "ClusterVersionOverridesSet",
        "O.",
    );
    let old = "Disabling ownership via cluster version overrides prevents upgrades. Please remove overrides before continuing.";
    assert_eq!(
        said(&object, "4.21.2", Era::new(4, 21)),
        one("ClusterVersionOverridesSet", old, true)
    );
    let new = "Retarget from 4.21.1 to 4.21.2 is not blocked by ClusterVersionOverridesSet. But the cluster-version operator is not managing these resources; they are currently the responsibility of the agent that set the overrides: Disabling ownership via cluster version overrides prevents upgrades between minor or major versions. Please remove overrides before requesting a minor or major version update.";
    assert_eq!(
        said(&object, "4.21.2", Era::new(4, 22)),
        one("ClusterVersionOverridesSet", new, false)
    );
    assert_eq!(
        said(&object, "4.22.0", Era::new(4, 22)),
        one("ClusterVersionOverridesSet", "O.", true)
    );
}

#[test]
fn another_patch_while_a_minor_update_runs_is_recorded() {
    let mut object = cluster("4.19.1");
    object.status.history[0].state = "Partial".to_owned();
    object
        .status
        .history
        .push(entry("4.18.7", "image/x", "Completed"));
    set(
        &mut object,
        UPGRADEABLE,
        ConditionStatus::False,
        "UpdateInProgress",
        "U.",
    );
    set(&mut object, PROGRESSING, ConditionStatus::True, "", "");
    assert_eq!(
        said(&object, "4.19.2", Era::new(4, 19)),
        one(
            "MinorVersionClusterUpdateInProgress",
            "Retarget to 4.19.2 while a minor level update from 4.18.7 to 4.19.1 is in progress",
            false
        )
    );
    assert_eq!(
        said(&object, "4.19.2", Era::new(4, 22))[0].1,
        "Retarget to 4.19.2 while a minor version update from 4.18.7 to 4.19.1 is in progress"
    );
    object.status.history[1].version = "4.19.0".to_owned();
    assert_eq!(said(&object, "4.19.2", Era::new(4, 19)), []);
}

#[test]
fn a_recommendation_never_blocks_and_is_recorded_when_it_is_not_true() {
    let era = Era::new(4, 18);
    let with = |status: Option<ConditionStatus>| {
        let mut object = cluster("4.18.1");
        let mut update = ConditionalUpdate {
            release: Release::new("4.18.2", "image/2"),
            ..ConditionalUpdate::default()
        };
        if let Some(status) = status {
            update.conditions.set(ClusterOperatorCondition::new(
                Time::UNIX_EPOCH,
                RECOMMENDED,
                status,
                "R",
                "M",
            ));
        }
        object.status.conditional_updates = vec![update];
        object
    };
    let said = |object: &ClusterVersion| {
        let failed = run(object, "4.18.2", era);
        failed
            .into_iter()
            .map(|failed| (failed.reason, failed.message, failed.blocks))
            .collect::<Vec<_>>()
    };
    assert_eq!(said(&with(Some(ConditionStatus::True))), []);
    for (status, text) in [
        (ConditionStatus::False, "not recommended:\n\nM"),
        (ConditionStatus::Unknown, "Recommended=Unknown: R: M"),
    ] {
        let text = format!("Update from 4.18.1 to 4.18.2 is {text}");
        assert_eq!(said(&with(Some(status))), one("R", &text, false));
    }
    assert_eq!(said(&with(None))[0].0, "UnknownConditionType");
    let mut plain = cluster("4.18.1");
    let unknown = "so the recommended status of updating from 4.18.1 to 4.18.2 is unknown.";
    assert_eq!(
        said(&plain),
        one("UnknownUpdate", &format!("No RetrievedUpdates, {unknown}"), false)
    );
    set(&mut plain, RETRIEVED_UPDATES, ConditionStatus::True, "", "");
    assert_eq!(
        said(&plain),
        one(
            "UnknownUpdate",
            "RetrievedUpdates=True (), so the update from 4.18.1 to 4.18.2 is probably neither recommended nor supported.",
            false
        )
    );
    set(
        &mut plain,
        RETRIEVED_UPDATES,
        ConditionStatus::False,
        "RemoteFailed",
        "",
    );
    assert_eq!(
        said(&plain)[0].1,
        format!("RetrievedUpdates=False (RemoteFailed), {unknown}")
    );
    plain.spec.channel.clear();
    assert_eq!(
        said(&plain),
        one(
            "NoChannel",
            &format!("Configured channel is unset, {unknown}"),
            false
        )
    );
}

#[test]
fn failures_are_summed_up_and_force_overrules_them() {
    let failed = |reason: &str, blocks| FailedPrecondition::new("P", reason, "text", blocks);
    assert_eq!(summarize(&[], false), PreconditionResult::Passed);
    assert_eq!(
        summarize(&[failed("W", false)], true),
        PreconditionResult::Accepted("Precondition \"P\" failed because of \"W\": text".to_owned())
    );
    let both = [failed("B", true), failed("W", false)];
    let text = "Multiple precondition checks failed:\n* Precondition \"P\" failed because of \"B\": text\n* Precondition \"P\" failed because of \"W\": text";
    assert_eq!(
        summarize(&both, false),
        PreconditionResult::Blocked(text.to_owned())
    );
    assert_eq!(
        summarize(&both, true),
        PreconditionResult::Accepted(format!("Forced through blocking failures: {text}"))
    );
}

#[test]
fn a_version_that_cannot_be_read_warns_here_and_blocks_there() {
    let era = Era::new(4, 14);
    let mut object = cluster("nightly");
    set(&mut object, UPGRADEABLE, ConditionStatus::False, "R", "M");
    let reasons = |object: &ClusterVersion, target: &str| {
        said(object, target, era)
            .into_iter()
            .map(|(reason, _, blocks)| (reason, blocks))
            .collect::<Vec<_>>()
    };
    let current = ("InvalidCurrentVersion".to_owned(), false);
    assert_eq!(reasons(&object, "4.14.2"), [current.clone(), current]);
    object.status.desired.version = "4.14.1".to_owned();
    let target = ("InvalidDesiredVersion".to_owned(), true);
    assert_eq!(reasons(&object, "nightly"), [target.clone(), target]);
}
