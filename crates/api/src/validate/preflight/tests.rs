use serde_json::{Value, json};

fn fields(spec: Value) -> Vec<String> {
    let spec = serde_json::from_value(spec).unwrap();
    let found = crate::validate::validate("u", &spec);
    found.into_iter().map(|violation| violation.field).collect()
}

const KEY: &str = "ack-4.19-admissionregistration-v1beta1-api-removals-in-4.20";

fn spec(version: &Value, preflight: &Value) -> Value {
    let mut target = json!({"version": "4.20.4"});
    target
        .as_object_mut()
        .unwrap()
        .extend(version.as_object().unwrap().clone());
    json!({"clusterVersion": target, "preflight": preflight})
}

#[test]
fn accepted_risks_and_acknowledgments_need_a_name_and_a_reason() {
    let all = json!({
        "acceptRisks": [{"name": "SlowDisk", "reason": "CHG1"}], "adminAcks": [{"key": KEY, "reason": "scanned"}],
    });
    assert!(fields(spec(&all, &json!({"mode": "Require", "ignore": ["Failing"]}))).is_empty());
    for (version, field) in [
        (
            json!({"acceptRisks": [{"name": "", "reason": "r"}]}),
            "acceptRisks[0].name",
        ),
        (
            json!({"acceptRisks": [{"name": "Slow Disk", "reason": "r"}]}),
            "acceptRisks[0].name",
        ),
        (
            json!({"acceptRisks": [{"name": "A", "reason": ""}]}),
            "acceptRisks[0].reason",
        ),
        (
            json!({"acceptRisks": [{"name": "A", "reason": "r"}, {"name": "A", "reason": "s"}]}),
            "acceptRisks[1].name",
        ),
        (
            json!({"adminAcks": [{"key": "4.19-removals", "reason": "r"}]}),
            "adminAcks[0].key",
        ),
        (
            json!({"adminAcks": [{"key": "ack-4.x-removals", "reason": "r"}]}),
            "adminAcks[0].key",
        ),
        (
            json!({"adminAcks": [{"key": "ack-4.19-", "reason": "r"}]}),
            "adminAcks[0].key",
        ),
        (
            json!({"adminAcks": [{"key": "ack-4.19-a b", "reason": "r"}]}),
            "adminAcks[0].key",
        ),
        (
            json!({"adminAcks": [{"key": KEY, "reason": ""}]}),
            "adminAcks[0].reason",
        ),
    ] {
        let found = fields(spec(&version, &json!({"mode": "Report"})));
        assert_eq!(found, [format!("spec.clusterVersion.{field}")]);
    }
}

#[test]
fn a_channel_is_set_only_with_a_channel_and_an_answer_that_depends_on_it() {
    let channel = json!({"channel": "stable-4.20"});
    let set = |mode: &str| json!({"mode": mode, "setChannel": true});
    assert!(fields(spec(&channel, &set("Require"))).is_empty());
    assert!(fields(spec(&json!({}), &json!({"mode": "Off", "setChannel": false}))).is_empty());
    for (version, mode) in [
        (&channel, "Off"),
        (&json!({}), "Report"),
        (
            &json!({"channel": "stable-4.20", "image": "quay.io/r@sha256:a"}),
            "Require",
        ),
    ] {
        assert_eq!(
            fields(spec(version, &set(mode))),
            ["spec.preflight.setChannel"],
            "{version} {mode}"
        );
    }
}

#[test]
fn settings_that_contradict_each_other_are_named() {
    let risk = json!({"acceptRisks": [{"name": "SlowDisk", "reason": "CHG1"}]});
    for off in [Value::Null, json!({}), json!({"mode": "Off"})] {
        assert_eq!(fields(spec(&risk, &off)), ["spec.clusterVersion.acceptRisks"]);
    }
    let mut by_image = risk;
    by_image["image"] = json!("quay.io/r@sha256:a");
    assert_eq!(
        fields(spec(&by_image, &json!({"mode": "Require"}))),
        ["spec.clusterVersion.acceptRisks"]
    );
    let operators = json!({"ocpOperators": {"approveAllUpgrades": true}, "preflight": {"mode": "Require"}});
    assert_eq!(fields(operators), ["spec.preflight.mode"]);
    assert_eq!(
        fields(spec(&json!({}), &json!({"mode": "Require", "timeout": "0s"}))),
        ["spec.preflight.timeout"]
    );
}

#[test]
fn a_reason_that_says_nothing_is_refused() {
    for reason in ["", "  ", "\u{200b}", "...", "\n"] {
        let risk = json!({"acceptRisks": [{"name": "SlowDisk", "reason": reason}]});
        assert_eq!(
            fields(spec(&risk, &json!({"mode": "Require"}))),
            ["spec.clusterVersion.acceptRisks[0].reason"],
            "{reason:?}"
        );
    }
}
