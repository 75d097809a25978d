//! Field ownership: which manager owns which fields, and what a write does to that. The algorithms are those of
//! structured-merge-diff, which server-side apply is made of.

mod managers;
mod merge;
mod set;
mod walk;

pub use self::managers::{Conflict, Manager, Managers, Operation, Rules};
pub use self::set::FieldSet;
