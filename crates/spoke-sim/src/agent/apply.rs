//! Applies manifests with the requested strategy: Update, `CreateOnly`, `ServerSideApply` or `ReadOnly`.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use serde_json::{Value, json};

use super::work::Work;
use crate::catalog::{Text, split_api_version};
use crate::cluster::Cluster;
use crate::fields::{self, Object, Time};
use crate::store::{ApiError, ObjectKey};
use crate::work::status::{self, ManifestStatus, ResourceMeta};
use crate::work::{Config, IgnoreWhen, ServerSideApply, Strategy};

/// Field manager for strategies other than server-side apply.
const MANAGER: &str = "work";
/// Annotation with the hash of an applied manifest, used if fields are ignored.
const HASH: &str = "open-cluster-management.io/config-spec-hash";

/// The result for one manifest.
pub(super) struct Applied {
    pub meta: ResourceMeta,
    /// `None` if the kind is not served.
    pub key: Option<ObjectKey>,
    pub error: Option<ApiError>,
}

/// Applies all manifests in order.
pub(super) fn manifests(
    work: Work<'_>,
    cluster: &mut Cluster,
    before: &[ManifestStatus],
    now: Time,
) -> Vec<Applied> {
    let uid = cluster.rng().of(work.name).of("AppliedManifestWork").uuid();
    if !cluster.applied.contains_key(work.name) {
        cluster
            .applied
            .entry(work.name.into())
            .or_default()
            .uid
            .clone_from(&uid);
    }
    let texts = work.spec.manifests.iter().enumerate();
    texts
        .map(|(ordinal, text)| {
            let manifest: Value = serde_json::from_str(text).unwrap_or_default();
            let (meta, key) = identify(cluster, ordinal, &manifest);
            let Some(key) = key else {
                let error = Some(ApiError::NoSuchKind(meta.kind.to_string()));
                return Applied {
                    meta,
                    key: None,
                    error,
                };
            };
            // A manifest whose Complete condition is True is not written again.
            let old = before.iter().find(|old| old.resource_meta.same_resource(&meta));
            if old.is_some_and(|old| status::is_true(&old.conditions, "Complete")) {
                return Applied {
                    meta,
                    key: Some(key),
                    error: None,
                };
            }
            let owner = Owner {
                work: work.name,
                uid: &uid,
                owned: work.spec.delete_option.owns(&key),
            };
            let config = work.spec.configs.of(&key);
            let error = one(cluster, &key, &manifest, config, owner, now).err();
            Applied {
                meta,
                key: Some(key),
                error,
            }
        })
        .collect()
}

fn identify(cluster: &Cluster, ordinal: usize, manifest: &Value) -> (ResourceMeta, Option<ObjectKey>) {
    let (api_version, kind) = (
        fields::text(manifest, &["apiVersion"]),
        fields::text(manifest, &["kind"]),
    );
    let (group, version) = split_api_version(api_version);
    let name = fields::text(manifest, &["metadata", "name"]);
    let namespace = fields::text(manifest, &["metadata", "namespace"]);
    let version = if version == "v1" {
        Text::Borrowed("v1")
    } else {
        Text::Owned(version.to_owned())
    };
    let mut meta = ResourceMeta {
        ordinal: i32::try_from(ordinal).unwrap_or(i32::MAX),
        version,
        name: name.into(),
        namespace: namespace.into(),
        ..ResourceMeta::default()
    };
    let Some(served) = cluster.catalog.find(api_version, kind) else {
        meta.group = Text::Owned(group.to_owned());
        meta.kind = Text::Owned(kind.to_owned());
        return (meta, None);
    };
    if !served.namespaced {
        meta.namespace = "".into();
    }
    meta.group.clone_from(&served.group);
    meta.kind = served.kind;
    meta.resource.clone_from(&served.plural);
    let key = ObjectKey::new(served.group, served.plural, &meta.namespace, name);
    (meta, Some(key))
}

/// The `AppliedManifestWork` of an apply, and whether objects are deleted with it.
#[derive(Clone, Copy)]
struct Owner<'a> {
    work: &'a str,
    uid: &'a str,
    owned: bool,
}

impl Owner<'_> {
    /// Adds the owner reference, or removes it from an object that is orphaned.
    fn mark(self, object: &mut Value) {
        let meta = fields::object_at(object, &["metadata"]);
        let owners = fields::array_at(meta, "ownerReferences");
        let is_me = |owner: &Value| fields::text(owner, &["uid"]) == self.uid;
        if !self.owned {
            owners.retain(|owner| !is_me(owner));
        } else if !owners.iter().any(is_me) {
            owners.push(json!({
                "apiVersion": "work.open-cluster-management.io/v1",
                "kind": "AppliedManifestWork",
                "name": self.work,
                "uid": self.uid,
            }));
        }
        if owners.is_empty() {
            meta.remove("ownerReferences");
        }
    }
}

fn one(
    cluster: &mut Cluster,
    key: &ObjectKey,
    manifest: &Value,
    config: Config<'_>,
    owner: Owner<'_>,
    now: Time,
) -> Result<(), ApiError> {
    let strategy = config.strategy.unwrap_or(&Strategy::Update);
    if cluster.forbids(key) && *strategy != Strategy::ReadOnly {
        let verb = if matches!(strategy, Strategy::ServerSideApply(_)) {
            "patch"
        } else {
            "get"
        };
        return Err(ApiError::forbidden(verb, key));
    }
    match strategy {
        Strategy::ReadOnly => return Ok(()),
        Strategy::Update => update(cluster, key, manifest, owner, now)?,
        Strategy::CreateOnly => create_only(cluster, key, manifest, owner, now)?,
        Strategy::ServerSideApply(options) => server_side(cluster, key, manifest, options, owner, now)?,
    }
    if key.resource == "customresourcedefinitions"
        && let Some(definition) = cluster.store.get(key)
    {
        cluster.catalog.define(&definition);
    }
    Ok(())
}

fn create(
    cluster: &mut Cluster,
    key: &ObjectKey,
    manifest: &Value,
    owner: Owner<'_>,
    now: Time,
) -> Result<(), ApiError> {
    let mut object = manifest.clone();
    owner.mark(&mut object);
    fields::object_at(&mut object, &[]).remove("status");
    // A key that ends in `-` requests removal. There is nothing to remove yet.
    let meta = fields::object_at(&mut object, &["metadata"]);
    meta.remove("uid");
    for field in ["labels", "annotations"] {
        if let Some(Value::Object(map)) = meta.get_mut(field) {
            map.retain(|key, _| !key.ends_with('-'));
        }
    }
    cluster.store.create(key, &object, MANAGER, now).map(drop)
}

fn create_only(
    cluster: &mut Cluster,
    key: &ObjectKey,
    manifest: &Value,
    owner: Owner<'_>,
    now: Time,
) -> Result<(), ApiError> {
    if cluster.store.revision_of(key).is_none() {
        return create(cluster, key, manifest, owner, now);
    }
    cluster.store.amend(key, |object| owner.mark(object));
    Ok(())
}

/// GET, then PUT if anything but metadata and status differs. Fields that the manifest does not have are removed. Labels,
/// annotations and owner references are merged, and finalizers are kept.
fn update(
    cluster: &mut Cluster,
    key: &ObjectKey,
    manifest: &Value,
    owner: Owner<'_>,
    now: Time,
) -> Result<(), ApiError> {
    let Some(live) = cluster.store.get(key) else {
        return create(cluster, key, manifest, owner, now)
            .map(|()| remember(cluster, key, manifest, owner.work));
    };
    let mut wanted = live.clone();
    owner.mark(&mut wanted);
    for field in ["labels", "annotations"] {
        if let Some(Value::Object(more)) = fields::get(manifest, &["metadata", field]) {
            merge_map(fields::object_at(&mut wanted, &["metadata", field]), more);
        }
    }
    let same_meta = wanted.get("metadata") == live.get("metadata");
    let hash = hash_of(manifest);
    let revision = cluster.store.revision_of(key);
    let applied = cluster.applied.get(owner.work);
    let already_put = applied.is_some_and(|applied| {
        applied
            .puts
            .iter()
            .any(|put| put.0 == *key && put.1 == hash && Some(put.2) == revision)
    });
    let mut next = manifest.clone();
    let body = fields::object_at(&mut next, &[]);
    body.remove("status");
    body.insert("metadata".into(), wanted["metadata"].take());
    if same_meta && (already_put || same_body(&next, &live)) {
        return Ok(());
    }
    cluster.store.replace(key, &next, MANAGER)?;
    remember(cluster, key, manifest, owner.work);
    Ok(())
}

/// Merges maps as library-go does: a key with a trailing `-` removes the key.
fn merge_map(into: &mut Object, more: &Object) {
    for (key, value) in more {
        match key.strip_suffix('-') {
            Some(removed) => {
                into.remove(removed);
            }
            None => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

fn same_body(a: &Value, b: &Value) -> bool {
    let body = |value: &Value| -> Object {
        let map = value.as_object().cloned().unwrap_or_default();
        map.into_iter()
            .filter(|(key, _)| key != "metadata" && key != "status")
            .collect()
    };
    body(a) == body(b)
}

/// Remembers what was PUT, so that the same manifest is not applied again to the same revision (`SafeToSkipApply`).
fn remember(cluster: &mut Cluster, key: &ObjectKey, manifest: &Value, work: &str) {
    let (hash, Some(revision)) = (hash_of(manifest), cluster.store.revision_of(key)) else {
        return;
    };
    if let Some(applied) = cluster.applied.get_mut(work) {
        applied.puts.retain(|put| put.0 != *key);
        applied.puts.push((key.clone(), hash, revision));
    }
}

fn hash_of(manifest: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    manifest.to_string().hash(&mut hasher);
    hasher.finish()
}

fn server_side(
    cluster: &mut Cluster,
    key: &ObjectKey,
    manifest: &Value,
    options: &ServerSideApply,
    owner: Owner<'_>,
    now: Time,
) -> Result<(), ApiError> {
    let mut config = manifest.clone();
    if !options.ignore_fields.is_empty() {
        let present = options
            .ignore_fields
            .iter()
            .filter(|field| field.condition == IgnoreWhen::OnSpokePresent);
        for path in present.flat_map(|field| &field.json_paths) {
            remove_field(&mut config, path);
        }
        let hash = format!("{:016x}", hash_of(&config));
        let live = cluster.store.get(key);
        if live.is_none() {
            config = manifest.clone();
        }
        fields::object_at(&mut config, &["metadata", "annotations"]).insert(HASH.into(), hash.clone().into());
        if live.is_some_and(|live| fields::text(&live, &["metadata", "annotations", HASH]) == hash) {
            cluster.store.amend(key, |object| owner.mark(object));
            return Ok(());
        }
    }
    cluster
        .store
        .apply(key, &config, &options.field_manager, options.force, now)?;
    cluster.store.amend(key, |object| owner.mark(object));
    Ok(())
}

/// Removes the map field at a dotted path.
fn remove_field(object: &mut Value, path: &str) {
    let steps: Vec<&str> = path.trim_start_matches('.').split('.').collect();
    if let Some((last, parents)) = steps.split_last() {
        let parent = parents
            .iter()
            .try_fold(object, |current, step| current.get_mut(*step));
        if let Some(Value::Object(map)) = parent {
            map.remove(*last);
        }
    }
}
