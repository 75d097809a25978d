//! Label and field selectors.

mod labels;

use self::labels::Requirement;
use crate::kind::Kind;
use crate::object::Object;

/// What objects a list or watch is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    fields: Vec<FieldRequirement>,
    labels: Vec<Requirement>,
}

/// `metadata.name=a` or `metadata.namespace!=b`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    field: Field,
    value: String,
    is_equal: bool,
}

/// What can be selected by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Name,
    Namespace,
    /// The text at the first of these JSON pointers that is not empty.
    At(&'static [&'static str]),
}

/// The fields that kinds of Kubernetes can be selected by: the kind, the name of the field, and where it is. Those of events are
/// named as in the core group.
const FIELDS: [(&str, &str, &[&str]); 13] = [
    ("Namespace", "status.phase", &["/status/phase"]),
    ("Secret", "type", &["/type"]),
    ("Event", "involvedObject.kind", &["/regarding/kind"]),
    ("Event", "involvedObject.namespace", &["/regarding/namespace"]),
    ("Event", "involvedObject.name", &["/regarding/name"]),
    ("Event", "involvedObject.uid", &["/regarding/uid"]),
    ("Event", "involvedObject.apiVersion", &["/regarding/apiVersion"]),
    (
        "Event",
        "involvedObject.resourceVersion",
        &["/regarding/resourceVersion"],
    ),
    ("Event", "involvedObject.fieldPath", &["/regarding/fieldPath"]),
    ("Event", "reason", &["/reason"]),
    ("Event", "reportingComponent", &["/reportingController"]),
    (
        "Event",
        "source",
        &["/deprecatedSource/component", "/reportingController"],
    ),
    ("Event", "type", &["/type"]),
];

impl Field {
    fn parse(kind: &Kind, is_core: bool, name: &str) -> Result<Self, String> {
        let unsupported = || Err(format!("field label not supported: {name}"));
        // Events of events.k8s.io have other names.
        let field = match (kind.kind.as_str(), name) {
            _ if is_core => name.to_owned(),
            ("Event", "source" | "reportingComponent") => return unsupported(),
            ("Event", "reportingController") => "reportingComponent".to_owned(),
            ("Event", name) => match name.strip_prefix("regarding.") {
                Some(field) => format!("involvedObject.{field}"),
                None if name.starts_with("involvedObject.") => return unsupported(),
                None => name.to_owned(),
            },
            _ => name.to_owned(),
        };
        match field.as_str() {
            "metadata.name" => Ok(Self::Name),
            "metadata.namespace" if kind.namespaced || !(kind.is_custom || kind.is_namespace()) => {
                Ok(Self::Namespace)
            }
            field => match FIELDS
                .iter()
                .find(|(of, known, _)| *of == kind.kind && *known == field)
            {
                Some((_, _, places)) => Ok(Self::At(places)),
                None => unsupported(),
            },
        }
    }
}

impl FieldRequirement {
    fn parse(kind: &Kind, is_core: bool, part: &str) -> Result<Self, String> {
        let (field, value, is_equal) = if let Some((field, value)) = part.split_once("!=") {
            (field, value, false)
        } else if let Some((field, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            (field, value, true)
        } else {
            return Err(format!("invalid selector: '{part}'; can't understand '{part}'"));
        };
        Ok(Self {
            field: Field::parse(kind, is_core, field)?,
            value: value.to_owned(),
            is_equal,
        })
    }

    fn holds(&self, object: &Object) -> bool {
        let is_it = match self.field {
            Field::Name => object.name() == self.value,
            Field::Namespace => object.namespace() == self.value,
            Field::At(places) => {
                let value = object.value();
                let mut texts = places
                    .iter()
                    .filter_map(|place| value.pointer(place).and_then(serde_json::Value::as_str));
                texts.find(|text| !text.is_empty()).unwrap_or_default() == self.value
            }
        };
        is_it == self.is_equal
    }
}

impl Selector {
    /// Reads `labelSelector` and `fieldSelector` for objects of a kind. `is_core` is whether events are named as in the core group.
    ///
    /// # Errors
    /// One of them is malformed, or selects a field that cannot be selected; the text says which.
    pub(crate) fn parse(kind: &Kind, is_core: bool, labels: &str, fields: &str) -> Result<Self, String> {
        let mut selector = Self {
            labels: labels::parse(labels)?,
            ..Self::default()
        };
        for part in fields.split(',').filter(|part| !part.is_empty()) {
            selector
                .fields
                .push(FieldRequirement::parse(kind, is_core, part)?);
        }
        Ok(selector)
    }

    /// Whether only one name is selected. Lists of it have one page.
    #[must_use]
    pub fn is_one_name(&self) -> bool {
        self.fields
            .iter()
            .any(|requirement| requirement.field == Field::Name && requirement.is_equal)
    }

    /// Whether everything is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Whether an object is selected.
    #[must_use]
    pub fn matches(&self, object: &Object) -> bool {
        self.fields.iter().all(|requirement| requirement.holds(object))
            && self.labels.iter().all(|requirement| requirement.holds(object))
    }
}
