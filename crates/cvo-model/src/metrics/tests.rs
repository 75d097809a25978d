use super::*;
use clusterversion::types::{Release, Spec};

fn shown<'a>(operators: &'a [OperatorState], transitions: &'a Transitions) -> MetricsInput<'a> {
    MetricsInput {
        running: ("4.14.1", "image/1"),
        built: None,
        update_service: None,
        last_retrieval: Some(Time::UNIX_EPOCH),
        operators,
        risks: false,
        installer: Some(Installer {
            version: "4.14.0",
            invoker: "user",
        }),
        transitions,
    }
}

fn lines(samples: &[MetricSample], name: &str) -> Vec<String> {
    let wanted = samples.iter().filter(|sample| sample.name == name);
    wanted
        .map(|sample| {
            let labels: Vec<String> = sample
                .labels
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            format!("{} {}", labels.join(","), sample.value)
        })
        .collect()
}

#[test]
fn true_is_1_false_is_0_and_unknown_is_not_exported() {
    let mut object = ClusterVersion::new(Spec::default());
    let now = Time::UNIX_EPOCH;
    for (kind, status) in [
        (AVAILABLE, ConditionStatus::True),
        (FAILING, ConditionStatus::Unknown),
        (RETRIEVED_UPDATES, ConditionStatus::False),
    ] {
        object
            .status
            .conditions
            .set(ClusterOperatorCondition::new(now, kind, status, "R", ""));
    }
    let operators = [OperatorState {
        name: "etcd".to_owned(),
        version: "4.14.1".to_owned(),
        ..OperatorState::default()
    }];
    let samples = samples(Some(&object), &shown(&operators, &Transitions::default()));
    assert_eq!(
        lines(&samples, "cluster_operator_conditions"),
        [
            "name=version,condition=Available,reason=R 1",
            "name=version,condition=RetrievedUpdates,reason=R 0"
        ]
    );
    assert_eq!(
        lines(&samples, UP),
        [
            "name=version,version=,reason=R 1",
            "name=etcd,version=4.14.1,reason=NoAvailableCondition 0"
        ]
    );
}

#[test]
fn available_updates_are_counted_when_the_service_was_asked() {
    let count = |edit: &dyn Fn(&mut ClusterVersion)| {
        let mut object = ClusterVersion::new(Spec::default());
        edit(&mut object);
        lines(
            &samples(Some(&object), &shown(&[], &Transitions::default())),
            "cluster_version_available_updates",
        )
    };
    assert_eq!(count(&|_| ()), Vec::<String>::new());
    assert_eq!(
        count(&|object| object.spec.upstream = "https://u".to_owned()),
        ["upstream=https://u,channel= 0"]
    );
    assert_eq!(
        count(&|object| object.status.available_updates = vec![Release::new("4.14.2", "i")]),
        ["upstream=<default>,channel= 1"]
    );
}

#[test]
fn a_cluster_without_clusterversion_is_down() {
    let samples = samples(None, &shown(&[], &Transitions::default()));
    assert_eq!(
        lines(&samples, UP),
        ["name=version,version=,reason=ClusterVersionNotFound 0"]
    );
}

#[test]
fn the_installer_is_named_and_blank_where_nothing_tells() {
    let none = Transitions::default();
    let mut shown = shown(&[], &none);
    assert_eq!(
        lines(&samples(None, &shown), "cluster_installer"),
        ["type=openshift-install,version=4.14.0,invoker=user 1"]
    );
    shown.installer = None;
    assert_eq!(
        lines(&samples(None, &shown), "cluster_installer"),
        ["type=,version=,invoker= 1"]
    );
}

#[test]
fn changes_of_a_status_are_counted_and_first_sights_are_not() {
    let operator = |conditions: &[(&str, ConditionStatus)]| {
        let conditions = conditions
            .iter()
            .map(|(kind, status)| ClusterOperatorCondition::new(Time::UNIX_EPOCH, kind, *status, "", ""));
        [OperatorState {
            name: "etcd".to_owned(),
            conditions: Conditions(conditions.collect()),
            ..OperatorState::default()
        }]
    };
    let (yes, no) = (ConditionStatus::True, ConditionStatus::False);
    let mut transitions = Transitions::default();
    for conditions in [
        &[("Available", yes)][..],
        &[("Available", yes)],
        &[("Available", no)],
        &[("Available", no), ("Degraded", no)],
        &[("Degraded", no)],
    ] {
        transitions.observe(&operator(conditions));
    }
    transitions.observe(&[]);
    transitions.observe(&operator(&[("Available", yes)]));
    assert_eq!(
        lines(
            &samples(None, &shown(&[], &transitions)),
            "cluster_operator_condition_transitions"
        ),
        [
            "name=etcd,condition=Available 2",
            "name=etcd,condition=Degraded 1"
        ]
    );
}
