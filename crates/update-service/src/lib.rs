//! The update service: reads releases and graph-data from their sources, makes snapshots of the update graph, and serves
//! them over the Cincinnati protocol.
//!
//! ```text
//! source ──> keep ──> refresh ──> snapshot ──> serve
//! (read)    (forget   (build,     (bodies,     (answer)
//!            nothing)  publish)    once)
//! ```

pub mod assemble;
pub mod command;
pub mod config;
pub mod durable;
#[cfg(test)]
mod fixture;
pub mod keep;
pub mod metrics;
pub mod output;
pub mod refresh;
pub mod serve;
pub mod snapshot;
pub mod source;
pub mod state;
