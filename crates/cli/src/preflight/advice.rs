//! What to do about a cause. The names of risks and gates are texts of clusters, so a command has one only if it is a plain word:
//! whoever copies the command into a shell must not run what a cluster has written.

use api::report::Phase;
use api::validate::is_ack_key;

use super::causes::{Cause, UNKNOWN_FOR_LONG};
use crate::remedy::{self, Names};

/// What to do about a cause of a cluster.
pub fn what_to_do(cause: &Cause, names: Names<'_>) -> String {
    let (namespace, upgrade, name) = (names.namespace, names.name, cause.name.as_str());
    match cause.reason.as_str() {
        "RiskNotAccepted" | "RiskUnknown" if is_plain_risk(name) => {
            format!(
                "If the risk is acceptable: kubectl mcu accept {upgrade} {name} -n {namespace} --reason '...'"
            )
        }
        "RiskNotAccepted" | "RiskUnknown" if !name.is_empty() => {
            "The name of this risk is unusual, so no command is shown for it. Find out on the cluster where it comes from (oc adm upgrade --include-not-recommended) before you accept it.".to_owned()
        }
        "AdminAckRequired" if is_ack_key(name) => {
            format!(
                "When the clusters are prepared: kubectl mcu ack {upgrade} {name} -n {namespace} --reason '...'"
            )
        }
        "AdminAckRequired" if !name.is_empty() => {
            "This is no key that a release gives to a gate, so no command is shown for it. Examine ConfigMap admin-gates in namespace openshift-config-managed of the cluster: somebody may have added the key.".to_owned()
        }
        UNKNOWN_FOR_LONG => {
            "The message says what the cluster has not told for longer than spec.preflight.timeout. Check the work agent (klusterlet) on the cluster. To start such clusters anyway, set spec.preflight.mode to Report.".to_owned()
        }
        reason => remedy::for_cluster(reason, Phase::Blocked, names),
    }
}

/// True for a name such as `OVNIPsecConnectivity`, as the update graphs of OpenShift have them.
fn is_plain_risk(name: &str) -> bool {
    let in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    name.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) && name.bytes().all(in_name)
}

#[cfg(test)]
mod tests;
