//! docs/reliability.md names a test for each promise: every name must be that of a test.

use std::collections::BTreeSet;
use std::path::Path;

use super::references::Text;

const PAGE: &str = "docs/reliability.md";

/// Names in the page that no test has, or that the page is missing.
pub(super) fn violations(texts: &[Text]) -> Vec<String> {
    let Some((_, page)) = texts.iter().find(|(path, _)| path == Path::new(PAGE)) else {
        return vec![format!("{PAGE} is missing")];
    };
    let is_rust = |path: &Path| path.extension().is_some_and(|extension| extension == "rs");
    let sources = texts.iter().filter(|(path, _)| is_rust(path));
    let known: BTreeSet<&str> = sources.flat_map(|(_, text)| tests(text)).collect();
    let unknown = names(page).filter(|name| !known.contains(name));
    unknown
        .map(|name| format!("{PAGE}: no test is called `{name}`"))
        .collect()
}

/// Texts in backticks that look like the name of a test. Series of metrics begin with `mcu_`.
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
