//! Retries of chosen clusters.

use std::sync::Arc;

use super::PolicyBuilder;
use crate::model::{PendingRetry, RetryScope};

impl PolicyBuilder {
    /// A retry token that the status has not observed yet.
    pub fn retry(mut self, token: &str) -> Self {
        self.0.retry = Some(PendingRetry::all(token));
        self
    }

    /// A retry of the spec for these clusters and reasons, both sorted.
    pub fn retry_of(mut self, token: &str, clusters: &[&str], reasons: &[&str]) -> Self {
        let words = |words: &[&str]| words.iter().map(|word| Arc::from(*word)).collect();
        self.0.retry = Some(PendingRetry {
            scope: Some(RetryScope {
                clusters: words(clusters),
                reasons: words(reasons),
                later: Vec::new(),
            }),
            ..PendingRetry::all(token)
        });
        self
    }
}
