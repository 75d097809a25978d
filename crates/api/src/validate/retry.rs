//! The rules for retries of chosen clusters.

use std::collections::BTreeSet;

use super::{SpecViolation, check_cluster, violation};
use crate::mcu::{MAX_RETRIES, RetryRequest};

/// Longest name of a retry, and longest reason.
const MAX_WORD: usize = 64;

pub(super) fn check_retries(retries: &[RetryRequest], found: &mut Vec<SpecViolation>) {
    let field = "spec.upgradeStrategy.retry";
    if retries.len() > MAX_RETRIES {
        found.push(violation(
            field,
            format!("may have at most {MAX_RETRIES} entries; remove those that status.retries lists"),
        ));
    }
    let mut seen = BTreeSet::new();
    for (index, retry) in retries.iter().enumerate() {
        let field = format!("{field}[{index}]");
        if !is_id(&retry.id) {
            found.push(violation(
                format!("{field}.id"),
                format!("{:?} must be at most {MAX_WORD} letters, digits, ., _ and -, beginning and ending with a letter or digit, such as 2026-11-22-a", retry.id),
            ));
        }
        if !seen.insert(&retry.id) {
            found.push(violation(
                format!("{field}.id"),
                format!("{} is there twice; each retry needs a name of its own", retry.id),
            ));
        }
        for (position, cluster) in retry.clusters.iter().enumerate() {
            check_cluster(&format!("{field}.clusters[{position}]"), cluster, found);
        }
        for (position, reason) in retry.reasons.iter().enumerate() {
            if !is_reason(reason) {
                found.push(violation(
                    format!("{field}.reasons[{position}]"),
                    format!("{reason:?} must be a reason in one word, such as OperatorsJobFailed, as kubectl mcu causes shows it"),
                ));
            }
        }
    }
}

/// True for a name of a retry: works and rows contain it.
fn is_id(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let may_be_in = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    text.len() <= MAX_WORD && is_end(bytes.first()) && is_end(bytes.last()) && bytes.iter().all(may_be_in)
}

fn is_reason(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_WORD && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(retries: &[RetryRequest]) -> Vec<String> {
        let mut found = Vec::new();
        check_retries(retries, &mut found);
        found.into_iter().map(|violation| violation.field).collect()
    }

    fn retry(id: &str) -> RetryRequest {
        RetryRequest {
            id: id.to_owned(),
            ..RetryRequest::default()
        }
    }

    #[test]
    fn a_retry_has_a_short_name_of_its_own() {
        assert_eq!(
            fields(&[retry("2026-11-22-a"), retry("b"), retry(&"c".repeat(64))]),
            Vec::<String>::new()
        );
        for id in ["", "a b", "-a", "a-", "a/b", "\u{e4}", &"c".repeat(65)] {
            assert_eq!(fields(&[retry(id)]), ["spec.upgradeStrategy.retry[0].id"], "{id}");
        }
        assert_eq!(
            fields(&[retry("a"), retry("a")]),
            ["spec.upgradeStrategy.retry[1].id"]
        );
        let many: Vec<RetryRequest> = (0..33).map(|number| retry(&format!("r{number}"))).collect();
        assert_eq!(fields(&many), ["spec.upgradeStrategy.retry"]);
    }

    #[test]
    fn clusters_and_reasons_are_names_that_can_exist() {
        let named = RetryRequest {
            clusters: vec!["edge-12".to_owned(), "Edge 12".to_owned()],
            reasons: vec![
                "OperatorsJobFailed".to_owned(),
                "Job failed".to_owned(),
                String::new(),
            ],
            ..retry("a")
        };
        let fields = fields(&[named]);
        let expected = ["clusters[1]", "reasons[1]", "reasons[2]"];
        assert_eq!(
            fields,
            expected.map(|field| format!("spec.upgradeStrategy.retry[0].{field}"))
        );
    }
}
