//! The protocol's JSON, version 1: reading what another service serves, writing what this one does.

mod read;
mod write;

pub use read::{ReadError, Served, version_of};
