use clusterversion::types::{COMPLETED, ComponentOverride, HistoryEntry, Spec};

use super::*;

const A: Era = Era::new(4, 12);
const B: Era = Era::new(4, 19);
const LATE: Era = Era::new(4, 22);
const C: Era = Era::new(5, 0);
const GATE: &str = "ack-4.12-kube-1.26-api-removals-in-4.13";

struct World {
    object: ClusterVersion,
    gates: ConfigMap,
    acks: ConfigMap,
    operators: Result<Vec<OperatorState>, String>,
    deletions: Vec<String>,
}

fn world() -> World {
    let mut object = ClusterVersion::new(Spec::default());
    object.status.desired.version = "4.12.16".to_owned();
    object.status.history = vec![HistoryEntry {
        state: COMPLETED.to_owned(),
        version: "4.12.16".to_owned(),
        ..HistoryEntry::default()
    }];
    World {
        object,
        gates: ConfigMap::of([(GATE, "APIs go.")]),
        acks: ConfigMap::of([(GATE, "true")]),
        operators: Ok(Vec::new()),
        deletions: Vec::new(),
    }
}

fn refusing_operator(name: &str, reason: &str, message: &str) -> OperatorState {
    let no = ConditionStatus::False;
    OperatorState {
        name: name.to_owned(),
        conditions: Conditions(vec![ClusterOperatorCondition::new(
            Time::UNIX_EPOCH,
            UPGRADEABLE,
            no,
            reason,
            message,
        )]),
        version: String::new(),
    }
}

fn update(world: &mut World) {
    let yes = ConditionStatus::True;
    let progressing = ClusterOperatorCondition::new(Time::UNIX_EPOCH, PROGRESSING, yes, "", "");
    world.object.status.conditions.set(progressing);
}

impl World {
    fn context(&self) -> UpgradeableInputs<'_> {
        UpgradeableInputs {
            gates: &self.gates,
            acks: &self.acks,
            operators: &self.operators,
            deletions: &self.deletions,
        }
    }

    /// Reason and message of Upgradeable; nothing when it is absent.
    fn upgradeable(&self, era: Era) -> Option<(String, String)> {
        let found = check(Time::UNIX_EPOCH, &self.object, &self.context(), era);
        let condition = found
            .into_iter()
            .find(|condition| condition.kind == UPGRADEABLE)?;
        assert!(condition.is_false());
        Some((condition.reason, condition.message))
    }
}

fn expect(world: &World, era: Era, reason: &str, message: &str) {
    assert_eq!(
        world.upgradeable(era),
        Some((reason.to_owned(), message.to_owned()))
    );
}

#[test]
fn without_a_reason_the_condition_is_absent() {
    assert_eq!(world().upgradeable(A), None);
    let mut updating = world();
    update(&mut updating);
    assert_eq!(
        updating.upgradeable(A),
        None,
        "before 4.19 an update under way blocks nothing"
    );
}

#[test]
fn each_check_has_its_reason_and_text() {
    let mut overriding = world();
    overriding.object.spec.overrides = vec![ComponentOverride {
        unmanaged: true,
        ..ComponentOverride::default()
    }];
    expect(
        &overriding,
        A,
        "ClusterVersionOverridesSet",
        "Disabling ownership via cluster version overrides prevents upgrades. Please remove overrides before continuing.",
    );
    expect(
        &overriding,
        LATE,
        "ClusterVersionOverridesSet",
        "Disabling ownership via cluster version overrides prevents upgrades between minor or major versions. Please remove overrides before requesting a minor or major version update.",
    );
    let mut one = world();
    one.operators = Ok(vec![refusing_operator(
        "machine-config",
        "PoolUpdating",
        "Pools.",
    )]);
    expect(
        &one,
        A,
        "PoolUpdating",
        "Cluster operator machine-config should not be upgraded between minor versions: Pools.",
    );
    one.operators = Ok(vec![
        refusing_operator("b", "R", "M"),
        refusing_operator("a", "S", "N"),
    ]);
    expect(
        &one,
        LATE,
        "ClusterOperatorsNotUpgradeable",
        "Multiple cluster operators should not be upgraded between minor or major versions:\n* Cluster operator b should not be upgraded between minor or major versions: R: M\n* Cluster operator a should not be upgraded between minor or major versions: S: N",
    );
    one.operators = Err("down".to_owned());
    expect(
        &one,
        A,
        "FailedToListClusterOperators",
        "failed to list cluster operators: down",
    );
    let mut deleting = world();
    deleting.deletions = vec!["deployment \"ns/a\"".to_owned(), "b".to_owned()];
    expect(
        &deleting,
        A,
        "ResourceDeletesInProgress",
        "Cluster minor level upgrades are not allowed while resource deletions are in progress; resources=deployment \"ns/a\",b",
    );
    expect(
        &deleting,
        LATE,
        "ResourceDeletesInProgress",
        "Cluster minor or major version upgrades are not allowed while resource deletions are in progress; resources=deployment \"ns/a\",b",
    );
    let mut updating = world();
    update(&mut updating);
    expect(
        &updating,
        B,
        "UpdateInProgress",
        "An update is already in progress and the details are in the Progressing condition",
    );
}

#[test]
fn config_maps_that_are_missing_or_unreadable_block() {
    let mut world = world();
    for (gates, acks, reason, message) in [
        (
            ConfigMap::Missing,
            ConfigMap::Missing,
            "UnableToAccessAdminGatesConfigMap",
            "admin-gates configmap not found.",
        ),
        (
            ConfigMap::Unreadable("forbidden".to_owned()),
            ConfigMap::Missing,
            "UnableToAccessAdminGatesConfigMap",
            "Unable to access configmap admin-gates, err=forbidden.",
        ),
        (
            ConfigMap::of([(GATE, "APIs go.")]),
            ConfigMap::Missing,
            "UnableToAccessAdminAcksConfigMap",
            "admin-acks configmap not found.",
        ),
        (
            ConfigMap::of([(GATE, "APIs go.")]),
            ConfigMap::Unreadable("forbidden".to_owned()),
            "UnableToAccessAdminAcksConfigMap",
            "Unable to access configmap admin-acks, err=forbidden.",
        ),
        (
            ConfigMap::of([(GATE, "B."), ("ack-4.12-a", "Z."), ("ack-4.12-b", "A.")]),
            ConfigMap::of([("other", "true")]),
            "AdminAckRequired",
            "A. B. Z.",
        ),
        (
            ConfigMap::of([(GATE, "Text."), ("ack-4.12-a", ""), ("ack-x", "t")]),
            ConfigMap::of([(GATE, "yes")]),
            "MultipleReasons",
            "Text. admin-gates configmap gate ack-4.12-a must contain a non-empty value. admin-gates configmap gate name ack-x has invalid format; must comply with \"^ack-[4-5][.]([0-9]{1,})-[^-]\".",
        ),
    ] {
        world.gates = gates;
        world.acks = acks;
        expect(&world, A, reason, message);
    }
    world.object.status.history.clear();
    assert_eq!(
        world.upgradeable(A),
        None,
        "before there is a history nothing is asked for"
    );
}

#[test]
fn a_gate_is_asked_for_by_the_last_completed_version() {
    let mut world = world();
    world.acks = ConfigMap::of([("x", "y")]);
    let mut newer = world.object.status.history[0].clone();
    newer.version = "4.13.1".to_owned();
    newer.state = clusterversion::types::PARTIAL.to_owned();
    world.object.status.history.insert(0, newer);
    assert_eq!(world.upgradeable(A).unwrap().0, "AdminAckRequired");
    world.object.status.history[0].state = COMPLETED.to_owned();
    assert_eq!(world.upgradeable(A), None);
}

#[test]
fn several_reasons_are_summed_up_and_kept_as_sub_conditions() {
    let mut world = world();
    world.acks = ConfigMap::of([("x", "y")]);
    world.operators = Ok(vec![refusing_operator("olm", "Incompatible", "M")]);
    update(&mut world);
    let found = check(Time::UNIX_EPOCH, &world.object, &world.context(), B);
    let seen: Vec<_> = found
        .iter()
        .map(|c| (c.kind.as_str(), c.status.as_str(), c.reason.as_str()))
        .collect();
    assert_eq!(
        seen,
        [
            ("Upgradeable", "False", "MultipleReasons"),
            ("UpgradeableAdminAckRequired", "False", "AdminAckRequired"),
            ("UpgradeableClusterOperators", "False", "Incompatible"),
            ("UpgradeableUpgradeInProgress", "True", "UpdateInProgress"),
        ]
    );
    assert_eq!(
        found[0].message,
        "Cluster should not be upgraded between minor versions for multiple reasons: AdminAckRequired,Incompatible,UpdateInProgress\n* APIs go.\n* Cluster operator olm should not be upgraded between minor versions: M\n* An update is already in progress and the details are in the Progressing condition"
    );
    let mut conditions = Conditions::default();
    write(&mut conditions, found);
    assert_eq!(conditions.iter().count(), 4);
    write(&mut conditions, Vec::new());
    assert_eq!(conditions.iter().count(), 0);
}

#[test]
fn from_4_23_on_upgradeable_is_a_sum_of_risks() {
    let mut world = world();
    world.object.status.desired.version = "5.0.1".to_owned();
    world.gates = ConfigMap::of([("ack-5.0-a", "Read https://access.redhat.com/1 first.")]);
    world.acks = ConfigMap::of([("ack-5.0-a", "true")]);
    let said = |world: &World| {
        let (risks, errors) = risks(&world.object, &world.context(), "5.0.1", C);
        sum(Time::UNIX_EPOCH, &risks, &errors).map(|condition| (condition.reason, condition.message))
    };
    let expected = |reason: &str, message: &str| Some((reason.to_owned(), message.to_owned()));
    assert_eq!(said(&world), None);
    update(&mut world);
    assert_eq!(
        said(&world),
        expected(
            "ClusterVersionUpdating",
            "An update is already in progress and the details are in the Progressing condition."
        )
    );
    world.object.status.conditions.remove(PROGRESSING);
    world.acks = ConfigMap::of([("x", "y")]);
    let (all, _) = risks(&world.object, &world.context(), "5.0.1", C);
    assert_eq!(all[0].risk.name, "AdminAck-ack-5.0-a");
    assert_eq!(all[0].risk.url, "https://access.redhat.com/1");
    assert_eq!(
        said(&world),
        expected(
            "RiskNameNotCompatibleWithReasonProperty",
            "Read https://access.redhat.com/1 first."
        )
    );
    world.operators = Ok(vec![
        refusing_operator("b", "R", "M"),
        refusing_operator("a", "S", "N"),
    ]);
    assert_eq!(
        said(&world),
        expected(
            "MultipleReasons",
            "Cluster should not be upgraded between minor or major versions for multiple reasons:\n* Read https://access.redhat.com/1 first.\n* N\n* M"
        )
    );
    world.operators = Ok(Vec::new());
    world.acks = ConfigMap::Missing;
    assert_eq!(
        said(&world),
        expected(
            "AdminAckUnknown",
            "Failed to retrieve ConfigMap admin-acks from namespace openshift-config: configmap \"admin-acks\" not found"
        )
    );
    let (unreadable, errors) = risks(&world.object, &world.context(), "nightly", C);
    let named: Vec<(&str, &str)> = unreadable
        .iter()
        .map(|source| {
            let text = source.risk.message.split(": ").next();
            (source.risk.name.as_str(), text.unwrap_or_default())
        })
        .collect();
    assert_eq!(
        named,
        [
            (
                "AdminAckUnknown",
                "Failed to parse cluster version to check admin-acks"
            ),
            (
                "ClusterOperatorUpgradeableUnknown",
                "Failed to parse cluster version to check Upgradeable conditions"
            ),
        ],
        "a version that cannot be read opens no gate"
    );
    assert_eq!(errors.len(), 2);
    let unknown = sum(Time::UNIX_EPOCH, &[], &["boom".to_owned()]).unwrap();
    assert_eq!(
        (unknown.status, unknown.reason.as_str()),
        (ConditionStatus::Unknown, "EvaluationFailed")
    );
}

#[test]
fn it_is_looked_at_more_often_just_after_preconditions_failed() {
    let start = Time::UNIX_EPOCH;
    let mut conditions = Conditions::default();
    assert_eq!(interval(start, &conditions), INTERVAL);
    let no = ConditionStatus::False;
    conditions.set(ClusterOperatorCondition::new(
        start,
        RELEASE_ACCEPTED,
        no,
        "PreconditionChecks",
        "",
    ));
    assert_eq!(
        interval(start + TimeDelta::seconds(119), &conditions),
        INTERVAL_AFTER_FAILURE
    );
    assert_eq!(interval(start + TimeDelta::seconds(120), &conditions), INTERVAL);
    conditions.set(ClusterOperatorCondition::new(
        start,
        RELEASE_ACCEPTED,
        no,
        "RetrievePayload",
        "",
    ));
    assert_eq!(interval(start, &conditions), INTERVAL);
}
