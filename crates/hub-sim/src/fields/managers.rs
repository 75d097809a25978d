//! The managers of an object, and how updates and applies change what they own.

use serde_json::{Value, json};

use super::merge::{merge, remove};
use super::set::FieldSet;
use crate::schema::Typing;

/// How a manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Every other write.
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// A manager and its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manager {
    /// The name that the writer gave.
    pub name: Box<str>,
    /// How it writes.
    pub operation: Operation,
    /// Whether it wrote through the status subresource.
    pub status: bool,
    /// The apiVersion of its last write.
    pub api_version: Box<str>,
    /// When it changed its fields last, as in metadata.
    pub time: Box<str>,
    /// What it owns.
    pub fields: FieldSet,
}

impl Manager {
    fn is(&self, other: &Self) -> bool {
        self.name == other.name && self.operation == other.operation && self.status == other.status
    }

    fn to_json(&self) -> Value {
        let mut entry = json!({
            "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.to_fields_v1(),
            "manager": self.name,
            "operation": self.operation.name(),
            "time": self.time,
        });
        if let (true, Some(entry)) = (self.status, entry.as_object_mut()) {
            entry.insert("subresource".to_owned(), "status".into());
        }
        entry
    }
}

/// A field that another manager owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager, as in the message: `"name"` or `"name" using example.com/v1`.
    pub manager: String,
    /// The field, such as `.spec.paused`.
    pub field: String,
}

/// The managers of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers(Vec<Manager>);

impl Managers {
    /// The managers, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Manager> {
        self.0.iter()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Only this manager, which created the object.
    #[must_use]
    pub fn created_by(manager: Manager) -> Self {
        Self(if manager.fields.is_empty() {
            Vec::new()
        } else {
            vec![manager]
        })
    }

    /// The value of `metadata.managedFields`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        self.0.iter().map(Manager::to_json).collect()
    }

    /// The managers after `by` changed `live` to `next` by anything but an apply: what changed is owned by it alone, and what is
    /// gone is owned by nobody. The fields of `by` are ignored.
    #[must_use]
    pub fn after_update(&self, live: &Value, next: &Value, mut by: Manager, typing: Typing<'_>) -> Self {
        let (before, after) = (FieldSet::of(live, typing), FieldSet::of(next, typing));
        let changed = after.differing(next, live);
        let touched = changed.union(&before.difference(&after));
        if touched.is_empty() {
            return self.clone();
        }
        let mut managers = self.0.clone();
        let mut mine = FieldSet::default();
        managers.retain_mut(|manager| {
            manager.fields = manager.fields.difference(&touched);
            if manager.is(&by) {
                mine = std::mem::take(&mut manager.fields);
            }
            !manager.fields.is_empty()
        });
        by.fields = mine.union(&changed);
        if !by.fields.is_empty() {
            managers.push(by);
        }
        Self(managers)
    }

    /// Applies a configuration by `by`, whose fields are those of the configuration. Returns the new object and managers.
    ///
    /// # Errors
    /// Another manager owns a field with another value, and `force` is off.
    pub fn apply(
        &self,
        live: &Value,
        config: &Value,
        by: Manager,
        force: bool,
        typing: Typing<'_>,
    ) -> Result<(Value, Self), Vec<Conflict>> {
        let changed = by.fields.differing(config, live);
        let others = || self.0.iter().filter(|manager| !manager.is(&by));
        let conflicts: Vec<Conflict> = others()
            .flat_map(|manager| conflicts(manager, &manager.fields.intersection(&changed)))
            .collect();
        if !conflicts.is_empty() && !force {
            return Err(conflicts);
        }
        let mut next = live.clone();
        merge(&mut next, config, typing);
        let mine = self.0.iter().find(|manager| manager.is(&by));
        let dropped = mine
            .map(|manager| manager.fields.difference(&by.fields))
            .unwrap_or_default();
        for path in dropped.iter() {
            let is_owned = by.fields.holds(path) || others().any(|manager| manager.fields.holds(path));
            if !is_owned {
                let has_parent = |parent: &str| others().any(|manager| manager.fields.has(parent));
                remove(&mut next, path, |parent| {
                    by.fields.has(parent) || has_parent(parent)
                });
            }
        }
        let is_unchanged = mine.is_some_and(|manager| manager.fields == by.fields);
        if is_unchanged && next == *live && changed.is_empty() {
            return Ok((next, self.clone()));
        }
        let mut managers: Vec<Manager> = others()
            .map(|manager| Manager {
                fields: manager.fields.difference(&changed),
                ..manager.clone()
            })
            .filter(|manager| !manager.fields.is_empty())
            .collect();
        // The server lists those that apply first.
        let place = managers
            .iter()
            .take_while(|manager| manager.operation == Operation::Apply)
            .count();
        managers.insert(place, by);
        Ok((next, Self(managers)))
    }
}

fn conflicts(manager: &Manager, fields: &FieldSet) -> Vec<Conflict> {
    let name = match (manager.operation, manager.status) {
        (Operation::Apply, false) => format!("\"{}\"", manager.name),
        (Operation::Apply, true) => format!("\"{}\" with subresource \"status\"", manager.name),
        (Operation::Update, false) => format!("\"{}\" using {}", manager.name, manager.api_version),
        (Operation::Update, true) => {
            format!(
                "\"{}\" with subresource \"status\" using {}",
                manager.name, manager.api_version
            )
        }
    };
    let conflict = |field| Conflict {
        manager: name.clone(),
        field,
    };
    fields.readable().into_iter().map(conflict).collect()
}
