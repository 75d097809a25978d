//! Reads `ClusterVersions` from YAML or JSON, either single objects or a `List`, as `oc get -o yaml` writes them.

use serde_json::Value;

use super::ClusterVersion;
use super::field::Field as _;

/// Why no ClusterVersion can be read from a text.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The text is empty.
    #[error("expected a ClusterVersion, found nothing")]
    Empty,
    /// The text is neither YAML nor JSON.
    #[error("neither YAML nor JSON: {0}")]
    Syntax(String),
    /// It contains an object of another kind.
    #[error("expected a ClusterVersion, found {0}")]
    Kind(String),
    /// A field has another type.
    #[error("ClusterVersion: {0}")]
    Field(String),
}

/// Reads the `ClusterVersions` of a text, in order.
///
/// # Errors
/// [`DocumentError`]: the text cannot be read, or an object in it is not a ClusterVersion.
pub fn read_documents(text: &str) -> Result<Vec<ClusterVersion>, DocumentError> {
    let mut found = Vec::new();
    for document in documents(text).into_iter().filter(|document| !is_blank(document)) {
        let value: Value = serde_saphyr::from_str(&document)
            .map_err(|error| DocumentError::Syntax(words(&error.to_string())))?;
        let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
        if kind.ends_with("List") {
            let items = value.get("items").and_then(Value::as_array);
            let items = items.ok_or_else(|| DocumentError::Kind(format!("{kind:?} without items")))?;
            for item in items {
                found.push(one(item)?);
            }
        } else {
            found.push(one(&value)?);
        }
    }
    if found.is_empty() && is_blank(text) {
        return Err(DocumentError::Empty);
    }
    Ok(found)
}

/// The documents of a YAML stream, separated by `---`. JSON has no such lines.
fn documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        let rest = line.strip_prefix("---");
        if let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t'])) {
            documents.push(rest.trim().to_owned());
        } else if let Some(last) = documents.last_mut() {
            // A directive such as %YAML 1.2 is not part of the object.
            if !(line.starts_with('%') && is_blank(last)) {
                last.push_str(line);
            }
        }
        if let Some(last) = documents.last_mut() {
            last.push('\n');
        }
    }
    documents
}

/// Whether a text has only comments and empty lines.
fn is_blank(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .all(|line| line.is_empty() || line == "---" || line.starts_with('#'))
}

/// An error without the advice that the YAML library adds for programmers.
fn words(error: &str) -> String {
    error.replace(", set DuplicateKeyPolicy in Options if acceptable", "")
}

/// Whether an object without kind can only be the ClusterVersion of a cluster.
fn is_of_a_cluster(value: &Value) -> bool {
    value["metadata"]["name"] == *"version" && value["spec"]["clusterID"].is_string()
}

fn one(value: &Value) -> Result<ClusterVersion, DocumentError> {
    // An object without apiVersion is accepted, but one of another group is another kind.
    let foreign = value
        .get("apiVersion")
        .filter(|version| **version != *"config.openshift.io/v1");
    match value.get("kind").and_then(Value::as_str) {
        Some("ClusterVersion") => match foreign {
            Some(version) => Err(DocumentError::Kind(format!(
                "one of apiVersion {version}, not \"config.openshift.io/v1\""
            ))),
            None => ClusterVersion::read(value).map_err(DocumentError::Field),
        },
        Some(kind) => Err(DocumentError::Kind(format!("{kind:?}"))),
        // Archives of a cluster's configuration leave out apiVersion and kind.
        None if foreign.is_none() && is_of_a_cluster(value) => {
            ClusterVersion::read(value).map_err(DocumentError::Field)
        }
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
        let stream = "---\napiVersion: config.openshift.io/v1\nkind: ClusterVersion\n---\n# the end\n---\n";
        assert_eq!(read_documents(stream).unwrap().len(), 1);
        assert_eq!(
            read_documents(&format!("{stream}kind: ClusterVersion\n"))
                .unwrap()
                .len(),
            2
        );
        let directive = "%YAML 1.2\n---\nkind: ClusterVersion\n";
        assert_eq!(read_documents(directive).unwrap().len(), 1);
        let archived =
            r#"{"metadata": {"name": "version"}, "spec": {"clusterID": "1", "channel": "eus-4.16"}}"#;
        assert_eq!(read_documents(archived).unwrap()[0].spec.channel, "eus-4.16");
        let twice = read_documents("kind: ClusterVersion\nkind: ClusterVersion\n").unwrap_err();
        assert!(!twice.to_string().contains("Policy"), "{twice}");
        for (text, expected) in [
            ("kind: Pod\n", "expected a ClusterVersion, found \"Pod\""),
            (
                "a: 1\n",
                "expected a ClusterVersion, found an object without kind",
            ),
            ("", "expected a ClusterVersion, found nothing"),
            ("# nothing\n---\n", "expected a ClusterVersion, found nothing"),
            (
                "kind: List\n",
                "expected a ClusterVersion, found \"List\" without items",
            ),
            (
                "apiVersion: v9/foo\nkind: ClusterVersion\n",
                "expected a ClusterVersion, found one of apiVersion \"v9/foo\", not \"config.openshift.io/v1\"",
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
