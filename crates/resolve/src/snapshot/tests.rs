use api::names::{ANNOTATION_RESUME_RESTORED, ANNOTATION_RETRY_FAILED};
use rollout::maintenance::Opening;
use rollout::{Eligibility, Phase, Reason, RivalHold, StepWork};
use serde_json::{Value, json};

use super::*;
use crate::lists::{ListKind, ListedPage};

const NOW: &str = "2026-05-28T10:15:00Z";

fn now() -> DateTime<Utc> {
    NOW.parse().unwrap()
}

/// Lists as a hub would return them.
#[derive(Default)]
struct Given {
    lists: HubLists,
}

impl Given {
    fn with(mut self, kind: ListKind, items: &[Value]) -> Given {
        let text = json!({"metadata": {}, "items": items}).to_string();
        self.lists.add(kind, &ListedPage::read(&text).unwrap());
        self
    }

    fn snapshot(self) -> Snapshot {
        let settings = ControllerSettings {
            require_bindings: false,
            ..ControllerSettings::default()
        };
        Snapshot::new(self.lists, settings, now())
    }
}

fn cluster(name: &str) -> Value {
    json!({
        "metadata": {"name": name}, "spec": {"hubAcceptsClient": true},
        "status": {"clusterClaims": [{"name": "product.open-cluster-management.io", "value": "OpenShift"}]},
    })
}

fn upgrade(name: &str, created: &str, clusters: &[&str]) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "team", "uid": format!("u-{name}"), "creationTimestamp": created,
            "generation": 1, "annotations": {ANNOTATION_UPGRADE_UID: format!("u-{name}")}},
        "spec": {
            "clusterSelector": {"matchExpressions": [{"key": "name", "operator": "In", "values": clusters}]},
            "clusterVersion": {"channel": "stable-4.14", "version": "4.14.12"},
        },
    })
}

fn report(upgrade: &str, uid: &str, rows: &Value) -> Value {
    json!({
        "metadata": {"name": format!("{upgrade}-report-1"), "namespace": "team",
            "labels": {LABEL_MCU: upgrade, LABEL_MCU_UID: uid},
            "ownerReferences": [{"apiVersion": "cluster.open-cluster-management.io/v1beta1",
                "kind": "ManagedClustersUpgrade", "name": upgrade, "uid": uid, "controller": true}]},
        "rows": rows,
    })
}

const OLD: &str = "2026-05-28T08:00:00Z";
const NEW: &str = "2026-05-28T09:00:00Z";

#[test]
fn an_older_upgrade_holds_its_clusters_and_a_younger_one_does_not() {
    let given = Given::default()
        .with(ListKind::Clusters, &[cluster("c1"), cluster("c2")])
        .with(
            ListKind::Upgrades,
            &[upgrade("old", OLD, &["c1"]), upgrade("new", NEW, &["c1", "c2"])],
        );
    let mut snapshot = given.snapshot();
    let rivals = |input: &PlannerInput| -> Vec<Option<RivalHold>> {
        let clusters = input.fleet.clusters.iter();
        clusters
            .map(|cluster| cluster.rival.as_ref().map(|rival| rival.hold))
            .collect()
    };
    let input = snapshot.planner_input("u-new").unwrap();
    assert_eq!(rivals(&input), [Some(RivalHold::Active), None]);
    let input = snapshot.planner_input("u-old").unwrap();
    assert_eq!(rivals(&input), [None]);
    assert_eq!(snapshot.uid_of("team", "old"), Some("u-old"));
    assert_eq!(snapshot.uid_of("other", "old"), None);
}

#[test]
fn an_older_upgrade_whose_status_says_stalled_is_stuck_where_it_waits() {
    let row = json!({"cluster": "c1", "phase": "Pending", "reason": "WaitingForCanaries", "since": OLD,
        "revision": "r1"});
    for (state, expected) in [("Canary", RivalHold::Active), ("Stalled", RivalHold::Stuck)] {
        let mut old = upgrade("old", OLD, &["c1"]);
        old["status"] = json!({"state": state});
        let mut snapshot = Given::default()
            .with(ListKind::Clusters, &[cluster("c1")])
            .with(ListKind::Upgrades, &[old, upgrade("new", NEW, &["c1"])])
            .with(ListKind::Reports, &[report("old", "u-old", &json!([row]))])
            .snapshot();
        let input = snapshot.planner_input("u-new").unwrap();
        let rival = input.fleet.clusters[0].rival.as_ref().unwrap();
        assert_eq!(rival.hold, expected);
    }
}

#[test]
fn records_and_works_are_those_of_the_upgrade() {
    let row =
        json!({"cluster": "c1", "phase": "Partial", "reason": "Progressing", "since": OLD, "revision": "r1"});
    let work = json!({
        "metadata": {"name": "c1-cluster-upgrade", "namespace": "c1", "uid": "w1", "resourceVersion": "5",
            "labels": {LABEL_MCU_UID: "u-old"},
            "annotations": {
                "cluster.open-cluster-management.io/managedclustersupgrade-owner": "team/old",
                "cluster.open-cluster-management.io/upgrade-revision": "r1",
                "cluster.open-cluster-management.io/upgrade-started-at": OLD,
            }},
    });
    let mut snapshot = Given::default()
        .with(ListKind::Clusters, &[cluster("c1")])
        .with(ListKind::Upgrades, &[upgrade("old", OLD, &["c1"])])
        .with(
            ListKind::Reports,
            &[
                report("old", "u-old", &json!([row])),
                report("old", "u-gone", &json!([row])),
            ],
        )
        .with(ListKind::Works, &[work])
        .snapshot();
    let input = snapshot.planner_input("u-old").unwrap();
    let cluster = &input.fleet.clusters[0];
    assert_eq!(cluster.record.as_ref().unwrap().phase, Phase::Partial);
    assert_eq!(cluster.written, cluster.record);
    let StepWork::Ours(work) = cluster.step_work(Step::Platform) else {
        panic!("the work counts: {cluster:?}");
    };
    assert_eq!(work.started, OLD.parse::<DateTime<Utc>>().unwrap());
}

#[test]
fn an_upgrade_that_is_deleted_invalid_or_unknown_has_no_plan() {
    let mut deleted = upgrade("deleted", OLD, &["c1"]);
    deleted["metadata"]["deletionTimestamp"] = json!(NEW);
    let mut invalid = upgrade("invalid", OLD, &["c1"]);
    invalid["spec"]["clusterVersion"]["version"] = json!("v4");
    let mut snapshot = Given::default()
        .with(ListKind::Upgrades, &[deleted, invalid])
        .snapshot();
    assert_eq!(snapshot.planner_input("u-deleted").unwrap_err(), NoPlan::Deleting);
    assert_eq!(snapshot.planner_input("u-none").unwrap_err(), NoPlan::Unknown);
    let NoPlan::Invalid(violations) = snapshot.planner_input("u-invalid").unwrap_err() else {
        panic!("the spec is invalid");
    };
    assert!(
        violations[0].field.contains("clusterVersion.version"),
        "{violations:?}"
    );
}

#[test]
fn a_restored_upgrade_is_held_until_somebody_resumes_it() {
    let mut restored = upgrade("restored", OLD, &["c1"]);
    restored["metadata"]["annotations"] = json!({ANNOTATION_UPGRADE_UID: "another"});
    let hold = |object: &Value| {
        let mut snapshot = Given::default()
            .with(ListKind::Clusters, &[cluster("c1")])
            .with(ListKind::Upgrades, std::slice::from_ref(object))
            .snapshot();
        snapshot.planner_input("u-restored").unwrap().policy.hold
    };
    assert_eq!(hold(&restored), Some(Hold::Restored));
    restored["metadata"]["annotations"][ANNOTATION_RESUME_RESTORED] = json!("u-restored");
    assert_eq!(hold(&restored), None);
    restored["metadata"]["annotations"] = json!({ANNOTATION_UPGRADE_UID: "u-restored"});
    restored["spec"]["paused"] = json!(true);
    assert_eq!(hold(&restored), Some(Hold::Paused));
}

#[test]
fn reports_of_an_earlier_upgrade_show_that_an_unmarked_object_was_restored() {
    let hold = |marked: bool| {
        let mut object = upgrade("spring", OLD, &["c1"]);
        if !marked {
            object["metadata"]["annotations"] = json!({});
        }
        let mut snapshot = Given::default()
            .with(ListKind::Clusters, &[cluster("c1")])
            .with(ListKind::Upgrades, &[object])
            .with(ListKind::Reports, &[report("spring", "u-earlier", &json!([]))])
            .snapshot();
        snapshot.planner_input("u-spring").unwrap().policy.hold
    };
    assert_eq!((hold(false), hold(true)), (Some(Hold::Restored), None));
}

#[test]
fn a_retry_that_no_status_has_observed_is_requested() {
    let mut object = upgrade("spring", OLD, &["c1"]);
    object["metadata"]["annotations"][ANNOTATION_RETRY_FAILED] = json!("again");
    let retry = |object: &Value| {
        let mut snapshot = Given::default()
            .with(ListKind::Upgrades, std::slice::from_ref(object))
            .snapshot();
        snapshot.planner_input("u-spring").unwrap().policy.retry
    };
    assert_eq!(retry(&object), Some(rollout::PendingRetry::all("again")));
    object["status"] = json!({"observedGeneration": 1, "observedRetry": "again"});
    assert_eq!(retry(&object), None);
}

#[test]
fn an_unreadable_object_leaves_the_others_alone_and_one_without_a_name_is_counted() {
    let mut broken = cluster("c1");
    broken["status"] = json!("none");
    let given = Given::default()
        .with(
            ListKind::Clusters,
            &[broken, cluster("c2"), json!({"metadata": {}}), json!(7)],
        )
        .with(ListKind::Upgrades, &[upgrade("spring", OLD, &["c1", "c2"])]);
    assert_eq!(given.lists.nameless, 2);
    let input = given.snapshot().planner_input("u-spring").unwrap();
    let eligibility: Vec<bool> = input
        .fleet
        .clusters
        .iter()
        .map(|cluster| {
            matches!(
                cluster.eligibility,
                Eligibility::Unavailable {
                    reason: Reason::UnreadableCluster,
                    ..
                }
            )
        })
        .collect();
    assert_eq!(eligibility, [true, false]);
}

#[test]
fn a_page_that_is_no_list_is_refused() {
    for text in ["", "[]", "{}", r#"{"items": 7}"#] {
        assert!(ListedPage::read(text).is_err(), "{text}");
    }
    let page = ListedPage::read(r#"{"metadata":{"continue":"t"},"items":[]}"#).unwrap();
    assert_eq!(page.token(), Some("t"));
    let last = ListedPage::read(r#"{"metadata":{"continue":""},"items":[]}"#).unwrap();
    assert_eq!(last.token(), None);
}

/// An upgrade of three clusters, of which the first two have been asked and offer this of the version.
fn asked(mode: &str, label: bool, offers: &[(&str, &str)], rows: &Value) -> PlannerInput {
    let (given, _) = given(mode, label, offers, rows);
    given.snapshot().planner_input("u-spring").unwrap()
}

/// The lists of such a hub, and the upgrade.
fn given(mode: &str, label: bool, offers: &[(&str, &str)], rows: &Value) -> (Given, Value) {
    let names = ["c1", "c2", "c3"];
    let mut object = upgrade("spring", OLD, &names);
    object["spec"]["preflight"] = json!({"mode": mode});
    let spec: api::ManagedClustersUpgradeSpec = serde_json::from_value(object["spec"].clone()).unwrap();
    let target = spec.cluster_version.unwrap();
    let probe =
        crate::works::probe::ProbeTemplate::new(&target, false, false, WorkFlags::default().spoke_rbac);
    let works = offers.iter().zip(names).map(|((channel, offer), cluster)| {
        let mut work = json!({});
        let body: Value = serde_json::from_slice(&probe.body(cluster, "u-spring", "team/spring")).unwrap();
        work["metadata"] = body["metadata"].clone();
        work["metadata"]["uid"] = json!(cluster);
        work["status"] = observe::testing::status_of_probe();
        let version = &mut work["status"]["resourceStatus"]["manifests"][0];
        version["conditions"][2]["message"] = json!(offer);
        version["statusFeedback"]["values"][0]["fieldValue"]["string"] = json!("4.14.9");
        version["statusFeedback"]["values"][1]["fieldValue"]["string"] = json!(channel);
        work
    });
    let works: Vec<Value> = works.collect();
    let clusters = names.map(|name| {
        let mut cluster = cluster(name);
        if label {
            cluster["metadata"]["labels"] = json!({api::names::LABEL_AGENT_VERSION: "v1.2.1"});
        }
        cluster
    });
    let given = Given::default()
        .with(ListKind::Clusters, &clusters)
        .with(ListKind::Upgrades, std::slice::from_ref(&object))
        .with(ListKind::Reports, &[report("spring", "u-spring", rows)])
        .with(ListKind::Works, &works);
    (given, object)
}

const NOT_LISTED: (&str, &str) = ("stable-4.14", "offer/1");
const LISTED: (&str, &str) = (
    "stable-4.14",
    "offer/1\nlisted quay.io/r@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
);

fn preflights(input: &PlannerInput) -> Vec<&Preflight> {
    let clusters = input.fleet.clusters.iter();
    clusters.map(|cluster| &cluster.preflight).collect()
}

#[test]
fn with_mode_require_known_refusals_block_and_clusters_that_have_not_answered_are_counted() {
    let input = asked("Require", true, &[NOT_LISTED, LISTED], &json!([]));
    assert!(input.policy.requires_preflight);
    let blocked = Preflight::Blocked {
        reason: Reason::NotOffered,
        message: "The cluster does not offer 4.14.12 in channel \"stable-4.14\"".into(),
    };
    assert_eq!(
        preflights(&input),
        [&blocked, &Preflight::Ready, &Preflight::Ready]
    );
    let answers = &input.answers;
    assert_eq!(
        (answers.not_asked, answers.not_known, answers.unknown_agents),
        (1, 0, 0)
    );
    assert!(answers.required && answers.refusals.is_empty());
}

#[test]
fn with_mode_require_a_cluster_of_another_channel_is_not_taken_for_ready() {
    let input = asked(
        "Require",
        false,
        &[("stable-4.13", "offer/1"), LISTED],
        &json!([]),
    );
    let reason = |preflight: &Preflight| match preflight {
        Preflight::Unknown { reason, .. } => Some(*reason),
        _ => None,
    };
    let reasons: Vec<Option<Reason>> = preflights(&input).into_iter().map(reason).collect();
    assert_eq!(reasons, [Some(Reason::ChannelDiffers), None, None]);
    assert_eq!((input.answers.assumed(), input.answers.unknown_agents), (1, 1));
}

#[test]
fn of_a_failing_cluster_in_another_channel_the_row_tells_what_the_update_graph_says() {
    let revision = asked("Require", true, &[], &json!([])).policy.revision;
    let first_cause = |reason: &str| {
        let row = json!({"cluster": "c1", "phase": "Blocked", "reason": reason, "since": OLD,
            "revision": &*revision});
        let (mut given, _) = given("Require", true, &[NOT_LISTED], &json!([row]));
        let mut status = observe::testing::status_of_probe();
        let values = &mut status["resourceStatus"]["manifests"][0]["statusFeedback"]["values"];
        for (place, text) in [(0, "4.14.9"), (1, "stable-4.13"), (3, "True")] {
            values[place]["fieldValue"]["string"] = json!(text);
        }
        given.lists.works[0].status = serde_json::from_value(status).unwrap();
        let input = given.snapshot().planner_input("u-spring").unwrap();
        match preflights(&input)[0] {
            Preflight::Blocked { reason, .. } => Some(*reason),
            _ => None,
        }
    };
    assert_eq!(first_cause("NotOffered"), Some(Reason::NotOffered));
    assert_eq!(
        first_cause("NoWindow"),
        Some(Reason::Failing),
        "it answered later"
    );
}

#[test]
fn with_mode_report_clusters_that_would_refuse_start_and_are_told() {
    let input = asked("Report", true, &[NOT_LISTED, NOT_LISTED], &json!([]));
    assert_eq!(preflights(&input), [&Preflight::Ready; 3]);
    let refusals = &input.answers.refusals;
    let names: Vec<&str> = refusals.keys().map(|name| &**name).collect();
    assert_eq!(names, ["c1", "c2"]);
    assert_eq!(refusals["c1"].reason, Reason::NotOffered);
    assert_eq!(input.answers.not_asked, 1);
}

/// An acknowledgment or an accepted risk changes what clusters are asked, and not what they offer.
#[test]
fn the_plan_of_an_edit_uses_the_answers_to_the_spec_on_the_hub() {
    let edited = |edit: &dyn Fn(&mut Value)| {
        let (mut given, mut object) = given("Require", true, &[NOT_LISTED, LISTED], &json!([]));
        given.lists.replaced = given.lists.upgrades.pop();
        edit(&mut object["spec"]);
        let given = given.with(ListKind::Upgrades, &[object]);
        given.snapshot().planner_input("u-spring").unwrap().answers
    };
    let accepts = edited(&|spec| {
        spec["clusterVersion"]["acceptRisks"] = json!([{"name": "Leak", "reason": "it is dry here"}]);
    });
    assert_eq!(accepts.not_asked, 1);
    let newer = edited(&|spec| spec["clusterVersion"]["version"] = json!("4.14.13"));
    assert_eq!(newer.not_asked, 3);
    let with_pools = edited(&|spec| spec["upgradeStrategy"] = json!({"workerPools": "Wait"}));
    assert_eq!(with_pools.not_asked, 3, "they were not asked for pools");
}

#[test]
fn a_cluster_that_another_upgrade_holds_is_not_counted_as_one_that_was_not_asked() {
    let held = |name: &str| {
        let mut fleet = rollout::testing::fleet().cluster(name).build();
        let cluster = &mut fleet.clusters[0];
        assert!(answers::is_asked(cluster));
        cluster.rival = Some(rollout::Rival {
            upgrade: Arc::from("team/other"),
            hold: RivalHold::Active,
        });
        answers::is_asked(cluster)
    };
    assert!(!held("c1"));
}

#[test]
fn without_a_preflight_nobody_is_counted() {
    let input = asked("Off", true, &[], &json!([]));
    assert_eq!(preflights(&input), [&Preflight::Ready; 3]);
    assert_eq!(input.answers, Answers::default());
}

#[test]
fn where_worker_pools_are_waited_for_clusters_of_unknown_agents_are_counted_without_a_preflight() {
    let unknown = |label: bool, strategy: &Value| {
        let (mut given, mut object) = given("Off", label, &[], &json!([]));
        given.lists.upgrades.pop();
        object["spec"]["upgradeStrategy"] = strategy.clone();
        let given = given.with(ListKind::Upgrades, &[object]);
        let input = given.snapshot().planner_input("u-spring").unwrap();
        input.answers.unknown_for_pools
    };
    let waits = json!({"workerPools": "Wait"});
    assert_eq!((unknown(false, &waits), unknown(true, &waits)), (3, 0));
    assert_eq!(unknown(false, &json!({})), 0);
}

#[test]
fn a_row_tells_that_the_controller_does_not_ask_agents_that_it_does_not_know() {
    let row = json!({"cluster": "c3", "phase": "Blocked", "reason": "PreflightUnsupported", "since": OLD,
        "revision": "r1"});
    let input = asked("Require", false, &[LISTED], &json!([row]));
    let reasons: Vec<bool> = preflights(&input)
        .into_iter()
        .map(|preflight| {
            matches!(
                preflight,
                Preflight::Blocked {
                    reason: Reason::PreflightUnsupported,
                    ..
                }
            )
        })
        .collect();
    assert_eq!(reasons, [false, true, true]);
    assert_eq!(input.answers.assumed(), 0);
}

#[test]
fn how_much_of_a_window_must_remain_is_what_the_controller_has_estimated() {
    let starts = |told: Option<&str>| {
        let mut upgrade = upgrade("u", OLD, &["c1"]);
        upgrade["spec"]["maintenance"] = json!({
            "minimumRemaining": "Estimate",
            "windows": [{"name": "night", "schedule": "0 10 * * *", "duration": "2h"}],
        });
        if let Some(told) = told {
            upgrade["status"] = json!({"maintenance": {"waiting": 0, "minimumRemaining": told}});
        }
        let given = Given::default()
            .with(ListKind::Clusters, &[cluster("c1")])
            .with(ListKind::Upgrades, &[upgrade]);
        let input = given.snapshot().planner_input("u-u").unwrap();
        match &input.fleet.clusters[0].eligibility {
            Eligibility::Blocked { reason, .. } => Err(*reason),
            _ => Ok(matches!(input.fleet.calendars[0].at(now()), Opening::Open { .. })),
        }
    };
    assert_eq!(
        starts(None),
        Err(Reason::NoWindow),
        "by the limits of time, hours"
    );
    assert_eq!(starts(Some("1h40m")), Ok(true), "1h45m are left");
    assert_eq!(starts(Some("1h50m")), Ok(false));
}
