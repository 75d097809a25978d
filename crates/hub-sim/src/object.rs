//! A stored object: its text, and what the hub looks at without parsing it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::fields::Managers;
use crate::json;

/// Where an object is within its kind: `namespace/name`, or `name` of a kind without namespaces. Lists are in this order.
pub type Key = Arc<str>;

/// The key of an object.
#[must_use]
pub fn key(namespace: &str, name: &str) -> Key {
    if namespace.is_empty() {
        Arc::from(name)
    } else {
        Arc::from(format!("{namespace}/{name}"))
    }
}

/// How an object is stored otherwise than it is seen. The next write stores it again even if it changes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unseen {
    /// With empty or null metadata, as the server does with what is applied.
    pub is_untidy: bool,
    /// Without its status, which has a default.
    pub lacks_status: bool,
}

/// A stored object.
#[derive(Debug)]
pub struct Object {
    /// Its place within its kind.
    pub key: Key,
    /// The revision of its last write.
    pub revision: u64,
    /// Its identity.
    pub uid: Box<str>,
    /// Its labels.
    pub labels: Vec<(Box<str>, Box<str>)>,
    /// The uids of its owners.
    pub owners: Vec<Box<str>>,
    /// Whether its deletion was requested.
    pub is_deleting: bool,
    /// Whether finalizers hold it.
    pub is_held: bool,
    /// Who owns which field.
    pub managers: Managers,
    /// How it is stored otherwise than it is seen.
    pub(crate) unseen: Unseen,
    /// The text as a value, while the hub remembers it.
    value: Mutex<Option<Arc<Value>>>,
    text: Box<str>,
    /// Where the fields of metadata begin, and `managedFields` is inserted.
    metadata_at: usize,
    /// Where they end.
    metadata_end: usize,
}

impl Object {
    /// Stores a value, whose `metadata` is complete but for `resourceVersion` and `managedFields`. One that is not really stored
    /// has revision 0, which is not shown.
    pub(crate) fn new(key: Key, mut value: Value, managers: Managers, revision: u64) -> Self {
        if let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.remove("managedFields");
            meta.remove("resourceVersion");
            if revision > 0 {
                meta.insert("resourceVersion".to_owned(), revision.to_string().into());
            }
        }
        let meta = |name: &str| value.get("metadata").and_then(|meta| meta.get(name));
        let text_of = |name: &str| meta(name).and_then(Value::as_str).unwrap_or_default();
        let labels = meta("labels").and_then(Value::as_object);
        let labels = labels
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.as_str().into(), value.as_str()?.into())));
        let owners = meta("ownerReferences").and_then(Value::as_array);
        let owners = owners
            .into_iter()
            .flatten()
            .filter_map(|owner| Some(owner.get("uid")?.as_str()?.into()));
        let finalizers = meta("finalizers").and_then(Value::as_array);
        let (text, metadata_at, metadata_end) = render(&value);
        Self {
            key,
            revision,
            uid: text_of("uid").into(),
            labels: labels.collect(),
            owners: owners.collect(),
            is_deleting: !text_of("deletionTimestamp").is_empty(),
            is_held: finalizers.is_some_and(|finalizers| !finalizers.is_empty()),
            managers,
            unseen: Unseen::default(),
            value: Mutex::new(Some(Arc::new(value))),
            text: text.into_boxed_str(),
            metadata_at,
            metadata_end,
        }
    }

    /// The object without `managedFields`.
    #[must_use]
    pub fn value(&self) -> Arc<Value> {
        let known = self.known_value().clone();
        known.unwrap_or_else(|| Arc::new(json::stored(&self.text)))
    }

    fn known_value(&self) -> MutexGuard<'_, Option<Arc<Value>>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps only the text, which is several times smaller than the value.
    pub(crate) fn forget_value(&self) {
        *self.known_value() = None;
    }

    /// The JSON of the object without `managedFields`.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Appends the JSON of the object, with `managedFields` if they are wanted.
    pub(crate) fn write(&self, out: &mut String, managed_fields: bool) {
        if !managed_fields || self.managers.is_empty() {
            out.push_str(&self.text);
            return;
        }
        let (before, after) = self.text.split_at(self.metadata_at);
        out.push_str(before);
        self.write_managers(out);
        out.push_str(after);
    }

    /// Appends the fields of `metadata` without the braces around them.
    pub(crate) fn write_metadata(&self, out: &mut String, managed_fields: bool) {
        if managed_fields && !self.managers.is_empty() {
            self.write_managers(out);
        }
        out.push_str(
            self.text
                .get(self.metadata_at..self.metadata_end)
                .unwrap_or_default(),
        );
    }

    /// Appends `managedFields`, before the other fields of metadata.
    fn write_managers(&self, out: &mut String) {
        out.push_str("\"managedFields\":");
        out.push_str(&self.managers.to_json().to_string());
        if self.metadata_at < self.metadata_end {
            out.push(',');
        }
    }

    /// The object with its `managedFields`.
    #[must_use]
    pub fn full_value(&self) -> Value {
        let mut value = Value::clone(&self.value());
        if !self.managers.is_empty()
            && let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut)
        {
            meta.insert("managedFields".to_owned(), self.managers.to_json());
        }
        value
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.rsplit_once('/').map_or(&self.key, |(_, name)| name)
    }

    /// Its namespace; empty if its kind has none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.key.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(have, _)| have.as_ref() == name);
        found.map(|(_, value)| value.as_ref())
    }
}

/// The JSON of an object, and where the fields of its metadata begin and end, within the braces.
fn render(value: &Value) -> (String, usize, usize) {
    let (mut text, mut at, mut end) = (Vec::with_capacity(2048), 0, 0);
    text.push(b'{');
    for (name, value) in value.as_object().into_iter().flatten() {
        if text.len() > 1 {
            text.push(b',');
        }
        // Neither a text nor a value that was read can fail.
        let _ = serde_json::to_writer(&mut text, name);
        text.push(b':');
        if name == "metadata" {
            at = text.len() + 1;
        }
        let start = text.len();
        let _ = serde_json::to_writer(&mut text, value);
        json::restore(&mut text, start);
        if name == "metadata" {
            end = text.len() - 1;
        }
    }
    text.push(b'}');
    (String::from_utf8(text).unwrap_or_default(), at, end)
}
