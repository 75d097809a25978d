//! The graph as a whole: real data, an oracle written apart from it, laws, mutated input, old readers.

mod chain;
mod data;
mod laws;
mod mutation;
mod old_reader;
mod oracle;
mod path;
mod real;
