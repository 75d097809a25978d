//! The graph as a whole: real data, an oracle written apart from it, laws, mutated input, old readers.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod chain;
mod data;
mod laws;
mod mutation;
mod old_reader;
mod oracle;
mod path;
mod queries;
mod real;
