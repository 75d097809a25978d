use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::oracle::facts::End;
use crate::oracle::generation::Generation;
use crate::oracle::memory::Told;

/// An upgrade of a valid spec and two invalid ones, each of which acknowledges another key. Its status tells the last one.
fn misspelled() -> Facts {
    let specs = ["first", "second", "third"].into_iter().zip(1_i64..);
    let specs = specs.map(|(key, number)| Generation {
        number,
        is_invalid: number > 1,
        asked: Asked {
            acks: BTreeSet::from([key.to_owned()]),
            ..Asked::default()
        },
        ..Generation::default()
    });
    let mut facts = Facts::default();
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    upgrade.generations = specs.collect();
    upgrade.acknowledged = vec![(Duration::ZERO, 3)];
    facts
}

/// A work that acknowledges a key: of a step, or a probe.
fn acknowledging(key: &str, step: Option<Step>) -> Work {
    let manifest = json!({"kind": "ConfigMap", "metadata": {"name": "admin-acks"}, "data": {key: "true"}});
    let config = json!({
        "resourceIdentifier": {"resource": "configmaps", "name": "admin-acks"},
        "updateStrategy": {"type": "ServerSideApply"},
    });
    let value = json!({"spec": {"workload": {"manifests": [manifest]}, "manifestConfigs": [config]}});
    Work {
        uid: "u".to_owned(),
        cluster: "c1".to_owned(),
        step,
        value: Arc::new(value),
        ..Work::default()
    }
}

fn rules(facts: &Facts) -> Vec<Rule> {
    facts.violations.iter().map(|violation| violation.rule).collect()
}

/// Which rules a platform work violates that acknowledges a key.
fn violated(key: &str) -> Vec<Rule> {
    let mut facts = misspelled();
    facts.judge_acks(&acknowledging(key, Some(Step::Platform)));
    rules(&facts)
}

/// Which rules a probe violates that acknowledges a key.
fn violated_by_probe(key: &str, is_under_way: bool) -> Vec<Rule> {
    let mut facts = misspelled();
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    upgrade.selected.insert("c1".to_owned());
    if is_under_way {
        upgrade.flights.insert("c1".to_owned(), Duration::ZERO);
    }
    facts.judge_probe(&acknowledging(key, None));
    rules(&facts)
}

#[test]
fn beside_an_invalid_spec_an_update_acknowledges_what_the_last_valid_one_does() {
    assert!(violated("first").is_empty());
    assert_eq!(violated("second"), [Rule::Acks]);
    assert_eq!(violated("third"), [Rule::Acks], "it is invalid");
}

#[test]
fn beside_an_invalid_spec_only_clusters_under_way_are_asked_and_by_the_last_valid_one() {
    assert!(violated_by_probe("first", true).is_empty());
    assert_eq!(violated_by_probe("third", true), [Rule::Acks], "it is invalid");
    assert_eq!(violated_by_probe("first", false), [Rule::Probes]);
}

#[test]
fn a_probe_that_comes_late_may_be_that_of_a_cluster_that_has_ended_since() {
    use crate::actor::{Role, Sender};
    use crate::oracle::memory::Told;

    let violated = |sent: u64| {
        let mut facts = misspelled();
        facts.now = Duration::from_secs(40);
        facts.sender = Some(Sender {
            role: Role::Controller,
            identity: Arc::from("r0-1"),
            at: Duration::from_secs(sent),
        });
        let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
        upgrade.selected.insert("c1".to_owned());
        let record = upgrade.records.entry("c1".to_owned()).or_default();
        let phases = [(10, "Workers"), (20, "Complete")];
        record.phases = phases
            .map(|(at, phase)| Told::at(Duration::from_secs(at), phase))
            .into();
        facts.judge_probe(&acknowledging("first", None));
        rules(&facts)
    };
    assert!(violated(19).is_empty());
    assert_eq!(violated(20), [Rule::Probes], "it had ended");
}

/// Which rules a platform work violates that asks for an image, so many seconds after its cluster has told this of the update. It was asked
/// ten minutes before that.
fn violated_by_image(told: &str, seconds: u64) -> Vec<Rule> {
    let answered = Duration::from_mins(10);
    let mut facts = misspelled();
    facts.now = answered + Duration::from_secs(seconds);
    let answer = json!({"status": {"resourceStatus": {"manifests": [{"conditions": [
        {"type": "Available", "status": "True"},
        {"type": "UpgradeOffer", "status": "True", "message": format!("offer/1\nupdate True {told}")},
    ]}]}}});
    let answer = Answer {
        upgrade: "u".to_owned(),
        created: Duration::ZERO,
        answered: Some(answered),
        since: answered,
        until: None,
        said: Said::of(&answer),
    };
    facts.probes.answers.insert("c1".to_owned(), vec![answer]);
    let value = json!({"metadata": {"annotations": {ANNOTATION_RELEASE_IMAGE: "registry/release@sha256:1"}}});
    facts.judge_image(&Work {
        uid: "u".to_owned(),
        cluster: "c1".to_owned(),
        step: Some(Step::Platform),
        value: Arc::new(value),
        ..Work::default()
    });
    facts.violations.iter().map(|violation| violation.rule).collect()
}

#[test]
fn an_update_asks_for_an_image_that_its_cluster_has_told() {
    assert!(violated_by_image("registry/release@sha256:1", 0).is_empty());
    assert_eq!(
        violated_by_image("registry/release@sha256:2", 0),
        [Rule::Preflight]
    );
}

#[test]
fn an_image_is_asked_for_within_minutes_after_the_first_answer_however_long_that_took() {
    assert!(violated_by_image("registry/release@sha256:1", 434).is_empty());
    assert_eq!(
        violated_by_image("registry/release@sha256:1", 435),
        [Rule::Preflight]
    );
}

#[test]
fn whom_an_upgrade_selected_before_the_storage_went_back_it_has_selected() {
    let earlier = misspelled();
    let mut facts = earlier.clone();
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    upgrade.selected.insert("c1".to_owned());
    facts.rewind(earlier);
    let selected = facts.upgrades.get("u").map(|upgrade| &upgrade.selected);
    assert_eq!(selected, Some(&BTreeSet::from(["c1".to_owned()])));
}

#[test]
fn a_cluster_has_answered_when_it_tells_which_version_it_runs() {
    let is_told = |name: &str, value: &str| {
        let status = json!({"status": {"resourceStatus": {"manifests": [{
            "conditions": [{"type": "Available", "status": "True"}],
            "statusFeedback": {"values": [{"name": name, "fieldValue": {"string": value}}]},
        }]}}});
        Said::of(&status).is_told()
    };
    assert!(is_told("desiredVersion", "4.14.9"));
    assert!(!is_told("desiredVersion", "nonsense"));
    assert!(!is_told("channel", "stable-4.14"));
}

#[test]
fn a_cluster_that_an_upgrade_never_selected_is_asked_only_until_its_other_name_or_its_end_is_heard_of() {
    let sent = Duration::from_mins(5);
    let seems_selected = |name: &str, label: &str, left: Option<u64>, deleted: Option<u64>| {
        let mut facts = Facts::default();
        let cluster = facts.cluster(name);
        label.clone_into(&mut cluster.name_label);
        cluster.left = left.map(Duration::from_secs);
        cluster.deleted = deleted.map(Duration::from_secs);
        let upgrade = Upgrade {
            selectors: vec![BTreeSet::from(["c1".to_owned(), HUB.to_owned()])],
            ..Upgrade::default()
        };
        facts.may_seem_selected(&upgrade, name, sent)
    };
    assert!(seems_selected("c1", "elsewhere", Some(226), None));
    assert!(
        !seems_selected("c1", "elsewhere", Some(225), None),
        "everybody has heard of it"
    );
    assert!(
        !seems_selected("c1", "elsewhere", None, None),
        "it was not called so before"
    );
    assert!(
        !seems_selected("c2", "elsewhere", Some(226), None),
        "its name is not asked for"
    );
    assert!(seems_selected("c1", "c1", None, Some(226)));
    assert!(
        !seems_selected("c1", "c1", None, Some(225)),
        "everybody has heard of it"
    );
    assert!(
        !seems_selected("c1", "elsewhere", None, Some(226)),
        "it was called otherwise before"
    );
    assert!(!seems_selected(HUB, HUB, Some(226), Some(226)), "it is the hub");
}

/// Which rules a row violates that says at five minutes that everything is over, although worker pools do not follow. The update had ended at
/// four minutes, agents reported an end since so many seconds, and the row said since so many that the cluster waits for its pools.
fn violated_by_pools(ended: u64, waits_since: u64) -> Vec<Rule> {
    let mut facts = Facts {
        now: Duration::from_mins(5),
        ..Facts::default()
    };
    facts.probes.believe(Arc::new(|_: &str| {
        Some(crate::oracle::Past {
            updated: BTreeMap::from([("4.14.12".to_owned(), Duration::from_mins(4))]),
            followed: BTreeMap::new(),
        })
    }));
    let asked = Asked {
        pools: Some(Duration::from_hours(6)),
        ..Asked::default()
    };
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    upgrade.generations = vec![Generation {
        number: 1,
        asked,
        ..Generation::default()
    }];
    let end = End {
        first: Duration::from_secs(ended),
        ..End::default()
    };
    let attempt = ("c1".to_owned(), Step::Platform, String::new());
    upgrade.ends.insert(attempt, end);
    let record = upgrade.records.entry("c1".to_owned()).or_default();
    record.phases = vec![Told::at(Duration::from_secs(waits_since), "Workers")];
    let row = Row {
        phase: "Complete".to_owned(),
        to: "4.14.12".to_owned(),
        ..Row::default()
    };
    facts.judge_pools("u", "c1", &row, "Workers");
    rules(&facts)
}

#[test]
fn pools_that_were_asked_since_an_end_that_was_told_too_early_need_not_have_followed() {
    assert!(violated_by_pools(50, 53).is_empty());
    assert_eq!(
        violated_by_pools(50, 240),
        [Rule::WorkerPools],
        "the update had ended"
    );
    assert_eq!(
        violated_by_pools(240, 53),
        [Rule::WorkerPools],
        "nobody had told that"
    );
}
