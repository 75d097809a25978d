//! What the controller and the update service have in common for operations: logs, the encoding of metrics,
//! the HTTP server with its limits, and shutdown signals.
//!
//! Each of them defines its own series, and when it is ready.

pub mod exposition;
pub mod listen;
pub mod logs;
pub mod process;
pub mod server;
pub mod shutdown;
pub mod terminal;
