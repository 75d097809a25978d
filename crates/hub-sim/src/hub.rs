//! A hub: its state behind a lock, its clock, and the news of writes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

use crate::garbage;
use crate::kind::Kind;
use crate::kinds;
use crate::news::{News, Writes};
use crate::object::{Object, Unseen};
use crate::state::{KindId, Observer, Snapshot, State};
use crate::write::{WriteOptions, Writer};

/// Gives the time of the hub.
pub type Clock = Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>;

/// How a hub behaves.
#[derive(Clone)]
pub struct Options {
    /// Where uids and generated names come from.
    pub seed: u64,
    /// Changes that are remembered per kind. Watches and pages that would need older ones are answered with 410.
    pub history: usize,
    /// The time of the hub.
    pub clock: Clock,
    /// Whether objects are answered with their `managedFields`.
    pub managed_fields: bool,
}

impl Default for Options {
    #[expect(clippy::disallowed_methods, reason = "a simulation passes its own clock")]
    fn default() -> Self {
        Self {
            seed: 0,
            history: 10_000,
            clock: Arc::new(Utc::now),
            managed_fields: true,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("seed", &self.seed)
            .field("history", &self.history)
            .field("managed_fields", &self.managed_fields)
            .finish_non_exhaustive()
    }
}

/// An in-memory hub. Clones are the same hub.
#[derive(Clone, Debug)]
pub struct Hub(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    options: Options,
    writes: Arc<Writes>,
}

impl Hub {
    /// A hub with the kinds of Kubernetes and OCM that MCU needs, our own, and the namespaces of every cluster.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let state = State::new(options.seed, options.history);
        let hub = Self(Arc::new(Inner {
            state: Mutex::new(state),
            options,
            writes: Arc::default(),
        }));
        hub.change(|state| {
            for kind in kinds::all() {
                state.add_kind(Arc::clone(kind));
            }
        });
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            hub.create(
                "",
                "namespaces",
                &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
            );
        }
        hub
    }

    /// Serves the kind of a `CustomResourceDefinition`.
    ///
    /// # Errors
    /// The definition lacks a field; the text names it.
    pub fn add_crd(&self, crd: &Value) -> Result<(), String> {
        let kind = Arc::new(Kind::from_crd(crd)?);
        self.change(|state| state.add_kind(kind));
        Ok(())
    }

    /// Calls a function with every change, in the order of revisions. It must not use the hub.
    pub fn observe(&self, observer: Observer) {
        self.lock().observe(observer);
    }

    /// Looks at all objects.
    pub fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.lock())
    }

    /// Creates an object directly, as a POST would. Returns `None` if it was refused.
    pub fn create(&self, group: &str, plural: &str, object: &Value) -> Option<Arc<Object>> {
        let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str);
        let namespace = namespace.unwrap_or_default().to_owned();
        let now = self.now_text();
        let options = WriteOptions {
            manager: "hub-sim".to_owned(),
            ..WriteOptions::default()
        };
        self.change(|state| {
            let id = state.find(group, plural)?;
            let kind = Arc::clone(&state.collection(id).kind);
            let writer = Writer {
                state,
                id,
                kind,
                namespace: &namespace,
                name: "",
                subresource: "",
                options: &options,
                now: &now,
                warnings: &mut Vec::new(),
                unseen: Unseen::default(),
            };
            writer.create(object.clone()).ok().map(|written| written.object)
        })
    }

    /// Does what kube-controller-manager does: deletes what has lost its owners, and the content of namespaces that are deleted.
    pub fn collect_garbage(&self) {
        let now = self.now_text();
        self.change(|state| garbage::collect(state, &now));
    }

    /// Collects garbage after every write, for as long as the task runs.
    pub async fn keep_collecting_garbage(self) {
        let mut news = self.subscribe();
        loop {
            news.changed().await;
            if !self.read(State::is_collected) {
                self.collect_garbage();
            }
        }
    }

    /// Forgets the changes up to a revision, as etcd's compaction does.
    pub fn compact(&self, revision: u64) {
        self.lock().compact(revision);
    }

    /// All objects as they are now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.lock().snapshot()
    }

    /// Goes back to a snapshot as a restored etcd does: the revision, too. Observers are not told, and watches that are open
    /// deliver nothing that makes sense: the caller ends them.
    pub fn restore(&self, snapshot: Snapshot) {
        self.lock().restore(snapshot);
        self.0.writes.reset();
    }

    /// Tells of every write from now on.
    #[must_use]
    pub fn subscribe(&self) -> News {
        News::new(&self.0.writes, None)
    }

    /// Tells of every write to a kind from now on.
    pub(crate) fn subscribe_to(&self, kind: KindId) -> News {
        News::new(&self.0.writes, Some(kind))
    }

    /// The options of this hub.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// The time of the hub.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        (self.0.options.clock)()
    }

    pub(crate) fn now_text(&self) -> String {
        self.now().to_rfc3339_opts(SecondsFormat::Secs, true)
    }

    /// Changes the state and tells watches about it.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (result, kinds) = {
            let mut state = self.lock();
            let result = change(&mut state);
            (result, state.take_touched())
        };
        self.0.writes.publish(&kinds);
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
