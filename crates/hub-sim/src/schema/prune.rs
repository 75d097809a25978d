//! Removes fields that a schema does not know, and fills in defaults.

use serde_json::Value;

use super::Schema;

/// Where a value is. It becomes a text only if that is needed.
#[derive(Clone, Copy)]
pub(crate) enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
    /// The value of a map whose names the schema does not declare.
    Entry(&'a Path<'a>, &'a str),
}

impl std::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(above, name) => write!(f, "{above}.{name}"),
            Self::Item(above, number) => write!(f, "{above}[{number}]"),
            Self::Entry(above, name) => write!(f, "{above}[{name}]"),
        }
    }
}

impl Schema {
    /// Removes unknown fields. Returns the path of each, such as `spec.foo` or `spec.items[2].bar`.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut removed = Vec::new();
        self.prune_at(object, &Path::Root, &mut removed);
        removed
    }

    fn prune_at(&self, value: &mut Value, path: &Path<'_>, removed: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                let mut has_unknown = false;
                for (name, value) in map.iter_mut() {
                    let at = Path::Field(path, name);
                    match self.field(name) {
                        Some(schema) => schema.prune_at(value, &at, removed),
                        None if self.preserve_unknown => {}
                        None => {
                            removed.push(at.to_string());
                            has_unknown = true;
                        }
                    }
                }
                if has_unknown {
                    map.retain(|name, _| self.field(name).is_some());
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for (number, item) in items.iter_mut().enumerate() {
                    schema.prune_at(item, &Path::Item(path, number), removed);
                }
            }
            _ => {}
        }
    }

    /// Adds the defaults of absent fields. A `null` of a field that may not be null counts as absent.
    pub fn fill_defaults(&self, value: &mut Value) {
        if !self.has_defaults {
            return;
        }
        match value {
            Value::Object(map) => {
                for (name, schema) in &self.properties {
                    let Some(default) = &schema.default else { continue };
                    let absent = map
                        .get(name)
                        .is_none_or(|have| have.is_null() && !schema.nullable);
                    if absent {
                        map.insert(name.clone(), default.clone());
                    }
                }
                for (name, value) in map.iter_mut() {
                    if let Some(schema) = self.field(name) {
                        schema.fill_defaults(value);
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for item in items {
                    schema.fill_defaults(item);
                }
            }
            _ => {}
        }
    }

    /// Removes `null` of declared fields that may not be null and have no default, as the server does when it reads an object.
    pub fn drop_nulls(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                if map.values().any(Value::is_null) {
                    map.retain(|name, value| match self.properties.get(name) {
                        Some(schema) if value.is_null() => schema.nullable,
                        _ => true,
                    });
                }
                for (name, value) in map.iter_mut().filter(|(_, value)| is_nested(value)) {
                    if let Some(schema) = self.field(name) {
                        schema.drop_nulls(value);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    for item in items {
                        schema.drop_nulls(item);
                    }
                }
            }
            _ => {}
        }
    }
}

impl Schema {
    /// Removes empty metadata, here and in embedded objects, as reading it into a struct does.
    pub(crate) fn tidy_metadata(&self, value: &mut Value) {
        tidy(value);
        self.tidy_embedded(value);
    }

    fn tidy_embedded(&self, value: &mut Value) {
        if !self.has_embedded {
            return;
        }
        match value {
            Value::Object(map) => {
                for (name, value) in map.iter_mut() {
                    let Some(schema) = self.field(name) else { continue };
                    if schema.embedded {
                        tidy(value);
                    }
                    schema.tidy_embedded(value);
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for item in items {
                    if schema.embedded {
                        tidy(item);
                    }
                    schema.tidy_embedded(item);
                }
            }
            _ => {}
        }
    }

    /// Removes empty maps and lists of a built-in kind. Those of `always` are there even if they are empty.
    pub(crate) fn drop_empty(object: &mut Value, always: &[(&'static str, Value)]) {
        if let Some(map) = object.as_object_mut() {
            map.retain(|_, value| !is_empty(value));
            for (name, value) in always {
                map.entry(*name).or_insert_with(|| value.clone());
            }
        }
    }
}

fn is_nested(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::Array(_))
}

fn tidy(object: &mut Value) {
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["labels", "annotations"] {
            let values = meta.get_mut(field).and_then(Value::as_object_mut);
            for value in values
                .into_iter()
                .flat_map(|map| map.values_mut())
                .filter(|value| value.is_null())
            {
                *value = "".into();
            }
        }
        meta.retain(|name, value| !(is_empty(value) && (name != "managedFields" || value.is_null())));
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
