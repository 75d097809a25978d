//! The syntax tree of a JSONPath.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Field(String),
    Wildcard,
    Recursive,
    Slice(Slice),
    Union(Vec<Vec<Node>>),
    Exists(Vec<Node>),
    Compare {
        left: Vec<Node>,
        operator: String,
        right: Vec<Node>,
    },
    Literal(Value),
    Identifier(String),
}

/// `[start:end:step]`. A plain `[start]` has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub start: Option<i64>,
    pub end: End,
    pub step: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// `[start]`
    Single,
    /// `[start:]`
    Open,
    /// `[start:end]`
    At(i64),
}
