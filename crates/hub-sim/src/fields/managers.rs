//! The managers of an object, and how updates and applies change what they own.

use serde_json::{Map, Value, json};

use super::merge::merge;
use super::set::{FieldSet, STEP};
use super::walk::{Comparison, compare, fields_of, with_named_parents, without};
use crate::schema::Typing;

/// How a manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// The subresource through which it wrote; empty for the object itself.
    pub subresource: Box<str>,
    /// The apiVersion of its last write.
    pub api_version: Box<str>,
    /// When it changed the object last, as in metadata. An apply that changes nothing leaves it empty.
    pub time: Option<Box<str>>,
    /// What it owns.
    pub fields: FieldSet,
}

impl Manager {
    /// Whether both are the same manager. Updates through different versions are different managers.
    fn is(&self, other: &Self) -> bool {
        self.name == other.name
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// What the managers of an object are sorted by.
    fn place(&self) -> (Operation, Option<&str>, [&str; 3]) {
        let names = [&*self.name, &*self.api_version, &*self.subresource];
        (self.operation, self.time.as_deref(), names)
    }

    fn to_json(&self) -> Value {
        let mut entry = json!({
            "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.to_fields_v1(),
            "manager": self.name,
            "operation": self.operation.name(),
        });
        if let Some(time) = &self.time {
            entry["time"] = time.as_ref().into();
        }
        if !self.subresource.is_empty() {
            entry["subresource"] = self.subresource.as_ref().into();
        }
        entry
    }

    fn from_json(entry: &Map<String, Value>) -> Result<Self, String> {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        if text("apiVersion").is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        if text("fieldsType") != "FieldsV1" {
            return Err(format!(
                "invalid fieldsType {:?} in managed fields",
                text("fieldsType")
            ));
        }
        let fields = entry.get("fieldsV1").map(FieldSet::from_fields_v1).transpose()?;
        Ok(Self {
            name: text("manager").into(),
            operation,
            subresource: text("subresource").into(),
            api_version: text("apiVersion").into(),
            time: entry.get("time").and_then(Value::as_str).map(Box::from),
            fields: fields.unwrap_or_default(),
        })
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

/// How the managers of one kind change: its merge rules, and the fields that writes to a subresource cannot change.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// The merge rules.
    pub typing: Typing<'a>,
    /// The top-level field that this subresource ignores, if any.
    pub ignored: Option<&'a str>,
}

impl Rules<'_> {
    fn counts(&self, path: &str) -> bool {
        self.ignored.is_none_or(|field| {
            let below = path.strip_prefix("f:").and_then(|path| path.strip_prefix(field));
            below.is_none_or(|rest| !rest.is_empty() && !rest.starts_with(STEP))
        })
    }
}

/// The managers of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers(Vec<Manager>);

impl Managers {
    /// The managers, in the order of the server.
    pub fn iter(&self) -> impl Iterator<Item = &Manager> {
        self.0.iter()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of `metadata.managedFields`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        self.0.iter().map(Manager::to_json).collect()
    }

    /// Reads `metadata.managedFields`.
    ///
    /// # Errors
    /// An entry is malformed; the text says how.
    pub fn from_json(entries: &[Value]) -> Result<Self, String> {
        let mut managers: Vec<Manager> = Vec::new();
        for entry in entries {
            let entry = entry
                .as_object()
                .ok_or("an entry of managedFields is not a map")?;
            let manager = Manager::from_json(entry)?;
            // Of entries of the same manager, the last one counts.
            managers.retain(|have| !have.is(&manager));
            managers.push(manager);
        }
        Ok(Self(managers).sorted())
    }

    /// Whether both own the same, whatever the times.
    #[must_use]
    pub fn same_fields(&self, other: &Self) -> bool {
        let find = |manager: &Manager| other.0.iter().find(|have| have.is(manager));
        self.0.len() == other.0.len()
            && self
                .0
                .iter()
                .all(|manager| find(manager).is_some_and(|have| have.fields == manager.fields))
    }

    /// The managers after `by` changed `live` to `next` by anything but an apply: what changed is owned by it alone, and what is
    /// gone is owned by nobody. The fields of `by` are ignored.
    #[must_use]
    pub fn after_update(&self, live: &Value, next: &Value, mut by: Manager, rules: Rules<'_>) -> Self {
        let comparison = compare(live, next, rules.typing).filter(|path| rules.counts(path));
        let mut managers = self.0.clone();
        take_away(&mut managers, &comparison, |_| true);
        let changed = without_server_fields(&comparison.changed());
        if !changed.is_empty() {
            let mine = managers
                .iter()
                .position(|manager| manager.is(&by))
                .map(|at| managers.swap_remove(at));
            by.fields = mine.map_or_else(|| changed.clone(), |mine| mine.fields.union(&changed));
            managers.push(by);
        }
        Self(managers).sorted()
    }

    /// Applies a configuration by `by`, whose fields are ignored. Returns the new object, unless it is as before, and the
    /// managers.
    ///
    /// # Errors
    /// Another manager owns a field with another value, and `force` is off.
    pub fn apply(
        &self,
        live: &Value,
        config: &Value,
        mut by: Manager,
        force: bool,
        rules: Rules<'_>,
    ) -> Result<(Option<Value>, Self), Vec<Conflict>> {
        let merged = merge(live, config, rules.typing);
        let time = by.time.take();
        by.fields = fields_of(config, rules.typing).filter(|path| rules.counts(path));
        let mut managers = self.0.clone();
        let last = managers
            .iter()
            .position(|manager| manager.is(&by))
            .map(|at| managers.remove(at));
        by.time = last.as_ref().and_then(|last| last.time.clone());
        managers.push(by.clone());
        let next = match last {
            Some(last) if last.fields.iter().any(|path| !by.fields.has(path)) => {
                prune(&merged, &last.fields, &managers, rules.typing)
            }
            _ => merged,
        };
        let comparison = compare(live, &next, rules.typing).filter(|path| rules.counts(path));
        let changed = comparison.changed();
        let others = managers.iter().filter(|manager| !manager.is(&by));
        let conflicts: Vec<Conflict> = others
            .flat_map(|manager| conflicts(manager, &manager.fields.intersection(&changed)))
            .collect();
        if !conflicts.is_empty() && !force {
            return Err(conflicts);
        }
        take_away(&mut managers, &comparison, |manager| !manager.is(&by));
        let is_changed = next != *live;
        for manager in managers.iter_mut().filter(|manager| manager.is(&by)) {
            manager.fields = without_server_fields(&manager.fields);
            if is_changed {
                manager.time.clone_from(&time);
            }
        }
        managers.retain(|manager| !manager.fields.is_empty());
        Ok((is_changed.then_some(next), Self(managers).sorted()))
    }

    fn sorted(mut self) -> Self {
        self.0.sort_by(|one, other| one.place().cmp(&other.place()));
        self
    }
}

/// What others changed or removed is no longer owned by the managers for which `loses` is true.
fn take_away(managers: &mut Vec<Manager>, comparison: &Comparison, loses: impl Fn(&Manager) -> bool) {
    if comparison.is_empty() {
        return;
    }
    let lost = comparison.changed().union(&comparison.removed);
    for manager in managers.iter_mut().filter(|manager| loses(manager)) {
        manager.fields = manager.fields.difference(&lost);
    }
    managers.retain(|manager| !manager.fields.is_empty());
}

/// Fields that the server sets have no owner.
fn without_server_fields(fields: &FieldSet) -> FieldSet {
    const NAMES: [&str; 9] = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let is_metadata = |path: &str| {
        let name = path
            .strip_prefix("f:metadata")
            .and_then(|rest| rest.strip_prefix(STEP))
            .and_then(|rest| rest.strip_prefix("f:"));
        name.is_some_and(|name| NAMES.contains(&name))
    };
    fields.filter(|path| !matches!(path, "f:apiVersion" | "f:kind" | "f:metadata") && !is_metadata(path))
}

/// Removes what a manager applied last time and not this time, unless somebody else owns it.
fn prune(merged: &Value, last: &FieldSet, managers: &[Manager], typing: Typing<'_>) -> Value {
    let named = |set: &FieldSet| with_named_parents(set, typing);
    let last = named(last);
    let all = named(&fields_of(merged, typing));
    let pruned = without(merged, &last, typing);
    let owned = managers
        .iter()
        .fold(FieldSet::default(), |owned, manager| owned.union(&manager.fields));
    let kept = named(&fields_of(&pruned, typing)).union(&named(&owned));
    let pruned = without(merged, &all.difference(&kept), typing);
    // What nobody or only updates own was not applied and stays.
    let kept = named(&fields_of(&pruned, typing));
    without(merged, &all.difference(&kept).intersection(&last), typing)
}

fn conflicts(manager: &Manager, fields: &FieldSet) -> Vec<Conflict> {
    let mut name = format!("\"{}\"", manager.name);
    if !manager.subresource.is_empty() {
        name = format!("{name} with subresource \"{}\"", manager.subresource);
    }
    if manager.operation == Operation::Update {
        name = format!("{name} using {}", manager.api_version);
    }
    let conflict = |field| Conflict {
        manager: name.clone(),
        field,
    };
    fields.readable().into_iter().map(conflict).collect()
}
