//! Loads the update graph for the command `graph`, from a service or from files. The hub is not involved.
//!
//! `update_graph::query` answers the questions; `render::graph` renders the answers.

pub mod args;
pub(crate) mod discovery;
pub(crate) mod load;
pub(crate) mod service;
