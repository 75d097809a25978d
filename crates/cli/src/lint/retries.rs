//! Retries that are limited to reasons for which no cluster fails. They are carried out and retry nothing.

use rollout::Reason;
use serde_json::Value;

use super::schema::Problem;

/// The reasons of clusters that are Failed or `PreActionDegraded`.
const OF_FAILURES: [Reason; 10] = [
    Reason::ClusterUpgradeTimeout,
    Reason::WorkerPoolsTimeout,
    Reason::OperatorsUpgradeTimeout,
    Reason::OperatorsJobFailed,
    Reason::PreActionFailed,
    Reason::PreActionTimeout,
    Reason::PostActionFailed,
    Reason::PostActionTimeout,
    Reason::RegressedInSoak,
    Reason::LeftSelection,
];

/// Warns about each such reason, with the one that its author may have meant.
pub(super) fn of_no_failure(object: &Value) -> Vec<Problem> {
    let retries = object["spec"]["upgradeStrategy"]["retry"].as_array();
    let mut found = Vec::new();
    for (index, retry) in retries.into_iter().flatten().enumerate() {
        let reasons = retry["reasons"].as_array().into_iter().flatten().enumerate();
        for (position, reason) in reasons.filter_map(|(position, reason)| Some((position, reason.as_str()?)))
        {
            // What is no word is an error of its own.
            let is_word = !reason.is_empty() && reason.bytes().all(|byte| byte.is_ascii_alphanumeric());
            if !is_word || OF_FAILURES.iter().any(|known| known.as_str() == reason) {
                continue;
            }
            let advice = nearest(reason).map_or_else(
                || "see the reasons that kubectl mcu causes shows".to_owned(),
                |known| format!("write {known}, if that is meant"),
            );
            found.push(Problem::warning(
                format!("spec.upgradeStrategy.retry[{index}].reasons[{position}]"),
                format!("{reason:?} has no effect, because no cluster fails for it, and the retry is carried out only once; {advice}"),
            ));
        }
    }
    found
}

/// The reason with the most letters in common, if these are more than the others.
fn nearest(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    let share = |known: &&str| {
        let common = common_letters(word.as_bytes(), known.to_ascii_lowercase().as_bytes());
        2 * 1000 * common / (word.len() + known.len())
    };
    let best = OF_FAILURES
        .iter()
        .map(|reason| reason.as_str())
        .max_by_key(share)?;
    (share(&best) > 500).then_some(best)
}

/// Length of the longest sequence of letters that both have in this order.
fn common_letters(one: &[u8], other: &[u8]) -> usize {
    let mut row = vec![0; other.len() + 1];
    for letter in one {
        let mut diagonal = 0;
        for (index, theirs) in other.iter().enumerate() {
            let above = row[index + 1];
            row[index + 1] = if letter == theirs {
                diagonal + 1
            } else {
                above.max(row[index])
            };
            diagonal = above;
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests;
