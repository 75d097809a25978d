//! Findings that do not stop the operator. The caller logs them.

use std::fmt;

/// A finding. Its text is that of the real operator, if that has one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Diagnostic {
    /// The graph has a target both as a conditional and as an unconditional update.
    InBothLists {
        /// The target's version.
        version: String,
    },
    /// A risk has no rule that this operator can evaluate, so its target is not offered.
    TargetDropped {
        /// The target's version.
        version: String,
        /// The risk.
        risk: String,
        /// What was wrong with the rules.
        why: String,
    },
    /// Some rules of a risk were ignored, others remain.
    RulesPruned {
        /// The target's version.
        version: String,
        /// The risk.
        risk: String,
        /// What was wrong with the rules.
        why: String,
    },
    /// Several conditional edges lead to the same target, so it is not offered.
    TargetsAmbiguous {
        /// The target's version.
        version: String,
        /// How many there were.
        count: usize,
    },
    /// The schema would refuse a conditional target, for example because it has no risks or the same risk twice.
    TargetRefused {
        /// The target's version.
        version: String,
        /// What is wrong with it.
        why: String,
    },
    /// A key in admin-acks belongs to no gate.
    UnrecognizedAck {
        /// The key.
        key: String,
    },
    /// A release in the graph has the version but not the image of the running one, so its metadata is not used.
    MetadataMismatch {
        /// The version.
        version: String,
        /// The image in the graph.
        image: String,
    },
    /// A risk could not be merged into the updates that it affects.
    RiskNotMerged {
        /// What is wrong with it.
        why: String,
    },
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InBothLists { version } => write!(
                f,
                "Update to {version} listed as both a conditional and unconditional update; preferring the conditional update."
            ),
            Self::TargetDropped { version, risk, why } => write!(
                f,
                "Conditional update to {version}, risk {risk:?}, has empty pruned matchingRules; dropping this target to avoid rejections when pushing to the Kubernetes API server. Pruning results: {why}"
            ),
            Self::RulesPruned { version, risk, why } => write!(
                f,
                "Conditional update to {version}, risk {risk:?}, has pruned matchingRules (although other valid, recognized matchingRules were given, and are sufficient to keep the conditional update): {why}"
            ),
            Self::TargetsAmbiguous { version, count } => write!(
                f,
                "Upstream declares {count} conditional updates to {version}; dropping them all."
            ),
            Self::TargetRefused { version, why } => {
                write!(f, "Conditional update to {version} {why}; dropping this target.")
            }
            Self::UnrecognizedAck { key } => {
                write!(
                    f,
                    "admin-acks configmap has the key {key:?}, which no gate in admin-gates has."
                )
            }
            Self::MetadataMismatch { version, image } => write!(
                f,
                "No available update found matching the digest of the running release, although there was a match for version {version:?} with a different tag or digest {image:?}"
            ),
            Self::RiskNotMerged { why } => write!(f, "merging risks failed: {why}"),
        }
    }
}
