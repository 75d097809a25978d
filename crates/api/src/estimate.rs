//! The estimate in the status of an upgrade.

// kubectl explain shows these comments; backticks would only clutter them.
#![allow(clippy::doc_markdown)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// When an upgrade ends. It is rewritten only when it moves by more than a tenth of the time that is left.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct UpgradeEstimate {
    /// It is as likely to end before this time as after it.
    pub p50: Time,
    /// It ends before this time in nine of ten cases.
    pub p90: Time,
    /// What most of the times are known from: Upgrade (finished clusters of this upgrade), History (past updates of the
    /// clusters), Usual (usual times of OpenShift updates), AtTarget or Spec (only soak times are left). A newer release may write other words.
    pub basis: String,
    /// How many times were measured for it.
    pub samples: i64,
}

/// Reads an estimate. If a newer release has written it differently, it counts as absent, because the controller makes another one.
pub(crate) fn if_readable<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<UpgradeEstimate>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(UpgradeEstimate::deserialize(value).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::ManagedClustersUpgradeStatus;

    #[test]
    fn an_estimate_that_cannot_be_read_hides_nothing_else() {
        let read = |estimate: serde_json::Value| -> ManagedClustersUpgradeStatus {
            serde_json::from_value(json!({"estimate": estimate, "progress": "1/2"})).unwrap()
        };
        let good = json!({"p50": "2026-01-01T00:00:00Z", "p90": "2026-01-01T01:00:00Z", "basis": "Usual", "samples": 0});
        assert_eq!(read(good).estimate.unwrap().basis, "Usual");
        for bad in [json!(null), json!("soon"), json!({"p50": 1})] {
            let status = read(bad);
            assert_eq!((status.estimate, status.progress.as_deref()), (None, Some("1/2")));
        }
    }
}
