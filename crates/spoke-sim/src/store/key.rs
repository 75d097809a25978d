//! Names of objects.

use crate::catalog::Text;

/// Identifies one object of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// API group, empty for the core group.
    pub group: Text,
    /// Plural resource.
    pub resource: Text,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: Box<str>,
    /// Name.
    pub name: Box<str>,
}

impl ObjectKey {
    /// A key from its parts.
    pub fn new(group: impl Into<Text>, resource: impl Into<Text>, namespace: &str, name: &str) -> Self {
        Self {
            group: group.into(),
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// A key whose resource is written `plural.group` (`jobs.batch`, `namespaces`).
    #[must_use]
    pub fn parse(resource: &str, namespace: &str, name: &str) -> Self {
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        Self::new(group.to_owned(), plural.to_owned(), namespace, name)
    }

    /// `plural.group`, as the API server names the resource in its errors.
    #[must_use]
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.resource.to_string()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }
}
