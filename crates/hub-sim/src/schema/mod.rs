//! The structural schema of a kind, read from the `OpenAPI` schema of a `CustomResourceDefinition`.
//!
//! One tree serves pruning, defaulting and validation ([`check`]) and says which lists and maps server-side apply merges
//! ([`Typing`]). CEL rules are evaluated by [`rules`].

mod check;
mod prune;
mod rules;
mod typing;

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Value, json};

pub use self::check::{Cause, CauseKind};
pub(crate) use self::prune::Path;
pub use self::typing::{ListKind, Shape, Typing};

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A map with known fields, or with values of one type.
    Object,
    /// A list.
    Array,
    /// A text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// A whole number or a text (`x-kubernetes-int-or-string`).
    IntOrString,
    /// Anything.
    Any,
}

/// One node of a schema.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a keyword of the schema, independent of the others"
)]
pub struct Schema {
    pub(crate) of: Type,
    pub(crate) nullable: bool,
    pub(crate) preserve_unknown: bool,
    pub(crate) embedded: bool,
    pub(crate) properties: BTreeMap<String, Schema>,
    pub(crate) additional: Option<Box<Schema>>,
    pub(crate) items: Option<Box<Schema>>,
    pub(crate) required: Vec<String>,
    pub(crate) default: Option<Value>,
    pub(crate) limits: Limits,
    pub(crate) list: ListKind,
    pub(crate) atomic_map: bool,
    /// Whether `anyOf` names the types of an `x-kubernetes-int-or-string`, which adds causes.
    pub(crate) any_of: bool,
    pub(crate) rules: Vec<rules::Rule>,
    /// Whether there is a rule here or below.
    pub(crate) has_rules: bool,
    /// Whether there is a default here or below.
    pub(crate) has_defaults: bool,
    /// Whether there is an embedded object here or below.
    pub(crate) has_embedded: bool,
}

/// What a value must satisfy besides its type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) values: Vec<Value>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) format: Option<String>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) minimum: Option<f64>,
    pub(crate) maximum: Option<f64>,
}

/// A pattern with its text for messages.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    pub(crate) regex: Regex,
}

impl Default for Schema {
    fn default() -> Self {
        Self {
            of: Type::Any,
            nullable: false,
            preserve_unknown: true,
            embedded: false,
            properties: BTreeMap::new(),
            additional: None,
            items: None,
            required: Vec::new(),
            default: None,
            limits: Limits::default(),
            list: ListKind::Atomic,
            atomic_map: false,
            any_of: false,
            rules: Vec::new(),
            has_rules: false,
            has_defaults: false,
            has_embedded: false,
        }
    }
}

impl Schema {
    /// Reads the `openAPIV3Schema` of one version of a `CustomResourceDefinition`, and adds apiVersion, kind and metadata.
    #[must_use]
    pub fn of_custom_resource(openapi: &Value) -> Self {
        let mut root = Self::parse(openapi);
        root.add_object_fields();
        root
    }

    /// A kind about whose fields nothing is known but metadata: nothing is pruned, defaulted or refused.
    #[must_use]
    pub fn untyped() -> Self {
        Self::of_custom_resource(&json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}))
    }

    fn parse(openapi: &Value) -> Self {
        let flag = |name: &str| openapi.get(name).and_then(Value::as_bool).unwrap_or(false);
        let int_or_string = flag("x-kubernetes-int-or-string");
        let of = match openapi.get("type").and_then(Value::as_str) {
            _ if int_or_string => Type::IntOrString,
            Some("object") => Type::Object,
            Some("array") => Type::Array,
            Some("string") => Type::String,
            Some("integer") => Type::Integer,
            Some("number") => Type::Number,
            Some("boolean") => Type::Boolean,
            _ => Type::Any,
        };
        let properties = openapi.get("properties").and_then(Value::as_object);
        let properties: BTreeMap<String, Self> = properties
            .into_iter()
            .flatten()
            .map(|(name, schema)| (name.clone(), Self::parse(schema)))
            .collect();
        let additional = openapi.get("additionalProperties");
        let anything = additional.is_some_and(|schema| schema.as_bool() == Some(true));
        let mut schema = Self {
            of,
            nullable: flag("nullable"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields") || anything || of == Type::Any,
            embedded: flag("x-kubernetes-embedded-resource"),
            properties,
            additional: additional
                .filter(|schema| schema.is_object())
                .map(|schema| Box::new(Self::parse(schema))),
            items: openapi.get("items").map(|schema| Box::new(Self::parse(schema))),
            required: texts(openapi.get("required")),
            default: openapi.get("default").cloned(),
            limits: Limits::parse(openapi),
            list: ListKind::parse(openapi),
            atomic_map: openapi.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
            any_of: openapi.get("anyOf").is_some(),
            rules: rules::Rule::parse_all(openapi),
            has_rules: false,
            has_defaults: false,
            has_embedded: false,
        };
        let below = || {
            schema
                .properties
                .values()
                .chain(schema.additional.as_deref())
                .chain(schema.items.as_deref())
        };
        let has_rules = !schema.rules.is_empty() || below().any(|schema| schema.has_rules);
        let has_defaults = schema.default.is_some() || below().any(|schema| schema.has_defaults);
        let has_embedded = schema.embedded || below().any(|schema| schema.has_embedded);
        (schema.has_rules, schema.has_defaults, schema.has_embedded) =
            (has_rules, has_defaults, has_embedded);
        if schema.embedded {
            schema.add_object_fields();
        }
        schema
    }

    /// Adds the fields that every object of Kubernetes has.
    fn add_object_fields(&mut self) {
        let text = || Self {
            of: Type::String,
            ..Self::default()
        };
        self.properties
            .entry("apiVersion".to_owned())
            .or_insert_with(text);
        self.properties.entry("kind".to_owned()).or_insert_with(text);
        self.properties.insert("metadata".to_owned(), Self::metadata());
    }

    /// The metadata of an object.
    fn metadata() -> Self {
        let text = || json!({"type": "string"});
        let texts = || json!({"type": "object", "additionalProperties": {"type": "string"}});
        let number = || json!({"type": "integer"});
        let owner = json!({
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {
                "apiVersion": text(), "kind": text(), "name": text(), "uid": text(),
                "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"},
            },
        });
        let entry = json!({
            "type": "object",
            "properties": {
                "apiVersion": text(), "fieldsType": text(), "manager": text(), "operation": text(), "subresource": text(),
                "time": text(), "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            },
        });
        Self::parse(&json!({
            "type": "object",
            "properties": {
                "name": text(), "generateName": text(), "namespace": text(), "selfLink": text(), "uid": text(),
                "resourceVersion": text(), "generation": number(), "creationTimestamp": text(), "deletionTimestamp": text(),
                "deletionGracePeriodSeconds": number(), "labels": texts(), "annotations": texts(),
                "finalizers": {"type": "array", "items": text(), "x-kubernetes-list-type": "set"},
                "ownerReferences": {
                    "type": "array", "items": owner, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
                },
                "managedFields": {"type": "array", "items": entry},
            },
        }))
    }

    /// The schema of a field: the declared one, else the one of all values of a map.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(self.additional.as_deref())
    }
}

impl Limits {
    fn parse(openapi: &Value) -> Self {
        let count = |name: &str| openapi.get(name).and_then(Value::as_u64);
        let number = |name: &str| openapi.get(name).and_then(Value::as_f64);
        let pattern = openapi.get("pattern").and_then(Value::as_str);
        Self {
            values: openapi
                .get("enum")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default(),
            pattern: pattern.and_then(|text| {
                let regex = Regex::new(text).ok()?;
                Some(Pattern {
                    text: text.to_owned(),
                    regex,
                })
            }),
            format: openapi.get("format").and_then(Value::as_str).map(str::to_owned),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            minimum: number("minimum"),
            maximum: number("maximum"),
        }
    }
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}
