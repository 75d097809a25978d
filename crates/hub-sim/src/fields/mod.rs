//! Field ownership: which manager owns which fields, and what a write does to that.

mod managers;
mod merge;
mod set;

pub use self::managers::{Conflict, Manager, Managers, Operation};
pub use self::set::FieldSet;
