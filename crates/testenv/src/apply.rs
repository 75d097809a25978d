//! Applies objects of any kind to an API server by server-side apply.
//!
//! Namespaces and CRDs are applied first, and the rest waits until the CRDs are established. Discovery is queried once per
//! kind. Input that is neither an object nor a `List` is an error.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use kube::discovery::{self, Scope};
use kube::{Client, ResourceExt as _};
use serde_json::Value;

/// Field manager of everything applied from here.
pub const FIELD_MANAGER: &str = "testenv";

/// How long discovery may lag behind an established CRD, and a CRD behind its creation.
const ESTABLISHED_TIMEOUT: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(50);
const CONCURRENCY: usize = 8;

/// Reads a YAML stream of objects; empty documents are dropped and `List`s flattened.
///
/// # Errors
/// The text is no YAML.
pub fn parse_yaml(yaml: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).context("not YAML")?;
    let flat = documents
        .into_iter()
        .flat_map(|document| match document.get("items") {
            Some(Value::Array(items))
                if document["kind"]
                    .as_str()
                    .is_some_and(|kind| kind.ends_with("List")) =>
            {
                items.clone()
            }
            _ => vec![document],
        });
    Ok(flat.filter(|document| !document.is_null()).collect())
}

/// Applies the objects of a YAML stream.
///
/// # Errors
/// As [`apply_objects`].
pub async fn apply_yaml(client: &Client, yaml: &str) -> Result<()> {
    apply_objects(client, &parse_yaml(yaml)?).await
}

/// Applies objects: namespaces and CRDs first, the rest in the order given. Objects of namespaced kinds that
/// name no namespace go to `default`.
///
/// # Errors
/// An object has no kind or name, its kind is not served within a minute, a CRD is not established within a
/// minute, or the API server refuses an object; the message names the object.
pub async fn apply_objects(client: &Client, objects: &[Value]) -> Result<()> {
    let mut kinds = Kinds::new(client.clone());
    let is = |kind: &str, object: &Value| object["kind"].as_str() == Some(kind);
    for namespace in objects.iter().filter(|object| is("Namespace", object)) {
        kinds.apply(namespace).await?;
    }
    let crds: Vec<&Value> = objects
        .iter()
        .filter(|object| is("CustomResourceDefinition", object))
        .collect();
    apply_crds(client, &mut kinds, &crds).await?;
    for object in objects
        .iter()
        .filter(|o| !is("Namespace", o) && !is("CustomResourceDefinition", o))
    {
        kinds.apply(object).await?;
    }
    Ok(())
}

async fn apply_crds(client: &Client, kinds: &mut Kinds, crds: &[&Value]) -> Result<()> {
    let Some(first) = crds.first() else { return Ok(()) };
    let resource = kinds.resolve(first).await?.0;
    stream::iter(crds)
        .map(|crd| patch(Api::all_with(client.clone(), &resource), crd))
        .buffer_unordered(CONCURRENCY)
        .try_collect::<Vec<()>>()
        .await?;
    let names: Vec<&str> = crds
        .iter()
        .filter_map(|crd| crd["metadata"]["name"].as_str())
        .collect();
    wait_established(client, &names).await
}

/// Waits until the named CRDs are established.
///
/// # Errors
/// Some are not within a minute; the message names them.
pub async fn wait_established(client: &Client, names: &[&str]) -> Result<()> {
    let gvk = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let crds: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk));
    let deadline = Instant::now() + ESTABLISHED_TIMEOUT;
    loop {
        let list = crds.list(&kube::api::ListParams::default()).await?;
        let established = |name: &str| {
            list.iter()
                .any(|crd| crd.name_any() == name && is_established(crd))
        };
        let waiting: Vec<&str> = names.iter().copied().filter(|name| !established(name)).collect();
        if waiting.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!(
                "CRDs not established within {ESTABLISHED_TIMEOUT:?}: {}",
                waiting.join(", ")
            );
        }
        tokio::time::sleep(POLL).await;
    }
}

fn is_established(crd: &DynamicObject) -> bool {
    crd.data["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// The kinds found by discovery so far.
struct Kinds {
    client: Client,
    known: HashMap<GroupVersionKind, (ApiResource, Scope)>,
}

impl Kinds {
    fn new(client: Client) -> Self {
        Self {
            client,
            known: HashMap::new(),
        }
    }

    async fn apply(&mut self, object: &Value) -> Result<()> {
        let (resource, scope) = self.resolve(object).await?;
        let api = match scope {
            Scope::Cluster => Api::all_with(self.client.clone(), &resource),
            Scope::Namespaced => {
                let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
                Api::namespaced_with(self.client.clone(), namespace, &resource)
            }
        };
        patch(api, object).await
    }

    async fn resolve(&mut self, object: &Value) -> Result<(ApiResource, Scope)> {
        let types: TypeMeta = serde_json::from_value(object.clone())
            .map_err(|_| anyhow!("an object without apiVersion and kind: {object}"))?;
        let gvk = GroupVersionKind::try_from(types)?;
        if let Some((resource, scope)) = self.known.get(&gvk) {
            return Ok((resource.clone(), scope.clone()));
        }
        let deadline = Instant::now() + ESTABLISHED_TIMEOUT;
        let (resource, capabilities) = loop {
            match discovery::pinned_kind(&self.client, &gvk).await {
                Ok(found) => break found,
                Err(error) if Instant::now() > deadline => {
                    return Err(error)
                        .with_context(|| format!("{} {} is not served", gvk.api_version(), gvk.kind));
                }
                Err(_) => tokio::time::sleep(POLL).await,
            }
        };
        self.known
            .insert(gvk, (resource.clone(), capabilities.scope.clone()));
        Ok((resource, capabilities.scope))
    }
}

async fn patch(api: Api<DynamicObject>, object: &Value) -> Result<()> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let name = object["metadata"]["name"]
        .as_str()
        .ok_or_else(|| anyhow!("{kind} without a name"))?;
    let params = PatchParams::apply(FIELD_MANAGER).force();
    api.patch(name, &params, &Patch::Apply(object))
        .await
        .with_context(|| format!("{kind} {name}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_split_empty_documents_dropped_and_lists_flattened() {
        let yaml = "---\nkind: A\n---\n# nothing\n---\nkind: BList\nitems:\n- kind: B\n- kind: C\n";
        let kinds: Vec<String> = parse_yaml(yaml)
            .unwrap()
            .iter()
            .map(|o| o["kind"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(kinds, ["A", "B", "C"]);
    }
}
