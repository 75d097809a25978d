use super::*;

const ACCOUNT: &str = "system:serviceaccount:mcu-system:mcu-controller";

/// The policies and bindings of `deploy/`.
fn shipped() -> (Vec<DynamicObject>, Vec<DynamicObject>) {
    let files = [
        include_str!("../../../../deploy/admission-policy.yaml"),
        include_str!("../../../../deploy/admission-works.yaml"),
        include_str!("../../../../deploy/admission-reports.yaml"),
        include_str!("../../../../deploy/admission-approvals.yaml"),
        include_str!("../../../../deploy/admission-hub.yaml"),
    ];
    let documents = files.iter().flat_map(|file| file.split("\n---\n"));
    documents
        .map(|text| serde_saphyr::from_str::<DynamicObject>(text).unwrap())
        .partition(|object| object.types.as_ref().unwrap().kind == POLICY_KIND)
}

/// The result for the policy `works` after it, or its binding, was changed.
fn changed(change: impl FnOnce(&mut Value, &mut Value), account: Option<&str>) -> Enforcement {
    let (mut policies, mut bindings) = shipped();
    change(&mut policies[1].data["spec"], &mut bindings[1].data["spec"]);
    let found = evaluate_all(&policies, &bindings, account);
    let mut others = found.iter().filter(|(name, _)| *name != POLICIES[1]);
    assert!(others.all(|(_, one)| *one == Enforcement::Enforced), "{found:?}");
    found[1].1.clone()
}

#[test]
fn the_policies_of_deploy_are_those_that_this_release_ships() {
    let (policies, bindings) = shipped();
    let digests: Vec<String> = policies.iter().map(|one| digest(&one.data["spec"])).collect();
    assert_eq!(digests, DIGESTS, "deploy/ has changed: these are the new DIGESTS");
    for account in [Some(ACCOUNT), None] {
        let found = evaluate_all(&policies, &bindings, account);
        assert_eq!(found, POLICIES.map(|name| (name, Enforcement::Enforced)));
    }
    let labels = policies
        .iter()
        .chain(&bindings)
        .map(|one| one.metadata.labels.clone().unwrap());
    let (key, value) = POLICY_LABEL.split_once('=').unwrap();
    assert!(
        labels.into_iter().all(|labels| labels[key] == value),
        "POLICY_LABEL selects them all"
    );
}

#[test]
fn a_policy_that_does_not_exist_is_missing_whatever_binds_it() {
    let (mut policies, bindings) = shipped();
    policies.remove(1);
    assert_eq!(
        evaluate_all(&policies, &bindings, None)[1].1,
        Enforcement::Missing
    );
    assert_eq!(
        evaluate_all(&[], &[], None),
        POLICIES.map(|name| (name, Enforcement::Missing))
    );
}

#[test]
fn a_policy_is_enforced_only_with_a_binding_that_denies_every_request() {
    let (policies, mut bindings) = shipped();
    bindings.remove(1);
    assert_eq!(
        evaluate_all(&policies, &bindings, None)[1].1,
        Enforcement::Unbound
    );
    let cases = [
        (
            "validationActions",
            json!(["Audit", "Deny"]),
            Enforcement::Enforced,
        ),
        ("validationActions", json!(["Warn"]), Enforcement::Unbound),
        ("validationActions", json!([]), Enforcement::Unbound),
        ("policyName", json!("another"), Enforcement::Unbound),
        (
            "matchResources",
            json!({"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}),
            Enforcement::Enforced,
        ),
        (
            "matchResources",
            json!({"matchPolicy": "Exact"}),
            Enforcement::Narrowed,
        ),
        (
            "matchResources",
            json!({"namespaceSelector": {"matchLabels": {"a": "b"}}}),
            Enforcement::Narrowed,
        ),
        (
            "matchResources",
            json!({"objectSelector": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}}),
            Enforcement::Narrowed,
        ),
        (
            "matchResources",
            json!({"excludeResourceRules": [{"resources": ["*"]}]}),
            Enforcement::Narrowed,
        ),
        (
            "matchResources",
            json!({"resourceRules": [{"resources": ["x"]}]}),
            Enforcement::Narrowed,
        ),
        ("paramRef", json!({"name": "x"}), Enforcement::Narrowed),
    ];
    for (field, value, expected) in cases {
        let evaluated = changed(|_, binding| binding[field] = value.clone(), Some(ACCOUNT));
        assert_eq!(evaluated, expected, "{field}: {value}");
    }
}

#[test]
fn a_policy_that_checks_something_else_is_not_the_shipped_one() {
    let evaluated = |pointer: &str, value: Value| {
        changed(
            |policy, _| *policy.pointer_mut(pointer).unwrap() = value,
            Some(ACCOUNT),
        )
    };
    assert_eq!(
        evaluated("/failurePolicy", json!("Ignore")),
        Enforcement::Ignoring
    );
    for (pointer, value) in [
        ("/validations", json!([])),
        ("/validations/0/expression", json!("true")),
        ("/variables/0/expression", json!("{}")),
        ("/matchConditions/1/expression", json!("false")),
        (
            "/matchConditions/1",
            json!({"name": "never", "expression": "false"}),
        ),
        ("/matchConditions/0/name", json!("never")),
        ("/matchConstraints/resourceRules/0/operations", json!(["CREATE"])),
        ("/matchConstraints/resourceRules/0/scope", json!("Cluster")),
        (
            "/matchConstraints/resourceRules/0/resources",
            json!(["manifestworks/status"]),
        ),
        (
            "/matchConstraints/objectSelector",
            json!({"matchLabels": {"a": "b"}}),
        ),
        (
            "/matchConstraints/namespaceSelector",
            json!({"matchLabels": {"a": "b"}}),
        ),
    ] {
        assert_eq!(
            evaluated(pointer, value.clone()),
            Enforcement::Altered,
            "{pointer}: {value}"
        );
    }
}

#[test]
fn what_an_api_server_fills_in_and_what_a_message_says_make_no_difference() {
    let evaluated = changed(
        |policy, _| {
            policy["failurePolicy"].take();
            for field in ["matchPolicy", "namespaceSelector", "objectSelector"] {
                policy["matchConstraints"][field].take();
            }
            policy["matchConstraints"]["resourceRules"][0]["scope"].take();
            policy["matchConstraints"]["excludeResourceRules"] = json!([]);
            policy["validations"][0]["message"] = json!("no");
            policy["validations"][0]["messageExpression"].take();
            policy["validations"][0]["reason"].take();
            policy["fieldOfALaterRelease"] = json!("default");
        },
        Some(ACCOUNT),
    );
    assert_eq!(evaluated, Enforcement::Enforced);
}

#[test]
fn the_controllers_own_account_must_be_exempt_and_nobody_but_service_accounts_may() {
    let evaluated = |expression: &str, account| {
        changed(
            |policy, _| policy["matchConditions"][0]["expression"] = json!(expression),
            account,
        )
    };
    let two = format!("!(request.userInfo.username in ['system:serviceaccount:other:mcu', '{ACCOUNT}'])\n");
    let other = "!(request.userInfo.username in ['system:serviceaccount:fleet-upgrades:mcu-controller'])";
    for (expression, account, expected) in [
        (two.as_str(), Some(ACCOUNT), Enforcement::Enforced),
        (other, None, Enforcement::Enforced),
        (other, Some(ACCOUNT), Enforcement::OtherAccount),
        ("false", Some(ACCOUNT), Enforcement::Altered),
        ("false", None, Enforcement::Altered),
        (
            "!(request.userInfo.username in ['system:admin'])",
            None,
            Enforcement::Altered,
        ),
        (
            "!(request.userInfo.username in ['system:serviceaccount:' + request.namespace + ':x'])",
            None,
            Enforcement::Altered,
        ),
    ] {
        assert_eq!(evaluated(expression, account), expected, "{expression}");
    }
}

#[test]
fn what_is_not_enforced_is_named_with_the_remedy() {
    let found = [
        ("a", Enforcement::Enforced),
        ("b", Enforcement::Missing),
        ("c", Enforcement::Unbound),
        ("d", Enforcement::Missing),
        ("e", Enforcement::Unreadable("forbidden".to_owned())),
    ];
    assert_eq!(lacking(&found), 4);
    assert_eq!(
        describe(&found).as_deref(),
        Some(
            "missing: b, d; not bound with Deny: c; cannot be read: e (forbidden); apply deploy/, which contains them"
        )
    );
    assert_eq!(describe(&found[..1]), None);
}
