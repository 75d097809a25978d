//! The admission policies that `deploy/` ships. They ensure that only permitted accounts write what the controller
//! relies on. This module checks whether a hub enforces them.

use std::fmt::Write as _;

use kube::core::DynamicObject;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// API group of admission policies.
pub const POLICY_GROUP: &str = "admissionregistration.k8s.io";
/// API version of admission policies.
pub const POLICY_VERSION: &str = "v1";
/// Kind of a policy.
pub const POLICY_KIND: &str = "ValidatingAdmissionPolicy";
/// Kind of a policy's binding.
pub const BINDING_KIND: &str = "ValidatingAdmissionPolicyBinding";
/// Selector of the label that the shipped policies and their bindings have.
pub const POLICY_LABEL: &str = "app.kubernetes.io/name=mcu-controller";
/// The shipped policies; each is bound by a `ValidatingAdmissionPolicyBinding` of the same name.
pub const POLICIES: [&str; 5] = [
    "managedclustersupgrade-references",
    "managedclustersupgrade-works",
    "managedclustersupgrade-reports",
    "managedclustersupgrade-approvals",
    "managedclustersupgrade-hub",
];
/// The [`digest`] of each policy.
const DIGESTS: [&str; 5] = [
    "5872d0a6f5749227e61b0c2a8bc7df4aad2cc042c0baa04e10a3a1b642793878",
    "85026164db5162df6abd39e559a1f759579ff2f6102419233449ccbaccc21274",
    "e5e9a25f64434eb78ffbcc85d7d0165b0e94422d570ea8e023fa6456f56d9508",
    "bc3971d4017f11aeee157e2721593ed1502a5f2f8e8732fc7b0eb837a3b1564c",
    "86f6d77368036852a952988933dfa24281d736bd4d49c594d96a1b7285046aa9",
];
/// The match condition that exempts the controller. Which account that is depends on the installation.
const EXEMPTION: &str = "not-the-controller";

/// Whether a hub enforces a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// The policy is as shipped, and its binding denies every request that violates it.
    Enforced,
    /// The policy does not exist.
    Missing,
    /// The policy exists, but no binding of the same name denies requests by it.
    Unbound,
    /// The binding leaves some requests out.
    Narrowed,
    /// The policy admits requests that it cannot evaluate.
    Ignoring,
    /// The policy checks something else than the one that this release ships.
    Altered,
    /// The policy exempts accounts other than the controller's.
    OtherAccount,
    /// The policy cannot be read; the text says why.
    Unreadable(String),
}

impl Enforcement {
    /// True when the hub is known to admit what the policy should deny. A changed policy may be that of a neighboring
    /// release, and one that cannot be read may be enforced.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(
            self,
            Self::Missing | Self::Unbound | Self::Narrowed | Self::Ignoring
        )
    }

    /// What is wrong, as the heading for the names of the policies.
    const fn problem(&self) -> Option<&'static str> {
        match self {
            Self::Enforced => None,
            Self::Missing => Some("missing"),
            Self::Unbound => Some("not bound with Deny"),
            Self::Narrowed => Some("bound to some requests only"),
            Self::Ignoring => Some("without failurePolicy Fail"),
            Self::Altered => Some("changed or from another release"),
            Self::OtherAccount => Some("written for another account than the controller's"),
            Self::Unreadable(_) => Some("cannot be read"),
        }
    }
}

/// Evaluates all shipped policies against what the hub has. `account` is the controller's user name, where it is
/// known.
#[must_use]
pub fn evaluate_all(
    policies: &[DynamicObject],
    bindings: &[DynamicObject],
    account: Option<&str>,
) -> Vec<(&'static str, Enforcement)> {
    let spec = |objects: &[DynamicObject], name: &str| {
        let mut named = objects
            .iter()
            .filter(|one| one.metadata.name.as_deref() == Some(name));
        named.next().map(|one| one.data["spec"].clone())
    };
    let evaluated = POLICIES.into_iter().zip(DIGESTS).map(|(name, shipped)| {
        let (policy, binding) = (spec(policies, name), spec(bindings, name));
        (
            name,
            evaluate(name, shipped, policy.as_ref(), binding.as_ref(), account),
        )
    });
    evaluated.collect()
}

/// Evaluates a policy by its spec and by the spec of the binding of the same name.
fn evaluate(
    name: &str,
    shipped: &str,
    policy: Option<&Value>,
    binding: Option<&Value>,
    account: Option<&str>,
) -> Enforcement {
    let Some(policy) = policy else {
        return Enforcement::Missing;
    };
    let denies = |binding: &&Value| {
        let actions = binding["validationActions"].as_array();
        binding["policyName"] == name
            && actions.is_some_and(|actions| actions.iter().any(|action| action == "Deny"))
    };
    let Some(binding) = binding.filter(denies) else {
        return Enforcement::Unbound;
    };
    if !binding["paramRef"].is_null() || matched(&binding["matchResources"]) != matched(&Value::Null) {
        return Enforcement::Narrowed;
    }
    if !(policy["failurePolicy"].is_null() || policy["failurePolicy"] == "Fail") {
        return Enforcement::Ignoring;
    }
    if digest(policy) != shipped {
        return Enforcement::Altered;
    }
    match exemption(policy).map(exempt) {
        Some(None) => Enforcement::Altered,
        Some(Some(exempt)) if account.is_some_and(|account| !exempt.contains(&account)) => {
            Enforcement::OtherAccount
        }
        _ => Enforcement::Enforced,
    }
}

/// The requests that are matched, with the defaults of the API server filled in.
fn matched(constraints: &Value) -> Value {
    let or = |value: &Value, default: Value| if value.is_null() { default } else { value.clone() };
    let rules = |field: &str| -> Vec<Value> {
        let rules = constraints[field].as_array().into_iter().flatten();
        let parts = [
            "apiGroups",
            "apiVersions",
            "operations",
            "resources",
            "resourceNames",
        ];
        rules
            .map(|rule| {
                json!([
                    parts.map(|part| rule[part].clone()),
                    or(&rule["scope"], json!("*"))
                ])
            })
            .collect()
    };
    json!([
        rules("resourceRules"),
        rules("excludeResourceRules"),
        or(&constraints["namespaceSelector"], json!({})),
        or(&constraints["objectSelector"], json!({})),
        or(&constraints["matchPolicy"], json!("Equivalent")),
    ])
}

/// Digest of everything that decides what a policy denies. It leaves out messages, exempt accounts and defaults that
/// an API server fills in.
fn digest(policy: &Value) -> String {
    let expressions = |field: &str| -> Vec<Value> {
        let parts = policy[field].as_array().into_iter().flatten();
        parts
            .map(|part| {
                let exempts = field == "matchConditions" && part["name"] == EXEMPTION;
                json!([
                    part["name"],
                    if exempts {
                        &Value::Null
                    } else {
                        &part["expression"]
                    }
                ])
            })
            .collect()
    };
    let decides = json!([
        policy["paramKind"],
        matched(&policy["matchConstraints"]),
        expressions("matchConditions"),
        expressions("variables"),
        expressions("validations"),
    ]);
    format!("{:x}", Sha256::digest(decides.to_string()))
}

/// The expression that exempts the controller, if the policy has one.
fn exemption(policy: &Value) -> Option<&str> {
    let mut conditions = policy["matchConditions"].as_array()?.iter();
    let found = conditions.find(|condition| condition["name"] == EXEMPTION)?;
    Some(found["expression"].as_str().unwrap_or_default())
}

/// The accounts that the expression exempts; `None` when it is not a plain list of `ServiceAccounts`.
fn exempt(expression: &str) -> Option<Vec<&str>> {
    let list = expression
        .trim()
        .strip_prefix("!(request.userInfo.username in [")?
        .strip_suffix("])")?;
    let accounts = list.split(',').map(|text| {
        let name = text.trim().strip_prefix('\'')?.strip_suffix('\'')?;
        (name.starts_with("system:serviceaccount:") && !name.contains(['\'', '\\'])).then_some(name)
    });
    accounts.collect()
}

/// Number of policies that are not known to be enforced.
#[must_use]
pub fn lacking(found: &[(&'static str, Enforcement)]) -> usize {
    let lacking = found
        .iter()
        .filter(|(_, enforcement)| *enforcement != Enforcement::Enforced);
    lacking.count()
}

/// The policies that are not enforced, on one line with the remedy; `None` when all are enforced.
#[must_use]
pub fn describe(found: &[(&'static str, Enforcement)]) -> Option<String> {
    let mut problems: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, enforcement) in found {
        let Some(what) = enforcement.problem() else {
            continue;
        };
        match problems.iter_mut().find(|(known, _)| *known == what) {
            Some((_, names)) => names.push(name),
            None => problems.push((what, vec![name])),
        }
    }
    let parts = problems
        .iter()
        .map(|(what, names)| format!("{what}: {}", names.join(", ")));
    let mut text = parts.collect::<Vec<_>>().join("; ");
    let cause = found.iter().find_map(|(_, one)| match one {
        Enforcement::Unreadable(cause) => Some(cause),
        _ => None,
    });
    if let Some(cause) = cause {
        let _ = write!(text, " ({cause})");
    }
    (!text.is_empty()).then(|| text + "; apply deploy/, which contains them")
}

#[cfg(test)]
mod tests;
