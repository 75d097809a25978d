//! The directories of `--save` and `--from`: one file per kind, a file about the directory, and the durations.
//!
//! A saved object keeps only what planning reads, and no action of other upgrades.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use api::maintenance::may_tell_zone;
use api::names::{CLAIM_CONTROL_PLANE_TOPOLOGY, CLAIM_ID, CLAIM_PRODUCT, CLAIM_VERSION};
use chrono::{DateTime, Datelike, Utc};
use resolve::lists::{HubLists, ListKind, ListedPage};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use crate::failure::Failure;

/// The file about the directory.
const ABOUT: &str = "rehearsal.json";
/// The file with the durations.
const DURATIONS: &str = "durations.yaml";
/// Largest size of a list in bytes. That of 10,000 clusters and their works has some tens of millions.
const MAX_LIST: u64 = 1 << 30;
/// Largest size of any other file in bytes.
pub const MAX_FILE: u64 = 16 << 20;
/// The fields of an upgrade that contain its actions.
const ACTIONS: [&str; 2] = ["preUpgradeAction", "postUpgradeAction"];

/// What a directory says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct About {
    /// When the hub was read.
    #[serde(deserialize_with = "read_at")]
    pub read_at: DateTime<Utc>,
    /// Namespace of the upgrade that was rehearsed.
    #[serde(deserialize_with = "namespace")]
    pub namespace: String,
    /// `namespace/name` of upgrades whose actions were left out.
    #[serde(default)]
    pub without_actions: BTreeSet<String>,
}

fn read_at<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DateTime<Utc>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let time = text.parse::<DateTime<Utc>>().ok();
    let time = time.filter(|time| (2000..2200).contains(&time.year()));
    time.ok_or_else(|| {
        serde::de::Error::custom(format!(
            "readAt must be a time of the years 2000 to 2199, such as 2026-05-28T10:15:00Z, and not {text:?}"
        ))
    })
}

fn namespace<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() || api::validate::is_subdomain(&text) {
        return Ok(text);
    }
    let error = format!("{text:?} is not a namespace");
    Err(serde::de::Error::custom(error))
}

/// The kinds that a file names.
#[derive(Deserialize)]
struct Kinds {
    kind: Option<String>,
    #[serde(default)]
    items: Vec<ItemKind>,
}

#[derive(Deserialize)]
struct ItemKind {
    kind: Option<String>,
}

impl Kinds {
    /// Checks that a file is a list of this kind. A saved object names no kind.
    fn check(text: &str, kind: ListKind) -> Result<(), String> {
        // Objects are read one by one later, so an item that is no object is no error here.
        let Ok(kinds) = serde_json::from_str::<Kinds>(text) else {
            return Ok(());
        };
        let (object, list) = (kind.kind(), format!("{}List", kind.kind()));
        let found = kinds.kind.filter(|found| *found != list && found != "List");
        let mut items = kinds.items.into_iter().filter_map(|item| item.kind);
        match (found, items.find(|found| **found != *object)) {
            (Some(found), _) => Err(format!("its kind is {found:?} instead of {list} or List")),
            (None, Some(found)) => Err(format!("it contains a {found:?} instead of only {object}")),
            (None, None) => Ok(()),
        }
    }
}

/// What was read from a hub: the pages of each list, as JSON.
#[derive(Debug, Default)]
pub struct Pages(Vec<(ListKind, String)>);

impl Pages {
    /// Adds a page.
    pub fn push(&mut self, kind: ListKind, page: String) {
        self.0.push((kind, page));
    }

    /// The objects.
    ///
    /// # Errors
    /// A page is not a list.
    pub fn lists(&self) -> Result<HubLists, Failure> {
        let mut lists = HubLists::default();
        for (kind, text) in &self.0 {
            let page = ListedPage::read(text).map_err(|error| {
                Failure::Other(format!("the list of {} cannot be read: {error}", kind.plural()))
            })?;
            lists.add(*kind, &page);
        }
        Ok(lists)
    }

    /// The object of an upgrade as JSON.
    #[must_use]
    pub fn upgrade(&self, namespace: &str, name: &str) -> Option<Value> {
        let pages = self.0.iter().filter(|(kind, _)| *kind == ListKind::Upgrades);
        let mut pages = pages.filter_map(|(_, text)| ListedPage::read(text).ok());
        pages.find_map(|page| {
            page.items().find_map(|item| {
                let object: Value = serde_json::from_str(item).ok()?;
                let meta = &object["metadata"];
                (meta["namespace"] == namespace && meta["name"] == name).then_some(object)
            })
        })
    }
}

/// Reads a directory.
///
/// # Errors
/// A file is missing or cannot be read.
pub fn load(directory: &Path) -> Result<(About, Pages), Failure> {
    let about: About = serde_json::from_str(&read(directory, ABOUT, MAX_FILE)?)
        .map_err(|error| broken(directory, ABOUT, &error.to_string()))?;
    let mut pages = Pages::default();
    for kind in ListKind::ALL {
        let file = file_of(kind);
        let text = read(directory, &file, MAX_LIST)?;
        let checked = ListedPage::read(&text).and_then(|_| Kinds::check(&text, kind));
        checked.map_err(|error| broken(directory, &file, &error))?;
        pages.push(kind, text);
    }
    Ok((about, pages))
}

/// Checks that a directory can be written: it does not exist yet, or it is empty.
///
/// # Errors
/// The directory has files, or cannot be read.
pub fn check_target(directory: &Path) -> Result<(), Failure> {
    match std::fs::read_dir(directory) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(Failure::Other(format!(
                "{}: the directory is not empty; choose another one",
                directory.display()
            ))),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::Other(format!("{}: {error}", directory.display()))),
    }
}

/// Writes a directory. The actions of all upgrades but `kept` (namespace and name) are left out. Returns the number of objects
/// that could not be reduced and were left out.
///
/// # Errors
/// A file cannot be written.
pub fn save(
    directory: &Path,
    pages: &Pages,
    read_at: DateTime<Utc>,
    kept: (&str, &str),
    durations: &str,
) -> Result<usize, Failure> {
    std::fs::create_dir_all(directory)
        .map_err(|error| Failure::Other(format!("{}: {error}", directory.display())))?;
    let mut about = About {
        read_at,
        namespace: kept.0.to_owned(),
        without_actions: BTreeSet::new(),
    };
    let mut left_out = 0;
    for kind in ListKind::ALL {
        let mut items = Vec::new();
        for (_, text) in pages.0.iter().filter(|(of, _)| *of == kind) {
            let page = ListedPage::read(text);
            for item in page.iter().flat_map(ListedPage::items) {
                match serde_json::from_str::<Value>(item) {
                    Ok(object) => items.push(reduced(kind, &object, kept, &mut about)),
                    Err(_) => left_out += 1,
                }
            }
        }
        let list = json!({"kind": "List", "apiVersion": "v1", "items": items});
        write(directory, &file_of(kind), &format!("{list:#}\n"))?;
    }
    let about = serde_json::to_value(&about).unwrap_or_default();
    write(directory, ABOUT, &format!("{about:#}\n"))?;
    write(directory, DURATIONS, durations)?;
    Ok(left_out)
}

fn file_of(kind: ListKind) -> String {
    format!("{}.json", kind.plural())
}

/// Reads a file of at most `most` bytes.
///
/// # Errors
/// The file is larger, is no text, or cannot be read.
pub fn read_file(file: &Path, most: u64) -> Result<String, String> {
    let opened = std::fs::File::open(file).map_err(|error| error.to_string())?;
    if opened.metadata().is_ok_and(|metadata| metadata.len() > most) {
        return Err(too_large(most));
    }
    read_text(opened, most)
}

/// Reads a text of at most `most` bytes. A device such as `/dev/zero` says no size and never ends.
///
/// # Errors
/// The text is longer, is not UTF-8, or cannot be read.
pub fn read_text(source: impl Read, most: u64) -> Result<String, String> {
    let mut text = String::new();
    let read = source.take(most + 1).read_to_string(&mut text);
    let read = read.map_err(|error| error.to_string())?;
    if u64::try_from(read).is_ok_and(|read| read > most) {
        return Err(too_large(most));
    }
    Ok(text)
}

fn too_large(most: u64) -> String {
    format!("the file is larger than {} MiB", most >> 20)
}

fn read(directory: &Path, file: &str, most: u64) -> Result<String, Failure> {
    read_file(&directory.join(file), most).map_err(|error| {
        Failure::Other(format!(
            "{}: {error}; give a directory that kubectl mcu rehearse --save has written",
            directory.join(file).display()
        ))
    })
}

fn broken(directory: &Path, file: &str, error: &str) -> Failure {
    let file = directory.join(file);
    Failure::Other(format!("{} cannot be read: {error}", file.display()))
}

fn write(directory: &Path, file: &str, text: &str) -> Result<(), Failure> {
    let file = directory.join(file);
    std::fs::write(&file, text).map_err(|error| Failure::Other(format!("{}: {error}", file.display())))
}

/// What planning reads of an object.
fn reduced(kind: ListKind, object: &Value, kept: (&str, &str), about: &mut About) -> Value {
    let mut fields = Map::new();
    let mut keep = |key: &str, value: Value| {
        if !value.is_null() {
            fields.insert(key.to_owned(), value);
        }
    };
    keep("metadata", metadata(&object["metadata"]));
    match kind {
        ListKind::Clusters => {
            keep("spec", of_fields(&object["spec"], &["hubAcceptsClient"]));
            keep("status", cluster_status(&object["status"]));
        }
        // The spec of a work may contain anything, and planning does not read it.
        ListKind::Works => keep("status", object["status"].clone()),
        ListKind::Upgrades => {
            keep("spec", upgrade_spec(object, kept, about));
            keep("status", object["status"].clone());
        }
        ListKind::Reports => keep("rows", object["rows"].clone()),
        ListKind::Sets | ListKind::Bindings | ListKind::Placements | ListKind::Decisions => {
            keep("spec", object["spec"].clone());
            keep("status", object["status"].clone());
        }
    }
    Value::Object(fields)
}

fn metadata(metadata: &Value) -> Value {
    const FIELDS: [&str; 10] = [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "labels",
        "ownerReferences",
        "finalizers",
    ];
    let mut kept = of_fields(metadata, &FIELDS);
    let annotations = metadata["annotations"].as_object();
    let ours: Map<String, Value> = annotations
        .into_iter()
        .flatten()
        .filter(|(key, _)| key.starts_with(api::GROUP) || may_tell_zone(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if let Some(fields) = kept.as_object_mut()
        && !ours.is_empty()
    {
        fields.insert("annotations".to_owned(), Value::Object(ours));
    }
    kept
}

/// These fields of an object. A value that is no object stays as it is, so that it is judged in the same way.
fn of_fields(value: &Value, fields: &[&str]) -> Value {
    let Some(object) = value.as_object() else {
        return value.clone();
    };
    let kept = object.iter().filter(|(key, _)| fields.contains(&key.as_str()));
    Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
}

fn cluster_status(status: &Value) -> Value {
    let mut kept = of_fields(status, &["conditions", "clusterClaims"]);
    let only = |list: Option<&mut Value>, key: &str, is_read: fn(&str) -> bool| {
        if let Some(Value::Array(items)) = list {
            items.retain(|item| item[key].as_str().is_none_or(is_read));
        }
    };
    only(kept.get_mut("conditions"), "type", |name| {
        name == "ManagedClusterConditionAvailable"
    });
    only(kept.get_mut("clusterClaims"), "name", |name| {
        let read = [
            CLAIM_CONTROL_PLANE_TOPOLOGY,
            CLAIM_ID,
            CLAIM_PRODUCT,
            CLAIM_VERSION,
        ];
        read.contains(&name) || may_tell_zone(name)
    });
    kept
}

fn upgrade_spec(object: &Value, kept: (&str, &str), about: &mut About) -> Value {
    let mut spec = object["spec"].clone();
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text("namespace"), text("name"));
    if (namespace.as_str(), name.as_str()) == kept {
        return spec;
    }
    if let Some(fields) = spec.as_object_mut() {
        let removed = ACTIONS.map(|action| fields.remove(action).is_some_and(|action| !action.is_null()));
        if removed.contains(&true) {
            about.without_actions.insert(format!("{namespace}/{name}"));
        }
    }
    spec
}

#[cfg(test)]
mod tests;
