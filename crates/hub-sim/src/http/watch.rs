//! Watches: the log of a kind from a revision on, as a stream of lines.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::answer::Form;
use super::list::selector;
use super::request::{Place, Query};
use crate::error::ApiError;
use crate::hub::Hub;
use crate::news::News;
use crate::object::Object;
use crate::selector::Selector;
use crate::state::KindId;
use crate::store::{Change, ChangeKind, Collection};

/// Bookmarks come at least this often to those who asked for them.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);
/// A watch without `timeoutSeconds` ends after this time.
const USUAL_DURATION: Duration = Duration::from_mins(30);
/// No watch lasts longer, whatever `timeoutSeconds` says.
const MAX_DURATION: Duration = Duration::from_hours(24 * 365);

/// So many changes are looked at, and so many bytes sent, at once.
const BATCH: usize = 1_000;
const BATCH_BYTES: usize = 256 * 1024;

/// An open watch.
pub(super) struct Watch {
    hub: Hub,
    id: KindId,
    namespace: String,
    selector: Selector,
    form: Form,
    /// Changes up to this revision were sent.
    revision: u64,
    /// Whether it has waited since it last looked, and would have been told of any change of its kind.
    has_waited: bool,
    news: News,
    bookmarks: bool,
    next_bookmark: Instant,
    ends: Instant,
    /// The objects that are sent before any change, the last one first.
    initial: Vec<Arc<Object>>,
    /// The bookmark after them.
    initial_end: Option<String>,
    is_over: bool,
}

impl Watch {
    pub(super) fn new(
        hub: &Hub,
        id: KindId,
        place: &Place,
        query: &Query,
        form: Form,
        behind: u64,
    ) -> Result<Self, ApiError> {
        let news = hub.subscribe_to(id);
        query.check_begin(true)?;
        query.count("limit")?;
        let timeout = query.count("timeoutSeconds")?;
        let timeout = timeout
            .map_or(USUAL_DURATION, Duration::from_secs)
            .min(MAX_DURATION);
        let now = Instant::now();
        let mut watch = Self {
            hub: hub.clone(),
            id,
            namespace: place.namespace.clone(),
            selector: selector(hub, id, place, query)?,
            form,
            revision: 0,
            has_waited: false,
            news,
            bookmarks: query.flag("allowWatchBookmarks"),
            next_bookmark: now + BOOKMARK_INTERVAL,
            ends: now + timeout,
            initial: Vec::new(),
            initial_end: None,
            is_over: false,
        };
        watch.begin(query, behind)?;
        Ok(watch)
    }

    /// Finds the revision from which on changes are sent. Without one, what exists is sent first.
    fn begin(&mut self, query: &Query, behind: u64) -> Result<(), ApiError> {
        let from = query.revision("resourceVersion")?.unwrap_or_default();
        let (current, cached) = self.hub.read(|state| {
            let current = state.revision();
            (
                current,
                state.collection(self.id).revision_behind(current, behind),
            )
        });
        if from > current {
            return Err(ApiError::too_large_resource_version(from, current));
        }
        let initial = query.text("sendInitialEvents");
        let start = match query.text("resourceVersion") {
            "" => current,
            _ => cached.max(from),
        };
        if initial == "true" || (from == 0 && initial.is_empty()) {
            let page = self.hub.read(|state| {
                let collection = state.collection(self.id);
                collection.page(start, &self.namespace, None, 0, |object| {
                    self.selector.matches(object)
                })
            });
            self.initial = page
                .map_err(|_| ApiError::expired(format!("too old resource version: {start}")))?
                .objects;
            self.initial.reverse();
            self.revision = start;
            self.initial_end = self
                .bookmarks
                .then(|| self.bookmark(Some(("k8s.io/initial-events-end", "true"))));
        } else {
            self.revision = if from == 0 { start } else { from };
        }
        Ok(())
    }

    /// The watch as a stream of lines. It ends with its time-out, or with an error event if it is too late for its revision.
    pub(super) fn into_stream(self) -> impl Stream<Item = Bytes> + Send {
        stream::unfold(self, |mut watch| async move {
            let lines = watch.next().await?;
            Some((Bytes::from(lines), watch))
        })
    }

    async fn next(&mut self) -> Option<String> {
        if let Some(object) = self.initial.pop() {
            return Some(self.line("ADDED", &object));
        }
        if let Some(line) = self.initial_end.take() {
            return Some(line);
        }
        self.has_waited = false;
        loop {
            if self.is_over {
                return None;
            }
            self.news.see();
            let lines = self.lines();
            if !lines.is_empty() {
                return Some(lines);
            }
            let bookmark = if self.bookmarks {
                self.next_bookmark
            } else {
                self.ends
            };
            self.has_waited = true;
            tokio::select! {
                biased;
                () = self.news.changed() => {}
                () = tokio::time::sleep_until(self.ends) => return None,
                () = tokio::time::sleep_until(bookmark) => {
                    self.next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
                    self.catch_up();
                    return Some(self.bookmark(None));
                }
            }
        }
    }

    /// The events since the last ones, or as many of them as are sent at once: a client that does not read costs no more.
    fn lines(&mut self) -> String {
        loop {
            let (lines, is_all) = self.batch();
            if is_all || !lines.is_empty() {
                return lines;
            }
        }
    }

    /// The revision up to which there is nothing that was not seen.
    fn seen(&self, collection: &Collection) -> u64 {
        if self.has_waited {
            collection.go_on_from(self.revision)
        } else {
            self.revision
        }
    }

    /// Counts changes of other kinds as seen.
    fn catch_up(&mut self) {
        self.revision = self.hub.read(|state| {
            let collection = state.collection(self.id);
            let changes = collection.changes_after(self.seen(collection));
            match changes.map(|mut changes| changes.next().is_none()) {
                Ok(true) => state.revision(),
                _ => self.revision,
            }
        });
    }

    /// The events of the next changes, and whether these are all.
    fn batch(&mut self) -> (String, bool) {
        // The texts are made without the lock of the hub.
        let found = self.hub.read(|state| {
            let collection = state.collection(self.id);
            let changes = collection.changes_after(self.seen(collection));
            let changes = changes.map_err(|_| state.revision())?;
            Ok::<_, u64>((
                changes.take(BATCH).cloned().collect::<Vec<Change>>(),
                state.revision(),
            ))
        });
        match found {
            Ok((changes, revision)) => {
                let mut lines = String::new();
                self.has_waited = false;
                for change in &changes {
                    if lines.len() > BATCH_BYTES {
                        return (lines, false);
                    }
                    lines.extend(self.event(change));
                    self.revision = change.revision;
                }
                let is_all = changes.len() < BATCH;
                if is_all {
                    self.revision = revision;
                }
                (lines, is_all)
            }
            Err(current) => {
                self.is_over = true;
                let error =
                    ApiError::expired(format!("too old resource version: {} ({current})", self.revision));
                (event_line("ERROR", &error.to_status().to_string()), true)
            }
        }
    }

    /// What a change is for this watch: an object that leaves the selection is deleted for it.
    fn event(&self, change: &Change) -> Option<String> {
        let is_here = |object: &Arc<Object>| {
            (self.namespace.is_empty() || object.namespace() == self.namespace)
                && self.selector.matches(object)
        };
        let before = change.before.as_ref().filter(|object| is_here(object));
        let after =
            Some(&change.after).filter(|object| change.kind != ChangeKind::Deleted && is_here(object));
        match (before, after) {
            (None, None) => None,
            (None, Some(after)) => Some(self.line("ADDED", after)),
            (Some(_), Some(after)) => Some(self.line("MODIFIED", after)),
            (Some(_), None) if change.kind == ChangeKind::Deleted => {
                Some(self.line("DELETED", &change.after))
            }
            (Some(before), None) => {
                let mut last = Value::clone(&before.value());
                last["metadata"]["resourceVersion"] = change.revision.to_string().into();
                let last = Object::new(
                    Arc::clone(&before.key),
                    last,
                    before.managers.clone(),
                    change.revision,
                );
                Some(self.line("DELETED", &last))
            }
        }
    }

    fn line(&self, kind: &str, object: &Object) -> String {
        event_line(kind, &self.form.one(&self.hub, self.id, object))
    }

    fn bookmark(&self, annotation: Option<(&str, &str)>) -> String {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if let Some((name, value)) = annotation {
            metadata["annotations"] = json!({name: value});
        }
        let mut object = self
            .hub
            .read(|state| state.collection(self.id).kind.empty_object());
        object["metadata"] = metadata;
        event_line("BOOKMARK", &object.to_string())
    }
}

fn event_line(kind: &str, object: &str) -> String {
    ["{\"type\":\"", kind, "\",\"object\":", object, "}\n"].concat()
}
