//! What the law found odd and acted on without stopping. The caller logs it; it has no other effect.

use std::fmt;

/// A finding. Its text is the one that shipped, where one shipped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Diagnostic {
    /// The graph lists a target as conditional and as unconditional.
    InBothLists {
        /// The target's version.
        version: String,
    },
    /// A risk has no rule that this operator can evaluate: its target is not offered at all.
    TargetDropped {
        /// The target's version.
        version: String,
        /// The risk.
        risk: String,
        /// What was wrong with the rules.
        why: String,
    },
    /// Some rules of a risk were left out; others remain.
    RulesPruned {
        /// The target's version.
        version: String,
        /// The risk.
        risk: String,
        /// What was wrong with the rules.
        why: String,
    },
    /// Several conditional edges lead to one target: none is offered.
    TargetsAmbiguous {
        /// The target's version.
        version: String,
        /// How many there were.
        count: usize,
    },
    /// A conditional target that its schema would refuse: without risks, or with one risk's name twice.
    TargetRefused {
        /// The target's version.
        version: String,
        /// What is wrong with it.
        why: String,
    },
    /// A key in admin-acks that no gate has.
    UnrecognizedAck {
        /// The key.
        key: String,
    },
    /// A release has the version of the running one and another image, so that its metadata are not used.
    MetadataMismatch {
        /// The version.
        version: String,
        /// The image in the graph.
        image: String,
    },
    /// A risk could not be merged into the updates it concerns.
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
