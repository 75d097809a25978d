//! What server-side apply must know of a schema: which lists are merged item by item, and which maps are one value.

use serde_json::Value;

use super::prune::Path;
use super::{Schema, Type};

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

/// How a value is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape<'a> {
    /// Field by field.
    Map,
    /// Item by item.
    List(&'a ListKind),
    /// As one value.
    Leaf,
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

    /// How a value is merged. A `null` has the shape of its schema.
    #[must_use]
    pub fn shape(self, value: &Value) -> Shape<'a> {
        let declared = self.0.map_or(Type::Any, |schema| schema.of);
        match (declared, value) {
            (Type::Object, Value::Object(_) | Value::Null) | (Type::Any, Value::Object(_)) => {
                if self.0.is_some_and(|schema| schema.atomic_map) {
                    Shape::Leaf
                } else {
                    Shape::Map
                }
            }
            (Type::Array, Value::Array(_) | Value::Null) | (Type::Any, Value::Array(_)) => {
                match self.0.map(|schema| &schema.list) {
                    Some(kind @ (ListKind::Set | ListKind::Keyed(_))) => Shape::List(kind),
                    _ => Shape::Leaf,
                }
            }
            _ => Shape::Leaf,
        }
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

impl Schema {
    /// Why a configuration cannot be applied, if it has another shape than the schema: with unknown fields, values of other types,
    /// or items twice.
    pub(crate) fn apply_error(&self, value: &Value) -> Option<String> {
        self.apply_error_at(value, &Path::Root)
    }

    fn apply_error_at(&self, value: &Value, path: &Path<'_>) -> Option<String> {
        let wrong = |expected: &str| {
            Some(format!(
                "{}: expected {expected}, got &{{{}}}",
                dotted(path),
                shown(value)
            ))
        };
        match (self.of, value) {
            (Type::Any, _) | (_, Value::Null) => None,
            (Type::Object, Value::Object(map)) => map.iter().find_map(|(name, value)| {
                let path = Path::Field(path, name);
                match self.field(name) {
                    Some(schema) => schema.apply_error_at(value, &path),
                    None if self.preserve_unknown => None,
                    None => Some(format!("{}: field not declared in schema", dotted(&path))),
                }
            }),
            (Type::Object, _) => wrong("map"),
            (Type::Array, Value::Array(items)) => self.apply_error_of_items(items, path),
            (Type::Array, _) => wrong("list"),
            (Type::String, value) if !value.is_string() => wrong("string"),
            (Type::Boolean, value) if !value.is_boolean() => wrong("boolean"),
            (Type::Integer | Type::Number, value) if !value.is_number() => Some(format!(
                "{}: expected numeric (int or float), got {}",
                dotted(path),
                go_type(value)
            )),
            (Type::IntOrString, Value::Object(_) | Value::Array(_)) => wrong("any scalar"),
            _ => None,
        }
    }

    /// Why a value cannot be read into a struct: a field has another type. The path begins with the name of the struct; the
    /// values of a map are named by the map.
    pub(crate) fn type_error(&self, value: &Value, path: &Path<'_>) -> Option<String> {
        let wrong = |of: &str| {
            Some(format!(
                "json: cannot unmarshal {} into Go struct field {path} of type {of}",
                json_type(value)
            ))
        };
        match (self.of, value) {
            (Type::Any, _) | (_, Value::Null) => None,
            (Type::Object, Value::Object(map)) => map.iter().find_map(|(name, value)| {
                let declared = self.properties.contains_key(name);
                let below = Path::Field(path, name);
                let path = if declared { &below } else { path };
                self.field(name)?.type_error(value, path)
            }),
            (Type::Array, Value::Array(items)) => {
                let schema = self.items.as_deref()?;
                items.iter().find_map(|item| schema.type_error(item, path))
            }
            (_, Value::String(text)) if self.limits.format.as_deref() == Some("micro-time") => {
                micro_time_error(text)
            }
            (Type::Integer, Value::Number(number)) if self.overflows(value) => Some(format!(
                "json: cannot unmarshal number {number} into Go struct field {path} of type {}",
                self.limits.format.as_deref().unwrap_or("int64")
            )),
            (of, value) if of.holds(value) => None,
            (Type::Integer, _) => wrong("int32"),
            (Type::Boolean, _) => wrong("bool"),
            (of, _) => wrong(of.name()),
        }
    }

    /// Whether a whole number is too large for its format. Only kinds of Kubernetes are read into such numbers.
    fn overflows(&self, value: &Value) -> bool {
        match (self.limits.format.as_deref(), value.as_i64()) {
            (Some("int32"), Some(number)) => i32::try_from(number).is_err(),
            (_, Some(_)) => false,
            (_, None) => value.is_u64(),
        }
    }

    fn apply_error_of_items(&self, items: &[Value], path: &Path<'_>) -> Option<String> {
        let item = self.items.as_deref()?;
        let mut seen: Vec<Value> = Vec::new();
        for (number, value) in items.iter().enumerate() {
            let key = match &self.list {
                ListKind::Atomic => Value::Null,
                ListKind::Set => value.clone(),
                ListKind::Keyed(keys) => {
                    let key = item.key_of(value, keys);
                    if key.as_object().is_some_and(serde_json::Map::is_empty) {
                        let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
                        return Some(format!(
                            "{}: element {number}: associative list with keys has an element that omits all key fields [{}] \
                             (and doesn't have default values for any key fields)",
                            dotted(path),
                            keys.join(" ")
                        ));
                    }
                    key
                }
            };
            if !key.is_null() && seen.contains(&key) {
                return Some(format!("{}: duplicate entries for key {key}", dotted(path)));
            }
            seen.push(key);
            if let Some(error) = item.apply_error_at(value, &Path::Item(path, number)) {
                return Some(error);
            }
        }
        None
    }

    /// The keys of an item of a list. A key that is absent has its default.
    pub(super) fn key_of(&self, item: &Value, keys: &[String]) -> Value {
        let default = |key: &str| self.field(key).and_then(|schema| schema.default.as_ref());
        let value = |key: &String| Some((key.clone(), item.get(key).or_else(|| default(key))?.clone()));
        keys.iter()
            .filter_map(value)
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

/// A path that begins with a dot.
fn dotted(path: &Path<'_>) -> String {
    match path {
        Path::Root => String::new(),
        path => format!(".{path}"),
    }
}

/// A scalar as Go prints it.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Times with microseconds have exactly six digits after the second.
fn micro_time_error(text: &str) -> Option<String> {
    const SECONDS: usize = "2026-01-01T00:00:00".len();
    let (date, rest) = text.split_at_checked(SECONDS)?;
    let digits = rest
        .strip_prefix('.')
        .map_or(0, |rest| rest.chars().take_while(char::is_ascii_digit).count());
    let is_date = chrono::DateTime::parse_from_rfc3339(&format!("{date}Z")).is_ok();
    (digits != 6 || !is_date).then(|| {
        format!(
            "parsing time \"{text}\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"{rest}\" as \".000000\""
        )
    })
}
