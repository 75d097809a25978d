//! The API of a hub over HTTP.

mod answer;
mod discovery;
mod events;
mod list;
mod protobuf;
mod request;
mod service;
mod table;
mod watch;

pub use self::service::{Body, Service};
