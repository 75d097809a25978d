//! Closed sets of label values.

/// Why we ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// No request followed in time.
    Idle,
    /// A request's head did not arrive in time.
    SlowHead,
    /// An answer was not taken in time.
    SlowReader,
    /// All places were taken and it had waited longest for its client.
    MadeRoom,
}

impl Closed {
    pub(super) const ALL: [Self; 4] = [Self::Idle, Self::SlowHead, Self::SlowReader, Self::MadeRoom];

    pub(super) fn label(self) -> [(&'static str, &'static str); 1] {
        let reason = match self {
            Self::Idle => "idle",
            Self::SlowHead => "slow_head",
            Self::SlowReader => "slow_reader",
            Self::MadeRoom => "made_room",
        };
        [("reason", reason)]
    }
}

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
