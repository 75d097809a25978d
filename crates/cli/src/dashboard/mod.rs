//! `kubectl mcu dashboard`: a local page that shows upgrades as they go on, with the rights of the caller.
//!
//! ```text
//! hub ── watch of the upgrades ──────────┐
//!     ── watch of the reports shown ──> Fleet ── changes since the last message ──> page (server-sent events)
//! ```
//!
//! [`feed`] watches the hub, [`fleet`] knows what has changed, [`stream`] tells each page, and [`message`] is what it tells.
//! [`state`] is what pages share, [`server`] answers requests, [`guard`] refuses those that are not from the page, and [`assets`] are the files of the page.

pub mod actions;
pub mod assets;
pub mod feed;
pub mod fleet;
pub mod guard;
pub mod message;
pub mod report;
pub mod server;
pub mod state;
pub mod stream;
