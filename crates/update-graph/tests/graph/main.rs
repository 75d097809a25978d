//! The graph as a whole: a sample, an oracle written apart from the crate, laws, mutated input, old readers.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "../checks/mod.rs"]
mod checks;

mod chain;
mod laws;
mod path;
mod queries;
mod sample;
