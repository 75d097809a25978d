//! Retries: which clusters that failed are to be tried again.

use std::sync::Arc;

use crate::model::record::{Attempt, Record};

/// A retry that is to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingRetry {
    /// What makes it a retry of its own. The attempts that it causes have it.
    pub token: Arc<str>,
    /// The clusters that it is limited to; `None` for the retry of all that the annotation asks for.
    pub scope: Option<RetryScope>,
}

/// The clusters of an entry of `spec.upgradeStrategy.retry`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryScope {
    /// Names of the clusters, sorted. Empty: all.
    pub clusters: Vec<Arc<str>>,
    /// Reasons for which they failed, sorted. Empty: any.
    pub reasons: Vec<Arc<str>>,
    /// Tokens of the entries that follow. A cluster that one of them has retried was retried by this one before, even if the status
    /// that said so is lost.
    pub later: Vec<Arc<str>>,
}

impl PendingRetry {
    /// The retry of all clusters that failed.
    #[must_use]
    pub fn all(token: &str) -> PendingRetry {
        PendingRetry {
            token: Arc::from(token),
            scope: None,
        }
    }

    /// True when a cluster that failed is to be tried again, by its name and record.
    #[must_use]
    pub fn concerns(&self, cluster: &str, record: &Record) -> bool {
        let Some(scope) = &self.scope else { return true };
        let has = |names: &[Arc<str>], wanted: &str| {
            names.is_empty() || names.binary_search_by(|name| (**name).cmp(wanted)).is_ok()
        };
        has(&scope.clusters, cluster)
            && has(&scope.reasons, record.reason_text())
            && !scope.later.iter().any(|token| record.attempt.is_of_retry(token))
    }

    /// True when this retry caused the attempt.
    #[must_use]
    pub fn has_caused(&self, attempt: &Attempt) -> bool {
        attempt.is_of_retry(&self.token)
    }
}
