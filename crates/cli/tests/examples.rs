//! The directories of `examples/`: what a user would apply passes lint.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod outcome;

use repository::root;

use self::outcome::Outcome;

#[test]
fn every_example_passes_lint() {
    let mut found = 0;
    for entry in std::fs::read_dir(root().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let linted = Outcome::of(&["lint", "-f", path.to_str().unwrap()], |command| command);
            assert_eq!(
                linted.code,
                Some(0),
                "{}: {}{}",
                path.display(),
                linted.out,
                linted.err
            );
            assert!(linted.err.contains("1 checked, 0 violations"), "{}", linted.err);
            found += 1;
        }
    }
    assert!(found >= 5, "{found}");
}
