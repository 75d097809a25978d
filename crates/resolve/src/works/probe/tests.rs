use api::preflight::AdminAck;

use super::*;

fn template(version: &str) -> ProbeTemplate {
    let target = ClusterVersionSpec {
        version: version.to_owned(),
        ..ClusterVersionSpec::default()
    };
    ProbeTemplate::new(&target, false, false, SpokeRbac::Aggregate)
}

fn body(version: &str) -> Value {
    serde_json::from_slice(&template(version).body("edge-1", "uid-1", "team/spring")).unwrap()
}

#[test]
fn a_probe_reads_and_writes_nothing_but_the_right_to_read() {
    let work = body("4.20.4");
    assert_eq!(work["metadata"]["name"], "edge-1-upgrade-preflight");
    assert_eq!(work["metadata"]["labels"][names::LABEL_MCU_UID], "uid-1");
    assert_eq!(
        work["metadata"]["annotations"][names::ANNOTATION_OWNER],
        "team/spring"
    );
    let spec = &work["spec"];
    let configs = spec["manifestConfigs"].as_array().unwrap();
    let orphans = &spec["deleteOption"]["selectivelyOrphans"]["orphaningRules"];
    for (number, config) in configs.iter().enumerate() {
        assert_eq!(config["updateStrategy"], json!({"type": "ReadOnly"}));
        assert_eq!(config["resourceIdentifier"], orphans[number]);
        let metadata = &spec["workload"]["manifests"][number]["metadata"];
        assert_eq!(config["resourceIdentifier"]["name"], metadata["name"]);
    }
    let manifests = spec["workload"]["manifests"].as_array().unwrap();
    assert_eq!(manifests.len(), configs.len() + 1);
    assert_eq!(manifests.last().unwrap()["kind"], "ClusterRole");
}

#[test]
fn acknowledgments_are_written_and_stay() {
    let ack = |key: &str| AdminAck {
        key: key.to_owned(),
        reason: "scanned".to_owned(),
    };
    let probe = |keys: &[&str]| {
        let target = ClusterVersionSpec {
            version: "4.20.4".to_owned(),
            admin_acks: keys.iter().map(|key| ack(key)).collect(),
            ..ClusterVersionSpec::default()
        };
        let probe = ProbeTemplate::new(&target, false, false, SpokeRbac::None);
        serde_json::from_slice::<Value>(&probe.body("edge-1", "uid-1", "team/spring")).unwrap()
    };
    let work = probe(&["ack-4.19-a"]);
    let manifests = work["spec"]["workload"]["manifests"].as_array().unwrap();
    assert_eq!(manifests.len(), 3);
    assert_eq!(manifests[2]["data"], json!({"ack-4.19-a": "true"}));
    let strategy = |work: &Value| work["spec"]["manifestConfigs"][2]["updateStrategy"].clone();
    assert_eq!(strategy(&work)["type"], "ServerSideApply");
    // Whoever applies fewer keys under the same name would take the others back.
    assert_ne!(strategy(&work), strategy(&probe(&["ack-4.19-a", "ack-4.19-b"])));
    let orphans = &work["spec"]["deleteOption"]["selectivelyOrphans"]["orphaningRules"];
    assert_eq!(orphans[2]["name"], "admin-acks");
}

#[test]
fn the_channel_is_set_only_for_an_author_who_wants_it_and_nothing_else_is() {
    let target = ClusterVersionSpec {
        version: "4.20.4".to_owned(),
        channel: "stable-4.20".to_owned(),
        ..ClusterVersionSpec::default()
    };
    let probe = |set_channel, rbac| {
        let probe = ProbeTemplate::new(&target, set_channel, false, rbac);
        serde_json::from_slice::<Value>(&probe.body("edge-1", "uid-1", "team/spring")).unwrap()
    };
    let reading = probe(false, SpokeRbac::Aggregate);
    assert_eq!(reading["spec"]["workload"]["manifests"][0].get("spec"), None);
    let setting = probe(true, SpokeRbac::Aggregate);
    let manifests = &setting["spec"]["workload"]["manifests"];
    assert_eq!(manifests[0]["spec"], json!({"channel": "stable-4.20"}));
    let apply = &setting["spec"]["manifestConfigs"][0]["updateStrategy"]["serverSideApply"];
    assert_eq!(
        *apply,
        json!({"force": true, "fieldManager": "work-agent-mcu-preflight"})
    );
    let verbs = |work: &Value| work["spec"]["workload"]["manifests"][3]["rules"][0]["verbs"].clone();
    assert_eq!(verbs(&reading), json!(["get", "list", "watch"]));
    assert_eq!(verbs(&setting), json!(["get", "list", "watch", "patch"]));
    let orphans = &setting["spec"]["deleteOption"]["selectivelyOrphans"]["orphaningRules"];
    assert_eq!(
        orphans[0]["resource"], "clusterversions",
        "it stays when the probe goes"
    );
    assert_eq!(
        probe(true, SpokeRbac::None)["spec"]["workload"]["manifests"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
}

#[test]
fn another_target_is_another_question() {
    assert_eq!(template("4.20.4").hash(), template("4.20.4").hash());
    assert_ne!(template("4.20.4").hash(), template("4.20.5").hash());
}

#[test]
fn an_update_that_names_no_version_is_asked_for_no_gates() {
    let work = body("");
    let configs = work["spec"]["manifestConfigs"].as_array().unwrap();
    assert!(configs[0].get("conditionRules").is_some());
    assert!(configs[1].get("conditionRules").is_none());
}

#[test]
fn before_an_update_the_pool_of_workers_is_asked_beside_the_operator() {
    let kinds_and_rules = |probe: &ProbeTemplate| {
        let work: Value = serde_json::from_slice(&probe.body("edge-1", "uid-1", "team/spring")).unwrap();
        let manifests = work["spec"]["workload"]["manifests"].as_array().unwrap();
        let kinds: Vec<String> = manifests
            .iter()
            .map(|one| one["kind"].as_str().unwrap().to_owned())
            .collect();
        let rules = manifests.last().unwrap()["rules"].as_array().unwrap();
        let read =
            |rule: &Value| format!("{}/{}", rule["apiGroups"][0], rule["resources"][0]).replace('"', "");
        (
            kinds[..kinds.len() - 1].join(" "),
            rules.iter().map(read).collect::<Vec<_>>(),
        )
    };
    let target = ClusterVersionSpec {
        version: "4.20.4".to_owned(),
        ..ClusterVersionSpec::default()
    };
    let (version, operator) = (
        "config.openshift.io/clusterversions".to_owned(),
        "config.openshift.io/clusteroperators".to_owned(),
    );
    let pool = "machineconfiguration.openshift.io/machineconfigpools".to_owned();
    let before = ProbeTemplate::new(&target, false, true, SpokeRbac::Aggregate);
    assert_eq!(
        kinds_and_rules(&before),
        (
            "ClusterVersion ConfigMap ConfigMap ClusterOperator MachineConfigPool".to_owned(),
            vec![version.clone(), operator.clone(), pool]
        )
    );
    assert_eq!(
        kinds_and_rules(&ProbeTemplate::workers(SpokeRbac::Aggregate)),
        (
            "ClusterVersion ClusterOperator".to_owned(),
            vec![version, operator]
        )
    );
}

#[test]
fn the_feature_gate_is_read_only_where_risks_are_accepted() {
    let probe = |risks: &[&str]| {
        let target = ClusterVersionSpec {
            version: "4.22.4".to_owned(),
            accept_risks: risks
                .iter()
                .map(|name| api::preflight::AcceptedRisk {
                    name: (*name).to_owned(),
                    reason: "known".to_owned(),
                })
                .collect(),
            ..ClusterVersionSpec::default()
        };
        ProbeTemplate::new(&target, false, false, SpokeRbac::Aggregate)
    };
    assert_eq!(probe(&[]).hash(), template("4.22.4").hash());
    let other = probe(&["Leak"]);
    assert_eq!(
        other.hash(),
        probe(&["Slow"]).hash(),
        "all names are asked the same"
    );
    let work: Value = serde_json::from_slice(&other.body("edge-1", "uid-1", "team/spring")).unwrap();
    let manifests = work["spec"]["workload"]["manifests"].as_array().unwrap();
    assert_eq!(manifests[3]["kind"], "FeatureGate");
    assert_eq!(manifests[4]["rules"][1]["resources"], json!(["featuregates"]));
}
