//! Which retry is to be carried out next: that of the annotation, else the first of the spec that was not.

use std::sync::Arc;

use api::mcu::{ManagedClustersUpgradeSpec, ManagedClustersUpgradeStatus, RetryRequest};
use api::names::ANNOTATION_RETRY_FAILED;
use api::text::is_not_yaml;
use api::views::Upgrade;
use rollout::{PendingRetry, RetryScope};

use crate::spec::short_hash;

/// Maximum length of the annotation's token, in bytes.
const MAX_TOKEN: usize = 128;
/// How many retries of specs the status remembers.
const MAX_REMEMBERED: usize = 64;

/// The retries that were carried out, as the status says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CarriedOut {
    /// That of the annotation.
    pub token: Option<String>,
    /// Those of the spec.
    pub retries: Vec<String>,
}

impl CarriedOut {
    /// What a status says.
    #[must_use]
    pub fn of(status: &ManagedClustersUpgradeStatus) -> CarriedOut {
        CarriedOut {
            token: status.observed_retry.clone(),
            retries: status.retries.clone(),
        }
    }

    /// What the status of a restored object says. None of its retries must start anything.
    #[must_use]
    pub fn of_restored(upgrade: &Upgrade, spec: &ManagedClustersUpgradeSpec) -> CarriedOut {
        let requests = spec.upgrade_strategy.retry.iter();
        CarriedOut {
            token: pending_token(upgrade, None).map(|token| token.to_string()),
            retries: requests.map(|request| request.id.clone()).collect(),
        }
    }

    /// The same with one more. Of those that the spec does not have any more, the newest are kept, as many as the status has room for.
    #[must_use]
    pub fn and(&self, retry: &PendingRetry, spec: &ManagedClustersUpgradeSpec) -> CarriedOut {
        let mut all = self.clone();
        let token = retry.token.to_string();
        if retry.scope.is_none() {
            all.token = Some(token);
            return all;
        }
        all.retries.retain(|known| *known != token);
        all.retries.push(token);
        let mut surplus = all.retries.len().saturating_sub(MAX_REMEMBERED);
        all.retries.retain(|known| {
            let mut requests = spec.upgrade_strategy.retry.iter();
            let is_dropped = surplus > 0 && !requests.any(|request| request.id == *known);
            surplus -= usize::from(is_dropped);
            !is_dropped
        });
        all
    }
}

/// The retry to carry out, if the status does not say of one that it was.
#[must_use]
pub fn pending(
    upgrade: &Upgrade,
    spec: &ManagedClustersUpgradeSpec,
    status: Option<&ManagedClustersUpgradeStatus>,
) -> Option<PendingRetry> {
    let observed = status.and_then(|status| status.observed_retry.as_deref());
    let carried_out = status.map_or(&[][..], |status| &status.retries);
    let of_annotation = pending_token(upgrade, observed).map(|token| PendingRetry { token, scope: None });
    of_annotation.or_else(|| of_spec(&spec.upgrade_strategy.retry, carried_out))
}

fn of_spec(requests: &[RetryRequest], carried_out: &[String]) -> Option<PendingRetry> {
    let next = requests
        .iter()
        .position(|request| !carried_out.contains(&request.id))?;
    let sorted = |words: &[String]| {
        let mut words: Vec<Arc<str>> = words.iter().map(|word| Arc::from(word.as_str())).collect();
        words.sort_unstable();
        words
    };
    let request = requests.get(next)?;
    // Whoever writes the newest entry first means it, too, for clusters that an older one has retried.
    let later = requests.iter().skip(next + 1);
    let later = later.filter(|request| !carried_out.contains(&request.id));
    Some(PendingRetry {
        token: Arc::from(request.id.as_str()),
        scope: Some(RetryScope {
            clusters: sorted(&request.clusters),
            reasons: sorted(&request.reasons),
            later: later.map(|request| Arc::from(request.id.as_str())).collect(),
        }),
    })
}

/// The retry token of the annotation if it has not been observed yet.
#[must_use]
pub fn pending_token(upgrade: &Upgrade, observed: Option<&str>) -> Option<Arc<str>> {
    let value = upgrade
        .metadata
        .annotations
        .as_ref()?
        .get(ANNOTATION_RETRY_FAILED)?;
    let token = token_of(value);
    (!token.is_empty() && observed != Some(token.as_str())).then(|| Arc::from(token))
}

/// The token that a value of the annotation gives, as the status tells it. A value that is too long, or cannot be written by
/// server-side apply, is replaced by its beginning and its hash, because works, rows and the status contain it.
#[must_use]
pub fn token_of(value: &str) -> String {
    if value.len() <= MAX_TOKEN && !value.chars().any(is_not_yaml) {
        return value.to_owned();
    }
    let plain = value.chars().filter(|char| !is_not_yaml(*char));
    let start = plain.take(MAX_TOKEN / 4).collect::<String>();
    format!("{start}-{}", short_hash(value))
}

#[cfg(test)]
mod tests;
