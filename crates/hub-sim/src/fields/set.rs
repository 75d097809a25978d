//! Sets of field paths, as in `managedFields`.

use std::sync::Arc;

use serde_json::{Map, Value};

/// Separates the steps of a path. Steps are `f:<field>`, `k:<key object>` and `v:<scalar>` as in `managedFields`.
pub(super) const STEP: char = '\u{1}';
pub(super) const STEP_TEXT: &str = "\u{1}";

/// A set of field paths, sorted. A map or an item of a list can itself be a member, beside the fields below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(Arc<[Arc<str>]>);

impl FromIterator<Arc<str>> for FieldSet {
    fn from_iter<I: IntoIterator<Item = Arc<str>>>(paths: I) -> Self {
        let mut paths: Vec<_> = paths.into_iter().collect();
        paths.sort_unstable();
        paths.dedup();
        Self(paths.into())
    }
}

impl FieldSet {
    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The paths in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// Whether the path itself is in the set.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        self.0.binary_search_by(|have| have.as_ref().cmp(path)).is_ok()
    }

    /// Whether anything below the path is in the set.
    #[must_use]
    pub fn has_below(&self, path: &str) -> bool {
        let at = self.0.partition_point(|have| have.as_ref() <= path);
        self.0[at..]
            .iter()
            .take_while(|have| have.starts_with(path))
            .any(|have| have[path.len()..].starts_with(STEP))
    }

    /// Paths in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.filter(|path| other.has(path))
    }

    /// Paths of `self` that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        self.filter(|path| !other.has(path))
    }

    /// Paths in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if other.is_subset(self) {
            return self.clone();
        }
        if self.is_empty() {
            return other.clone();
        }
        self.0.iter().chain(other.0.iter()).cloned().collect()
    }

    /// Whether every path is in the other set.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.iter().all(|path| other.has(path))
    }

    /// The paths for which `keep` is true.
    #[must_use]
    pub fn filter(&self, keep: impl Fn(&str) -> bool) -> Self {
        if self.iter().all(&keep) {
            return self.clone();
        }
        Self(self.0.iter().filter(|path| keep(path)).cloned().collect())
    }

    /// The paths as the API server prints and orders them: `.spec.containers[name="web"].image`. The members of a map come
    /// before what is below its other fields.
    #[must_use]
    pub fn readable(&self) -> Vec<String> {
        let mut paths: Vec<Vec<(bool, &str)>> = self
            .iter()
            .map(|path| {
                let steps: Vec<&str> = path.split(STEP).collect();
                let last = steps.len() - 1;
                steps
                    .into_iter()
                    .enumerate()
                    .map(|(at, step)| (at < last, step))
                    .collect()
            })
            .collect();
        paths.sort_unstable();
        let print = |path: Vec<(bool, &str)>| path.into_iter().map(|(_, step)| readable_step(step)).collect();
        paths.into_iter().map(print).collect()
    }

    /// The paths as `fieldsV1` of `managedFields`.
    #[must_use]
    pub fn to_fields_v1(&self) -> Value {
        let mut root = Map::new();
        // A path is before everything below it, so a member that has something below it is found when that comes.
        for path in self.iter() {
            let (mut at, mut from) = (&mut root, 0);
            for step in path.split(STEP) {
                let end = from + step.len();
                let is_member = end < path.len() && self.has(&path[..end]);
                let child = at
                    .entry(step.to_owned())
                    .or_insert_with(|| Value::Object(Map::new()));
                let Value::Object(map) = child else { break };
                if is_member {
                    map.insert(".".to_owned(), Value::Object(Map::new()));
                }
                (at, from) = (map, end + STEP.len_utf8());
            }
        }
        Value::Object(root)
    }

    /// Reads `fieldsV1` of `managedFields`.
    ///
    /// # Errors
    /// It is malformed.
    pub fn from_fields_v1(fields: &Value) -> Result<Self, String> {
        let mut paths = Vec::new();
        read(fields, "", &mut paths)?;
        Ok(paths.into_iter().collect())
    }
}

fn read(fields: &Value, path: &str, out: &mut Vec<Arc<str>>) -> Result<(), String> {
    let map = fields
        .as_object()
        .ok_or("the fields of a manager are not a map")?;
    for (step, below) in map {
        if step == "." {
            if !path.is_empty() {
                out.push(path.into());
            }
            continue;
        }
        match step.split_once(':') {
            Some(("f", _)) => {}
            Some(("k" | "v", value)) => {
                serde_json::from_str::<Value>(value).map_err(|error| error.to_string())?;
            }
            _ => return Err(format!("missing colon in path element {step:?}")),
        }
        let path = if path.is_empty() {
            step.clone()
        } else {
            format!("{path}{STEP}{step}")
        };
        if below.as_object().is_some_and(Map::is_empty) {
            out.push(path.into());
        } else {
            read(below, &path, out)?;
        }
    }
    Ok(())
}

fn readable_step(step: &str) -> String {
    match step.split_at(2) {
        ("k:", key) => {
            let keys: Map<String, Value> = serde_json::from_str(key).unwrap_or_default();
            let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("[{}]", keys.join(","))
        }
        ("v:", value) => format!("[={value}]"),
        (_, field) => format!(".{field}"),
    }
}
