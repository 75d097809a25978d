//! Faults as they are written.

use chrono::TimeDelta;

use super::{Fault, Faults, Trouble, for_ever};

#[test]
fn faults_are_read_with_their_arguments_and_defaults() {
    let minutes = TimeDelta::minutes;
    let cases = [
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
        ("cluster-down", Fault::ClusterDown(minutes(3))),
        ("apply-failing=5m", Fault::ApplyFailing(minutes(5))),
        ("drain-stuck", Fault::DrainStuck("worker".into(), for_ever())),
        (
            "drain-stuck=master,90m",
            Fault::DrainStuck("master".into(), minutes(90)),
        ),
        ("api-outage=15m", Fault::ApiOutage(minutes(15))),
        (
            "unverified=no signature",
            Fault::Unverified("no signature".into()),
        ),
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
    }
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    for text in [
        "degraded",
        "slow=0",
        "api-outage=soon",
        "deleting",
        "not-upgradeable=",
        "retarget",
        "retarget=latest",
        "broken",
        "degraded=nosuchoperator",
        "slow-operator=kube-api-server",
        "unavailable=x",
        "not-upgradeable=x,R: m",
        "drain-stuck=nopool",
        "pull-failing=infra",
    ] {
        assert!(text.parse::<Fault>().is_err(), "{text}");
    }
    for twice in [
        "slow=2; slow=3",
        "degraded=etcd;unavailable=etcd",
        "drain-stuck=master;drain-stuck=master,1h",
    ] {
        assert!(twice.parse::<Faults>().is_err(), "{twice}");
    }
    let mut faults: Faults = "degraded=etcd;slow-operator=etcd".parse().unwrap();
    assert!(faults.add("none").is_ok());
    assert!(faults.add("degraded=network").is_ok());
    assert!(faults.add("degraded=etcd,1h").is_err());
    let error = "broken".parse::<Faults>().unwrap_err().to_string();
    assert!(error.contains("slow-operator"), "{error}");
}

#[test]
fn outages_with_a_duration_last_from_the_start_of_an_update() {
    let faults: Faults = "monitoring-outage=20m;update-service-outage".parse().unwrap();
    let minutes = |n| Some(TimeDelta::minutes(n));
    assert!(!faults.monitoring_outage(None));
    assert!(faults.monitoring_outage(minutes(19)));
    assert!(!faults.monitoring_outage(minutes(20)));
    assert!(faults.update_service_outage(None));
}

#[test]
fn each_operator_has_its_own_trouble() {
    let faults: Faults = "degraded=etcd;unavailable=dns,1m;slow-operator=network,10m"
        .parse()
        .unwrap();
    assert_eq!(
        faults.trouble("etcd"),
        Some(Trouble::Degraded(TimeDelta::minutes(40)))
    );
    assert_eq!(
        faults.trouble("dns"),
        Some(Trouble::Unavailable(TimeDelta::minutes(1)))
    );
    assert_eq!(faults.trouble("network"), None);
    assert_eq!(faults.delay("network"), TimeDelta::minutes(10));
}
