//! docs/reliability.md names a test for each promise: every name must be that of a test.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result};

const PAGE: &str = "docs/reliability.md";

/// Names in the page that no test has; `sources` is the text of every Rust file.
pub(super) fn violations(root: &Path, sources: &[String]) -> Result<Vec<String>> {
    let page = std::fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let known: BTreeSet<&str> = sources.iter().flat_map(|text| tests(text)).collect();
    let unknown = names(&page).filter(|name| !known.contains(name));
    Ok(unknown
        .map(|name| format!("{PAGE}: no test is called `{name}`"))
        .collect())
}

/// What stands in backticks and looks like the name of a test; series of metrics begin with `mcu_`.
fn names(page: &str) -> impl Iterator<Item = &str> {
    page.split('`').skip(1).step_by(2).filter(|text| {
        let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        text.chars().all(plain) && text.contains('_') && !text.starts_with("mcu_")
    })
}

/// Names of the functions that follow an attribute with `test` in it.
fn tests(source: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut marked = false;
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[") {
            marked |= line.contains("test");
        } else if let Some((_, rest)) = line.split_once("fn ") {
            found.extend(rest.split(['(', '<']).next().filter(|_| marked));
            marked = false;
        } else if !line.starts_with("//") {
            marked = false;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_the_page_that_no_test_has_is_told() {
        let source =
            "#[tokio::test(start_paused = true)]\n    async fn it_holds() {\n}\nfn it_is_a_helper() {}\n";
        assert_eq!(tests(source), ["it_holds"]);
        let page =
            "| x | `it_holds`, `it_is_gone` | `mcu_write_limit` `--allow-hub` `Blocked(X)` `ClockSkew` |";
        assert_eq!(names(page).collect::<Vec<_>>(), ["it_holds", "it_is_gone"]);
    }
}
