//! The service from outside: over sockets, with sources that fail, and as a process.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::float_cmp,
    reason = "a test that cannot go on fails; counters are whole numbers"
)]

mod binary;
mod bounds;
mod chain;
mod data;
mod fake;
mod hostile;
mod refresh;
mod running;
mod scrape;
mod swap;
mod tls;
