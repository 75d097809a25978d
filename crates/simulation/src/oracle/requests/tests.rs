use serde_json::json;

use super::super::facts::Record;
use super::super::memory::Told;
use super::super::row::Row;
use super::*;
use crate::actor::Role;

const SECOND: Duration = Duration::from_secs(1);

/// What is known after a creation of a step's work was answered with this code, while a work of that name is there. The row of its
/// cluster said before that it goes on. `is_foreign`: the work that is there is somebody else's.
fn known(step: Step, code: u16, is_foreign: bool) -> Facts {
    let name = step.work_name("c1");
    let row = Row {
        revision: "r1".to_owned(),
        ..Row::default()
    };
    let record = Record {
        before: vec![row],
        phases: vec![Told::at(SECOND, "Partial")],
        ..Record::default()
    };
    let there = Running {
        name: name.clone(),
        cluster: "c1".to_owned(),
        goes_on: true,
        ..Running::default()
    };
    let mut facts = Facts::default();
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    upgrade.records.insert("c1".to_owned(), record);
    facts.works.insert("w".to_owned(), there);
    if is_foreign {
        facts.foreign.insert("w".to_owned(), Duration::ZERO);
    }
    let work = json!({"metadata": {
        "name": name,
        "namespace": "c1",
        "labels": {LABEL_MCU_UID: "u"},
        "annotations": {ANNOTATION_REVISION: "r1"},
    }});
    let body = work.to_string();
    let sender = Sender {
        role: Role::Controller,
        identity: Arc::from("r0-1"),
        at: SECOND * 2,
    };
    let sent = Sent {
        verb: "POST",
        path: "/apis/work.open-cluster-management.io/v1/namespaces/c1/manifestworks",
        body: body.as_bytes(),
        code,
        met: None,
        is_further_page: false,
    };
    facts.request(&sender, &sent);
    facts
}

fn was_blocked(facts: &Facts, revision: &str) -> bool {
    facts.upgrades["u"].records["c1"].was_blocked(&(revision.to_owned(), String::new()))
}

/// Its next step begins anew, although no row and no status could say that it was blocked.
#[test]
fn a_creation_that_the_hub_rejects_blocks_its_cluster() {
    for (code, is_foreign) in [(400, false), (422, false), (409, true)] {
        let facts = known(Step::Operators, code, is_foreign);
        assert!(was_blocked(&facts, "r1"), "{code}");
        assert!(!was_blocked(&facts, "r2"), "{code}");
    }
}

#[test]
fn a_row_that_arrives_late_does_not_tell_that_nothing_blocks_its_cluster_any_more() {
    let may_begin_anew = |sent: u32| {
        let mut facts = known(Step::Operators, 422, false);
        let upgrade = facts.upgrades.get_mut("u").unwrap();
        let late = Told {
            sent: SECOND * sent,
            ..Told::at(SECOND * 60, "Partial")
        };
        upgrade.records.get_mut("c1").unwrap().phases.push(late);
        was_blocked(&facts, "r1")
    };
    assert!(may_begin_anew(1));
    assert!(!may_begin_anew(3), "it was sent after the creation");
}

#[test]
fn what_is_tried_again_and_what_exists_already_blocks_nobody() {
    for (code, is_foreign) in [(201, false), (403, false), (429, true), (503, true), (409, false)] {
        let facts = known(Step::Operators, code, is_foreign);
        assert!(!was_blocked(&facts, "r1"), "{code}");
    }
}

/// Its cluster stays in the post-action, and the clock goes on.
#[test]
fn a_post_action_that_the_hub_rejects_blocks_nobody() {
    for code in [409, 422] {
        let facts = known(Step::PostAction, code, true);
        assert!(!was_blocked(&facts, "r1"), "{code}");
    }
}

#[test]
fn a_change_or_deletion_of_a_report_names_the_object_that_it_meets() {
    let is_right = |verb: &str, body: Value, met: Option<&str>| {
        let sender = Sender {
            role: Role::Controller,
            identity: Arc::from("r0-1"),
            at: SECOND,
        };
        let body = body.to_string();
        let sent = Sent {
            verb,
            path: "/apis/cluster.open-cluster-management.io/v1beta1/namespaces/team/managedclustersupgradereports/spring-report-1",
            body: body.as_bytes(),
            code: 200,
            met,
            is_further_page: false,
        };
        let mut facts = Facts::default();
        facts.request(&sender, &sent);
        assert_eq!(facts.checked[&Rule::Target], 1);
        facts.violations.is_empty()
    };
    let row = || json!({"metadata": {"uid": "one"}, "rows": []});
    assert!(is_right("PATCH", row(), Some("one")));
    assert!(!is_right("PATCH", row(), Some("another")));
    assert!(!is_right(
        "PATCH",
        json!({"metadata": {}, "rows": []}),
        Some("one")
    ));
    let deletion = || json!({"preconditions": {"uid": "one", "resourceVersion": "7"}});
    assert!(is_right("DELETE", deletion(), Some("one")));
    assert!(!is_right("DELETE", deletion(), Some("another")));
    assert!(!is_right("DELETE", json!({}), Some("one")));
}
