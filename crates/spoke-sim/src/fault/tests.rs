//! Faults as they are written.

use std::time::Duration;

use chrono::TimeDelta;
use cvo_model::failure::OperatorProblem;

use super::grammar::{SupportedBy, TABLE};
use super::{Fault, Faults, Lie, OperatorFault, Simulator, for_ever, help};

fn of_agents(text: &str) -> Faults {
    Faults::parse(text, Simulator::Agents).unwrap()
}

fn of_cluster(text: &str) -> Faults {
    Faults::parse(text, Simulator::Cluster).unwrap()
}

#[test]
fn faults_of_both_simulators_are_read_with_their_arguments_and_defaults() {
    let minutes = TimeDelta::minutes;
    let cases = [
        ("slow", Fault::Slow(5.0)),
        ("slow=2.5", Fault::Slow(2.5)),
        ("slow=2", Fault::Slow(2.0)),
        (
            "slow-operator=etcd",
            Fault::SlowOperator("etcd".into(), minutes(45)),
        ),
        ("degraded=network", Fault::Degraded("network".into(), minutes(40))),
        (
            "degraded=network, 1h",
            Fault::Degraded("network".into(), minutes(60)),
        ),
        (
            "unavailable=etcd,for-ever",
            Fault::Unavailable("etcd".into(), for_ever()),
        ),
        (
            "drain-stuck=master,90m",
            Fault::DrainStuck("master".into(), minutes(90)),
        ),
        (
            "unverified=no signature",
            Fault::Unverified("no signature".into()),
        ),
        ("update-service-outage", Fault::UpdateServiceOutage(None)),
    ];
    for (text, expected) in cases {
        assert_eq!(text.parse::<Fault>().unwrap(), expected, "{text}");
        assert_eq!(of_agents(text), Faults::from(expected.clone()), "{text}");
        assert_eq!(of_cluster(text), Faults::from(expected), "{text}");
    }
}

#[test]
fn faults_of_the_agents_are_read_with_their_arguments_and_defaults() {
    let cases = [
        ("stuck=42%", Fault::Stuck(42.0)),
        ("stuck=120", Fault::Stuck(100.0)),
        ("failing=etcd is gone", Fault::Failing("etcd is gone".into())),
        (
            "flapping=10s",
            Fault::Flapping {
                period: Duration::from_secs(10),
                available: false,
            },
        ),
        (
            "flapping=1m,available",
            Fault::Flapping {
                period: Duration::from_mins(1),
                available: true,
            },
        ),
        ("offline", Fault::Offline),
        ("old-agent", Fault::OldAgent),
        (
            "refusing=PoolUpdating: not now",
            Fault::Refusing {
                reason: "PoolUpdating".into(),
                message: "not now".into(),
            },
        ),
        ("lying", Fault::Lying(Lie::Stale)),
        ("lying=early", Fault::Lying(Lie::Early)),
        ("forbidden", Fault::Forbidden { always: false }),
        ("forbidden=always", Fault::Forbidden { always: true }),
        (
            "risk=Leak: Memory leaks.",
            Fault::Risk {
                name: "Leak".into(),
                message: "Memory leaks.".into(),
            },
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(text.parse::<Fault>().unwrap(), expected, "{text}");
        assert_eq!(of_agents(text), Faults::from(expected), "{text}");
        let error = Faults::parse(text, Simulator::Cluster).unwrap_err().to_string();
        assert!(error.contains("known are slow, "), "{error}");
    }
}

#[test]
fn faults_of_a_cluster_are_read_with_their_arguments_and_defaults() {
    let minutes = TimeDelta::minutes;
    let cases = [
        ("drain-stuck", Fault::DrainStuck("worker".into(), for_ever())),
        ("cluster-down", Fault::ClusterDown(minutes(3))),
        ("apply-failing=5m", Fault::ApplyFailing(minutes(5))),
        ("api-outage=15m", Fault::ApiOutage(minutes(15))),
        ("monitoring-outage", Fault::MonitoringOutage(None)),
        (
            "monitoring-outage=20m",
            Fault::MonitoringOutage(Some(minutes(20))),
        ),
        ("retarget=4.16.3,5m", Fault::Retarget("4.16.3".into(), minutes(5))),
        (
            "not-upgradeable=kube-apiserver,KubeletMinorVersion: too old, all of them",
            Fault::NotUpgradeable(
                "kube-apiserver".into(),
                "KubeletMinorVersion".into(),
                "too old, all of them".into(),
            ),
        ),
        ("frozen", Fault::Frozen),
    ];
    for (text, expected) in cases {
        assert_eq!(text.parse::<Fault>().unwrap(), expected, "{text}");
        assert_eq!(of_cluster(text), Faults::from(expected), "{text}");
        assert!(Faults::parse(text, Simulator::Agents).is_err(), "{text}");
    }
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    for text in [
        "slow=0",
        "slow=x",
        "flapping=never",
        "lying=well",
        "broken",
        "forbidden=maybe",
        "risk",
        "degraded",
        "api-outage=soon",
        "deleting",
        "not-upgradeable=",
        "retarget",
        "retarget=latest",
        "degraded=nosuchoperator",
        "slow-operator=kube-api-server",
        "unavailable=x",
        "not-upgradeable=x,R: m",
        "drain-stuck=nopool",
        "pull-failing=infra",
    ] {
        assert!(text.parse::<Fault>().is_err(), "{text}");
        assert!(text.parse::<Faults>().is_err(), "{text}");
        for simulator in [Simulator::Agents, Simulator::Cluster] {
            assert!(Faults::parse(text, simulator).is_err(), "{text}");
        }
    }
    let error = "broken".parse::<Fault>().unwrap_err().to_string();
    assert!(
        error.contains("known are slow") && error.contains("slow-operator"),
        "{error}"
    );
}

#[test]
fn arguments_that_the_agents_do_not_support_are_refused() {
    for text in [
        "drain-stuck",
        "drain-stuck=worker",
        "update-service-outage=5m",
        "degraded",
        "frozen",
        "risk",
    ] {
        assert!(Faults::parse(text, Simulator::Agents).is_err(), "{text}");
    }
    let held_by = |text: &str| {
        let faults = of_agents(text);
        let held = faults.held_by().unwrap();
        (held.operator.to_owned(), held.problem, held.lasts.num_minutes())
    };
    assert_eq!(
        held_by("slow-operator=etcd"),
        ("etcd".to_owned(), OperatorProblem::Updating, 45)
    );
    assert_eq!(
        held_by("degraded=network,41m"),
        ("network".to_owned(), OperatorProblem::Degraded, 41)
    );
    assert_eq!(
        held_by("drain-stuck=master,3h"),
        ("machine-config".to_owned(), OperatorProblem::Updating, 180)
    );
}

#[test]
fn several_faults_are_joined_by_semicolons() {
    let faults = of_agents("slow=3; refusing=A: b");
    assert_eq!(faults.refusing(), Some(("A", "b")));
    assert!((faults.slowness() - 3.0).abs() < f64::EPSILON);
    assert!("none".parse::<Faults>().unwrap().is_empty());
    assert!("".parse::<Faults>().unwrap().is_empty());
}

#[test]
fn of_two_faults_about_the_same_thing_the_second_is_refused() {
    for twice in [
        "slow=2; slow=3",
        "degraded=etcd;unavailable=etcd",
        "drain-stuck=master;drain-stuck=master,1h",
        "lying;lying=early",
    ] {
        assert!(twice.parse::<Faults>().is_err(), "{twice}");
    }
    let mut faults = of_cluster("degraded=etcd;slow-operator=etcd");
    let mut extend = |text: &str| faults.extend(text, Simulator::Cluster);
    assert!(extend("none").is_ok());
    assert!(extend("degraded=network").is_ok());
    assert!(extend("degraded=etcd,1h").is_err());
    assert!(extend("offline").is_err());
}

#[test]
fn no_update_is_available_for_several_reasons() {
    for (text, unoffered) in [
        ("unoffered", true),
        ("not-in-channel", true),
        ("risk=Leak: Memory leaks.", true),
        ("update-service-outage", true),
        ("unverified", false),
    ] {
        assert_eq!(of_agents(text).unoffered(), unoffered, "{text}");
    }
}

#[test]
fn outages_with_a_duration_last_from_the_start_of_an_update() {
    let faults = of_cluster("monitoring-outage=20m;update-service-outage");
    let minutes = |n| Some(TimeDelta::minutes(n));
    assert!(!faults.monitoring_outage(None));
    assert!(faults.monitoring_outage(minutes(19)));
    assert!(!faults.monitoring_outage(minutes(20)));
    assert!(faults.update_service_outage(None));
}

#[test]
fn each_operator_has_its_own_fault() {
    let faults = of_cluster("degraded=etcd;unavailable=dns,1m;slow-operator=network,10m");
    assert_eq!(
        faults.operator_fault("etcd"),
        Some(OperatorFault::Degraded(TimeDelta::minutes(40)))
    );
    assert_eq!(
        faults.operator_fault("dns"),
        Some(OperatorFault::Unavailable(TimeDelta::minutes(1)))
    );
    assert_eq!(faults.operator_fault("network"), None);
    assert_eq!(faults.delay("network"), TimeDelta::minutes(10));
}

/// A text for a row of the table with all that it needs.
fn written(name: &str) -> String {
    match name {
        "slow-operator" | "degraded" | "unavailable" | "not-upgradeable" => format!("{name}=etcd"),
        "drain-stuck" => format!("{name}=master"),
        "risk" => format!("{name}=Leak"),
        "retarget" => format!("{name}=4.16.3"),
        "deleting" => format!("{name}=crd"),
        name => name.to_owned(),
    }
}

#[test]
fn every_row_of_the_table_is_read_and_is_in_the_help_of_its_simulators() {
    for row in &TABLE {
        let text = written(row.name);
        assert!(text.parse::<Fault>().is_ok(), "{text}");
        for simulator in [Simulator::Agents, Simulator::Cluster] {
            let is_supported = row.is_supported_by(simulator);
            assert_eq!(Faults::parse(&text, simulator).is_ok(), is_supported, "{text}");
            let line = format!("  {}{}  ", row.name, row.arguments);
            let in_help = help(simulator)
                .lines()
                .any(|of_help| of_help.starts_with(line.trim_end()) && of_help.ends_with(row.meaning));
            assert_eq!(in_help, is_supported, "{text}");
        }
    }
}

#[test]
fn the_documentation_lists_every_fault_as_the_table_does() {
    let document = include_str!("../../../../docs/design/faults.md");
    let rows: Vec<&str> = document.lines().filter(|line| line.starts_with("| `")).collect();
    let expected: Vec<String> = TABLE
        .iter()
        .map(|row| {
            let (agents, cluster) = match row.supported_by {
                SupportedBy::Both => ("yes", "yes"),
                SupportedBy::Only(Simulator::Agents) => ("yes", "–"),
                SupportedBy::Only(Simulator::Cluster) => ("–", "yes"),
            };
            // A bar would end the cell.
            let arguments = row.arguments.replace('|', "\\|");
            format!(
                "| `{}{arguments}` | {} | {agents} | {cluster} |",
                row.name, row.meaning
            )
        })
        .collect();
    assert_eq!(rows, expected);
}
