//! The law held against real objects.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod data;
mod graph;
mod recorded;
