//! An in-memory Kubernetes API server with the semantics that controllers, agents and people rely on: revisions, consistent
//! and stale lists in pages, watches with bookmarks and a limited history, server-side apply, preconditions, finalizers, owners and
//! namespaces, and validation by the schemas and CEL rules of `CustomResourceDefinitions`.
//!
//! [`Hub`] holds the objects, [`Service`] serves them as a tower service in real or virtual time, and the program `hub-sim`
//! serves them on a port. There is no authorization: every user may do everything.
//!
//! What it leaves out: webhooks, admission policies, quotas, priority and fairness, conversion between versions, and protobuf in
//! answers.

mod error;
mod exit;
mod fields;
mod garbage;
mod http;
mod hub;
mod json;
mod kind;
mod kinds;
mod news;
mod object;
mod placement;
mod schema;
mod selector;
mod serve;
mod state;
mod store;
mod write;

pub use self::error::ApiError;
pub use self::exit::exit_code;
pub use self::fields::{Conflict, FieldSet, Manager, Managers, Operation};
pub use self::http::{Body, Service};
pub use self::hub::{Clock, Hub, Options};
pub use self::json::At;
pub use self::kind::{Column, Kind};
pub use self::news::News;
pub use self::object::{Key, Object};
pub use self::selector::Selector;
pub use self::serve::{kubeconfig, serve};
pub use self::state::{Observer, Snapshot, State};
pub use self::store::{Change, ChangeKind, Collection, Forgotten, Page};
