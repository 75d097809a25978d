use super::*;

#[test]
fn numbers_and_phrases_of_notes_are_found_and_words_like_them_are_not() {
    for (text, note) in [
        ("// see R7b", "R7b"),
        ("as A19 asks", "A19"),
        ("Case 12: a canary", "Case 12"),
        ("what the issue says", "the issue"),
        ("shared/design/x", "shared/"),
        ("see reference/x.md", "reference/"),
    ] {
        assert_eq!(notes(text), [note], "{text}");
    }
    for text in [
        "RFC7231, A, R, A100x, R2D2, in case 3 fails, the issuer, an issue",
        "`../shared/data`, docs/reference/cli.md, [reference/crd](../reference/crd.md)",
        "unshared/x, --seed 3, the seed of the draw",
    ] {
        assert!(notes(text).is_empty(), "{text}: {:?}", notes(text));
    }
}

fn texts(list: &[(&str, &str)]) -> Vec<Text> {
    list.iter()
        .map(|(path, text)| (PathBuf::from(path), (*text).to_owned()))
        .collect()
}

#[test]
fn a_page_or_heading_that_is_cited_must_exist() {
    let rules = (
        "docs/design/rules.md",
        "# Rules\n### The `canary` gate, again\n```\n# none\n```\n### Twice\n### Twice\n",
    );
    let good =
        "// docs/design/rules.md#the-canary-gate-again, docs/design/rules.md#twice-1. docs/design/rules.md.";
    assert!(violations(&texts(&[rules, ("crates/a/src/b.rs", good)])).is_empty());
    let bad = "\n// docs/design/rules.md#none\n// docs/design/gone.md";
    assert_eq!(
        violations(&texts(&[rules, ("crates/a/src/b.rs", bad)])),
        [
            "crates/a/src/b.rs:2: docs/design/rules.md has no heading #none",
            "crates/a/src/b.rs:3: docs/design/gone.md does not exist",
        ]
    );
}

#[test]
fn links_of_pages_are_relative_and_checked_too() {
    let page = "[a](b.md#x) [c](../guide/d.md) [e](#own) [f](https://g/h.md) [i](../../README.md)\n# Own\n";
    let found = violations(&texts(&[
        ("docs/design/page.md", page),
        ("docs/design/b.md", "# Y"),
        ("README.md", "see docs/design/b.md"),
    ]));
    assert_eq!(
        found,
        [
            "docs/design/page.md:1: docs/design/b.md has no heading #x",
            "docs/design/page.md:1: docs/guide/d.md does not exist",
        ]
    );
}
