//! What a broken controller would do, played at its wire: each mutation must be found by a rule.

/// A way in which the controller is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutation {
    /// A start is carried out for another cluster, too.
    StartTwo,
}
