//! Every `select!` of a crate that simulations run is `biased`: otherwise it polls its branches in random order, and the same seed
//! would not give the same run.

use std::path::Path;

use anyhow::Result;

use super::source::{self, Token};

/// The crates, by the directory of their sources.
const CRATES: [&str; 4] = ["controller", "hub-sim", "simulation", "spoke-sim"];

/// Files with a `select!` that is not biased.
pub(super) fn violations(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for name in CRATES {
        let directory = format!("crates/{name}/src");
        for module in source::modules(&root.join(&directory).join("lib.rs"))? {
            let count = unbiased(&module.code);
            if count > 0 {
                found.push(format!(
                    "{directory}/{}: {count} select! without `biased;`, which polls its branches in random order",
                    module.file
                ));
            }
        }
    }
    Ok(found)
}

/// The number of uses of `select!` whose first word is not `biased`.
fn unbiased(code: &str) -> usize {
    let tokens = source::tokens(code);
    let is_use = |at: &usize| tokens[*at..].starts_with(&[Token::Word("select"), Token::Other('!')]);
    let is_biased = |at: usize| tokens.get(at + 3) == Some(&Token::Word("biased"));
    (0..tokens.len())
        .filter(is_use)
        .filter(|at| !is_biased(*at))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_select_that_does_not_begin_with_biased_is_counted() {
        let good =
            "tokio::select! { biased; a = b => {} } select!(biased; a = b => {}); select(a); x.select()";
        assert_eq!(unbiased(good), 0);
        let bad = "tokio::select! { a = b => {} } if c { select!(a = b => {}) } tokio::select! { biased; a = b => {} }";
        assert_eq!(unbiased(bad), 2);
        assert_eq!(
            unbiased(&source::code(
                "#[cfg(test)] mod t { fn f() { select! { a = b => {} } } }"
            )),
            0
        );
    }
}
