//! Closed sets of label values.

/// What is read from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Releases, or a served graph.
    Releases,
    /// Channels and blocked edges.
    GraphData,
}

impl Source {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Releases, Self::GraphData];

    /// As a label and in logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Releases => "releases",
            Self::GraphData => "graph_data",
        }
    }
}
