//! The forms in which objects are sent: whole, as metadata, or as a table for `kubectl get`.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{events, table};
use crate::hub::Hub;
use crate::json;
use crate::object::Object;
use crate::state::KindId;

/// How objects are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As they are.
    Whole,
    /// Type and metadata (`as=PartialObjectMetadata`).
    Metadata,
    /// As rows (`as=Table`).
    Table,
    /// As events of the core group instead of those of events.k8s.io.
    CoreEvent,
}

impl Form {
    /// The form that an Accept header asks for.
    pub(super) fn of(accept: &str, is_core_event: bool) -> Self {
        for part in accept.split(',') {
            if part.contains("as=Table") {
                return Self::Table;
            }
            if part.contains("as=PartialObjectMetadata") {
                return Self::Metadata;
            }
        }
        if is_core_event {
            Self::CoreEvent
        } else {
            Self::Whole
        }
    }

    /// One object.
    pub(super) fn one(self, hub: &Hub, id: KindId, object: &Object) -> String {
        let managed_fields = hub.options().managed_fields;
        match self {
            Self::Whole => {
                let mut text = String::new();
                object.write(&mut text, managed_fields);
                text
            }
            Self::Metadata => {
                let mut text = String::from(
                    "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{",
                );
                object.write_metadata(&mut text, managed_fields);
                text.push_str("}}");
                text
            }
            Self::Table => {
                let columns = hub.read(|state| table::columns(&state.collection(id).kind));
                table::table(
                    &columns,
                    &[object],
                    &json!({"resourceVersion": object.revision.to_string()}),
                    managed_fields,
                    hub.now(),
                )
                .to_string()
            }
            Self::CoreEvent => events::to_core(&object.full_value()).to_string(),
        }
    }

    /// A list.
    pub(super) fn list(self, hub: &Hub, id: KindId, objects: &[&Object], metadata: &Value) -> String {
        let (kind, version, columns, is_custom) = hub.read(|state| {
            let kind = &state.collection(id).kind;
            (
                kind.kind.clone(),
                kind.api_version(),
                table::columns(kind),
                kind.is_custom,
            )
        });
        let metadata = match metadata.get("continue").and_then(Value::as_str) {
            // Only lists of custom resources, as they are, name an empty token.
            Some("") if self != Self::Whole => &json!({"resourceVersion": metadata["resourceVersion"]}),
            _ => metadata,
        };
        if self == Self::Metadata && objects.is_empty() {
            return json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": null})
                .to_string();
        }
        if self == Self::Table {
            return table::table(
                &columns,
                objects,
                metadata,
                hub.options().managed_fields,
                hub.now(),
            )
            .to_string();
        }
        let (list, version) = match self {
            Self::Metadata => (
                "PartialObjectMetadataList".to_owned(),
                "meta.k8s.io/v1".to_owned(),
            ),
            Self::CoreEvent => ("EventList".to_owned(), "v1".to_owned()),
            _ => (format!("{kind}List"), version),
        };
        let mut text = String::with_capacity(
            objects
                .iter()
                .map(|object| object.text().len() + 1)
                .sum::<usize>()
                + 200,
        );
        let _ = write!(
            text,
            "{{\"kind\":\"{list}\",\"apiVersion\":\"{version}\",\"metadata\":{metadata},\"items\":["
        );
        for (number, object) in objects.iter().enumerate() {
            if number > 0 {
                text.push(',');
            }
            if self == Self::Whole && is_custom {
                object.write(&mut text, hub.options().managed_fields);
            } else if self == Self::Whole {
                // Items of kinds of Kubernetes do not repeat the kind of the list.
                let mut value = if hub.options().managed_fields {
                    object.full_value()
                } else {
                    Value::clone(&object.value())
                };
                if let Some(value) = value.as_object_mut() {
                    value.remove("apiVersion");
                    value.remove("kind");
                }
                text.push_str(&json::text_of(&value));
            } else {
                text.push_str(&self.one(hub, id, object));
            }
        }
        text.push_str("]}");
        text
    }
}
