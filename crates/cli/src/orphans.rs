//! Finds ManifestWorks that have the UID of an upgrade that no longer exists.

use api::names::{ANNOTATION_OWNER, LABEL_MCU_UID, Step};
use api::time::parse_rfc3339;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

/// The identity of an upgrade that exists.
#[derive(Clone, Debug, Default)]
pub struct Name {
    /// Its UID.
    pub uid: String,
    /// `namespace/name`.
    pub key: String,
}

/// A ManifestWork whose upgrade no longer exists.
#[derive(Clone, Debug)]
pub struct Orphan {
    /// Its metadata as JSON, with its type.
    pub object: Value,
    /// The cluster's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `namespace/name` of the upgrade, from the annotation of the work; may be empty.
    pub owner: String,
    /// UID of that upgrade.
    pub upgrade: String,
    /// UID of the work.
    pub uid: String,
    /// When it was created.
    pub created: Option<DateTime<Utc>>,
    /// The work is being deleted.
    pub terminating: bool,
    /// Another upgrade now has the name of the old one.
    pub renewed: bool,
}

impl Orphan {
    /// What will happen to the work.
    #[must_use]
    pub const fn outlook(&self) -> &'static str {
        if self.terminating {
            "is being deleted"
        } else if self.renewed {
            "is kept because another upgrade has this name now"
        } else {
            "will be deleted when its upgrade has been gone for ten minutes"
        }
    }
}

/// The works whose upgrade is not in `upgrades`, ordered by namespace and name. `works` is their metadata. With `of`, only
/// works of upgrades from this namespace.
#[must_use]
pub fn find(works: Vec<Value>, upgrades: &[Name], of: Option<&str>) -> Vec<Orphan> {
    let read = |metadata: Value| -> Option<Orphan> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
        let is_step = Step::ALL.iter().any(|step| step.work_name(&namespace) == name);
        let upgrade = text(&metadata["labels"][LABEL_MCU_UID]);
        if !is_step || upgrade.is_empty() || upgrades.iter().any(|one| one.uid == upgrade) {
            return None;
        }
        let owner = text(&metadata["annotations"][ANNOTATION_OWNER]);
        Some(Orphan {
            namespace,
            name,
            upgrade,
            uid: text(&metadata["uid"]),
            created: parse_rfc3339(&text(&metadata["creationTimestamp"])),
            terminating: !metadata["deletionTimestamp"].is_null(),
            renewed: upgrades.iter().any(|one| one.key == owner),
            owner,
            object: json!({
                "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": metadata,
            }),
        })
    };
    let within = |orphan: &Orphan| {
        let namespace = orphan.owner.split_once('/').map(|(namespace, _)| namespace);
        of.is_none_or(|of| of.is_empty() || namespace == Some(of))
    };
    let mut orphans: Vec<Orphan> = works.into_iter().filter_map(read).filter(within).collect();
    orphans.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    orphans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(cluster: &str, name: &str, upgrade: &str, owner: &str) -> Value {
        json!({
            "namespace": cluster, "name": name, "uid": format!("{name}-uid"),
            "labels": {LABEL_MCU_UID: upgrade}, "annotations": {ANNOTATION_OWNER: owner},
        })
    }

    fn upgrades() -> Vec<Name> {
        vec![Name {
            uid: "u1".to_owned(),
            key: "upgrades/spring".to_owned(),
        }]
    }

    fn names(orphans: &[Orphan]) -> Vec<&str> {
        orphans.iter().map(|orphan| orphan.name.as_str()).collect()
    }

    #[test]
    fn works_of_upgrades_that_exist_and_works_of_other_names_are_no_orphans() {
        let works = vec![
            work("c2", "c2-cluster-upgrade", "gone", "upgrades/winter"),
            work("c1", "c1-cluster-upgrade", "u1", "upgrades/spring"),
            work("c1", "c1-something", "gone", "upgrades/winter"),
            work("c1", "c1-pre-upgrade-action", "gone", "tenant/winter"),
        ];
        let all = find(works.clone(), &upgrades(), None);
        assert_eq!(names(&all), ["c1-pre-upgrade-action", "c2-cluster-upgrade"]);
        let of_one = find(works, &upgrades(), Some("upgrades"));
        assert_eq!(names(&of_one), ["c2-cluster-upgrade"]);
    }

    #[test]
    fn an_orphan_says_what_becomes_of_it() {
        let mut going = work("c1", "c1-cluster-upgrade", "gone", "upgrades/spring");
        let outlook = |work: &Value| find(vec![work.clone()], &upgrades(), None)[0].outlook();
        assert!(outlook(&going).starts_with("is kept"));
        going["annotations"] = json!({});
        assert!(outlook(&going).starts_with("will be deleted"));
        going["deletionTimestamp"] = json!("2026-03-01T10:00:00Z");
        assert_eq!(outlook(&going), "is being deleted");
    }
}
