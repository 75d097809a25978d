//! What others may know of an upgrade: its report rows and its status, computed from what was observed after applying.

pub mod announce;
pub mod conditions;
pub(crate) mod kept;
pub mod line;
mod refusals;
pub mod rows;
pub mod status;
pub mod writer;
