//! What server-side apply must know of a schema: which lists are merged item by item, and which maps are one value.

use serde_json::Value;

use super::Schema;

/// How the items of a list are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// As one value.
    Atomic,
    /// As a set of scalars.
    Set,
    /// By the values of these fields.
    Keyed(Vec<String>),
}

impl ListKind {
    pub(super) fn parse(openapi: &Value) -> Self {
        match openapi.get("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") => Self::Set,
            Some("map") => Self::Keyed(super::texts(openapi.get("x-kubernetes-list-map-keys"))),
            _ => Self::Atomic,
        }
    }
}

/// The merge rules at one place of an object. Where the schema says nothing, maps are merged and lists are one value.
#[derive(Clone, Copy, Debug)]
pub struct Typing<'a>(Option<&'a Schema>);

impl<'a> Typing<'a> {
    /// The rules at the root of an object.
    #[must_use]
    pub fn of(schema: &'a Schema) -> Self {
        Self(Some(schema))
    }

    /// The rules of a field of a map.
    #[must_use]
    pub fn field(self, name: &str) -> Self {
        Self(self.0.and_then(|schema| schema.field(name)))
    }

    /// The rules of the items of a list.
    #[must_use]
    pub fn item(self) -> Self {
        Self(self.0.and_then(|schema| schema.items.as_deref()))
    }

    /// How a list is merged. A list whose items lack their keys is one value.
    #[must_use]
    pub fn list(self, items: &[Value]) -> &'a ListKind {
        const ATOMIC: &ListKind = &ListKind::Atomic;
        match self.0.map(|schema| &schema.list) {
            Some(kind @ ListKind::Keyed(keys)) if items.iter().all(|item| has_keys(item, keys)) => kind,
            Some(ListKind::Set) => &ListKind::Set,
            _ => ATOMIC,
        }
    }

    /// Whether a map is one value.
    #[must_use]
    pub fn is_atomic_map(self) -> bool {
        self.0.is_some_and(|schema| schema.atomic_map)
    }

    /// Whether the field is one that the schema declares by name.
    #[must_use]
    pub fn declares(self, name: &str) -> bool {
        self.0.is_some_and(|schema| schema.properties.contains_key(name))
    }

    /// The default of a key of the items of a list.
    pub(crate) fn default_of(self, key: &str) -> Option<&'a Value> {
        self.field(key).0?.default.as_ref()
    }
}

fn has_keys(item: &Value, keys: &[String]) -> bool {
    keys.iter().any(|key| item.get(key).is_some())
}
