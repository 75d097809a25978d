//! What the controller publishes about an upgrade: rows of reports, status and Events.

mod approvals;
pub mod asked;
mod causes;
pub mod conditions;
pub mod estimate;
mod in_doubt;
pub mod input;
pub(crate) mod kept;
pub mod notable;
mod outdated;
mod refusals;
pub mod row;
pub mod rows;
pub mod shard;
pub mod status;
pub mod tally;
pub mod text;
pub mod writer;
