//! `graph`: questions to an update graph that a service serves or that is made of files.
//!
//! Owns where a graph comes from. What is asked of it is answered by `update_graph::query`, how an answer looks is in
//! `render::graph`. The hub is never asked.

pub mod args;
pub(crate) mod discovery;
pub(crate) mod load;
pub(crate) mod service;
