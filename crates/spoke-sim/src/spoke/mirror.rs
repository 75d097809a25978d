//! The objects of one kind as the API server last told, kept by a watch.
//!
//! Owns reading only. Every change rings the bells it was given; a controller that hears one looks at the whole
//! mirror, so that no event needs a meaning of its own.

use std::sync::Arc;

use futures::StreamExt as _;
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// What a mirror shows.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The kind.
    pub resource: ApiResource,
    /// Of one namespace only.
    pub namespace: Option<String>,
    /// Of one name only.
    pub name: Option<String>,
}

impl Scope {
    /// All objects of a kind.
    #[must_use]
    pub fn all(resource: ApiResource) -> Self {
        Self {
            resource,
            namespace: None,
            name: None,
        }
    }

    /// One object.
    #[must_use]
    pub fn one(resource: ApiResource, namespace: Option<&str>, name: &str) -> Self {
        Self {
            resource,
            namespace: namespace.map(str::to_owned),
            name: Some(name.to_owned()),
        }
    }
}

/// Objects of one kind, kept current by a watch.
#[derive(Clone)]
pub struct Mirror {
    store: Store<DynamicObject>,
}

impl Mirror {
    /// Starts to watch; the task ends with `stop`.
    pub fn start(
        tasks: &mut JoinSet<()>,
        client: &Client,
        scope: &Scope,
        bells: Vec<Arc<Notify>>,
        stop: &CancellationToken,
    ) -> Self {
        let api: Api<DynamicObject> = match &scope.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &scope.resource),
            None => Api::all_with(client.clone(), &scope.resource),
        };
        let mut config = watcher::Config::default();
        if let Some(name) = &scope.name {
            config = config.fields(&format!("metadata.name={name}"));
        }
        let writer = reflector::store::Writer::<DynamicObject>::new(scope.resource.clone());
        let store = writer.as_reader();
        let stop = stop.clone();
        let kind = scope.resource.kind.clone();
        tasks.spawn(async move {
            let stream = watcher(api, config).default_backoff().reflect(writer);
            let mut stream = std::pin::pin!(stream);
            loop {
                let event = tokio::select! {
                    () = stop.cancelled() => return,
                    event = stream.next() => event,
                };
                match event {
                    Some(Ok(_)) => bells.iter().for_each(|bell| bell.notify_one()),
                    // The watch backs off and starts again by itself; the mirror stays as it was.
                    Some(Err(error)) => tracing::debug!(%kind, %error, "a watch failed"),
                    None => return,
                }
            }
        });
        Self { store }
    }

    /// Waits until the first list is in.
    pub async fn ready(&self) {
        // The writer is dropped at a stop only.
        let _ = self.store.wait_until_ready().await;
    }

    /// All objects, sorted by namespace and name.
    #[must_use]
    pub fn all(&self) -> Vec<Value> {
        let mut objects: Vec<_> = self.store.state();
        objects.sort_by(|a, b| {
            (&a.metadata.namespace, &a.metadata.name).cmp(&(&b.metadata.namespace, &b.metadata.name))
        });
        objects.iter().map(|object| value(object)).collect()
    }

    /// One object.
    #[must_use]
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Option<Value> {
        self.store
            .find(|object| {
                object.metadata.name.as_deref() == Some(name)
                    && object.metadata.namespace.as_deref() == namespace
            })
            .map(|object| value(&object))
    }
}

fn value(object: &DynamicObject) -> Value {
    // Neither map has keys that are no strings, the only way this fails.
    serde_json::to_value(object).unwrap_or_default()
}
