//! The admission policies that `deploy/` ships. They keep what the controller believes to those who may write it; this
//! module judges whether a hub enforces them.

use std::fmt::Write as _;

use serde_json::Value;

/// Group of the API of admission policies.
pub const POLICY_GROUP: &str = "admissionregistration.k8s.io";
/// Version of that API.
pub const POLICY_VERSION: &str = "v1";
/// Kind of a policy.
pub const POLICY_KIND: &str = "ValidatingAdmissionPolicy";
/// Kind of what binds a policy.
pub const BINDING_KIND: &str = "ValidatingAdmissionPolicyBinding";
/// The shipped policies; each is bound by a `ValidatingAdmissionPolicyBinding` of the same name.
pub const POLICIES: [&str; 4] = [
    "managedclustersupgrade-references",
    "managedclustersupgrade-works",
    "managedclustersupgrade-reports",
    "managedclustersupgrade-hub",
];

/// Whether a hub enforces a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// It exists and its binding denies what breaks it.
    Enforced,
    /// It does not exist.
    Missing,
    /// It exists, and no binding of its name denies anything by it.
    Unbound,
    /// It cannot be read; the text says why.
    Unreadable(String),
}

/// Judges a policy by whether it exists and by the binding of the same name.
#[must_use]
pub fn judge(name: &str, exists: bool, binding: Option<&Value>) -> Enforcement {
    let binds = |binding: &Value| {
        let actions = binding["spec"]["validationActions"].as_array();
        binding["spec"]["policyName"] == name
            && actions.is_some_and(|actions| actions.iter().any(|action| action == "Deny"))
    };
    match binding {
        _ if !exists => Enforcement::Missing,
        Some(binding) if binds(binding) => Enforcement::Enforced,
        _ => Enforcement::Unbound,
    }
}

/// Number of policies that are not known to be enforced.
#[must_use]
pub fn lacking(found: &[(&'static str, Enforcement)]) -> usize {
    let lacking = found
        .iter()
        .filter(|(_, enforcement)| *enforcement != Enforcement::Enforced);
    lacking.count()
}

/// What is not enforced, on one line, with the remedy; `None` when all is.
#[must_use]
pub fn describe(found: &[(&'static str, Enforcement)]) -> Option<String> {
    let named = |wanted: fn(&Enforcement) -> bool| {
        let names = found.iter().filter(|(_, one)| wanted(one)).map(|(name, _)| *name);
        names.collect::<Vec<_>>().join(", ")
    };
    let missing = named(|one| *one == Enforcement::Missing);
    let unbound = named(|one| *one == Enforcement::Unbound);
    let unreadable = named(|one| matches!(one, Enforcement::Unreadable(_)));
    let mut text = String::new();
    for (what, names) in [
        ("missing", &missing),
        ("not bound with Deny", &unbound),
        ("cannot be read", &unreadable),
    ] {
        if !names.is_empty() {
            let _ = write!(text, "{}{what}: {names}", if text.is_empty() { "" } else { "; " });
        }
    }
    let cause = found.iter().find_map(|(_, one)| match one {
        Enforcement::Unreadable(cause) => Some(cause),
        _ => None,
    });
    if let Some(cause) = cause {
        let _ = write!(text, " ({cause})");
    }
    (!text.is_empty()).then(|| text + "; apply deploy/, which ships them")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn binding(policy: &str, actions: &Value) -> Value {
        json!({"spec": {"policyName": policy, "validationActions": actions}})
    }

    #[test]
    fn a_policy_is_enforced_only_with_a_binding_that_denies() {
        let good = binding("p", &json!(["Audit", "Deny"]));
        assert_eq!(judge("p", true, Some(&good)), Enforcement::Enforced);
        assert_eq!(judge("p", false, Some(&good)), Enforcement::Missing);
        for binding in [
            binding("p", &json!(["Warn"])),
            binding("p", &json!([])),
            binding("q", &json!(["Deny"])),
            json!({}),
        ] {
            assert_eq!(
                judge("p", true, Some(&binding)),
                Enforcement::Unbound,
                "{binding}"
            );
        }
        assert_eq!(judge("p", true, None), Enforcement::Unbound);
    }

    #[test]
    fn what_is_not_enforced_is_named_with_the_remedy() {
        let found = [
            ("a", Enforcement::Enforced),
            ("b", Enforcement::Missing),
            ("c", Enforcement::Missing),
            ("d", Enforcement::Unbound),
            ("e", Enforcement::Unreadable("forbidden".to_owned())),
        ];
        assert_eq!(lacking(&found), 4);
        assert_eq!(
            describe(&found).as_deref(),
            Some(
                "missing: b, c; not bound with Deny: d; cannot be read: e (forbidden); apply deploy/, which ships them"
            )
        );
        assert_eq!(describe(&found[..1]), None);
    }
}
