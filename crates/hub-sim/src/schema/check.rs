//! Validation of values by a schema, with the causes and texts of kube-apiserver.

use std::fmt::Write as _;

use serde_json::Value;

use super::prune::Path;
use super::{ListKind, Schema, Type};

/// Why a value is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CauseKind {
    /// A field is missing.
    Required,
    /// It has another type.
    TypeInvalid,
    /// It breaks a rule.
    Invalid,
    /// It is none of the values of an enumeration.
    NotSupported,
    /// A text has too many characters.
    TooLong,
    /// A list has too many items.
    TooMany,
    /// A list has an item twice.
    Duplicate,
    /// It may not be set.
    Forbidden,
}

impl CauseKind {
    /// The reason in a Status.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
        }
    }
}

/// One reason why an object is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The path of the field, such as `spec.items[2].name`.
    pub field: String,
    /// What is wrong.
    pub kind: CauseKind,
    /// The text, without the field.
    pub message: String,
}

impl Cause {
    /// A cause with its text.
    #[must_use]
    pub fn new(field: &str, kind: CauseKind, message: impl Into<String>) -> Self {
        Self {
            field: field.to_owned(),
            kind,
            message: message.into(),
        }
    }

    /// The same cause in an object that has the checked one at a field.
    pub(crate) fn below(mut self, field: &str) -> Self {
        self.field = if self.field.is_empty() {
            field.to_owned()
        } else {
            format!("{field}.{}", self.field)
        };
        self
    }

    /// Whether CEL rules are not evaluated because of it.
    #[must_use]
    pub fn hides_rules(&self) -> bool {
        matches!(
            self.kind,
            CauseKind::Required
                | CauseKind::TypeInvalid
                | CauseKind::TooLong
                | CauseKind::TooMany
                | CauseKind::NotSupported
        )
    }
}

impl Schema {
    /// What is wrong with an object, apart from CEL rules.
    #[must_use]
    pub fn check(&self, object: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        self.check_at(object, &Path::Root, &mut causes);
        causes
    }

    fn check_at(&self, value: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
        if value.is_null() && (self.nullable || self.of == Type::Any) {
            return;
        }
        if !self.of.holds(value) {
            if self.any_of {
                let text =
                    format!("Invalid value: \"\": \"{path}\" must validate at least one schema (anyOf)");
                causes.push(Cause::new("<nil>", CauseKind::Invalid, text));
                causes.push(wrong_type(Type::Integer, value, path));
            }
            causes.push(wrong_type(self.of, value, path));
        }
        self.check_enumeration(value, path, causes);
        match value {
            Value::Object(map) => {
                for name in self.required.iter().filter(|name| !map.contains_key(*name)) {
                    causes.push(Cause::new(
                        &Path::Field(path, name).to_string(),
                        CauseKind::Required,
                        "Required value",
                    ));
                }
                if self.embedded {
                    check_embedded(map, path, causes);
                }
                self.check_count(map.len(), path, causes);
                for (name, value) in map {
                    // The server checks metadata itself.
                    if let Some(schema) = self
                        .field(name)
                        .filter(|_| !(matches!(path, Path::Root) && name == "metadata"))
                    {
                        schema.check_at(value, &Path::Field(path, name), causes);
                    }
                }
            }
            Value::Array(items) => self.check_items(items, path, causes),
            Value::String(text) => self.check_text(text, path, causes),
            Value::Number(_) => self.check_number(value, path, causes),
            Value::Bool(_) | Value::Null => {}
        }
    }

    fn check_enumeration(&self, value: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
        let values = &self.limits.values;
        if values.is_empty() || values.contains(value) {
            return;
        }
        let supported: Vec<String> = values.iter().map(Value::to_string).collect();
        let text = format!(
            "Unsupported value: {value}: supported values: {}",
            supported.join(", ")
        );
        causes.push(Cause::new(&path.to_string(), CauseKind::NotSupported, text));
    }

    fn check_count(&self, count: usize, path: &Path<'_>, causes: &mut Vec<Cause>) {
        let count = count as u64;
        if let Some(most) = self.limits.max_properties.filter(|most| count > *most) {
            let text = format!("Too many: {count}: must have at most {most} properties");
            causes.push(Cause::new(&path.to_string(), CauseKind::TooMany, text));
        }
        if let Some(least) = self.limits.min_properties.filter(|least| count < *least) {
            causes.push(invalid(
                "object",
                path,
                &format!("should have at least {least} properties"),
            ));
        }
    }

    fn check_items(&self, items: &[Value], path: &Path<'_>, causes: &mut Vec<Cause>) {
        let count = items.len() as u64;
        if let Some(most) = self.limits.max_items.filter(|most| count > *most) {
            let text = format!("Too many: {count}: must have at most {most} items");
            causes.push(Cause::new(&path.to_string(), CauseKind::TooMany, text));
        }
        if let Some(least) = self.limits.min_items.filter(|least| count < *least) {
            causes.push(invalid(
                &count.to_string(),
                path,
                &format!("should have at least {least} items"),
            ));
        }
        if let Some(schema) = &self.items {
            for (number, item) in items.iter().enumerate() {
                schema.check_at(item, &Path::Item(path, number), causes);
            }
        }
        if self.list == ListKind::Atomic {
            return;
        }
        for (number, item) in items.iter().enumerate() {
            let before = items[..number].iter();
            // What is there more often is told once.
            if before.filter(|before| self.list.is_same(before, item)).count() == 1 {
                causes.push(Cause::new(
                    &Path::Item(path, number).to_string(),
                    CauseKind::Duplicate,
                    format!("Duplicate value: {}", self.list.shown(item)),
                ));
            }
        }
    }

    fn check_text(&self, text: &str, path: &Path<'_>, causes: &mut Vec<Cause>) {
        let limits = &self.limits;
        let is_limited = limits.max_length.is_some() || limits.min_length.is_some();
        let length = if is_limited {
            text.chars().count() as u64
        } else {
            0
        };
        let shown = || Value::from(text).to_string();
        if let Some(most) = limits.max_length.filter(|most| length > *most) {
            let text = format!("Too long: may not be more than {most} bytes");
            causes.push(Cause::new(&path.to_string(), CauseKind::TooLong, text));
        }
        if let Some(least) = limits.min_length.filter(|least| length < *least) {
            causes.push(invalid(
                &shown(),
                path,
                &format!("should be at least {least} chars long"),
            ));
        }
        if let Some(pattern) = limits
            .pattern
            .as_ref()
            .filter(|pattern| !pattern.regex.is_match(text))
        {
            causes.push(invalid(
                &shown(),
                path,
                &format!("should match '{}'", pattern.text),
            ));
        }
        if self.is_date() && !is_date_time(text) {
            let shown = shown();
            let text = format!("Invalid value: {shown}: {path} in body must be of type date-time: {shown}");
            causes.push(Cause::new(&path.to_string(), CauseKind::TypeInvalid, text));
        }
    }

    fn check_number(&self, value: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
        let number = value.as_f64().unwrap_or_default();
        if let Some(most) = self.limits.maximum.filter(|most| number > *most) {
            causes.push(invalid(
                &value.to_string(),
                path,
                &format!("should be less than or equal to {most}"),
            ));
        }
        if let Some(least) = self.limits.minimum.filter(|least| number < *least) {
            let rule = format!("should be greater than or equal to {least}");
            causes.push(invalid(&value.to_string(), path, &rule));
        }
    }
}

impl ListKind {
    /// Whether an item repeats another one.
    fn is_same(&self, one: &Value, other: &Value) -> bool {
        match self {
            Self::Atomic => false,
            Self::Set => one == other,
            Self::Keyed(keys) => keys.iter().all(|key| field_of(one, key) == field_of(other, key)),
        }
    }

    /// What identifies an item.
    fn shown(&self, item: &Value) -> Value {
        match self {
            Self::Keyed(keys) => keys
                .iter()
                .filter_map(|key| Some((key.clone(), field_of(item, key)?.clone())))
                .collect::<serde_json::Map<_, _>>()
                .into(),
            Self::Atomic | Self::Set => item.clone(),
        }
    }
}

/// A field that is not null.
fn field_of<'v>(item: &'v Value, key: &str) -> Option<&'v Value> {
    item.get(key).filter(|value| !value.is_null())
}

/// Whether a text is a date with a time. chrono also takes a space between them, and leap seconds.
fn is_date_time(text: &str) -> bool {
    const DATE: usize = "2026-01-01".len();
    const MINUTES: usize = "2026-01-01T00:00:".len();
    chrono::DateTime::parse_from_rfc3339(text).is_ok()
        && matches!(text.as_bytes().get(DATE), Some(b'T' | b't'))
        && text.as_bytes().get(MINUTES) != Some(&b'6')
}

/// An object within an object has a type.
fn check_embedded(map: &serde_json::Map<String, Value>, path: &Path<'_>, causes: &mut Vec<Cause>) {
    for field in ["apiVersion", "kind"] {
        let why = match map.get(field) {
            None => "Required value",
            Some(Value::String(text)) if text.is_empty() => "Required value: must not be empty",
            Some(_) => continue,
        };
        let at = Path::Field(path, field).to_string();
        causes.push(Cause::new(&at, CauseKind::Required, why));
    }
}

fn invalid(shown: &str, path: &Path<'_>, rule: &str) -> Cause {
    let text = format!("Invalid value: {shown}: {path} in body {rule}");
    Cause::new(&path.to_string(), CauseKind::Invalid, text)
}

/// The type of a value in a schema.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if !number.is_i64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn wrong_type(wanted: Type, value: &Value, path: &Path<'_>) -> Cause {
    let path = path.to_string();
    let have = type_of(value);
    let mut text = format!("Invalid value: \"{have}\": ");
    if !path.is_empty() {
        let _ = write!(text, "{path} in body ");
    }
    let _ = match wanted {
        Type::IntOrString => write!(text, "must be of type integer,string: \"{have}\""),
        wanted => write!(text, "must be of type {}: \"{have}\"", wanted.name()),
    };
    Cause::new(&path, CauseKind::TypeInvalid, text)
}

impl Type {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::IntOrString => "integer,string",
            Self::Any => "any",
        }
    }

    /// Whether a value is of this type. A whole number that 64 bits with a sign cannot hold is read as any number.
    pub(super) fn holds(self, value: &Value) -> bool {
        match self {
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
            Self::String => value.is_string(),
            Self::Integer => value.is_i64(),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::IntOrString => value.is_i64() || value.is_string(),
            Self::Any => true,
        }
    }
}
