//! `ClusterVersions` out of a text: YAML or JSON, bare or in a `List`, as `oc get -o yaml` writes them.

use serde_json::Value;

use super::ClusterVersion;
use super::field::Field as _;

/// Why a text holds no ClusterVersion.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// Neither YAML nor JSON.
    #[error("neither YAML nor JSON: {0}")]
    Syntax(String),
    /// An object of another kind.
    #[error("expected a ClusterVersion, found {0}")]
    Kind(String),
    /// A field of another type.
    #[error("ClusterVersion: {0}")]
    Field(String),
}

/// Reads the `ClusterVersions` of a text, in their order.
///
/// # Errors
/// [`DocumentError`]: the text cannot be read, or an object in it is not a ClusterVersion.
pub fn read_documents(text: &str) -> Result<Vec<ClusterVersion>, DocumentError> {
    let value: Value =
        serde_saphyr::from_str(text).map_err(|error| DocumentError::Syntax(error.to_string()))?;
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or("no kind");
    if kind.ends_with("List") {
        let items = value.get("items").and_then(Value::as_array);
        return items.into_iter().flatten().map(one).collect();
    }
    Ok(vec![one(&value)?])
}

fn one(value: &Value) -> Result<ClusterVersion, DocumentError> {
    match value.get("kind").and_then(Value::as_str) {
        Some("ClusterVersion") => ClusterVersion::read(value).map_err(DocumentError::Field),
        Some(kind) => Err(DocumentError::Kind(format!("{kind:?}"))),
        None => Err(DocumentError::Kind("an object without kind".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_objects_and_lists_are_read_and_other_kinds_are_named() {
        let bare = "kind: ClusterVersion\nspec: {channel: stable-4.14}\n";
        assert_eq!(read_documents(bare).unwrap()[0].spec.channel, "stable-4.14");
        let list = r#"{"kind": "List", "items": [{"kind": "ClusterVersion"}, {"kind": "ClusterVersion"}]}"#;
        assert_eq!(read_documents(list).unwrap().len(), 2);
        for (text, expected) in [
            ("kind: Pod\n", "expected a ClusterVersion, found \"Pod\""),
            (
                "a: 1\n",
                "expected a ClusterVersion, found an object without kind",
            ),
            (
                "kind: ClusterVersion\nstatus: {history: [{version: [1]}]}\n",
                "ClusterVersion: .status.history[0].version: expected a string, found a list",
            ),
        ] {
            assert_eq!(read_documents(text).unwrap_err().to_string(), expected);
        }
    }
}
