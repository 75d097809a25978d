//! The objects of one kind as last received from the API server by a watch.
//!
//! Every change wakes the given notifiers. A controller that is woken up evaluates all objects and not single events.

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

/// The objects of an informer.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The kind.
    pub resource: ApiResource,
    /// Only one namespace.
    pub namespace: Option<String>,
    /// Only one name.
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

/// Objects of one kind that a watch keeps up to date.
#[derive(Clone)]
pub struct Informer {
    store: Store<DynamicObject>,
}

impl Informer {
    /// Starts the watch. Its task ends with `stop`.
    pub fn start(
        tasks: &mut JoinSet<()>,
        client: &Client,
        scope: &Scope,
        notifiers: Vec<Arc<Notify>>,
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
                    biased;
                    () = stop.cancelled() => return,
                    event = stream.next() => event,
                };
                match event {
                    Some(Ok(_)) => notifiers.iter().for_each(|notify| notify.notify_one()),
                    // The watch backs off and restarts by itself. The objects stay as they were.
                    Some(Err(error)) => tracing::debug!(%kind, %error, "a watch failed"),
                    None => return,
                }
            }
        });
        Self { store }
    }

    /// Waits until the first list is complete.
    pub async fn ready(&self) {
        // The writer is only dropped at a stop.
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
    // This can only fail for maps with keys that are not strings, which these do not have.
    serde_json::to_value(object).unwrap_or_default()
}
