use api::mcu::{ActionWork, ActionWorkload, ClusterVersionSpec, OcpOperators, OperatorRef, UpgradeAction};
use serde_json::Value;

use super::*;

const CLUSTER: ClusterFacts<'_> = ClusterFacts {
    name: "spoke1",
    uid: "",
    cluster_id: Some("94e170c1-7a3c-4ae1-a85d-8bd904ad783f"),
    request: &WorkRequest::AsPlanned,
};

fn stamp() -> Stamp<'static> {
    Stamp {
        mcu_uid: "7d1c0b3e-0000-4000-8000-000000000001",
        owner: "default/upgrade",
        revision: "0123456789abcdef",
        retry: "",
        started_at: api::time::parse_rfc3339("2026-03-01T10:20:30.456Z").unwrap(),
    }
}

fn operator(name: &str, namespace: &str) -> OperatorRef {
    OperatorRef {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
    }
}

fn action(work: &Value) -> UpgradeAction {
    serde_json::from_value(json!({ "manifestWork": work })).unwrap()
}

fn backup() -> Value {
    json!({
        "deleteOption": { "propagationPolicy": "Foreground" },
        "workload": { "manifests": [
            { "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "backup" } },
            { "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "backup", "namespace": "backup" }, "spec": {} },
        ] },
        "futureField": { "kept": true },
    })
}

/// An upgrade of the platform and of one operator with a timeout of ten minutes.
fn seed() -> ManagedClustersUpgradeSpec {
    let mut spec = ManagedClustersUpgradeSpec {
        cluster_version: Some(ClusterVersionSpec {
            channel: "stable-4.12".to_owned(),
            version: "4.12.0".to_owned(),
            ..ClusterVersionSpec::default()
        }),
        ocp_operators: Some(OcpOperators {
            include: vec![operator("openshift-gitops-operator", "openshift-operators")],
            ..OcpOperators::default()
        }),
        pre_upgrade_action: Some(action(&backup())),
        ..ManagedClustersUpgradeSpec::default()
    };
    spec.upgrade_strategy.operators_upgrade_timeout = "10m".to_owned();
    spec
}

fn templates(spec: &ManagedClustersUpgradeSpec) -> Templates {
    Templates::new(spec, &WorkFlags::default())
}

fn work(spec: &ManagedClustersUpgradeSpec, step: Step) -> Value {
    let body = templates(spec).body(step, &CLUSTER, &stamp()).unwrap();
    serde_json::from_slice(&body).unwrap()
}

fn pretty(work: &Value) -> String {
    serde_json::to_string_pretty(&canonical::sorted(work)).unwrap()
}

fn env(spec: &ManagedClustersUpgradeSpec) -> Vec<String> {
    let work = work(spec, Step::Operators);
    let env = &work["spec"]["workload"]["manifests"][4]["spec"]["template"]["spec"]["containers"][0]["env"];
    env.as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            format!(
                "{}={}",
                entry["name"].as_str().unwrap(),
                entry["value"].as_str().unwrap()
            )
        })
        .collect()
}

#[test]
fn the_platform_work_is_the_references() {
    insta::assert_snapshot!(pretty(&work(&seed(), Step::Platform)));
}

#[test]
fn the_operators_work_is_the_references() {
    insta::assert_snapshot!(pretty(&work(&seed(), Step::Operators)));
}

#[test]
fn the_approver_may_do_what_its_script_asks_for_and_no_more() {
    let work = work(&seed(), Step::Operators);
    let rules = &work["spec"]["workload"]["manifests"][1]["rules"];
    let mut allowed: Vec<(&str, &str)> = Vec::new();
    for rule in rules.as_array().unwrap() {
        assert_eq!(rule["apiGroups"], json!(["operators.coreos.com"]));
        let resources = rule["resources"].as_array().unwrap();
        assert_eq!(resources.len(), 1);
        let verbs = rule["verbs"].as_array().unwrap();
        allowed.extend(
            verbs
                .iter()
                .map(|verb| (resources[0].as_str().unwrap(), verb.as_str().unwrap())),
        );
    }
    // `oc get -A` and `--field-selector` list, `oc get NAME` gets, `oc patch NAME` gets and patches.
    assert_eq!(
        allowed,
        [
            ("subscriptions", "get"),
            ("subscriptions", "list"),
            ("installplans", "get"),
            ("installplans", "patch")
        ]
    );
}

#[test]
fn an_action_work_is_a_copy_with_feedback_for_its_jobs() {
    insta::assert_snapshot!(pretty(&work(&seed(), Step::PreAction)));
}

#[test]
fn a_post_action_is_rendered_like_a_pre_action() {
    let mut spec = seed();
    spec.post_upgrade_action = spec.pre_upgrade_action.take();
    let post = work(&spec, Step::PostAction);
    assert_eq!(post["metadata"]["name"], "spoke1-post-upgrade-action");
    assert_eq!(
        post["metadata"]["labels"][names::LABEL_STEP],
        "post-upgrade-action"
    );
    assert_eq!(post["spec"], work(&seed(), Step::PreAction)["spec"]);
    assert_eq!(templates(&spec).step_hash(Step::PreAction), None);
}

#[test]
fn image_and_upstream_are_written_when_set_and_empty_keys_are_left_out() {
    let mut spec = seed();
    let version = spec.cluster_version.as_mut().unwrap();
    version.upstream = "https://updates.example.com/graph".to_owned();
    version.image = "quay.io/x@sha256:aa".to_owned();
    version.channel.clear();
    let fields = &work(&spec, Step::Platform)["spec"]["workload"]["manifests"][0]["spec"];
    assert_eq!(
        *fields,
        json!({
            "clusterID": CLUSTER.cluster_id,
            "upstream": "https://updates.example.com/graph",
            "desiredUpdate": { "force": false, "image": "quay.io/x@sha256:aa", "version": "4.12.0" },
        })
    );
    let plain = &work(&seed(), Step::Platform)["spec"]["workload"]["manifests"][0]["spec"];
    assert_eq!(plain.get("upstream"), None);
    assert_eq!(plain["desiredUpdate"]["image"], "");
}

#[test]
fn a_channel_that_an_earlier_upgrade_set_is_not_taken_back_by_one_that_names_none() {
    let mut managers = std::collections::BTreeMap::new();
    for (channel, upstream) in [
        ("", ""),
        ("stable-4.12", ""),
        ("", "https://updates.example"),
        ("fast-4.12", "https://updates.example"),
    ] {
        let mut spec = seed();
        let version = spec.cluster_version.as_mut().unwrap();
        version.channel = channel.to_owned();
        version.upstream = upstream.to_owned();
        let work = work(&spec, Step::Platform);
        let fields = work["spec"]["workload"]["manifests"][0]["spec"]
            .as_object()
            .unwrap();
        let fields: Vec<String> = fields.keys().cloned().collect();
        let strategy = &work["spec"]["manifestConfigs"][0]["updateStrategy"]["serverSideApply"];
        let manager = strategy["fieldManager"].as_str().unwrap().to_owned();
        assert!(
            manager.starts_with("work-agent"),
            "the only names that agents accept: {manager}"
        );
        assert_eq!(
            managers.insert(manager, fields),
            None,
            "each set of fields has its own"
        );
    }
    assert_eq!(
        managers["work-agent-mcu"],
        ["channel", "clusterID", "desiredUpdate"]
    );
}

#[test]
fn the_architecture_is_reset_where_every_cluster_knows_that_field() {
    let architecture = |version: &str, image: &str| {
        let mut spec = seed();
        let target = spec.cluster_version.as_mut().unwrap();
        (target.version, target.image) = (version.to_owned(), image.to_owned());
        work(&spec, Step::Platform)["spec"]["workload"]["manifests"][0]["spec"]["desiredUpdate"]
            .get("architecture")
            .cloned()
    };
    assert_eq!(architecture("4.14.0", ""), Some(json!("")));
    assert_eq!(architecture("5.0.1", "quay.io/x@sha256:aa"), Some(json!("")));
    for older in ["4.13.9", "4.12.0", "4.14"] {
        assert_eq!(architecture(older, ""), None, "{older}");
    }
    assert_eq!(
        architecture("", "quay.io/x@sha256:aa"),
        None,
        "of an unknown release"
    );
}

#[test]
fn a_cluster_is_asked_in_its_own_way_and_the_work_notes_it() {
    let asked = |request: &WorkRequest| {
        let cluster = ClusterFacts { request, ..CLUSTER };
        let spec = seed();
        let body = templates(&spec).body(Step::Platform, &cluster, &stamp()).unwrap();
        let work: Value = serde_json::from_slice(&body).unwrap();
        let update = work["spec"]["workload"]["manifests"][0]["spec"]["desiredUpdate"].clone();
        (update, work["metadata"]["annotations"].clone())
    };
    let (update, notes) = asked(&WorkRequest::Image("quay.io/x@sha256:bb".into()));
    assert_eq!(
        update,
        json!({ "force": false, "image": "quay.io/x@sha256:bb", "version": "4.12.0" })
    );
    assert_eq!(notes[names::ANNOTATION_RELEASE_IMAGE], "quay.io/x@sha256:bb");
    assert_eq!(notes.get(names::ANNOTATION_ACCEPTED_RISKS), None);

    let (update, notes) = asked(&WorkRequest::AcceptedRisks("Leak Slow\"Disk".into()));
    let risks = json!([{ "name": "Leak" }, { "name": "Slow\"Disk" }]);
    assert_eq!(
        update,
        json!({ "acceptRisks": risks, "force": false, "image": "", "version": "4.12.0" })
    );
    assert_eq!(notes[names::ANNOTATION_ACCEPTED_RISKS], "Leak Slow\"Disk");
    assert_eq!(notes.get(names::ANNOTATION_RELEASE_IMAGE), None);
}

#[test]
fn a_target_by_image_alone_still_writes_an_empty_version() {
    let mut spec = seed();
    let version = spec.cluster_version.as_mut().unwrap();
    version.version.clear();
    version.image = "quay.io/x@sha256:aa".to_owned();
    let work = work(&spec, Step::Platform);
    let fields = &work["spec"]["workload"]["manifests"][0]["spec"];
    assert_eq!(
        fields["desiredUpdate"],
        json!({ "force": false, "image": "quay.io/x@sha256:aa", "version": "" })
    );
    let annotations = work["metadata"]["annotations"].as_object().unwrap();
    assert_eq!(annotations[names::ANNOTATION_TARGET_IMAGE], "quay.io/x@sha256:aa");
    assert!(!annotations.contains_key(names::ANNOTATION_TARGET_VERSION));
}

#[test]
fn a_cluster_without_id_gets_no_cluster_id_and_odd_text_stays_json() {
    let mut spec = seed();
    spec.cluster_version.as_mut().unwrap().channel = "sta\"ble\\{".to_owned();
    let nameless = ClusterFacts {
        cluster_id: None,
        ..CLUSTER
    };
    let body = templates(&spec)
        .body(Step::Platform, &nameless, &stamp())
        .unwrap();
    let work: Value = serde_json::from_slice(&body).unwrap();
    let fields = &work["spec"]["workload"]["manifests"][0]["spec"];
    assert_eq!(fields.get("clusterID"), None);
    assert_eq!(fields["channel"], "sta\"ble\\{");
}

#[test]
fn spoke_rbac_replaces_or_drops_the_second_manifest() {
    let with = |spoke_rbac| {
        let flags = WorkFlags {
            spoke_rbac,
            agent_service_account: ("hosted".to_owned(), "sa".to_owned()),
            ..WorkFlags::default()
        };
        let body = Templates::new(&seed(), &flags)
            .body(Step::Platform, &CLUSTER, &stamp())
            .unwrap();
        serde_json::from_slice::<Value>(&body).unwrap()
    };
    let admin = with(SpokeRbac::AdminOcm);
    assert_eq!(
        admin["spec"]["workload"]["manifests"][1]["subjects"],
        json!([{ "kind": "ServiceAccount", "name": "sa", "namespace": "hosted" }])
    );
    let none = with(SpokeRbac::None);
    assert_eq!(none["spec"]["workload"]["manifests"].as_array().unwrap().len(), 1);
    assert_eq!(none["spec"]["deleteOption"], admin["spec"]["deleteOption"]);
    let aggregate = with(SpokeRbac::Aggregate);
    insta::assert_snapshot!(
        "aggregated_role",
        pretty(&json!([
            aggregate["spec"]["deleteOption"],
            aggregate["spec"]["workload"]["manifests"][1]
        ]))
    );
}

#[test]
fn lists_are_name_comma_namespace_joined_by_one_space() {
    let mut spec = seed();
    let operators = spec.ocp_operators.as_mut().unwrap();
    operators.include = vec![operator("a", "ns1"), operator("b", "ns2"), operator("c", "ns1")];
    operators.exclude = vec![operator("x", "ns1"), operator("y", "ns2"), operator("z", "ns3")];
    assert_eq!(
        env(&spec),
        [
            "EXCLUDELIST=x,ns1 y,ns2 z,ns3",
            "INCLUDELIST=a,ns1 b,ns2 c,ns1",
            "WAITTIME=600"
        ]
    );
    spec.ocp_operators.as_mut().unwrap().approve_all_upgrades = true;
    assert_eq!(env(&spec)[..2], ["EXCLUDELIST=x,ns1 y,ns2 z,ns3", "INCLUDELIST="]);
}

#[test]
fn the_wait_is_in_whole_seconds_and_the_deadline_ninety_more() {
    for (timeout, wait, deadline) in [
        ("20m", "1200", 1290),
        ("1h30m", "5400", 5490),
        ("1500ms", "2", 92),
        ("1ms", "1", 91),
    ] {
        let mut spec = seed();
        spec.upgrade_strategy.operators_upgrade_timeout = timeout.to_owned();
        assert_eq!(env(&spec)[2], format!("WAITTIME={wait}"));
        let work = work(&spec, Step::Operators);
        assert_eq!(
            work["spec"]["workload"]["manifests"][4]["spec"]["activeDeadlineSeconds"],
            deadline
        );
    }
}

#[test]
fn a_step_that_is_not_requested_has_neither_hash_nor_body() {
    let bare = templates(&ManagedClustersUpgradeSpec::default());
    for step in Step::ALL {
        assert_eq!(bare.step_hash(step), None);
        assert_eq!(bare.body(step, &CLUSTER, &stamp()), None);
    }
    assert_eq!(bare.platform_apply(&CLUSTER, &stamp()), None);

    let mut spec = seed();
    spec.ocp_operators.as_mut().unwrap().include.clear();
    assert_eq!(templates(&spec).step_hash(Step::Operators), None);
    spec.ocp_operators.as_mut().unwrap().approve_all_upgrades = true;
    assert!(templates(&spec).step_hash(Step::Operators).is_some());
}

/// Hashes of a spec: the revision and those of the four steps.
fn hashes(spec: &ManagedClustersUpgradeSpec) -> (String, [Option<String>; 4]) {
    let templates = templates(spec);
    let steps = Step::ALL.map(|step| templates.step_hash(step).map(str::to_owned));
    (templates.revision().to_owned(), steps)
}

type Edit = fn(&mut ManagedClustersUpgradeSpec);
type Change = dyn Fn(&mut ManagedClustersUpgradeSpec);

#[test]
fn what_is_done_to_clusters_changes_the_revision_and_the_hash_of_its_step_alone() {
    let version = |spec: &mut ManagedClustersUpgradeSpec, edit: fn(&mut ClusterVersionSpec)| {
        edit(spec.cluster_version.as_mut().unwrap());
    };
    let edits: [(Step, Box<Change>); 10] = [
        (
            Step::Platform,
            Box::new(move |s| version(s, |v| v.version = "4.12.1".to_owned())),
        ),
        (
            Step::Platform,
            Box::new(move |s| version(s, |v| v.channel = "fast-4.12".to_owned())),
        ),
        (
            Step::Platform,
            Box::new(move |s| version(s, |v| v.image = "i".to_owned())),
        ),
        (
            Step::Platform,
            Box::new(move |s| version(s, |v| v.upstream = "http://u".to_owned())),
        ),
        (Step::Platform, Box::new(|s| s.cluster_version = None)),
        (
            Step::Operators,
            Box::new(|s| s.ocp_operators.as_mut().unwrap().include[0].namespace = "other".to_owned()),
        ),
        (
            Step::Operators,
            Box::new(|s| s.ocp_operators.as_mut().unwrap().exclude.push(operator("x", "y"))),
        ),
        (
            Step::Operators,
            Box::new(|s| s.ocp_operators.as_mut().unwrap().approve_all_upgrades = true),
        ),
        (Step::PreAction, Box::new(|s| s.pre_upgrade_action = None)),
        (
            Step::PostAction,
            Box::new(|s| s.post_upgrade_action = Some(action(&backup()))),
        ),
    ];
    let (revision, steps) = hashes(&seed());
    for (number, (step, edit)) in edits.iter().enumerate() {
        let mut spec = seed();
        edit(&mut spec);
        let (changed, changed_steps) = hashes(&spec);
        assert_ne!(changed, revision, "edit {number}");
        for ((other, before), after) in Step::ALL.iter().zip(&steps).zip(&changed_steps) {
            assert_eq!(before != after, other == step, "edit {number}, {other}");
        }
    }
}

#[test]
fn what_applies_at_once_or_means_the_same_changes_no_hash() {
    let edits: [Edit; 7] = [
        |s| s.paused = true,
        |s| {
            s.upgrade_strategy.cluster_upgrade_timeout = "1h".to_owned();
            s.upgrade_strategy.operators_upgrade_timeout = "1h".to_owned();
            s.upgrade_strategy.min_success_time = Some("1h".to_owned());
        },
        |s| {
            s.upgrade_strategy.max_concurrency = serde_json::from_value(json!("50%")).unwrap();
            s.upgrade_strategy.max_failures = serde_json::from_value(json!(3)).unwrap();
        },
        |s| s.upgrade_strategy.canary_clusters = Some(api::mcu::CanaryClusters::default()),
        |s| s.cluster_selector = Some(api::mcu::ClusterSelector::default()),
        |s| s.placement = vec![api::mcu::PlacementRef::default()],
        |s| s.ocp_operators.as_mut().unwrap().include.reverse(),
    ];
    let mut spec = seed();
    let include = &mut spec.ocp_operators.as_mut().unwrap().include;
    include.push(operator("second", "openshift-operators"));
    let before = hashes(&spec);
    for (number, edit) in edits.iter().enumerate() {
        edit(&mut spec);
        assert_eq!(hashes(&spec), before, "edit {number}");
    }
    let flags = WorkFlags {
        spoke_rbac: SpokeRbac::None,
        approver_image: "mirror/cli:1".to_owned(),
        ..WorkFlags::default()
    };
    assert_eq!(Templates::new(&spec, &flags).revision(), before.0);
}

#[test]
fn an_include_list_that_approve_all_ignores_changes_no_hash() {
    let mut spec = seed();
    spec.ocp_operators.as_mut().unwrap().approve_all_upgrades = true;
    let before = hashes(&spec);
    spec.ocp_operators.as_mut().unwrap().include.clear();
    assert_eq!(hashes(&spec), before);
}

#[test]
fn a_retry_shows_in_the_body() {
    let retried = Stamp {
        retry: "again-1",
        ..stamp()
    };
    let body = templates(&seed())
        .body(Step::Operators, &CLUSTER, &retried)
        .unwrap();
    let work: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        work["metadata"]["annotations"][names::ANNOTATION_ATTEMPT],
        "again-1"
    );
}

#[test]
fn an_applied_platform_work_clears_every_annotation_a_former_attempt_may_have_left() {
    let templates = templates(&seed());
    let body = templates.platform_apply(&CLUSTER, &stamp()).unwrap();
    let applied: Value = serde_json::from_slice(&body).unwrap();
    let created = work(&seed(), Step::Platform);
    assert_eq!(applied["spec"], created["spec"]);
    assert_eq!(applied["metadata"]["labels"], created["metadata"]["labels"]);
    let annotations = &applied["metadata"]["annotations"];
    for key in [
        names::ANNOTATION_ATTEMPT,
        names::ANNOTATION_SOAK_STARTED_AT,
        names::ANNOTATION_TARGET_IMAGE,
    ] {
        assert_eq!(annotations[key], "", "{key}");
    }
    assert_eq!(annotations[names::ANNOTATION_TARGET_VERSION], "4.12.0");
    assert_eq!(
        annotations[names::ANNOTATION_STARTED_AT],
        "2026-03-01T10:20:30.456Z"
    );
}

#[test]
fn ten_thousand_bodies_are_put_together_without_rendering_the_spec_again() {
    let mut spec = seed();
    let filler = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "big" }, "data": { "x": "y".repeat(100_000) } });
    spec.pre_upgrade_action = Some(UpgradeAction {
        manifest_work: ActionWork {
            workload: ActionWorkload {
                manifests: vec![filler],
            },
            ..ActionWork::default()
        },
    });
    let templates = templates(&spec);
    let Some(Template {
        spec: SpecTemplate::Whole(text),
        ..
    }) = templates.template(Step::PreAction)
    else {
        panic!("an action has one text for all clusters");
    };
    let body = templates.body(Step::PreAction, &CLUSTER, &stamp()).unwrap();
    let tail = format!("{text}}}");
    assert!(body.ends_with(tail.as_bytes()));
}
