//! The faults of a run: which there are, and which of their occasions one of them strikes.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// A fault of the network or of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The request never arrives.
    Lost,
    /// The request is carried out, and its answer is lost.
    AnswerLost,
    /// The request is carried out long after its sender gave up.
    Late,
    /// 429 with Retry-After.
    TooManyRequests,
    /// 500.
    InternalError,
    /// 503.
    Unavailable,
    /// A watch ends without a word.
    WatchCut,
    /// A watch delivers nothing more and does not end.
    WatchSilent,
    /// The history of the hub is forgotten.
    Compaction,
    /// A replica is killed.
    Kill,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Lost,
        Self::AnswerLost,
        Self::Late,
        Self::TooManyRequests,
        Self::InternalError,
        Self::Unavailable,
        Self::WatchCut,
        Self::WatchSilent,
        Self::Compaction,
        Self::Kill,
    ];

    /// Its name in outputs and stories.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::AnswerLost => "answer-lost",
            Self::Late => "late",
            Self::TooManyRequests => "429",
            Self::InternalError => "500",
            Self::Unavailable => "503",
            Self::WatchCut => "watch-cut",
            Self::WatchSilent => "watch-silent",
            Self::Compaction => "compaction",
            Self::Kill => "kill",
        }
    }
}

/// One fault of a run: which, on whose what, and at which of its occasions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Occasion {
    /// The fault.
    pub fault: Fault,
    /// What it struck, for example `r0 POST /apis/…`.
    pub name: String,
    /// How many such things there were, this one included.
    pub count: u64,
}

/// Which faults happen.
#[derive(Clone, Debug)]
pub enum Faults {
    /// As often as the options say.
    ByRate,
    /// Only these.
    Only(BTreeSet<Occasion>),
}
